/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_DEVICE_CUDA_TABLE_H
#define HETCCL_DEVICE_CUDA_TABLE_H

/*
 * The functions of libcuda.so.1 that we call, found at run time. Members have the exact names of the symbols:
 * dlsym gives the oldest version of a function unless its suffix is written out.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "device/cuda/cuda_abi.h"

struct hetccl_cuda_api {
    void *library; /* of dlopen */

    /* process and devices */
    unsigned (*cuInit)(unsigned flags);
    unsigned (*cuDriverGetVersion)(int *version);
    unsigned (*cuGetErrorName)(unsigned code, const char **name);
    unsigned (*cuGetErrorString)(unsigned code, const char **text);
    unsigned (*cuDeviceGet)(int *device, int ordinal);
    unsigned (*cuDeviceGetCount)(int *count);
    unsigned (*cuDeviceGetAttribute)(int *value, unsigned attribute, int device);
    unsigned (*cuDevicePrimaryCtxRetain)(struct CUctx_st **context, int device);
    unsigned (*cuDevicePrimaryCtxRelease_v2)(int device);

    /* contexts */
    unsigned (*cuCtxGetCurrent)(struct CUctx_st **context);
    unsigned (*cuCtxPushCurrent_v2)(struct CUctx_st *context);
    unsigned (*cuCtxPopCurrent_v2)(struct CUctx_st **context);
    unsigned (*cuCtxGetDevice)(int *device);
    unsigned (*cuCtxGetStreamPriorityRange)(int *least, int *greatest);

    /* memory */
    unsigned (*cuMemAlloc_v2)(hetccl_cu_address *address, size_t bytes);
    unsigned (*cuMemFree_v2)(hetccl_cu_address address);
    unsigned (*cuMemHostAlloc)(void **memory, size_t bytes, unsigned flags);
    unsigned (*cuMemFreeHost)(void *memory);
    unsigned (*cuMemHostRegister_v2)(void *memory, size_t bytes, unsigned flags);
    unsigned (*cuMemHostUnregister)(void *memory);
    unsigned (*cuMemHostGetDevicePointer_v2)(hetccl_cu_address *address, void *memory, unsigned flags);
    unsigned (*cuPointerGetAttributes)(unsigned count, unsigned *attributes, void **data,
                                       hetccl_cu_address pointer);
    unsigned (*cuMemcpyAsync)(hetccl_cu_address dst, hetccl_cu_address src, size_t bytes,
                              struct CUstream_st *stream);
    unsigned (*cuMemcpy2DAsync_v2)(const struct hetccl_cu_rows *rows, struct CUstream_st *stream);
    unsigned (*cuMemsetD8Async)(hetccl_cu_address dst, unsigned char value, size_t bytes,
                                struct CUstream_st *stream);
    unsigned (*cuIpcGetMemHandle)(struct hetccl_cu_ipc_handle *handle, hetccl_cu_address address);
    unsigned (*cuIpcOpenMemHandle_v2)(hetccl_cu_address *address, struct hetccl_cu_ipc_handle handle,
                                      unsigned flags);
    unsigned (*cuIpcCloseMemHandle)(hetccl_cu_address address);

    /* streams and events */
    unsigned (*cuStreamCreateWithPriority)(struct CUstream_st **stream, unsigned flags, int priority);
    unsigned (*cuStreamDestroy_v2)(struct CUstream_st *stream);
    unsigned (*cuStreamQuery)(struct CUstream_st *stream);
    unsigned (*cuStreamWaitEvent)(struct CUstream_st *stream, struct CUevent_st *event, unsigned flags);
    unsigned (*cuStreamGetCaptureInfo_v2)(struct CUstream_st *stream, unsigned *status, uint64_t *id,
                                          struct CUgraph_st **graph,
                                          struct CUgraphNode_st *const **dependencies,
                                          size_t *n_dependencies);
    unsigned (*cuThreadExchangeStreamCaptureMode)(unsigned *mode);
    unsigned (*cuEventCreate)(struct CUevent_st **event, unsigned flags);
    unsigned (*cuEventDestroy_v2)(struct CUevent_st *event);
    unsigned (*cuEventRecord)(struct CUevent_st *event, struct CUstream_st *stream);
    unsigned (*cuEventQuery)(struct CUevent_st *event);

    /* optional: NULL in drivers before 11.7 */
    unsigned (*cuStreamWaitValue32_v2)(struct CUstream_st *stream, hetccl_cu_address address, uint32_t value,
                                       unsigned flags);
    unsigned (*cuStreamWriteValue32_v2)(struct CUstream_st *stream, hetccl_cu_address address, uint32_t value,
                                        unsigned flags);
    unsigned (*cuStreamBatchMemOp_v2)(struct CUstream_st *stream, unsigned count,
                                      union hetccl_cu_value *values, unsigned flags);

    /* kernels */
    unsigned (*cuModuleLoadDataEx)(struct CUmod_st **module, const void *image, unsigned n_options,
                                   unsigned *options, void **values);
    unsigned (*cuModuleUnload)(struct CUmod_st *module);
    unsigned (*cuModuleGetFunction)(struct CUfunc_st **function, struct CUmod_st *module, const char *name);
    unsigned (*cuFuncLoad)(struct CUfunc_st *function); /* from 12.4 on */
    unsigned (*cuLaunchKernel)(struct CUfunc_st *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                               unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                               struct CUstream_st *stream, void **params, void **extra);

    /* graphs */
    unsigned (*cuStreamBeginCapture_v2)(struct CUstream_st *stream, unsigned mode);
    unsigned (*cuStreamEndCapture)(struct CUstream_st *stream, struct CUgraph_st **graph);
    unsigned (*cuGraphInstantiateWithFlags)(struct CUgraphExec_st **exec, struct CUgraph_st *graph,
                                            unsigned long long flags);
    unsigned (*cuGraphLaunch)(struct CUgraphExec_st *exec, struct CUstream_st *stream);
    unsigned (*cuGraphDestroy)(struct CUgraph_st *graph);
    unsigned (*cuGraphExecDestroy)(struct CUgraphExec_st *exec);
};

/*
 * hetccl_cuda_api_load -- open libcuda.so.1 and find its functions. Starts nothing on the GPU.
 *
 * path  [in]  absolute path (HETCCL_CUDA_LIB), or "" for the system's libcuda.so.1
 * Errors: HETCCL_ERR_USAGE naming library, cause and remedy: not absolute, can't be opened, lacks a function.
 * The library is opened RTLD_LOCAL; the caller gives it back by hetccl_cuda_api_unload(). It stays loaded in
 * any case: a driver that has started threads can't be unloaded. Threads: any.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_cuda_api_load(const char *path, struct hetccl_cuda_api *out);

/* Takes a zeroed struct. */
void hetccl_cuda_api_unload(struct hetccl_cuda_api *api);

#endif
