/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_PLAN_BUILDER_H
#define HETCCL_PLAN_BUILDER_H

/*
 * Writes one plan, step by step in program order, and derives from the regions which earlier steps each step
 * waits for.
 *
 * Empty regions, pieces of no elements and steps without any are left out. A failed allocation is kept: later
 * calls do nothing and finish() returns it, so that planners need no checks. One thread a builder.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "plan/hazards.h"
#include "plan/plan.h"

/* An island step while its pieces are being listed. */
struct hetccl_island_step {
    enum hetccl_island_op op;
    enum hetccl_buffer src, dst;
    uint32_t root; /* GATHER, SCATTER: island rank */
    bool is_raw;
};

struct hetccl_builder {
    enum hetccl_status status;
    struct hetccl_plan *plan;
    uint32_t chunk;               /* noted in the steps, as is the time; set by the caller */
    struct hetccl_step_time time; /* planner.c: a phase has two rounds */
    uint32_t island_rank;

    const struct hetccl_topo *topo;
    struct hetccl_hazards maps[HETCCL_BUFS];
    struct hetccl_readers readers;
    struct hetccl_found_steps found;
    enum hetccl_buffer memory_of[HETCCL_BUFS]; /* in place, RECV and SEND are one memory */
    size_t shift_of[HETCCL_BUFS];              /* what to add to an offset to get the place in that memory */
    uint32_t *marks;                           /* by step: the last step that counted it as a dependency */
    uint32_t step_capacity, piece_capacity, input_capacity, dep_capacity;
};

/*
 * request  [in] of the call; NULL for send/recv groups, whose buffers never alias
 * Errors:  HETCCL_ERR_SYSTEM. After success either finish() or fini() must follow.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_builder_init(struct hetccl_builder *b,
                                                        const struct hetccl_topo *topo, uint32_t rank,
                                                        const struct hetccl_plan_request *request);
void hetccl_builder_fini(struct hetccl_builder *b); /* gives up the plan too, unless finish() handed it out */

/* The finished plan, or the first failure. The builder still needs fini(). */
HETCCL_NODISCARD enum hetccl_status hetccl_builder_finish(struct hetccl_builder *b, struct hetccl_plan **out);

/* Keeps a failure that a planner met elsewhere; HETCCL_OK is ignored. */
void hetccl_builder_keep_failure(struct hetccl_builder *b, enum hetccl_status status);

void hetccl_builder_copy(struct hetccl_builder *b, struct hetccl_region dst, struct hetccl_region src,
                         bool is_raw);
void hetccl_builder_send(struct hetccl_builder *b, uint32_t peer, struct hetccl_region src);

/* dst = reduction over the inputs in order; more than HETCCL_REDUCE_MAX_INPUTS become a chain of steps. */
void hetccl_builder_combine(struct hetccl_builder *b, struct hetccl_region dst,
                            const struct hetccl_input *inputs, size_t n_inputs);

/* A plain receive: combine with one message. */
void hetccl_builder_receive(struct hetccl_builder *b, struct hetccl_region dst, uint32_t peer);

/* An island step: begin, any number of pieces, end. */
void hetccl_builder_island_begin(struct hetccl_builder *b, const struct hetccl_island_step *step);
void hetccl_builder_piece(struct hetccl_builder *b, struct hetccl_piece piece);
void hetccl_builder_island_end(struct hetccl_builder *b);

/* Scratch grows to hold [0, count). */
void hetccl_builder_need_scratch(struct hetccl_builder *b, size_t count);

static inline struct hetccl_region hetccl_region_of(enum hetccl_buffer buffer, size_t offset, size_t count)
{
    return (struct hetccl_region){.buffer = buffer, .offset = offset, .count = count};
}

static inline struct hetccl_input hetccl_input_local(struct hetccl_region region, bool is_raw)
{
    return (struct hetccl_input){.is_raw = is_raw, .region = region};
}

static inline struct hetccl_input hetccl_input_message(uint32_t peer, size_t count)
{
    return (struct hetccl_input){.is_message = true, .peer = peer, .region = {.count = count}};
}

#endif
