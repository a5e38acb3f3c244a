/* SPDX-License-Identifier: Apache-2.0 */
#include "device/host/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/memory.h"

enum { HUGE_PAGE_BYTES = 2 << 20 };

static void host_close(struct hetccl_device *device)
{
    hetccl_free(device);
}

/*
 * Whole pages, so that a buffer shares none with anything else. Large ones start where a huge page can, and
 * ask for huge pages: buffers are walked from end to end, and small pages cost a miss of the TLB every 4 KiB.
 */
static enum hetccl_status host_mem_alloc(struct hetccl_device *device, size_t bytes,
                                         enum hetccl_memory_kind kind, void **out)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    bool is_large = bytes >= HUGE_PAGE_BYTES;
    void *memory = NULL;

    if (bytes == 0)
        return hetccl_fail(HETCCL_ERR_ARG, "host device: an allocation of 0 bytes was asked for");
    if (bytes > SIZE_MAX - HUGE_PAGE_BYTES || hetccl_fault_hit(HETCCL_FAULT_ALLOC) ||
        posix_memalign(&memory, is_large ? HUGE_PAGE_BYTES : page_bytes,
                       hetccl_round_up(bytes, page_bytes)) != 0)
        return hetccl_fail(
            HETCCL_ERR_SYSTEM,
            "host device: no memory for %zu bytes: free memory on this host or raise the limit", bytes);
    /* Advice: a kernel without huge pages refuses, and small pages do as well. */
    if (is_large)
        (void)madvise(memory, hetccl_round_up(bytes, page_bytes), MADV_HUGEPAGE);
    *out = memory;
    return HETCCL_OK;
}

static void host_mem_free(struct hetccl_device *device, void *memory, enum hetccl_memory_kind kind)
{
    free(memory);
}

static enum hetccl_status host_copy(struct hetccl_device *device, struct hetccl_stream stream, void *dst,
                                    const void *src, size_t bytes)
{
    if (bytes > 0)
        memcpy(dst, src, bytes);
    return HETCCL_OK;
}

static enum hetccl_status host_reduce(struct hetccl_device *device, struct hetccl_stream stream,
                                      const struct hetccl_reduce *reduce)
{
    if (reduce->n_srcs == 0 || reduce->n_srcs > HETCCL_REDUCE_MAX_INPUTS)
        return hetccl_fail(HETCCL_ERR_ARG, "host device: a reduction of %zu inputs; it takes 1 to %d",
                           reduce->n_srcs, HETCCL_REDUCE_MAX_INPUTS);
    if ((unsigned)reduce->type >= HETCCL_TYPES || (unsigned)reduce->red >= HETCCL_REDS)
        return hetccl_fail(HETCCL_ERR_ARG, "host device: no such reduction: type %d, operation %d",
                           (int)reduce->type, (int)reduce->red);
    if (reduce->scales != NULL && reduce->red != HETCCL_SUM)
        return hetccl_fail(HETCCL_ERR_ARG, "host device: %s can't have scaled inputs, only sum can",
                           hetccl_red_name(reduce->red));
    hetccl_kernel_reduce(reduce->dst, reduce->srcs, reduce->scales, reduce->n_srcs, reduce->count,
                         reduce->type, reduce->red);
    return HETCCL_OK;
}

static enum hetccl_status check_average(enum hetccl_type type, size_t n_ranks)
{
    if ((unsigned)type > HETCCL_UINT64)
        return hetccl_fail(HETCCL_ERR_ARG, "host device: an integer average of %s elements",
                           hetccl_type_name(type));
    if (n_ranks == 0 || n_ranks > HETCCL_AVERAGE_MAX_RANKS)
        return hetccl_fail(HETCCL_ERR_ARG, "host device: an average over %zu ranks; it takes 1 to %d",
                           n_ranks, HETCCL_AVERAGE_MAX_RANKS);
    return HETCCL_OK;
}

static enum hetccl_status host_average_widen(struct hetccl_device *device, struct hetccl_stream stream,
                                             void *dst_wide, const void *src, size_t count,
                                             enum hetccl_type type, size_t n_ranks)
{
    enum hetccl_status status = check_average(type, n_ranks);

    if (status == HETCCL_OK)
        hetccl_kernel_average_widen(dst_wide, src, count, type, n_ranks);
    return status;
}

static enum hetccl_status host_average_narrow(struct hetccl_device *device, struct hetccl_stream stream,
                                              void *dst, const void *src_wide, size_t count,
                                              enum hetccl_type type, size_t n_ranks)
{
    enum hetccl_status status = check_average(type, n_ranks);

    if (status == HETCCL_OK)
        hetccl_kernel_average_narrow(dst, src_wide, count, type, n_ranks);
    return status;
}

static const struct hetccl_device_ops host_ops = {
    .name = "host",
    .is_synchronous = true,
    .close = host_close,
    .mem_alloc = host_mem_alloc,
    .mem_free = host_mem_free,
    .copy = host_copy,
    .reduce = host_reduce,
    .average_widen = host_average_widen,
    .average_narrow = host_average_narrow,
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
    (void)snprintf(device->arch, sizeof(device->arch), "%s", arch);
    *out = device;
    return HETCCL_OK;
}
