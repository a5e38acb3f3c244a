/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "plan/planner.h"

/*
 * Hierarchical all-reduce, a chunk at a time:
 *
 *   scatter        reduce-scatter inside each island: each rank holds its share of the island's sum
 *   domain up      the islands of a domain combine their shares, each part at one holder
 *   top            two domains (or islands): both send their sum and combine in the same order, so both have
 * the result; three and more: each owns 1/p of every interval, combines it, and sends it to the others domain
 * down, gather   the way back
 *
 * Bytes between islands: 2 (p - 1) S in all. Rounding: one combine a level and element, in island or domain
 * order.
 *
 * Where partial sums lie: in RECV, at their final position, except when both sides of an exchange still have
 * to send what they combine: the message must not wait for the result nor the result for the message, so
 * there they lie in scratch. An island of one rank needs neither as long as SEND can be sent as it is.
 */

struct allreduce {
    bool is_exchange, has_domain_phase; /* the latter: for this rank */
    uint32_t ring;                      /* chunks that have scratch at a time */
    size_t slot_count;
};

static size_t largest_share(struct hetccl_planner *p)
{
    size_t largest = 0;

    for (uint32_t chunk = 0; chunk < p->n_chunks; chunk++) {
        struct hetccl_span span = hetccl_planner_chunk(p, chunk);
        struct hetccl_space space = hetccl_planner_space(p, span.start, span.end);
        struct hetccl_span share = hetccl_planner_share(p, &space);

        largest = hetccl_max_size(largest, share.end - share.start);
    }
    return (largest + p->granule - 1) / p->granule * p->granule;
}

static struct hetccl_space chunk_space(const struct hetccl_planner *p, uint32_t chunk)
{
    struct hetccl_span span = hetccl_planner_chunk(p, chunk);

    return hetccl_planner_space(p, span.start, span.end);
}

static struct hetccl_place work_place(const struct hetccl_planner *p, const struct allreduce *a,
                                      uint32_t chunk)
{
    struct hetccl_space space = chunk_space(p, chunk);

    if (!a->is_exchange)
        return (struct hetccl_place){.buffer = HETCCL_BUF_RECV};
    return (struct hetccl_place){
        .buffer = HETCCL_BUF_SCRATCH,
        .origin = hetccl_planner_share(p, &space).start,
        .base = chunk % a->ring * a->slot_count,
    };
}

/* May SEND itself serve as this rank's partial sum? */
static bool is_direct(const struct hetccl_planner *p, const struct allreduce *a)
{
    if (p->topo->islands[p->island].n_ranks > 1 || p->request->has_scale)
        return false;
    return !p->request->is_in_place || !a->is_exchange || a->has_domain_phase;
}

static struct hetccl_place island_place(const struct hetccl_planner *p, const struct allreduce *a,
                                        uint32_t chunk)
{
    return is_direct(p, a) ? (struct hetccl_place){.buffer = HETCCL_BUF_SEND} : work_place(p, a, chunk);
}

static struct hetccl_place domain_place(const struct hetccl_planner *p, const struct allreduce *a,
                                        uint32_t chunk)
{
    return a->has_domain_phase ? work_place(p, a, chunk) : island_place(p, a, chunk);
}

static void scatter(struct hetccl_planner *p, uint32_t chunk, void *algorithm)
{
    const struct allreduce *a = algorithm;
    const struct hetccl_island *island = &p->topo->islands[p->island];
    struct hetccl_space space = chunk_space(p, chunk);
    struct hetccl_span share = hetccl_planner_share(p, &space);
    struct hetccl_place whole = {.buffer = HETCCL_BUF_SEND}, place = island_place(p, a, chunk);
    struct hetccl_region mine = hetccl_place_region(&place, share.start, share.end);
    struct hetccl_island_step step = {
        .op = HETCCL_ISLAND_REDUCE_SCATTER, .src = HETCCL_BUF_SEND, .dst = place.buffer};

    step.is_raw = p->request->has_scale;
    if (is_direct(p, a))
        return;
    if (island->n_ranks == 1) {
        hetccl_builder_copy(&p->b, mine, hetccl_region_of(HETCCL_BUF_SEND, share.start, mine.count),
                            step.is_raw);
        return;
    }
    hetccl_builder_island_begin(&p->b, &step);
    hetccl_planner_add_pieces(p, &space, &whole, &place);
    hetccl_builder_island_end(&p->b);
}

static void domain_up(struct hetccl_planner *p, uint32_t chunk, void *algorithm)
{
    struct hetccl_space space = chunk_space(p, chunk);
    struct hetccl_place partial = island_place(p, algorithm, chunk),
                        result = domain_place(p, algorithm, chunk);

    hetccl_domain_up(p, &space, &partial, &result);
}

static void begin_top_sweep(struct hetccl_planner *p, const struct hetccl_space *space,
                            struct hetccl_span part)
{
    hetccl_sweep_begin(&p->sweep, part, 0);
    for (uint32_t top = 0; top < p->n_tops; top++)
        hetccl_planner_add_group(p, p->top_level, top, space);
}

/* dst of the present interval's [start, end) out of everybody's partial sum, in the order of the groups. */
static void combine_tops(struct hetccl_planner *p, size_t start, size_t end,
                         const struct hetccl_place *partial)
{
    for (uint32_t top = 0; top < p->n_tops; top++) {
        if (top == p->my_top)
            p->inputs[top] = hetccl_input_local(hetccl_place_region(partial, start, end), false);
        else
            p->inputs[top] = hetccl_input_message(p->sweep.holders[top], end - start);
    }
    hetccl_builder_combine(&p->b, hetccl_region_of(HETCCL_BUF_RECV, start, end - start), p->inputs,
                           p->n_tops);
}

static struct hetccl_span top_part(const struct hetccl_planner *p, uint32_t top)
{
    struct hetccl_space interval = hetccl_planner_space(p, p->sweep.start, p->sweep.end);

    return hetccl_cut_span(&interval, p->n_tops, top);
}

/* What of the present interval a group combines. */
static struct hetccl_span reduced_part(const struct hetccl_planner *p, bool is_exchange, uint32_t top)
{
    return is_exchange ? (struct hetccl_span){p->sweep.start, p->sweep.end} : top_part(p, top);
}

/* Messages first: they leave while this rank waits for those of the others. */
static void reduce_interval(struct hetccl_planner *p, bool is_exchange, const struct hetccl_place *partial)
{
    struct hetccl_span mine = reduced_part(p, is_exchange, p->my_top);

    for (uint32_t top = 0; top < p->n_tops; top++) {
        struct hetccl_span span = reduced_part(p, is_exchange, top);

        if (top != p->my_top)
            hetccl_builder_send(&p->b, p->sweep.holders[top],
                                hetccl_place_region(partial, span.start, span.end));
    }
    if (mine.start < mine.end)
        combine_tops(p, mine.start, mine.end, partial);
}

static void top_reduce(struct hetccl_planner *p, uint32_t chunk, void *algorithm)
{
    const struct allreduce *a = algorithm;
    struct hetccl_space space = chunk_space(p, chunk);
    struct hetccl_place partial = domain_place(p, a, chunk);

    hetccl_planner_find_parts(p, p->top_level, &space);
    for (uint32_t i = 0; i < p->n_parts; i++) {
        begin_top_sweep(p, &space, p->parts[i]);
        while (hetccl_sweep_next(&p->sweep)) {
            p->b.time.place = p->sweep.start;
            reduce_interval(p, a->is_exchange, &partial);
        }
    }
}

static void spread_interval(struct hetccl_planner *p)
{
    struct hetccl_span mine = top_part(p, p->my_top);

    for (uint32_t top = 0; top < p->n_tops; top++) {
        struct hetccl_span theirs = top_part(p, top);

        if (top == p->my_top)
            continue;
        hetccl_builder_send(&p->b, p->sweep.holders[top],
                            hetccl_region_of(HETCCL_BUF_RECV, mine.start, mine.end - mine.start));
        hetccl_builder_receive(&p->b,
                               hetccl_region_of(HETCCL_BUF_RECV, theirs.start, theirs.end - theirs.start),
                               p->sweep.holders[top]);
    }
}

static void top_spread(struct hetccl_planner *p, uint32_t chunk, void *algorithm)
{
    struct hetccl_space space = chunk_space(p, chunk);

    hetccl_planner_find_parts(p, p->top_level, &space);
    for (uint32_t i = 0; i < p->n_parts; i++) {
        begin_top_sweep(p, &space, p->parts[i]);
        while (hetccl_sweep_next(&p->sweep))
            spread_interval(p);
    }
}

static void domain_down(struct hetccl_planner *p, uint32_t chunk, void *algorithm)
{
    struct hetccl_space space = chunk_space(p, chunk);
    struct hetccl_place place = {.buffer = HETCCL_BUF_RECV};

    hetccl_domain_down(p, &space, &place);
}

static void gather(struct hetccl_planner *p, uint32_t chunk, void *algorithm)
{
    struct hetccl_space space = chunk_space(p, chunk);
    struct hetccl_place place = {.buffer = HETCCL_BUF_RECV};
    struct hetccl_island_step step = {
        .op = HETCCL_ISLAND_ALLGATHER, .src = HETCCL_BUF_RECV, .dst = HETCCL_BUF_RECV};

    if (p->topo->islands[p->island].n_ranks == 1)
        return;
    hetccl_builder_island_begin(&p->b, &step);
    hetccl_planner_add_pieces(p, &space, &place, &place);
    hetccl_builder_island_end(&p->b);
}

void hetccl_plan_hier_allreduce(struct hetccl_planner *p)
{
    struct allreduce a = {.is_exchange = p->n_tops == 2};
    hetccl_phase *phases[6] = {scatter};
    uint32_t n_phases = 1;

    a.has_domain_phase = p->topo->n_domains > 1 && p->topo->domains[p->domain].n_islands > 1;
    if (p->has_domain_phases)
        phases[n_phases++] = domain_up;
    phases[n_phases++] = top_reduce;
    a.ring = n_phases + 1; /* the top is the last reader of scratch; one more chunk may run ahead */
    if (!a.is_exchange)
        phases[n_phases++] = top_spread;
    if (p->has_domain_phases)
        phases[n_phases++] = domain_down;
    phases[n_phases++] = gather;
    a.slot_count = largest_share(p);
    if (a.is_exchange && (a.has_domain_phase || !is_direct(p, &a)))
        hetccl_builder_need_scratch(&p->b, a.slot_count * hetccl_min_size(a.ring, p->n_chunks));
    hetccl_planner_run(p, phases, n_phases, &a);
}
