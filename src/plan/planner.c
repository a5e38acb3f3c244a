/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/planner.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

enum { LINE_BYTES = 64, MAX_CHUNK_ISLANDS = 2048, MAX_CHUNK_PIECES = 32768 };

static uint32_t index_in_domain(const struct hetccl_topo *topo, uint32_t island)
{
    const struct hetccl_domain *domain = &topo->domains[topo->islands[island].domain];
    uint32_t index = 0;

    while (domain->islands[index] != island)
        index++;
    return index;
}

static bool has_shared_domain(const struct hetccl_topo *topo)
{
    for (uint32_t d = 0; d < topo->n_domains; d++)
        if (topo->domains[d].n_islands > 1)
            return true;
    return false;
}

/*
 * How many ranks of the largest island share a chunk: a chunk is so large that what one of them carries of it
 * is about chunk_bytes. All-gather and reduce-scatter move a chunk of every rank's block at once.
 */
static double share_count(enum hetccl_coll coll, double n_ranks, double largest_island)
{
    switch (coll) {
    case HETCCL_ALLREDUCE:
    case HETCCL_BROADCAST:
    case HETCCL_REDUCE:
        return largest_island;
    case HETCCL_ALLGATHER:
    case HETCCL_REDUCE_SCATTER:
        return largest_island / n_ranks;
    default:
        return 1;
    }
}

/* Steps and pieces of a chunk grow with islands and ranks: huge communicators get fewer chunks, so that plans
 * stay small. */
static size_t chunk_limit(const struct hetccl_topo *topo, enum hetccl_coll coll)
{
    size_t n_islands = topo->n_islands, limit;

    if (coll == HETCCL_ALLREDUCE)
        limit = MAX_CHUNK_ISLANDS / n_islands;
    else
        limit = MAX_CHUNK_PIECES / (topo->n_ranks + n_islands * n_islands);
    return hetccl_max_size(hetccl_min_size(limit, HETCCL_MAX_CHUNKS), 1);
}

uint32_t hetccl_plan_chunk_count(const struct hetccl_topo *topo, const struct hetccl_plan_request *request)
{
    double bytes = (double)request->count * (double)request->elem_bytes, n_chunks;
    size_t limit = hetccl_min_size(chunk_limit(topo, request->coll), hetccl_max_size(request->count, 1));
    uint32_t largest = 1;

    for (uint32_t i = 0; i < topo->n_islands; i++)
        largest = topo->islands[i].n_ranks > largest ? topo->islands[i].n_ranks : largest;
    n_chunks = bytes / (double)hetccl_max_size(request->chunk_bytes, 1);
    n_chunks /= share_count(request->coll, topo->n_ranks, largest);
    return n_chunks < (double)limit ? (uint32_t)hetccl_max_size((size_t)ceil(n_chunks), 1) : (uint32_t)limit;
}

static enum hetccl_status allocate(struct hetccl_planner *p)
{
    enum hetccl_status status = hetccl_alloc(p->topo->n_ranks, sizeof(*p->inputs), &p->inputs);

    if (status != HETCCL_OK)
        return status;
    status = hetccl_alloc(2 * (size_t)p->topo->n_ranks, sizeof(*p->order), &p->order);
    if (status != HETCCL_OK)
        goto undo_inputs;
    status = hetccl_builder_init(&p->b, p->topo, p->rank, p->request);
    if (status != HETCCL_OK)
        goto undo_order;
    return HETCCL_OK;
undo_order:
    hetccl_free(p->order);
undo_inputs:
    hetccl_free(p->inputs);
    return status;
}

enum hetccl_status hetccl_planner_init(struct hetccl_planner *p, const struct hetccl_topo *topo,
                                       const struct hetccl_plan_request *request)
{
    memset(p, 0, sizeof(*p));
    p->topo = topo;
    p->request = request;
    p->rank = request->rank;
    p->island = topo->island_of[p->rank];
    p->island_rank = topo->island_rank_of[p->rank];
    p->domain = topo->islands[p->island].domain;
    p->my_island_in_domain = index_in_domain(topo, p->island);
    p->top_level = topo->n_domains > 1 ? HETCCL_LEVEL_DOMAIN : HETCCL_LEVEL_ISLAND;
    p->n_tops = topo->n_domains > 1 ? topo->n_domains : topo->n_islands;
    p->my_top = topo->n_domains > 1 ? p->domain : p->island;
    p->has_domain_phases = topo->n_domains > 1 && has_shared_domain(topo);
    p->granule = request->elem_bytes < LINE_BYTES ? LINE_BYTES / request->elem_bytes : 1;
    p->n_chunks = hetccl_plan_chunk_count(topo, request);
    hetccl_sweep_init(&p->domain_sweep, topo, NULL);
    hetccl_sweep_init(&p->sweep, topo, &p->domain_sweep);
    return allocate(p);
}

void hetccl_planner_fini(struct hetccl_planner *p)
{
    hetccl_builder_fini(&p->b);
    hetccl_sweep_fini(&p->sweep);
    hetccl_sweep_fini(&p->domain_sweep);
    hetccl_free(p->parts);
    hetccl_free(p->inputs);
    hetccl_free(p->order);
}

struct hetccl_span hetccl_planner_chunk(const struct hetccl_planner *p, uint32_t chunk)
{
    struct hetccl_space space = hetccl_planner_space(p, 0, p->request->count);

    return hetccl_cut_span(&space, p->n_chunks, chunk);
}

void hetccl_planner_run(struct hetccl_planner *p, hetccl_phase *const *phases, uint32_t n_phases,
                        void *algorithm)
{
    p->b.plan->n_chunks = p->n_chunks;
    for (uint32_t slot = 0; slot < p->n_chunks + n_phases; slot++) {
        for (uint32_t phase = 0; phase < n_phases && phase <= slot; phase++) {
            if (slot - phase >= p->n_chunks)
                continue;
            p->b.chunk = slot - phase;
            p->b.time = (struct hetccl_step_time){.round = 2 * (slot * n_phases + phase)};
            phases[phase](p, slot - phase, algorithm);
        }
    }
    hetccl_builder_keep_failure(&p->b, p->sweep.status);
    hetccl_builder_keep_failure(&p->b, p->domain_sweep.status);
}

static void fill_order(struct hetccl_planner *p)
{
    uint32_t n_ranks = p->topo->n_ranks, position = 0;

    for (uint32_t d = 0; d < p->topo->n_domains; d++) {
        for (uint32_t i = 0; i < p->topo->domains[d].n_islands; i++) {
            const struct hetccl_island *island = &p->topo->islands[p->topo->domains[d].islands[i]];

            for (uint32_t j = 0; j < island->n_ranks; j++) {
                p->order[position] = island->ranks[j];
                p->order[n_ranks + island->ranks[j]] = position++;
            }
        }
    }
}

struct hetccl_blocks hetccl_planner_blocks(struct hetccl_planner *p, uint32_t chunk)
{
    struct hetccl_span span = hetccl_planner_chunk(p, chunk);

    if (p->order[0] == p->order[1]) /* only before it is filled does it name one rank twice */
        fill_order(p);
    return (struct hetccl_blocks){
        .rank_at = p->order,
        .position_of = p->order + p->topo->n_ranks,
        .stride = p->request->count,
        .first = span.start,
        .length = span.end - span.start,
    };
}

struct hetccl_space hetccl_planner_space(const struct hetccl_planner *p, size_t start, size_t end)
{
    return (struct hetccl_space){.start = start, .end = end, .granule = p->granule};
}

static struct hetccl_space blocks_space(const struct hetccl_planner *p, const struct hetccl_blocks *blocks,
                                        size_t first_position, size_t n_ranks)
{
    return (struct hetccl_space){
        .start = first_position * blocks->length,
        .end = (first_position + n_ranks) * blocks->length,
        .granule = blocks->length % p->granule == 0 ? p->granule : 1,
        .block = blocks->length,
    };
}

struct hetccl_space hetccl_planner_island_space(const struct hetccl_planner *p,
                                                const struct hetccl_blocks *blocks, uint32_t island)
{
    const struct hetccl_island *ranks = &p->topo->islands[island];

    return blocks_space(p, blocks, blocks->position_of[ranks->ranks[0]], ranks->n_ranks);
}

struct hetccl_space hetccl_planner_domain_space(const struct hetccl_planner *p,
                                                const struct hetccl_blocks *blocks, uint32_t domain)
{
    const struct hetccl_domain *islands = &p->topo->domains[domain];
    const struct hetccl_island *last = &p->topo->islands[islands->islands[islands->n_islands - 1]];
    size_t first = blocks->position_of[p->topo->islands[islands->islands[0]].ranks[0]];

    return blocks_space(p, blocks, first, blocks->position_of[last->ranks[0]] + last->n_ranks - first);
}

struct hetccl_span hetccl_planner_share(const struct hetccl_planner *p, const struct hetccl_space *space)
{
    return hetccl_cut_span(space, p->topo->islands[p->island].n_ranks, p->island_rank);
}

static void add_part(struct hetccl_planner *p, size_t start, size_t end)
{
    if (p->n_parts == p->part_capacity) {
        uint32_t capacity = p->part_capacity > 0 ? 2 * p->part_capacity : 16;
        enum hetccl_status status = hetccl_resize(&p->parts, capacity, sizeof(*p->parts));

        if (status != HETCCL_OK) {
            hetccl_builder_keep_failure(&p->b, status);
            return;
        }
        p->part_capacity = capacity;
    }
    p->parts[p->n_parts++] = (struct hetccl_span){.start = start, .end = end};
}

void hetccl_planner_find_parts(struct hetccl_planner *p, enum hetccl_level level,
                               const struct hetccl_space *space)
{
    p->n_parts = 0;
    hetccl_sweep_begin(&p->sweep, hetccl_planner_share(p, space), space->block);
    hetccl_planner_add_group(p, level, level == HETCCL_LEVEL_DOMAIN ? p->domain : p->island, space);
    while (hetccl_sweep_next(&p->sweep))
        if (p->sweep.holders[0] == p->rank)
            add_part(p, p->sweep.start, p->sweep.end);
}

uint32_t hetccl_planner_foreign_count(const struct hetccl_planner *p)
{
    return p->topo->n_domains - 1 + p->topo->domains[p->domain].n_islands - 1;
}

struct hetccl_foreign hetccl_planner_foreign(const struct hetccl_planner *p,
                                             const struct hetccl_blocks *blocks, uint32_t number)
{
    struct hetccl_foreign foreign = {.level = HETCCL_LEVEL_ISLAND};
    uint32_t n_domains = p->topo->n_domains - 1;

    if (number < n_domains) {
        foreign.level = HETCCL_LEVEL_DOMAIN;
        foreign.space = hetccl_planner_domain_space(p, blocks, number + (number >= p->domain));
    } else {
        number -= n_domains;
        number += number >= p->my_island_in_domain;
        foreign.space = hetccl_planner_island_space(p, blocks, p->topo->domains[p->domain].islands[number]);
    }
    return foreign;
}

void hetccl_planner_add_pieces(struct hetccl_planner *p, const struct hetccl_space *space,
                               const struct hetccl_place *whole, const struct hetccl_place *own)
{
    hetccl_sweep_begin(&p->sweep, (struct hetccl_span){space->start, space->end}, space->block);
    hetccl_sweep_add_island(&p->sweep, p->island, space);
    while (hetccl_sweep_next(&p->sweep)) {
        uint32_t holder = p->sweep.holders[0];
        struct hetccl_piece piece = {.owner = p->topo->island_rank_of[holder],
                                     .count = p->sweep.end - p->sweep.start};

        piece.whole_offset = hetccl_place_region(whole, p->sweep.start, p->sweep.end).offset;
        if (holder == p->rank)
            piece.own_offset = hetccl_place_region(own, p->sweep.start, p->sweep.end).offset;
        hetccl_builder_piece(&p->b, piece);
    }
}

struct hetccl_region hetccl_place_region(const struct hetccl_place *place, size_t start, size_t end)
{
    const struct hetccl_blocks *blocks = place->blocks;
    size_t offset;

    if (blocks == NULL)
        offset = start - place->origin + place->base;
    else
        offset =
            blocks->rank_at[start / blocks->length] * blocks->stride + blocks->first + start % blocks->length;
    return hetccl_region_of(place->buffer, offset, end - start);
}

void hetccl_planner_add_group(struct hetccl_planner *p, enum hetccl_level level, uint32_t index,
                              const struct hetccl_space *space)
{
    if (level == HETCCL_LEVEL_DOMAIN)
        hetccl_sweep_add_domain(&p->sweep, index, space);
    else
        hetccl_sweep_add_island(&p->sweep, index, space);
}
