/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_KERNELS_LOOSE_H
#define HETCCL_KERNELS_LOOSE_H

#include <stdint.h>

/* Elements of any alignment in memory of any declared type. */
typedef uint8_t loose_u8;
typedef int8_t loose_i8;
typedef uint16_t loose_u16 __attribute__((aligned(1), may_alias));
typedef int32_t loose_i32 __attribute__((aligned(1), may_alias));
typedef uint32_t loose_u32 __attribute__((aligned(1), may_alias));
typedef int64_t loose_i64 __attribute__((aligned(1), may_alias));
typedef uint64_t loose_u64 __attribute__((aligned(1), may_alias));

#endif
