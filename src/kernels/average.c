/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/average_element.h"
#include "kernels/kernels.h"
#include "kernels/loose.h"
#include "kernels/narrow_types.h"
#include "kernels/variants.h"

/* Scales, and averages of integers (average_element.h says how those stay exact). */

struct hetccl_scale hetccl_scale_of_average(enum hetccl_type type, size_t n_ranks)
{
    double factor = 1.0 / (double)n_ranks;

    if (type == HETCCL_FLOAT64)
        return (struct hetccl_scale){f64_to_bits(factor)};
    return (struct hetccl_scale){narrow_type_encode(f32_to_bits((float)factor), type)};
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
        return (struct hetccl_scale){narrow_type_encode(f32_to_bits(1.0f), type)};
    }
}

uint32_t hetccl_scale_to_f32(struct hetccl_scale scale, enum hetccl_type type)
{
    return narrow_type_decode((uint32_t)scale.bits, type);
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

static void widen_64(loose_u64 *wide, const loose_u64 *src, size_t count, int is_signed, uint64_t n_ranks)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t quotient, remainder;

        average_split(src[i], n_ranks, is_signed, &quotient, &remainder);
        wide[2 * i] = quotient;
        wide[2 * i + 1] = remainder;
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
    case HETCCL_UINT64:
        widen_64(dst_wide, src, count, type == HETCCL_INT64, n_ranks);
        break;
    default:
        break;
    }
}

static void narrow_8(uint8_t *dst, const loose_i32 *wide, size_t count, int32_t n_ranks)
{
    for (size_t i = 0; i < count; i++)
        dst[i] = average_mean_8(wide[i], n_ranks);
}

static void narrow_32(loose_u32 *dst, const loose_i64 *wide, size_t count, int64_t n_ranks)
{
    for (size_t i = 0; i < count; i++)
        dst[i] = average_mean_32(wide[i], n_ranks);
}

static void narrow_i64(loose_i64 *dst, const loose_i64 *wide, size_t count, int64_t n_ranks)
{
    for (size_t i = 0; i < count; i++)
        dst[i] = average_mean_i64(wide[2 * i], wide[2 * i + 1], n_ranks);
}

static void narrow_u64(loose_u64 *dst, const loose_u64 *wide, size_t count, uint64_t n_ranks)
{
    for (size_t i = 0; i < count; i++)
        dst[i] = average_mean_u64(wide[2 * i], wide[2 * i + 1], n_ranks);
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
