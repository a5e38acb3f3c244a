/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TESTS_PLAN_RACES_H
#define HETCCL_TESTS_PLAN_RACES_H

/*
 * Finds accesses of one rank's memory that nothing orders. Blocks have vector clocks; a block's own order and
 * what it waits for (the counter of an operation) order accesses, messages between ranks do not: programs
 * don't rely on them. A block that serves several lanes counts as one for each. As these orders don't depend
 * on who comes first, one run finds every race.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct race_cell {
    uint32_t write; /* when it was last written: block and its clock; 0: never */
    uint32_t write_op;
    uint32_t reads; /* since then, the newest; 0: none */
};

struct race_read {
    uint32_t when, op, next;
};

struct races {
    uint32_t rank, n_blocks;
    struct race_cell *cells;
    struct race_read *reads; /* [0] isn't used */
    uint32_t n_reads, read_capacity;
    uint32_t *clocks;   /* [block * n_blocks + other]: up to when the block knows the other */
    uint32_t *released; /* [op * n_blocks + block]: what its counter hands on */
};

/* Errors: HETCCL_ERR_SYSTEM. The caller frees by races_fini(), also after a failure; it takes a zeroed
 * struct. */
HETCCL_NODISCARD enum hetccl_status races_init(struct races *races, uint32_t rank, uint32_t n_blocks,
                                               uint32_t n_ops, size_t n_cells);
void races_fini(struct races *races);

/* The block has said that its part of the operation is done; it has seen that all of the operation is. */
void races_release(struct races *races, uint32_t block, uint32_t op);
void races_acquire(struct races *races, uint32_t block, uint32_t op);

/* Errors: HETCCL_ERR_INTERNAL for a race, HETCCL_ERR_SYSTEM. */
HETCCL_NODISCARD enum hetccl_status races_read(struct races *races, uint32_t block, uint32_t op, size_t start,
                                               size_t count);
HETCCL_NODISCARD enum hetccl_status races_write(struct races *races, uint32_t block, uint32_t op,
                                                size_t start, size_t count);

#endif
