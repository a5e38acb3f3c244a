/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/spread.h"

#include <string.h>

#include "base/memory.h"

/* Below this many granules a share, whole elements are dealt out instead: alignment isn't worth an uneven
 * share. */
enum { GRANULES_A_SHARE = 16 };

size_t hetccl_cut(size_t start, size_t end, size_t n, size_t i, size_t granule)
{
    size_t length = end - start, units, offset;

    if (length / GRANULES_A_SHARE / n < granule)
        granule = 1;
    units = length / granule + (length % granule != 0);
    offset = (units / n * i + units % n * i / n) * granule; /* units * i / n without the wrap */
    return start + hetccl_min_size(offset, length);
}

struct hetccl_span hetccl_cut_span(const struct hetccl_space *space, size_t n, size_t index)
{
    return (struct hetccl_span){
        .start = hetccl_cut(space->start, space->end, n, index, space->granule),
        .end = hetccl_cut(space->start, space->end, n, index + 1, space->granule),
    };
}

struct hetccl_span hetccl_span_meet(struct hetccl_span a, struct hetccl_span b)
{
    struct hetccl_span meet = {.start = hetccl_max_size(a.start, b.start),
                               .end = hetccl_min_size(a.end, b.end)};

    if (meet.end < meet.start)
        meet.end = meet.start;
    return meet;
}

/* The share that holds a coordinate: a guess by proportion, then steps to the exact one. */
static size_t find_share(const struct hetccl_space *space, size_t n, size_t at)
{
    double fraction = (double)(at - space->start) / (double)(space->end - space->start);
    size_t i = hetccl_min_size((size_t)(fraction * (double)n), n - 1);

    while (hetccl_cut(space->start, space->end, n, i, space->granule) > at)
        i--;
    while (hetccl_cut(space->start, space->end, n, i + 1, space->granule) <= at)
        i++;
    return i;
}

void hetccl_sweep_init(struct hetccl_sweep *sweep, const struct hetccl_topo *topo, struct hetccl_sweep *inner)
{
    memset(sweep, 0, sizeof(*sweep));
    sweep->topo = topo;
    sweep->inner = inner;
}

void hetccl_sweep_fini(struct hetccl_sweep *sweep)
{
    hetccl_free(sweep->holders);
    hetccl_free(sweep->members);
    hetccl_free(sweep->holdings);
    memset(sweep, 0, sizeof(*sweep));
}

void hetccl_sweep_begin(struct hetccl_sweep *sweep, struct hetccl_span window, size_t block)
{
    sweep->window = window;
    sweep->block = block;
    sweep->n_members = 0;
    sweep->n_holdings = 0;
    sweep->start = sweep->end = window.start;
}

static void keep_failure(struct hetccl_sweep *sweep, enum hetccl_status status)
{
    if (sweep->status == HETCCL_OK)
        sweep->status = status;
}

static struct hetccl_member *add_member(struct hetccl_sweep *sweep)
{
    struct hetccl_member *member;

    if (sweep->n_members == sweep->member_capacity) {
        uint32_t capacity = sweep->member_capacity > 0 ? 2 * sweep->member_capacity : 8;
        enum hetccl_status status = hetccl_resize(&sweep->members, capacity, sizeof(*sweep->members));

        if (status == HETCCL_OK)
            status = hetccl_resize(&sweep->holders, capacity, sizeof(*sweep->holders));
        if (status != HETCCL_OK) {
            keep_failure(sweep, status);
            return NULL;
        }
        sweep->member_capacity = capacity;
    }
    member = &sweep->members[sweep->n_members++];
    *member = (struct hetccl_member){.first = sweep->n_holdings};
    return member;
}

/* Appends a holding that ends at `end`, clipped to the window; nothing when that leaves none of it. */
static void add_holding(struct hetccl_sweep *sweep, struct hetccl_member *member, size_t end, uint32_t rank)
{
    size_t start = member->n_holdings > 0 ? sweep->holdings[sweep->n_holdings - 1].end : sweep->window.start;

    end = hetccl_min_size(end, sweep->window.end);
    if (end <= start)
        return;
    if (sweep->n_holdings == sweep->holding_capacity) {
        uint32_t capacity = sweep->holding_capacity > 0 ? 2 * sweep->holding_capacity : 32;
        enum hetccl_status status = hetccl_resize(&sweep->holdings, capacity, sizeof(*sweep->holdings));

        if (status != HETCCL_OK) {
            keep_failure(sweep, status);
            return;
        }
        sweep->holding_capacity = capacity;
    }
    sweep->holdings[sweep->n_holdings++] = (struct hetccl_holding){.end = end, .rank = rank};
    member->n_holdings++;
}

static bool is_usable(const struct hetccl_sweep *sweep)
{
    return sweep->status == HETCCL_OK && sweep->window.start < sweep->window.end;
}

void hetccl_sweep_add_island(struct hetccl_sweep *sweep, uint32_t island, const struct hetccl_space *space)
{
    const struct hetccl_island *ranks = &sweep->topo->islands[island];
    struct hetccl_member *member = is_usable(sweep) ? add_member(sweep) : NULL;
    size_t end;

    if (member == NULL)
        return;
    for (size_t i = find_share(space, ranks->n_ranks, sweep->window.start); i < ranks->n_ranks; i++) {
        end = hetccl_cut(space->start, space->end, ranks->n_ranks, i + 1, space->granule);
        add_holding(sweep, member, end, ranks->ranks[i]);
        if (end >= sweep->window.end)
            break;
    }
}

/*
 * The window widened to whole elementary intervals of a domain: a part is a fraction of a whole interval, so
 * a window that starts inside one must not change where its parts lie.
 */
static struct hetccl_span widen(const struct hetccl_topo *topo, const struct hetccl_domain *domain,
                                const struct hetccl_space *space, struct hetccl_span window)
{
    struct hetccl_span wide = {.start = space->start, .end = space->end};

    for (uint32_t i = 0; i < domain->n_islands; i++) {
        size_t n = topo->islands[domain->islands[i]].n_ranks;
        struct hetccl_span first = hetccl_cut_span(space, n, find_share(space, n, window.start));
        struct hetccl_span last = hetccl_cut_span(space, n, find_share(space, n, window.end - 1));

        wide.start = hetccl_max_size(wide.start, first.start);
        wide.end = hetccl_min_size(wide.end, last.end);
    }
    if (space->block > 0) {
        size_t block_end = ((window.end - 1) / space->block + 1) * space->block;

        wide.start = hetccl_max_size(wide.start, window.start / space->block * space->block);
        wide.end = hetccl_min_size(wide.end, block_end);
    }
    return wide;
}

void hetccl_sweep_add_domain(struct hetccl_sweep *sweep, uint32_t domain_index,
                             const struct hetccl_space *space)
{
    const struct hetccl_domain *domain = &sweep->topo->domains[domain_index];
    struct hetccl_sweep *inner = sweep->inner;
    struct hetccl_member *member;

    if (domain->n_islands == 1) {
        hetccl_sweep_add_island(sweep, domain->islands[0], space);
        return;
    }
    member = is_usable(sweep) ? add_member(sweep) : NULL;
    if (member == NULL)
        return;
    hetccl_sweep_begin(inner, widen(sweep->topo, domain, space, sweep->window), space->block);
    for (uint32_t i = 0; i < domain->n_islands; i++)
        hetccl_sweep_add_island(inner, domain->islands[i], space);
    while (hetccl_sweep_next(inner)) {
        for (uint32_t i = 0; i < domain->n_islands; i++) {
            size_t end = hetccl_cut(inner->start, inner->end, domain->n_islands, i + 1, space->granule);

            add_holding(sweep, member, end, inner->holders[i]);
        }
    }
    keep_failure(sweep, inner->status);
}

bool hetccl_sweep_next(struct hetccl_sweep *sweep)
{
    size_t end = sweep->window.end;

    if (sweep->status != HETCCL_OK || sweep->end >= end || sweep->n_members == 0)
        return false;
    sweep->start = sweep->end;
    if (sweep->block > 0)
        end = hetccl_min_size(end, (sweep->start / sweep->block + 1) * sweep->block);
    for (uint32_t i = 0; i < sweep->n_members; i++) {
        struct hetccl_member *member = &sweep->members[i];

        while (sweep->holdings[member->first + member->cursor].end <= sweep->start)
            member->cursor++;
        sweep->holders[i] = sweep->holdings[member->first + member->cursor].rank;
        end = hetccl_min_size(end, sweep->holdings[member->first + member->cursor].end);
    }
    sweep->end = end;
    return true;
}
