/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "device/cuda/internal.h"

_Static_assert(sizeof(struct hetccl_cu_ipc_handle) == HETCCL_IPC_HANDLE_BYTES, "a handle fits exactly");

/* The driver shares whole allocations, so the handle is the base's and the offset travels beside it. */
enum hetccl_status hetccl_cuda_ipc_export(struct hetccl_device *device, const void *memory,
                                          struct hetccl_ipc_handle *out)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct hetccl_cu_ipc_handle handle;
    struct hetccl_cuda_scope scope;
    struct hetccl_pointer pointer;
    enum hetccl_status status = hetccl_cuda_classify(device, memory, &pointer);
    unsigned code;

    if (status != HETCCL_OK)
        return status;
    if (!pointer.has_ipc)
        return hetccl_fail(
            HETCCL_ERR_USAGE,
            "device cuda %d: memory at %p can't be shared with other processes: it is no plain device memory "
            "(cudaMalloc); with PyTorch leave expandable_segments and cudaMallocAsync off to share it",
            device->ordinal, memory);
    status = hetccl_cuda_enter(cuda, HETCCL_CUDA_APART, &scope);
    if (status != HETCCL_OK)
        return status;
    code = cuda->api.cuIpcGetMemHandle(&handle, hetccl_cuda_address(pointer.base));
    status = hetccl_cuda_check(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuIpcGetMemHandle",
                               "sharing %zu bytes at %p", pointer.bytes, pointer.base);
    if (status != HETCCL_OK)
        return status;
    memcpy(out->bytes, &handle, sizeof(handle));
    out->offset_bytes = (uint64_t)((uintptr_t)memory - (uintptr_t)pointer.base);
    return HETCCL_OK;
}

enum hetccl_status hetccl_cuda_ipc_import(struct hetccl_device *device,
                                          const struct hetccl_ipc_handle *handle,
                                          struct hetccl_ipc_mapping *out)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct hetccl_cu_ipc_handle raw;
    struct hetccl_cuda_scope scope;
    hetccl_cu_address base = 0;
    enum hetccl_status status = hetccl_cuda_enter(cuda, HETCCL_CUDA_APART, &scope);
    unsigned code;

    if (status != HETCCL_OK)
        return status;
    memcpy(&raw, handle->bytes, sizeof(raw));
    code = cuda->api.cuIpcOpenMemHandle_v2(&base, raw, HETCCL_CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    status = hetccl_cuda_check(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuIpcOpenMemHandle_v2",
                               "opening device memory of another process");
    if (status != HETCCL_OK)
        return status;
    out->base = (void *)(uintptr_t)base;
    out->address = (void *)(uintptr_t)(base + handle->offset_bytes);
    return HETCCL_OK;
}

void hetccl_cuda_ipc_close(struct hetccl_device *device, struct hetccl_ipc_mapping *mapping)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct hetccl_cuda_scope scope;
    unsigned code;

    if (mapping->base == NULL || hetccl_cuda_enter(cuda, HETCCL_CUDA_APART, &scope) != HETCCL_OK)
        return;
    code = cuda->api.cuIpcCloseMemHandle(hetccl_cuda_address(mapping->base));
    hetccl_cuda_note(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuIpcCloseMemHandle");
    *mapping = (struct hetccl_ipc_mapping){.base = NULL};
}
