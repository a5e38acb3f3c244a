/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_DEVICE_SUITE_H
#define TESTS_DEVICE_SUITE_H

/*
 * What every device must do, held against src/device/device.h: host, cuda on the fake driver, and cuda on a
 * real GPU run the same cases with the same expectations. Needs nothing but libc, so that it builds on a bare
 * GPU machine.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"

struct suite {
    struct hetccl_device *device;
    const struct hetccl_device_ops *ops;
    bool is_gpu;
    /* What a child process needs to open the same device. */
    const char *program, *kind, *library;
    const char *case_name;
    unsigned n_checks, n_failed;
};

struct suite_case {
    const char *name;
    void (*run)(struct suite *suite);
};

/* Lists end with a NULL name. */
extern const struct suite_case suite_memory_cases[], suite_stream_cases[], suite_kernel_cases[],
    suite_work_cases[], suite_graph_cases[], suite_ipc_cases[], suite_cuda_cases[], suite_virtual_cases[];

void suite_run(struct suite *suite, const struct suite_case *cases);

/* Counts, and prints what failed. Returns is_good. */
bool suite_check(struct suite *suite, bool is_good, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The status, and in the last error's text all words of a NULL-ended list. */
void suite_expect_error(struct suite *suite, enum hetccl_status got, enum hetccl_status wanted,
                        const char *const *words);
bool suite_expect_ok(struct suite *suite, enum hetccl_status got, const char *what);

/* Waits until a stream's work is done, at most 20 s. */
bool suite_finish(struct suite *suite, struct hetccl_stream stream);

/* Plain host memory with the pattern of a seed, and the look whether it (still) has it. */
void suite_fill(void *memory, size_t bytes, unsigned seed);
bool suite_has_pattern(const void *memory, size_t bytes, unsigned seed);

struct hetccl_stream suite_stream(struct suite *suite);
void *suite_memory(struct suite *suite, size_t bytes, enum hetccl_memory_kind kind);

/* The child's part of the IPC cases; argument as the parent gave it. The process's exit status. */
int suite_ipc_child(struct suite *suite, const char *argument);

/* PTX of the suite's kernels, and where the driver is the fake: their host-compiled functions made known to
 * it. library "": the system's. */
extern const char suite_kernel_image[];
void suite_register_kernels(const char *library);

/* A function of the driver that the library's table doesn't have; NULL when it isn't there. */
void *suite_driver_function(const struct suite *suite, const char *name);

#endif
