/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_KERNELS_NARROW_H
#define HETCCL_KERNELS_NARROW_H

/*
 * f16, bf16 and the 8-bit floats, to and from f32 bits. Decoding is exact, NaNs may come out with any
 * payload. Encoding rounds to nearest even, subnormals included, and makes every NaN the canonical one.
 */

#include <stdint.h>

#include "kernels/element.h"

/* Magnitude: all bits but the sign. */
struct narrow_format {
    uint32_t bits, mantissa_bits, bias;
    uint32_t overflow;      /* magnitude of what rounds beyond the finite: infinity, or the largest number */
    uint32_t first_special; /* magnitudes from here on are infinity or NaN, and read so with f32's exponent */
    uint32_t nan;           /* canonical */
    uint32_t is_fnuz;       /* no negative zero: its bits are the one NaN */
};

static const struct narrow_format format_f16 = {
    .bits = 16, .mantissa_bits = 10, .bias = 15, .overflow = 0x7c00, .first_special = 0x7c00, .nan = 0x7e00};
static const struct narrow_format format_e4m3 = {
    .bits = 8, .mantissa_bits = 3, .bias = 7, .overflow = 0x7e, .first_special = 0x7f, .nan = 0x7f};
static const struct narrow_format format_e5m2 = {
    .bits = 8, .mantissa_bits = 2, .bias = 15, .overflow = 0x7c, .first_special = 0x7c, .nan = 0x7e};
static const struct narrow_format format_e4m3_fnuz = {.bits = 8,
                                                      .mantissa_bits = 3,
                                                      .bias = 8,
                                                      .overflow = 0x7f,
                                                      .first_special = 0x80,
                                                      .nan = 0x80,
                                                      .is_fnuz = 1};
static const struct narrow_format format_e5m2_fnuz = {.bits = 8,
                                                      .mantissa_bits = 2,
                                                      .bias = 16,
                                                      .overflow = 0x7f,
                                                      .first_special = 0x80,
                                                      .nan = 0x80,
                                                      .is_fnuz = 1};

/* A choice without a branch: ?: may become one with floating-point work behind it, which isn't vectorised. */
HETCCL_KERNEL_INLINE uint32_t pick(int is_first, uint32_t first, uint32_t second)
{
    uint32_t mask = 0u - (uint32_t)is_first;

    return (first & mask) | (second & ~mask);
}

HETCCL_KERNEL_INLINE uint32_t narrow_decode(uint32_t bits, struct narrow_format format)
{
    uint32_t sign_bit = 1u << (format.bits - 1);
    uint32_t magnitude = bits & (sign_bit - 1);
    uint32_t sign = bits << (32 - format.bits) & 1u << 31;
    uint32_t rebias = (127 - format.bias) << 23;
    uint32_t one_exponent = rebias + (1u << 23);
    uint32_t shifted = magnitude << (23 - format.mantissa_bits);
    /* A subnormal's mantissa, put behind a one that is then taken away: exact, without f32 subnormals. */
    uint32_t subnormal = f32_to_bits(f32_of_bits(shifted + one_exponent) - f32_of_bits(one_exponent));
    /* Once more the bias, and the largest exponent of the type has become f32's. */
    uint32_t special_bias = pick((int32_t)magnitude > (int32_t)format.first_special - 1, rebias, 0);
    uint32_t normal = shifted + rebias + special_bias;
    uint32_t value = pick((int32_t)magnitude > (1 << format.mantissa_bits) - 1, normal, subnormal) | sign;

    return format.is_fnuz ? pick(bits == format.nan, F32_CANONICAL_NAN, value) : value;
}

HETCCL_KERNEL_INLINE uint32_t narrow_encode(uint32_t value, struct narrow_format format)
{
    uint32_t drop_bits = 23 - format.mantissa_bits;
    uint32_t rebias = (127 - format.bias) << 23;
    int32_t limit = (int32_t)((format.overflow << drop_bits) + rebias); /* encodes as overflow */
    int32_t unlimited = (int32_t)(value & F32_MAGNITUDE);
    uint32_t magnitude = (uint32_t)(unlimited < limit ? unlimited : limit);
    uint32_t is_odd = magnitude >> drop_bits & 1;
    uint32_t normal = (magnitude - rebias + (1u << (drop_bits - 1)) - 1 + is_odd) >> drop_bits;
    /* Below the smallest normal number: the adder rounds where the magic number's last bit is. */
    uint32_t magic = (128 - format.bias + drop_bits) << 23;
    uint32_t subnormal = f32_to_bits(f32_of_bits(magnitude) + f32_of_bits(magic)) - magic;
    uint32_t result = pick(unlimited > (int32_t)(rebias + (1u << 23)) - 1, normal, subnormal);
    uint32_t sign = value >> (32 - format.bits) & 1u << (format.bits - 1);

    sign = format.is_fnuz ? pick(result == 0, 0, sign) : sign;
    return pick(f32_is_nan(value), format.nan, result | sign);
}

HETCCL_KERNEL_INLINE uint32_t bf16_decode(uint32_t bits)
{
    return bits << 16;
}

HETCCL_KERNEL_INLINE uint32_t bf16_encode(uint32_t value)
{
    uint32_t rounded = (value + 0x7fff + (value >> 16 & 1)) >> 16;

    return f32_is_nan(value) ? 0x7fc0 : rounded;
}

#endif
