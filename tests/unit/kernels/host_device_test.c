/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "device/device.h"

static struct hetccl_device *open_host(void)
{
    struct hetccl_config config = {.device = HETCCL_DEVICE_HOST};
    struct hetccl_device *device = NULL;

    assert_int_equal(hetccl_device_open(&config, HETCCL_DEVICE_OF_THREAD, &device), HETCCL_OK);
    assert_non_null(device);
    return device;
}

static const struct hetccl_stream no_stream;

static void test_open(void **state)
{
    static const enum hetccl_device_choice choices[] = {HETCCL_DEVICE_AUTO, HETCCL_DEVICE_HOST};

    for (size_t i = 0; i < 2; i++) {
        /* No driver, whatever this machine has. */
        struct hetccl_config config = {.device = choices[i], .cuda_lib = "/nowhere/libcuda.so.1"};
        struct hetccl_device *device = NULL;

        assert_int_equal(hetccl_device_open(&config, 5, &device), HETCCL_OK);
        assert_string_equal(device->ops->name, "host");
        assert_true(device->ops->is_synchronous);
        assert_int_equal(device->ordinal, 0);
        assert_int_equal(device->pci_key, 0);
        assert_string_not_equal(device->arch, "");
        device->ops->close(device);
    }
}

static void test_open_absent_kind(void **state)
{
    static const enum hetccl_device_choice choices[] = {HETCCL_DEVICE_CUDA, HETCCL_DEVICE_HIP};
    static const char *const words[] = {"no CUDA driver: /nowhere/libcuda.so.1", "set HETCCL_DEVICE=host"};

    for (size_t i = 0; i < 2; i++) {
        struct hetccl_config config = {.device = choices[i], .cuda_lib = "/nowhere/libcuda.so.1"};
        struct hetccl_device *device = NULL;

        assert_int_equal(hetccl_device_open(&config, HETCCL_DEVICE_OF_THREAD, &device), HETCCL_ERR_USAGE);
        assert_null(device);
        assert_non_null(strstr(hetccl_last_error_thread(), words[i]));
    }
}

static void test_open_without_memory(void **state)
{
    struct hetccl_config config = {.device = HETCCL_DEVICE_HOST};
    struct hetccl_device *device = NULL;

    hetccl_fault_arm(HETCCL_FAULT_ALLOC, 1);
    assert_int_equal(hetccl_device_open(&config, HETCCL_DEVICE_OF_THREAD, &device), HETCCL_ERR_SYSTEM);
    hetccl_fault_arm(HETCCL_FAULT_ALLOC, 0);
    assert_null(device);
}

static void test_memory(void **state)
{
    static const size_t sizes[] = {1, 255, 4096, 4097, (2 << 20) - 1, 2 << 20, (5 << 20) + 3};
    struct hetccl_device *device = open_host();

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        unsigned char *memory = NULL;
        void *pointer = NULL;

        assert_int_equal(device->ops->mem_alloc(device, sizes[i], HETCCL_MEMORY_DEVICE, &pointer), HETCCL_OK);
        memory = pointer;
        assert_int_equal((uintptr_t)memory % 4096, 0);
        memory[0] = 1;
        memory[sizes[i] - 1] = 2;
        device->ops->mem_free(device, pointer, HETCCL_MEMORY_DEVICE);
    }
    device->ops->mem_free(device, NULL, HETCCL_MEMORY_PINNED);
    device->ops->close(device);
}

static void test_memory_failures(void **state)
{
    struct hetccl_device *device = open_host();
    void *memory = NULL;

    assert_int_equal(device->ops->mem_alloc(device, 0, HETCCL_MEMORY_DEVICE, &memory), HETCCL_ERR_ARG);
    assert_int_equal(device->ops->mem_alloc(device, SIZE_MAX, HETCCL_MEMORY_DEVICE, &memory),
                     HETCCL_ERR_SYSTEM);
    hetccl_fault_arm(HETCCL_FAULT_ALLOC, 1);
    assert_int_equal(device->ops->mem_alloc(device, 64, HETCCL_MEMORY_DEVICE, &memory), HETCCL_ERR_SYSTEM);
    hetccl_fault_arm(HETCCL_FAULT_ALLOC, 0);
    assert_non_null(strstr(hetccl_last_error_thread(), "no memory for 64 bytes"));
    assert_null(memory);
    device->ops->close(device);
}

static void test_work(void **state)
{
    struct hetccl_device *device = open_host();
    const int32_t x[] = {1, -2, 3}, y[] = {10, 20, -30};
    const void *srcs[] = {x, y};
    int32_t out[3];
    int64_t wide[3];
    struct hetccl_reduce reduce = {
        .dst = out, .srcs = srcs, .n_srcs = 2, .count = 3, .type = HETCCL_INT32, .red = HETCCL_SUM};

    assert_int_equal(device->ops->reduce(device, no_stream, &reduce), HETCCL_OK);
    assert_true(out[0] == 11 && out[1] == 18 && out[2] == -27);
    assert_int_equal(device->ops->copy(device, no_stream, out, x, sizeof(x)), HETCCL_OK);
    assert_memory_equal(out, x, sizeof(x));
    assert_int_equal(device->ops->copy(device, no_stream, NULL, NULL, 0), HETCCL_OK);
    assert_int_equal(device->ops->average_widen(device, no_stream, wide, y, 3, HETCCL_INT32, 3), HETCCL_OK);
    assert_true(wide[0] == 10 && wide[2] == -30);
    assert_int_equal(device->ops->average_narrow(device, no_stream, out, wide, 3, HETCCL_INT32, 3),
                     HETCCL_OK);
    assert_true(out[0] == 3 && out[1] == 6 && out[2] == -10);
    device->ops->close(device);
}

static void test_refused_work(void **state)
{
    struct hetccl_device *device = open_host();
    struct hetccl_scale scale = hetccl_scale_one(HETCCL_FLOAT32);
    const float x = 1;
    const void *srcs[] = {&x};
    float out = 5;
    struct hetccl_reduce reduce = {
        .dst = &out, .srcs = srcs, .n_srcs = 0, .count = 1, .type = HETCCL_FLOAT32, .red = HETCCL_MAX};

    assert_int_equal(device->ops->reduce(device, no_stream, &reduce), HETCCL_ERR_ARG);
    reduce.n_srcs = HETCCL_REDUCE_MAX_INPUTS + 1;
    assert_int_equal(device->ops->reduce(device, no_stream, &reduce), HETCCL_ERR_ARG);
    reduce.n_srcs = 1;
    reduce.scales = &scale;
    assert_int_equal(device->ops->reduce(device, no_stream, &reduce), HETCCL_ERR_ARG);
    assert_non_null(strstr(hetccl_last_error_thread(), "max can't have scaled inputs"));
    reduce.type = HETCCL_TYPES;
    assert_int_equal(device->ops->reduce(device, no_stream, &reduce), HETCCL_ERR_ARG);
    assert_int_equal(device->ops->average_widen(device, no_stream, &out, &x, 1, HETCCL_FLOAT32, 2),
                     HETCCL_ERR_ARG);
    assert_int_equal(device->ops->average_narrow(device, no_stream, &out, &x, 1, HETCCL_INT8, 0),
                     HETCCL_ERR_ARG);
    assert_true(out == 5);
    device->ops->close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_open_absent_kind),
        cmocka_unit_test(test_open_without_memory),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_memory_failures),
        cmocka_unit_test(test_work),
        cmocka_unit_test(test_refused_work),
    };

    return cmocka_run_group_tests_name("device/host", tests, NULL, NULL);
}
