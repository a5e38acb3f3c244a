/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_EXEC_RUN_H
#define HETCCL_EXEC_RUN_H

/*
 * Inside a run: the plan turned into lanes. A lane keeps an order that both ends rely on: one of island
 * steps, and for every peer one of sends and one of receives. Shared by layout.c (makes it) and run.c (walks
 * it).
 */

#include "exec/exec.h"
#include "exec/launch.h"

/* A message of the plan: a send step, or one message input of a combine step. */
struct message {
    uint32_t step;
    uint32_t lane;
    bool is_direct; /* receive straight into the step's destination */
    struct hetccl_link_request request;
};

/* Messages to or from one peer, in plan order. */
struct lane {
    uint32_t peer;
    bool is_send;
    struct hetccl_link *link; /* NULL until found in this execution */
    uint32_t *messages;       /* indices into run.messages */
    uint32_t n_messages, n_posted, n_done;
};

struct step_state {
    uint32_t n_missing;     /* dependencies not done yet */
    uint32_t first_message; /* SEND: its message; COMBINE: its message inputs, consecutive */
    uint32_t n_messages;
    uint32_t n_messages_done; /* COMBINE, direct */
    size_t done_bytes;        /* COMBINE by peeking */
    bool is_done;
};

struct hetccl_run {
    const struct hetccl_exec_env *env;
    const struct hetccl_plan *plan;
    struct hetccl_run_args args;
    struct hetccl_run_counters counters;
    struct hetccl_launched *launched; /* on an asynchronous device; then the rest is empty */

    struct step_state *states; /* by step */
    uint32_t *successors;      /* the reverse of plan.deps */
    uint32_t *first_successor; /* n_steps + 1 entries */
    uint32_t n_done;

    struct message *messages;
    uint32_t n_messages;
    struct lane *lanes;
    uint32_t n_lanes;
    uint32_t *lane_messages; /* storage of lanes' lists */

    uint32_t *island_steps; /* in order */
    uint32_t n_island_steps, next_island_step;
    bool is_island_active;
    struct hetccl_engine_piece *pieces; /* the plan's, in the engine's form */

    uint32_t *ready; /* local steps that can run; a stack */
    uint32_t n_ready;
    uint32_t *combines; /* combine steps that peek and are under way */
    uint32_t n_combines;
};

#endif
