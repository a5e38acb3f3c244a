/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/memory.h"
#include "device/host/internal.h"

enum { HUGE_PAGE_BYTES = 2 << 20 };

/*
 * Whole pages, so that a buffer shares none with anything else. Large ones start where a huge page can, and
 * ask for huge pages: buffers are walked from end to end, and small pages cost a miss of the TLB every 4 KiB.
 */
enum hetccl_status hetccl_host_mem_alloc(struct hetccl_device *device, size_t bytes,
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

void hetccl_host_mem_free(struct hetccl_device *device, void *memory, enum hetccl_memory_kind kind)
{
    free(memory);
}

enum hetccl_status hetccl_host_copy_rows(struct hetccl_device *device, struct hetccl_stream stream,
                                         const struct hetccl_rows *rows)
{
    for (size_t i = 0; i < rows->n_rows; i++)
        memcpy((char *)rows->dst + i * rows->dst_pitch, (const char *)rows->src + i * rows->src_pitch,
               rows->row_bytes);
    return HETCCL_OK;
}

enum hetccl_status hetccl_host_copy(struct hetccl_device *device, struct hetccl_stream stream, void *dst,
                                    const void *src, size_t bytes)
{
    if (bytes > 0)
        memcpy(dst, src, bytes);
    return HETCCL_OK;
}

enum hetccl_status hetccl_host_fill(struct hetccl_device *device, struct hetccl_stream stream, void *dst,
                                    uint8_t value, size_t bytes)
{
    if (bytes > 0)
        memset(dst, value, bytes);
    return HETCCL_OK;
}

enum hetccl_status hetccl_host_register(struct hetccl_device *device, void *memory, size_t bytes)
{
    if (memory == NULL || bytes == 0)
        return hetccl_fail(HETCCL_ERR_ARG, "host device: %zu bytes at %p can't be registered", bytes, memory);
    return HETCCL_OK;
}

void hetccl_host_unregister(struct hetccl_device *device, void *memory)
{
}

enum hetccl_status hetccl_host_device_address(struct hetccl_device *device, void *host_memory, void **out)
{
    if (host_memory == NULL)
        return hetccl_fail(HETCCL_ERR_ARG, "host device: NULL has no device address");
    *out = host_memory;
    return HETCCL_OK;
}

enum hetccl_status hetccl_host_classify(struct hetccl_device *device, const void *pointer,
                                        struct hetccl_pointer *out)
{
    *out = (struct hetccl_pointer){.kind = pointer != NULL ? HETCCL_POINTER_HOST : HETCCL_POINTER_UNKNOWN,
                                   .ordinal = -1};
    return HETCCL_OK;
}
