/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Compiles only where our declarations of the CUDA driver's ABI agree with the real cuda.h: every constant,
 * every struct, every prototype of the table. Old versions of functions stand behind
 * __CUDA_API_VERSION_INTERNAL.
 */

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "device/cuda/table.h"

#define SAME_VALUE(name) _Static_assert((int)(HETCCL_##name) == (int)(name), #name)

/* Enumerations are unsigned int to gcc and clang, so a pointer to a function tells everything but struct
 * names. */
#define SAME_TYPE(name)                                                                                      \
    _Static_assert(                                                                                          \
        __builtin_types_compatible_p(__typeof__(((struct hetccl_cuda_api *)0)->name), __typeof__(&(name))),  \
        #name)

SAME_VALUE(CUDA_SUCCESS);
SAME_VALUE(CUDA_ERROR_INVALID_VALUE);
SAME_VALUE(CUDA_ERROR_OUT_OF_MEMORY);
SAME_VALUE(CUDA_ERROR_NOT_INITIALIZED);
SAME_VALUE(CUDA_ERROR_DEINITIALIZED);
SAME_VALUE(CUDA_ERROR_STUB_LIBRARY);
SAME_VALUE(CUDA_ERROR_DEVICE_UNAVAILABLE);
SAME_VALUE(CUDA_ERROR_NO_DEVICE);
SAME_VALUE(CUDA_ERROR_INVALID_DEVICE);
SAME_VALUE(CUDA_ERROR_INVALID_IMAGE);
SAME_VALUE(CUDA_ERROR_INVALID_CONTEXT);
SAME_VALUE(CUDA_ERROR_MAP_FAILED);
SAME_VALUE(CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME_VALUE(CUDA_ERROR_ECC_UNCORRECTABLE);
SAME_VALUE(CUDA_ERROR_INVALID_PTX);
SAME_VALUE(CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
SAME_VALUE(CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME_VALUE(CUDA_ERROR_INVALID_HANDLE);
SAME_VALUE(CUDA_ERROR_NOT_FOUND);
SAME_VALUE(CUDA_ERROR_NOT_READY);
SAME_VALUE(CUDA_ERROR_ILLEGAL_ADDRESS);
SAME_VALUE(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
SAME_VALUE(CUDA_ERROR_LAUNCH_TIMEOUT);
SAME_VALUE(CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME_VALUE(CUDA_ERROR_ASSERT);
SAME_VALUE(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
SAME_VALUE(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
SAME_VALUE(CUDA_ERROR_ILLEGAL_INSTRUCTION);
SAME_VALUE(CUDA_ERROR_MISALIGNED_ADDRESS);
SAME_VALUE(CUDA_ERROR_LAUNCH_FAILED);
SAME_VALUE(CUDA_ERROR_NOT_PERMITTED);
SAME_VALUE(CUDA_ERROR_NOT_SUPPORTED);
SAME_VALUE(CUDA_ERROR_SYSTEM_NOT_READY);
SAME_VALUE(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME_VALUE(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
SAME_VALUE(CUDA_ERROR_MPS_CONNECTION_FAILED);
SAME_VALUE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME_VALUE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SAME_VALUE(CUDA_ERROR_STREAM_CAPTURE_MERGE);
SAME_VALUE(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
SAME_VALUE(CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
SAME_VALUE(CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
SAME_VALUE(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SAME_VALUE(CUDA_ERROR_CAPTURED_EVENT);
SAME_VALUE(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
SAME_VALUE(CUDA_ERROR_UNKNOWN);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
#if CUDA_VERSION >= 12040
SAME_VALUE(CU_DEVICE_ATTRIBUTE_MPS_ENABLED);
#endif
SAME_VALUE(CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME_VALUE(CU_POINTER_ATTRIBUTE_IS_MANAGED);
SAME_VALUE(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME_VALUE(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
SAME_VALUE(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
SAME_VALUE(CU_POINTER_ATTRIBUTE_RANGE_SIZE);
SAME_VALUE(CU_MEMORYTYPE_HOST);
SAME_VALUE(CU_MEMORYTYPE_DEVICE);
SAME_VALUE(CU_MEMORYTYPE_UNIFIED);
SAME_VALUE(CU_STREAM_NON_BLOCKING);
SAME_VALUE(CU_EVENT_DISABLE_TIMING);
SAME_VALUE(CU_MEMHOSTALLOC_PORTABLE);
SAME_VALUE(CU_MEMHOSTALLOC_DEVICEMAP);
SAME_VALUE(CU_MEMHOSTREGISTER_PORTABLE);
SAME_VALUE(CU_MEMHOSTREGISTER_DEVICEMAP);
SAME_VALUE(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
SAME_VALUE(CU_STREAM_WAIT_VALUE_GEQ);
SAME_VALUE(CU_STREAM_WAIT_VALUE_EQ);
SAME_VALUE(CU_STREAM_WRITE_VALUE_DEFAULT);
SAME_VALUE(CU_STREAM_MEM_OP_WAIT_VALUE_32);
SAME_VALUE(CU_STREAM_MEM_OP_WRITE_VALUE_32);
SAME_VALUE(CU_STREAM_MEM_OP_WRITE_VALUE_64);
SAME_VALUE(CU_STREAM_CAPTURE_STATUS_NONE);
SAME_VALUE(CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME_VALUE(CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SAME_VALUE(CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME_VALUE(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME_VALUE(CU_STREAM_CAPTURE_MODE_RELAXED);
SAME_VALUE(CU_JIT_ERROR_LOG_BUFFER);
SAME_VALUE(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);

SAME_TYPE(cuInit);
SAME_TYPE(cuDriverGetVersion);
SAME_TYPE(cuGetErrorName);
SAME_TYPE(cuGetErrorString);
SAME_TYPE(cuDeviceGet);
SAME_TYPE(cuDeviceGetCount);
SAME_TYPE(cuDeviceGetAttribute);
SAME_TYPE(cuDevicePrimaryCtxRetain);
SAME_TYPE(cuDevicePrimaryCtxRelease_v2);
SAME_TYPE(cuCtxGetCurrent);
SAME_TYPE(cuCtxPushCurrent_v2);
SAME_TYPE(cuCtxPopCurrent_v2);
SAME_TYPE(cuCtxGetDevice);
SAME_TYPE(cuCtxGetStreamPriorityRange);
SAME_TYPE(cuMemAlloc_v2);
SAME_TYPE(cuMemFree_v2);
SAME_TYPE(cuMemHostAlloc);
SAME_TYPE(cuMemFreeHost);
SAME_TYPE(cuMemHostRegister_v2);
SAME_TYPE(cuMemHostUnregister);
SAME_TYPE(cuMemHostGetDevicePointer_v2);
SAME_TYPE(cuPointerGetAttributes);
SAME_TYPE(cuMemcpyAsync);
SAME_TYPE(cuMemsetD8Async);
SAME_TYPE(cuIpcCloseMemHandle);
SAME_TYPE(cuStreamCreateWithPriority);
SAME_TYPE(cuStreamDestroy_v2);
SAME_TYPE(cuStreamQuery);
SAME_TYPE(cuStreamWaitEvent);
SAME_TYPE(cuStreamGetCaptureInfo_v2);
SAME_TYPE(cuThreadExchangeStreamCaptureMode);
SAME_TYPE(cuEventCreate);
SAME_TYPE(cuEventDestroy_v2);
SAME_TYPE(cuEventRecord);
SAME_TYPE(cuEventQuery);
SAME_TYPE(cuStreamWaitValue32_v2);
SAME_TYPE(cuStreamWriteValue32_v2);
SAME_TYPE(cuModuleLoadDataEx);
SAME_TYPE(cuModuleUnload);
SAME_TYPE(cuModuleGetFunction);
SAME_TYPE(cuLaunchKernel);
SAME_TYPE(cuStreamBeginCapture_v2);
SAME_TYPE(cuStreamEndCapture);
SAME_TYPE(cuGraphInstantiateWithFlags);
SAME_TYPE(cuGraphLaunch);
SAME_TYPE(cuGraphDestroy);
SAME_TYPE(cuGraphExecDestroy);
#if CUDA_VERSION >= 12040
SAME_TYPE(cuFuncLoad);
#endif

/* These two name the struct of the handle, which is ours: the rest of the prototype, and the struct's shape.
 */
_Static_assert(sizeof(struct hetccl_cu_ipc_handle) == sizeof(CUipcMemHandle), "IPC handle");
_Static_assert(_Alignof(struct hetccl_cu_ipc_handle) == _Alignof(CUipcMemHandle), "IPC handle");
_Static_assert(__builtin_types_compatible_p(CUresult(CUipcMemHandle *, CUdeviceptr),
                                            __typeof__(cuIpcGetMemHandle)),
               "cuIpcGetMemHandle");
_Static_assert(__builtin_types_compatible_p(CUresult(CUdeviceptr *, CUipcMemHandle, unsigned),
                                            __typeof__(cuIpcOpenMemHandle_v2)),
               "cuIpcOpenMemHandle_v2");
_Static_assert(__builtin_types_compatible_p(CUdeviceptr, hetccl_cu_address), "CUdeviceptr");

#define SAME_PLACE(own, own_member, real, real_member)                                                       \
    _Static_assert(offsetof(own, own_member) == offsetof(real, real_member) &&                               \
                       sizeof(((own *)0)->own_member) == sizeof(((real *)0)->real_member),                   \
                   #real_member)

_Static_assert(sizeof(struct hetccl_cu_rows) == sizeof(CUDA_MEMCPY2D), "CUDA_MEMCPY2D");
SAME_PLACE(struct hetccl_cu_rows, src_x_bytes, CUDA_MEMCPY2D, srcXInBytes);
SAME_PLACE(struct hetccl_cu_rows, src_type, CUDA_MEMCPY2D, srcMemoryType);
SAME_PLACE(struct hetccl_cu_rows, src, CUDA_MEMCPY2D, srcDevice);
SAME_PLACE(struct hetccl_cu_rows, src_pitch, CUDA_MEMCPY2D, srcPitch);
SAME_PLACE(struct hetccl_cu_rows, dst_x_bytes, CUDA_MEMCPY2D, dstXInBytes);
SAME_PLACE(struct hetccl_cu_rows, dst_type, CUDA_MEMCPY2D, dstMemoryType);
SAME_PLACE(struct hetccl_cu_rows, dst, CUDA_MEMCPY2D, dstDevice);
SAME_PLACE(struct hetccl_cu_rows, dst_pitch, CUDA_MEMCPY2D, dstPitch);
SAME_PLACE(struct hetccl_cu_rows, row_bytes, CUDA_MEMCPY2D, WidthInBytes);
SAME_PLACE(struct hetccl_cu_rows, n_rows, CUDA_MEMCPY2D, Height);
_Static_assert(__builtin_types_compatible_p(CUresult(const CUDA_MEMCPY2D *, CUstream),
                                            __typeof__(cuMemcpy2DAsync_v2)),
               "cuMemcpy2DAsync_v2");

_Static_assert(sizeof(union hetccl_cu_value) == sizeof(CUstreamBatchMemOpParams), "CUstreamBatchMemOpParams");
SAME_PLACE(union hetccl_cu_value, word.address, CUstreamBatchMemOpParams, waitValue.address);
SAME_PLACE(union hetccl_cu_value, word.value, CUstreamBatchMemOpParams, waitValue.value64);
SAME_PLACE(union hetccl_cu_value, word.flags, CUstreamBatchMemOpParams, waitValue.flags);
SAME_PLACE(union hetccl_cu_value, word.address, CUstreamBatchMemOpParams, writeValue.address);
SAME_PLACE(union hetccl_cu_value, word.value, CUstreamBatchMemOpParams, writeValue.value64);
SAME_PLACE(union hetccl_cu_value, word.flags, CUstreamBatchMemOpParams, writeValue.flags);
_Static_assert(__builtin_types_compatible_p(CUresult(CUstream, unsigned, CUstreamBatchMemOpParams *,
                                                     unsigned),
                                            __typeof__(cuStreamBatchMemOp_v2)),
               "cuStreamBatchMemOp_v2");
_Static_assert(__builtin_types_compatible_p(CUdevice, int), "CUdevice");
_Static_assert(CU_IPC_HANDLE_SIZE == 64, "CU_IPC_HANDLE_SIZE");
