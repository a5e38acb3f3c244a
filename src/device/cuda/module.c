/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "device/cuda/internal.h"

enum { JIT_LOG_BYTES = 400 };

/* The compiler's words are many lines, the first of which names the fault. */
static void cut_to_line(char *log)
{
    log[strcspn(log, "\r\n")] = '\0';
}

enum hetccl_status hetccl_cuda_module_load(struct hetccl_device *device, const void *image,
                                           struct hetccl_module *out)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    char log[JIT_LOG_BYTES] = "";
    unsigned options[] = {HETCCL_CU_JIT_ERROR_LOG_BUFFER, HETCCL_CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    /* The size is passed in the pointer's place; the last byte stays the final NUL. */
    void *values[] = {log, (void *)(uintptr_t)(sizeof(log) - 1)};
    struct CUmod_st *handle = NULL;
    struct hetccl_cuda_scope scope;
    enum hetccl_status status;
    unsigned code;

    if (image == NULL)
        return hetccl_fail(HETCCL_ERR_ARG, "device cuda %d: no kernel image was given", device->ordinal);
    status = hetccl_cuda_enter(cuda, HETCCL_CUDA_APART, &scope);
    if (status != HETCCL_OK)
        return status;
    code = cuda->api.cuModuleLoadDataEx(&handle, image, 2, options, values);
    code = hetccl_cuda_leave(cuda, &scope, code);
    cut_to_line(log);
    status = hetccl_cuda_check(cuda, code, "cuModuleLoadDataEx", "loading a kernel image for %s%s%s",
                               device->arch, log[0] != '\0' ? ", compiler: " : "", log);
    if (status == HETCCL_OK)
        out->handle = handle;
    return status;
}

void hetccl_cuda_module_unload(struct hetccl_device *device, struct hetccl_module module)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct hetccl_cuda_scope scope;
    unsigned code;

    if (module.handle == NULL || hetccl_cuda_enter(cuda, HETCCL_CUDA_APART, &scope) != HETCCL_OK)
        return;
    code = cuda->api.cuModuleUnload(module.handle);
    hetccl_cuda_note(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuModuleUnload");
}

enum hetccl_status hetccl_cuda_kernel_find(struct hetccl_device *device, struct hetccl_module module,
                                           const char *name, struct hetccl_kernel *out)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct CUfunc_st *handle = NULL;
    const char *function = "cuModuleGetFunction";
    struct hetccl_cuda_scope scope;
    enum hetccl_status status = hetccl_cuda_enter(cuda, HETCCL_CUDA_APART, &scope);
    unsigned code;

    if (status != HETCCL_OK)
        return status;
    code = cuda->api.cuModuleGetFunction(&handle, module.handle, name);
    /* Now, as a driver that loads at the first launch may wait for running kernels then. */
    if (code == HETCCL_CUDA_SUCCESS && cuda->api.cuFuncLoad != NULL) {
        function = "cuFuncLoad";
        code = cuda->api.cuFuncLoad(handle);
    }
    status = hetccl_cuda_check(cuda, hetccl_cuda_leave(cuda, &scope, code), function, "looking for kernel %s",
                               name);
    if (status == HETCCL_OK)
        out->handle = handle;
    return status;
}

enum hetccl_status hetccl_cuda_kernel_launch(struct hetccl_device *device, struct hetccl_stream stream,
                                             const struct hetccl_launch *launch)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct hetccl_cuda_scope scope;
    enum hetccl_status status;
    unsigned code;

    if (launch->n_blocks == 0 || launch->block_threads == 0 ||
        launch->block_threads > device->block_threads || launch->shared_bytes > UINT32_MAX)
        return hetccl_fail(HETCCL_ERR_ARG,
                           "device cuda %d: a launch of %u blocks of %u threads with %zu shared bytes; a "
                           "block has 1 to %u threads",
                           device->ordinal, launch->n_blocks, launch->block_threads, launch->shared_bytes,
                           device->block_threads);
    status = hetccl_cuda_enter(cuda, HETCCL_CUDA_ENQUEUES, &scope);
    if (status != HETCCL_OK)
        return status;
    code = cuda->api.cuLaunchKernel(launch->kernel.handle, launch->n_blocks, 1, 1, launch->block_threads, 1,
                                    1, (unsigned)launch->shared_bytes, stream.handle, launch->params, NULL);
    return hetccl_cuda_check(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuLaunchKernel",
                             "launching a kernel of %u blocks of %u threads", launch->n_blocks,
                             launch->block_threads);
}
