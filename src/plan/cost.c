/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/cost.h"

#include "base/memory.h"

/* Phases are added up as they are met. */
struct model {
    const struct hetccl_topo *topo;
    struct hetccl_cost near_link, far_link; /* inside a domain, between domains */
    double latency_us, transfer_us, slowest_us;
    double n_ranks, n_tops,
        n_top_siblings;       /* the last: islands of the largest domain, 1 when there is one domain */
    double smallest, largest; /* island sizes */
};

static struct hetccl_cost best_link(const struct hetccl_topo *topo, uint32_t kinds)
{
    for (int kind = 0; kind < HETCCL_LINK_KINDS; kind++)
        if (kinds & (1U << kind))
            return topo->link_cost[kind];
    return topo->link_cost[HETCCL_LINK_TCP];
}

static void init(struct model *m, const struct hetccl_topo *topo)
{
    uint32_t kinds = UINT32_MAX;

    *m = (struct model){
        .topo = topo, .n_ranks = topo->n_ranks, .smallest = topo->n_ranks, .n_top_siblings = 1};
    for (uint32_t rank = 0; rank < topo->n_ranks; rank++)
        kinds &= topo->link_kinds_of[rank];
    m->near_link = best_link(topo, kinds);
    m->far_link = topo->n_hosts > 1 ? best_link(topo, kinds & ~(1U << HETCCL_LINK_SHM)) : m->near_link;
    for (uint32_t i = 0; i < topo->n_islands; i++) {
        m->smallest = topo->islands[i].n_ranks < m->smallest ? topo->islands[i].n_ranks : m->smallest;
        m->largest = topo->islands[i].n_ranks > m->largest ? topo->islands[i].n_ranks : m->largest;
    }
    m->n_tops = topo->n_domains > 1 ? topo->n_domains : topo->n_islands;
    for (uint32_t d = 0; topo->n_domains > 1 && d < topo->n_domains; d++)
        if (topo->domains[d].n_islands > m->n_top_siblings)
            m->n_top_siblings = topo->domains[d].n_islands;
}

static void add_phase(struct model *m, struct hetccl_cost cost, double n_messages, double bytes)
{
    double transfer_us = cost.bytes_per_us > 0 ? bytes / cost.bytes_per_us : 0;

    m->latency_us += cost.latency_us * (0.9 + 0.1 * n_messages);
    m->transfer_us += transfer_us;
    m->slowest_us = transfer_us > m->slowest_us ? transfer_us : m->slowest_us;
}

/* The slowest island's engine; bytes are what each of its ranks moves. Islands of one rank take no time. */
static void add_engine(struct model *m, double bytes)
{
    struct hetccl_cost slowest = {0};
    double slowest_us = -1;

    for (uint32_t i = 0; i < m->topo->n_islands; i++) {
        struct hetccl_cost cost = m->topo->engine_cost[m->topo->islands[i].engine];
        double us = cost.latency_us + (cost.bytes_per_us > 0 ? bytes / cost.bytes_per_us : 0);

        if (m->topo->islands[i].n_ranks > 1 && us > slowest_us) {
            slowest_us = us;
            slowest = cost;
        }
    }
    if (slowest_us >= 0)
        add_phase(m, slowest, 1, bytes);
}

/* Between the islands of a domain: every rank sends `bytes` in all. */
static void add_domain(struct model *m, double bytes)
{
    if (m->n_top_siblings > 1)
        add_phase(m, m->near_link, m->n_top_siblings - 1,
                  bytes * (m->n_top_siblings - 1) / m->n_top_siblings);
}

static void add_top(struct model *m, double n_messages, double bytes)
{
    if (m->n_tops > 1)
        add_phase(m, m->topo->n_domains > 1 ? m->far_link : m->near_link, n_messages, bytes);
}

static void add_hier_allreduce(struct model *m, double bytes)
{
    double share = bytes / m->smallest, others = m->n_tops - 1;

    add_engine(m, bytes);
    add_domain(m, share);
    if (m->n_tops == 2) {
        add_top(m, 1, share);
    } else {
        add_top(m, others, share * others / m->n_tops);
        add_top(m, others, share * others / m->n_tops);
    }
    add_domain(m, share);
    add_engine(m, bytes);
}

/* bytes: of one block. */
static void add_hier_blocks(struct model *m, double bytes)
{
    double all = bytes * m->n_ranks;

    add_engine(m, all);
    add_domain(m, all / m->smallest);
    add_top(m, m->n_ranks / m->smallest, all / m->smallest);
    add_engine(m, bytes * m->largest);
}

static void add_hier_rooted(struct model *m, double bytes)
{
    double share = bytes / m->smallest, n_targets = m->n_tops - 1;

    add_engine(m, bytes);
    add_top(m, n_targets, share);
    if (n_targets > 1)
        add_top(m, n_targets - 1, share * (n_targets - 1) / n_targets);
    add_domain(m, share);
    add_engine(m, bytes);
}

static void add_hier(struct model *m, enum hetccl_coll coll, double bytes)
{
    double n_others = m->n_ranks - m->smallest;

    switch (coll) {
    case HETCCL_ALLREDUCE:
        add_hier_allreduce(m, bytes);
        break;
    case HETCCL_ALLGATHER:
    case HETCCL_REDUCE_SCATTER:
        add_hier_blocks(m, bytes);
        break;
    case HETCCL_BROADCAST:
    case HETCCL_REDUCE:
        add_hier_rooted(m, bytes);
        break;
    case HETCCL_ALLTOALL:
    case HETCCL_GATHER:
    case HETCCL_SCATTER:
        add_engine(m, bytes * m->largest);
        add_top(m, n_others, bytes * n_others);
        break;
    case HETCCL_ALLTOALLV:
    case HETCCL_P2P:
    case HETCCL_COLLS:
        break;
    }
}

/* One island: one operation of its engine. An all-reduce moves everything twice. */
static void add_single(struct model *m, enum hetccl_coll coll, double bytes)
{
    bool is_of_vector = coll == HETCCL_ALLREDUCE || coll == HETCCL_BROADCAST || coll == HETCCL_REDUCE;

    if (coll == HETCCL_ALLTOALLV)
        return;
    if (m->n_ranks == 1)
        add_phase(m, m->topo->engine_cost[HETCCL_ENGINE_NONE], 1, bytes);
    else
        add_engine(m, coll == HETCCL_ALLREDUCE ? 2 * bytes : is_of_vector ? bytes : bytes * m->n_ranks);
}

double hetccl_plan_predict(const struct hetccl_topo *topo, const struct hetccl_plan_request *request,
                           enum hetccl_algorithm algorithm, uint32_t n_chunks)
{
    double bytes = (double)request->count * (double)request->elem_bytes, n_takers;
    struct model m;

    init(&m, topo);
    switch (algorithm) {
    case HETCCL_ALGO_FLAT:
        add_phase(&m, m.far_link, m.n_ranks - 1, bytes * (m.n_ranks - 1));
        break;
    case HETCCL_ALGO_LEADER:
        n_takers = (double)(topo->n_islands - 1) * (m.largest / m.smallest);
        add_engine(&m, 2 * bytes);
        add_phase(&m, m.far_link, n_takers, n_takers * bytes);
        break;
    case HETCCL_ALGO_HIER:
    case HETCCL_ALGOS:
        if (topo->n_islands == 1)
            add_single(&m, request->coll, bytes);
        else
            add_hier(&m, request->coll, bytes);
        break;
    }
    return m.latency_us + m.slowest_us + (m.transfer_us - m.slowest_us) / n_chunks;
}
