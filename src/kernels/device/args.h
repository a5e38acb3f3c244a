/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_KERNELS_DEVICE_ARGS_H
#define HETCCL_KERNELS_DEVICE_ARGS_H

/*
 * The kernels of the GPU images: their names, arguments and launches, for the host that launches them, and
 * for the kernels themselves. The same results, bit for bit, as the host's functions of kernels.h.
 *
 * Every kernel takes one structure by value and runs in a one-dimensional grid of args.n_blocks blocks of
 * HETCCL_BLOCK_THREADS threads, without dynamic shared memory. Any n_blocks from 1 up gives the same result.
 * Pointers are the device's, of any alignment; those that are equally far from a multiple of 16 are read and
 * written 16 bytes at a time. Kernels don't wait for each other or for anything else.
 *
 * The layouts are the same on the host and on all targets: fixed-width members, no padding.
 */

#include <stdint.h>

#include "kernels/kernels.h"

enum { HETCCL_BLOCK_THREADS = 256 };

/*
 * As hetccl_kernel_reduce(), with n_srcs > 1 or is_scaled; one source without scales is a copy.
 * Kernels: "hetccl_reduce_" and hetccl_type_name(), one a type. dst may be identical to one of the sources.
 */
struct hetccl_reduce_args {
    void *dst;
    uint64_t count; /* elements */
    uint32_t n_srcs;
    uint32_t red;       /* enum hetccl_red */
    uint32_t is_scaled; /* scales hold one factor a source; red is HETCCL_SUM */
    uint32_t n_blocks;
    const void *srcs[HETCCL_REDUCE_MAX_INPUTS];
    struct hetccl_scale scales[HETCCL_REDUCE_MAX_INPUTS];
};

/* As hetccl_kernel_average_widen() and _narrow(). Kernels: hetccl_average_widen, hetccl_average_narrow. */
struct hetccl_average_args {
    void *dst;
    const void *src;
    uint64_t count; /* elements of type, not of its wide type */
    uint64_t n_ranks;
    uint32_t type; /* enum hetccl_type; an integer type */
    uint32_t n_blocks;
};

/* bytes of src to dst, which don't overlap. Kernel: hetccl_copy. */
struct hetccl_copy_args {
    void *dst;
    const void *src;
    uint64_t bytes;
    uint64_t n_blocks;
};

/*
 * Blocks for count elements (for a copy: bytes) on a device that holds max_blocks of them at once; more than
 * there is work for only costs time.
 */
static inline uint32_t hetccl_launch_blocks(uint64_t count, uint32_t max_blocks)
{
    uint64_t blocks = (count + 4 * HETCCL_BLOCK_THREADS - 1) / (4 * HETCCL_BLOCK_THREADS);

    if (blocks > max_blocks)
        return max_blocks;
    return blocks == 0 ? 1 : (uint32_t)blocks;
}

#endif
