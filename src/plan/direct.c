/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "plan/planner.h"

/*
 * Collectives in which nothing can be merged on the way: every block goes straight from its owner to whoever
 * wants it, inside the island by the engine (alltoallv: also directly, as nobody knows the others' counts).
 * Bytes between islands: alltoall sum over island pairs of 2 n_i n_j b; gather, scatter s for each rank
 * outside the root's island.
 */

enum { ALLTOALL_RING = 3 };

static size_t slot_count(const struct hetccl_planner *p)
{
    struct hetccl_span chunk = {0, 0};
    size_t largest = 0;

    for (uint32_t k = 0; k < p->n_chunks; k++) {
        chunk = hetccl_planner_chunk(p, k);
        largest = hetccl_max_size(largest, chunk.end - chunk.start);
    }
    return largest * p->topo->n_ranks;
}

/* Where the chunk of my block for a rank is sent from: in place it was put aside, as its place is to be
 * written. */
static struct hetccl_region outgoing(const struct hetccl_planner *p, const struct hetccl_blocks *blocks,
                                     uint32_t chunk, size_t slot, uint32_t rank)
{
    if (!p->request->is_in_place)
        return hetccl_region_of(HETCCL_BUF_SEND, rank * blocks->stride + blocks->first, blocks->length);
    return hetccl_region_of(HETCCL_BUF_SCRATCH, chunk % ALLTOALL_RING * slot + rank * blocks->length,
                            blocks->length);
}

static void put_aside(struct hetccl_planner *p, uint32_t chunk, void *algorithm)
{
    const size_t *slot = algorithm;
    struct hetccl_blocks blocks = hetccl_planner_blocks(p, chunk);

    for (uint32_t rank = 0; p->request->is_in_place && rank < p->topo->n_ranks; rank++)
        hetccl_builder_copy(
            &p->b, outgoing(p, &blocks, chunk, *slot, rank),
            hetccl_region_of(HETCCL_BUF_SEND, rank * blocks.stride + blocks.first, blocks.length), false);
}

static void exchange_in_island(struct hetccl_planner *p, const struct hetccl_blocks *blocks, uint32_t chunk,
                               size_t slot)
{
    const struct hetccl_island *island = &p->topo->islands[p->island];
    struct hetccl_island_step step = {.op = HETCCL_ISLAND_ALLTOALL, .dst = HETCCL_BUF_RECV};

    if (island->n_ranks == 1) {
        size_t own = p->rank * blocks->stride + blocks->first;

        if (!p->request->is_in_place)
            hetccl_builder_copy(&p->b, hetccl_region_of(HETCCL_BUF_RECV, own, blocks->length),
                                hetccl_region_of(HETCCL_BUF_SEND, own, blocks->length), false);
        return;
    }
    step.src = p->request->is_in_place ? HETCCL_BUF_SCRATCH : HETCCL_BUF_SEND;
    hetccl_builder_island_begin(&p->b, &step);
    for (uint32_t i = 0; i < island->n_ranks; i++) {
        struct hetccl_region from = outgoing(p, blocks, chunk, slot, island->ranks[i]);

        hetccl_builder_piece(
            &p->b, (struct hetccl_piece){.owner = i,
                                         .whole_offset = island->ranks[i] * blocks->stride + blocks->first,
                                         .own_offset = from.offset,
                                         .count = blocks->length});
    }
    hetccl_builder_island_end(&p->b);
}

/* Everybody starts at another peer, so that no rank is everybody's first. */
static void exchange(struct hetccl_planner *p, uint32_t chunk, void *algorithm)
{
    const size_t *slot = algorithm;
    struct hetccl_blocks blocks = hetccl_planner_blocks(p, chunk);
    uint32_t n_ranks = p->topo->n_ranks;

    exchange_in_island(p, &blocks, chunk, *slot);
    for (uint32_t k = 1; k < n_ranks; k++) {
        uint32_t to = (p->rank + k) % n_ranks, from = (p->rank + n_ranks - k) % n_ranks;

        if (p->topo->island_of[to] != p->island)
            hetccl_builder_send(&p->b, to, outgoing(p, &blocks, chunk, *slot, to));
        if (p->topo->island_of[from] != p->island)
            hetccl_builder_receive(
                &p->b, hetccl_region_of(HETCCL_BUF_RECV, from * blocks.stride + blocks.first, blocks.length),
                from);
    }
}

void hetccl_plan_direct_alltoall(struct hetccl_planner *p)
{
    hetccl_phase *const phases[] = {put_aside, exchange};
    size_t slot;

    /* One island: the engine cuts for itself. All ranks must list the same island steps, in place or not. */
    if (p->topo->n_islands == 1)
        p->n_chunks = 1;
    slot = slot_count(p);
    if (p->request->is_in_place)
        hetccl_builder_need_scratch(&p->b, slot * hetccl_min_size(ALLTOALL_RING, p->n_chunks));
    hetccl_planner_run(p, phases, 2, &slot);
}

/* In place, all that leaves is put aside first: layouts of sender and receiver have nothing to do with each
 * other. */
static struct hetccl_region outgoing_v(struct hetccl_planner *p, uint32_t rank, size_t *aside)
{
    const struct hetccl_plan_request *r = p->request;
    struct hetccl_region from =
        hetccl_region_of(HETCCL_BUF_SEND, r->send_offsets[rank], r->send_counts[rank]);
    struct hetccl_region to = hetccl_region_of(HETCCL_BUF_SCRATCH, *aside, r->send_counts[rank]);

    if (!r->is_in_place)
        return from;
    *aside += from.count;
    return to;
}

static void put_aside_v(struct hetccl_planner *p)
{
    const struct hetccl_plan_request *r = p->request;
    size_t aside = 0;

    for (uint32_t k = 0; k < p->topo->n_ranks; k++) {
        uint32_t to = (p->rank + k) % p->topo->n_ranks;
        struct hetccl_region region = outgoing_v(p, to, &aside);

        hetccl_builder_copy(
            &p->b, region, hetccl_region_of(HETCCL_BUF_SEND, r->send_offsets[to], r->send_counts[to]), false);
    }
    hetccl_builder_need_scratch(&p->b, aside);
}

void hetccl_plan_direct_alltoallv(struct hetccl_planner *p)
{
    const struct hetccl_plan_request *r = p->request;
    uint32_t n_ranks = p->topo->n_ranks;
    size_t aside = 0;

    p->b.plan->n_chunks = 1;
    if (r->is_in_place)
        put_aside_v(p);
    for (uint32_t k = 0; k < n_ranks; k++) {
        uint32_t to = (p->rank + k) % n_ranks, from = (p->rank + n_ranks - k) % n_ranks;
        struct hetccl_region out = outgoing_v(p, to, &aside);
        struct hetccl_region in =
            hetccl_region_of(HETCCL_BUF_RECV, r->recv_offsets[from], r->recv_counts[from]);

        if (k == 0) {
            hetccl_builder_copy(&p->b, in, out, false);
            continue;
        }
        hetccl_builder_send(&p->b, to, out);
        hetccl_builder_receive(&p->b, in, from);
    }
}

/* ---- gather and scatter: the same moves, one way and the other ---- */

struct rooted {
    bool is_gather;
};

static void move_in_root_island(struct hetccl_planner *p, const struct rooted *a,
                                const struct hetccl_blocks *blocks)
{
    const struct hetccl_island *island = &p->topo->islands[p->island];
    struct hetccl_island_step step = {.op = a->is_gather ? HETCCL_ISLAND_GATHER : HETCCL_ISLAND_SCATTER,
                                      .src = HETCCL_BUF_SEND,
                                      .dst = HETCCL_BUF_RECV};
    struct hetccl_region own = hetccl_region_of(HETCCL_BUF_SEND, blocks->first, blocks->length);
    struct hetccl_region block = own;

    block.offset += p->rank * blocks->stride;
    if (island->n_ranks == 1) {
        if (p->request->is_in_place)
            return;
        own.buffer = a->is_gather ? HETCCL_BUF_SEND : HETCCL_BUF_RECV;
        block.buffer = a->is_gather ? HETCCL_BUF_RECV : HETCCL_BUF_SEND;
        hetccl_builder_copy(&p->b, a->is_gather ? block : own, a->is_gather ? own : block, false);
        return;
    }
    step.root = p->topo->island_rank_of[p->request->root];
    hetccl_builder_island_begin(&p->b, &step);
    for (uint32_t i = 0; i < island->n_ranks; i++)
        hetccl_builder_piece(
            &p->b, (struct hetccl_piece){.owner = i,
                                         .whole_offset = island->ranks[i] * blocks->stride + blocks->first,
                                         .own_offset = blocks->first,
                                         .count = blocks->length});
    hetccl_builder_island_end(&p->b);
}

static void move(struct hetccl_planner *p, uint32_t chunk, void *algorithm)
{
    const struct rooted *a = algorithm;
    struct hetccl_blocks blocks = hetccl_planner_blocks(p, chunk);
    uint32_t root = p->request->root, n_ranks = p->topo->n_ranks;

    if (p->topo->island_of[root] == p->island)
        move_in_root_island(p, a, &blocks);
    else if (a->is_gather)
        hetccl_builder_send(&p->b, root, hetccl_region_of(HETCCL_BUF_SEND, blocks.first, blocks.length));
    else
        hetccl_builder_receive(&p->b, hetccl_region_of(HETCCL_BUF_RECV, blocks.first, blocks.length), root);
    for (uint32_t k = 1; root == p->rank && k < n_ranks; k++) {
        uint32_t peer = (root + k) % n_ranks;
        size_t offset = peer * blocks.stride + blocks.first;

        if (p->topo->island_of[peer] == p->island)
            continue;
        if (a->is_gather)
            hetccl_builder_receive(&p->b, hetccl_region_of(HETCCL_BUF_RECV, offset, blocks.length), peer);
        else
            hetccl_builder_send(&p->b, peer, hetccl_region_of(HETCCL_BUF_SEND, offset, blocks.length));
    }
}

void hetccl_plan_direct_gather(struct hetccl_planner *p)
{
    hetccl_phase *const phases[] = {move};
    struct rooted a = {.is_gather = true};

    hetccl_planner_run(p, phases, 1, &a);
}

void hetccl_plan_direct_scatter(struct hetccl_planner *p)
{
    hetccl_phase *const phases[] = {move};
    struct rooted a = {.is_gather = false};

    hetccl_planner_run(p, phases, 1, &a);
}
