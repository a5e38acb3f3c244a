/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_KERNELS_DEVICE_LANES_H
#define HETCCL_KERNELS_DEVICE_LANES_H

/*
 * What one thread of a reduction holds in registers: sixteen words of the accumulation type. type is a
 * constant to the compiler in every call, n_words too; red isn't, and is looked at once for all the words.
 *
 * 8-bit integers are accumulated in 32 bits: truncated at the end, sums and products are those of wrapping at
 * each step.
 */

#include <stdint.h>

#include "kernels/element.h"
#include "kernels/kernels.h"
#include "kernels/narrow_types.h"
#include "kernels/target.h"

enum { LANE_WORDS = 16 };

/* A 32-bit accumulator a word, or a 64-bit one in two, low word first. */
struct lanes {
    uint32_t words[LANE_WORDS];
};

HETCCL_KERNEL_INLINE uint32_t type_bytes(enum hetccl_type type)
{
    switch (type) {
    case HETCCL_INT32:
    case HETCCL_UINT32:
    case HETCCL_FLOAT32:
        return 4;
    case HETCCL_INT64:
    case HETCCL_UINT64:
    case HETCCL_FLOAT64:
        return 8;
    case HETCCL_FLOAT16:
    case HETCCL_BFLOAT16:
        return 2;
    default:
        return 1;
    }
}

HETCCL_KERNEL_INLINE int type_is_signed(enum hetccl_type type)
{
    return type == HETCCL_INT8 || type == HETCCL_INT32 || type == HETCCL_INT64;
}

HETCCL_KERNEL_INLINE int type_is_integer(enum hetccl_type type)
{
    return type <= HETCCL_UINT64;
}

HETCCL_KERNEL_INLINE uint32_t word_decode(uint32_t bits, enum hetccl_type type)
{
    if (type == HETCCL_INT8)
        return (uint32_t)(int32_t)(int8_t)bits;
    if (type == HETCCL_UINT8)
        return bits & 0xff;
    return type_is_integer(type) ? bits : narrow_type_decode(bits, type);
}

HETCCL_KERNEL_INLINE uint32_t word_encode(uint32_t value, enum hetccl_type type)
{
    return type_is_integer(type) ? value : narrow_type_encode(value, type);
}

HETCCL_KERNEL_INLINE uint32_t integer_combine(uint32_t a, uint32_t b, int is_signed, enum hetccl_red red)
{
    int is_first_greater = is_signed ? (int32_t)a > (int32_t)b : a > b;

    switch (red) {
    case HETCCL_PROD:
        return a * b;
    case HETCCL_MAX:
        return is_first_greater ? a : b;
    case HETCCL_MIN:
        return is_first_greater ? b : a;
    default:
        return a + b;
    }
}

HETCCL_KERNEL_INLINE uint64_t integer_combine_64(uint64_t a, uint64_t b, int is_signed, enum hetccl_red red)
{
    int is_first_greater = is_signed ? (int64_t)a > (int64_t)b : a > b;

    switch (red) {
    case HETCCL_PROD:
        return a * b;
    case HETCCL_MAX:
        return is_first_greater ? a : b;
    case HETCCL_MIN:
        return is_first_greater ? b : a;
    default:
        return a + b;
    }
}

HETCCL_KERNEL_INLINE uint32_t word_combine(uint32_t a, uint32_t b, enum hetccl_type type, enum hetccl_red red)
{
    if (type_is_integer(type))
        return integer_combine(a, b, type_is_signed(type), red);
    switch (red) {
    case HETCCL_PROD:
        return f32_prod(a, b);
    case HETCCL_MAX:
        return f32_max(a, b);
    case HETCCL_MIN:
        return f32_min(a, b);
    default:
        return f32_sum(a, b);
    }
}

HETCCL_KERNEL_INLINE uint64_t word_combine_64(uint64_t a, uint64_t b, enum hetccl_type type,
                                              enum hetccl_red red)
{
    if (type_is_integer(type))
        return integer_combine_64(a, b, type_is_signed(type), red);
    switch (red) {
    case HETCCL_PROD:
        return f64_prod(a, b);
    case HETCCL_MAX:
        return f64_max(a, b);
    case HETCCL_MIN:
        return f64_min(a, b);
    default:
        return f64_sum(a, b);
    }
}

/* Accumulator i of a 64-bit type. */
HETCCL_KERNEL_INLINE uint64_t lanes_get_64(const struct lanes *lanes, uint32_t i)
{
    return (uint64_t)lanes->words[2 * i + 1] << 32 | lanes->words[2 * i];
}

HETCCL_KERNEL_INLINE void lanes_set_64(struct lanes *lanes, uint32_t i, uint64_t value)
{
    lanes->words[2 * i] = (uint32_t)value;
    lanes->words[2 * i + 1] = (uint32_t)(value >> 32);
}

/* red is a constant here. */
HETCCL_KERNEL_INLINE void lanes_combine_by(struct lanes *sum, const struct lanes *next, uint32_t n_words,
                                           enum hetccl_type type, enum hetccl_red red)
{
    if (type_bytes(type) == 8) {
        HETCCL_KERNEL_UNROLL
        for (uint32_t i = 0; i < n_words / 2; i++)
            lanes_set_64(sum, i, word_combine_64(lanes_get_64(sum, i), lanes_get_64(next, i), type, red));
        return;
    }
    HETCCL_KERNEL_UNROLL
    for (uint32_t i = 0; i < n_words; i++)
        sum->words[i] = word_combine(sum->words[i], next->words[i], type, red);
}

HETCCL_KERNEL_INLINE void lanes_combine(struct lanes *sum, const struct lanes *next, uint32_t n_words,
                                        enum hetccl_type type, uint32_t red)
{
    switch (red) {
    case HETCCL_PROD:
        lanes_combine_by(sum, next, n_words, type, HETCCL_PROD);
        break;
    case HETCCL_MAX:
        lanes_combine_by(sum, next, n_words, type, HETCCL_MAX);
        break;
    case HETCCL_MIN:
        lanes_combine_by(sum, next, n_words, type, HETCCL_MIN);
        break;
    default:
        lanes_combine_by(sum, next, n_words, type, HETCCL_SUM);
    }
}

HETCCL_KERNEL_INLINE void lanes_scale(struct lanes *lanes, struct hetccl_scale scale, uint32_t n_words,
                                      enum hetccl_type type)
{
    uint32_t factor = word_decode((uint32_t)scale.bits, type);

    if (type_bytes(type) == 8) {
        HETCCL_KERNEL_UNROLL
        for (uint32_t i = 0; i < n_words / 2; i++)
            lanes_set_64(lanes, i, word_combine_64(lanes_get_64(lanes, i), scale.bits, type, HETCCL_PROD));
        return;
    }
    HETCCL_KERNEL_UNROLL
    for (uint32_t i = 0; i < n_words; i++)
        lanes->words[i] = word_combine(lanes->words[i], factor, type, HETCCL_PROD);
}

#endif
