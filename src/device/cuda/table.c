/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cuda/table.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "base/log.h"

static const char system_library[] = "libcuda.so.1";

static const struct {
    const char *name;
    size_t offset; /* of the member of struct hetccl_cuda_api */
    bool is_required;
} symbols[] = {
    {"cuInit", offsetof(struct hetccl_cuda_api, cuInit), true},
    {"cuDriverGetVersion", offsetof(struct hetccl_cuda_api, cuDriverGetVersion), true},
    {"cuGetErrorName", offsetof(struct hetccl_cuda_api, cuGetErrorName), true},
    {"cuGetErrorString", offsetof(struct hetccl_cuda_api, cuGetErrorString), true},
    {"cuDeviceGet", offsetof(struct hetccl_cuda_api, cuDeviceGet), true},
    {"cuDeviceGetCount", offsetof(struct hetccl_cuda_api, cuDeviceGetCount), true},
    {"cuDeviceGetAttribute", offsetof(struct hetccl_cuda_api, cuDeviceGetAttribute), true},
    {"cuDevicePrimaryCtxRetain", offsetof(struct hetccl_cuda_api, cuDevicePrimaryCtxRetain), true},
    {"cuDevicePrimaryCtxRelease_v2", offsetof(struct hetccl_cuda_api, cuDevicePrimaryCtxRelease_v2), true},
    {"cuCtxGetCurrent", offsetof(struct hetccl_cuda_api, cuCtxGetCurrent), true},
    {"cuCtxPushCurrent_v2", offsetof(struct hetccl_cuda_api, cuCtxPushCurrent_v2), true},
    {"cuCtxPopCurrent_v2", offsetof(struct hetccl_cuda_api, cuCtxPopCurrent_v2), true},
    {"cuCtxGetDevice", offsetof(struct hetccl_cuda_api, cuCtxGetDevice), true},
    {"cuCtxGetStreamPriorityRange", offsetof(struct hetccl_cuda_api, cuCtxGetStreamPriorityRange), true},
    {"cuMemAlloc_v2", offsetof(struct hetccl_cuda_api, cuMemAlloc_v2), true},
    {"cuMemFree_v2", offsetof(struct hetccl_cuda_api, cuMemFree_v2), true},
    {"cuMemHostAlloc", offsetof(struct hetccl_cuda_api, cuMemHostAlloc), true},
    {"cuMemFreeHost", offsetof(struct hetccl_cuda_api, cuMemFreeHost), true},
    {"cuMemHostRegister_v2", offsetof(struct hetccl_cuda_api, cuMemHostRegister_v2), true},
    {"cuMemHostUnregister", offsetof(struct hetccl_cuda_api, cuMemHostUnregister), true},
    {"cuMemHostGetDevicePointer_v2", offsetof(struct hetccl_cuda_api, cuMemHostGetDevicePointer_v2), true},
    {"cuPointerGetAttributes", offsetof(struct hetccl_cuda_api, cuPointerGetAttributes), true},
    {"cuMemcpyAsync", offsetof(struct hetccl_cuda_api, cuMemcpyAsync), true},
    {"cuMemcpy2DAsync_v2", offsetof(struct hetccl_cuda_api, cuMemcpy2DAsync_v2), true},
    {"cuMemsetD8Async", offsetof(struct hetccl_cuda_api, cuMemsetD8Async), true},
    {"cuIpcGetMemHandle", offsetof(struct hetccl_cuda_api, cuIpcGetMemHandle), true},
    {"cuIpcOpenMemHandle_v2", offsetof(struct hetccl_cuda_api, cuIpcOpenMemHandle_v2), true},
    {"cuIpcCloseMemHandle", offsetof(struct hetccl_cuda_api, cuIpcCloseMemHandle), true},
    {"cuStreamCreateWithPriority", offsetof(struct hetccl_cuda_api, cuStreamCreateWithPriority), true},
    {"cuStreamDestroy_v2", offsetof(struct hetccl_cuda_api, cuStreamDestroy_v2), true},
    {"cuStreamQuery", offsetof(struct hetccl_cuda_api, cuStreamQuery), true},
    {"cuStreamWaitEvent", offsetof(struct hetccl_cuda_api, cuStreamWaitEvent), true},
    {"cuStreamGetCaptureInfo_v2", offsetof(struct hetccl_cuda_api, cuStreamGetCaptureInfo_v2), true},
    {"cuThreadExchangeStreamCaptureMode", offsetof(struct hetccl_cuda_api, cuThreadExchangeStreamCaptureMode),
     true},
    {"cuEventCreate", offsetof(struct hetccl_cuda_api, cuEventCreate), true},
    {"cuEventDestroy_v2", offsetof(struct hetccl_cuda_api, cuEventDestroy_v2), true},
    {"cuEventRecord", offsetof(struct hetccl_cuda_api, cuEventRecord), true},
    {"cuEventQuery", offsetof(struct hetccl_cuda_api, cuEventQuery), true},
    {"cuStreamWaitValue32_v2", offsetof(struct hetccl_cuda_api, cuStreamWaitValue32_v2), false},
    {"cuStreamWriteValue32_v2", offsetof(struct hetccl_cuda_api, cuStreamWriteValue32_v2), false},
    {"cuStreamBatchMemOp_v2", offsetof(struct hetccl_cuda_api, cuStreamBatchMemOp_v2), false},
    {"cuModuleLoadDataEx", offsetof(struct hetccl_cuda_api, cuModuleLoadDataEx), true},
    {"cuModuleUnload", offsetof(struct hetccl_cuda_api, cuModuleUnload), true},
    {"cuModuleGetFunction", offsetof(struct hetccl_cuda_api, cuModuleGetFunction), true},
    {"cuFuncLoad", offsetof(struct hetccl_cuda_api, cuFuncLoad), false},
    {"cuLaunchKernel", offsetof(struct hetccl_cuda_api, cuLaunchKernel), true},
    {"cuStreamBeginCapture_v2", offsetof(struct hetccl_cuda_api, cuStreamBeginCapture_v2), true},
    {"cuStreamEndCapture", offsetof(struct hetccl_cuda_api, cuStreamEndCapture), true},
    {"cuGraphInstantiateWithFlags", offsetof(struct hetccl_cuda_api, cuGraphInstantiateWithFlags), true},
    {"cuGraphLaunch", offsetof(struct hetccl_cuda_api, cuGraphLaunch), true},
    {"cuGraphDestroy", offsetof(struct hetccl_cuda_api, cuGraphDestroy), true},
    {"cuGraphExecDestroy", offsetof(struct hetccl_cuda_api, cuGraphExecDestroy), true},
};

/* ISO C has no conversion from an object's pointer to a function's; POSIX promises that the bytes are the
 * same. */
static void set_function(struct hetccl_cuda_api *api, size_t offset, void *address)
{
    memcpy((char *)api + offset, &address, sizeof(address));
}

static enum hetccl_status find_functions(const char *path, struct hetccl_cuda_api *api)
{
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *address = dlsym(api->library, symbols[i].name);

        if (address == NULL && symbols[i].is_required)
            return hetccl_fail(
                HETCCL_ERR_USAGE,
                "%s has no function %s: it is no CUDA driver, or one older than 11.4; update the NVIDIA "
                "driver or correct HETCCL_CUDA_LIB",
                path, symbols[i].name);
        if (address == NULL)
            hetccl_log(HETCCL_LOG_DEBUG, "device", "%s has no function %s", path, symbols[i].name);
        set_function(api, symbols[i].offset, address);
    }
    return HETCCL_OK;
}

enum hetccl_status hetccl_cuda_api_load(const char *path, struct hetccl_cuda_api *out)
{
    const char *library = path[0] != '\0' ? path : system_library;
    struct hetccl_cuda_api api = {.library = NULL};
    enum hetccl_status status;

    if (path[0] != '\0' && path[0] != '/')
        return hetccl_fail(HETCCL_ERR_USAGE, "HETCCL_CUDA_LIB=%s: an absolute path is needed", path);
    api.library = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (api.library == NULL)
        return hetccl_fail(
            HETCCL_ERR_USAGE,
            "no CUDA driver: %s; install the NVIDIA driver, or name its libcuda.so.1 in HETCCL_CUDA_LIB",
            dlerror());
    status = find_functions(library, &api);
    if (status != HETCCL_OK) {
        hetccl_cuda_api_unload(&api);
        return status;
    }
    *out = api;
    return HETCCL_OK;
}

void hetccl_cuda_api_unload(struct hetccl_cuda_api *api)
{
    if (api->library != NULL)
        (void)dlclose(api->library);
    *api = (struct hetccl_cuda_api){.library = NULL};
}
