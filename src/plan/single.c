/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/planner.h"

/*
 * No other island: one engine operation for the whole call (the engine cuts it itself), or a copy for a lone
 * rank.
 */

static void copy_own(struct hetccl_planner *p)
{
    bool is_reduction = p->request->coll == HETCCL_ALLREDUCE || p->request->coll == HETCCL_REDUCE ||
                        p->request->coll == HETCCL_REDUCE_SCATTER;
    bool is_raw = is_reduction && p->request->has_scale;
    struct hetccl_region src = hetccl_region_of(HETCCL_BUF_SEND, 0, p->request->count);
    struct hetccl_region dst = hetccl_region_of(HETCCL_BUF_RECV, 0, p->request->count);

    if (p->request->is_in_place && !is_raw)
        return;
    hetccl_builder_copy(&p->b, dst, src, is_raw);
}

static const struct hetccl_island_step steps[HETCCL_COLLS] = {
    [HETCCL_ALLREDUCE] = {.op = HETCCL_ISLAND_ALLREDUCE},
    [HETCCL_ALLGATHER] = {.op = HETCCL_ISLAND_ALLGATHER},
    [HETCCL_REDUCE_SCATTER] = {.op = HETCCL_ISLAND_REDUCE_SCATTER},
    [HETCCL_BROADCAST] = {.op = HETCCL_ISLAND_ALLGATHER},
    [HETCCL_REDUCE] = {.op = HETCCL_ISLAND_REDUCE_SCATTER},
    [HETCCL_ALLTOALL] = {.op = HETCCL_ISLAND_ALLTOALL},
    [HETCCL_GATHER] = {.op = HETCCL_ISLAND_GATHER},
    [HETCCL_SCATTER] = {.op = HETCCL_ISLAND_SCATTER},
};

static void add_block_pieces(struct hetccl_planner *p)
{
    size_t count = p->request->count;

    for (uint32_t i = 0; i < p->topo->n_ranks; i++) {
        struct hetccl_piece piece = {.owner = i, .whole_offset = i * count, .count = count};

        if (p->request->coll == HETCCL_ALLTOALL)
            piece.own_offset = i * count;
        hetccl_builder_piece(&p->b, piece);
    }
}

/* Ranks and island ranks are the same here. Broadcast and reduce are one piece that the root owns. */
void hetccl_plan_single(struct hetccl_planner *p)
{
    struct hetccl_island_step step = steps[p->request->coll];
    enum hetccl_coll coll = p->request->coll;

    p->b.plan->n_chunks = 1;
    if (p->topo->n_ranks == 1) {
        copy_own(p);
        return;
    }
    step.src = HETCCL_BUF_SEND;
    step.dst = HETCCL_BUF_RECV;
    step.root = p->request->root;
    step.is_raw = p->request->has_scale &&
                  (step.op == HETCCL_ISLAND_ALLREDUCE || step.op == HETCCL_ISLAND_REDUCE_SCATTER);
    hetccl_builder_island_begin(&p->b, &step);
    if (coll == HETCCL_ALLREDUCE || coll == HETCCL_BROADCAST || coll == HETCCL_REDUCE)
        hetccl_builder_piece(&p->b,
                             (struct hetccl_piece){.owner = p->request->root, .count = p->request->count});
    else
        add_block_pieces(p);
    hetccl_builder_island_end(&p->b);
}
