/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TOOLS_REFERENCE_H
#define HETCCL_TOOLS_REFERENCE_H

/*
 * Inputs of which the right result is known: every element is a function of (seed, rank, index), and a serial
 * reference gives what a reduction over all ranks must yield.
 *
 * Integers take any bit pattern, as their arithmetic wraps and so has one right answer in any order. Floats
 * take small integers (products: powers of two) whose partial results are all exact, so that any order and
 * any grouping gives the same bits. Only averages of floats are rounded on the way; they may be
 * HETCCL_REFERENCE_AVG_ULPS off.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nccl.h>

enum hetccl_reference_op {
    HETCCL_REFERENCE_COPY = 0, /* nothing is combined: elements are arbitrary bits, NaNs included */
    HETCCL_REFERENCE_SUM,
    HETCCL_REFERENCE_PROD,
    HETCCL_REFERENCE_MAX,
    HETCCL_REFERENCE_MIN,
    HETCCL_REFERENCE_AVG,
    HETCCL_REFERENCE_PREMULSUM,
    HETCCL_REFERENCE_OPS,
};

enum { HETCCL_REFERENCE_TYPES = 12, HETCCL_REFERENCE_AVG_ULPS = 2 };

struct hetccl_reference {
    ncclDataType_t type;
    enum hetccl_reference_op op;
    uint32_t n_ranks;
    uint64_t seed;
};

size_t hetccl_reference_type_bytes(ncclDataType_t type);
const char *hetccl_reference_type_name(ncclDataType_t type); /* nccl-tests' names: "float", "half" ... */
int hetccl_reference_type_find(const char *name); /* also "float32", "f32", "bf16" ...; -1: unknown */
bool hetccl_reference_type_is_float(ncclDataType_t type);

const char *hetccl_reference_op_name(enum hetccl_reference_op op); /* "none" for COPY */
int hetccl_reference_op_find(const char *name);                    /* -1: unknown */

/* The input of one rank: elements first_index .. first_index + count - 1, to out (any alignment). */
void hetccl_reference_fill(const struct hetccl_reference *reference, uint32_t rank, size_t first_index,
                           size_t count, void *out);

/* Stores a value as element `at` of an array of a float type, rounded to nearest even; not for NaN or
 * overflow. */
void hetccl_reference_store(void *out, size_t at, ncclDataType_t type, double value);

/* What the reduction over all ranks' inputs gives for those indices. Not for HETCCL_REFERENCE_COPY. */
void hetccl_reference_reduce(const struct hetccl_reference *reference, size_t first_index, size_t count,
                             void *out);

/* The scalar that a rank passes to ncclRedOpCreatePreMulSum, as one element of the type. */
void hetccl_reference_scalar(const struct hetccl_reference *reference, uint32_t rank, void *out);

/* Number of elements that differ; averages of floats may differ by HETCCL_REFERENCE_AVG_ULPS. */
uint64_t hetccl_reference_compare(const struct hetccl_reference *reference, const void *expected,
                                  const void *got, size_t count);

#endif
