/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TESTS_PLAN_MEMORY_H
#define HETCCL_TESTS_PLAN_MEMORY_H

/* One rank's memory in a call of 32-bit integers, and what it must hold in the end. */

#include "shape.h"

enum { MEMORY_SCALE = 3 };

struct memory {
    uint32_t *cells;    /* the user's buffers, then scratch */
    uint32_t *expected; /* user_count of them */
    size_t count, user_count;
    struct memory_buffer {
        size_t start, count;
    } buffers[HETCCL_BUFS]; /* in place, SEND and RECV overlap as NCCL says */
};

/* Element i of what a rank sends. */
uint32_t memory_value(uint32_t rank, size_t i);

/* SEND holds the rank's values, everything else what nobody sends; nothing is expected to change. Errors:
 * HETCCL_ERR_SYSTEM. The caller frees by memory_fini(), also after a failure; it takes a zeroed struct. */
HETCCL_NODISCARD enum hetccl_status memory_init(struct memory *memory, uint32_t rank,
                                                struct memory_buffer send, struct memory_buffer recv,
                                                size_t n_scratch);
void memory_fini(struct memory *memory);

/* The same for a collective, whose result is expected: sums are those of scaled values where it has a scale.
 */
HETCCL_NODISCARD enum hetccl_status memory_init_call(struct memory *memory, const struct shape *shape,
                                                     uint32_t rank, size_t n_scratch);

/* As it was in the beginning. */
void memory_reset(struct memory *memory, uint32_t rank);

/* Errors: HETCCL_ERR_INTERNAL with the first cell that is wrong. */
HETCCL_NODISCARD enum hetccl_status memory_compare(const struct memory *memory, uint32_t rank);

#endif
