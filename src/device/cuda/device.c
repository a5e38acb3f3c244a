/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/memory.h"
#include "device/cuda/cuda.h"
#include "device/cuda/internal.h"
#include "device/unsupported.h"

/*
 * Nearly always the caller's context is ours already: the cost is one look. A thread without a context (a
 * watchdog, a progress thread) gets it pushed and popped.
 */
enum hetccl_status hetccl_cuda_enter(struct hetccl_cuda_device *cuda, enum hetccl_cuda_work work,
                                     struct hetccl_cuda_scope *scope_out)
{
    const struct hetccl_cuda_api *api = &cuda->api;
    struct hetccl_cuda_scope scope = {.is_relaxed = work == HETCCL_CUDA_APART};
    struct CUctx_st *current = NULL;
    unsigned code = api->cuCtxGetCurrent(&current);

    if (code != HETCCL_CUDA_SUCCESS)
        return hetccl_cuda_check(cuda, code, "cuCtxGetCurrent", "looking for the current context");
    if (current != cuda->context) {
        code = api->cuCtxPushCurrent_v2(cuda->context);
        if (code != HETCCL_CUDA_SUCCESS)
            return hetccl_cuda_check(cuda, code, "cuCtxPushCurrent_v2",
                                     "making the device's context current");
        scope.is_pushed = true;
    }
    if (scope.is_relaxed) {
        scope.capture_mode = HETCCL_CU_STREAM_CAPTURE_MODE_RELAXED;
        code = api->cuThreadExchangeStreamCaptureMode(&scope.capture_mode);
        if (code != HETCCL_CUDA_SUCCESS)
            goto undo_push;
    }
    *scope_out = scope;
    return HETCCL_OK;

undo_push:
    scope.is_relaxed = false;
    (void)hetccl_cuda_leave(cuda, &scope, HETCCL_CUDA_SUCCESS);
    return hetccl_cuda_check(cuda, code, "cuThreadExchangeStreamCaptureMode", "relaxing the capture mode");
}

unsigned hetccl_cuda_leave(struct hetccl_cuda_device *cuda, const struct hetccl_cuda_scope *scope,
                           unsigned code)
{
    const struct hetccl_cuda_api *api = &cuda->api;
    unsigned mode = scope->capture_mode;
    struct CUctx_st *popped = NULL;

    if (scope->is_relaxed)
        hetccl_cuda_note(cuda, api->cuThreadExchangeStreamCaptureMode(&mode),
                         "cuThreadExchangeStreamCaptureMode");
    if (scope->is_pushed)
        hetccl_cuda_note(cuda, api->cuCtxPopCurrent_v2(&popped), "cuCtxPopCurrent_v2");
    return code;
}

static void release_context(struct hetccl_cuda_device *cuda)
{
    if (cuda->is_retained)
        hetccl_cuda_note(cuda, cuda->api.cuDevicePrimaryCtxRelease_v2(cuda->base.ordinal),
                         "cuDevicePrimaryCtxRelease_v2");
    cuda->is_retained = false;
}

static void cuda_close(struct hetccl_device *device)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);

    hetccl_cuda_image_detach(cuda);
    release_context(cuda);
    hetccl_cuda_api_unload(&cuda->api);
    hetccl_free(cuda);
}

static enum hetccl_status cuda_bind_thread(struct hetccl_device *device)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);

    return hetccl_cuda_check(cuda, cuda->api.cuCtxPushCurrent_v2(cuda->context), "cuCtxPushCurrent_v2",
                             "making the device's context current");
}

static void cuda_make_current(struct hetccl_device *device)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct CUctx_st *current = NULL;

    if (cuda->api.cuCtxGetCurrent(&current) != HETCCL_CUDA_SUCCESS || current != cuda->context)
        hetccl_cuda_note(cuda, cuda->api.cuCtxPushCurrent_v2(cuda->context), "cuCtxPushCurrent_v2");
}

static const struct hetccl_device_ops cuda_ops = {
    .name = "cuda",
    .is_synchronous = false,
    .close = cuda_close,
    .make_current = cuda_make_current,
    .bind_thread = cuda_bind_thread,
    .mem_alloc = hetccl_cuda_mem_alloc,
    .mem_free = hetccl_cuda_mem_free,
    .host_register = hetccl_cuda_register,
    .host_unregister = hetccl_cuda_unregister,
    .device_address = hetccl_cuda_device_address,
    .classify = hetccl_cuda_classify,
    .ipc_export = hetccl_cuda_ipc_export,
    .ipc_import = hetccl_cuda_ipc_import,
    .ipc_close = hetccl_cuda_ipc_close,
    .stream_create = hetccl_cuda_stream_create,
    .stream_destroy = hetccl_cuda_stream_destroy,
    .stream_query = hetccl_cuda_stream_query,
    .stream_capture = hetccl_cuda_stream_capture,
    .stream_wait_event = hetccl_cuda_stream_wait_event,
    .stream_wait_value = hetccl_cuda_stream_wait_value,
    .stream_write_value = hetccl_cuda_stream_write_value,
    .stream_values = hetccl_cuda_stream_values,
    .event_create = hetccl_cuda_event_create,
    .event_destroy = hetccl_cuda_event_destroy,
    .event_record = hetccl_cuda_event_record,
    .event_query = hetccl_cuda_event_query,
    .module_load = hetccl_cuda_module_load,
    .module_unload = hetccl_cuda_module_unload,
    .kernel_find = hetccl_cuda_kernel_find,
    .kernel_launch = hetccl_cuda_kernel_launch,
    .image_kernel = hetccl_cuda_image_kernel,
    .copy = hetccl_cuda_copy,
    .copy_rows = hetccl_cuda_copy_rows,
    .fill = hetccl_cuda_fill,
    .reduce = hetccl_cuda_reduce,
    .average_widen = hetccl_cuda_average_widen,
    .average_narrow = hetccl_cuda_average_narrow,
    .capture_begin = hetccl_cuda_capture_begin,
    .capture_end = hetccl_cuda_capture_end,
    .graph_launch = hetccl_cuda_graph_launch,
    .graph_destroy = hetccl_cuda_graph_destroy,
    .error_name = hetccl_cuda_error_name,
};

static enum hetccl_status start_driver(struct hetccl_cuda_device *cuda)
{
    int n_devices = 0;
    unsigned code = cuda->api.cuInit(0);

    if (code != HETCCL_CUDA_SUCCESS)
        return hetccl_cuda_check(cuda, code, "cuInit", "starting the driver");
    code = cuda->api.cuDeviceGetCount(&n_devices);
    if (code == HETCCL_CUDA_SUCCESS && n_devices == 0)
        code = HETCCL_CUDA_ERROR_NO_DEVICE;
    cuda->base.n_devices = (unsigned)n_devices;
    return hetccl_cuda_check(cuda, code, "cuDeviceGetCount", "counting GPUs");
}

/*
 * The thread's own context wins, whatever made it. When it is the primary one we hold a reference, so that it
 * outlives the caller's; a context that somebody made apart is his to keep alive.
 */
static enum hetccl_status choose_context(struct hetccl_cuda_device *cuda, int ordinal)
{
    struct hetccl_cuda_api *api = &cuda->api;
    struct CUctx_st *current = NULL, *primary = NULL;
    int device = 0;
    unsigned code = api->cuCtxGetCurrent(&current);

    if (code != HETCCL_CUDA_SUCCESS)
        return hetccl_cuda_check(cuda, code, "cuCtxGetCurrent", "looking for the current context");
    if (current != NULL) {
        code = api->cuCtxGetDevice(&device);
        if (code != HETCCL_CUDA_SUCCESS)
            return hetccl_cuda_check(cuda, code, "cuCtxGetDevice", "looking for the current device");
    }
    if (ordinal != HETCCL_DEVICE_OF_THREAD && ordinal != device) {
        current = NULL;
        device = ordinal;
    }
    cuda->base.ordinal = device;
    code = api->cuDevicePrimaryCtxRetain(&primary, device);
    if (code != HETCCL_CUDA_SUCCESS)
        return hetccl_cuda_check(cuda, code, "cuDevicePrimaryCtxRetain",
                                 "making the primary context of device %d", device);
    cuda->is_retained = true;
    cuda->context = current != NULL ? current : primary;
    if (cuda->context != primary)
        release_context(cuda);
    return HETCCL_OK;
}

enum { N_ATTRIBUTES = 9 };

static const unsigned attributes[N_ATTRIBUTES] = {
    HETCCL_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
    HETCCL_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
    HETCCL_CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID,
    HETCCL_CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
    HETCCL_CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID,
    HETCCL_CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
    HETCCL_CU_DEVICE_ATTRIBUTE_WARP_SIZE,
    HETCCL_CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
    HETCCL_CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
};

/*
 * 32-bit stream values have no attribute of their own in the second version of their API: they are there when
 * the functions are, and the one for 64 bit tells where the system forbids them altogether.
 */
static enum hetccl_status read_attributes(struct hetccl_cuda_device *cuda)
{
    struct hetccl_device *base = &cuda->base;
    int values[N_ATTRIBUTES];

    for (size_t i = 0; i < N_ATTRIBUTES; i++) {
        unsigned code = cuda->api.cuDeviceGetAttribute(&values[i], attributes[i], base->ordinal);

        if (code != HETCCL_CUDA_SUCCESS)
            return hetccl_cuda_check(cuda, code, "cuDeviceGetAttribute", "reading attribute %u",
                                     attributes[i]);
    }
    (void)snprintf(base->arch, sizeof(base->arch), "sm_%d%d", values[0], values[1]);
    /* The highest bit keeps device 0:0:0 apart from "none". */
    base->pci_key = 1ull << 63 | (uint64_t)(unsigned)values[2] << 16 | (uint64_t)(unsigned)values[3] << 8 |
                    (unsigned)values[4];
    base->n_units = (unsigned)values[5];
    base->lane_threads = (unsigned)values[6];
    base->block_threads = (unsigned)values[7];
    base->has_stream_values = values[8] != 0 && cuda->api.cuStreamWaitValue32_v2 != NULL &&
                              cuda->api.cuStreamWriteValue32_v2 != NULL;
    base->has_ipc = true;
    base->has_modules = true;
    base->has_graphs = true;
    return HETCCL_OK;
}

/* Drivers before 12.4 don't know the attribute; without MPS, processes take turns by the millisecond. */
static void read_sharing(struct hetccl_cuda_device *cuda)
{
    int is_enabled = 0;

    cuda->base.is_shared = cuda->api.cuDeviceGetAttribute(&is_enabled, HETCCL_CU_DEVICE_ATTRIBUTE_MPS_ENABLED,
                                                          cuda->base.ordinal) == HETCCL_CUDA_SUCCESS &&
                           is_enabled != 0;
}

static enum hetccl_status read_priorities(struct hetccl_cuda_device *cuda)
{
    struct hetccl_cuda_scope scope;
    int least = 0;
    enum hetccl_status status = hetccl_cuda_enter(cuda, HETCCL_CUDA_APART, &scope);
    unsigned code;

    if (status != HETCCL_OK)
        return status;
    code = cuda->api.cuCtxGetStreamPriorityRange(&least, &cuda->high_priority);
    return hetccl_cuda_check(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuCtxGetStreamPriorityRange",
                             "reading the range of stream priorities");
}

static enum hetccl_status open_gpu(struct hetccl_cuda_device *cuda, int ordinal)
{
    enum hetccl_status status = start_driver(cuda);

    if (status == HETCCL_OK)
        status = choose_context(cuda, ordinal);
    if (status == HETCCL_OK)
        status = read_attributes(cuda);
    if (status == HETCCL_OK)
        read_sharing(cuda);
    if (status == HETCCL_OK)
        status = read_priorities(cuda);
    return status;
}

enum hetccl_status hetccl_device_cuda_open(const struct hetccl_config *config, int ordinal,
                                           struct hetccl_device **out)
{
    struct hetccl_cuda_device *cuda = NULL;
    enum hetccl_status status = hetccl_alloc(1, sizeof(*cuda), &cuda);

    if (status != HETCCL_OK)
        return status;
    cuda->base.ops = &cuda_ops;
    status = hetccl_cuda_api_load(config->cuda_lib, &cuda->api);
    if (status != HETCCL_OK)
        goto undo_alloc;
    status = open_gpu(cuda, ordinal);
    if (status != HETCCL_OK)
        goto undo_load;
    *out = &cuda->base;
    return HETCCL_OK;

undo_load:
    release_context(cuda);
    hetccl_cuda_api_unload(&cuda->api);
undo_alloc:
    hetccl_free(cuda);
    return status;
}
