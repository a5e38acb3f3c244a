/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory that isn't cudaMalloc's: of a pool (cudaMallocAsync), and virtual memory, where physical pieces are
 * mapped into a reserved range (PyTorch's expandable segments). Neither can be shared by legacy IPC.
 */

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake.h"

enum { GRANULARITY = 2 << 20 };

/* A physical piece. Handles are pointers to these. */
struct piece {
    int fd;
    size_t bytes;
};

unsigned cuMemAllocAsync(hetccl_cu_address *address, size_t bytes, struct CUstream_st *stream)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_NO_CAPTURE);

    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    code = fake_stream_find(stream) == NULL ? HETCCL_CUDA_ERROR_INVALID_HANDLE
                                            : fake_memory_alloc(FAKE_POOL, bytes, address);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

/* Waits, which the real one doesn't. */
unsigned cuMemFreeAsync(hetccl_cu_address address, struct CUstream_st *stream)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_NO_CAPTURE);
    struct fake_memory *memory;

    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    fake_wait_idle(fake_current());
    memory = fake_memory_find(address);
    if (memory == NULL || memory->kind != FAKE_POOL || (uintptr_t)memory->base != address)
        code = HETCCL_CUDA_ERROR_INVALID_VALUE;
    else
        fake_memory_remove(memory);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

unsigned cuMemAddressReserve(hetccl_cu_address *address, size_t bytes, size_t alignment,
                             hetccl_cu_address hint, unsigned long long flags)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_DRIVER);
    uintptr_t base;

    if (code == 0 && (bytes == 0 || bytes % GRANULARITY != 0))
        code = HETCCL_CUDA_ERROR_INVALID_VALUE;
    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    base = (uintptr_t)fake_memory_reserve(bytes + GRANULARITY);
    pthread_mutex_unlock(&fake_lock);
    if (base == 0)
        return HETCCL_CUDA_ERROR_OUT_OF_MEMORY;
    *address = (base + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
    return 0;
}

/* Addresses are never used again. */
unsigned cuMemAddressFree(hetccl_cu_address address, size_t bytes)
{
    return fake_enter(__func__, FAKE_NEEDS_DRIVER);
}

unsigned cuMemCreate(unsigned long long *handle, size_t bytes, const void *properties,
                     unsigned long long flags)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);
    struct piece *piece;

    if (code == 0 && (bytes == 0 || bytes % GRANULARITY != 0 || properties == NULL))
        code = HETCCL_CUDA_ERROR_INVALID_VALUE;
    if (code != 0)
        return code;
    piece = fake_need(calloc(1, sizeof(*piece)));
    *piece = (struct piece){.fd = memfd_create("fake-cuda-piece", MFD_CLOEXEC), .bytes = bytes};
    if (piece->fd < 0 || ftruncate(piece->fd, (off_t)bytes) != 0)
        abort();
    *handle = (uintptr_t)piece;
    return 0;
}

unsigned cuMemRelease(unsigned long long handle)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_DRIVER);
    struct piece *piece = (struct piece *)(uintptr_t)handle;

    if (code != 0)
        return code;
    (void)close(piece->fd);
    free(piece);
    return 0;
}

unsigned cuMemMap(hetccl_cu_address address, size_t bytes, size_t offset, unsigned long long handle,
                  unsigned long long flags)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);
    const struct piece *piece = (const struct piece *)(uintptr_t)handle;

    if (code == 0 && (offset != 0 || bytes != piece->bytes || address % GRANULARITY != 0))
        code = HETCCL_CUDA_ERROR_INVALID_VALUE;
    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    if (fake_memory_map_at(FAKE_MAPPED, (char *)(uintptr_t)address, dup(piece->fd), bytes) == NULL)
        code = HETCCL_CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&fake_lock);
    return code;
}

/* Whatever was mapped may be reached. */
unsigned cuMemSetAccess(hetccl_cu_address address, size_t bytes, const void *access, size_t count)
{
    return fake_enter(__func__, FAKE_NEEDS_DRIVER);
}

/* All mappings of the range. */
unsigned cuMemUnmap(hetccl_cu_address address, size_t bytes)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_NO_CAPTURE);

    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    fake_wait_idle(fake_current());
    for (size_t done = 0; code == 0 && done < bytes;) {
        struct fake_memory *memory = fake_memory_find(address + done);

        if (memory == NULL || memory->kind != FAKE_MAPPED) {
            code = HETCCL_CUDA_ERROR_INVALID_VALUE;
        } else {
            done += memory->bytes;
            fake_memory_remove(memory);
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}
