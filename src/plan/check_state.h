/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_PLAN_CHECK_STATE_H
#define HETCCL_PLAN_CHECK_STATE_H

/* What the parts of the checker share: check.c (buffers, result), check_run.c (order), check_cells.c (one
 * step). */

#include "plan/check.h"

struct hetccl_cell {
    uint64_t ranks; /* bit per rank that contributed; 0: nobody wrote it */
    uint64_t id;    /* element of the call, and HETCCL_CELL_RAW */
};

#define HETCCL_CELL_RAW (UINT64_C(1) << 63)

struct hetccl_cells {
    struct hetccl_cell *cells;
    size_t count;
};

/* A step of any rank, and what stands for it in the run. */
struct hetccl_run_step {
    const struct hetccl_step *step;
    uint32_t rank, index;
    uint32_t n_pending;  /* what it still waits for */
    uint32_t first_edge; /* steps that wait for it: edges[first_edge .. first_edge of the next step) */
    uint32_t partner; /* SEND: the step that takes the message; ISLAND: how many island steps came before */
    size_t message_offset; /* SEND: into messages */
    bool is_done;
};

struct hetccl_check {
    const struct hetccl_topo *topo;
    const struct hetccl_plan_request *requests;
    const struct hetccl_plan *const *plans;
    enum hetccl_check_mode mode;
    uint64_t random;
    bool is_reduction, has_scale;

    struct hetccl_cells (*buffers)[HETCCL_BUFS]; /* by rank; in place, two of them share cells */
    struct hetccl_cells *memories, *expected;    /* by rank: everything but scratch, in one piece */
    size_t *recv_starts;                         /* by rank: where RECV starts in that */

    struct hetccl_run_step *steps; /* all ranks', and one more */
    uint32_t *first_steps;         /* by rank, and one more */
    uint32_t *edges;
    uint32_t *input_sends,
        *first_inputs; /* [first_inputs of a rank + input]: the step that sends the message */
    uint32_t *island_steps,
        *n_island_steps;    /* [first_steps of a rank + ordinal]: its island steps in order; how many */
    uint32_t *members_left; /* as island_steps, under the island's first rank: who isn't there yet */
    uint32_t *runnable;
    uint32_t n_runnable, n_done;
    const struct hetccl_run_step **members; /* room for an island's */
    struct hetccl_cell *messages;
    struct hetccl_cell *sum; /* room for the largest region */
};

/* Fault texts: "rank 3 step 7 (combine): <what>". */
enum hetccl_status hetccl_check_fault(const struct hetccl_run_step *step, const char *format, ...)
    HETCCL_PRINTF(2, 3);

/* Carries out a step's effect on cells. A message is taken where its send put it, or in strict mode from its
 * source. */
HETCCL_NODISCARD enum hetccl_status hetccl_check_do_copy(struct hetccl_check *c,
                                                         const struct hetccl_run_step *step);
HETCCL_NODISCARD enum hetccl_status hetccl_check_do_send(struct hetccl_check *c,
                                                         const struct hetccl_run_step *step);
HETCCL_NODISCARD enum hetccl_status hetccl_check_do_combine(struct hetccl_check *c,
                                                            const struct hetccl_run_step *step);
/* members: every island rank's step, by island rank. */
HETCCL_NODISCARD enum hetccl_status hetccl_check_do_island(struct hetccl_check *c,
                                                           const struct hetccl_run_step *const *members,
                                                           uint32_t n_members);

/* The times of steps, after a run. */
HETCCL_NODISCARD enum hetccl_status hetccl_check_times(const struct hetccl_check *c);

/* Runs all steps. */
HETCCL_NODISCARD enum hetccl_status hetccl_check_run(struct hetccl_check *c);
void hetccl_check_run_fini(struct hetccl_check *c);

/* The next number of the run's pseudo-random sequence. */
static inline uint64_t hetccl_check_random(struct hetccl_check *c)
{
    uint64_t x = c->random += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

#endif
