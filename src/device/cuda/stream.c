/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cuda/internal.h"

enum hetccl_status hetccl_cuda_stream_create(struct hetccl_device *device,
                                             enum hetccl_stream_priority priority, struct hetccl_stream *out)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct CUstream_st *handle = NULL;
    struct hetccl_cuda_scope scope;
    enum hetccl_status status = hetccl_cuda_enter(cuda, HETCCL_CUDA_APART, &scope);
    unsigned code;

    if (status != HETCCL_OK)
        return status;
    code = cuda->api.cuStreamCreateWithPriority(&handle, HETCCL_CU_STREAM_NON_BLOCKING,
                                                priority == HETCCL_STREAM_HIGH ? cuda->high_priority : 0);
    status = hetccl_cuda_check(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuStreamCreateWithPriority",
                               "creating a stream");
    if (status == HETCCL_OK)
        out->handle = handle;
    return status;
}

void hetccl_cuda_stream_destroy(struct hetccl_device *device, struct hetccl_stream stream)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct hetccl_cuda_scope scope;
    unsigned code;

    if (stream.handle == NULL || hetccl_cuda_enter(cuda, HETCCL_CUDA_APART, &scope) != HETCCL_OK)
        return;
    code = cuda->api.cuStreamDestroy_v2(stream.handle);
    hetccl_cuda_note(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuStreamDestroy_v2");
}

enum hetccl_status hetccl_cuda_stream_query(struct hetccl_device *device, struct hetccl_stream stream)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct hetccl_cuda_scope scope;
    enum hetccl_status status = hetccl_cuda_enter(cuda, HETCCL_CUDA_APART, &scope);
    unsigned code;

    if (status != HETCCL_OK)
        return status;
    code = cuda->api.cuStreamQuery(stream.handle);
    return hetccl_cuda_check(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuStreamQuery",
                             "asking whether a stream's work is done");
}

enum hetccl_status hetccl_cuda_stream_capture(struct hetccl_device *device, struct hetccl_stream stream,
                                              struct hetccl_capture *out)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    unsigned capture_status = HETCCL_CU_STREAM_CAPTURE_STATUS_NONE;
    uint64_t id = 0;
    struct hetccl_cuda_scope scope;
    enum hetccl_status status = hetccl_cuda_enter(cuda, HETCCL_CUDA_ENQUEUES, &scope);
    unsigned code;

    if (status != HETCCL_OK)
        return status;
    code = cuda->api.cuStreamGetCaptureInfo_v2(stream.handle, &capture_status, &id, NULL, NULL, NULL);
    status = hetccl_cuda_check(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuStreamGetCaptureInfo_v2",
                               "asking whether a stream is captured");
    if (status != HETCCL_OK)
        return status;
    *out = (struct hetccl_capture){
        .is_capturing = capture_status == HETCCL_CU_STREAM_CAPTURE_STATUS_ACTIVE,
        .is_invalidated = capture_status == HETCCL_CU_STREAM_CAPTURE_STATUS_INVALIDATED,
        .id = capture_status == HETCCL_CU_STREAM_CAPTURE_STATUS_ACTIVE ? id : 0,
    };
    return HETCCL_OK;
}

enum hetccl_status hetccl_cuda_stream_wait_event(struct hetccl_device *device, struct hetccl_stream stream,
                                                 struct hetccl_event event)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct hetccl_cuda_scope scope;
    enum hetccl_status status = hetccl_cuda_enter(cuda, HETCCL_CUDA_ENQUEUES, &scope);
    unsigned code;

    if (status != HETCCL_OK)
        return status;
    code = cuda->api.cuStreamWaitEvent(stream.handle, event.handle, 0);
    return hetccl_cuda_check(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuStreamWaitEvent",
                             "letting a stream wait for an event");
}

enum hetccl_status hetccl_cuda_event_create(struct hetccl_device *device, struct hetccl_event *out)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct CUevent_st *handle = NULL;
    struct hetccl_cuda_scope scope;
    enum hetccl_status status = hetccl_cuda_enter(cuda, HETCCL_CUDA_APART, &scope);
    unsigned code;

    if (status != HETCCL_OK)
        return status;
    code = cuda->api.cuEventCreate(&handle, HETCCL_CU_EVENT_DISABLE_TIMING);
    status =
        hetccl_cuda_check(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuEventCreate", "creating an event");
    if (status == HETCCL_OK)
        out->handle = handle;
    return status;
}

void hetccl_cuda_event_destroy(struct hetccl_device *device, struct hetccl_event event)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct hetccl_cuda_scope scope;
    unsigned code;

    if (event.handle == NULL || hetccl_cuda_enter(cuda, HETCCL_CUDA_APART, &scope) != HETCCL_OK)
        return;
    code = cuda->api.cuEventDestroy_v2(event.handle);
    hetccl_cuda_note(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuEventDestroy_v2");
}

enum hetccl_status hetccl_cuda_event_record(struct hetccl_device *device, struct hetccl_event event,
                                            struct hetccl_stream stream)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct hetccl_cuda_scope scope;
    enum hetccl_status status = hetccl_cuda_enter(cuda, HETCCL_CUDA_ENQUEUES, &scope);
    unsigned code;

    if (status != HETCCL_OK)
        return status;
    code = cuda->api.cuEventRecord(event.handle, stream.handle);
    return hetccl_cuda_check(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuEventRecord",
                             "recording an event in a stream");
}

enum hetccl_status hetccl_cuda_event_query(struct hetccl_device *device, struct hetccl_event event)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct hetccl_cuda_scope scope;
    enum hetccl_status status = hetccl_cuda_enter(cuda, HETCCL_CUDA_APART, &scope);
    unsigned code;

    if (status != HETCCL_OK)
        return status;
    code = cuda->api.cuEventQuery(event.handle);
    return hetccl_cuda_check(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuEventQuery",
                             "asking whether an event is reached");
}
