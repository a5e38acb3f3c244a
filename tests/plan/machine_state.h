/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TESTS_PLAN_MACHINE_STATE_H
#define HETCCL_TESTS_PLAN_MACHINE_STATE_H

/* What machine.c (setting up, order, the end) and machine_block.c (one block) share. */

#include "machine.h"
#include "races.h"

enum { MACHINE_TAG = 0x2bad, ELEMENT_BYTES = sizeof(uint32_t) };

struct ring {
    uint32_t words[HETCCL_RING_SLOTS];
    uint32_t counts[HETCCL_RING_SLOTS]; /* elements in the slot */
    uint32_t data[];
};

/* A local block, or a send block in one lane: where it serves several, there is one of these for each. */
struct block {
    uint32_t rank, number; /* number: inside the rank */
    bool is_send;
    uint32_t share; /* which of the local blocks, or of the lane's */
    uint32_t lane;
    uint32_t op, end, piece; /* the next piece */
    uint32_t turn;
    bool has_deps; /* what op waits for is done */
};

struct machine {
    const struct machine_args *args;
    size_t slot_count;
    struct ring **rings;           /* [from * n_ranks + to]; NULL where nothing is sent */
    uint32_t **counters, *n_parts; /* by rank, of operations; blocks by rank */
    struct races *races;           /* by rank; NULL when nobody looks */
    struct block *blocks;
    uint32_t n_blocks, block_capacity;
    uint32_t *sums; /* room for a piece */
    enum hetccl_status status;
};

static inline const struct hetccl_program *machine_program(const struct machine *m, const struct block *b)
{
    return &m->args->programs[b->rank];
}

/* Finds the first piece of a new block; false: it has none at all. */
bool machine_block_begin(const struct machine *m, struct block *b);

enum machine_progress { MACHINE_MOVED, MACHINE_WAITS, MACHINE_ENDED };

/* Does the block's next piece if it can; m->status says when something was wrong. */
enum machine_progress machine_block_step(struct machine *m, struct block *b);

/* What a waiting block waits for. */
void machine_block_describe(const struct machine *m, const struct block *b, char *text, size_t bytes);

#endif
