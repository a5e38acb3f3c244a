/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/planner.h"

/*
 * Plans for small messages: fewer phases for more bytes than the bound.
 *
 *   flat     everybody sends its vector to everybody (reduce: to the root) and combines all in rank order.
 * One phase; N (N - 1) S in all. leader   all-reduce inside each island, then each rank gets every other
 * island's sum from one rank there, number (own island rank) mod (size of that island), and combines in
 * island order. Two phases; (p - 1) N S in all.
 *
 * What a rank sends lies in scratch when it would otherwise be overwritten by the result, or must be scaled
 * first.
 */

static struct hetccl_region aside(struct hetccl_planner *p)
{
    struct hetccl_region region = hetccl_region_of(HETCCL_BUF_SCRATCH, 0, p->request->count);

    hetccl_builder_need_scratch(&p->b, region.count);
    return region;
}

/* My own vector, ready to be sent. */
static struct hetccl_region own_vector(struct hetccl_planner *p)
{
    struct hetccl_region send = hetccl_region_of(HETCCL_BUF_SEND, 0, p->request->count), kept;
    bool is_overwritten = p->request->coll == HETCCL_ALLREDUCE && p->request->is_in_place;

    if (!is_overwritten && !p->request->has_scale)
        return send;
    kept = aside(p);
    hetccl_builder_copy(&p->b, kept, send, p->request->has_scale);
    return kept;
}

static void combine_all_ranks(struct hetccl_planner *p, struct hetccl_region own, bool is_raw)
{
    for (uint32_t rank = 0; rank < p->topo->n_ranks; rank++)
        p->inputs[rank] =
            rank == p->rank ? hetccl_input_local(own, is_raw) : hetccl_input_message(rank, own.count);
    hetccl_builder_combine(&p->b, hetccl_region_of(HETCCL_BUF_RECV, 0, own.count), p->inputs,
                           p->topo->n_ranks);
}

static void flat_allreduce(struct hetccl_planner *p)
{
    struct hetccl_region own = own_vector(p);

    for (uint32_t k = 1; k < p->topo->n_ranks; k++)
        hetccl_builder_send(&p->b, (p->rank + k) % p->topo->n_ranks, own);
    combine_all_ranks(p, own, false);
}

void hetccl_plan_flat(struct hetccl_planner *p)
{
    struct hetccl_region send = hetccl_region_of(HETCCL_BUF_SEND, 0, p->request->count);

    p->b.plan->n_chunks = 1;
    if (p->request->coll == HETCCL_ALLREDUCE)
        flat_allreduce(p);
    else if (p->rank == p->request->root)
        combine_all_ranks(p, send, p->request->has_scale);
    else
        hetccl_builder_send(&p->b, p->request->root, own_vector(p));
}

static struct hetccl_region island_sum(struct hetccl_planner *p)
{
    struct hetccl_island_step step = {
        .op = HETCCL_ISLAND_ALLREDUCE, .src = HETCCL_BUF_SEND, .dst = HETCCL_BUF_SCRATCH};

    if (p->topo->islands[p->island].n_ranks == 1)
        return own_vector(p);
    step.is_raw = p->request->has_scale;
    hetccl_builder_island_begin(&p->b, &step);
    hetccl_builder_piece(&p->b, (struct hetccl_piece){.count = p->request->count});
    hetccl_builder_island_end(&p->b);
    return aside(p);
}

void hetccl_plan_leader(struct hetccl_planner *p)
{
    uint32_t n_own = p->topo->islands[p->island].n_ranks;
    struct hetccl_region sum;

    p->b.plan->n_chunks = 1;
    sum = island_sum(p);
    p->b.time.round = 1;
    for (uint32_t i = 0; i < p->topo->n_islands; i++) {
        const struct hetccl_island *island = &p->topo->islands[i];

        if (i == p->island) {
            p->inputs[i] = hetccl_input_local(sum, false);
            continue;
        }
        for (uint32_t k = p->island_rank; k < island->n_ranks; k += n_own)
            hetccl_builder_send(&p->b, island->ranks[k], sum);
        p->inputs[i] = hetccl_input_message(island->ranks[p->island_rank % island->n_ranks], sum.count);
    }
    hetccl_builder_combine(&p->b, hetccl_region_of(HETCCL_BUF_RECV, 0, sum.count), p->inputs,
                           p->topo->n_islands);
}
