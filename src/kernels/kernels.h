/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_KERNELS_KERNELS_H
#define HETCCL_KERNELS_KERNELS_H

/*
 * Element-wise work, the same functions on every target. This header is the host target's interface; the
 * device layer calls it for CPU ranks and loads the other targets' images for GPUs.
 *
 * Arithmetic, the same everywhere: f16, bf16 and fp8 are widened to f32, combined there and rounded once to
 * nearest even; f32 and f64 are combined in their own type; integers wrap. No fused multiply-add, no flushing
 * of denormals. A NaN result is the type's canonical NaN. min and max: a NaN input gives NaN, -0 < +0. fp8
 * e4m3 saturates (it has no infinity), e5m2 overflows to infinity. docs/semantics.md has the full rules.
 */

#include <stddef.h>
#include <stdint.h>

/* 0..11 are NCCL's numbers. */
enum hetccl_type {
    HETCCL_INT8 = 0,
    HETCCL_UINT8 = 1,
    HETCCL_INT32 = 2,
    HETCCL_UINT32 = 3,
    HETCCL_INT64 = 4,
    HETCCL_UINT64 = 5,
    HETCCL_FLOAT16 = 6,
    HETCCL_FLOAT32 = 7,
    HETCCL_FLOAT64 = 8,
    HETCCL_BFLOAT16 = 9,
    HETCCL_FLOAT8_E4M3 = 10,
    HETCCL_FLOAT8_E5M2 = 11,
    HETCCL_API_TYPES = 12,
    HETCCL_FLOAT8_E4M3_FNUZ = 12, /* AMD gfx940-942's meaning of 10 */
    HETCCL_FLOAT8_E5M2_FNUZ = 13, /* and of 11 */
    HETCCL_TYPES = 14,
};

/* Averages and PreMulSum are sums whose raw inputs are scaled first. */
enum hetccl_red { HETCCL_SUM = 0, HETCCL_PROD, HETCCL_MAX, HETCCL_MIN, HETCCL_REDS };

/* A scale factor: the bits of one element of the call's type, zero-extended. */
struct hetccl_scale {
    uint64_t bits;
};

/* Bytes of one element: 1, 4 or 8, 2 for f16 and bf16. */
size_t hetccl_type_bytes(enum hetccl_type type);

/* "float32"; the names nccl-tests prints ("half", "bfloat16", "f8e4m3") are accepted by hetccl_type_find().
 */
const char *hetccl_type_name(enum hetccl_type type);
int hetccl_type_find(const char *name); /* -1: unknown */
const char *hetccl_red_name(enum hetccl_red red);

enum { HETCCL_REDUCE_MAX_INPUTS = 64, HETCCL_AVERAGE_MAX_RANKS = 1 << 20 };

/*
 * hetccl_kernel_reduce -- dst[i] = round(red over k = 0 .. n_srcs-1, in this order, of scale_k * srcs[k][i]).
 *
 * dst     [out] count elements, host memory, any alignment; may be identical to one of srcs, not overlap
 * otherwise srcs    [in]  n_srcs (1 .. HETCCL_REDUCE_MAX_INPUTS) arrays of count elements, any alignment
 * scales  [in]  NULL, or one per source; only for HETCCL_SUM. scale * x is formed in the accumulation type.
 *               NULL entries' equivalent is the factor one: pass the bits of 1.
 * Reads and writes exactly count elements. With n_srcs 1 and no scales it copies bit for bit.
 * Bit-equal in every variant (scalar, AVX2, AVX-512, NEON), whatever the alignment and count.
 * Threads: any.
 */
void hetccl_kernel_reduce(void *dst, const void *const *srcs, const struct hetccl_scale *scales,
                          size_t n_srcs, size_t count, enum hetccl_type type, enum hetccl_red red);

/* The scale that makes an average over n_ranks of a float type: T(1/n). */
struct hetccl_scale hetccl_scale_of_average(enum hetccl_type type, size_t n_ranks);

/* The bits of 1 in the type. */
struct hetccl_scale hetccl_scale_one(enum hetccl_type type);

/*
 * Exact averages of integers. The inputs are widened, summed as another type, and narrowed:
 *   8 bit  -> HETCCL_INT32 sums; 32 bit -> HETCCL_INT64 sums;
 *   64 bit -> pairs (quotient, remainder) of HETCCL_INT64 or UINT64, interleaved, so that no sum can wrap.
 * narrow(sum of widen over n_ranks) is the exact mean truncated toward zero, for 1 ..
 * HETCCL_AVERAGE_MAX_RANKS ranks. dst and src don't overlap; any alignment; exactly count elements (wide:
 * count times the factor). Float types are their own wide type, have factor 1, and are not widened: their
 * averages are scaled sums.
 */
enum hetccl_type hetccl_average_wide_type(enum hetccl_type type);
size_t hetccl_average_wide_factor(enum hetccl_type type); /* wide elements an element: 1 or 2 */
void hetccl_kernel_average_widen(void *dst_wide, const void *src, size_t count, enum hetccl_type type,
                                 size_t n_ranks);
void hetccl_kernel_average_narrow(void *dst, const void *src_wide, size_t count, enum hetccl_type type,
                                  size_t n_ranks);

#endif
