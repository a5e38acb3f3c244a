/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TESTS_EXEC_MOVERS_H
#define HETCCL_TESTS_EXEC_MOVERS_H

/* Ranks as processes over the public API on the fake CUDA driver, for tests of what moves their data. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/cuda/table.h"
#include "hetccl/nccl.h"

enum { MOVERS_MAX_RANKS = 8 };

struct movers_rank {
    int rank, n_ranks;
    int (*pipes)[2]; /* by rank: what that one reads */
    size_t count;    /* the largest that the movers do quickly */
    ncclComm_t comm;
    struct hetccl_cuda_api driver;
    struct CUstream_st *stream;
    int n_failures;
};

/* Counts, and prints the first few. */
void movers_check(struct movers_rank *r, bool is_good, const char *what, int line);
#define MOVERS_CHECK(r, condition) movers_check((r), (condition), #condition, __LINE__)

/* Device memory; of pinned host memory the same. */
void *movers_memory(struct movers_rank *r, size_t bytes);

/* Waits until the stream is idle; false after seconds. */
bool movers_wait(struct movers_rank *r, double seconds);

double movers_now_s(void);

struct movers_scenario {
    const char *name;
    void (*run)(struct movers_rank *r);
    int n_lost; /* ranks, the last ones, that end by a signal */
};

extern const struct movers_scenario movers_scenarios[]; /* ended by a NULL name */

void movers_values(struct movers_rank *r);

#endif
