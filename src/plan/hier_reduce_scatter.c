/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "plan/planner.h"

/*
 * Hierarchical reduce-scatter, a chunk of every block at a time; the way of the all-gather, backwards:
 *
 *   scatter  each island reduces all blocks: its own ranks' straight to their owners, those of other domains
 * and of sibling islands to shares spread over its ranks up       the islands of a domain combine what they
 * have for other domains arrive   everybody sends its parts to their owners; an owner combines its island's
 * sum with one message from each sibling island and each other domain, in the order of the domains and
 * islands
 *
 * Bytes between islands: (p - 1) N r.
 *
 * Scratch of a chunk: my own block, then my share of every foreign space. An island of one rank leaves its
 * partial sums in SEND, unless they must be scaled before they can be sent.
 */

struct reduce_scatter {
    bool is_direct;  /* partial sums are SEND itself */
    bool has_domain; /* my domain has several islands, and there are other domains */
    uint32_t ring;
    size_t slot_count;
};

/* Where my partial sum (island level) or the domain's of a foreign space lies. `before`: elements of scratch
 * before it. */
static struct hetccl_place foreign_place(const struct hetccl_planner *p, const struct reduce_scatter *a,
                                         const struct hetccl_blocks *blocks, uint32_t chunk, size_t before,
                                         const struct hetccl_space *space)
{
    return (struct hetccl_place){
        .buffer = HETCCL_BUF_SCRATCH,
        .origin = hetccl_planner_share(p, space).start,
        .base = chunk % a->ring * a->slot_count + before,
    };
}

static struct hetccl_place send_place(const struct hetccl_blocks *blocks)
{
    return (struct hetccl_place){.buffer = HETCCL_BUF_SEND, .blocks = blocks};
}

static size_t share_count(const struct hetccl_planner *p, const struct hetccl_space *space)
{
    struct hetccl_span share = hetccl_planner_share(p, space);

    return share.end - share.start;
}

static size_t scratch_of_chunk(struct hetccl_planner *p, uint32_t chunk)
{
    struct hetccl_blocks blocks = hetccl_planner_blocks(p, chunk);
    size_t count = blocks.length;

    for (uint32_t i = 0; i < hetccl_planner_foreign_count(p); i++) {
        struct hetccl_foreign foreign = hetccl_planner_foreign(p, &blocks, i);

        count += share_count(p, &foreign.space);
    }
    return count;
}

/* A lone rank's shares are the whole spaces: one scaled copy a block. */
static void copy_scaled(struct hetccl_planner *p, const struct hetccl_space *space,
                        const struct hetccl_place *from, const struct hetccl_place *to)
{
    for (size_t start = space->start; start < space->end; start += space->block)
        hetccl_builder_copy(&p->b, hetccl_place_region(to, start, start + space->block),
                            hetccl_place_region(from, start, start + space->block), true);
}

static void add_own_pieces(struct hetccl_planner *p, const struct hetccl_blocks *blocks, size_t own_offset)
{
    const struct hetccl_island *island = &p->topo->islands[p->island];

    for (uint32_t i = 0; i < island->n_ranks; i++)
        hetccl_builder_piece(
            &p->b, (struct hetccl_piece){.owner = i,
                                         .whole_offset = island->ranks[i] * blocks->stride + blocks->first,
                                         .own_offset = i == p->island_rank ? own_offset : 0,
                                         .count = blocks->length});
}

static void scatter(struct hetccl_planner *p, uint32_t chunk, void *algorithm)
{
    const struct reduce_scatter *a = algorithm;
    struct hetccl_blocks blocks = hetccl_planner_blocks(p, chunk);
    struct hetccl_place from = send_place(&blocks);
    struct hetccl_island_step step = {
        .op = HETCCL_ISLAND_REDUCE_SCATTER, .src = HETCCL_BUF_SEND, .dst = HETCCL_BUF_SCRATCH};
    bool is_lone = p->topo->islands[p->island].n_ranks == 1;
    size_t before = blocks.length;

    step.is_raw = p->request->has_scale;
    if (a->is_direct)
        return;
    if (!is_lone) {
        hetccl_builder_island_begin(&p->b, &step);
        add_own_pieces(p, &blocks, chunk % a->ring * a->slot_count);
    }
    for (uint32_t i = 0; i < hetccl_planner_foreign_count(p); i++) {
        struct hetccl_foreign foreign = hetccl_planner_foreign(p, &blocks, i);
        struct hetccl_place to = foreign_place(p, a, &blocks, chunk, before, &foreign.space);

        if (is_lone)
            copy_scaled(p, &foreign.space, &from, &to);
        else
            hetccl_planner_add_pieces(p, &foreign.space, &from, &to);
        before += share_count(p, &foreign.space);
    }
    if (!is_lone)
        hetccl_builder_island_end(&p->b);
}

static void up(struct hetccl_planner *p, uint32_t chunk, void *algorithm)
{
    const struct reduce_scatter *a = algorithm;
    struct hetccl_blocks blocks = hetccl_planner_blocks(p, chunk);
    size_t before = blocks.length;

    for (uint32_t i = 0; i < hetccl_planner_foreign_count(p); i++) {
        struct hetccl_foreign foreign = hetccl_planner_foreign(p, &blocks, i);
        struct hetccl_place result = foreign_place(p, a, &blocks, chunk, before, &foreign.space);
        struct hetccl_place partial = a->is_direct ? send_place(&blocks) : result;

        if (foreign.level == HETCCL_LEVEL_DOMAIN)
            hetccl_domain_up(p, &foreign.space, &partial, &result);
        before += share_count(p, &foreign.space);
    }
}

/* Everybody outside the island of `owner` who holds parts of its block, in the order of domains and islands.
 */
static void begin_sources(struct hetccl_planner *p, const struct hetccl_blocks *blocks,
                          struct hetccl_span window, uint32_t owner)
{
    uint32_t island = p->topo->island_of[owner], domain = p->topo->islands[island].domain;
    struct hetccl_space of_domain = hetccl_planner_domain_space(p, blocks, domain);
    struct hetccl_space of_island = hetccl_planner_island_space(p, blocks, island);

    hetccl_sweep_begin(&p->sweep, window, blocks->length);
    for (uint32_t d = 0; d < p->topo->n_domains; d++) {
        const struct hetccl_domain *islands = &p->topo->domains[d];

        if (d != domain) {
            hetccl_sweep_add_domain(&p->sweep, d, &of_domain);
            continue;
        }
        for (uint32_t i = 0; i < islands->n_islands; i++)
            if (islands->islands[i] != island)
                hetccl_sweep_add_island(&p->sweep, islands->islands[i], &of_island);
    }
}

/* A message per interval that the owner combines at once: it is cut where any other source's part ends. */
static void send_parts(struct hetccl_planner *p, const struct hetccl_blocks *blocks,
                       const struct hetccl_place *place)
{
    for (uint32_t k = 0; k < p->n_parts; k++) {
        uint32_t owner = blocks->rank_at[p->parts[k].start / blocks->length];

        begin_sources(p, blocks, p->parts[k], owner);
        while (hetccl_sweep_next(&p->sweep)) {
            p->b.time.place = p->sweep.start;
            hetccl_builder_send(&p->b, owner, hetccl_place_region(place, p->sweep.start, p->sweep.end));
        }
    }
}

/* My island's own sum of my block. */
static struct hetccl_input own_input(const struct hetccl_planner *p, const struct reduce_scatter *a,
                                     const struct hetccl_blocks *blocks, uint32_t chunk, size_t offset,
                                     size_t count)
{
    if (p->topo->islands[p->island].n_ranks == 1)
        return hetccl_input_local(
            hetccl_region_of(HETCCL_BUF_SEND, p->rank * blocks->stride + blocks->first + offset, count),
            p->request->has_scale);
    return hetccl_input_local(
        hetccl_region_of(HETCCL_BUF_SCRATCH, chunk % a->ring * a->slot_count + offset, count), false);
}

static void combine_own(struct hetccl_planner *p, const struct reduce_scatter *a,
                        const struct hetccl_blocks *blocks, uint32_t chunk)
{
    size_t start = blocks->position_of[p->rank] * blocks->length;
    uint32_t own_place =
        p->domain + p->my_island_in_domain; /* among the sources: one a domain before mine, then islands */

    begin_sources(p, blocks, (struct hetccl_span){start, start + blocks->length}, p->rank);
    while (hetccl_sweep_next(&p->sweep)) {
        size_t offset = p->sweep.start - start, count = p->sweep.end - p->sweep.start;

        p->b.time.place = p->sweep.start;
        for (uint32_t i = 0; i < p->sweep.n_members; i++)
            p->inputs[i + (i >= own_place)] = hetccl_input_message(p->sweep.holders[i], count);
        p->inputs[own_place] = own_input(p, a, blocks, chunk, offset, count);
        hetccl_builder_combine(&p->b, hetccl_region_of(HETCCL_BUF_RECV, blocks->first + offset, count),
                               p->inputs, p->sweep.n_members + 1);
    }
}

static void arrive(struct hetccl_planner *p, uint32_t chunk, void *algorithm)
{
    const struct reduce_scatter *a = algorithm;
    struct hetccl_blocks blocks = hetccl_planner_blocks(p, chunk);
    size_t before = blocks.length;

    for (uint32_t i = 0; i < hetccl_planner_foreign_count(p); i++) {
        struct hetccl_foreign foreign = hetccl_planner_foreign(p, &blocks, i);
        struct hetccl_place place = foreign_place(p, a, &blocks, chunk, before, &foreign.space);

        if (a->is_direct && !(a->has_domain && foreign.level == HETCCL_LEVEL_DOMAIN))
            place = send_place(&blocks);
        hetccl_planner_find_parts(p, foreign.level, &foreign.space);
        send_parts(p, &blocks, &place);
        before += share_count(p, &foreign.space);
    }
    combine_own(p, a, &blocks, chunk);
}

void hetccl_plan_hier_reduce_scatter(struct hetccl_planner *p)
{
    struct reduce_scatter a = {.is_direct =
                                   p->topo->islands[p->island].n_ranks == 1 && !p->request->has_scale};
    hetccl_phase *phases[3] = {scatter};
    uint32_t n_phases = 1;

    a.has_domain = p->topo->n_domains > 1 && p->topo->domains[p->domain].n_islands > 1;
    if (p->has_domain_phases)
        phases[n_phases++] = up;
    phases[n_phases++] = arrive;
    a.ring = n_phases + 1;
    for (uint32_t chunk = 0; chunk < p->n_chunks; chunk++)
        a.slot_count = hetccl_max_size(a.slot_count, scratch_of_chunk(p, chunk));
    a.slot_count = (a.slot_count + p->granule - 1) / p->granule * p->granule;
    if (!a.is_direct || a.has_domain)
        hetccl_builder_need_scratch(&p->b, a.slot_count * hetccl_min_size(a.ring, p->n_chunks));
    hetccl_planner_run(p, phases, n_phases, &a);
}
