/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/kernels.h"
#include "kernels/loose.h"
#include "kernels/narrow.h"
#include "kernels/variants.h"

/*
 * Scales, and averages of integers. A mean of 64-bit integers can't go through a 64-bit sum, so every input
 * is split into quotient and remainder of the division by the number of ranks: n quotients sum to at most the
 * type's range, n remainders to less than n * n.
 */

/* The bits of an element of a float type that a float of C rounds to. */
static uint64_t encode(float value, enum hetccl_type type)
{
    uint32_t bits = f32_to_bits(value);

    switch (type) {
    case HETCCL_FLOAT16:
        return narrow_encode(bits, format_f16);
    case HETCCL_BFLOAT16:
        return bf16_encode(bits);
    case HETCCL_FLOAT8_E4M3:
        return narrow_encode(bits, format_e4m3);
    case HETCCL_FLOAT8_E5M2:
        return narrow_encode(bits, format_e5m2);
    case HETCCL_FLOAT8_E4M3_FNUZ:
        return narrow_encode(bits, format_e4m3_fnuz);
    case HETCCL_FLOAT8_E5M2_FNUZ:
        return narrow_encode(bits, format_e5m2_fnuz);
    default:
        return bits;
    }
}

struct hetccl_scale hetccl_scale_of_average(enum hetccl_type type, size_t n_ranks)
{
    double factor = 1.0 / (double)n_ranks;

    if (type == HETCCL_FLOAT64)
        return (struct hetccl_scale){f64_to_bits(factor)};
    return (struct hetccl_scale){encode((float)factor, type)};
}

struct hetccl_scale hetccl_scale_one(enum hetccl_type type)
{
    switch (type) {
    case HETCCL_INT8:
    case HETCCL_UINT8:
    case HETCCL_INT32:
    case HETCCL_UINT32:
    case HETCCL_INT64:
    case HETCCL_UINT64:
        return (struct hetccl_scale){1};
    case HETCCL_FLOAT64:
        return (struct hetccl_scale){f64_to_bits(1.0)};
    default:
        return (struct hetccl_scale){encode(1.0f, type)};
    }
}

uint32_t hetccl_scale_to_f32(struct hetccl_scale scale, enum hetccl_type type)
{
    uint32_t bits = (uint32_t)scale.bits;

    switch (type) {
    case HETCCL_FLOAT16:
        return narrow_decode(bits & 0xffff, format_f16);
    case HETCCL_BFLOAT16:
        return bf16_decode(bits & 0xffff);
    case HETCCL_FLOAT8_E4M3:
        return narrow_decode(bits & 0xff, format_e4m3);
    case HETCCL_FLOAT8_E5M2:
        return narrow_decode(bits & 0xff, format_e5m2);
    case HETCCL_FLOAT8_E4M3_FNUZ:
        return narrow_decode(bits & 0xff, format_e4m3_fnuz);
    case HETCCL_FLOAT8_E5M2_FNUZ:
        return narrow_decode(bits & 0xff, format_e5m2_fnuz);
    default:
        return bits;
    }
}

enum hetccl_type hetccl_average_wide_type(enum hetccl_type type)
{
    switch (type) {
    case HETCCL_INT8:
    case HETCCL_UINT8:
        return HETCCL_INT32;
    case HETCCL_INT32:
    case HETCCL_UINT32:
        return HETCCL_INT64;
    default:
        return type;
    }
}

size_t hetccl_average_wide_factor(enum hetccl_type type)
{
    return type == HETCCL_INT64 || type == HETCCL_UINT64 ? 2 : 1;
}

static void widen_8(loose_i32 *wide, const void *src, size_t count, enum hetccl_type type)
{
    const int8_t *signed_src = src;
    const uint8_t *unsigned_src = src;

    for (size_t i = 0; i < count; i++)
        wide[i] = type == HETCCL_INT8 ? signed_src[i] : unsigned_src[i];
}

static void widen_32(loose_i64 *wide, const void *src, size_t count, enum hetccl_type type)
{
    const loose_i32 *signed_src = src;
    const loose_u32 *unsigned_src = src;

    for (size_t i = 0; i < count; i++)
        wide[i] = type == HETCCL_INT32 ? (int64_t)signed_src[i] : (int64_t)unsigned_src[i];
}

static void widen_i64(loose_i64 *wide, const loose_i64 *src, size_t count, int64_t n_ranks)
{
    for (size_t i = 0; i < count; i++) {
        wide[2 * i] = src[i] / n_ranks;
        wide[2 * i + 1] = src[i] % n_ranks;
    }
}

static void widen_u64(loose_u64 *wide, const loose_u64 *src, size_t count, uint64_t n_ranks)
{
    for (size_t i = 0; i < count; i++) {
        wide[2 * i] = src[i] / n_ranks;
        wide[2 * i + 1] = src[i] % n_ranks;
    }
}

void hetccl_kernel_average_widen(void *dst_wide, const void *src, size_t count, enum hetccl_type type,
                                 size_t n_ranks)
{
    switch (type) {
    case HETCCL_INT8:
    case HETCCL_UINT8:
        widen_8(dst_wide, src, count, type);
        break;
    case HETCCL_INT32:
    case HETCCL_UINT32:
        widen_32(dst_wide, src, count, type);
        break;
    case HETCCL_INT64:
        widen_i64(dst_wide, src, count, (int64_t)n_ranks);
        break;
    case HETCCL_UINT64:
        widen_u64(dst_wide, src, count, n_ranks);
        break;
    default:
        break;
    }
}

/* The quotient fits the narrow type, whichever of the two it is: a mean lies between the least and greatest
 * input. */
static void narrow_8(uint8_t *dst, const loose_i32 *wide, size_t count, int32_t n_ranks)
{
    for (size_t i = 0; i < count; i++)
        dst[i] = (uint8_t)(wide[i] / n_ranks);
}

static void narrow_32(loose_u32 *dst, const loose_i64 *wide, size_t count, int64_t n_ranks)
{
    for (size_t i = 0; i < count; i++)
        dst[i] = (uint32_t)(wide[i] / n_ranks);
}

/*
 * The mean is quotients + remainders / n_ranks. Both parts are truncated toward zero, so where their signs
 * differ the whole lies one nearer to zero than the sum of the parts.
 */
static void narrow_i64(loose_i64 *dst, const loose_i64 *wide, size_t count, int64_t n_ranks)
{
    for (size_t i = 0; i < count; i++) {
        int64_t mean = wide[2 * i] + wide[2 * i + 1] / n_ranks;
        int64_t rest = wide[2 * i + 1] % n_ranks;

        if (mean > 0 && rest < 0)
            mean--;
        else if (mean < 0 && rest > 0)
            mean++;
        dst[i] = mean;
    }
}

static void narrow_u64(loose_u64 *dst, const loose_u64 *wide, size_t count, uint64_t n_ranks)
{
    for (size_t i = 0; i < count; i++)
        dst[i] = wide[2 * i] + wide[2 * i + 1] / n_ranks;
}

void hetccl_kernel_average_narrow(void *dst, const void *src_wide, size_t count, enum hetccl_type type,
                                  size_t n_ranks)
{
    switch (type) {
    case HETCCL_INT8:
    case HETCCL_UINT8:
        narrow_8(dst, src_wide, count, (int32_t)n_ranks);
        break;
    case HETCCL_INT32:
    case HETCCL_UINT32:
        narrow_32(dst, src_wide, count, (int64_t)n_ranks);
        break;
    case HETCCL_INT64:
        narrow_i64(dst, src_wide, count, (int64_t)n_ranks);
        break;
    case HETCCL_UINT64:
        narrow_u64(dst, src_wide, count, n_ranks);
        break;
    default:
        break;
    }
}
