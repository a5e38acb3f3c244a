/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_KERNELS_CONVERT_H
#define HETCCL_KERNELS_CONVERT_H

/* Blocks of narrow floats to and from f32 bits, and scaling. Part of loops.h. */

#include <stddef.h>

#include "kernels/element.h"
#include "kernels/kernels.h"
#include "kernels/loose.h"
#include "kernels/narrow.h"
#include "kernels/variants.h"

/* out may be identical to src. src and out hold elements of the accumulation type, scale one of the call's
 * type. */
static void scale_into(void *out, const void *src, size_t count, enum hetccl_type type,
                       struct hetccl_scale scale)
{
    const loose_u8 *src_8 = src;
    const loose_u32 *src_32 = src;
    const loose_u64 *src_64 = src;
    loose_u8 *out_8 = out;
    loose_u32 *out_32 = out;
    loose_u64 *out_64 = out;
    uint32_t factor = hetccl_scale_to_f32(scale, type);

    switch (type) {
    case HETCCL_INT8:
    case HETCCL_UINT8:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out_8[i] = (uint8_t)(src_8[i] * (uint8_t)scale.bits);
        break;
    case HETCCL_INT32:
    case HETCCL_UINT32:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out_32[i] = src_32[i] * (uint32_t)scale.bits;
        break;
    case HETCCL_INT64:
    case HETCCL_UINT64:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out_64[i] = src_64[i] * scale.bits;
        break;
    case HETCCL_FLOAT64:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out_64[i] = f64_prod(src_64[i], scale.bits);
        break;
    default:
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out_32[i] = f32_prod(src_32[i], factor);
    }
}

/*
 * Widening, arithmetic and narrowing are loops of their own, over words that stay in the first-level cache:
 * in one loop compilers do part of the arithmetic on the narrow side, in four times as many instructions.
 * bf16 has no arithmetic to speak of, and is decoded as it is widened.
 */
static void unpack(loose_u32 *words, const void *src, size_t count, enum hetccl_type type)
{
    const loose_u8 *src_8 = src;
    const loose_u16 *src_16 = src;

    if (type == HETCCL_BFLOAT16) {
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            words[i] = bf16_decode(src_16[i]);
    } else if (type == HETCCL_FLOAT16) {
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            words[i] = src_16[i];
    } else {
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            words[i] = src_8[i];
    }
}

static void pack(void *dst, const loose_u32 *words, size_t count, size_t element_bytes)
{
    loose_u8 *dst_8 = dst;
    loose_u16 *dst_16 = dst;

    if (element_bytes == 1) {
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            dst_8[i] = (uint8_t)words[i];
    } else {
        HETCCL_KERNEL_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            dst_16[i] = (uint16_t)words[i];
    }
}

static void decode_words(loose_u32 *words, size_t count, enum hetccl_type type)
{
    switch (type) {
    case HETCCL_FLOAT16:
        for (size_t i = 0; i < count; i++)
            words[i] = narrow_decode(words[i], format_f16);
        break;
    case HETCCL_BFLOAT16: /* by unpack() */
        break;
    case HETCCL_FLOAT8_E4M3:
        for (size_t i = 0; i < count; i++)
            words[i] = narrow_decode(words[i], format_e4m3);
        break;
    case HETCCL_FLOAT8_E5M2:
        for (size_t i = 0; i < count; i++)
            words[i] = narrow_decode(words[i], format_e5m2);
        break;
    case HETCCL_FLOAT8_E4M3_FNUZ:
        for (size_t i = 0; i < count; i++)
            words[i] = narrow_decode(words[i], format_e4m3_fnuz);
        break;
    default:
        for (size_t i = 0; i < count; i++)
            words[i] = narrow_decode(words[i], format_e5m2_fnuz);
    }
}

static void encode_words(loose_u32 *words, size_t count, enum hetccl_type type)
{
    switch (type) {
    case HETCCL_FLOAT16:
        for (size_t i = 0; i < count; i++)
            words[i] = narrow_encode(words[i], format_f16);
        break;
    case HETCCL_BFLOAT16:
        for (size_t i = 0; i < count; i++)
            words[i] = bf16_encode(words[i]);
        break;
    case HETCCL_FLOAT8_E4M3:
        for (size_t i = 0; i < count; i++)
            words[i] = narrow_encode(words[i], format_e4m3);
        break;
    case HETCCL_FLOAT8_E5M2:
        for (size_t i = 0; i < count; i++)
            words[i] = narrow_encode(words[i], format_e5m2);
        break;
    case HETCCL_FLOAT8_E4M3_FNUZ:
        for (size_t i = 0; i < count; i++)
            words[i] = narrow_encode(words[i], format_e4m3_fnuz);
        break;
    default:
        for (size_t i = 0; i < count; i++)
            words[i] = narrow_encode(words[i], format_e5m2_fnuz);
    }
}

#endif
