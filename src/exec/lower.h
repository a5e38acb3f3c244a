/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_EXEC_LOWER_H
#define HETCCL_EXEC_LOWER_H

/*
 * Between plan and program: operations in the order of the plan, with their lanes and places in rings, not
 * yet sorted by role. Made by lower.c and lower_island.c, sorted by program.c.
 */

#include "exec/program.h"

struct hetccl_draft {
    struct hetccl_bridge_op op;
    uint32_t send_lane; /* SEND */
    uint32_t step;      /* of the plan */
    struct hetccl_step_time time;
    uint32_t final; /* its number in the program; set by program.c */
};

/* A peer and direction, while messages are being counted. */
struct hetccl_draft_lane {
    uint32_t peer, next_piece, n_ops;
};

struct hetccl_lowering {
    const struct hetccl_program_args *args;
    const struct hetccl_step *step; /* being lowered */
    uint32_t half;                  /* of the step's round: 0, then 1 */
    struct hetccl_draft *drafts;
    uint32_t n_drafts, cap_drafts;
    uint32_t *step_drafts; /* [step] its first draft; one more at the end */
    struct hetccl_bridge_input *inputs;
    uint32_t n_inputs, cap_inputs;
    uint32_t *deps; /* drafts */
    uint32_t n_deps, cap_deps;
    struct hetccl_draft_lane *sends, *receives;
    uint32_t n_sends, cap_sends, n_receives, cap_receives;
    enum hetccl_status status; /* of allocations so far; the first failure stays */
};

/* All of the plan. The caller frees by hetccl_lowering_fini(), also after a failure. */
HETCCL_NODISCARD enum hetccl_status hetccl_lowering_run(struct hetccl_lowering *l);
void hetccl_lowering_fini(struct hetccl_lowering *l);

/*
 * One operation of the present step, waiting for what the step waits for; NULL without memory (l->status), or
 * for nothing to do (no elements). More inputs and dependencies are added to the newest draft only.
 */
struct hetccl_draft *hetccl_lower_copy(struct hetccl_lowering *l, const struct hetccl_region *dst,
                                       const struct hetccl_region *src, bool is_raw);
struct hetccl_draft *hetccl_lower_send(struct hetccl_lowering *l, const struct hetccl_region *src,
                                       bool is_raw, uint32_t peer);
struct hetccl_draft *hetccl_lower_combine(struct hetccl_lowering *l, const struct hetccl_region *dst);
void hetccl_lower_local_input(struct hetccl_lowering *l, const struct hetccl_region *src, bool is_raw);
void hetccl_lower_message_input(struct hetccl_lowering *l, uint32_t peer);
void hetccl_lower_dep(struct hetccl_lowering *l, uint32_t draft);

/* The newest draft's number. */
static inline uint32_t hetccl_lower_last(const struct hetccl_lowering *l)
{
    return l->n_drafts - 1;
}

/* lower_island.c: the present step, an island step of a p2p island. */
void hetccl_lower_island(struct hetccl_lowering *l);

#endif
