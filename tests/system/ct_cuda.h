/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TESTS_CT_CUDA_H
#define HETCCL_TESTS_CT_CUDA_H

/*
 * As much of the CUDA driver as the scenarios need, opened at run time. Where the driver is the tests' fake
 * one, its test functions are there too; else they are NULL.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fake_cuda.h"

/* From cuda.h: CUresult, CUdevice, CUdeviceptr, CUcontext and CUstream are int, int, 64 bits and pointers. */
enum { CT_CUDA_NOT_READY = 600, CT_CUDA_UNKNOWN = 999 };
enum { CT_CAPTURE_GLOBAL = 0, CT_CAPTURE_THREAD_LOCAL = 1, CT_CAPTURE_RELAXED = 2 };

struct ct_cuda {
    int (*cuInit)(unsigned flags);
    int (*cuDeviceGetCount)(int *count);
    int (*cuDeviceGet)(int *device, int ordinal);
    int (*cuDevicePrimaryCtxRetain)(void **context, int device);
    int (*cuCtxPushCurrent_v2)(void *context);
    int (*cuMemAlloc_v2)(uint64_t *address, size_t bytes);
    int (*cuMemFree_v2)(uint64_t address);
    int (*cuMemAllocAsync)(uint64_t *address, size_t bytes, void *stream);
    int (*cuMemFreeAsync)(uint64_t address, void *stream);
    int (*cuMemAddressReserve)(uint64_t *address, size_t bytes, size_t alignment, uint64_t hint,
                               unsigned long long flags);
    int (*cuMemAddressFree)(uint64_t address, size_t bytes);
    int (*cuMemCreate)(unsigned long long *handle, size_t bytes, const void *properties,
                       unsigned long long flags);
    int (*cuMemMap)(uint64_t address, size_t bytes, size_t offset, unsigned long long handle,
                    unsigned long long flags);
    int (*cuMemSetAccess)(uint64_t address, size_t bytes, const void *access, size_t count);
    int (*cuMemUnmap)(uint64_t address, size_t bytes);
    int (*cuMemRelease)(unsigned long long handle);
    int (*cuMemHostAlloc)(void **memory, size_t bytes, unsigned flags);
    int (*cuMemFreeHost)(void *memory);
    int (*cuMemcpyAsync)(uint64_t dst, uint64_t src, size_t bytes, void *stream);
    int (*cuStreamCreateWithPriority)(void **stream, unsigned flags, int priority);
    int (*cuStreamDestroy_v2)(void *stream);
    int (*cuStreamQuery)(void *stream);
    int (*cuStreamWaitEvent)(void *stream, void *event, unsigned flags);
    int (*cuStreamWaitValue32_v2)(void *stream, uint64_t address, uint32_t value, unsigned flags);
    int (*cuStreamBeginCapture_v2)(void *stream, unsigned mode);
    int (*cuStreamEndCapture)(void *stream, void **graph);
    int (*cuGraphInstantiateWithFlags)(void **exec, void *graph, unsigned long long flags);
    int (*cuGraphLaunch)(void *exec, void *stream);
    int (*cuGraphDestroy)(void *graph);
    int (*cuGraphExecDestroy)(void *exec);
    int (*cuEventCreate)(void **event, unsigned flags);
    int (*cuEventRecord)(void *event, void *stream);
    int (*cuEventDestroy_v2)(void *event);

    fake_cuda_fail_function *fail;
    fake_cuda_calls_function *calls;
    fake_cuda_live_objects_function *live_objects;
};

/* The driver, with the context of device `ordinal` modulo their number current. NULL: `why` says what is
 * missing. */
const struct ct_cuda *ct_cuda_open(int ordinal, char *why, size_t why_bytes);

/* Each ends the process when it fails: no scenario can go on. The stream is a non-blocking one. */
void *ct_cuda_new_stream(const struct ct_cuda *cuda);
void *ct_cuda_alloc(const struct ct_cuda *cuda, size_t bytes);
void ct_cuda_free(const struct ct_cuda *cuda, void *memory);
void ct_cuda_copy(const struct ct_cuda *cuda, void *dst, const void *src, size_t bytes, void *stream);
void ct_cuda_check(int code, const char *call);

/* A word in pinned host memory, 0; what is enqueued on a stream behind ct_gate_shut() waits until it is
 * opened. */
struct ct_gate {
    uint32_t *word;
};

void ct_gate_create(const struct ct_cuda *cuda, struct ct_gate *out);
void ct_gate_shut(const struct ct_cuda *cuda, const struct ct_gate *gate, void *stream);
void ct_gate_open(const struct ct_gate *gate);
void ct_gate_destroy(const struct ct_cuda *cuda, struct ct_gate *gate);

#endif
