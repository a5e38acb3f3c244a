/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_KERNELS_DEVICE_GRID_H
#define HETCCL_KERNELS_DEVICE_GRID_H

/*
 * Where a thread stands in its grid, on each target. The sources of device/ are plain C: clang compiles them
 * for the GPUs, and any compiler for the host, where tests and the fake driver run one thread after the
 * other.
 */

#include <stdint.h>

#include "kernels/device/args.h"
#include "kernels/target.h"

#if defined(__NVPTX__)

#define HETCCL_KERNEL_ENTRY __attribute__((nvptx_kernel))

HETCCL_KERNEL_INLINE uint32_t grid_thread(void)
{
    return (uint32_t)__nvvm_read_ptx_sreg_tid_x();
}

HETCCL_KERNEL_INLINE uint32_t grid_block(void)
{
    return (uint32_t)__nvvm_read_ptx_sreg_ctaid_x();
}

#elif defined(__AMDGCN__)

#define HETCCL_KERNEL_ENTRY __attribute__((amdgpu_kernel, visibility("protected")))

HETCCL_KERNEL_INLINE uint32_t grid_thread(void)
{
    return __builtin_amdgcn_workitem_id_x();
}

HETCCL_KERNEL_INLINE uint32_t grid_block(void)
{
    return __builtin_amdgcn_workgroup_id_x();
}

#else

#define HETCCL_KERNEL_ENTRY

/* Set by whoever runs the kernels; defined there. */
struct hetccl_grid_position {
    uint32_t thread, block;
};

extern _Thread_local struct hetccl_grid_position hetccl_grid_position;

HETCCL_KERNEL_INLINE uint32_t grid_thread(void)
{
    return hetccl_grid_position.thread;
}

HETCCL_KERNEL_INLINE uint32_t grid_block(void)
{
    return hetccl_grid_position.block;
}

#endif

/* Blocks that share a piece of work: this one's number among them, and how many they are. */
struct team {
    uint32_t block, n_blocks;
};

HETCCL_KERNEL_INLINE struct team team_of_grid(uint32_t n_blocks)
{
    return (struct team){grid_block(), n_blocks};
}

HETCCL_KERNEL_INLINE struct team team_of_block(void)
{
    return (struct team){0, 1};
}

/* This thread's number in its team, and how many there are. */
HETCCL_KERNEL_INLINE uint64_t team_thread(struct team team)
{
    return (uint64_t)team.block * HETCCL_BLOCK_THREADS + grid_thread();
}

HETCCL_KERNEL_INLINE uint64_t team_threads(struct team team)
{
    return (uint64_t)team.n_blocks * HETCCL_BLOCK_THREADS;
}

#endif
