/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engine p2p: the collectives of one island, as sends and combines among its ranks. Data that is reduced is
 * combined once, by its owner, over the island's ranks in their order, and copied to whoever wants it.
 */
#include "base/memory.h"
#include "exec/lower.h"

/* Up to this an all-reduce is one exchange of everything; above, a reduce-scatter and an all-gather. */
enum { ONE_EXCHANGE_BYTES = 32 * 1024, PART_GRANULE = 64 };

static uint32_t rank_of(const struct hetccl_lowering *l, uint32_t island_rank)
{
    return l->args->island_ranks[island_rank];
}

static struct hetccl_region region(enum hetccl_buffer buffer, size_t offset, size_t count)
{
    return (struct hetccl_region){.buffer = buffer, .offset = offset, .count = count};
}

static bool is_own(const struct hetccl_lowering *l, uint32_t island_rank)
{
    return island_rank == l->args->island_rank;
}

static void send_to(struct hetccl_lowering *l, size_t offset, size_t count, bool is_raw, uint32_t island_rank)
{
    struct hetccl_region src = region(l->step->src.buffer, offset, count);

    (void)hetccl_lower_send(l, &src, is_raw, rank_of(l, island_rank));
}

static void receive_from(struct hetccl_lowering *l, size_t offset, size_t count, uint32_t island_rank)
{
    struct hetccl_region dst = region(l->step->dst.buffer, offset, count);

    if (hetccl_lower_combine(l, &dst) != NULL)
        hetccl_lower_message_input(l, rank_of(l, island_rank));
}

static void copy_own(struct hetccl_lowering *l, size_t dst_offset, size_t src_offset, size_t count)
{
    struct hetccl_region dst = region(l->step->dst.buffer, dst_offset, count);
    struct hetccl_region src = region(l->step->src.buffer, src_offset, count);

    if (dst.buffer != src.buffer || dst.offset != src.offset)
        (void)hetccl_lower_copy(l, &dst, &src, false);
}

/* My part of a reduction: everybody's in island order. */
static bool combine_all(struct hetccl_lowering *l, size_t dst_offset, size_t src_offset, size_t count)
{
    struct hetccl_region dst = region(l->step->dst.buffer, dst_offset, count);
    struct hetccl_region src = region(l->step->src.buffer, src_offset, count);

    if (hetccl_lower_combine(l, &dst) == NULL)
        return false;
    for (uint32_t i = 0; i < l->args->n_island_ranks; i++) {
        if (is_own(l, i))
            hetccl_lower_local_input(l, &src, l->step->is_raw);
        else
            hetccl_lower_message_input(l, rank_of(l, i));
    }
    return true;
}

/* ---- all-reduce ---- */

/* Where the result may lie in what is still being sent, it waits for that. The message fits into an empty
 * ring, so the others needn't have come as far for it to leave. */
static void exchange_whole(struct hetccl_lowering *l, const struct hetccl_piece *piece)
{
    uint32_t first = l->n_drafts;

    for (uint32_t i = 0; i < l->args->n_island_ranks; i++)
        if (!is_own(l, i))
            send_to(l, piece->own_offset, piece->count, l->step->is_raw, i);
    l->half = 1;
    if (!combine_all(l, piece->whole_offset, piece->own_offset, piece->count))
        return;
    for (uint32_t draft = first; draft < hetccl_lower_last(l); draft++)
        hetccl_lower_dep(l, draft);
}

struct part {
    size_t start, count;
};

static struct part part_of(const struct hetccl_lowering *l, size_t count, uint32_t island_rank)
{
    size_t share = (count + l->args->n_island_ranks - 1) / l->args->n_island_ranks;
    size_t start;

    share = hetccl_round_up(share, PART_GRANULE);
    start = hetccl_min_size(island_rank * share, count);
    return (struct part){start, hetccl_min_size(share, count - start)};
}

/* The others' parts arrive where mine of them may still have to leave from. */
static void scatter_and_gather(struct hetccl_lowering *l, const struct hetccl_piece *piece)
{
    struct part own = part_of(l, piece->count, l->args->island_rank);
    uint32_t first = l->n_drafts, combined;
    struct hetccl_region reduced = region(l->step->dst.buffer, piece->whole_offset + own.start, own.count);
    uint32_t n_ranks = l->args->n_island_ranks;

    for (uint32_t i = 0; i < n_ranks; i++) {
        struct part part = part_of(l, piece->count, i);

        if (!is_own(l, i))
            send_to(l, piece->own_offset + part.start, part.count, l->step->is_raw, i);
    }
    if (combine_all(l, reduced.offset, piece->own_offset + own.start, own.count)) {
        combined = hetccl_lower_last(l);
        l->half = 1;
        for (uint32_t i = 0; i < n_ranks; i++)
            if (!is_own(l, i) && hetccl_lower_send(l, &reduced, false, rank_of(l, i)) != NULL)
                hetccl_lower_dep(l, combined);
    }
    l->half = 1;
    for (uint32_t i = 0; i < n_ranks && l->status == HETCCL_OK; i++) {
        struct part part = part_of(l, piece->count, i);

        if (is_own(l, i) || part.count == 0)
            continue;
        receive_from(l, piece->whole_offset + part.start, part.count, i);
        hetccl_lower_dep(l, first++);
    }
}

static void lower_allreduce(struct hetccl_lowering *l, const struct hetccl_piece *piece)
{
    size_t piece_count = hetccl_program_piece_count(piece->count, l->args->elem_bytes, l->args->slot_bytes);

    if (piece->count * l->args->elem_bytes <= ONE_EXCHANGE_BYTES &&
        piece->count <= HETCCL_RING_SLOTS * piece_count)
        exchange_whole(l, piece);
    else
        scatter_and_gather(l, piece);
}

/* ---- the others, a piece at a time ---- */

static void lower_reduce_scatter(struct hetccl_lowering *l, const struct hetccl_piece *piece)
{
    if (is_own(l, piece->owner))
        (void)combine_all(l, piece->own_offset, piece->whole_offset, piece->count);
    else
        send_to(l, piece->whole_offset, piece->count, l->step->is_raw, piece->owner);
}

static void lower_allgather(struct hetccl_lowering *l, const struct hetccl_piece *piece)
{
    if (!is_own(l, piece->owner)) {
        receive_from(l, piece->whole_offset, piece->count, piece->owner);
        return;
    }
    for (uint32_t i = 0; i < l->args->n_island_ranks; i++)
        if (!is_own(l, i))
            send_to(l, piece->own_offset, piece->count, false, i);
    copy_own(l, piece->whole_offset, piece->own_offset, piece->count);
}

static void lower_gather(struct hetccl_lowering *l, const struct hetccl_piece *piece)
{
    bool is_root = is_own(l, l->step->root);

    if (is_own(l, piece->owner) && is_root)
        copy_own(l, piece->whole_offset, piece->own_offset, piece->count);
    else if (is_own(l, piece->owner))
        send_to(l, piece->own_offset, piece->count, false, l->step->root);
    else if (is_root)
        receive_from(l, piece->whole_offset, piece->count, piece->owner);
}

static void lower_scatter(struct hetccl_lowering *l, const struct hetccl_piece *piece)
{
    bool is_root = is_own(l, l->step->root);

    if (is_own(l, piece->owner) && is_root)
        copy_own(l, piece->own_offset, piece->whole_offset, piece->count);
    else if (is_root)
        send_to(l, piece->whole_offset, piece->count, false, piece->owner);
    else if (is_own(l, piece->owner))
        receive_from(l, piece->own_offset, piece->count, l->step->root);
}

static void lower_alltoall(struct hetccl_lowering *l, const struct hetccl_piece *piece)
{
    if (is_own(l, piece->owner)) {
        copy_own(l, piece->whole_offset, piece->own_offset, piece->count);
        return;
    }
    send_to(l, piece->own_offset, piece->count, false, piece->owner);
    receive_from(l, piece->whole_offset, piece->count, piece->owner);
}

void hetccl_lower_island(struct hetccl_lowering *l)
{
    static void (*const lower[])(struct hetccl_lowering *, const struct hetccl_piece *) = {
        [HETCCL_ISLAND_ALLREDUCE] = lower_allreduce, [HETCCL_ISLAND_REDUCE_SCATTER] = lower_reduce_scatter,
        [HETCCL_ISLAND_ALLGATHER] = lower_allgather, [HETCCL_ISLAND_GATHER] = lower_gather,
        [HETCCL_ISLAND_SCATTER] = lower_scatter,     [HETCCL_ISLAND_ALLTOALL] = lower_alltoall,
    };

    for (uint32_t i = 0; i < l->step->n_pieces && l->status == HETCCL_OK; i++)
        lower[l->step->op](l, &l->args->plan->pieces[l->step->first_piece + i]);
}
