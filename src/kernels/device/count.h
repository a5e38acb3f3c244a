/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_KERNELS_DEVICE_COUNT_H
#define HETCCL_KERNELS_DEVICE_COUNT_H

/* Counting among the blocks of one launch, in device memory. */

#include <stdint.h>

#include "kernels/target.h"

/* Adds one; what the block wrote before is seen by whoever reads the sum with flag_load_acquire() after its
 * own barrier. Returns the count before. */
#if defined(__NVPTX__)

HETCCL_KERNEL_INLINE uint32_t count_one(uint32_t *counter)
{
    uint32_t before;

    __asm__ volatile("atom.acq_rel.gpu.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    return before;
}

#elif defined(__AMDGCN__)

HETCCL_KERNEL_INLINE uint32_t count_one(uint32_t *counter)
{
    return __scoped_atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL, __MEMORY_SCOPE_DEVICE);
}

#else

HETCCL_KERNEL_INLINE uint32_t count_one(uint32_t *counter)
{
    return __atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL);
}

#endif

#endif
