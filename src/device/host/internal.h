/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_DEVICE_HOST_INTERNAL_H
#define HETCCL_DEVICE_HOST_INTERNAL_H

/* The host device's operations, by file. Contracts: device.h. */

#include "device/device.h"

/* memory.c */
HETCCL_NODISCARD enum hetccl_status hetccl_host_mem_alloc(struct hetccl_device *device, size_t bytes,
                                                          enum hetccl_memory_kind kind, void **out);
void hetccl_host_mem_free(struct hetccl_device *device, void *memory, enum hetccl_memory_kind kind);
HETCCL_NODISCARD enum hetccl_status hetccl_host_register(struct hetccl_device *device, void *memory,
                                                         size_t bytes);
void hetccl_host_unregister(struct hetccl_device *device, void *memory);
HETCCL_NODISCARD enum hetccl_status hetccl_host_device_address(struct hetccl_device *device,
                                                               void *host_memory, void **out);
HETCCL_NODISCARD enum hetccl_status hetccl_host_classify(struct hetccl_device *device, const void *pointer,
                                                         struct hetccl_pointer *out);
HETCCL_NODISCARD enum hetccl_status hetccl_host_copy_rows(struct hetccl_device *device,
                                                          struct hetccl_stream stream,
                                                          const struct hetccl_rows *rows);
HETCCL_NODISCARD enum hetccl_status hetccl_host_copy(struct hetccl_device *device,
                                                     struct hetccl_stream stream, void *dst, const void *src,
                                                     size_t bytes);
HETCCL_NODISCARD enum hetccl_status hetccl_host_fill(struct hetccl_device *device,
                                                     struct hetccl_stream stream, void *dst, uint8_t value,
                                                     size_t bytes);

/* stream.c */
HETCCL_NODISCARD enum hetccl_status hetccl_host_stream_create(struct hetccl_device *device,
                                                              enum hetccl_stream_priority priority,
                                                              struct hetccl_stream *out);
void hetccl_host_stream_destroy(struct hetccl_device *device, struct hetccl_stream stream);
HETCCL_NODISCARD enum hetccl_status hetccl_host_stream_query(struct hetccl_device *device,
                                                             struct hetccl_stream stream);
HETCCL_NODISCARD enum hetccl_status hetccl_host_stream_capture(struct hetccl_device *device,
                                                               struct hetccl_stream stream,
                                                               struct hetccl_capture *out);
HETCCL_NODISCARD enum hetccl_status hetccl_host_stream_wait_event(struct hetccl_device *device,
                                                                  struct hetccl_stream stream,
                                                                  struct hetccl_event event);
HETCCL_NODISCARD enum hetccl_status hetccl_host_event_create(struct hetccl_device *device,
                                                             struct hetccl_event *out);
void hetccl_host_event_destroy(struct hetccl_device *device, struct hetccl_event event);
HETCCL_NODISCARD enum hetccl_status hetccl_host_event_record(struct hetccl_device *device,
                                                             struct hetccl_event event,
                                                             struct hetccl_stream stream);
HETCCL_NODISCARD enum hetccl_status hetccl_host_event_query(struct hetccl_device *device,
                                                            struct hetccl_event event);

#endif
