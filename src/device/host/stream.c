/* SPDX-License-Identifier: Apache-2.0 */

/* Work is done when its call returns, so streams and events hold nothing: their handles only tell them from
 * zeroed ones. */

#include "device/host/internal.h"

enum hetccl_status hetccl_host_stream_create(struct hetccl_device *device,
                                             enum hetccl_stream_priority priority, struct hetccl_stream *out)
{
    *out = (struct hetccl_stream){.handle = device};
    return HETCCL_OK;
}

void hetccl_host_stream_destroy(struct hetccl_device *device, struct hetccl_stream stream)
{
}

enum hetccl_status hetccl_host_stream_query(struct hetccl_device *device, struct hetccl_stream stream)
{
    return HETCCL_OK;
}

enum hetccl_status hetccl_host_stream_capture(struct hetccl_device *device, struct hetccl_stream stream,
                                              struct hetccl_capture *out)
{
    *out = (struct hetccl_capture){.is_capturing = false};
    return HETCCL_OK;
}

enum hetccl_status hetccl_host_stream_wait_event(struct hetccl_device *device, struct hetccl_stream stream,
                                                 struct hetccl_event event)
{
    return HETCCL_OK;
}

enum hetccl_status hetccl_host_event_create(struct hetccl_device *device, struct hetccl_event *out)
{
    *out = (struct hetccl_event){.handle = device};
    return HETCCL_OK;
}

void hetccl_host_event_destroy(struct hetccl_device *device, struct hetccl_event event)
{
}

enum hetccl_status hetccl_host_event_record(struct hetccl_device *device, struct hetccl_event event,
                                            struct hetccl_stream stream)
{
    return HETCCL_OK;
}

enum hetccl_status hetccl_host_event_query(struct hetccl_device *device, struct hetccl_event event)
{
    return HETCCL_OK;
}
