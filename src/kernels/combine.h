/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_KERNELS_COMBINE_H
#define HETCCL_KERNELS_COMBINE_H

/* out[i] = a[i] red b[i] in every accumulation type. out may be identical to a or b. Part of loops.h. */

#include <stddef.h>

#include "kernels/element.h"
#include "kernels/kernels.h"
#include "kernels/loose.h"

static void combine_u8(loose_u8 *out, const loose_u8 *a, const loose_u8 *b, size_t count, enum hetccl_red red)
{
    switch (red) {
    case HETCCL_PROD:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = (uint8_t)(a[i] * b[i]);
        break;
    case HETCCL_MAX:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = a[i] > b[i] ? a[i] : b[i];
        break;
    case HETCCL_MIN:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = a[i] < b[i] ? a[i] : b[i];
        break;
    default:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = (uint8_t)(a[i] + b[i]);
    }
}

/* Sums and products of signed integers wrap: they are those of the unsigned ones. */
static void combine_i8(loose_i8 *out, const loose_i8 *a, const loose_i8 *b, size_t count, enum hetccl_red red)
{
    switch (red) {
    case HETCCL_MAX:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = a[i] > b[i] ? a[i] : b[i];
        break;
    case HETCCL_MIN:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = a[i] < b[i] ? a[i] : b[i];
        break;
    default:
        combine_u8((loose_u8 *)out, (const loose_u8 *)a, (const loose_u8 *)b, count, red);
    }
}

static void combine_u32(loose_u32 *out, const loose_u32 *a, const loose_u32 *b, size_t count,
                        enum hetccl_red red)
{
    switch (red) {
    case HETCCL_PROD:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = a[i] * b[i];
        break;
    case HETCCL_MAX:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = a[i] > b[i] ? a[i] : b[i];
        break;
    case HETCCL_MIN:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = a[i] < b[i] ? a[i] : b[i];
        break;
    default:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = a[i] + b[i];
    }
}

static void combine_i32(loose_i32 *out, const loose_i32 *a, const loose_i32 *b, size_t count,
                        enum hetccl_red red)
{
    switch (red) {
    case HETCCL_MAX:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = a[i] > b[i] ? a[i] : b[i];
        break;
    case HETCCL_MIN:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = a[i] < b[i] ? a[i] : b[i];
        break;
    default:
        combine_u32((loose_u32 *)out, (const loose_u32 *)a, (const loose_u32 *)b, count, red);
    }
}

static void combine_u64(loose_u64 *out, const loose_u64 *a, const loose_u64 *b, size_t count,
                        enum hetccl_red red)
{
    switch (red) {
    case HETCCL_PROD:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = a[i] * b[i];
        break;
    case HETCCL_MAX:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = a[i] > b[i] ? a[i] : b[i];
        break;
    case HETCCL_MIN:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = a[i] < b[i] ? a[i] : b[i];
        break;
    default:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = a[i] + b[i];
    }
}

static void combine_i64(loose_i64 *out, const loose_i64 *a, const loose_i64 *b, size_t count,
                        enum hetccl_red red)
{
    switch (red) {
    case HETCCL_MAX:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = a[i] > b[i] ? a[i] : b[i];
        break;
    case HETCCL_MIN:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = a[i] < b[i] ? a[i] : b[i];
        break;
    default:
        combine_u64((loose_u64 *)out, (const loose_u64 *)a, (const loose_u64 *)b, count, red);
    }
}

static void combine_f32(loose_u32 *out, const loose_u32 *a, const loose_u32 *b, size_t count,
                        enum hetccl_red red)
{
    switch (red) {
    case HETCCL_PROD:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = f32_prod(a[i], b[i]);
        break;
    case HETCCL_MAX:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = f32_max(a[i], b[i]);
        break;
    case HETCCL_MIN:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = f32_min(a[i], b[i]);
        break;
    default:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = f32_sum(a[i], b[i]);
    }
}

static void combine_f64(loose_u64 *out, const loose_u64 *a, const loose_u64 *b, size_t count,
                        enum hetccl_red red)
{
    switch (red) {
    case HETCCL_PROD:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = f64_prod(a[i], b[i]);
        break;
    case HETCCL_MAX:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = f64_max(a[i], b[i]);
        break;
    case HETCCL_MIN:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = f64_min(a[i], b[i]);
        break;
    default:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = f64_sum(a[i], b[i]);
    }
}

/* The combination in the type's accumulation type. */
static void combine(void *out, const void *a, const void *b, size_t count, enum hetccl_type type,
                    enum hetccl_red red)
{
    switch (type) {
    case HETCCL_INT8:
        combine_i8(out, a, b, count, red);
        break;
    case HETCCL_UINT8:
        combine_u8(out, a, b, count, red);
        break;
    case HETCCL_INT32:
        combine_i32(out, a, b, count, red);
        break;
    case HETCCL_UINT32:
        combine_u32(out, a, b, count, red);
        break;
    case HETCCL_INT64:
        combine_i64(out, a, b, count, red);
        break;
    case HETCCL_UINT64:
        combine_u64(out, a, b, count, red);
        break;
    case HETCCL_FLOAT64:
        combine_f64(out, a, b, count, red);
        break;
    default:
        combine_f32(out, a, b, count, red);
    }
}

#endif
