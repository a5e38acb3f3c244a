/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda_memory.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* From cuda.h: CUresult, CUdevice, CUdeviceptr, CUcontext and CUstream are int, int, 64 bits and pointers. */
enum { CUDA_NOT_READY = 600, STREAM_NON_BLOCKING = 1 };

struct cuda_memory {
    int (*init)(unsigned flags);
    int (*device_count)(int *count);
    int (*device_get)(int *device, int ordinal);
    int (*context_retain)(void **context, int device);
    int (*context_push)(void *context);
    int (*alloc)(uint64_t *address, size_t bytes);
    int (*free)(uint64_t address);
    int (*alloc_host)(void **memory, size_t bytes, unsigned flags);
    int (*copy)(uint64_t dst, uint64_t src, size_t bytes, void *stream);
    int (*stream_create)(void **stream, unsigned flags, int priority);
    int (*stream_query)(void *stream);
    void *library, *stream;
};

static void check(int result, const char *call)
{
    if (result == 0)
        return;
    (void)fprintf(stderr, "%s gave CUDA error %d\n", call, result);
    exit(1);
}

static void *find(const struct cuda_memory *cuda, const char *name)
{
    void *symbol = dlsym(cuda->library, name);

    if (symbol != NULL)
        return symbol;
    (void)fprintf(stderr, "libcuda.so.1 has no %s\n", name);
    exit(1);
}

static void load(struct cuda_memory *cuda)
{
    cuda->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (cuda->library == NULL) {
        (void)fprintf(stderr, "no CUDA driver: %s\n", dlerror());
        exit(1);
    }
    *(void **)&cuda->init = find(cuda, "cuInit");
    *(void **)&cuda->device_count = find(cuda, "cuDeviceGetCount");
    *(void **)&cuda->device_get = find(cuda, "cuDeviceGet");
    *(void **)&cuda->context_retain = find(cuda, "cuDevicePrimaryCtxRetain");
    *(void **)&cuda->context_push = find(cuda, "cuCtxPushCurrent_v2");
    *(void **)&cuda->alloc = find(cuda, "cuMemAlloc_v2");
    *(void **)&cuda->free = find(cuda, "cuMemFree_v2");
    *(void **)&cuda->alloc_host = find(cuda, "cuMemHostAlloc");
    *(void **)&cuda->copy = find(cuda, "cuMemcpyAsync");
    *(void **)&cuda->stream_create = find(cuda, "cuStreamCreateWithPriority");
    *(void **)&cuda->stream_query = find(cuda, "cuStreamQuery");
}

struct cuda_memory *cuda_memory_open(int ordinal)
{
    struct cuda_memory *cuda = calloc(1, sizeof(*cuda));
    void *context = NULL;
    int device = 0;
    int n_devices = 0;

    if (cuda == NULL)
        abort();
    load(cuda);
    check(cuda->init(0), "cuInit");
    check(cuda->device_count(&n_devices), "cuDeviceGetCount");
    check(cuda->device_get(&device, n_devices > 0 ? ordinal % n_devices : 0), "cuDeviceGet");
    check(cuda->context_retain(&context, device), "cuDevicePrimaryCtxRetain");
    check(cuda->context_push(context), "cuCtxPushCurrent");
    check(cuda->stream_create(&cuda->stream, STREAM_NON_BLOCKING, 0), "cuStreamCreate");
    return cuda;
}

void *cuda_memory_stream(const struct cuda_memory *cuda)
{
    return cuda->stream;
}

void cuda_memory_use_default_stream(struct cuda_memory *cuda)
{
    cuda->stream = NULL;
}

void *cuda_memory_alloc(struct cuda_memory *cuda, size_t bytes)
{
    uint64_t address = 0;

    check(cuda->alloc(&address, bytes), "cuMemAlloc");
    return (void *)(uintptr_t)address;
}

void cuda_memory_free(struct cuda_memory *cuda, void *memory)
{
    check(cuda->free((uintptr_t)memory), "cuMemFree");
}

void *cuda_memory_alloc_host(struct cuda_memory *cuda, size_t bytes)
{
    void *memory = NULL;

    check(cuda->alloc_host(&memory, bytes, 0), "cuMemHostAlloc");
    return memory;
}

void cuda_memory_copy(struct cuda_memory *cuda, void *dst, const void *src, size_t bytes)
{
    check(cuda->copy((uintptr_t)dst, (uintptr_t)src, bytes, cuda->stream), "cuMemcpyAsync");
}

/* cuStreamSynchronize would do as well, but sleeps where many processes share a CPU and wakes up late. */
void cuda_memory_wait(struct cuda_memory *cuda)
{
    int result;

    while ((result = cuda->stream_query(cuda->stream)) == CUDA_NOT_READY)
        (void)sched_yield();
    check(result, "the work on the stream");
}
