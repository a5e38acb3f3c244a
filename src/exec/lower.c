/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/lower.h"

#include "base/memory.h"

/* Pieces are at least this long, and a message has at most so many until they reach the size of a slot: as
 * many as a lane has blocks. Each has to be waited for, which copy engines do slowly. */
enum { LEAST_PIECE_BYTES = 4096, WANTED_PIECES = 16 };

uint32_t hetccl_program_piece_count(size_t count, size_t elem_bytes, size_t slot_bytes)
{
    size_t share = (count * elem_bytes + WANTED_PIECES - 1) / WANTED_PIECES;
    size_t bytes = hetccl_min_size(hetccl_round_up(share, LEAST_PIECE_BYTES), slot_bytes);

    return (uint32_t)(bytes / elem_bytes);
}

/* Room for one more; the array's address as hetccl_resize() wants it. */
static bool reserve(struct hetccl_lowering *l, void *array, uint32_t n_used, uint32_t *cap, size_t item_bytes)
{
    uint32_t wanted = *cap == 0 ? 16 : *cap * 2;

    if (l->status == HETCCL_OK && n_used == *cap) {
        l->status = hetccl_resize(array, wanted, item_bytes);
        if (l->status == HETCCL_OK)
            *cap = wanted;
    }
    return l->status == HETCCL_OK;
}

static uint32_t find_lane(struct hetccl_lowering *l, struct hetccl_draft_lane **lanes, uint32_t *n_lanes,
                          uint32_t *cap, uint32_t peer)
{
    for (uint32_t i = 0; i < *n_lanes; i++)
        if ((*lanes)[i].peer == peer)
            return i;
    if (!reserve(l, lanes, *n_lanes, cap, sizeof(**lanes)))
        return 0;
    (*lanes)[*n_lanes] = (struct hetccl_draft_lane){.peer = peer};
    return (*n_lanes)++;
}

void hetccl_lower_dep(struct hetccl_lowering *l, uint32_t draft)
{
    if (!reserve(l, &l->deps, l->n_deps, &l->cap_deps, sizeof(*l->deps)))
        return;
    l->deps[l->n_deps++] = draft;
    l->drafts[l->n_drafts - 1].op.n_deps++;
}

static void depend_on_step(struct hetccl_lowering *l, uint32_t step)
{
    for (uint32_t draft = l->step_drafts[step]; draft < l->step_drafts[step + 1]; draft++)
        hetccl_lower_dep(l, draft);
}

/* An operation without elements, which is there to be waited for, or to wait: of one piece. */
static struct hetccl_draft *add_mark(struct hetccl_lowering *l, enum hetccl_bridge_kind kind)
{
    struct hetccl_draft *draft;

    if (!reserve(l, &l->drafts, l->n_drafts, &l->cap_drafts, sizeof(*l->drafts)))
        return NULL;
    draft = &l->drafts[l->n_drafts++];
    *draft = (struct hetccl_draft){.op = {.kind = (uint8_t)kind,
                                          .piece_count = 1,
                                          .n_pieces = 1,
                                          .first_dep = l->n_deps,
                                          .first_input = l->n_inputs}};
    return draft;
}

static struct hetccl_draft *add(struct hetccl_lowering *l, enum hetccl_bridge_kind kind, size_t count)
{
    const struct hetccl_program_args *args = l->args;
    struct hetccl_draft *draft;
    uint32_t piece_count;

    if (count == 0 || !reserve(l, &l->drafts, l->n_drafts, &l->cap_drafts, sizeof(*l->drafts)))
        return NULL;
    piece_count = hetccl_program_piece_count(count, args->elem_bytes, args->slot_bytes);
    draft = &l->drafts[l->n_drafts++];
    *draft = (struct hetccl_draft){.time = {2 * l->step->time.round + l->half, l->step->time.place},
                                   .op = {.kind = (uint8_t)kind,
                                          .count = count,
                                          .piece_count = piece_count,
                                          .n_pieces = (uint32_t)((count + piece_count - 1) / piece_count),
                                          .first_dep = l->n_deps,
                                          .first_input = l->n_inputs}};
    for (uint32_t i = 0; i < l->step->n_deps; i++)
        depend_on_step(l, args->plan->deps[l->step->first_dep + i]);
    return l->status == HETCCL_OK ? draft : NULL;
}

static void set_src(struct hetccl_lowering *l, struct hetccl_draft *draft, const struct hetccl_region *src,
                    bool is_raw)
{
    draft->op.src_buffer = (uint8_t)src->buffer;
    draft->op.src_offset = src->offset * l->args->elem_bytes;
    draft->op.is_raw = is_raw;
}

static void set_dst(struct hetccl_lowering *l, struct hetccl_draft *draft, const struct hetccl_region *dst)
{
    draft->op.dst_buffer = (uint8_t)dst->buffer;
    draft->op.dst_offset = dst->offset * l->args->elem_bytes;
}

struct hetccl_draft *hetccl_lower_copy(struct hetccl_lowering *l, const struct hetccl_region *dst,
                                       const struct hetccl_region *src, bool is_raw)
{
    struct hetccl_draft *draft = add(l, HETCCL_BRIDGE_COPY, dst->count);

    if (draft == NULL)
        return NULL;
    set_src(l, draft, src, is_raw);
    set_dst(l, draft, dst);
    return draft;
}

struct hetccl_draft *hetccl_lower_send(struct hetccl_lowering *l, const struct hetccl_region *src,
                                       bool is_raw, uint32_t peer)
{
    struct hetccl_draft *draft = add(l, HETCCL_BRIDGE_SEND, src->count);
    struct hetccl_draft_lane *lane;

    if (draft == NULL)
        return NULL;
    set_src(l, draft, src, is_raw);
    draft->send_lane = find_lane(l, &l->sends, &l->n_sends, &l->cap_sends, peer);
    if (l->status != HETCCL_OK)
        return NULL;
    lane = &l->sends[draft->send_lane];
    draft->op.first_piece = lane->next_piece;
    lane->next_piece += draft->op.n_pieces;
    lane->n_ops++;
    return draft;
}

struct hetccl_draft *hetccl_lower_combine(struct hetccl_lowering *l, const struct hetccl_region *dst)
{
    struct hetccl_draft *draft = add(l, HETCCL_BRIDGE_COMBINE, dst->count);

    if (draft != NULL)
        set_dst(l, draft, dst);
    return draft;
}

static void add_input(struct hetccl_lowering *l, const struct hetccl_bridge_input *input)
{
    struct hetccl_draft *draft = &l->drafts[l->n_drafts - 1];

    if (!reserve(l, &l->inputs, l->n_inputs, &l->cap_inputs, sizeof(*l->inputs)))
        return;
    l->inputs[l->n_inputs++] = *input;
    draft->op.n_inputs++;
    draft->op.is_raw |= input->is_raw != 0;
}

void hetccl_lower_local_input(struct hetccl_lowering *l, const struct hetccl_region *src, bool is_raw)
{
    struct hetccl_bridge_input input = {.offset = src->offset * l->args->elem_bytes,
                                        .lane = HETCCL_BRIDGE_NO_LANE,
                                        .buffer = (uint32_t)src->buffer,
                                        .is_raw = is_raw};

    add_input(l, &input);
}

void hetccl_lower_message_input(struct hetccl_lowering *l, uint32_t peer)
{
    struct hetccl_bridge_input input = {
        .lane = find_lane(l, &l->receives, &l->n_receives, &l->cap_receives, peer)};

    if (l->status != HETCCL_OK)
        return;
    input.first_piece = l->receives[input.lane].next_piece;
    l->receives[input.lane].next_piece += l->drafts[l->n_drafts - 1].op.n_pieces;
    add_input(l, &input);
}

static void lower_combine_step(struct hetccl_lowering *l)
{
    const struct hetccl_plan *plan = l->args->plan;

    if (hetccl_lower_combine(l, &l->step->dst) == NULL)
        return;
    for (uint32_t k = 0; k < l->step->n_inputs; k++) {
        const struct hetccl_input *input = &plan->inputs[l->step->first_input + k];

        if (input->is_message)
            hetccl_lower_message_input(l, input->peer);
        else
            hetccl_lower_local_input(l, &input->region, input->is_raw);
    }
}

static void lower_for_engine(struct hetccl_lowering *l)
{
    struct hetccl_draft *draft = add_mark(l, HETCCL_BRIDGE_ISLAND);

    if (draft == NULL)
        return;
    draft->step = (uint32_t)(l->step - l->args->plan->steps);
    for (uint32_t i = 0; i < l->step->n_deps; i++)
        depend_on_step(l, l->args->plan->deps[l->step->first_dep + i]);
}

/* The kernel puts the counters back at its end, so that must not come before the engine has seen them. */
static void wait_for_engine(struct hetccl_lowering *l)
{
    uint32_t n_drafts = l->n_drafts;

    if (!l->args->has_engine || add_mark(l, HETCCL_BRIDGE_COPY) == NULL)
        return;
    for (uint32_t i = 0; i < n_drafts; i++)
        if (l->drafts[i].op.kind == HETCCL_BRIDGE_ISLAND)
            hetccl_lower_dep(l, i);
}

static void lower_step(struct hetccl_lowering *l)
{
    switch (l->step->kind) {
    case HETCCL_STEP_COPY:
        (void)hetccl_lower_copy(l, &l->step->dst, &l->step->src, l->step->is_raw);
        break;
    case HETCCL_STEP_SEND:
        (void)hetccl_lower_send(l, &l->step->src, false, l->step->peer);
        break;
    case HETCCL_STEP_COMBINE:
        lower_combine_step(l);
        break;
    case HETCCL_STEP_ISLAND:
        if (l->args->has_engine)
            lower_for_engine(l);
        else
            hetccl_lower_island(l);
        break;
    }
}

enum hetccl_status hetccl_lowering_run(struct hetccl_lowering *l)
{
    const struct hetccl_plan *plan = l->args->plan;

    l->status = hetccl_alloc((size_t)plan->n_steps + 1, sizeof(*l->step_drafts), &l->step_drafts);
    for (uint32_t i = 0; i < plan->n_steps && l->status == HETCCL_OK; i++) {
        l->step = &plan->steps[i];
        l->half = 0;
        lower_step(l);
        l->step_drafts[i + 1] = l->n_drafts;
    }
    wait_for_engine(l);
    return l->status;
}

void hetccl_lowering_fini(struct hetccl_lowering *l)
{
    hetccl_free(l->drafts);
    hetccl_free(l->step_drafts);
    hetccl_free(l->inputs);
    hetccl_free(l->deps);
    hetccl_free(l->sends);
    hetccl_free(l->receives);
}
