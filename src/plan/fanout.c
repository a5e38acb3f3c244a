/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/fanout.h"

#include <string.h>

/* Number of a group among those of its level without the root's own. */
static uint32_t without(uint32_t index, uint32_t root_index)
{
    return index - (index > root_index);
}

static uint32_t sibling_index(const struct hetccl_topo *topo, uint32_t island)
{
    const struct hetccl_domain *domain = &topo->domains[topo->islands[island].domain];
    uint32_t index = 0;

    while (domain->islands[index] != island)
        index++;
    return index;
}

void hetccl_rooted_init(struct hetccl_rooted *a, const struct hetccl_planner *p)
{
    struct hetccl_fanout *siblings = &a->fanouts[HETCCL_TO_SIBLINGS],
                         *domains = &a->fanouts[HETCCL_TO_DOMAINS];

    memset(a, 0, sizeof(*a));
    a->root_island = p->topo->island_of[p->request->root];
    a->root_domain = p->topo->islands[a->root_island].domain;
    *siblings = (struct hetccl_fanout){.level = HETCCL_LEVEL_ISLAND, .own_target = HETCCL_NO_TARGET};
    *domains = (struct hetccl_fanout){.level = HETCCL_LEVEL_DOMAIN, .own_target = HETCCL_NO_TARGET};
    siblings->n_targets = p->topo->domains[a->root_domain].n_islands - 1;
    domains->n_targets = p->topo->n_domains - 1;
    a->is_forwarding = siblings->n_targets > 1 || domains->n_targets > 1;
    if (p->domain != a->root_domain) {
        domains->own_target = without(p->domain, a->root_domain);
        a->mine = domains;
    } else if (p->island != a->root_island) {
        siblings->own_target = without(p->my_island_in_domain, sibling_index(p->topo, a->root_island));
        a->mine = siblings;
    }
}

struct hetccl_space hetccl_rooted_chunk(const struct hetccl_planner *p, uint32_t chunk)
{
    struct hetccl_span span = hetccl_planner_chunk(p, chunk);

    return hetccl_planner_space(p, span.start, span.end);
}

struct hetccl_space hetccl_fanout_part(const struct hetccl_fanout *fanout, const struct hetccl_space *chunk,
                                       uint32_t target)
{
    struct hetccl_span span = hetccl_cut_span(chunk, fanout->n_targets, target);
    struct hetccl_space part = *chunk;

    part.start = span.start;
    part.end = span.end;
    return part;
}

void hetccl_fanout_add(struct hetccl_planner *p, const struct hetccl_rooted *a,
                       const struct hetccl_fanout *fanout, uint32_t target, const struct hetccl_space *part)
{
    uint32_t index;

    if (fanout->level == HETCCL_LEVEL_DOMAIN) {
        index = target + (target >= a->root_domain);
    } else {
        target += target >= sibling_index(p->topo, a->root_island);
        index = p->topo->domains[a->root_domain].islands[target];
    }
    hetccl_planner_add_group(p, fanout->level, index, part);
}
