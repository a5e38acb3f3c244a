/* SPDX-License-Identifier: Apache-2.0 */

/* Compiles only while the fake has every function of the library's table, with its prototype. */

#include "device/cuda/table.h"
#include "driver.h"

extern const struct hetccl_cuda_api fake_api;

const struct hetccl_cuda_api fake_api = {
    .cuInit = cuInit,
    .cuDriverGetVersion = cuDriverGetVersion,
    .cuGetErrorName = cuGetErrorName,
    .cuGetErrorString = cuGetErrorString,
    .cuDeviceGet = cuDeviceGet,
    .cuDeviceGetCount = cuDeviceGetCount,
    .cuDeviceGetAttribute = cuDeviceGetAttribute,
    .cuDevicePrimaryCtxRetain = cuDevicePrimaryCtxRetain,
    .cuDevicePrimaryCtxRelease_v2 = cuDevicePrimaryCtxRelease_v2,
    .cuCtxGetCurrent = cuCtxGetCurrent,
    .cuCtxPushCurrent_v2 = cuCtxPushCurrent_v2,
    .cuCtxPopCurrent_v2 = cuCtxPopCurrent_v2,
    .cuCtxGetDevice = cuCtxGetDevice,
    .cuCtxGetStreamPriorityRange = cuCtxGetStreamPriorityRange,
    .cuMemAlloc_v2 = cuMemAlloc_v2,
    .cuMemFree_v2 = cuMemFree_v2,
    .cuMemHostAlloc = cuMemHostAlloc,
    .cuMemFreeHost = cuMemFreeHost,
    .cuMemHostRegister_v2 = cuMemHostRegister_v2,
    .cuMemHostUnregister = cuMemHostUnregister,
    .cuMemHostGetDevicePointer_v2 = cuMemHostGetDevicePointer_v2,
    .cuPointerGetAttributes = cuPointerGetAttributes,
    .cuMemcpyAsync = cuMemcpyAsync,
    .cuMemsetD8Async = cuMemsetD8Async,
    .cuIpcGetMemHandle = cuIpcGetMemHandle,
    .cuIpcOpenMemHandle_v2 = cuIpcOpenMemHandle_v2,
    .cuIpcCloseMemHandle = cuIpcCloseMemHandle,
    .cuStreamCreateWithPriority = cuStreamCreateWithPriority,
    .cuStreamDestroy_v2 = cuStreamDestroy_v2,
    .cuStreamQuery = cuStreamQuery,
    .cuStreamWaitEvent = cuStreamWaitEvent,
    .cuStreamGetCaptureInfo_v2 = cuStreamGetCaptureInfo_v2,
    .cuThreadExchangeStreamCaptureMode = cuThreadExchangeStreamCaptureMode,
    .cuEventCreate = cuEventCreate,
    .cuEventDestroy_v2 = cuEventDestroy_v2,
    .cuEventRecord = cuEventRecord,
    .cuEventQuery = cuEventQuery,
    .cuStreamWaitValue32_v2 = cuStreamWaitValue32_v2,
    .cuStreamWriteValue32_v2 = cuStreamWriteValue32_v2,
    .cuModuleLoadDataEx = cuModuleLoadDataEx,
    .cuModuleUnload = cuModuleUnload,
    .cuModuleGetFunction = cuModuleGetFunction,
    .cuFuncLoad = cuFuncLoad,
    .cuLaunchKernel = cuLaunchKernel,
};
