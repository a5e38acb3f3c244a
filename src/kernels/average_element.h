/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_KERNELS_AVERAGE_ELEMENT_H
#define HETCCL_KERNELS_AVERAGE_ELEMENT_H

/*
 * One element of an average of integers. A mean of 64-bit integers can't go through a 64-bit sum, so every
 * input is split into quotient and remainder of the division by the number of ranks: n quotients sum to at
 * most the type's range, n remainders to less than n * n. Narrower ones are summed in twice the width or
 * more, and divided once.
 */

#include <stdint.h>

#include "kernels/target.h"

/* The parts of an input of 64 bits. */
HETCCL_KERNEL_INLINE void average_split(uint64_t input, uint64_t n_ranks, int is_signed,
                                        uint64_t *quotient_out, uint64_t *remainder_out)
{
    if (is_signed) {
        *quotient_out = (uint64_t)((int64_t)input / (int64_t)n_ranks);
        *remainder_out = (uint64_t)((int64_t)input % (int64_t)n_ranks);
    } else {
        *quotient_out = input / n_ranks;
        *remainder_out = input % n_ranks;
    }
}

/* The quotient fits the narrow type, whichever of the two it is: a mean lies between the least and greatest
 * input. */
HETCCL_KERNEL_INLINE uint8_t average_mean_8(int32_t sum, int32_t n_ranks)
{
    return (uint8_t)(sum / n_ranks);
}

HETCCL_KERNEL_INLINE uint32_t average_mean_32(int64_t sum, int64_t n_ranks)
{
    return (uint32_t)(sum / n_ranks);
}

/*
 * The mean is quotients + remainders / n_ranks. Both parts are truncated toward zero, so where their signs
 * differ the whole lies one nearer to zero than the sum of the parts.
 */
HETCCL_KERNEL_INLINE int64_t average_mean_i64(int64_t quotients, int64_t remainders, int64_t n_ranks)
{
    int64_t mean = quotients + remainders / n_ranks;
    int64_t rest = remainders % n_ranks;

    if (mean > 0 && rest < 0)
        return mean - 1;
    if (mean < 0 && rest > 0)
        return mean + 1;
    return mean;
}

HETCCL_KERNEL_INLINE uint64_t average_mean_u64(uint64_t quotients, uint64_t remainders, uint64_t n_ranks)
{
    return quotients + remainders / n_ranks;
}

#endif
