/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_KERNELS_REFERENCE_H
#define TESTS_UNIT_KERNELS_REFERENCE_H

/*
 * What the kernels must give, worked out in another way: numbers as doubles, rounding by a search among all
 * numbers of the type, integers in 128 bits. Slow, one element at a time. Shares no code with the kernels but
 * the enumerations.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

enum { N_NARROW_TYPES = 6 };
extern const enum hetccl_type narrow_types[N_NARROW_TYPES];

unsigned reference_type_bits(enum hetccl_type type);
bool reference_is_float(enum hetccl_type type);
uint64_t reference_canonical_nan(enum hetccl_type type);

/* The number of a float type's bits; a NaN for NaN. */
double reference_decode(enum hetccl_type type, uint64_t bits);

/* The bits that a number rounds to; value must be a float's (or, for f64, a double's). */
uint64_t reference_encode(enum hetccl_type type, double value);

/* One element: the reduction of n inputs (bits), scaled if scales isn't NULL. */
uint64_t reference_reduce(enum hetccl_type type, enum hetccl_red red, const uint64_t *inputs,
                          const struct hetccl_scale *scales, size_t n_inputs);

/* Element i of an array at any alignment. */
uint64_t element_get(const void *array, size_t i, enum hetccl_type type);
void element_set(void *array, size_t i, enum hetccl_type type, uint64_t bits);

/* Pseudo-random bits, the same in every run. */
uint64_t random_bits(uint64_t *state);

/* A random element; every fourth is a special one: NaN, infinity, zeros, subnormals, limits, small numbers.
 */
uint64_t random_element(enum hetccl_type type, uint64_t *state);

#endif
