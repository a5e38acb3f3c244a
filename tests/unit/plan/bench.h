/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TESTS_UNIT_PLAN_BENCH_H
#define HETCCL_TESTS_UNIT_PLAN_BENCH_H

/* Topologies in one line, and all ranks' plans of one call. */

#include "plan/plan.h"

enum { BENCH_MAX_RANKS = 64 };

struct bench {
    struct hetccl_topo topo;
    struct hetccl_plan_request requests[BENCH_MAX_RANKS];
    struct hetccl_plan *plans[BENCH_MAX_RANKS];
};

/*
 * islands  [in] a letter a rank, equal letters share an island: "AABB"
 * hosts    [in] a digit a rank, or NULL: every island on a host of its own
 */
void bench_open(struct bench *bench, const char *islands, const char *hosts);
void bench_close(struct bench *bench);

/* Plans `request` for all ranks (its rank is ignored); fails the test when one can't be planned. */
void bench_plan(struct bench *bench, const struct hetccl_plan_request *request);
void bench_drop_plans(struct bench *bench);

/* Elements that one island's ranks send to other islands. */
uint64_t bench_island_sent(const struct bench *bench, uint32_t island);

/* A request with usual limits. */
struct hetccl_plan_request bench_request(enum hetccl_coll coll, size_t count);

#endif
