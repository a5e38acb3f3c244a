/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks an operation and cuts it into ticks. Everything here is a function of what all ranks share (kind,
 * pieces' owners and counts, type, slot sizes), so that all ranks cut alike.
 */
#include <stdint.h>

#include "base/memory.h"
#include "engine/shm_engine.h"

enum {
    /*
     * An all-reduce in one tick makes every rank read everybody's whole vector; in two phases it reads only
     * about twice its own size but waits twice. The border is an estimate of where reading costs what a wait
     * does.
     */
    DIRECT_BYTES = 64 << 10,
    /* From here on a result is taken to be larger than what the caches have left for it: half of an 8 MiB L3.
     */
    STREAMING_BYTES = 4 << 20,
};

static enum hetccl_status check_op(const struct hetccl_shm_engine *shm, const struct hetccl_engine_op *op)
{
    bool is_reduction = op->kind == HETCCL_ENGINE_ALLREDUCE || op->kind == HETCCL_ENGINE_REDUCE_SCATTER;
    bool has_root = op->kind == HETCCL_ENGINE_GATHER || op->kind == HETCCL_ENGINE_SCATTER;

    if (op->kind > HETCCL_ENGINE_ALLTOALL || op->type >= HETCCL_TYPES || op->red >= HETCCL_REDS)
        return hetccl_fail(HETCCL_ERR_ARG, "island step with kind %d, type %d, op %d", op->kind, op->type,
                           op->red);
    if (has_root && op->root >= shm->base.n_ranks)
        return hetccl_fail(HETCCL_ERR_ARG, "island step with root %u of %u ranks", op->root,
                           shm->base.n_ranks);
    if (is_reduction && op->is_raw && op->red != HETCCL_SUM)
        return hetccl_fail(HETCCL_ERR_ARG, "island step that scales the inputs of %s; only sums can",
                           hetccl_red_name(op->red));
    if (op->kind == HETCCL_ENGINE_ALLREDUCE && op->n_pieces > 1)
        return hetccl_fail(HETCCL_ERR_ARG, "island all-reduce of %zu pieces; it takes one", op->n_pieces);
    if (op->kind == HETCCL_ENGINE_ALLTOALL && op->n_pieces != shm->base.n_ranks)
        return hetccl_fail(HETCCL_ERR_ARG, "island all-to-all of %zu pieces between %u ranks", op->n_pieces,
                           shm->base.n_ranks);
    if (op->n_pieces >= HETCCL_SHM_NO_PIECE)
        return hetccl_fail(HETCCL_ERR_ARG, "island step of %zu pieces", op->n_pieces);
    return HETCCL_OK;
}

static enum hetccl_status grow_piece_room(struct hetccl_shm_engine *shm, size_t n_pieces)
{
    enum hetccl_status status;

    if (n_pieces <= shm->next_piece_room)
        return HETCCL_OK;
    status = hetccl_resize(&shm->next_piece, n_pieces, sizeof(*shm->next_piece));
    if (status == HETCCL_OK)
        shm->next_piece_room = n_pieces;
    return status;
}

/* An all-to-all sends piece i to rank i and takes rank i's piece for me: that works only if all are equally
 * long. */
static enum hetccl_status check_alltoall(const struct hetccl_shm_engine *shm,
                                         const struct hetccl_engine_op *op)
{
    for (size_t i = 0; i < op->n_pieces; i++)
        if (op->pieces[i].count != op->pieces[0].count ||
            (op->pieces[i].count > 0 && shm->totals[op->pieces[i].owner] != op->pieces[0].count))
            return hetccl_fail(HETCCL_ERR_ARG,
                               "island all-to-all whose pieces aren't one of equal size a rank");
    return HETCCL_OK;
}

/* Chains the pieces of each owner, last piece first so that each is put in front. Empty pieces are left out.
 */
static enum hetccl_status build_sequences(struct hetccl_shm_engine *shm, const struct hetccl_engine_op *op)
{
    enum hetccl_status status = grow_piece_room(shm, op->n_pieces);

    if (status != HETCCL_OK)
        return status;
    for (uint32_t rank = 0; rank < shm->base.n_ranks; rank++) {
        shm->first_piece[rank] = HETCCL_SHM_NO_PIECE;
        shm->totals[rank] = 0;
    }
    for (uint32_t i = (uint32_t)op->n_pieces; i-- > 0;) {
        const struct hetccl_engine_piece *piece = &op->pieces[i];

        if (piece->owner >= shm->base.n_ranks)
            return hetccl_fail(HETCCL_ERR_ARG, "island step with a piece of rank %u of %u", piece->owner,
                               shm->base.n_ranks);
        if (piece->count == 0)
            continue;
        shm->next_piece[i] = shm->first_piece[piece->owner];
        shm->first_piece[piece->owner] = i;
        if (!hetccl_add_size(shm->totals[piece->owner], piece->count, &shm->totals[piece->owner]))
            return hetccl_fail(HETCCL_ERR_ARG, "island step with pieces of more than SIZE_MAX elements");
    }
    for (uint32_t rank = 0; rank < shm->base.n_ranks; rank++) {
        shm->write_at[rank] = (struct hetccl_shm_cursor){.piece = shm->first_piece[rank]};
        shm->read_at[rank] = shm->write_at[rank];
    }
    return op->kind == HETCCL_ENGINE_ALLTOALL ? check_alltoall(shm, op) : HETCCL_OK;
}

static uint32_t mix(uint32_t hash, uint64_t value)
{
    uint64_t product = (hash ^ value) * 0x9e3779b97f4a7c15ull;

    return (uint32_t)(product >> 32) ^ (uint32_t)product;
}

static enum hetccl_status fill_shape(const struct hetccl_engine_op *op, size_t elem_bytes,
                                     struct hetccl_shm_shape *shape)
{
    bool is_reduction = op->kind == HETCCL_ENGINE_ALLREDUCE || op->kind == HETCCL_ENGINE_REDUCE_SCATTER;
    bool has_root = op->kind == HETCCL_ENGINE_GATHER || op->kind == HETCCL_ENGINE_SCATTER;
    uint32_t hash = mix(1, has_root ? op->root : 0);
    size_t total = 0, bytes;

    for (size_t i = 0; i < op->n_pieces; i++) {
        if (!hetccl_add_size(total, op->pieces[i].count, &total))
            return hetccl_fail(HETCCL_ERR_ARG, "island step with pieces of more than SIZE_MAX elements");
        if (op->kind != HETCCL_ENGINE_ALLREDUCE)
            hash = mix(mix(hash, op->pieces[i].owner), op->pieces[i].count);
    }
    if (!hetccl_mul_size(total, elem_bytes, &bytes) || bytes > SIZE_MAX / 2)
        return hetccl_fail(HETCCL_ERR_ARG, "island step with pieces of more than SIZE_MAX / 2 bytes");
    hetccl_call_tag_encode(&op->tag, shape->tag);
    shape->total = total;
    shape->layout = hash;
    shape->kind = (uint8_t)op->kind;
    shape->type = (uint8_t)op->type;
    shape->red = (uint8_t)(is_reduction ? op->red : 0);
    shape->is_raw = is_reduction && op->is_raw;
    return HETCCL_OK;
}

enum hetccl_status hetccl_shm_run_init(struct hetccl_shm_engine *shm, const struct hetccl_engine_op *op)
{
    struct hetccl_shm_run *run = &shm->run;
    enum hetccl_status status = check_op(shm, op);

    if (status != HETCCL_OK)
        return status;
    run->op = *op;
    run->elem_bytes = hetccl_type_bytes(op->type);
    status = fill_shape(op, run->elem_bytes, &run->shape);
    if (status == HETCCL_OK && op->kind != HETCCL_ENGINE_ALLREDUCE)
        status = build_sequences(shm, op);
    return status;
}

static const struct hetccl_shm_method *choose_method(const struct hetccl_shm_engine *shm)
{
    const struct hetccl_shm_run *run = &shm->run;
    size_t bytes = run->shape.total * run->elem_bytes;

    switch (run->op.kind) {
    case HETCCL_ENGINE_REDUCE_SCATTER:
        return &hetccl_shm_method_reduce_scatter;
    case HETCCL_ENGINE_ALLGATHER:
        return &hetccl_shm_method_allgather;
    case HETCCL_ENGINE_GATHER:
        return &hetccl_shm_method_gather;
    case HETCCL_ENGINE_SCATTER:
        return &hetccl_shm_method_scatter;
    case HETCCL_ENGINE_ALLTOALL:
        return &hetccl_shm_method_alltoall;
    case HETCCL_ENGINE_ALLREDUCE:
        break;
    }
    /* Between two ranks both ways move the same number of bytes, and the direct one waits half as often. */
    if (shm->base.n_ranks <= 2 || bytes <= DIRECT_BYTES / shm->base.n_ranks)
        return &hetccl_shm_method_allreduce_direct;
    return &hetccl_shm_method_allreduce_phases;
}

/* How many owners share a slot, and the longest sequence that is walked in windows. */
static uint32_t count_sections(struct hetccl_shm_engine *shm, size_t *longest_out)
{
    const struct hetccl_shm_method *method = shm->run.method;
    bool is_shared = method == &hetccl_shm_method_reduce_scatter || method == &hetccl_shm_method_scatter ||
                     method == &hetccl_shm_method_alltoall;
    uint32_t n_sections = 0;

    *longest_out = shm->run.shape.total;
    if (shm->run.op.kind == HETCCL_ENGINE_ALLREDUCE)
        return 1;
    *longest_out = 0;
    for (uint32_t rank = 0; rank < shm->base.n_ranks; rank++) {
        shm->section[rank] = is_shared ? n_sections : 0;
        n_sections += shm->totals[rank] > 0;
        *longest_out = hetccl_max_size(*longest_out, shm->totals[rank]);
    }
    return is_shared && n_sections > 0 ? n_sections : 1;
}

static size_t slot_room(const struct hetccl_shm_engine *shm, bool is_large)
{
    if (shm->base.n_ranks == 1)
        return SIZE_MAX / 2;
    return is_large ? shm->large_slot_bytes : shm->layout.small_slot_bytes - HETCCL_SHM_HEADER_BYTES;
}

static size_t divide_up(size_t value, size_t by)
{
    return value / by + (value % by != 0);
}

/* Windows of whole cache lines where there is room for any, all of about the same size. */
static void cut_windows(struct hetccl_shm_run *run, size_t total, size_t most, size_t unit)
{
    if (most > unit)
        most -= most % unit;
    run->n_windows = divide_up(total, most);
    run->window_count = 0;
    if (run->n_windows > 0)
        run->window_count = hetccl_min_size(most, hetccl_round_up(divide_up(total, run->n_windows), unit));
}

/*
 * A slot takes a window and, behind it, the part of an earlier window that this rank reduced. With the part
 * rounded up to cache lines, window + part <= (room - 2 units) * m/(m+1) * (m+1)/m + unit.
 */
static void cut_phases(struct hetccl_shm_engine *shm, size_t room, size_t unit)
{
    struct hetccl_shm_run *run = &shm->run;
    size_t m = shm->base.n_ranks;

    cut_windows(run, run->shape.total, (room / run->elem_bytes - 2 * unit) / (m + 1) * m, unit);
    run->part_count = hetccl_round_up(divide_up(run->window_count, m), unit);
    run->lookahead = run->n_windows > 1 ? HETCCL_SHM_LOOKAHEAD : 1;
    run->n_ticks = run->n_windows + run->lookahead;
}

static void cut_for(struct hetccl_shm_engine *shm, bool is_large)
{
    struct hetccl_shm_run *run = &shm->run;
    size_t unit = HETCCL_CACHE_LINE / run->elem_bytes, room = slot_room(shm, is_large), longest;
    uint32_t n_sections;

    run->method = choose_method(shm);
    run->is_large = is_large;
    run->is_streaming = run->shape.total * run->elem_bytes >= STREAMING_BYTES;
    run->reads_own_slot = shm->base.n_ranks > HETCCL_REDUCE_MAX_INPUTS;
    run->payload_offset = HETCCL_SHM_HEADER_BYTES;
    n_sections = count_sections(shm, &longest);
    if (run->method == &hetccl_shm_method_allreduce_phases) {
        cut_phases(shm, room, unit);
        return;
    }
    cut_windows(run, longest, room / run->elem_bytes / n_sections, unit);
    run->lookahead = HETCCL_SHM_LOOKAHEAD;
    run->n_ticks = run->n_windows > 0 ? run->n_windows : 1;
    if (n_sections == 1 && longest * run->elem_bytes <= sizeof(((struct hetccl_shm_header *)0)->tiny))
        run->payload_offset = offsetof(struct hetccl_shm_header, tiny);
}

bool hetccl_shm_run_wants_large(const struct hetccl_shm_engine *shm)
{
    return shm->run.n_windows > 1;
}

void hetccl_shm_run_cut(struct hetccl_shm_engine *shm)
{
    cut_for(shm, false);
    if (hetccl_shm_run_wants_large(shm) && shm->large_state == HETCCL_SHM_LARGE_READY)
        cut_for(shm, true);
}
