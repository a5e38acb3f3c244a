/* SPDX-License-Identifier: Apache-2.0 */

/* What only CUDA has: contexts, captures, managed memory. On the fake driver and on a GPU. */

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_abi.h"
#include "suite.h"

/* Driver functions that the device has no use for. */
struct driver {
    unsigned (*get_current)(struct CUctx_st **context);
    unsigned (*set_current)(struct CUctx_st *context);
    unsigned (*retain)(struct CUctx_st **context, int device);
    unsigned (*release)(int device);
    unsigned (*count)(int *count);
    unsigned (*alloc_managed)(hetccl_cu_address *address, size_t bytes, unsigned flags);
    unsigned (*free)(hetccl_cu_address address);
    unsigned (*begin_capture)(struct CUstream_st *stream, unsigned mode);
    unsigned (*end_capture)(struct CUstream_st *stream, struct CUgraph_st **graph);
};

static void find(struct suite *suite, const char *name, void *function_out)
{
    void *function = suite_driver_function(suite, name);

    if (!suite_check(suite, function != NULL, "no driver function %s", name))
        exit(1);
    memcpy(function_out, &function, sizeof(function));
}

static struct driver find_driver(struct suite *suite)
{
    struct driver driver;

    find(suite, "cuCtxGetCurrent", &driver.get_current);
    find(suite, "cuCtxSetCurrent", &driver.set_current);
    find(suite, "cuDevicePrimaryCtxRetain", &driver.retain);
    find(suite, "cuDevicePrimaryCtxRelease_v2", &driver.release);
    find(suite, "cuDeviceGetCount", &driver.count);
    find(suite, "cuMemAllocManaged", &driver.alloc_managed);
    find(suite, "cuMemFree_v2", &driver.free);
    find(suite, "cuStreamBeginCapture_v2", &driver.begin_capture);
    find(suite, "cuStreamEndCapture", &driver.end_capture);
    return driver;
}

static void case_arch(struct suite *suite)
{
    suite_check(suite, strncmp(suite->device->arch, "sm_", 3) == 0, "arch %s", suite->device->arch);
    suite_check(suite, suite->device->lane_threads == 32, "lanes %u", suite->device->lane_threads);
    suite_check(suite, suite->device->has_ipc && suite->device->has_modules, "has_*");
    suite_check(suite, strcmp(suite->ops->error_name(suite->device, 2), "CUDA_ERROR_OUT_OF_MEMORY") == 0,
                "name of code 2");
}

static void use_device(struct suite *suite)
{
    void *memory = suite_memory(suite, 4096, HETCCL_MEMORY_DEVICE);
    struct hetccl_event event = {.handle = NULL};
    struct hetccl_stream none = {.handle = NULL};

    suite_expect_ok(suite, suite->ops->event_create(suite->device, &event), "event");
    suite_expect_ok(suite, suite->ops->event_record(suite->device, event, none), "record");
    suite_finish(suite, none);
    suite->ops->event_destroy(suite->device, event);
    suite->ops->mem_free(suite->device, memory, HETCCL_MEMORY_DEVICE);
}

/* A thread without a context has none afterwards, not even where operations fail. */
static void *thread_without_context(void *arg)
{
    struct suite *suite = arg;
    struct driver driver = find_driver(suite);
    struct CUctx_st *current = NULL;
    void *memory = NULL;

    suite_check(suite, driver.get_current(&current) == 0 && current == NULL, "a new thread has a context");
    use_device(suite);
    suite_check(suite,
                suite->ops->mem_alloc(suite->device, (size_t)1 << 60, HETCCL_MEMORY_DEVICE, &memory) ==
                    HETCCL_ERR_DEVICE,
                "2^60 bytes");
    suite_check(suite, driver.get_current(&current) == 0 && current == NULL, "the thread has a context now");
    return NULL;
}

static void case_no_context(struct suite *suite)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, thread_without_context, suite);

    if (error == 0)
        (void)pthread_join(thread, NULL);
    suite_check(suite, error == 0, "no thread: error %d", error);
}

/* Opened while a context is current, the device is that context's. */
static void open_in_context(struct suite *suite, const struct driver *driver, int ordinal)
{
    static struct hetccl_config config;
    struct hetccl_device *device = NULL, *before = suite->device;
    struct CUctx_st *context = NULL, *current = NULL;
    size_t bytes = strlen(suite->library);

    memcpy(config.cuda_lib, suite->library, bytes < sizeof(config.cuda_lib) ? bytes : 0);
    suite_check(suite, driver->retain(&context, ordinal) == 0 && driver->set_current(context) == 0,
                "context");
    suite_expect_ok(suite, hetccl_device_cuda_open(&config, HETCCL_DEVICE_OF_THREAD, &device), "open");
    suite_check(suite, device->ordinal == ordinal, "ordinal %d, wanted %d", device->ordinal, ordinal);
    use_device(suite); /* the device of the suite, in another one's context */
    suite->device = device;
    use_device(suite);
    suite->device = before;
    suite_check(suite, driver->get_current(&current) == 0 && current == context, "the context is another");
    device->ops->close(device);
    use_device(suite);
    suite_check(suite, driver->get_current(&current) == 0 && current == context, "the context is another");
    suite_check(suite, driver->set_current(NULL) == 0 && driver->release(ordinal) == 0, "back");
}

static void case_contexts(struct suite *suite)
{
    struct driver driver = find_driver(suite);
    int n_devices = 0;

    suite_check(suite, driver.count(&n_devices) == 0 && n_devices > 0, "%d devices", n_devices);
    for (int i = 0; i < n_devices; i++)
        open_in_context(suite, &driver, i);
}

static void case_managed(struct suite *suite)
{
    struct driver driver = find_driver(suite);
    struct CUctx_st *context = NULL;
    hetccl_cu_address address = 0;
    struct hetccl_pointer pointer = {.kind = HETCCL_POINTER_UNKNOWN};

    suite_check(suite, driver.retain(&context, suite->device->ordinal) == 0, "context");
    suite_check(suite, driver.set_current(context) == 0, "context");
    suite_check(suite, driver.alloc_managed(&address, 65536, 1) == 0, "managed memory");
    suite_expect_ok(suite, suite->ops->classify(suite->device, (void *)(uintptr_t)(address + 5), &pointer),
                    "classify");
    suite_check(suite, pointer.kind == HETCCL_POINTER_MANAGED, "kind %d", (int)pointer.kind);
    suite_check(suite, !pointer.has_ipc, "managed memory to share");
    suite_check(suite, driver.free(address) == 0, "free");
    suite_check(suite, driver.set_current(NULL) == 0 && driver.release(suite->device->ordinal) == 0, "back");
}

/* Everything that isn't work for the captured stream goes on meanwhile, and the capture lives. */
static void case_capture(struct suite *suite)
{
    struct driver driver = find_driver(suite);
    struct hetccl_stream stream = suite_stream(suite), other = suite_stream(suite), made = {.handle = NULL};
    struct CUctx_st *context = NULL;
    struct CUgraph_st *graph = NULL;
    struct hetccl_capture capture = {.id = 0}, later = {.id = 0};
    struct hetccl_pointer pointer;
    struct hetccl_event event;
    void *memory;

    suite_check(suite, driver.retain(&context, suite->device->ordinal) == 0, "context");
    suite_check(suite, driver.set_current(context) == 0, "context");
    suite_check(suite, driver.begin_capture(stream.handle, HETCCL_CU_STREAM_CAPTURE_MODE_GLOBAL) == 0,
                "begin");
    suite_expect_ok(suite, suite->ops->stream_capture(suite->device, stream, &capture), "capture");
    suite_check(suite, capture.is_capturing && !capture.is_invalidated && capture.id != 0,
                "capture %d %d %llu", capture.is_capturing, capture.is_invalidated,
                (unsigned long long)capture.id);
    memory = suite_memory(suite, 4096, HETCCL_MEMORY_DEVICE);
    suite_expect_ok(suite, suite->ops->classify(suite->device, memory, &pointer), "classify");
    suite_expect_ok(suite, suite->ops->stream_query(suite->device, other), "query");
    suite_expect_ok(suite, suite->ops->stream_create(suite->device, HETCCL_STREAM_HIGH, &made), "stream");
    suite_expect_ok(suite, suite->ops->event_create(suite->device, &event), "event");
    suite_expect_ok(suite, suite->ops->event_query(suite->device, event), "event query");
    suite->ops->event_destroy(suite->device, event);
    suite->ops->stream_destroy(suite->device, made);
    suite->ops->mem_free(suite->device, memory, HETCCL_MEMORY_DEVICE);
    suite_expect_ok(suite, suite->ops->stream_capture(suite->device, stream, &later), "capture");
    suite_check(suite, later.is_capturing && later.id == capture.id, "the capture is spoilt");
    suite_check(suite, driver.end_capture(stream.handle, &graph) == 0, "end");
    suite_expect_ok(suite, suite->ops->stream_capture(suite->device, stream, &later), "capture");
    suite_check(suite, !later.is_capturing && !later.is_invalidated && later.id == 0, "still captured");
    suite_check(suite, driver.set_current(NULL) == 0 && driver.release(suite->device->ordinal) == 0, "back");
    suite->ops->stream_destroy(suite->device, other);
    suite->ops->stream_destroy(suite->device, stream);
}

const struct suite_case suite_cuda_cases[] = {
    {"cuda: arch", case_arch},         {"cuda: thread without a context", case_no_context},
    {"cuda: contexts", case_contexts}, {"cuda: managed memory", case_managed},
    {"cuda: capture", case_capture},   {NULL, NULL},
};
