/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/builder.h"

#include <string.h>

#include "base/memory.h"

enum { MAX_INPUTS = 64 }; /* kernels/kernels.h: HETCCL_REDUCE_MAX_INPUTS, which this layer may not include */

/*
 * Where NCCL's in-place form of a call puts one buffer inside the other: element i of the buffer named second
 * is element i + rank * count of the other.
 */
static void set_aliases(struct hetccl_builder *b, const struct hetccl_plan_request *request)
{
    size_t own_block = request->rank * request->count;

    b->memory_of[HETCCL_BUF_RECV] = HETCCL_BUF_SEND;
    if (request->coll == HETCCL_ALLGATHER || request->coll == HETCCL_GATHER)
        b->shift_of[HETCCL_BUF_SEND] = own_block;
    if (request->coll == HETCCL_REDUCE_SCATTER || request->coll == HETCCL_SCATTER)
        b->shift_of[HETCCL_BUF_RECV] = own_block;
}

enum hetccl_status hetccl_builder_init(struct hetccl_builder *b, const struct hetccl_topo *topo,
                                       uint32_t rank, const struct hetccl_plan_request *request)
{
    enum hetccl_status status;

    memset(b, 0, sizeof(*b));
    status = hetccl_alloc(1, sizeof(*b->plan), &b->plan);
    if (status != HETCCL_OK)
        return status;
    b->topo = topo;
    b->island_rank = topo->island_rank_of[rank];
    b->plan->rank = rank;
    for (int buffer = 0; buffer < HETCCL_BUFS; buffer++)
        b->memory_of[buffer] = (enum hetccl_buffer)buffer;
    if (request != NULL && request->is_in_place)
        set_aliases(b, request);
    return HETCCL_OK;
}

void hetccl_builder_fini(struct hetccl_builder *b)
{
    for (int buffer = 0; buffer < HETCCL_BUFS; buffer++)
        hetccl_hazards_fini(&b->maps[buffer]);
    hetccl_free(b->readers.items);
    hetccl_free(b->found.steps);
    hetccl_free(b->marks);
    hetccl_plan_destroy(b->plan);
    memset(b, 0, sizeof(*b));
}

void hetccl_builder_keep_failure(struct hetccl_builder *b, enum hetccl_status status)
{
    if (b->status == HETCCL_OK)
        b->status = status;
}

enum hetccl_status hetccl_builder_finish(struct hetccl_builder *b, struct hetccl_plan **out)
{
    if (b->status != HETCCL_OK)
        return b->status;
    *out = b->plan;
    b->plan = NULL;
    return HETCCL_OK;
}

void hetccl_builder_need_scratch(struct hetccl_builder *b, size_t count)
{
    b->plan->scratch_count = hetccl_max_size(b->plan->scratch_count, count);
}

/* Room for one more item in an array of the plan; false after a failure. */
static bool reserve(struct hetccl_builder *b, void *array, uint32_t *capacity, uint32_t n_items,
                    size_t item_bytes)
{
    uint32_t wanted = *capacity > 0 ? 2 * *capacity : 32;

    if (b->status != HETCCL_OK)
        return false;
    if (n_items < *capacity)
        return true;
    hetccl_builder_keep_failure(b, hetccl_resize(array, wanted, item_bytes));
    if (b->status != HETCCL_OK)
        return false;
    *capacity = wanted;
    return true;
}

static struct hetccl_step *begin_step(struct hetccl_builder *b, enum hetccl_step_kind kind)
{
    struct hetccl_plan *plan = b->plan;
    struct hetccl_step *step;
    uint32_t old_capacity = b->step_capacity;

    if (!reserve(b, &plan->steps, &b->step_capacity, plan->n_steps, sizeof(*plan->steps)))
        return NULL;
    if (b->step_capacity != old_capacity) {
        hetccl_builder_keep_failure(b, hetccl_resize(&b->marks, b->step_capacity, sizeof(*b->marks)));
        if (b->status != HETCCL_OK)
            return NULL;
    }
    b->marks[plan->n_steps] = HETCCL_NO_STEP;
    step = &plan->steps[plan->n_steps++];
    memset(step, 0, sizeof(*step));
    step->kind = kind;
    step->chunk = b->chunk;
    step->time = b->time;
    step->first_piece = plan->n_pieces;
    step->first_input = plan->n_inputs;
    step->first_dep = plan->n_deps;
    b->found.n_steps = 0;
    return step;
}

static void touch(struct hetccl_builder *b, struct hetccl_region region, bool is_write)
{
    struct hetccl_hazards *map = &b->maps[b->memory_of[region.buffer]];
    size_t start = region.offset + b->shift_of[region.buffer];
    uint32_t step = b->plan->n_steps - 1;

    if (b->status != HETCCL_OK || region.count == 0)
        return;
    hetccl_builder_keep_failure(
        b, is_write ? hetccl_hazards_write(map, &b->readers, start, start + region.count, step, &b->found)
                    : hetccl_hazards_read(map, &b->readers, start, start + region.count, step, &b->found));
}

static void add_deps(struct hetccl_builder *b, uint32_t index)
{
    struct hetccl_plan *plan = b->plan;

    for (uint32_t i = 0; i < b->found.n_steps; i++) {
        uint32_t dep = b->found.steps[i];

        if (dep == index || b->marks[dep] == index)
            continue;
        if (!reserve(b, &plan->deps, &b->dep_capacity, plan->n_deps, sizeof(*plan->deps)))
            return;
        b->marks[dep] = index;
        plan->deps[plan->n_deps++] = dep;
    }
}

/*
 * A dependency that another one waits for itself is implied. Only the direct ones are looked at: this finds
 * the usual triangles and stays cheap.
 */
static void drop_implied_deps(struct hetccl_builder *b, struct hetccl_step *step, uint32_t index)
{
    struct hetccl_plan *plan = b->plan;
    uint32_t n_kept = step->first_dep;

    for (uint32_t i = step->first_dep; i < plan->n_deps; i++) {
        const struct hetccl_step *dep = &plan->steps[plan->deps[i]];

        for (uint32_t j = 0; j < dep->n_deps; j++)
            if (b->marks[plan->deps[dep->first_dep + j]] == index)
                b->marks[plan->deps[dep->first_dep + j]] = HETCCL_NO_STEP;
    }
    for (uint32_t i = step->first_dep; i < plan->n_deps; i++)
        if (b->marks[plan->deps[i]] == index)
            plan->deps[n_kept++] = plan->deps[i];
    plan->n_deps = n_kept;
}

static void end_step(struct hetccl_builder *b)
{
    struct hetccl_plan *plan = b->plan;
    uint32_t index = plan->n_steps - 1;
    struct hetccl_step *step = &plan->steps[index];

    add_deps(b, index);
    if (b->status != HETCCL_OK)
        return;
    if (plan->n_deps - step->first_dep > 1)
        drop_implied_deps(b, step, index);
    step->n_deps = plan->n_deps - step->first_dep;
}

void hetccl_builder_copy(struct hetccl_builder *b, struct hetccl_region dst, struct hetccl_region src,
                         bool is_raw)
{
    struct hetccl_step *step = src.count > 0 ? begin_step(b, HETCCL_STEP_COPY) : NULL;

    if (step == NULL)
        return;
    step->src = src;
    step->dst = dst;
    step->is_raw = is_raw;
    touch(b, src, false);
    touch(b, dst, true);
    end_step(b);
}

void hetccl_builder_send(struct hetccl_builder *b, uint32_t peer, struct hetccl_region src)
{
    struct hetccl_step *step = src.count > 0 ? begin_step(b, HETCCL_STEP_SEND) : NULL;

    if (step == NULL)
        return;
    step->src = src;
    step->peer = peer;
    if (b->topo->island_of[peer] != b->topo->island_of[b->plan->rank])
        b->plan->cross_count += src.count;
    touch(b, src, false);
    end_step(b);
}

static void add_input(struct hetccl_builder *b, const struct hetccl_input *input)
{
    struct hetccl_plan *plan = b->plan;

    if (!reserve(b, &plan->inputs, &b->input_capacity, plan->n_inputs, sizeof(*plan->inputs)))
        return;
    plan->inputs[plan->n_inputs++] = *input;
    if (!input->is_message)
        touch(b, input->region, false);
}

/* One combine step: `first` (may be NULL), then the inputs but for `skipped` (may be NULL). */
static void combine_step(struct hetccl_builder *b, struct hetccl_region dst, const struct hetccl_input *first,
                         const struct hetccl_input *inputs, size_t n_inputs,
                         const struct hetccl_input *skipped)
{
    struct hetccl_step *step = begin_step(b, HETCCL_STEP_COMBINE);

    if (step == NULL)
        return;
    step->dst = dst;
    if (first != NULL)
        add_input(b, first);
    for (size_t i = 0; i < n_inputs; i++)
        if (&inputs[i] != skipped)
            add_input(b, &inputs[i]);
    if (b->status != HETCCL_OK)
        return;
    step->n_inputs = b->plan->n_inputs - step->first_input;
    touch(b, dst, true);
    end_step(b);
}

/* A local input may lie in dst, which the first step of a chain overwrites: it goes first. */
static void combine_chain(struct hetccl_builder *b, struct hetccl_region dst,
                          const struct hetccl_input *inputs, size_t n_inputs)
{
    struct hetccl_input sum = hetccl_input_local(dst, false);
    const struct hetccl_input *first = NULL, *local = NULL;

    for (size_t i = 0; i < n_inputs; i++)
        if (!inputs[i].is_message)
            local = &inputs[i];
    first = local;
    for (size_t n_done = 0; n_done < n_inputs;) {
        size_t n_now = hetccl_min_size(n_inputs - n_done, MAX_INPUTS - 1);

        combine_step(b, dst, first, inputs + n_done, n_now, local);
        n_done += n_now;
        first = &sum;
    }
}

void hetccl_builder_combine(struct hetccl_builder *b, struct hetccl_region dst,
                            const struct hetccl_input *inputs, size_t n_inputs)
{
    if (dst.count == 0)
        return;
    if (n_inputs <= MAX_INPUTS)
        combine_step(b, dst, NULL, inputs, n_inputs, NULL);
    else
        combine_chain(b, dst, inputs, n_inputs);
}

void hetccl_builder_receive(struct hetccl_builder *b, struct hetccl_region dst, uint32_t peer)
{
    struct hetccl_input input = hetccl_input_message(peer, dst.count);

    hetccl_builder_combine(b, dst, &input, 1);
}

void hetccl_builder_island_begin(struct hetccl_builder *b, const struct hetccl_island_step *island)
{
    struct hetccl_step *step = begin_step(b, HETCCL_STEP_ISLAND);

    if (step == NULL)
        return;
    step->op = island->op;
    step->root = island->root;
    step->is_raw = island->is_raw;
    step->src.buffer = island->src;
    step->dst.buffer = island->dst;
}

void hetccl_builder_piece(struct hetccl_builder *b, struct hetccl_piece piece)
{
    struct hetccl_plan *plan = b->plan;

    if (piece.count == 0 ||
        !reserve(b, &plan->pieces, &b->piece_capacity, plan->n_pieces, sizeof(*plan->pieces)))
        return;
    plan->pieces[plan->n_pieces++] = piece;
}

/* What this rank reads (is_write false) or writes of a piece; plan.h has the table. */
static void touch_piece(struct hetccl_builder *b, const struct hetccl_step *step,
                        const struct hetccl_piece *piece, bool is_write)
{
    bool is_mine = piece->owner == b->island_rank, is_root = step->root == b->island_rank;
    struct hetccl_region own = {.offset = piece->own_offset, .count = piece->count};
    struct hetccl_region whole = {.offset = piece->whole_offset, .count = piece->count};

    own.buffer = whole.buffer = is_write ? step->dst.buffer : step->src.buffer;
    switch (step->op) {
    case HETCCL_ISLAND_REDUCE_SCATTER:
        if (!is_write || is_mine)
            touch(b, is_write ? own : whole, is_write);
        break;
    case HETCCL_ISLAND_SCATTER:
        if (is_write ? is_mine : is_root)
            touch(b, is_write ? own : whole, is_write);
        break;
    case HETCCL_ISLAND_ALLGATHER:
        if (is_write || is_mine)
            touch(b, is_write ? whole : own, is_write);
        break;
    case HETCCL_ISLAND_GATHER:
        if (is_write ? is_root : is_mine)
            touch(b, is_write ? whole : own, is_write);
        break;
    case HETCCL_ISLAND_ALLREDUCE:
    case HETCCL_ISLAND_ALLTOALL:
        touch(b, is_write ? whole : own, is_write);
        break;
    }
}

void hetccl_builder_island_end(struct hetccl_builder *b)
{
    struct hetccl_plan *plan = b->plan;
    struct hetccl_step *step;

    if (b->status != HETCCL_OK)
        return;
    step = &plan->steps[plan->n_steps - 1];
    step->n_pieces = plan->n_pieces - step->first_piece;
    if (step->n_pieces == 0) {
        plan->n_steps--;
        return;
    }
    for (int is_write = 0; is_write <= 1; is_write++)
        for (uint32_t i = 0; i < step->n_pieces; i++)
            touch_piece(b, step, &plan->pieces[step->first_piece + i], is_write);
    end_step(b);
}
