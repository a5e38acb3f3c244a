/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "plan/cost.h"
#include "plan/planner.h"

enum { MAX_FLAT_RANKS = 64 };

static const char *const coll_names[HETCCL_COLLS] = {
    "allreduce", "allgather", "reducescatter", "broadcast", "reduce",
    "alltoall",  "alltoallv", "gather",        "scatter",   "p2p",
};

static const char *const algorithm_names[HETCCL_ALGOS] = {"hier", "flat", "leader"};
static const char *const allreduce_algorithms[] = {"hier", "flat", "leader", NULL};
static const char *const reduce_algorithms[] = {"hier", "flat", NULL};
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
    if (coll == HETCCL_ALLREDUCE)
        return allreduce_algorithms;
    return coll == HETCCL_REDUCE ? reduce_algorithms : other_algorithms;
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
        return hetccl_fail(HETCCL_ERR_INTERNAL, "%s: rank %u of %u, %zu bytes an element",
                           hetccl_coll_name(request->coll), request->rank, topo->n_ranks,
                           request->elem_bytes);
    return HETCCL_OK;
}

/* ---- which algorithm ---- */

static bool is_listed(enum hetccl_coll coll, const char *name)
{
    const char *const *names = hetccl_plan_algorithms(coll);

    while (*names != NULL && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

/* flat and leader combine one input a rank or an island in one step. */
static bool is_fit(const struct hetccl_topo *topo, enum hetccl_coll coll, enum hetccl_algorithm algorithm)
{
    if (!is_listed(coll, algorithm_names[algorithm]))
        return false;
    if (algorithm == HETCCL_ALGO_FLAT)
        return topo->n_ranks <= MAX_FLAT_RANKS;
    return algorithm != HETCCL_ALGO_LEADER || topo->n_islands <= MAX_FLAT_RANKS;
}

static enum hetccl_status refuse(const struct hetccl_topo *topo, const struct hetccl_plan_request *request)
{
    char fitting[64] = "";
    size_t length = 0;

    for (int i = 0; i < HETCCL_ALGOS; i++)
        if (is_fit(topo, request->coll, (enum hetccl_algorithm)i))
            length += (size_t)snprintf(fitting + length, sizeof(fitting) - length, "%s%s",
                                       length > 0 ? ", " : "", algorithm_names[i]);
    return hetccl_fail(
        HETCCL_ERR_USAGE, "algorithm '%s' doesn't fit %s with %u ranks in %u islands; HETCCL_ALGO may be: %s",
        request->algo, hetccl_coll_name(request->coll), topo->n_ranks, topo->n_islands, fitting);
}

static enum hetccl_status find_forced(const struct hetccl_topo *topo,
                                      const struct hetccl_plan_request *request, enum hetccl_algorithm *out)
{
    for (int i = 0; i < HETCCL_ALGOS; i++) {
        if (strcmp(algorithm_names[i], request->algo) != 0 ||
            !is_fit(topo, request->coll, (enum hetccl_algorithm)i))
            continue;
        *out = (enum hetccl_algorithm)i;
        return HETCCL_OK;
    }
    return refuse(topo, request);
}

static bool is_small(const struct hetccl_plan_request *request)
{
    size_t bytes;

    return hetccl_mul_size(request->count, request->elem_bytes, &bytes) && bytes <= request->small_bytes;
}

static enum hetccl_algorithm find_fastest(const struct hetccl_topo *topo,
                                          const struct hetccl_plan_request *request)
{
    uint32_t n_chunks = hetccl_plan_chunk_count(topo, request);
    enum hetccl_algorithm best = HETCCL_ALGO_HIER;
    double best_us = hetccl_plan_predict(topo, request, best, n_chunks);

    if (topo->n_islands == 1 || !is_small(request))
        return best;
    for (int i = HETCCL_ALGO_HIER + 1; i < HETCCL_ALGOS; i++) {
        double us = hetccl_plan_predict(topo, request, (enum hetccl_algorithm)i, 1);

        if (!is_fit(topo, request->coll, (enum hetccl_algorithm)i) || us >= best_us)
            continue;
        best = (enum hetccl_algorithm)i;
        best_us = us;
    }
    return best;
}

/* ---- the plan ---- */

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

/* One island: the engine does it all, but for what it doesn't know: alltoallv, and putting aside what is sent
 * in place. */
static void plan_hier(struct hetccl_planner *p)
{
    enum hetccl_coll coll = p->request->coll;

    if (coll == HETCCL_ALLTOALLV || (coll == HETCCL_ALLTOALL && p->topo->n_ranks > 1))
        hier_planners[coll](p);
    else if (p->topo->n_islands == 1)
        hetccl_plan_single(p);
    else
        hier_planners[coll](p);
}

static void plan_call(struct hetccl_planner *p, enum hetccl_algorithm algorithm)
{
    if (p->request->count == 0 && p->request->coll != HETCCL_ALLTOALLV)
        return;
    if (algorithm == HETCCL_ALGO_FLAT && p->topo->n_ranks > 1)
        hetccl_plan_flat(p);
    else if (algorithm == HETCCL_ALGO_LEADER && p->topo->n_islands > 1)
        hetccl_plan_leader(p);
    else
        plan_hier(p);
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

/* All that shapes the wire. Not is_in_place and the like: each rank decides those for itself. */
static uint64_t decision_hash(const struct hetccl_topo *topo, const struct hetccl_plan_request *request,
                              enum hetccl_algorithm algorithm)
{
    size_t count = request->coll == HETCCL_ALLTOALLV ? 0 : request->count;
    uint64_t hash = mix(mix(mix(topo->hash, (uint64_t)algorithm), (uint64_t)request->coll), count);

    hash = mix(mix(mix(hash, request->elem_bytes), request->root), request->has_scale);
    return mix(mix(hash, request->chunk_bytes), request->small_bytes);
}

enum hetccl_status hetccl_plan_build(const struct hetccl_topo *topo,
                                     const struct hetccl_plan_request *request, struct hetccl_plan **out)
{
    struct hetccl_planner p;
    enum hetccl_algorithm algorithm = HETCCL_ALGO_HIER;
    enum hetccl_status status = check_request(topo, request);

    if (status == HETCCL_OK && request->algo != NULL && request->algo[0] != '\0')
        status = find_forced(topo, request, &algorithm);
    else if (status == HETCCL_OK)
        algorithm = find_fastest(topo, request);
    if (status != HETCCL_OK)
        return status;
    status = hetccl_planner_init(&p, topo, request);
    if (status != HETCCL_OK)
        return status;
    plan_call(&p, algorithm);
    p.b.plan->coll = request->coll;
    p.b.plan->name = algorithm_names[algorithm];
    p.b.plan->is_small = algorithm != HETCCL_ALGO_HIER;
    p.b.plan->predicted_us =
        hetccl_plan_predict(topo, request, algorithm, p.b.plan->n_chunks > 0 ? p.b.plan->n_chunks : 1);
    p.b.plan->decision_hash = decision_hash(topo, request, algorithm);
    status = hetccl_builder_finish(&p.b, out);
    hetccl_planner_fini(&p);
    return status;
}
