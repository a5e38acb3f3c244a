/* SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/device/args.h"

struct cuda_driver cuda;

static void *primary_context;

enum { ATTRIBUTE_MULTIPROCESSORS = 16, ATTRIBUTE_MAJOR = 75, ATTRIBUTE_MINOR = 76 };

struct symbol {
    const char *name;
    void *slot;
};

static const struct symbol symbols[] = {
    {"cuInit", &cuda.init},
    {"cuDriverGetVersion", &cuda.driver_get_version},
    {"cuDeviceGet", &cuda.device_get},
    {"cuDeviceGetName", &cuda.device_get_name},
    {"cuDeviceGetAttribute", &cuda.device_get_attribute},
    {"cuDevicePrimaryCtxRetain", &cuda.primary_ctx_retain},
    {"cuCtxSetCurrent", &cuda.ctx_set_current},
    {"cuModuleLoadData", &cuda.module_load_data},
    {"cuModuleUnload", &cuda.module_unload},
    {"cuModuleGetFunction", &cuda.module_get_function},
    {"cuLaunchKernel", &cuda.launch_kernel},
    {"cuOccupancyMaxActiveBlocksPerMultiprocessor", &cuda.max_active_blocks},
    {"cuMemAlloc_v2", &cuda.mem_alloc},
    {"cuMemFree_v2", &cuda.mem_free},
    {"cuMemHostAlloc", &cuda.mem_host_alloc},
    {"cuMemFreeHost", &cuda.mem_free_host},
    {"cuMemHostGetDevicePointer_v2", &cuda.mem_host_get_device_pointer},
    {"cuMemcpyHtoDAsync_v2", &cuda.memcpy_to_device},
    {"cuMemcpyDtoHAsync_v2", &cuda.memcpy_to_host},
    {"cuMemcpyDtoDAsync_v2", &cuda.memcpy_on_device},
    {"cuMemsetD8Async", &cuda.memset_8},
    {"cuStreamCreate", &cuda.stream_create},
    {"cuStreamSynchronize", &cuda.stream_synchronize},
    {"cuStreamQuery", &cuda.stream_query},
    {"cuEventCreate", &cuda.event_create},
    {"cuEventRecord", &cuda.event_record},
    {"cuEventSynchronize", &cuda.event_synchronize},
    {"cuEventElapsedTime", &cuda.event_elapsed_time},
    {"cuGetErrorName", &cuda.get_error_name},
};

void cuda_check(int result, const char *what)
{
    const char *name = "unknown error";

    if (result == 0)
        return;
    cuda.get_error_name(result, &name);
    printf("FAIL: %s: %s (%d)\n", what, name, result);
    fflush(stdout);
    _Exit(1);
}

static void open_library(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (library == NULL) {
        printf("FAIL: %s\n", dlerror());
        exit(1);
    }
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *address = dlsym(library, symbols[i].name);

        if (address == NULL) {
            printf("FAIL: libcuda.so.1 has no %s\n", symbols[i].name);
            exit(1);
        }
        memcpy(symbols[i].slot, &address, sizeof(address));
    }
}

int cuda_driver_open(void)
{
    int device, version, multiprocessors, major, minor;
    char name[100];

    open_library();
    cuda_check(cuda.init(0), "cuInit");
    cuda_check(cuda.driver_get_version(&version), "cuDriverGetVersion");
    cuda_check(cuda.device_get(&device, 0), "cuDeviceGet");
    cuda_check(cuda.device_get_name(name, sizeof(name), device), "cuDeviceGetName");
    cuda_check(cuda.device_get_attribute(&multiprocessors, ATTRIBUTE_MULTIPROCESSORS, device),
               "attribute 16");
    cuda_check(cuda.device_get_attribute(&major, ATTRIBUTE_MAJOR, device), "attribute 75");
    cuda_check(cuda.device_get_attribute(&minor, ATTRIBUTE_MINOR, device), "attribute 76");
    cuda_check(cuda.primary_ctx_retain(&primary_context, device), "cuDevicePrimaryCtxRetain");
    cuda_driver_attach();
    printf("%s, sm_%d%d, %d multiprocessors, driver for CUDA %d.%d\n", name, major, minor, multiprocessors,
           version / 1000, version % 1000 / 10);
    return multiprocessors;
}

void cuda_driver_attach(void)
{
    cuda_check(cuda.ctx_set_current(primary_context), "cuCtxSetCurrent");
}

void *cuda_kernel(void *module, const char *name)
{
    void *kernel = NULL;

    cuda_check(cuda.module_get_function(&kernel, module, name), name);
    return kernel;
}

void cuda_launch(void *kernel, uint32_t n_blocks, void *args, void *stream)
{
    void *params[] = {args};

    cuda_check(
        cuda.launch_kernel(kernel, n_blocks, 1, 1, HETCCL_BLOCK_THREADS, 1, 1, 0, stream, params, NULL),
        "cuLaunchKernel");
}

device_pointer cuda_device_memory(size_t bytes)
{
    device_pointer memory = 0;

    cuda_check(cuda.mem_alloc(&memory, bytes), "cuMemAlloc");
    return memory;
}

void *cuda_pinned_memory(size_t bytes)
{
    void *memory = NULL;

    cuda_check(cuda.mem_host_alloc(&memory, bytes, 3), "cuMemHostAlloc"); /* portable, mapped */
    return memory;
}

double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
