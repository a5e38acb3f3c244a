/* SPDX-License-Identifier: Apache-2.0 */

/* Which device is opened, and how the library's own kernels are loaded, on the fake driver. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "device/cuda/cuda_abi.h"
#include "device/device.h"
#include "fake_cuda.h"
#include "kernels/images.h"

static struct hetccl_config config;
static fake_cuda_fail_function *script;
static fake_cuda_live_objects_function *live_objects;
static fake_cuda_calls_function *calls;

static void find(void *driver, const char *name, void *out)
{
    void *address = dlsym(driver, name);

    assert_non_null(address);
    memcpy(out, &address, sizeof(address));
}

static struct hetccl_device *open_device(enum hetccl_device_choice choice, int ordinal)
{
    struct hetccl_config own = config;
    struct hetccl_device *device = NULL;

    own.device = choice;
    assert_int_equal(hetccl_device_open(&own, ordinal, &device), HETCCL_OK);
    return device;
}

static void test_auto(void **state)
{
    struct hetccl_device *device = open_device(HETCCL_DEVICE_AUTO, HETCCL_DEVICE_OF_THREAD);

    assert_string_equal(device->ops->name, "cuda");
    device->ops->close(device);
    assert_int_equal(setenv("FAKE_CUDA_DEVICES", "0", 1), 0);
    device = open_device(HETCCL_DEVICE_AUTO, HETCCL_DEVICE_OF_THREAD);
    assert_string_equal(device->ops->name, "host");
    device->ops->close(device);
    assert_int_equal(setenv("FAKE_CUDA_DEVICES", "2", 1), 0);
}

/* A driver that is broken otherwise is no reason to compute on the host. */
static void test_auto_with_a_broken_driver(void **state)
{
    struct hetccl_config own = config;
    struct hetccl_device *device = NULL;

    own.device = HETCCL_DEVICE_AUTO;
    script("cuInit", 1, 803);
    script("cuInit", 2, 803);
    assert_int_equal(hetccl_device_open(&own, HETCCL_DEVICE_OF_THREAD, &device), HETCCL_ERR_DEVICE);
    script("*", 0, 0);
    assert_null(device);
    assert_non_null(strstr(hetccl_last_error_thread(), "cuInit"));
}

static void test_ordinals(void **state)
{
    struct hetccl_config own = config;
    struct hetccl_device *device, *absent = NULL;
    void *memory = NULL;
    struct hetccl_pointer pointer;

    for (int ordinal = 0; ordinal < 2; ordinal++) {
        device = open_device(HETCCL_DEVICE_CUDA, ordinal);
        assert_int_equal(device->ordinal, ordinal);
        assert_int_equal(device->ops->mem_alloc(device, 64, HETCCL_MEMORY_DEVICE, &memory), HETCCL_OK);
        assert_int_equal(device->ops->classify(device, memory, &pointer), HETCCL_OK);
        assert_int_equal(pointer.ordinal, ordinal);
        device->ops->mem_free(device, memory, HETCCL_MEMORY_DEVICE);
        device->ops->close(device);
    }
    own.device = HETCCL_DEVICE_CUDA;
    assert_int_equal(hetccl_device_open(&own, 2, &absent), HETCCL_ERR_DEVICE);
    assert_non_null(strstr(hetccl_last_error_thread(), "device 2"));
    assert_null(absent);
}

static enum hetccl_status find_copy(struct hetccl_device *device)
{
    struct hetccl_kernel kernel = {.handle = NULL};
    enum hetccl_status status = device->ops->image_kernel(device, "hetccl_copy", &kernel);

    assert_true((status == HETCCL_OK) == (kernel.handle != NULL));
    return status;
}

static void *find_copy_in_thread(void *device)
{
    struct hetccl_kernel kernel = {.handle = NULL};
    struct hetccl_device *own = device;

    (void)own->ops->image_kernel(own, "hetccl_copy", &kernel);
    return kernel.handle;
}

/* Devices of one context share a module; it goes with the last of them, and not with the first. */
static void test_one_image_a_context(void **state)
{
    size_t n_live = live_objects();
    unsigned n_loads = calls("cuModuleLoadDataEx"), n_unloads = calls("cuModuleUnload");
    struct hetccl_device *first = open_device(HETCCL_DEVICE_CUDA, 0);
    struct hetccl_device *second = open_device(HETCCL_DEVICE_CUDA, 0);
    struct hetccl_device *other = open_device(HETCCL_DEVICE_CUDA, 1);

    assert_int_equal(calls("cuModuleLoadDataEx"), n_loads); /* not before it is needed */
    assert_int_equal(find_copy(first), HETCCL_OK);
    assert_int_equal(find_copy(second), HETCCL_OK);
    assert_int_equal(find_copy(second), HETCCL_OK);
    assert_int_equal(calls("cuModuleLoadDataEx"), n_loads + 1);
    assert_int_equal(find_copy(other), HETCCL_OK);
    assert_int_equal(calls("cuModuleLoadDataEx"), n_loads + 2);
    first->ops->close(first);
    assert_int_equal(calls("cuModuleUnload"), n_unloads);
    assert_int_equal(find_copy(second), HETCCL_OK);
    second->ops->close(second);
    assert_int_equal(calls("cuModuleUnload"), n_unloads + 1);
    other->ops->close(other);
    assert_int_equal(live_objects(), n_live);
}

static void test_threads_load_once(void **state)
{
    enum { THREADS = 4 };
    unsigned n_loads = calls("cuModuleLoadDataEx");
    struct hetccl_device *device = open_device(HETCCL_DEVICE_CUDA, 0);
    pthread_t threads[THREADS];
    void *handles[THREADS];

    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, find_copy_in_thread, device), 0);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], &handles[i]), 0);
    for (size_t i = 0; i < THREADS; i++)
        assert_true(handles[i] != NULL && handles[i] == handles[0]);
    assert_int_equal(calls("cuModuleLoadDataEx"), n_loads + 1);
    device->ops->close(device);
}

/* Each driver call of loading fails in turn, and the allocation; nothing is left, and the next try succeeds.
 */
static void test_loading_fails(void **state)
{
    struct hetccl_device *device = open_device(HETCCL_DEVICE_CUDA, 0);
    size_t n_live = live_objects();
    unsigned n_before = calls("*"), n_calls;

    assert_int_equal(find_copy(device), HETCCL_OK);
    n_calls = calls("*") - n_before;
    device->ops->close(device);
    device = open_device(HETCCL_DEVICE_CUDA, 0);
    for (unsigned k = 1; k <= n_calls; k++) {
        enum hetccl_status status;

        script("*", k, HETCCL_CUDA_ERROR_UNKNOWN);
        status = find_copy(device);
        script("*", 0, 0);
        if (status == HETCCL_OK) { /* what only puts the thread's state back */
            device->ops->close(device);
            device = open_device(HETCCL_DEVICE_CUDA, 0);
            continue;
        }
        assert_int_equal(status, HETCCL_ERR_DEVICE);
        assert_non_null(strstr(hetccl_last_error_thread(), "gave CUDA_ERROR_UNKNOWN (999)"));
        assert_int_equal(live_objects(), n_live);
    }
    hetccl_fault_arm(HETCCL_FAULT_ALLOC, 1);
    assert_int_equal(find_copy(device), HETCCL_ERR_SYSTEM);
    hetccl_fault_arm(HETCCL_FAULT_ALLOC, 0);
    assert_int_equal(find_copy(device), HETCCL_OK);
    device->ops->close(device);
}

static void test_mps(void **state)
{
    struct hetccl_device *device = open_device(HETCCL_DEVICE_CUDA, 0);

    assert_false(device->is_shared);
    device->ops->close(device);
    assert_int_equal(setenv("FAKE_CUDA_MPS", "1", 1), 0);
    device = open_device(HETCCL_DEVICE_CUDA, 0);
    assert_true(device->is_shared);
    device->ops->close(device);
    assert_int_equal(unsetenv("FAKE_CUDA_MPS"), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auto),
        cmocka_unit_test(test_auto_with_a_broken_driver),
        cmocka_unit_test(test_ordinals),
        cmocka_unit_test(test_one_image_a_context),
        cmocka_unit_test(test_threads_load_once),
        cmocka_unit_test(test_loading_fails),
        cmocka_unit_test(test_mps),
    };
    void *driver = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    size_t image_bytes;

    if (driver == NULL)
        return 2;
    if (hetccl_kernel_image_ptx(&image_bytes) == NULL)
        return 77;
    (void)snprintf(config.cuda_lib, sizeof(config.cuda_lib), "%s", argv[1]);
    find(driver, "fake_cuda_fail", &script);
    find(driver, "fake_cuda_live_objects", &live_objects);
    find(driver, "fake_cuda_calls", &calls);
    return cmocka_run_group_tests_name("device cuda, choice and image", tests, NULL, NULL);
}
