/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_GPU_KERNELS_DRIVER_H
#define TESTS_GPU_KERNELS_DRIVER_H

/* As much of the CUDA driver as these tests call, declared here: the machine needs no CUDA headers. */

#include <stddef.h>
#include <stdint.h>

typedef uint64_t device_pointer;

struct cuda_driver {
    int (*init)(unsigned flags);
    int (*driver_get_version)(int *version);
    int (*device_get)(int *device, int ordinal);
    int (*device_get_name)(char *name, int bytes, int device);
    int (*device_get_attribute)(int *value, int attribute, int device);
    int (*primary_ctx_retain)(void **context, int device);
    int (*ctx_set_current)(void *context);
    int (*module_load_data)(void **module, const void *image);
    int (*module_unload)(void *module);
    int (*module_get_function)(void **function, void *module, const char *name);
    int (*launch_kernel)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                         unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream,
                         void **params, void **extra);
    int (*max_active_blocks)(int *blocks, void *function, int block_threads, size_t shared_bytes);
    int (*mem_alloc)(device_pointer *memory, size_t bytes);
    int (*mem_free)(device_pointer memory);
    int (*mem_host_alloc)(void **memory, size_t bytes, unsigned flags);
    int (*mem_free_host)(void *memory);
    int (*mem_host_get_device_pointer)(device_pointer *memory, void *host, unsigned flags);
    int (*memcpy_to_device)(device_pointer dst, const void *src, size_t bytes, void *stream);
    int (*memcpy_to_host)(void *dst, device_pointer src, size_t bytes, void *stream);
    int (*memcpy_on_device)(device_pointer dst, device_pointer src, size_t bytes, void *stream);
    int (*memset_8)(device_pointer dst, unsigned char value, size_t bytes, void *stream);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_synchronize)(void *stream);
    int (*stream_query)(void *stream);
    int (*event_create)(void **event, unsigned flags);
    int (*event_record)(void *event, void *stream);
    int (*event_synchronize)(void *event);
    int (*event_elapsed_time)(float *milliseconds, void *start, void *end);
    int (*get_error_name)(int result, const char **name);
};

extern struct cuda_driver cuda;

/* Opens libcuda.so.1, makes the first GPU's primary context current and prints what is there. Ends the
 * program if it can't. Returns the number of multiprocessors. */
int cuda_driver_open(void);

/* For every other thread that calls the driver. */
void cuda_driver_attach(void);

/* Ends the program, naming what failed, unless result is 0. */
void cuda_check(int result, const char *what);

/* A kernel of a loaded module; ends the program if it isn't there. */
void *cuda_kernel(void *module, const char *name);

/* A one-dimensional launch of a kernel that takes one structure. */
void cuda_launch(void *kernel, uint32_t n_blocks, void *args, void *stream);

/* Device memory, 256-byte aligned; pinned host memory. */
device_pointer cuda_device_memory(size_t bytes);
void *cuda_pinned_memory(size_t bytes);

/* Seconds since some moment. */
double seconds_now(void);

#endif
