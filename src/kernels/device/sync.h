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
 *
 * kernel_pause() goes into every loop that waits for a flag; n_polls says how often it has looked in vain.
 * Many blocks that look at host memory all the time would take a good part of the bus from the data.
 * block_broadcast() hands a word of the block's thread 0 to all its threads; all of them call it, and what
 * any of them did before is done for all after it.
 */

#include <stdint.h>

#include "kernels/device/grid.h"
#include "kernels/target.h"

enum { EAGER_POLLS = 8 };

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

HETCCL_KERNEL_INLINE void flag_store_relaxed(uint32_t *flag, uint32_t value)
{
    __asm__ volatile("st.relaxed.sys.u32 [%0], %1;" : : "l"(flag), "r"(value) : "memory");
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

HETCCL_KERNEL_INLINE void kernel_pause(uint32_t n_polls)
{
    __nvvm_nanosleep(n_polls < EAGER_POLLS ? 20 : 500);
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

HETCCL_KERNEL_INLINE void flag_store_relaxed(uint32_t *flag, uint32_t value)
{
    __scoped_atomic_store_n(flag, value, __ATOMIC_RELAXED, __MEMORY_SCOPE_SYSTEM);
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

HETCCL_KERNEL_INLINE void kernel_pause(uint32_t n_polls)
{
    if (n_polls < EAGER_POLLS)
        __builtin_amdgcn_s_sleep(1);
    else
        __builtin_amdgcn_s_sleep(16);
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

HETCCL_KERNEL_INLINE void flag_store_relaxed(uint32_t *flag, uint32_t value)
{
    /* As release: that a load has arrived when its value was used is no order that a sanitizer knows. */
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

HETCCL_KERNEL_INLINE uint32_t flag_load_relaxed(const uint32_t *flag)
{
    return __atomic_load_n(flag, __ATOMIC_RELAXED);
}

/* Of whoever runs the kernels, as hetccl_grid_position is. */
void hetccl_block_barrier(void);
void hetccl_kernel_yield(void);
uint32_t hetccl_block_broadcast(uint32_t value);

HETCCL_KERNEL_INLINE void block_barrier(void)
{
    hetccl_block_barrier();
}

HETCCL_KERNEL_INLINE void kernel_pause(uint32_t n_polls)
{
    (void)n_polls;
    hetccl_kernel_yield();
}

HETCCL_KERNEL_INLINE uint32_t block_broadcast(uint32_t value)
{
    return hetccl_block_broadcast(value);
}

#endif

#if defined(__NVPTX__) || defined(__AMDGCN__)

/* On both targets address space 3 is the block's shared memory, whose contents nobody sets beforehand. */
static volatile __attribute__((address_space(3), loader_uninitialized, unused)) uint32_t block_word;

HETCCL_KERNEL_INLINE uint32_t block_broadcast(uint32_t value)
{
    if (grid_thread() == 0)
        block_word = value;
    block_barrier();
    value = block_word;
    /* The next broadcast must not come before the slowest thread has read this one. */
    block_barrier();
    return value;
}

#endif

#endif
