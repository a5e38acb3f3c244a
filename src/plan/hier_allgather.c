/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/planner.h"

/*
 * Hierarchical all-gather, a chunk of every block at a time:
 *
 *   leave    my island gathers its own blocks; meanwhile each rank sends its block once to every other
 * domain, in pieces to the ranks there that hold them, and once to every sibling island of its domain down
 * the islands of a domain hand each other what came from other domains gather   each island gathers the
 * foreign blocks from the ranks that hold them
 *
 * Bytes between islands: (p - 1) N s. All data land at their final place at once: no scratch, no second copy.
 */

static void gather_own(struct hetccl_planner *p, const struct hetccl_blocks *blocks)
{
    const struct hetccl_island *island = &p->topo->islands[p->island];
    struct hetccl_island_step step = {
        .op = HETCCL_ISLAND_ALLGATHER, .src = HETCCL_BUF_SEND, .dst = HETCCL_BUF_RECV};

    if (island->n_ranks == 1) {
        if (!p->request->is_in_place)
            hetccl_builder_copy(
                &p->b,
                hetccl_region_of(HETCCL_BUF_RECV, p->rank * blocks->stride + blocks->first, blocks->length),
                hetccl_region_of(HETCCL_BUF_SEND, blocks->first, blocks->length), false);
        return;
    }
    hetccl_builder_island_begin(&p->b, &step);
    for (uint32_t i = 0; i < island->n_ranks; i++)
        hetccl_builder_piece(
            &p->b, (struct hetccl_piece){.owner = i,
                                         .whole_offset = island->ranks[i] * blocks->stride + blocks->first,
                                         .own_offset = blocks->first,
                                         .count = blocks->length});
    hetccl_builder_island_end(&p->b);
}

/* My block, spread over a group which keeps it at that level. */
static void send_own(struct hetccl_planner *p, const struct hetccl_blocks *blocks, enum hetccl_level level,
                     uint32_t group, const struct hetccl_space *space)
{
    size_t start = blocks->position_of[p->rank] * blocks->length;

    hetccl_sweep_begin(&p->sweep, (struct hetccl_span){start, start + blocks->length}, blocks->length);
    hetccl_planner_add_group(p, level, group, space);
    while (hetccl_sweep_next(&p->sweep))
        hetccl_builder_send(&p->b, p->sweep.holders[0],
                            hetccl_region_of(HETCCL_BUF_SEND, blocks->first + p->sweep.start - start,
                                             p->sweep.end - p->sweep.start));
}

static void leave(struct hetccl_planner *p, uint32_t chunk, void *algorithm)
{
    const struct hetccl_domain *domain = &p->topo->domains[p->domain];
    struct hetccl_blocks blocks = hetccl_planner_blocks(p, chunk);
    struct hetccl_place place = {.buffer = HETCCL_BUF_RECV, .blocks = &blocks};
    struct hetccl_space of_domain = hetccl_planner_domain_space(p, &blocks, p->domain);
    struct hetccl_space of_island = hetccl_planner_island_space(p, &blocks, p->island);

    gather_own(p, &blocks);
    p->b.time.round++; /* in place, sends read what the island's step has written to where it was */
    for (uint32_t d = 0; d < p->topo->n_domains; d++)
        if (d != p->domain)
            send_own(p, &blocks, HETCCL_LEVEL_DOMAIN, d, &of_domain);
    for (uint32_t i = 0; i < domain->n_islands; i++)
        if (domain->islands[i] != p->island)
            send_own(p, &blocks, HETCCL_LEVEL_ISLAND, domain->islands[i], &of_island);
    for (uint32_t i = 0; i < hetccl_planner_foreign_count(p); i++) {
        struct hetccl_foreign foreign = hetccl_planner_foreign(p, &blocks, i);

        hetccl_planner_find_parts(p, foreign.level, &foreign.space);
        for (uint32_t k = 0; k < p->n_parts; k++)
            hetccl_builder_receive(&p->b, hetccl_place_region(&place, p->parts[k].start, p->parts[k].end),
                                   blocks.rank_at[p->parts[k].start / blocks.length]);
    }
}

static void down(struct hetccl_planner *p, uint32_t chunk, void *algorithm)
{
    struct hetccl_blocks blocks = hetccl_planner_blocks(p, chunk);
    struct hetccl_place place = {.buffer = HETCCL_BUF_RECV, .blocks = &blocks};

    for (uint32_t i = 0; i < hetccl_planner_foreign_count(p); i++) {
        struct hetccl_foreign foreign = hetccl_planner_foreign(p, &blocks, i);

        if (foreign.level == HETCCL_LEVEL_DOMAIN)
            hetccl_domain_down(p, &foreign.space, &place);
    }
}

static void gather(struct hetccl_planner *p, uint32_t chunk, void *algorithm)
{
    struct hetccl_blocks blocks = hetccl_planner_blocks(p, chunk);
    struct hetccl_place place = {.buffer = HETCCL_BUF_RECV, .blocks = &blocks};
    struct hetccl_island_step step = {
        .op = HETCCL_ISLAND_ALLGATHER, .src = HETCCL_BUF_RECV, .dst = HETCCL_BUF_RECV};

    if (p->topo->islands[p->island].n_ranks == 1)
        return;
    hetccl_builder_island_begin(&p->b, &step);
    for (uint32_t i = 0; i < hetccl_planner_foreign_count(p); i++) {
        struct hetccl_foreign foreign = hetccl_planner_foreign(p, &blocks, i);

        hetccl_planner_add_pieces(p, &foreign.space, &place, &place);
    }
    hetccl_builder_island_end(&p->b);
}

void hetccl_plan_hier_allgather(struct hetccl_planner *p)
{
    hetccl_phase *phases[3] = {leave};
    uint32_t n_phases = 1;

    if (p->has_domain_phases)
        phases[n_phases++] = down;
    phases[n_phases++] = gather;
    hetccl_planner_run(p, phases, n_phases, NULL);
}
