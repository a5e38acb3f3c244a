/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_DEVICE_DEVICE_H
#define HETCCL_DEVICE_DEVICE_H

/*
 * What a rank computes on: memory, streams and element-wise work over plain memory, CUDA or HIP. A device knows no peers.
 * Work is ordered by stream; on a synchronous device (host) a call returns when its work is done and streams are ignored.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/status.h"
#include "kernels/kernels.h"

struct hetccl_device;

enum hetccl_memory_kind {
    HETCCL_MEMORY_DEVICE, /* where kernels are fastest */
    HETCCL_MEMORY_PINNED, /* host memory the device can reach */
};

/* A stream of the caller's: a cudaStream_t or hipStream_t; ignored by the host device. */
struct hetccl_stream {
    void *handle;
};

struct hetccl_reduce {
    void *dst;
    const void *const *srcs;
    const struct hetccl_scale *scales; /* NULL or one a source */
    size_t n_srcs, count;
    enum hetccl_type type;
    enum hetccl_red red;
};

/*
 * Operations. Optional ones that a device lacks are stubs that return HETCCL_ERR_USAGE, never NULL.
 *
 * close         gives everything back; never fails.
 * mem_alloc     bytes > 0, at least 256-byte aligned; HETCCL_ERR_SYSTEM or _DEVICE. mem_free takes NULL.
 * copy          dst and src are device or pinned memory and don't overlap.
 * reduce        as hetccl_kernel_reduce().
 * Threads: any, one a stream at a time.
 */
struct hetccl_device_ops {
    const char *name; /* "host" */
    bool is_synchronous;
    void (*close)(struct hetccl_device *device);
    enum hetccl_status (*mem_alloc)(struct hetccl_device *device, size_t bytes, enum hetccl_memory_kind kind, void **out);
    void (*mem_free)(struct hetccl_device *device, void *memory, enum hetccl_memory_kind kind);
    enum hetccl_status (*copy)(struct hetccl_device *device, struct hetccl_stream stream, void *dst, const void *src,
                               size_t bytes);
    enum hetccl_status (*reduce)(struct hetccl_device *device, struct hetccl_stream stream,
                                 const struct hetccl_reduce *reduce);
    enum hetccl_status (*average_widen)(struct hetccl_device *device, struct hetccl_stream stream, void *dst_wide,
                                        const void *src, size_t count, enum hetccl_type type, size_t n_ranks);
    enum hetccl_status (*average_narrow)(struct hetccl_device *device, struct hetccl_stream stream, void *dst,
                                         const void *src_wide, size_t count, enum hetccl_type type, size_t n_ranks);
};

struct hetccl_device {
    const struct hetccl_device_ops *ops;
    int ordinal;      /* as the runtime numbers it; 0 on the host */
    uint64_t pci_key; /* equal on ranks that share the physical device; 0 on the host */
    char arch[32];    /* "x86-64", "sm_90", "gfx942" */
};

/*
 * hetccl_device_open -- the device this rank computes on, as the configuration asks (HETCCL_DEVICE).
 *
 * Errors: HETCCL_ERR_USAGE when the asked-for kind is not there; the text says what is. The caller closes it by ops->close.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_device_open(const struct hetccl_config *config, struct hetccl_device **out);

#endif
