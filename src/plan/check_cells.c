/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "plan/check_state.h"

static const char *const kind_names[] = {"copy", "island", "send", "combine"};
static const char *const buffer_names[HETCCL_BUFS] = {"send", "recv", "scratch"};

enum hetccl_status hetccl_check_fault(const struct hetccl_run_step *step, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return hetccl_fail_quietly(HETCCL_ERR_INTERNAL, "rank %u step %u (%s): %s", step->rank, step->index,
                               kind_names[step->step->kind], text);
}

/* The cells of a region, or a fault when it leaves its buffer. */
static enum hetccl_status find_cells(struct hetccl_check *c, const struct hetccl_run_step *step,
                                     struct hetccl_region region, struct hetccl_cell **out)
{
    const struct hetccl_cells *buffer = &c->buffers[step->rank][region.buffer];

    if (region.count == 0)
        return hetccl_check_fault(step, "an empty region of %s", buffer_names[region.buffer]);
    if (region.offset > buffer->count || region.count > buffer->count - region.offset)
        return hetccl_check_fault(step, "elements %zu + %zu leave %s of %zu", region.offset, region.count,
                                  buffer_names[region.buffer], buffer->count);
    *out = buffer->cells + region.offset;
    return HETCCL_OK;
}

static enum hetccl_status check_raw_flag(struct hetccl_check *c, const struct hetccl_run_step *step,
                                         bool is_raw)
{
    if (is_raw && !(c->has_scale && c->is_reduction))
        return hetccl_check_fault(step, "marked raw in a call without scale");
    return HETCCL_OK;
}

/* A cell as it enters a step: written, and scaled if the step scales it. */
static enum hetccl_status take(const struct hetccl_run_step *step, struct hetccl_cell *cell, bool is_raw,
                               size_t index)
{
    if (cell->ranks == 0)
        return hetccl_check_fault(step, "element %zu of a source was never written", index);
    if (!is_raw)
        return HETCCL_OK;
    if (!(cell->id & HETCCL_CELL_RAW))
        return hetccl_check_fault(step, "element %zu of a source is scaled twice", index);
    cell->id &= ~HETCCL_CELL_RAW;
    return HETCCL_OK;
}

/* sum += addend, cell by cell; with is_first, sum = addend. is_sum: there will be or was more than one. */
static enum hetccl_status add(struct hetccl_check *c, const struct hetccl_run_step *step,
                              const struct hetccl_cell *addend, size_t count, bool is_raw, bool is_first,
                              bool is_sum)
{
    for (size_t i = 0; i < count; i++) {
        struct hetccl_cell cell = addend[i];
        enum hetccl_status status = take(step, &cell, is_raw, i);

        if (status != HETCCL_OK)
            return status;
        if (is_sum && !c->is_reduction)
            return hetccl_check_fault(step, "combines in a call that reduces nothing");
        if (is_sum && (cell.id & HETCCL_CELL_RAW))
            return hetccl_check_fault(step, "element %zu is combined before it is scaled", i);
        if (is_first) {
            c->sum[i] = cell;
            continue;
        }
        if (c->sum[i].id != cell.id)
            return hetccl_check_fault(step, "combines element %" PRIu64 " with element %" PRIu64,
                                      c->sum[i].id, cell.id);
        if (c->sum[i].ranks & cell.ranks)
            return hetccl_check_fault(
                step, "element %zu would hold a contribution twice (%#" PRIx64 ", %#" PRIx64 ")", i,
                c->sum[i].ranks, cell.ranks);
        c->sum[i].ranks |= cell.ranks;
    }
    return HETCCL_OK;
}

enum hetccl_status hetccl_check_do_copy(struct hetccl_check *c, const struct hetccl_run_step *step)
{
    struct hetccl_cell *src = NULL, *dst = NULL;
    enum hetccl_status status = find_cells(c, step, step->step->src, &src);

    if (status == HETCCL_OK)
        status = find_cells(c, step, step->step->dst, &dst);
    if (status == HETCCL_OK)
        status = check_raw_flag(c, step, step->step->is_raw);
    if (status == HETCCL_OK && step->step->src.count != step->step->dst.count)
        status = hetccl_check_fault(step, "copies %zu elements to %zu", step->step->src.count,
                                    step->step->dst.count);
    if (status == HETCCL_OK)
        status = add(c, step, src, step->step->src.count, step->step->is_raw, true, false);
    if (status == HETCCL_OK)
        memcpy(dst, c->sum, step->step->src.count * sizeof(*dst));
    return status;
}

enum hetccl_status hetccl_check_do_send(struct hetccl_check *c, const struct hetccl_run_step *step)
{
    struct hetccl_cell *src = NULL;
    enum hetccl_status status = find_cells(c, step, step->step->src, &src);

    if (status == HETCCL_OK && c->mode == HETCCL_CHECK_LOOSE)
        memcpy(c->messages + step->message_offset, src, step->step->src.count * sizeof(*src));
    return status;
}

static enum hetccl_status find_input(struct hetccl_check *c, const struct hetccl_run_step *step,
                                     uint32_t number, struct hetccl_cell **out)
{
    const struct hetccl_input *input = &c->plans[step->rank]->inputs[number];
    const struct hetccl_run_step *send;

    if (input->region.count != step->step->dst.count)
        return hetccl_check_fault(step, "an input of %zu elements for a result of %zu", input->region.count,
                                  step->step->dst.count);
    if (!input->is_message)
        return find_cells(c, step, input->region, out);
    send = &c->steps[c->input_sends[c->first_inputs[step->rank] + number]];
    if (c->mode != HETCCL_CHECK_LOOSE)
        return find_cells(c, send, send->step->src, out);
    *out = c->messages + send->message_offset;
    return HETCCL_OK;
}

enum hetccl_status hetccl_check_do_combine(struct hetccl_check *c, const struct hetccl_run_step *step)
{
    const struct hetccl_step *combine = step->step;
    struct hetccl_cell *src = NULL, *dst = NULL;
    enum hetccl_status status = find_cells(c, step, combine->dst, &dst);

    if (status == HETCCL_OK && (combine->n_inputs == 0 || combine->n_inputs > 64))
        status = hetccl_check_fault(step, "%u inputs; the limit is 64", combine->n_inputs);
    for (uint32_t i = 0; i < combine->n_inputs && status == HETCCL_OK; i++) {
        bool is_raw = c->plans[step->rank]->inputs[combine->first_input + i].is_raw;

        status = find_input(c, step, combine->first_input + i, &src);
        if (status == HETCCL_OK)
            status = check_raw_flag(c, step, is_raw);
        if (status == HETCCL_OK)
            status = add(c, step, src, combine->dst.count, is_raw, i == 0, combine->n_inputs > 1);
    }
    if (status == HETCCL_OK)
        memcpy(dst, c->sum, combine->dst.count * sizeof(*dst));
    return status;
}

/* One piece of an island step as one member sees it. */
static const struct hetccl_piece *piece_of(struct hetccl_check *c, const struct hetccl_run_step *step,
                                           uint32_t piece)
{
    return &c->plans[step->rank]->pieces[step->step->first_piece + piece];
}

static enum hetccl_status read_piece(struct hetccl_check *c, const struct hetccl_run_step *step,
                                     size_t offset, size_t count, struct hetccl_cell **out)
{
    return find_cells(c, step, (struct hetccl_region){step->step->src.buffer, offset, count}, out);
}

static enum hetccl_status write_piece(struct hetccl_check *c, const struct hetccl_run_step *step,
                                      size_t offset, size_t count)
{
    struct hetccl_cell *dst = NULL;
    enum hetccl_status status =
        find_cells(c, step, (struct hetccl_region){step->step->dst.buffer, offset, count}, &dst);

    if (status == HETCCL_OK)
        memcpy(dst, c->sum, count * sizeof(*dst));
    return status;
}

/* c->sum = the reduction of everybody's part of a piece. */
static enum hetccl_status reduce_piece(struct hetccl_check *c, const struct hetccl_run_step *const *members,
                                       uint32_t n_members, uint32_t piece, bool is_own)
{
    enum hetccl_status status = HETCCL_OK;

    for (uint32_t i = 0; i < n_members && status == HETCCL_OK; i++) {
        const struct hetccl_piece *mine = piece_of(c, members[i], piece);
        struct hetccl_cell *src = NULL;

        status = read_piece(c, members[i], is_own ? mine->own_offset : mine->whole_offset, mine->count, &src);
        if (status == HETCCL_OK)
            status = add(c, members[i], src, mine->count, members[i]->step->is_raw, i == 0, true);
    }
    return status;
}

/* c->sum = one member's part of a piece. */
static enum hetccl_status load_piece(struct hetccl_check *c, const struct hetccl_run_step *member,
                                     size_t offset, size_t count)
{
    struct hetccl_cell *src = NULL;
    enum hetccl_status status = read_piece(c, member, offset, count, &src);

    if (status == HETCCL_OK)
        status = add(c, member, src, count, false, true, false);
    return status;
}

static enum hetccl_status write_to_all(struct hetccl_check *c, const struct hetccl_run_step *const *members,
                                       uint32_t n_members, uint32_t piece)
{
    enum hetccl_status status = HETCCL_OK;

    for (uint32_t i = 0; i < n_members && status == HETCCL_OK; i++)
        status = write_piece(c, members[i], piece_of(c, members[i], piece)->whole_offset,
                             piece_of(c, members[i], piece)->count);
    return status;
}

/* Member i's piece for member j goes to where member j wants what comes from i. */
static enum hetccl_status alltoall_piece(struct hetccl_check *c, const struct hetccl_run_step *const *members,
                                         uint32_t n_members, uint32_t piece)
{
    enum hetccl_status status = HETCCL_OK;
    uint32_t owner = piece_of(c, members[0], piece)->owner;

    for (uint32_t i = 0; i < n_members && status == HETCCL_OK; i++) {
        const struct hetccl_piece *from = piece_of(c, members[i], piece), *to = NULL;

        for (uint32_t k = 0; k < n_members; k++)
            if (piece_of(c, members[owner], k)->owner == i)
                to = piece_of(c, members[owner], k);
        if (to == NULL || to->count != from->count)
            return hetccl_check_fault(members[i], "an alltoall piece without its counterpart");
        status = load_piece(c, members[i], from->own_offset, from->count);
        if (status == HETCCL_OK)
            status = write_piece(c, members[owner], to->whole_offset, to->count);
    }
    return status;
}

static enum hetccl_status do_piece(struct hetccl_check *c, const struct hetccl_run_step *const *members,
                                   uint32_t n_members, uint32_t piece)
{
    const struct hetccl_run_step *owner = members[piece_of(c, members[0], piece)->owner];
    const struct hetccl_run_step *root = members[members[0]->step->root];
    const struct hetccl_piece *owned = piece_of(c, owner, piece), *rooted = piece_of(c, root, piece);
    enum hetccl_status status;

    switch (members[0]->step->op) {
    case HETCCL_ISLAND_ALLREDUCE:
        status = reduce_piece(c, members, n_members, piece, true);
        return status == HETCCL_OK ? write_to_all(c, members, n_members, piece) : status;
    case HETCCL_ISLAND_REDUCE_SCATTER:
        status = reduce_piece(c, members, n_members, piece, false);
        return status == HETCCL_OK ? write_piece(c, owner, owned->own_offset, owned->count) : status;
    case HETCCL_ISLAND_ALLGATHER:
        status = load_piece(c, owner, owned->own_offset, owned->count);
        return status == HETCCL_OK ? write_to_all(c, members, n_members, piece) : status;
    case HETCCL_ISLAND_GATHER:
        status = load_piece(c, owner, owned->own_offset, owned->count);
        return status == HETCCL_OK ? write_piece(c, root, rooted->whole_offset, rooted->count) : status;
    case HETCCL_ISLAND_SCATTER:
        status = load_piece(c, root, rooted->whole_offset, rooted->count);
        return status == HETCCL_OK ? write_piece(c, owner, owned->own_offset, owned->count) : status;
    case HETCCL_ISLAND_ALLTOALL:
        return alltoall_piece(c, members, n_members, piece);
    }
    return hetccl_check_fault(members[0], "island operation %d", (int)members[0]->step->op);
}

/* All members list the same pieces in the same order for the same operation. */
static enum hetccl_status check_members(struct hetccl_check *c, const struct hetccl_run_step *const *members,
                                        uint32_t n_members)
{
    const struct hetccl_step *first = members[0]->step;

    for (uint32_t i = 0; i < n_members; i++) {
        const struct hetccl_step *step = members[i]->step;
        enum hetccl_status status = check_raw_flag(c, members[i], step->is_raw);

        if (status != HETCCL_OK)
            return status;
        if (step->op != first->op || step->n_pieces != first->n_pieces || step->root != first->root)
            return hetccl_check_fault(members[i], "operation %d, %u pieces, root %u; on rank %u %d, %u, %u",
                                      (int)step->op, step->n_pieces, step->root, members[0]->rank,
                                      (int)first->op, first->n_pieces, first->root);
        for (uint32_t k = 0; k < step->n_pieces; k++) {
            const struct hetccl_piece *a = piece_of(c, members[i], k), *b = piece_of(c, members[0], k);

            if (a->owner != b->owner || a->count != b->count || a->owner >= n_members)
                return hetccl_check_fault(members[i], "piece %u: owner %u, %zu elements; on rank %u %u, %zu",
                                          k, a->owner, a->count, members[0]->rank, b->owner, b->count);
        }
    }
    return first->root < n_members ? HETCCL_OK : hetccl_check_fault(members[0], "root %u", first->root);
}

/*
 * Pieces may be done in any order: once forward, once backward, so that a piece whose destination overlaps
 * another one's source is noticed.
 */
enum hetccl_status hetccl_check_do_island(struct hetccl_check *c,
                                          const struct hetccl_run_step *const *members, uint32_t n_members)
{
    enum hetccl_status status = check_members(c, members, n_members);
    uint32_t n_pieces = members[0]->step->n_pieces;
    bool is_backward = hetccl_check_random(c) & 1;

    if (status == HETCCL_OK && n_pieces == 0)
        status = hetccl_check_fault(members[0], "no pieces");
    if (status == HETCCL_OK && members[0]->step->op == HETCCL_ISLAND_ALLTOALL && n_pieces != n_members)
        status = hetccl_check_fault(members[0], "alltoall with %u pieces for %u ranks", n_pieces, n_members);
    for (uint32_t k = 0; k < n_pieces && status == HETCCL_OK; k++)
        status = do_piece(c, members, n_members, is_backward ? n_pieces - 1 - k : k);
    return status;
}
