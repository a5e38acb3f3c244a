/* SPDX-License-Identifier: Apache-2.0 */
#include "device/unsupported.h"

enum hetccl_status hetccl_device_refuse(const struct hetccl_device *device, const char *operation)
{
    return hetccl_fail(HETCCL_ERR_USAGE, "device %s %d (%s) has no %s: take a way that needs none",
                       device->ops->name, device->ordinal, device->arch, operation);
}

enum hetccl_status hetccl_device_no_ipc_export(struct hetccl_device *device, const void *memory,
                                               struct hetccl_ipc_handle *out)
{
    return hetccl_device_refuse(device, "memory to export to other processes");
}

enum hetccl_status hetccl_device_no_ipc_import(struct hetccl_device *device,
                                               const struct hetccl_ipc_handle *handle,
                                               struct hetccl_ipc_mapping *out)
{
    return hetccl_device_refuse(device, "memory to import from other processes");
}

void hetccl_device_no_ipc_close(struct hetccl_device *device, struct hetccl_ipc_mapping *mapping)
{
}

enum hetccl_status hetccl_device_no_wait_value(struct hetccl_device *device, struct hetccl_stream stream,
                                               const uint32_t *word, uint32_t value)
{
    return hetccl_device_refuse(device, "waiting for a value in a stream");
}

enum hetccl_status hetccl_device_no_write_value(struct hetccl_device *device, struct hetccl_stream stream,
                                                uint32_t *word, uint32_t value)
{
    return hetccl_device_refuse(device, "writing of a value in a stream");
}

enum hetccl_status hetccl_device_no_values(struct hetccl_device *device, struct hetccl_stream stream,
                                           const struct hetccl_stream_value *values, size_t n)
{
    return hetccl_device_refuse(device, "values to wait for and to write in a stream");
}

enum hetccl_status hetccl_device_no_module_load(struct hetccl_device *device, const void *image,
                                                struct hetccl_module *out)
{
    return hetccl_device_refuse(device, "kernel modules");
}

void hetccl_device_no_module_unload(struct hetccl_device *device, struct hetccl_module module)
{
}

enum hetccl_status hetccl_device_no_kernel_find(struct hetccl_device *device, struct hetccl_module module,
                                                const char *name, struct hetccl_kernel *out)
{
    return hetccl_device_refuse(device, "kernels to find in modules");
}

enum hetccl_status hetccl_device_no_kernel_launch(struct hetccl_device *device, struct hetccl_stream stream,
                                                  const struct hetccl_launch *launch)
{
    return hetccl_device_refuse(device, "kernels to launch");
}

enum hetccl_status hetccl_device_no_image_kernel(struct hetccl_device *device, const char *name,
                                                 struct hetccl_kernel *out)
{
    return hetccl_device_refuse(device, "kernels of the library to launch");
}

enum hetccl_status hetccl_device_no_capture_begin(struct hetccl_device *device, struct hetccl_stream stream)
{
    return hetccl_device_refuse(device, "graphs to capture");
}

enum hetccl_status hetccl_device_no_capture_end(struct hetccl_device *device, struct hetccl_stream stream,
                                                struct hetccl_graph *out)
{
    return hetccl_device_refuse(device, "graphs to capture");
}

enum hetccl_status hetccl_device_no_graph_launch(struct hetccl_device *device, struct hetccl_stream stream,
                                                 struct hetccl_graph graph)
{
    return hetccl_device_refuse(device, "graphs to launch");
}

void hetccl_device_no_graph_destroy(struct hetccl_device *device, struct hetccl_graph graph)
{
}
