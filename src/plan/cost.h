/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_PLAN_COST_H
#define HETCCL_PLAN_COST_H

/* Predicted times, from the topology's cost figures alone: the same on all ranks. */

#include "plan/plan.h"

enum hetccl_algorithm { HETCCL_ALGO_HIER = 0, HETCCL_ALGO_FLAT, HETCCL_ALGO_LEADER, HETCCL_ALGOS };

/*
 * Microseconds that the call would take. Each phase takes its latency, a tenth of it for each further message
 * of the busiest rank, and that rank's bytes over the rate. Chunks overlap the phases: the slowest counts in
 * full, the others once a chunk. 0 for alltoallv, whose counts only the ranks know.
 */
double hetccl_plan_predict(const struct hetccl_topo *topo, const struct hetccl_plan_request *request,
                           enum hetccl_algorithm algorithm, uint32_t n_chunks);

#endif
