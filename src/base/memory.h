/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_BASE_MEMORY_H
#define HETCCL_BASE_MEMORY_H

/* Allocation with fault points, and arithmetic that can't wrap. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { HETCCL_CACHE_LINE = 64 };

/*
 * hetccl_alloc -- zeroed host memory for n_items of item_bytes each.
 *
 * Errors: HETCCL_ERR_SYSTEM (no memory, or the product wraps). *out is written only on success.
 * Ownership: the caller's, given back with hetccl_free(). n_items 0 gives a valid pointer.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_alloc(size_t n_items, size_t item_bytes, void *out);

/* As hetccl_alloc(), aligned to a cache line. Same hetccl_free(). */
HETCCL_NODISCARD enum hetccl_status hetccl_alloc_aligned(size_t n_items, size_t item_bytes, void *out);

/* Grows or shrinks *array (may point to NULL) to n_items; new memory is not zeroed; *array unchanged on
 * failure. */
HETCCL_NODISCARD enum hetccl_status hetccl_resize(void *array, size_t n_items, size_t item_bytes);

void hetccl_free(void *memory);

/* A copy of a string; HETCCL_ERR_SYSTEM without memory. */
HETCCL_NODISCARD enum hetccl_status hetccl_strdup(const char *text, char **out);

static inline bool hetccl_mul_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool hetccl_add_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static inline size_t hetccl_min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t hetccl_max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* unit is a power of two. */
static inline size_t hetccl_round_up(size_t value, size_t unit)
{
    return (value + unit - 1) & ~(unit - 1);
}

#endif
