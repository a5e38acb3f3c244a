/* SPDX-License-Identifier: Apache-2.0 */
#include "api/work.h"

/* The kinds of links that some pair of ranks in different islands has, as far as the topology knows: shm
 * inside a host. */
static const struct hetccl_cost *slowest_cost(const struct hetccl_topo *topo)
{
    if (topo->n_islands < 2)
        return &topo->engine_cost[topo->islands[0].engine];
    return topo->n_hosts < 2 ? &topo->link_cost[HETCCL_LINK_SHM] : &topo->link_cost[HETCCL_LINK_TCP];
}

static double estimate_us(const struct hetccl_comm_item *item)
{
    const struct hetccl_topo *topo = hetccl_comm_topo(item->comm);
    const struct hetccl_call *call = &item->call;
    const struct hetccl_cost *cost;
    double bytes;

    if (topo == NULL || call->coll == HETCCL_P2P || call->coll == HETCCL_ALLTOALLV || call->count == 0)
        return 0;
    cost = slowest_cost(topo);
    if (topo->n_islands < 2)
        bytes = (double)call->count * (double)hetccl_type_bytes(call->type);
    else
        bytes = (double)hetccl_plan_bound_bytes(topo, call->coll, call->count, hetccl_type_bytes(call->type),
                                                (uint32_t)call->root) /
                topo->n_ranks;
    return cost->latency_us + (cost->bytes_per_us > 0 ? bytes / cost->bytes_per_us : 0);
}

double hetccl_work_estimate_us(const struct hetccl_work *work)
{
    double sum_us = 0;

    for (size_t i = 0; i < work->n_items; i++)
        sum_us += estimate_us(&work->items[i]);
    return sum_us;
}
