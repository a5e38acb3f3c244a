/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_KERNELS_DEVICE_SYNC_H
#define HETCCL_KERNELS_DEVICE_SYNC_H

/*
 * Flags between a kernel and whoever else sees the same memory: the host, another GPU, another process.
 *
 * To hand data over, all threads of a block write it, the block meets at block_barrier(), and one thread
 * raises the flag with flag_store_release(). To take it, one thread waits with flag_load_acquire(), the block
 * meets, and all read. The barrier orders the block's threads among each other, and release and acquire are
 * cumulative: they cover what was ordered before. Flags are aligned words in memory that both sides can
 * reach: registered or pinned host memory, or device memory opened by the other side.
 */

#include <stdint.h>

#include "kernels/target.h"

#if defined(__NVPTX__)

/* clang 19 has no such atomics for this target. */
HETCCL_KERNEL_INLINE uint32_t flag_load_acquire(const uint32_t *flag)
{
    uint32_t value;

    __asm__ volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
}

HETCCL_KERNEL_INLINE void flag_store_release(uint32_t *flag, uint32_t value)
{
    __asm__ volatile("st.release.sys.u32 [%0], %1;" : : "l"(flag), "r"(value) : "memory");
}

HETCCL_KERNEL_INLINE uint32_t flag_load_relaxed(const uint32_t *flag)
{
    uint32_t value;

    __asm__ volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
}

HETCCL_KERNEL_INLINE void block_barrier(void)
{
    __nvvm_bar_sync(0);
}

#elif defined(__AMDGCN__)

HETCCL_KERNEL_INLINE uint32_t flag_load_acquire(const uint32_t *flag)
{
    return __scoped_atomic_load_n(flag, __ATOMIC_ACQUIRE, __MEMORY_SCOPE_SYSTEM);
}

HETCCL_KERNEL_INLINE void flag_store_release(uint32_t *flag, uint32_t value)
{
    __scoped_atomic_store_n(flag, value, __ATOMIC_RELEASE, __MEMORY_SCOPE_SYSTEM);
}

HETCCL_KERNEL_INLINE uint32_t flag_load_relaxed(const uint32_t *flag)
{
    return __scoped_atomic_load_n(flag, __ATOMIC_RELAXED, __MEMORY_SCOPE_SYSTEM);
}

HETCCL_KERNEL_INLINE void block_barrier(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

#else

HETCCL_KERNEL_INLINE uint32_t flag_load_acquire(const uint32_t *flag)
{
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

HETCCL_KERNEL_INLINE void flag_store_release(uint32_t *flag, uint32_t value)
{
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

HETCCL_KERNEL_INLINE uint32_t flag_load_relaxed(const uint32_t *flag)
{
    return __atomic_load_n(flag, __ATOMIC_RELAXED);
}

/* Of whoever runs the kernels, as hetccl_grid_position is. */
void hetccl_block_barrier(void);

HETCCL_KERNEL_INLINE void block_barrier(void)
{
    hetccl_block_barrier();
}

#endif

#endif
