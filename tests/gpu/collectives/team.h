/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_GPU_TEAM_H
#define TESTS_GPU_TEAM_H

/*
 * The ranks of a GPU test: processes of one machine, started by fork, with a page of shared memory for the
 * unique id, barriers and figures. Each has its GPU (rank modulo their number) and a communicator of all. A
 * rank that fails ends the others; so does a time limit.
 */

#include <stdbool.h>
#include <stddef.h>

#include <nccl.h>

#include "cuda_memory.h"

enum { TEAM_MAX_RANKS = 16 };

struct team_board;

struct team {
    struct team_board *board;
    int rank, n_ranks;
    struct cuda_memory *cuda; /* its stream is the default one, that of a NULL stream in NCCL calls */
    ncclComm_t comm;
    bool is_host; /* TEAM_DEVICES, a list of cuda and host, says so: computes on the CPU */
};

/*
 * Runs `work` on every rank. It returns the number of wrong things it found; argument is as given. Returns
 * the exit status: 0 when no rank found any and all ended in time.
 */
int team_run(int n_ranks, unsigned limit_s, unsigned (*work)(struct team *team, void *argument),
             void *argument);

/* Ends this rank at once and without a word, as a crash does; the others go on. Once a team. */
void team_die(struct team *team) __attribute__((noreturn));

/* Without a communicator from now on: aborts it. */
void team_abort(struct team *team);

/* Memory of the rank's device; of the GPU, or of the CPU. The GPU reaches both. */
void *team_alloc(struct team *team, size_t bytes);
void team_free(struct team *team, void *memory);

void team_barrier(struct team *team);
double team_max(struct team *team, double value); /* over all ranks, on all ranks */
double team_sum(struct team *team, double value);

/* Ends the rank, and with it the team, if result is an error. */
void team_check(const struct team *team, ncclResult_t result, const char *call);

double team_now_us(void);

/* Sorts the values and gives the middle one. */
double team_median(double *values, size_t n_values);

#endif
