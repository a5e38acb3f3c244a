/* SPDX-License-Identifier: Apache-2.0 */
#include "device/host/host.h"

#include <stdio.h>

#include "base/memory.h"
#include "device/check.h"
#include "device/host/internal.h"
#include "device/unsupported.h"

static void host_close(struct hetccl_device *device)
{
    hetccl_free(device);
}

static void host_make_current(struct hetccl_device *device)
{
}

static enum hetccl_status host_reduce(struct hetccl_device *device, struct hetccl_stream stream,
                                      const struct hetccl_reduce *reduce)
{
    enum hetccl_status status = hetccl_device_check_reduce(device, reduce);

    if (status != HETCCL_OK)
        return status;
    hetccl_kernel_reduce(reduce->dst, reduce->srcs, reduce->scales, reduce->n_srcs, reduce->count,
                         reduce->type, reduce->red);
    return HETCCL_OK;
}

static enum hetccl_status host_average_widen(struct hetccl_device *device, struct hetccl_stream stream,
                                             void *dst_wide, const void *src, size_t count,
                                             enum hetccl_type type, size_t n_ranks)
{
    enum hetccl_status status = hetccl_device_check_average(device, type, n_ranks);

    if (status == HETCCL_OK)
        hetccl_kernel_average_widen(dst_wide, src, count, type, n_ranks);
    return status;
}

static enum hetccl_status host_average_narrow(struct hetccl_device *device, struct hetccl_stream stream,
                                              void *dst, const void *src_wide, size_t count,
                                              enum hetccl_type type, size_t n_ranks)
{
    enum hetccl_status status = hetccl_device_check_average(device, type, n_ranks);

    if (status == HETCCL_OK)
        hetccl_kernel_average_narrow(dst, src_wide, count, type, n_ranks);
    return status;
}

static const char *host_error_name(struct hetccl_device *device, int code)
{
    return "no code of a runtime";
}

static enum hetccl_status host_bind_thread(struct hetccl_device *device)
{
    return HETCCL_OK;
}

static const struct hetccl_device_ops host_ops = {
    .name = "host",
    .is_synchronous = true,
    .close = host_close,
    .make_current = host_make_current,
    .bind_thread = host_bind_thread,
    .mem_alloc = hetccl_host_mem_alloc,
    .mem_free = hetccl_host_mem_free,
    .host_register = hetccl_host_register,
    .host_unregister = hetccl_host_unregister,
    .device_address = hetccl_host_device_address,
    .classify = hetccl_host_classify,
    .ipc_export = hetccl_device_no_ipc_export,
    .ipc_import = hetccl_device_no_ipc_import,
    .ipc_close = hetccl_device_no_ipc_close,
    .stream_create = hetccl_host_stream_create,
    .stream_destroy = hetccl_host_stream_destroy,
    .stream_query = hetccl_host_stream_query,
    .stream_capture = hetccl_host_stream_capture,
    .stream_wait_event = hetccl_host_stream_wait_event,
    .stream_wait_value = hetccl_device_no_wait_value,
    .stream_write_value = hetccl_device_no_write_value,
    .stream_values = hetccl_device_no_values,
    .event_create = hetccl_host_event_create,
    .event_destroy = hetccl_host_event_destroy,
    .event_record = hetccl_host_event_record,
    .event_query = hetccl_host_event_query,
    .module_load = hetccl_device_no_module_load,
    .module_unload = hetccl_device_no_module_unload,
    .kernel_find = hetccl_device_no_kernel_find,
    .kernel_launch = hetccl_device_no_kernel_launch,
    .image_kernel = hetccl_device_no_image_kernel,
    .copy = hetccl_host_copy,
    .copy_rows = hetccl_host_copy_rows,
    .fill = hetccl_host_fill,
    .reduce = host_reduce,
    .average_widen = host_average_widen,
    .average_narrow = host_average_narrow,
    .capture_begin = hetccl_device_no_capture_begin,
    .capture_end = hetccl_device_no_capture_end,
    .graph_launch = hetccl_device_no_graph_launch,
    .graph_destroy = hetccl_device_no_graph_destroy,
    .error_name = host_error_name,
};

#if defined(__x86_64__)
static const char arch[] = "x86-64";
#elif defined(__aarch64__)
static const char arch[] = "aarch64";
#else
static const char arch[] = "unknown";
#endif

enum hetccl_status hetccl_device_host_open(struct hetccl_device **out)
{
    struct hetccl_device *device = NULL;
    enum hetccl_status status = hetccl_alloc(1, sizeof(*device), &device);

    if (status != HETCCL_OK)
        return status;
    device->ops = &host_ops;
    device->n_devices = 1;
    (void)snprintf(device->arch, sizeof(device->arch), "%s", arch);
    *out = device;
    return HETCCL_OK;
}
