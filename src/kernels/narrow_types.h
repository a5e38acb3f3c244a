/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_KERNELS_NARROW_TYPES_H
#define HETCCL_KERNELS_NARROW_TYPES_H

/* One element of any type that accumulates in f32, to and from f32 bits; f32 itself stays as it is. */

#include <stdint.h>

#include "kernels/kernels.h"
#include "kernels/narrow.h"

/* bits above the type's are ignored. */
HETCCL_KERNEL_INLINE uint32_t narrow_type_decode(uint32_t bits, enum hetccl_type type)
{
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

HETCCL_KERNEL_INLINE uint32_t narrow_type_encode(uint32_t value, enum hetccl_type type)
{
    switch (type) {
    case HETCCL_FLOAT16:
        return narrow_encode(value, format_f16);
    case HETCCL_BFLOAT16:
        return bf16_encode(value);
    case HETCCL_FLOAT8_E4M3:
        return narrow_encode(value, format_e4m3);
    case HETCCL_FLOAT8_E5M2:
        return narrow_encode(value, format_e5m2);
    case HETCCL_FLOAT8_E4M3_FNUZ:
        return narrow_encode(value, format_e4m3_fnuz);
    case HETCCL_FLOAT8_E5M2_FNUZ:
        return narrow_encode(value, format_e5m2_fnuz);
    default:
        return value;
    }
}

#endif
