/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "plan/planner.h"

static const char *const coll_names[HETCCL_COLLS] = {
    "allreduce", "allgather", "reduce_scatter", "broadcast", "reduce",
    "alltoall",  "alltoallv", "gather",         "scatter",   "p2p",
};

static const char *const allreduce_algorithms[] = {"hier", NULL};
static const char *const other_algorithms[] = {"hier", NULL};

const char *hetccl_coll_name(enum hetccl_coll coll)
{
    return (unsigned)coll < HETCCL_COLLS ? coll_names[coll] : "unknown";
}

int hetccl_coll_find(const char *name)
{
    for (int i = 0; i < HETCCL_COLLS; i++)
        if (strcmp(coll_names[i], name) == 0)
            return i;
    return -1;
}

const char *const *hetccl_plan_algorithms(enum hetccl_coll coll)
{
    return coll == HETCCL_ALLREDUCE ? allreduce_algorithms : other_algorithms;
}

void hetccl_plan_destroy(struct hetccl_plan *plan)
{
    if (plan == NULL)
        return;
    hetccl_free(plan->steps);
    hetccl_free(plan->pieces);
    hetccl_free(plan->inputs);
    hetccl_free(plan->deps);
    hetccl_free(plan);
}

static enum hetccl_status check_request(const struct hetccl_topo *topo,
                                        const struct hetccl_plan_request *request)
{
    if (request->coll >= HETCCL_P2P)
        return hetccl_fail(HETCCL_ERR_ARG, "no collective of number %d", (int)request->coll);
    if (request->root >= topo->n_ranks)
        return hetccl_fail(HETCCL_ERR_ARG, "%s: root %u of a communicator of %u ranks; it must be 0 .. %u",
                           hetccl_coll_name(request->coll), request->root, topo->n_ranks, topo->n_ranks - 1);
    if (request->rank >= topo->n_ranks || request->elem_bytes == 0)
        return hetccl_fail(HETCCL_ERR_INTERNAL, "%s: rank %u, %zu bytes an element",
                           hetccl_coll_name(request->coll), request->rank, request->elem_bytes);
    return HETCCL_OK;
}

static void (*const hier_planners[HETCCL_P2P])(struct hetccl_planner *p) = {
    [HETCCL_ALLREDUCE] = hetccl_plan_hier_allreduce,
    [HETCCL_ALLGATHER] = hetccl_plan_hier_allgather,
    [HETCCL_REDUCE_SCATTER] = hetccl_plan_hier_reduce_scatter,
    [HETCCL_BROADCAST] = hetccl_plan_hier_broadcast,
    [HETCCL_REDUCE] = hetccl_plan_hier_reduce,
    [HETCCL_ALLTOALL] = hetccl_plan_direct_alltoall,
    [HETCCL_ALLTOALLV] = hetccl_plan_direct_alltoallv,
    [HETCCL_GATHER] = hetccl_plan_direct_gather,
    [HETCCL_SCATTER] = hetccl_plan_direct_scatter,
};

static void plan_hier(struct hetccl_planner *p)
{
    enum hetccl_coll coll = p->request->coll;

    /* One island in place: what an alltoall sends must be put aside, which the engine doesn't do. */
    if (coll == HETCCL_ALLTOALLV || (coll == HETCCL_ALLTOALL && p->topo->n_ranks > 1))
        hier_planners[coll](p);
    else if (p->topo->n_islands == 1)
        hetccl_plan_single(p);
    else
        hier_planners[coll](p);
}

enum hetccl_status hetccl_plan_build(const struct hetccl_topo *topo,
                                     const struct hetccl_plan_request *request, struct hetccl_plan **out)
{
    struct hetccl_planner p;
    enum hetccl_status status = check_request(topo, request);

    if (status != HETCCL_OK)
        return status;
    status = hetccl_planner_init(&p, topo, request);
    if (status != HETCCL_OK)
        return status;
    p.b.plan->coll = request->coll;
    p.b.plan->name = "hier";
    if (request->count > 0 || request->coll == HETCCL_ALLTOALLV)
        plan_hier(&p);
    status = hetccl_builder_finish(&p.b, out);
    hetccl_planner_fini(&p);
    return status;
}
