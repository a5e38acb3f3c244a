/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cuda/internal.h"

enum hetccl_status hetccl_cuda_mem_alloc(struct hetccl_device *device, size_t bytes,
                                         enum hetccl_memory_kind kind, void **out)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct hetccl_cuda_scope scope;
    hetccl_cu_address address = 0;
    void *pinned = NULL;
    enum hetccl_status status;
    unsigned code;

    if (bytes == 0)
        return hetccl_fail(HETCCL_ERR_ARG, "device cuda %d: an allocation of 0 bytes was asked for",
                           device->ordinal);
    status = hetccl_cuda_enter(cuda, HETCCL_CUDA_APART, &scope);
    if (status != HETCCL_OK)
        return status;
    if (kind == HETCCL_MEMORY_PINNED)
        code = cuda->api.cuMemHostAlloc(&pinned, bytes,
                                        HETCCL_CU_MEMHOSTALLOC_PORTABLE | HETCCL_CU_MEMHOSTALLOC_DEVICEMAP);
    else
        code = cuda->api.cuMemAlloc_v2(&address, bytes);
    code = hetccl_cuda_leave(cuda, &scope, code);
    status = hetccl_cuda_check(cuda, code, kind == HETCCL_MEMORY_PINNED ? "cuMemHostAlloc" : "cuMemAlloc_v2",
                               "allocating %zu bytes", bytes);
    if (status == HETCCL_OK)
        *out = kind == HETCCL_MEMORY_PINNED ? pinned : (void *)(uintptr_t)address;
    return status;
}

void hetccl_cuda_mem_free(struct hetccl_device *device, void *memory, enum hetccl_memory_kind kind)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    bool is_pinned = kind == HETCCL_MEMORY_PINNED;
    struct hetccl_cuda_scope scope;
    unsigned code;

    if (memory == NULL || hetccl_cuda_enter(cuda, HETCCL_CUDA_APART, &scope) != HETCCL_OK)
        return;
    code = is_pinned ? cuda->api.cuMemFreeHost(memory) : cuda->api.cuMemFree_v2(hetccl_cuda_address(memory));
    hetccl_cuda_note(cuda, hetccl_cuda_leave(cuda, &scope, code),
                     is_pinned ? "cuMemFreeHost" : "cuMemFree_v2");
}

enum hetccl_status hetccl_cuda_register(struct hetccl_device *device, void *memory, size_t bytes)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct hetccl_cuda_scope scope;
    enum hetccl_status status;
    unsigned code;

    if (memory == NULL || bytes == 0)
        return hetccl_fail(HETCCL_ERR_ARG, "device cuda %d: %zu bytes at %p can't be registered",
                           device->ordinal, bytes, memory);
    status = hetccl_cuda_enter(cuda, HETCCL_CUDA_APART, &scope);
    if (status != HETCCL_OK)
        return status;
    code = cuda->api.cuMemHostRegister_v2(
        memory, bytes, HETCCL_CU_MEMHOSTREGISTER_PORTABLE | HETCCL_CU_MEMHOSTREGISTER_DEVICEMAP);
    return hetccl_cuda_check(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuMemHostRegister_v2",
                             "registering %zu bytes of host memory at %p", bytes, memory);
}

void hetccl_cuda_unregister(struct hetccl_device *device, void *memory)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct hetccl_cuda_scope scope;
    unsigned code;

    if (memory == NULL || hetccl_cuda_enter(cuda, HETCCL_CUDA_APART, &scope) != HETCCL_OK)
        return;
    code = cuda->api.cuMemHostUnregister(memory);
    hetccl_cuda_note(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuMemHostUnregister");
}

enum hetccl_status hetccl_cuda_device_address(struct hetccl_device *device, void *host_memory, void **out)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct hetccl_cuda_scope scope;
    hetccl_cu_address address = 0;
    enum hetccl_status status;
    unsigned code;

    if (host_memory == NULL)
        return hetccl_fail(HETCCL_ERR_ARG, "device cuda %d: NULL has no device address", device->ordinal);
    status = hetccl_cuda_enter(cuda, HETCCL_CUDA_APART, &scope);
    if (status != HETCCL_OK)
        return status;
    code = cuda->api.cuMemHostGetDevicePointer_v2(&address, host_memory, 0);
    status = hetccl_cuda_check(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuMemHostGetDevicePointer_v2",
                               "looking for the device address of host memory at %p", host_memory);
    if (status == HETCCL_OK)
        *out = (void *)(uintptr_t)address;
    return status;
}

enum { N_ATTRIBUTES = 6 };

static const unsigned attributes[N_ATTRIBUTES] = {
    HETCCL_CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      HETCCL_CU_POINTER_ATTRIBUTE_IS_MANAGED,
    HETCCL_CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,   HETCCL_CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
    HETCCL_CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, HETCCL_CU_POINTER_ATTRIBUTE_RANGE_SIZE,
};

/* The driver writes 1, 4 or 8 bytes, by attribute: read the width that is sure, out of zeroed room. */
union attribute {
    uint64_t wide; /* an address, a size, and more than nothing for a truth value */
    uint32_t narrow;
};

static struct hetccl_pointer read_pointer(const union attribute values[N_ATTRIBUTES])
{
    struct hetccl_pointer pointer = {.kind = HETCCL_POINTER_UNKNOWN,
                                     .ordinal = (int)values[2].narrow,
                                     .base = (void *)(uintptr_t)values[4].wide,
                                     .bytes = values[5].wide,
                                     .has_ipc = values[3].wide != 0};

    if (values[0].narrow == 0) /* not the driver's */
        return (struct hetccl_pointer){.kind = HETCCL_POINTER_HOST, .ordinal = -1};
    if (values[1].wide != 0)
        pointer.kind = HETCCL_POINTER_MANAGED;
    else if (values[0].narrow == HETCCL_CU_MEMORYTYPE_HOST)
        pointer.kind = HETCCL_POINTER_PINNED;
    else if (values[0].narrow == HETCCL_CU_MEMORYTYPE_DEVICE)
        pointer.kind = HETCCL_POINTER_DEVICE;
    /* Only plain device memory can be shared, whatever the driver says of the rest. */
    pointer.has_ipc = pointer.has_ipc && pointer.kind == HETCCL_POINTER_DEVICE;
    return pointer;
}

enum hetccl_status hetccl_cuda_classify(struct hetccl_device *device, const void *pointer,
                                        struct hetccl_pointer *out)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    union attribute values[N_ATTRIBUTES] = {{.wide = 0}};
    unsigned wanted[N_ATTRIBUTES];
    void *places[N_ATTRIBUTES];
    struct hetccl_cuda_scope scope;
    enum hetccl_status status;
    unsigned code;

    if (pointer == NULL) {
        *out = (struct hetccl_pointer){.kind = HETCCL_POINTER_UNKNOWN, .ordinal = -1};
        return HETCCL_OK;
    }
    for (size_t i = 0; i < N_ATTRIBUTES; i++) {
        wanted[i] = attributes[i];
        places[i] = &values[i];
    }
    status = hetccl_cuda_enter(cuda, HETCCL_CUDA_APART, &scope);
    if (status != HETCCL_OK)
        return status;
    code = cuda->api.cuPointerGetAttributes(N_ATTRIBUTES, wanted, places, hetccl_cuda_address(pointer));
    status = hetccl_cuda_check(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuPointerGetAttributes",
                               "asking what pointer %p is", pointer);
    if (status == HETCCL_OK)
        *out = read_pointer(values);
    return status;
}

enum hetccl_status hetccl_cuda_copy(struct hetccl_device *device, struct hetccl_stream stream, void *dst,
                                    const void *src, size_t bytes)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct hetccl_cuda_scope scope;
    enum hetccl_status status;
    unsigned code;

    if (bytes == 0)
        return HETCCL_OK;
    status = hetccl_cuda_enter(cuda, HETCCL_CUDA_ENQUEUES, &scope);
    if (status != HETCCL_OK)
        return status;
    code = cuda->api.cuMemcpyAsync(hetccl_cuda_address(dst), hetccl_cuda_address(src), bytes, stream.handle);
    return hetccl_cuda_check(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuMemcpyAsync",
                             "copying %zu bytes from %p to %p", bytes, src, dst);
}

enum hetccl_status hetccl_cuda_copy_rows(struct hetccl_device *device, struct hetccl_stream stream,
                                         const struct hetccl_rows *rows)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct hetccl_cu_rows copy = {.src_type = HETCCL_CU_MEMORYTYPE_UNIFIED,
                                  .src = hetccl_cuda_address(rows->src),
                                  .src_pitch = rows->src_pitch,
                                  .dst_type = HETCCL_CU_MEMORYTYPE_UNIFIED,
                                  .dst = hetccl_cuda_address(rows->dst),
                                  .dst_pitch = rows->dst_pitch,
                                  .row_bytes = rows->row_bytes,
                                  .n_rows = rows->n_rows};
    struct hetccl_cuda_scope scope;
    enum hetccl_status status;
    unsigned code;

    if (rows->row_bytes == 0 || rows->n_rows == 0)
        return HETCCL_OK;
    status = hetccl_cuda_enter(cuda, HETCCL_CUDA_ENQUEUES, &scope);
    if (status != HETCCL_OK)
        return status;
    code = cuda->api.cuMemcpy2DAsync_v2(&copy, stream.handle);
    return hetccl_cuda_check(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuMemcpy2DAsync_v2",
                             "copying %zu rows of %zu bytes from %p to %p", rows->n_rows, rows->row_bytes,
                             rows->src, rows->dst);
}

enum hetccl_status hetccl_cuda_fill(struct hetccl_device *device, struct hetccl_stream stream, void *dst,
                                    uint8_t value, size_t bytes)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct hetccl_cuda_scope scope;
    enum hetccl_status status;
    unsigned code;

    if (bytes == 0)
        return HETCCL_OK;
    status = hetccl_cuda_enter(cuda, HETCCL_CUDA_ENQUEUES, &scope);
    if (status != HETCCL_OK)
        return status;
    code = cuda->api.cuMemsetD8Async(hetccl_cuda_address(dst), value, bytes, stream.handle);
    return hetccl_cuda_check(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuMemsetD8Async",
                             "filling %zu bytes at %p", bytes, dst);
}
