/* SPDX-License-Identifier: Apache-2.0 */

/* What a communicator has to do with its device beside collectives, on the fake CUDA driver. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "comm/comm.h"
#include "device/device.h"
#include "fake_cuda.h"

struct CUctx_st;

static fake_cuda_live_objects_function *live_objects;
static unsigned (*retain)(struct CUctx_st **context, int device);
static unsigned (*release)(int device);
static unsigned (*set_current)(struct CUctx_st *context);

static void find(void *driver, const char *name, void *out)
{
    void *address = dlsym(driver, name);

    assert_non_null(address);
    memcpy(out, &address, sizeof(address));
}

/* A context of our own, that of the thread as a program would have it. */
static struct hetccl_device *open_device(int ordinal)
{
    struct hetccl_config config;
    struct hetccl_device *device = NULL;

    assert_int_equal(hetccl_config_parse(&config), HETCCL_OK);
    assert_int_equal(hetccl_device_open(&config, ordinal, &device), HETCCL_OK);
    return device;
}

static struct hetccl_comm *make_comm(int device)
{
    struct hetccl_comm_options options = {.is_blocking = true, .device = device};
    struct hetccl_comm *comm = NULL;

    assert_int_equal(hetccl_comm_alloc(&options, &comm), HETCCL_OK);
    return comm;
}

static void *make_in_thread(void *comm_out)
{
    *(struct hetccl_comm **)comm_out = make_comm(HETCCL_DEVICE_OF_THREAD);
    return NULL;
}

/* The number that is asked for, or the calling thread's own; whatever thread initialises it later. */
static void test_which_device(void **state)
{
    size_t n_live = live_objects();
    struct hetccl_comm *comm = make_comm(1);
    struct CUctx_st *context = NULL;
    pthread_t thread;

    assert_int_equal(hetccl_comm_device(comm), 1);
    assert_string_equal(hetccl_comm_device_name(comm), "cuda");
    assert_true(hetccl_comm_is_asynchronous(comm));
    hetccl_comm_abort(comm);
    assert_int_equal(retain(&context, 1), 0);
    assert_int_equal(set_current(context), 0);
    comm = make_comm(HETCCL_DEVICE_OF_THREAD);
    assert_int_equal(hetccl_comm_device(comm), 1);
    hetccl_comm_abort(comm);
    assert_int_equal(pthread_create(&thread, NULL, make_in_thread, &comm), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(hetccl_comm_device(comm), 0);
    hetccl_comm_abort(comm);
    assert_int_equal(set_current(NULL), 0);
    assert_int_equal(release(1), 0);
    assert_int_equal(live_objects(), n_live);
}

/* A device that isn't there is told by init: the handle is made, and the other ranks hear of it. */
static void test_no_such_device(void **state)
{
    struct hetccl_comm *comm = make_comm(7);
    struct hetccl_config config;
    uint8_t ids[1][HETCCL_UNIQUE_ID_BYTES];

    assert_string_equal(hetccl_comm_device_name(comm), "");
    assert_false(hetccl_comm_is_asynchronous(comm));
    assert_int_equal(hetccl_config_parse(&config), HETCCL_OK);
    assert_int_equal(hetccl_unique_id_create(&config, ids[0]), HETCCL_OK);
    assert_int_equal(hetccl_comm_init(comm, ids, 1, 1, 0), HETCCL_ERR_DEVICE);
    assert_non_null(strstr(hetccl_last_error_thread(), "device 7"));
    hetccl_comm_destroy(comm);
}

/* Nobody else holds the context: the memory must stay nevertheless. */
static void test_memory(void **state)
{
    size_t n_live = live_objects();
    struct hetccl_pointer pointer = {.kind = HETCCL_POINTER_UNKNOWN};
    struct hetccl_device *device;
    void *memory = NULL, *other = NULL;

    assert_int_equal(hetccl_comm_mem_alloc(1000, &memory), HETCCL_OK);
    assert_int_equal(hetccl_comm_mem_alloc(1000, &other), HETCCL_OK);
    assert_true(memory != other && (uintptr_t)memory % 256 == 0);
    device = open_device(0);
    assert_int_equal(device->ops->classify(device, memory, &pointer), HETCCL_OK);
    assert_int_equal(pointer.kind, HETCCL_POINTER_DEVICE);
    assert_true(pointer.base == memory && pointer.bytes == 1000 && pointer.has_ipc);
    assert_int_equal(hetccl_comm_mem_free(memory), HETCCL_OK);
    assert_int_equal(hetccl_comm_mem_free(other), HETCCL_OK);
    /* What cudaMalloc gave. */
    assert_int_equal(device->ops->mem_alloc(device, 64, HETCCL_MEMORY_DEVICE, &memory), HETCCL_OK);
    assert_int_equal(hetccl_comm_mem_free(memory), HETCCL_OK);
    device->ops->close(device);
    assert_int_equal(live_objects(), n_live);
    assert_int_equal(hetccl_comm_mem_alloc((size_t)1 << 60, &memory), HETCCL_ERR_DEVICE);
    assert_int_equal(live_objects(), n_live);
}

/* It runs behind what is on the stream already, and the host doesn't wait. */
static void test_bias(void **state)
{
    enum { COUNT = 3 };
    struct hetccl_comm *comm = make_comm(0);
    struct hetccl_device *device = open_device(0);
    struct hetccl_stream stream = {.handle = NULL};
    void *memory = NULL;
    float *values, *bias;
    uint32_t *gate;
    uint64_t deadline_ns = hetccl_deadline_ns(20);
    enum hetccl_status status = HETCCL_AGAIN;
    struct hetccl_call call = {.coll = HETCCL_ALLREDUCE, .count = COUNT, .type = HETCCL_FLOAT32};

    assert_int_equal(device->ops->mem_alloc(device, 4096, HETCCL_MEMORY_PINNED, &memory), HETCCL_OK);
    values = memset(memory, 0, 4096);
    bias = values + COUNT;
    gate = (uint32_t *)(values + 100);
    for (int i = 0; i < COUNT; i++) {
        values[i] = (float)i;
        bias[i] = 10;
    }
    assert_int_equal(device->ops->stream_create(device, HETCCL_STREAM_NORMAL, &stream), HETCCL_OK);
    assert_int_equal(device->ops->stream_wait_value(device, stream, gate, 1), HETCCL_OK);
    call.recv = values;
    call.stream = stream.handle;
    assert_int_equal(hetccl_comm_apply_bias(comm, &call, bias, HETCCL_SUM), HETCCL_OK);
    hetccl_sleep_ns(10 * HETCCL_NS_PER_MS);
    assert_true(values[2] == 2);
    __atomic_store_n(gate, 1, __ATOMIC_RELEASE);
    while (status == HETCCL_AGAIN && hetccl_now_ns() < deadline_ns)
        status = device->ops->stream_query(device, stream);
    assert_int_equal(status, HETCCL_OK);
    assert_true(values[0] == 10 && values[1] == 11 && values[2] == 12);
    device->ops->stream_destroy(device, stream);
    device->ops->mem_free(device, memory, HETCCL_MEMORY_PINNED);
    device->ops->close(device);
    hetccl_comm_abort(comm);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which_device),
        cmocka_unit_test(test_no_such_device),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_bias),
    };
    void *driver = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;

    if (driver == NULL || setenv("HETCCL_CUDA_LIB", argv[1], 1) != 0 ||
        setenv("HETCCL_DEVICE", "cuda", 1) != 0)
        return 2;
    find(driver, "fake_cuda_live_objects", &live_objects);
    find(driver, "cuDevicePrimaryCtxRetain", &retain);
    find(driver, "cuDevicePrimaryCtxRelease_v2", &release);
    find(driver, "cuCtxSetCurrent", &set_current);
    return cmocka_run_group_tests_name("comm, its device", tests, NULL, NULL);
}
