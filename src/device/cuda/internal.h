/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_DEVICE_CUDA_INTERNAL_H
#define HETCCL_DEVICE_CUDA_INTERNAL_H

/* The cuda device from the inside. Contracts of the operations: device.h. */

#include <stdatomic.h>

#include "device/cuda/table.h"
#include "device/device.h"

struct hetccl_cuda_image;

struct hetccl_cuda_device {
    struct hetccl_device base; /* first: the operations get a pointer to it */
    struct hetccl_cuda_api api;
    struct CUctx_st *context;
    bool is_retained; /* context is the primary one and we hold a reference */
    int high_priority;
    struct hetccl_cuda_image *_Atomic image; /* the library's kernels; NULL until they are asked for */
};

static inline struct hetccl_cuda_device *hetccl_cuda_of(struct hetccl_device *device)
{
    return (struct hetccl_cuda_device *)device;
}

static inline hetccl_cu_address hetccl_cuda_address(const void *pointer)
{
    return (hetccl_cu_address)(uintptr_t)pointer;
}

/* The calling thread's driver state, as it was before hetccl_cuda_enter(). */
struct hetccl_cuda_scope {
    bool is_pushed;
    bool is_relaxed;
    unsigned capture_mode;
};

enum hetccl_cuda_work {
    HETCCL_CUDA_ENQUEUES, /* may become a node of a captured graph */
    HETCCL_CUDA_APART,    /* must not disturb a capture: the thread's capture mode is relaxed meanwhile */
};

/*
 * hetccl_cuda_enter -- make the device's context current. hetccl_cuda_leave() puts everything back; it is
 * called after success only, takes the code of the last driver call and returns it, so that the error text
 * can be made after it.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_enter(struct hetccl_cuda_device *cuda,
                                                      enum hetccl_cuda_work work,
                                                      struct hetccl_cuda_scope *scope_out);
unsigned hetccl_cuda_leave(struct hetccl_cuda_device *cuda, const struct hetccl_cuda_scope *scope,
                           unsigned code);

/* error.c */

/*
 * hetccl_cuda_check -- HETCCL_OK for code 0, HETCCL_AGAIN for CUDA_ERROR_NOT_READY, else a failure whose text
 * names what was done, function, the code's name and number, the driver's words and a hint.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_check(const struct hetccl_cuda_device *cuda, unsigned code,
                                                      const char *function, const char *what_format, ...)
    HETCCL_PRINTF(4, 5);

/* For what can't fail: a line in the log at level info when it does. */
void hetccl_cuda_note(const struct hetccl_cuda_device *cuda, unsigned code, const char *function);

/* "CUDA_ERROR_INVALID_VALUE"; never NULL. */
const char *hetccl_cuda_error_name(struct hetccl_device *device, int code);

/* memory.c */
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_mem_alloc(struct hetccl_device *device, size_t bytes,
                                                          enum hetccl_memory_kind kind, void **out);
void hetccl_cuda_mem_free(struct hetccl_device *device, void *memory, enum hetccl_memory_kind kind);
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_register(struct hetccl_device *device, void *memory,
                                                         size_t bytes);
void hetccl_cuda_unregister(struct hetccl_device *device, void *memory);
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_device_address(struct hetccl_device *device,
                                                               void *host_memory, void **out);
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_classify(struct hetccl_device *device, const void *pointer,
                                                         struct hetccl_pointer *out);
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_copy(struct hetccl_device *device,
                                                     struct hetccl_stream stream, void *dst, const void *src,
                                                     size_t bytes);
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_copy_rows(struct hetccl_device *device,
                                                          struct hetccl_stream stream,
                                                          const struct hetccl_rows *rows);
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_fill(struct hetccl_device *device,
                                                     struct hetccl_stream stream, void *dst, uint8_t value,
                                                     size_t bytes);

/* ipc.c */
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_ipc_export(struct hetccl_device *device, const void *memory,
                                                           struct hetccl_ipc_handle *out);
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_ipc_import(struct hetccl_device *device,
                                                           const struct hetccl_ipc_handle *handle,
                                                           struct hetccl_ipc_mapping *out);
void hetccl_cuda_ipc_close(struct hetccl_device *device, struct hetccl_ipc_mapping *mapping);

/* stream.c */
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_stream_create(struct hetccl_device *device,
                                                              enum hetccl_stream_priority priority,
                                                              struct hetccl_stream *out);
void hetccl_cuda_stream_destroy(struct hetccl_device *device, struct hetccl_stream stream);
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_stream_query(struct hetccl_device *device,
                                                             struct hetccl_stream stream);
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_stream_capture(struct hetccl_device *device,
                                                               struct hetccl_stream stream,
                                                               struct hetccl_capture *out);
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_stream_wait_event(struct hetccl_device *device,
                                                                  struct hetccl_stream stream,
                                                                  struct hetccl_event event);
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_event_create(struct hetccl_device *device,
                                                             struct hetccl_event *out);
void hetccl_cuda_event_destroy(struct hetccl_device *device, struct hetccl_event event);
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_event_record(struct hetccl_device *device,
                                                             struct hetccl_event event,
                                                             struct hetccl_stream stream);
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_event_query(struct hetccl_device *device,
                                                            struct hetccl_event event);

/* values.c */
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_stream_wait_value(struct hetccl_device *device,
                                                                  struct hetccl_stream stream,
                                                                  const uint32_t *word, uint32_t value);
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_stream_write_value(struct hetccl_device *device,
                                                                   struct hetccl_stream stream,
                                                                   uint32_t *word, uint32_t value);
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_stream_values(struct hetccl_device *device,
                                                              struct hetccl_stream stream,
                                                              const struct hetccl_stream_value *values,
                                                              size_t n);

/* module.c */
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_module_load(struct hetccl_device *device, const void *image,
                                                            struct hetccl_module *out);
void hetccl_cuda_module_unload(struct hetccl_device *device, struct hetccl_module module);
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_kernel_find(struct hetccl_device *device,
                                                            struct hetccl_module module, const char *name,
                                                            struct hetccl_kernel *out);
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_kernel_launch(struct hetccl_device *device,
                                                              struct hetccl_stream stream,
                                                              const struct hetccl_launch *launch);

/* graph.c */
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_capture_begin(struct hetccl_device *device,
                                                              struct hetccl_stream stream);
HETCCL_NODISCARD enum hetccl_status
hetccl_cuda_capture_end(struct hetccl_device *device, struct hetccl_stream stream, struct hetccl_graph *out);
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_graph_launch(struct hetccl_device *device,
                                                             struct hetccl_stream stream,
                                                             struct hetccl_graph graph);
void hetccl_cuda_graph_destroy(struct hetccl_device *device, struct hetccl_graph graph);

/* image.c */
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_image_kernel(struct hetccl_device *device, const char *name,
                                                             struct hetccl_kernel *out);
/* Before the device closes: the last device of a context unloads the image. */
void hetccl_cuda_image_detach(struct hetccl_cuda_device *cuda);

/* work.c */
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_reduce(struct hetccl_device *device,
                                                       struct hetccl_stream stream,
                                                       const struct hetccl_reduce *reduce);
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_average_widen(struct hetccl_device *device,
                                                              struct hetccl_stream stream, void *dst_wide,
                                                              const void *src, size_t count,
                                                              enum hetccl_type type, size_t n_ranks);
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_average_narrow(struct hetccl_device *device,
                                                               struct hetccl_stream stream, void *dst,
                                                               const void *src_wide, size_t count,
                                                               enum hetccl_type type, size_t n_ranks);
#endif
