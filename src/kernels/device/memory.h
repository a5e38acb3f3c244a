/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_KERNELS_DEVICE_MEMORY_H
#define HETCCL_KERNELS_DEVICE_MEMORY_H

/* Reads and writes of elements at any alignment, and of aligned vectors of 16 bytes. */

#include <stddef.h>
#include <stdint.h>

#include "kernels/loose.h"
#include "kernels/target.h"

enum { VECTOR_BYTES = 16, VECTOR_WORDS = 4 };

typedef uint32_t vector __attribute__((vector_size(16), may_alias));
typedef uint16_t aligned_u16 __attribute__((may_alias));
typedef uint32_t aligned_u32 __attribute__((may_alias));
typedef uint64_t aligned_u64 __attribute__((may_alias));

/* How far an address is from the multiple of unit_bytes, a power of two, below it. */
HETCCL_KERNEL_INLINE uint32_t misalignment(const void *address, uint32_t unit_bytes)
{
    return (uint32_t)((uintptr_t)address & (unit_bytes - 1));
}

/* element_bytes: 1, 2, 4 or 8, known to the compiler. An odd base is the same for all threads: the branches
 * don't part them. */
HETCCL_KERNEL_INLINE uint64_t element_load(const void *base, uint64_t index, uint32_t element_bytes)
{
    int is_aligned = misalignment(base, element_bytes) == 0;

    switch (element_bytes) {
    case 1:
        return ((const loose_u8 *)base)[index];
    case 2:
        return is_aligned ? ((const aligned_u16 *)base)[index] : ((const loose_u16 *)base)[index];
    case 4:
        return is_aligned ? ((const aligned_u32 *)base)[index] : ((const loose_u32 *)base)[index];
    default:
        return is_aligned ? ((const aligned_u64 *)base)[index] : ((const loose_u64 *)base)[index];
    }
}

HETCCL_KERNEL_INLINE void store_16(void *base, uint64_t index, uint16_t bits)
{
    if (misalignment(base, 2) == 0)
        ((aligned_u16 *)base)[index] = bits;
    else
        ((loose_u16 *)base)[index] = bits;
}

HETCCL_KERNEL_INLINE void store_32(void *base, uint64_t index, uint32_t bits)
{
    if (misalignment(base, 4) == 0)
        ((aligned_u32 *)base)[index] = bits;
    else
        ((loose_u32 *)base)[index] = bits;
}

HETCCL_KERNEL_INLINE void store_64(void *base, uint64_t index, uint64_t bits)
{
    if (misalignment(base, 8) == 0)
        ((aligned_u64 *)base)[index] = bits;
    else
        ((loose_u64 *)base)[index] = bits;
}

HETCCL_KERNEL_INLINE void element_store(void *base, uint64_t index, uint32_t element_bytes, uint64_t bits)
{
    switch (element_bytes) {
    case 1:
        ((loose_u8 *)base)[index] = (uint8_t)bits;
        break;
    case 2:
        store_16(base, index, (uint16_t)bits);
        break;
    case 4:
        store_32(base, index, (uint32_t)bits);
        break;
    default:
        store_64(base, index, bits);
    }
}

#endif
