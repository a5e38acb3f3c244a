/* SPDX-License-Identifier: Apache-2.0 */
#include "ct_cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { STREAM_NON_BLOCKING = 1, WAIT_GEQ = 0 };

static struct ct_cuda driver;

/* A function of the driver and where its address goes. */
struct entry {
    const char *name;
    void *slot;
};

static const struct entry entries[] = {
    {"cuInit", &driver.cuInit},
    {"cuDeviceGetCount", &driver.cuDeviceGetCount},
    {"cuDeviceGet", &driver.cuDeviceGet},
    {"cuDevicePrimaryCtxRetain", &driver.cuDevicePrimaryCtxRetain},
    {"cuCtxPushCurrent_v2", &driver.cuCtxPushCurrent_v2},
    {"cuMemAlloc_v2", &driver.cuMemAlloc_v2},
    {"cuMemFree_v2", &driver.cuMemFree_v2},
    {"cuMemAllocAsync", &driver.cuMemAllocAsync},
    {"cuMemFreeAsync", &driver.cuMemFreeAsync},
    {"cuMemAddressReserve", &driver.cuMemAddressReserve},
    {"cuMemAddressFree", &driver.cuMemAddressFree},
    {"cuMemCreate", &driver.cuMemCreate},
    {"cuMemMap", &driver.cuMemMap},
    {"cuMemSetAccess", &driver.cuMemSetAccess},
    {"cuMemUnmap", &driver.cuMemUnmap},
    {"cuMemRelease", &driver.cuMemRelease},
    {"cuMemHostAlloc", &driver.cuMemHostAlloc},
    {"cuMemFreeHost", &driver.cuMemFreeHost},
    {"cuMemcpyAsync", &driver.cuMemcpyAsync},
    {"cuStreamCreateWithPriority", &driver.cuStreamCreateWithPriority},
    {"cuStreamDestroy_v2", &driver.cuStreamDestroy_v2},
    {"cuStreamQuery", &driver.cuStreamQuery},
    {"cuStreamWaitEvent", &driver.cuStreamWaitEvent},
    {"cuStreamWaitValue32_v2", &driver.cuStreamWaitValue32_v2},
    {"cuStreamBeginCapture_v2", &driver.cuStreamBeginCapture_v2},
    {"cuStreamEndCapture", &driver.cuStreamEndCapture},
    {"cuGraphInstantiateWithFlags", &driver.cuGraphInstantiateWithFlags},
    {"cuGraphLaunch", &driver.cuGraphLaunch},
    {"cuGraphDestroy", &driver.cuGraphDestroy},
    {"cuGraphExecDestroy", &driver.cuGraphExecDestroy},
    {"cuEventCreate", &driver.cuEventCreate},
    {"cuEventRecord", &driver.cuEventRecord},
    {"cuEventDestroy_v2", &driver.cuEventDestroy_v2},
};

static bool load(char *why, size_t why_bytes)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (library == NULL) {
        (void)snprintf(why, why_bytes, "%s", dlerror());
        return false;
    }
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        void **slot = entries[i].slot;

        *slot = dlsym(library, entries[i].name);
        if (*slot == NULL) {
            (void)snprintf(why, why_bytes, "libcuda.so.1 has no %s", entries[i].name);
            return false;
        }
    }
    *(void **)&driver.fail = dlsym(library, "fake_cuda_fail");
    *(void **)&driver.calls = dlsym(library, "fake_cuda_calls");
    *(void **)&driver.live_objects = dlsym(library, "fake_cuda_live_objects");
    return true;
}

const struct ct_cuda *ct_cuda_open(int ordinal, char *why, size_t why_bytes)
{
    void *context = NULL;
    int n_devices = 0;
    int device = 0;

    if (!load(why, why_bytes))
        return NULL;
    ct_cuda_check(driver.cuInit(0), "cuInit");
    ct_cuda_check(driver.cuDeviceGetCount(&n_devices), "cuDeviceGetCount");
    ct_cuda_check(driver.cuDeviceGet(&device, ordinal % n_devices), "cuDeviceGet");
    ct_cuda_check(driver.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    ct_cuda_check(driver.cuCtxPushCurrent_v2(context), "cuCtxPushCurrent");
    return &driver;
}

void ct_cuda_check(int code, const char *call)
{
    if (code == 0)
        return;
    (void)fprintf(stderr, "ct: %s gave CUDA error %d\n", call, code);
    exit(2);
}

void *ct_cuda_new_stream(const struct ct_cuda *cuda)
{
    void *stream = NULL;

    ct_cuda_check(cuda->cuStreamCreateWithPriority(&stream, STREAM_NON_BLOCKING, 0), "cuStreamCreate");
    return stream;
}

void *ct_cuda_alloc(const struct ct_cuda *cuda, size_t bytes)
{
    uint64_t address = 0;

    ct_cuda_check(cuda->cuMemAlloc_v2(&address, bytes), "cuMemAlloc");
    return (void *)(uintptr_t)address;
}

void ct_cuda_free(const struct ct_cuda *cuda, void *memory)
{
    if (memory != NULL)
        ct_cuda_check(cuda->cuMemFree_v2((uintptr_t)memory), "cuMemFree");
}

void ct_cuda_copy(const struct ct_cuda *cuda, void *dst, const void *src, size_t bytes, void *stream)
{
    ct_cuda_check(cuda->cuMemcpyAsync((uintptr_t)dst, (uintptr_t)src, bytes, stream), "cuMemcpyAsync");
}

void ct_gate_create(const struct ct_cuda *cuda, struct ct_gate *out)
{
    void *memory = NULL;

    ct_cuda_check(cuda->cuMemHostAlloc(&memory, sizeof(*out->word), 0), "cuMemHostAlloc");
    out->word = memory;
    *out->word = 0;
}

/* With unified addresses pinned memory has the same one on the device. */
void ct_gate_shut(const struct ct_cuda *cuda, const struct ct_gate *gate, void *stream)
{
    ct_cuda_check(cuda->cuStreamWaitValue32_v2(stream, (uintptr_t)gate->word, 1, WAIT_GEQ),
                  "cuStreamWaitValue32");
}

void ct_gate_open(const struct ct_gate *gate)
{
    __atomic_store_n(gate->word, 1, __ATOMIC_RELEASE);
}

void ct_gate_destroy(const struct ct_cuda *cuda, struct ct_gate *gate)
{
    ct_cuda_check(cuda->cuMemFreeHost(gate->word), "cuMemFreeHost");
    gate->word = NULL;
}
