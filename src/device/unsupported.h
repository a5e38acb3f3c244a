/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_DEVICE_UNSUPPORTED_H
#define HETCCL_DEVICE_UNSUPPORTED_H

/*
 * Stand-ins for operations that a device lacks. They return HETCCL_ERR_USAGE with a text that names device
 * and operation, and leave outputs as they were; so no caller asks for NULL. Contracts: device.h.
 */

#include "device/device.h"

/* The refusal itself, for a device that has the operation but not always. */
enum hetccl_status hetccl_device_refuse(const struct hetccl_device *device, const char *operation);

HETCCL_NODISCARD enum hetccl_status
hetccl_device_no_ipc_export(struct hetccl_device *device, const void *memory, struct hetccl_ipc_handle *out);
HETCCL_NODISCARD enum hetccl_status hetccl_device_no_ipc_import(struct hetccl_device *device,
                                                                const struct hetccl_ipc_handle *handle,
                                                                struct hetccl_ipc_mapping *out);
void hetccl_device_no_ipc_close(struct hetccl_device *device, struct hetccl_ipc_mapping *mapping);

HETCCL_NODISCARD enum hetccl_status hetccl_device_no_wait_value(struct hetccl_device *device,
                                                                struct hetccl_stream stream,
                                                                const uint32_t *word, uint32_t value);
HETCCL_NODISCARD enum hetccl_status hetccl_device_no_write_value(struct hetccl_device *device,
                                                                 struct hetccl_stream stream, uint32_t *word,
                                                                 uint32_t value);

HETCCL_NODISCARD enum hetccl_status hetccl_device_no_values(struct hetccl_device *device,
                                                            struct hetccl_stream stream,
                                                            const struct hetccl_stream_value *values,
                                                            size_t n);

HETCCL_NODISCARD enum hetccl_status
hetccl_device_no_module_load(struct hetccl_device *device, const void *image, struct hetccl_module *out);
void hetccl_device_no_module_unload(struct hetccl_device *device, struct hetccl_module module);
HETCCL_NODISCARD enum hetccl_status hetccl_device_no_kernel_find(struct hetccl_device *device,
                                                                 struct hetccl_module module,
                                                                 const char *name, struct hetccl_kernel *out);
HETCCL_NODISCARD enum hetccl_status hetccl_device_no_kernel_launch(struct hetccl_device *device,
                                                                   struct hetccl_stream stream,
                                                                   const struct hetccl_launch *launch);

HETCCL_NODISCARD enum hetccl_status
hetccl_device_no_image_kernel(struct hetccl_device *device, const char *name, struct hetccl_kernel *out);

HETCCL_NODISCARD enum hetccl_status hetccl_device_no_capture_begin(struct hetccl_device *device,
                                                                   struct hetccl_stream stream);
HETCCL_NODISCARD enum hetccl_status hetccl_device_no_capture_end(struct hetccl_device *device,
                                                                 struct hetccl_stream stream,
                                                                 struct hetccl_graph *out);
HETCCL_NODISCARD enum hetccl_status hetccl_device_no_graph_launch(struct hetccl_device *device,
                                                                  struct hetccl_stream stream,
                                                                  struct hetccl_graph graph);
void hetccl_device_no_graph_destroy(struct hetccl_device *device, struct hetccl_graph graph);

#endif
