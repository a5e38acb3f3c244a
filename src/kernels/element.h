/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_KERNELS_ELEMENT_H
#define HETCCL_KERNELS_ELEMENT_H

/*
 * Arithmetic on one element of the accumulation types. Floats travel as their bits. Inputs may be any bits; a
 * NaN result is always the canonical one, because what a NaN operand's payload becomes differs from target to
 * target.
 */

#include <stdint.h>

#include "kernels/target.h"

#define F32_CANONICAL_NAN 0x7fc00000u
#define F32_INFINITY      0x7f800000u
#define F32_MAGNITUDE     0x7fffffffu
#define F64_CANONICAL_NAN 0x7ff8000000000000u
#define F64_INFINITY      0x7ff0000000000000u
#define F64_MAGNITUDE     0x7fffffffffffffffu

HETCCL_KERNEL_INLINE float f32_of_bits(uint32_t bits)
{
    union {
        uint32_t bits;
        float value;
    } both = {.bits = bits};

    return both.value;
}

HETCCL_KERNEL_INLINE uint32_t f32_to_bits(float value)
{
    union {
        float value;
        uint32_t bits;
    } both = {.value = value};

    return both.bits;
}

HETCCL_KERNEL_INLINE double f64_of_bits(uint64_t bits)
{
    union {
        uint64_t bits;
        double value;
    } both = {.bits = bits};

    return both.value;
}

HETCCL_KERNEL_INLINE uint64_t f64_to_bits(double value)
{
    union {
        double value;
        uint64_t bits;
    } both = {.value = value};

    return both.bits;
}

HETCCL_KERNEL_INLINE uint32_t f32_canonical(float value)
{
    return value == value ? f32_to_bits(value) : F32_CANONICAL_NAN;
}

HETCCL_KERNEL_INLINE uint64_t f64_canonical(double value)
{
    return value == value ? f64_to_bits(value) : F64_CANONICAL_NAN;
}

HETCCL_KERNEL_INLINE uint32_t f32_sum(uint32_t a, uint32_t b)
{
    return f32_canonical(f32_of_bits(a) + f32_of_bits(b));
}

HETCCL_KERNEL_INLINE uint32_t f32_prod(uint32_t a, uint32_t b)
{
    return f32_canonical(f32_of_bits(a) * f32_of_bits(b));
}

HETCCL_KERNEL_INLINE uint64_t f64_sum(uint64_t a, uint64_t b)
{
    return f64_canonical(f64_of_bits(a) + f64_of_bits(b));
}

HETCCL_KERNEL_INLINE uint64_t f64_prod(uint64_t a, uint64_t b)
{
    return f64_canonical(f64_of_bits(a) * f64_of_bits(b));
}

/* An integer that orders as the number does, -0 below +0: a negative number's magnitude is turned over. */
HETCCL_KERNEL_INLINE int32_t f32_order(uint32_t bits)
{
    return (int32_t)(bits ^ ((uint32_t)((int32_t)bits >> 31) >> 1));
}

HETCCL_KERNEL_INLINE int64_t f64_order(uint64_t bits)
{
    return (int64_t)(bits ^ ((uint64_t)((int64_t)bits >> 63) >> 1));
}

/* Signed comparisons: both sides are non-negative, and vector units lack the unsigned ones. */
HETCCL_KERNEL_INLINE int f32_is_nan(uint32_t bits)
{
    return (int32_t)(bits & F32_MAGNITUDE) > (int32_t)F32_INFINITY;
}

HETCCL_KERNEL_INLINE int f64_is_nan(uint64_t bits)
{
    return (int64_t)(bits & F64_MAGNITUDE) > (int64_t)F64_INFINITY;
}

HETCCL_KERNEL_INLINE uint32_t f32_min(uint32_t a, uint32_t b)
{
    uint32_t least = f32_order(a) < f32_order(b) ? a : b;

    return f32_is_nan(a) | f32_is_nan(b) ? F32_CANONICAL_NAN : least;
}

HETCCL_KERNEL_INLINE uint32_t f32_max(uint32_t a, uint32_t b)
{
    uint32_t greatest = f32_order(a) > f32_order(b) ? a : b;

    return f32_is_nan(a) | f32_is_nan(b) ? F32_CANONICAL_NAN : greatest;
}

HETCCL_KERNEL_INLINE uint64_t f64_min(uint64_t a, uint64_t b)
{
    uint64_t least = f64_order(a) < f64_order(b) ? a : b;

    return f64_is_nan(a) | f64_is_nan(b) ? F64_CANONICAL_NAN : least;
}

HETCCL_KERNEL_INLINE uint64_t f64_max(uint64_t a, uint64_t b)
{
    uint64_t greatest = f64_order(a) > f64_order(b) ? a : b;

    return f64_is_nan(a) | f64_is_nan(b) ? F64_CANONICAL_NAN : greatest;
}

#endif
