/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/planner.h"

/*
 * Moves between the islands of one domain. Every elementary interval of the islands' common cuts is divided
 * into one part an island: partial parts go to their holders (up), whole parts come back from them (down).
 * Either way each island sends 1/p of the space to each of its p - 1 siblings.
 */

static void begin(struct hetccl_planner *p, const struct hetccl_space *space)
{
    const struct hetccl_domain *domain = &p->topo->domains[p->domain];

    hetccl_sweep_begin(&p->domain_sweep, hetccl_planner_share(p, space), space->block);
    for (uint32_t i = 0; i < domain->n_islands; i++)
        hetccl_sweep_add_island(&p->domain_sweep, domain->islands[i], space);
}

/* Part `island` of the sweep's present interval. */
static struct hetccl_span part(const struct hetccl_planner *p, const struct hetccl_space *space,
                               uint32_t island)
{
    struct hetccl_space interval = *space;

    interval.start = p->domain_sweep.start;
    interval.end = p->domain_sweep.end;
    return hetccl_cut_span(&interval, p->topo->domains[p->domain].n_islands, island);
}

static void combine_mine(struct hetccl_planner *p, struct hetccl_span mine,
                         const struct hetccl_place *partial, const struct hetccl_place *result)
{
    uint32_t n_islands = p->topo->domains[p->domain].n_islands;

    for (uint32_t i = 0; i < n_islands; i++) {
        if (i == p->my_island_in_domain)
            p->inputs[i] =
                hetccl_input_local(hetccl_place_region(partial, mine.start, mine.end), partial->is_raw);
        else
            p->inputs[i] = hetccl_input_message(p->domain_sweep.holders[i], mine.end - mine.start);
    }
    hetccl_builder_combine(&p->b, hetccl_place_region(result, mine.start, mine.end), p->inputs, n_islands);
}

/* Messages first: they leave while this rank waits for those of the others. */
static void reduce_interval(struct hetccl_planner *p, const struct hetccl_space *space,
                            const struct hetccl_place *partial, const struct hetccl_place *result)
{
    struct hetccl_span mine = part(p, space, p->my_island_in_domain);

    for (uint32_t i = 0; i < p->topo->domains[p->domain].n_islands; i++) {
        struct hetccl_span theirs = part(p, space, i);

        if (i != p->my_island_in_domain && theirs.start < theirs.end)
            hetccl_builder_send(&p->b, p->domain_sweep.holders[i],
                                hetccl_place_region(partial, theirs.start, theirs.end));
    }
    if (mine.start < mine.end)
        combine_mine(p, mine, partial, result);
}

void hetccl_domain_up(struct hetccl_planner *p, const struct hetccl_space *space,
                      const struct hetccl_place *partial, const struct hetccl_place *result)
{
    if (p->topo->domains[p->domain].n_islands == 1)
        return;
    begin(p, space);
    while (hetccl_sweep_next(&p->domain_sweep)) {
        p->b.time.place = p->domain_sweep.start;
        reduce_interval(p, space, partial, result);
    }
}

static void exchange_parts(struct hetccl_planner *p, const struct hetccl_space *space,
                           const struct hetccl_place *place)
{
    struct hetccl_span mine = part(p, space, p->my_island_in_domain);

    for (uint32_t i = 0; i < p->topo->domains[p->domain].n_islands; i++) {
        struct hetccl_span theirs = part(p, space, i);
        uint32_t peer = p->domain_sweep.holders[i];

        if (i == p->my_island_in_domain)
            continue;
        if (mine.start < mine.end)
            hetccl_builder_send(&p->b, peer, hetccl_place_region(place, mine.start, mine.end));
        if (theirs.start < theirs.end)
            hetccl_builder_receive(&p->b, hetccl_place_region(place, theirs.start, theirs.end), peer);
    }
}

void hetccl_domain_down(struct hetccl_planner *p, const struct hetccl_space *space,
                        const struct hetccl_place *place)
{
    if (p->topo->domains[p->domain].n_islands == 1)
        return;
    begin(p, space);
    while (hetccl_sweep_next(&p->domain_sweep))
        exchange_parts(p, space, place);
}
