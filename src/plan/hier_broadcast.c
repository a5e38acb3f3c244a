/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/fanout.h"

/*
 * Hierarchical broadcast, a chunk at a time (fanout.h says how a chunk is shared out):
 *
 *   fill      the root's island gets the chunk from its engine
 *   leave     each rank of the root's island sends its share, part j to target j
 *   forward   the targets of a fan-out send their parts to each other
 *   down, gather   inside the other domains and islands
 *
 * Bytes between islands: (p - 1) S. The root's island sends S to its siblings and S to the other domains.
 */

static const struct hetccl_place whole = {.buffer = HETCCL_BUF_RECV};

static void fill(struct hetccl_planner *p, uint32_t chunk, void *algorithm)
{
    const struct hetccl_rooted *a = algorithm;
    struct hetccl_space space = hetccl_rooted_chunk(p, chunk);
    struct hetccl_island_step step = {
        .op = HETCCL_ISLAND_ALLGATHER, .src = HETCCL_BUF_SEND, .dst = HETCCL_BUF_RECV};
    size_t count = space.end - space.start;

    if (a->mine != NULL)
        return;
    if (p->topo->islands[p->island].n_ranks == 1) {
        if (!p->request->is_in_place)
            hetccl_builder_copy(&p->b, hetccl_region_of(HETCCL_BUF_RECV, space.start, count),
                                hetccl_region_of(HETCCL_BUF_SEND, space.start, count), false);
        return;
    }
    hetccl_builder_island_begin(&p->b, &step);
    hetccl_builder_piece(&p->b, (struct hetccl_piece){.owner = p->topo->island_rank_of[p->request->root],
                                                      .whole_offset = space.start,
                                                      .own_offset = space.start,
                                                      .count = count});
    hetccl_builder_island_end(&p->b);
}

/* From my share of the chunk to target j; the root needn't wait for its own broadcast. */
static void send_part(struct hetccl_planner *p, const struct hetccl_rooted *a,
                      const struct hetccl_fanout *fanout, const struct hetccl_space *chunk, uint32_t target)
{
    struct hetccl_space part = hetccl_fanout_part(fanout, chunk, target);
    struct hetccl_span span = {part.start, part.end};
    enum hetccl_buffer buffer = p->rank == p->request->root ? HETCCL_BUF_SEND : HETCCL_BUF_RECV;

    hetccl_sweep_begin(&p->sweep, hetccl_span_meet(hetccl_planner_share(p, chunk), span), 0);
    hetccl_fanout_add(p, a, fanout, target, &part);
    while (hetccl_sweep_next(&p->sweep))
        hetccl_builder_send(&p->b, p->sweep.holders[0],
                            hetccl_region_of(buffer, p->sweep.start, p->sweep.end - p->sweep.start));
}

static void receive_part(struct hetccl_planner *p, const struct hetccl_rooted *a,
                         const struct hetccl_space *chunk)
{
    struct hetccl_space part = hetccl_fanout_part(a->mine, chunk, a->mine->own_target);

    hetccl_sweep_begin(&p->sweep, hetccl_planner_share(p, &part), 0);
    hetccl_fanout_add(p, a, a->mine, a->mine->own_target, &part);
    hetccl_sweep_add_island(&p->sweep, a->root_island, chunk);
    while (hetccl_sweep_next(&p->sweep))
        if (p->sweep.holders[0] == p->rank)
            hetccl_builder_receive(&p->b, hetccl_place_region(&whole, p->sweep.start, p->sweep.end),
                                   p->sweep.holders[1]);
}

static void leave(struct hetccl_planner *p, uint32_t chunk, void *algorithm)
{
    const struct hetccl_rooted *a = algorithm;
    struct hetccl_space space = hetccl_rooted_chunk(p, chunk);

    if (a->mine != NULL) {
        receive_part(p, a, &space);
        return;
    }
    for (int f = 0; f < HETCCL_FANOUTS; f++)
        for (uint32_t j = 0; j < a->fanouts[f].n_targets; j++)
            send_part(p, a, &a->fanouts[f], &space, j);
}

/* The part of target `from` goes to target `to`; this rank is in one of them. */
static void forward_part(struct hetccl_planner *p, const struct hetccl_rooted *a,
                         const struct hetccl_space *chunk, uint32_t from, uint32_t to)
{
    struct hetccl_space part = hetccl_fanout_part(a->mine, chunk, from);

    hetccl_sweep_begin(&p->sweep, hetccl_planner_share(p, &part), 0);
    hetccl_fanout_add(p, a, a->mine, from, &part);
    hetccl_fanout_add(p, a, a->mine, to, &part);
    while (hetccl_sweep_next(&p->sweep)) {
        struct hetccl_region region = hetccl_place_region(&whole, p->sweep.start, p->sweep.end);

        if (p->sweep.holders[0] == p->rank)
            hetccl_builder_send(&p->b, p->sweep.holders[1], region);
        if (p->sweep.holders[1] == p->rank)
            hetccl_builder_receive(&p->b, region, p->sweep.holders[0]);
    }
}

static void forward(struct hetccl_planner *p, uint32_t chunk, void *algorithm)
{
    const struct hetccl_rooted *a = algorithm;
    struct hetccl_space space = hetccl_rooted_chunk(p, chunk);

    if (a->mine == NULL)
        return;
    for (uint32_t k = 0; k < a->mine->n_targets; k++) {
        if (k == a->mine->own_target)
            continue;
        forward_part(p, a, &space, a->mine->own_target, k);
        forward_part(p, a, &space, k, a->mine->own_target);
    }
}

static void down(struct hetccl_planner *p, uint32_t chunk, void *algorithm)
{
    const struct hetccl_rooted *a = algorithm;
    struct hetccl_space space = hetccl_rooted_chunk(p, chunk);

    if (a->mine == NULL || a->mine->level != HETCCL_LEVEL_DOMAIN)
        return;
    for (uint32_t j = 0; j < a->mine->n_targets; j++) {
        struct hetccl_space part = hetccl_fanout_part(a->mine, &space, j);

        hetccl_domain_down(p, &part, &whole);
    }
}

static void gather(struct hetccl_planner *p, uint32_t chunk, void *algorithm)
{
    const struct hetccl_rooted *a = algorithm;
    struct hetccl_space space = hetccl_rooted_chunk(p, chunk);
    struct hetccl_island_step step = {
        .op = HETCCL_ISLAND_ALLGATHER, .src = HETCCL_BUF_RECV, .dst = HETCCL_BUF_RECV};

    if (a->mine == NULL || p->topo->islands[p->island].n_ranks == 1)
        return;
    hetccl_builder_island_begin(&p->b, &step);
    for (uint32_t j = 0; j < a->mine->n_targets; j++) {
        struct hetccl_space part = hetccl_fanout_part(a->mine, &space, j);

        hetccl_planner_add_pieces(p, &part, &whole, &whole);
    }
    hetccl_builder_island_end(&p->b);
}

void hetccl_plan_hier_broadcast(struct hetccl_planner *p)
{
    struct hetccl_rooted a;
    hetccl_phase *phases[5] = {fill, leave};
    uint32_t n_phases = 2;

    hetccl_rooted_init(&a, p);
    if (a.is_forwarding)
        phases[n_phases++] = forward;
    if (p->has_domain_phases)
        phases[n_phases++] = down;
    phases[n_phases++] = gather;
    hetccl_planner_run(p, phases, n_phases, &a);
}
