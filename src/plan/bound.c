/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/plan.h"

/* What must cross between islands, in elements of one block or of the vector: DESIGN section 2. */

static uint64_t pairs_across(const struct hetccl_topo *topo)
{
    uint64_t n_ordered = (uint64_t)topo->n_ranks * topo->n_ranks;

    for (uint32_t i = 0; i < topo->n_islands; i++)
        n_ordered -= (uint64_t)topo->islands[i].n_ranks * topo->islands[i].n_ranks;
    return n_ordered;
}

uint64_t hetccl_plan_bound_bytes(const struct hetccl_topo *topo, enum hetccl_coll coll, size_t count,
                                 size_t elem_bytes, uint32_t root)
{
    uint64_t bytes = (uint64_t)count * elem_bytes, n_others = topo->n_islands - 1;

    switch (coll) {
    case HETCCL_ALLREDUCE:
        return 2 * n_others * bytes;
    case HETCCL_ALLGATHER:
    case HETCCL_REDUCE_SCATTER:
        return n_others * topo->n_ranks * bytes;
    case HETCCL_BROADCAST:
    case HETCCL_REDUCE:
        return n_others * bytes;
    case HETCCL_ALLTOALL:
        return pairs_across(topo) * bytes;
    case HETCCL_GATHER:
    case HETCCL_SCATTER:
        return (topo->n_ranks - topo->islands[topo->island_of[root]].n_ranks) * bytes;
    case HETCCL_ALLTOALLV:
    case HETCCL_P2P:
    case HETCCL_COLLS:
        break;
    }
    return 0;
}
