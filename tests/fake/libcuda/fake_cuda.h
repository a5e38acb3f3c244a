/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FAKE_CUDA_H
#define TESTS_FAKE_CUDA_H

/*
 * A libcuda.so.1 over host memory, for tests on machines without a GPU: what a test may do with it beyond the
 * driver API. Found by dlsym on the library, or set in the environment:
 *
 *   FAKE_CUDA_DEVICES=n        GPUs there are (1)
 *   FAKE_CUDA_MEMORY_MIB=n     device memory of each (1024)
 *   FAKE_CUDA_FAIL=f:k:code,…  the k-th call (from 1) of driver function f gives that code; f may be "*" for
 * the k-th call of all, or "kernel" for the k-th kernel that runs, whose failure then sticks to the context
 * as a real one does FAKE_CUDA_KERNELS=paths    libraries, parted by colons, whose fake_cuda_kernels[] are
 * registered when the driver starts
 *   FAKE_CUDA_MAX_CONNECTIONS=1  all streams share one hardware queue: what was enqueued first starts, and
 * here also ends, first; branches of a graph are put into it in whatever order their dependencies allow
 *   FAKE_CUDA_MPS=1            the GPUs are shared by MPS
 *
 * What is true to life: streams run apart from the caller, in order, each in a thread; events, stream values
 * and the default stream order them; device memory lies apart, an address outside of it or behind an
 * allocation is refused by copies and faults in kernels, a byte written behind an allocation is noticed when
 * it is freed (the process aborts); IPC works between processes; a context must be current; unsafe calls
 * spoil a global capture; captures become graphs with the dependencies that streams and events gave, whose
 * branches run at once. What isn't: device memory can be read by the host, pageable copies are asynchronous,
 * a graph holds no graphs.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_CUDA_MAX_PARAMS = 32 };

struct fake_cuda_kernel;

/* A GPU thread, as a kernel's function sees it. */
struct fake_cuda_thread {
    unsigned grid[3], block[3];               /* blocks of the launch, threads of a block */
    unsigned block_index[3], thread_index[3]; /* which one this is */
    void *shared;                             /* the block's dynamic shared memory, zeroed */
    size_t shared_bytes;
    uint32_t *block_word; /* static shared memory of the block: a word, zeroed */
    const struct fake_cuda_kernel *kernel;
    /* Waits for all threads of the block that haven't returned. */
    void (*barrier)(const struct fake_cuda_thread *thread);
    /* Inside of every loop that waits for memory to change: lets the other threads of the launch run. */
    void (*yield)(const struct fake_cuda_thread *thread);
};

typedef void fake_cuda_entry(void);

/*
 * A kernel compiled for the host. Its function is called once for every thread of the launch; params[i]
 * points to the value of the i-th parameter, param_bytes[i] bytes long, copied when the kernel was launched.
 * Threads of a launch take turns on one CPU thread: between barrier and yield nobody else of the launch runs,
 * so data shared with other streams, hosts or processes needs atomics, other data does not. Threads have 64
 * KiB of stack.
 */
struct fake_cuda_kernel {
    const char *name; /* NULL ends a list */
    void (*function)(void *const *params, const struct fake_cuda_thread *thread);
    size_t n_params;
    size_t param_bytes[FAKE_CUDA_MAX_PARAMS];
    bool is_independent;    /* calls neither barrier nor yield: faster */
    fake_cuda_entry *entry; /* for function's own use: what it calls, where it serves several kernels */
};

/* What a library for FAKE_CUDA_KERNELS exports. */
extern const struct fake_cuda_kernel fake_cuda_kernels[];

/* Makes the kernels of a list (ended by a NULL name; not copied) known to cuModuleGetFunction(), whatever the
 * module. */
void fake_cuda_register(const struct fake_cuda_kernel *kernels);

/* As FAKE_CUDA_FAIL, counted from now on; code 0 takes all failures back. */
void fake_cuda_fail(const char *function, unsigned k, unsigned code);

/* Calls of a driver function so far; "*" for all. */
unsigned fake_cuda_calls(const char *function);

/* Allocations, registrations and mappings, streams, events and modules there are. */
size_t fake_cuda_live_objects(void);

typedef void fake_cuda_register_function(const struct fake_cuda_kernel *kernels);
typedef void fake_cuda_fail_function(const char *function, unsigned k, unsigned code);
typedef unsigned fake_cuda_calls_function(const char *function);
typedef size_t fake_cuda_live_objects_function(void);

#endif
