/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "plan/fanout.h"

/*
 * Hierarchical reduce, a chunk at a time; the broadcast backwards (fanout.h says how a chunk is shared out):
 *
 *   scatter   reduce-scatter inside each island
 *   up        the islands of each domain but the root's combine
 *   merge     the targets of a fan-out combine: part j at target j, in their order
 *   arrive    each target sends its part to the ranks of the root's island, which combine: own sum,
 * siblings', domains' gather    the root's island gathers at the root
 *
 * Bytes between islands: (p - 1) S. RECV exists at the root only, so all partial sums lie in scratch: of a
 * chunk, my share of every part (of the whole chunk in the root's island). An island of one rank leaves them
 * in SEND as long as nothing has to be combined or scaled before they are sent.
 */

static bool is_lone(const struct hetccl_planner *p)
{
    return p->topo->islands[p->island].n_ranks == 1;
}

/* A lone rank's own elements need no scratch: they are sent as they are, or scaled where they are combined
 * (the root). */
static bool is_direct(const struct hetccl_planner *p, const struct hetccl_rooted *a)
{
    return is_lone(p) && (a->mine == NULL || !p->request->has_scale);
}

/* Parts that this rank holds shares of: those of its fan-out, or the chunk as a whole in the root's island.
 */
static uint32_t part_count(const struct hetccl_rooted *a)
{
    return a->mine != NULL ? a->mine->n_targets : 1;
}

static struct hetccl_space part_of(const struct hetccl_rooted *a, const struct hetccl_space *chunk,
                                   uint32_t j)
{
    return a->mine != NULL ? hetccl_fanout_part(a->mine, chunk, j) : *chunk;
}

static struct hetccl_place scratch_place(const struct hetccl_planner *p, const struct hetccl_rooted *a,
                                         const struct hetccl_space *space, uint32_t chunk, uint32_t j)
{
    struct hetccl_place place = {.buffer = HETCCL_BUF_SCRATCH, .base = chunk % a->ring * a->slot_count};
    struct hetccl_space part;

    for (uint32_t i = 0; i < j; i++) {
        struct hetccl_span share;

        part = part_of(a, space, i);
        share = hetccl_planner_share(p, &part);
        place.base += share.end - share.start;
    }
    part = part_of(a, space, j);
    place.origin = hetccl_planner_share(p, &part).start;
    return place;
}

/* Where the sum of my island of part j lies, of my domain, and of all targets. */
static struct hetccl_place island_place(const struct hetccl_planner *p, const struct hetccl_rooted *a,
                                        const struct hetccl_space *space, uint32_t chunk, uint32_t j)
{
    struct hetccl_place send = {.buffer = HETCCL_BUF_SEND, .is_raw = p->request->has_scale};

    return is_direct(p, a) ? send : scratch_place(p, a, space, chunk, j);
}

static struct hetccl_place group_place(const struct hetccl_planner *p, const struct hetccl_rooted *a,
                                       const struct hetccl_space *space, uint32_t chunk, uint32_t j)
{
    bool is_combined =
        a->mine != NULL && a->mine->level == HETCCL_LEVEL_DOMAIN && p->topo->domains[p->domain].n_islands > 1;

    return is_combined ? scratch_place(p, a, space, chunk, j) : island_place(p, a, space, chunk, j);
}

static struct hetccl_place merged_place(const struct hetccl_planner *p, const struct hetccl_rooted *a,
                                        const struct hetccl_space *space, uint32_t chunk, uint32_t j)
{
    return part_count(a) > 1 ? scratch_place(p, a, space, chunk, j) : group_place(p, a, space, chunk, j);
}

static void scatter(struct hetccl_planner *p, uint32_t chunk, void *algorithm)
{
    const struct hetccl_rooted *a = algorithm;
    struct hetccl_space space = hetccl_rooted_chunk(p, chunk);
    struct hetccl_place send = {.buffer = HETCCL_BUF_SEND};
    struct hetccl_island_step step = {
        .op = HETCCL_ISLAND_REDUCE_SCATTER, .src = HETCCL_BUF_SEND, .dst = HETCCL_BUF_SCRATCH};

    step.is_raw = p->request->has_scale;
    if (is_direct(p, a))
        return;
    if (!is_lone(p))
        hetccl_builder_island_begin(&p->b, &step);
    for (uint32_t j = 0; j < part_count(a); j++) {
        struct hetccl_space part = part_of(a, &space, j);
        struct hetccl_place place = scratch_place(p, a, &space, chunk, j);

        if (is_lone(p))
            hetccl_builder_copy(&p->b, hetccl_place_region(&place, part.start, part.end),
                                hetccl_place_region(&send, part.start, part.end), true);
        else
            hetccl_planner_add_pieces(p, &part, &send, &place);
    }
    if (!is_lone(p))
        hetccl_builder_island_end(&p->b);
}

static void up(struct hetccl_planner *p, uint32_t chunk, void *algorithm)
{
    const struct hetccl_rooted *a = algorithm;
    struct hetccl_space space = hetccl_rooted_chunk(p, chunk);

    if (a->mine == NULL || a->mine->level != HETCCL_LEVEL_DOMAIN)
        return;
    for (uint32_t j = 0; j < part_count(a); j++) {
        struct hetccl_space part = part_of(a, &space, j);
        struct hetccl_place partial = island_place(p, a, &space, chunk, j);
        struct hetccl_place result = group_place(p, a, &space, chunk, j);

        hetccl_domain_up(p, &part, &partial, &result);
    }
}

/* The present interval of part j, which target j combines. */
static void merge_interval(struct hetccl_planner *p, const struct hetccl_rooted *a, uint32_t j,
                           const struct hetccl_place *group, const struct hetccl_place *merged)
{
    size_t start = p->sweep.start, end = p->sweep.end;
    uint32_t own = a->mine->own_target;

    if (p->sweep.holders[own] != p->rank)
        return;
    if (j != own) {
        hetccl_builder_send(&p->b, p->sweep.holders[j], hetccl_place_region(group, start, end));
        return;
    }
    for (uint32_t i = 0; i < p->sweep.n_members; i++)
        p->inputs[i] = i == own ? hetccl_input_local(hetccl_place_region(group, start, end), false)
                                : hetccl_input_message(p->sweep.holders[i], end - start);
    hetccl_builder_combine(&p->b, hetccl_place_region(merged, start, end), p->inputs, p->sweep.n_members);
}

static void merge(struct hetccl_planner *p, uint32_t chunk, void *algorithm)
{
    const struct hetccl_rooted *a = algorithm;
    struct hetccl_space space = hetccl_rooted_chunk(p, chunk);

    if (part_count(a) < 2)
        return;
    for (uint32_t j = 0; j < part_count(a); j++) {
        struct hetccl_space part = part_of(a, &space, j);
        struct hetccl_place group = group_place(p, a, &space, chunk, j);
        struct hetccl_place merged = merged_place(p, a, &space, chunk, j);

        hetccl_sweep_begin(&p->sweep, hetccl_planner_share(p, &part), 0);
        for (uint32_t k = 0; k < a->mine->n_targets; k++)
            hetccl_fanout_add(p, a, a->mine, k, &part);
        while (hetccl_sweep_next(&p->sweep)) {
            p->b.time.place = p->sweep.start;
            merge_interval(p, a, j, &group, &merged);
        }
    }
}

/* One interval on its way to the root's island: part i of the domains, part k of the siblings, where they
 * exist. */
static void arrive_interval(struct hetccl_planner *p, const struct hetccl_rooted *a,
                            const struct hetccl_place *place)
{
    const struct hetccl_island *island = &p->topo->islands[p->island];
    size_t start = p->sweep.start, end = p->sweep.end;
    enum hetccl_buffer buffer = HETCCL_BUF_SCRATCH;
    struct hetccl_region dst;

    if (a->mine != NULL) {
        uint32_t own =
            a->mine->level == HETCCL_LEVEL_DOMAIN && a->fanouts[HETCCL_TO_SIBLINGS].n_targets > 0 ? 2 : 1;

        if (p->sweep.holders[own] == p->rank)
            hetccl_builder_send(&p->b, p->sweep.holders[0], hetccl_place_region(place, start, end));
        return;
    }
    if (p->sweep.holders[0] != p->rank)
        return;
    p->inputs[0] = hetccl_input_local(hetccl_place_region(place, start, end), place->is_raw);
    for (uint32_t i = 1; i < p->sweep.n_members; i++)
        p->inputs[i] = hetccl_input_message(p->sweep.holders[i], end - start);
    dst = hetccl_place_region(place, start, end);
    if (island->n_ranks == 1)
        buffer = HETCCL_BUF_RECV;
    dst.buffer = buffer;
    hetccl_builder_combine(&p->b, dst, p->inputs, p->sweep.n_members);
}

/* The elementary intervals of one part of each fan-out, inside my share of what I hold. */
static void arrive_parts(struct hetccl_planner *p, const struct hetccl_rooted *a,
                         const struct hetccl_space *chunk, const struct hetccl_place *place,
                         const uint32_t *targets)
{
    struct hetccl_space own = part_of(a, chunk, a->mine != NULL ? a->mine->own_target : 0),
                        parts[HETCCL_FANOUTS];
    struct hetccl_span window = hetccl_planner_share(p, &own);

    for (int f = 0; f < HETCCL_FANOUTS; f++) {
        if (a->fanouts[f].n_targets == 0)
            continue;
        parts[f] = hetccl_fanout_part(&a->fanouts[f], chunk, targets[f]);
        window = hetccl_span_meet(window, (struct hetccl_span){parts[f].start, parts[f].end});
    }
    hetccl_sweep_begin(&p->sweep, window, 0);
    hetccl_sweep_add_island(&p->sweep, a->root_island, chunk);
    for (int f = 0; f < HETCCL_FANOUTS; f++)
        if (a->fanouts[f].n_targets > 0)
            hetccl_fanout_add(p, a, &a->fanouts[f], targets[f], &parts[f]);
    while (hetccl_sweep_next(&p->sweep)) {
        p->b.time.place = p->sweep.start;
        arrive_interval(p, a, place);
    }
}

static void arrive(struct hetccl_planner *p, uint32_t chunk, void *algorithm)
{
    const struct hetccl_rooted *a = algorithm;
    const struct hetccl_fanout *siblings = &a->fanouts[HETCCL_TO_SIBLINGS],
                               *domains = &a->fanouts[HETCCL_TO_DOMAINS];
    struct hetccl_space space = hetccl_rooted_chunk(p, chunk);
    struct hetccl_place place;
    uint32_t targets[HETCCL_FANOUTS] = {0, 0};

    place = merged_place(p, a, &space, chunk, a->mine != NULL ? a->mine->own_target : 0);
    for (uint32_t i = 0; i < domains->n_targets || i == 0; i++) {
        for (uint32_t k = 0; k < siblings->n_targets || k == 0; k++) {
            targets[HETCCL_TO_DOMAINS] = i;
            targets[HETCCL_TO_SIBLINGS] = k;
            if (a->mine == NULL || targets[a->mine->level == HETCCL_LEVEL_DOMAIN] == a->mine->own_target)
                arrive_parts(p, a, &space, &place, targets);
        }
    }
}

static void gather(struct hetccl_planner *p, uint32_t chunk, void *algorithm)
{
    const struct hetccl_rooted *a = algorithm;
    struct hetccl_space space = hetccl_rooted_chunk(p, chunk);
    struct hetccl_place whole = {.buffer = HETCCL_BUF_RECV};
    struct hetccl_place place = scratch_place(p, a, &space, chunk, 0);
    struct hetccl_island_step step = {
        .op = HETCCL_ISLAND_GATHER, .src = HETCCL_BUF_SCRATCH, .dst = HETCCL_BUF_RECV};

    if (a->mine != NULL || is_lone(p))
        return;
    step.root = p->topo->island_rank_of[p->request->root];
    hetccl_builder_island_begin(&p->b, &step);
    hetccl_planner_add_pieces(p, &space, &whole, &place);
    hetccl_builder_island_end(&p->b);
}

static size_t scratch_of_chunk(struct hetccl_planner *p, const struct hetccl_rooted *a, uint32_t chunk)
{
    struct hetccl_space space = hetccl_rooted_chunk(p, chunk);
    size_t count = 0;

    for (uint32_t j = 0; j < part_count(a); j++) {
        struct hetccl_space part = part_of(a, &space, j);
        struct hetccl_span share = hetccl_planner_share(p, &part);

        count += share.end - share.start;
    }
    return count;
}

void hetccl_plan_hier_reduce(struct hetccl_planner *p)
{
    struct hetccl_rooted a;
    hetccl_phase *phases[5] = {scatter};
    uint32_t n_phases = 1;

    hetccl_rooted_init(&a, p);
    if (p->has_domain_phases)
        phases[n_phases++] = up;
    if (a.is_forwarding)
        phases[n_phases++] = merge;
    phases[n_phases++] = arrive;
    phases[n_phases++] = gather;
    a.ring = n_phases + 1;
    for (uint32_t chunk = 0; chunk < p->n_chunks; chunk++)
        a.slot_count = hetccl_max_size(a.slot_count, scratch_of_chunk(p, &a, chunk));
    a.slot_count = (a.slot_count + p->granule - 1) / p->granule * p->granule;
    if (!is_direct(p, &a) || (a.mine != NULL && (p->has_domain_phases || a.is_forwarding)))
        hetccl_builder_need_scratch(&p->b, a.slot_count * hetccl_min_size(a.ring, p->n_chunks));
    hetccl_planner_run(p, phases, n_phases, &a);
}
