/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FAKE_CUDA_DRIVER_H
#define TESTS_FAKE_CUDA_DRIVER_H

/* The driver functions that the fake exports, as cuda.h has them. table_check.c holds them against the
 * library's table. */

#include <stddef.h>
#include <stdint.h>

#include "device/cuda/cuda_abi.h"
#include "fake_cuda.h"

#pragma GCC visibility push(default)

unsigned cuInit(unsigned flags);
unsigned cuDriverGetVersion(int *version);
unsigned cuGetErrorName(unsigned code, const char **name);
unsigned cuGetErrorString(unsigned code, const char **text);
unsigned cuDeviceGet(int *device, int ordinal);
unsigned cuDeviceGetCount(int *count);
unsigned cuDeviceGetAttribute(int *value, unsigned attribute, int device);
unsigned cuDevicePrimaryCtxRetain(struct CUctx_st **context, int device);
unsigned cuDevicePrimaryCtxRelease_v2(int device);
unsigned cuCtxGetCurrent(struct CUctx_st **context);
unsigned cuCtxPushCurrent_v2(struct CUctx_st *context);
unsigned cuCtxPopCurrent_v2(struct CUctx_st **context);
unsigned cuCtxGetDevice(int *device);
unsigned cuCtxGetStreamPriorityRange(int *least, int *greatest);
unsigned cuMemAlloc_v2(hetccl_cu_address *address, size_t bytes);
unsigned cuMemFree_v2(hetccl_cu_address address);
unsigned cuMemHostAlloc(void **memory, size_t bytes, unsigned flags);
unsigned cuMemFreeHost(void *memory);
unsigned cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags);
unsigned cuMemHostUnregister(void *memory);
unsigned cuMemHostGetDevicePointer_v2(hetccl_cu_address *address, void *memory, unsigned flags);
unsigned cuPointerGetAttributes(unsigned count, unsigned *attributes, void **data, hetccl_cu_address pointer);
unsigned cuMemcpyAsync(hetccl_cu_address dst, hetccl_cu_address src, size_t bytes,
                       struct CUstream_st *stream);
unsigned cuMemcpy2DAsync_v2(const struct hetccl_cu_rows *rows, struct CUstream_st *stream);
unsigned cuMemsetD8Async(hetccl_cu_address dst, unsigned char value, size_t bytes,
                         struct CUstream_st *stream);
unsigned cuIpcGetMemHandle(struct hetccl_cu_ipc_handle *handle, hetccl_cu_address address);
unsigned cuIpcOpenMemHandle_v2(hetccl_cu_address *address, struct hetccl_cu_ipc_handle handle,
                               unsigned flags);
unsigned cuIpcCloseMemHandle(hetccl_cu_address address);
unsigned cuStreamCreateWithPriority(struct CUstream_st **stream, unsigned flags, int priority);
unsigned cuStreamDestroy_v2(struct CUstream_st *stream);
unsigned cuStreamQuery(struct CUstream_st *stream);
unsigned cuStreamWaitEvent(struct CUstream_st *stream, struct CUevent_st *event, unsigned flags);
unsigned cuStreamGetCaptureInfo_v2(struct CUstream_st *stream, unsigned *status, uint64_t *id,
                                   struct CUgraph_st **graph, struct CUgraphNode_st *const **dependencies,
                                   size_t *n_dependencies);
unsigned cuThreadExchangeStreamCaptureMode(unsigned *mode);
unsigned cuEventCreate(struct CUevent_st **event, unsigned flags);
unsigned cuEventDestroy_v2(struct CUevent_st *event);
unsigned cuEventRecord(struct CUevent_st *event, struct CUstream_st *stream);
unsigned cuEventQuery(struct CUevent_st *event);
unsigned cuStreamWaitValue32_v2(struct CUstream_st *stream, hetccl_cu_address address, uint32_t value,
                                unsigned flags);
unsigned cuStreamWriteValue32_v2(struct CUstream_st *stream, hetccl_cu_address address, uint32_t value,
                                 unsigned flags);
unsigned cuStreamBatchMemOp_v2(struct CUstream_st *stream, unsigned count, union hetccl_cu_value *values,
                               unsigned flags);
unsigned cuModuleLoadDataEx(struct CUmod_st **module, const void *image, unsigned n_options,
                            unsigned *options, void **values);
unsigned cuModuleUnload(struct CUmod_st *module);
unsigned cuModuleGetFunction(struct CUfunc_st **function, struct CUmod_st *module, const char *name);
unsigned cuFuncLoad(struct CUfunc_st *function);
unsigned cuLaunchKernel(struct CUfunc_st *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        struct CUstream_st *stream, void **params, void **extra);
unsigned cuStreamBeginCapture_v2(struct CUstream_st *stream, unsigned mode);
unsigned cuStreamEndCapture(struct CUstream_st *stream, struct CUgraph_st **graph);
unsigned cuGraphInstantiateWithFlags(struct CUgraphExec_st **exec, struct CUgraph_st *graph,
                                     unsigned long long flags);
unsigned cuGraphLaunch(struct CUgraphExec_st *exec, struct CUstream_st *stream);
unsigned cuGraphDestroy(struct CUgraph_st *graph);
unsigned cuGraphExecDestroy(struct CUgraphExec_st *exec);

/* For tests only. */
unsigned cuCtxSetCurrent(struct CUctx_st *context);
unsigned cuMemAllocManaged(hetccl_cu_address *address, size_t bytes, unsigned flags);
unsigned cuStreamCreate(struct CUstream_st **stream, unsigned flags);
unsigned cuMemAllocAsync(hetccl_cu_address *address, size_t bytes, struct CUstream_st *stream);
unsigned cuMemFreeAsync(hetccl_cu_address address, struct CUstream_st *stream);
unsigned cuMemAddressReserve(hetccl_cu_address *address, size_t bytes, size_t alignment,
                             hetccl_cu_address hint, unsigned long long flags);
unsigned cuMemAddressFree(hetccl_cu_address address, size_t bytes);
unsigned cuMemCreate(unsigned long long *handle, size_t bytes, const void *properties,
                     unsigned long long flags);
unsigned cuMemRelease(unsigned long long handle);
unsigned cuMemMap(hetccl_cu_address address, size_t bytes, size_t offset, unsigned long long handle,
                  unsigned long long flags);
unsigned cuMemSetAccess(hetccl_cu_address address, size_t bytes, const void *access, size_t count);
unsigned cuMemUnmap(hetccl_cu_address address, size_t bytes);
unsigned cuStreamIsCapturing(struct CUstream_st *stream, unsigned *status);

void fake_cuda_register(const struct fake_cuda_kernel *kernels);
void fake_cuda_fail(const char *function, unsigned k, unsigned code);
unsigned fake_cuda_calls(const char *function);
size_t fake_cuda_live_objects(void);

#pragma GCC visibility pop

#endif
