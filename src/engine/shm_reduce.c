/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations that reduce. Every element is combined once, by one kernel call over the inputs of all ranks
 * in island rank order, and copied from there; or by every rank from the same inputs in the same order.
 * Either way all get the same bits.
 *
 * An input of mine is read where the user put it. The exception are islands of more than
 * HETCCL_REDUCE_MAX_INPUTS ranks: there the kernel is called in a chain whose first link overwrites dst,
 * which may be my input's memory, before a later link reads my input. So my input then goes through my slot
 * like the others'.
 */
#include <string.h>

#include "base/memory.h"
#include "engine/shm_engine.h"

/* dst = reduction of the first sources, then dst = reduction of dst and the next ones, until all are in. */
static enum hetccl_status reduce_chain(struct hetccl_shm_engine *shm, struct hetccl_reduce *reduce)
{
    const void *srcs[HETCCL_REDUCE_MAX_INPUTS] = {reduce->dst};
    struct hetccl_scale scales[HETCCL_REDUCE_MAX_INPUTS] = {hetccl_scale_one(reduce->type)};
    size_t done = HETCCL_REDUCE_MAX_INPUTS;
    enum hetccl_status status;

    reduce->n_srcs = done;
    status = shm->device->ops->reduce(shm->device, (struct hetccl_stream){NULL}, reduce);
    while (status == HETCCL_OK && done < shm->base.n_ranks) {
        size_t n = hetccl_min_size(shm->base.n_ranks - done, HETCCL_REDUCE_MAX_INPUTS - 1);
        struct hetccl_reduce next = *reduce;

        memcpy(srcs + 1, shm->srcs + done, n * sizeof(srcs[0]));
        memcpy(scales + 1, shm->scales + done, n * sizeof(scales[0]));
        next.srcs = srcs;
        next.scales = reduce->scales != NULL ? scales : NULL;
        next.n_srcs = n + 1;
        status = shm->device->ops->reduce(shm->device, (struct hetccl_stream){NULL}, &next);
        done += n;
    }
    return status;
}

/* A stretch of my input and where its result belongs. */
struct span {
    const uint8_t *mine;
    uint8_t *dst;
    size_t count;
};

/* Reduces count elements that lie offset_bytes into everybody's payload of tick k; mine lie at `mine`. */
static enum hetccl_status reduce_span(struct hetccl_shm_engine *shm, uint64_t k, size_t offset_bytes,
                                      void *dst, const void *mine, size_t count)
{
    uint64_t tick = shm->run.first_tick + k;
    struct hetccl_reduce reduce = {.dst = dst,
                                   .srcs = shm->srcs,
                                   .scales = shm->run.op.is_raw ? shm->scales : NULL,
                                   .n_srcs = shm->base.n_ranks,
                                   .count = count,
                                   .type = shm->run.op.type,
                                   .red = shm->run.op.red};

    if (count == 0)
        return HETCCL_OK;
    for (uint32_t rank = 0; rank < shm->base.n_ranks; rank++)
        shm->srcs[rank] = hetccl_shm_payload(shm, rank, tick) + offset_bytes;
    if (!shm->run.reads_own_slot)
        shm->srcs[shm->base.island_rank] = mine;
    shm->scales[shm->base.island_rank] = shm->run.op.scale;
    shm->base.counters.reduced_bytes += count * shm->run.elem_bytes * shm->base.n_ranks;
    if (shm->base.n_ranks > HETCCL_REDUCE_MAX_INPUTS)
        return reduce_chain(shm, &reduce);
    return shm->device->ops->reduce(shm->device, (struct hetccl_stream){NULL}, &reduce);
}

/*
 * As reduce_span(), block by block by way of `by`, which takes the result too: NULL is my block buffer. A
 * result that replaces my input in place needs no way around the caches: it is there already.
 */
static enum hetccl_status reduce_by(struct hetccl_shm_engine *shm, uint64_t k, size_t offset_bytes,
                                    uint8_t *by, struct span span)
{
    size_t elem_bytes = shm->run.elem_bytes, block_count = HETCCL_SHM_BLOCK_BYTES / elem_bytes;
    enum hetccl_status status = HETCCL_OK;

    for (size_t at = 0; at < span.count && status == HETCCL_OK; at += block_count) {
        size_t count = hetccl_min_size(block_count, span.count - at), bytes = at * elem_bytes;
        uint8_t *block = by == NULL ? shm->block : by + bytes;

        status = reduce_span(shm, k, offset_bytes + bytes, block, span.mine + bytes, count);
        if (status == HETCCL_OK && span.dst == span.mine)
            status = hetccl_shm_copy(shm, span.dst + bytes, block, count * elem_bytes);
        else if (status == HETCCL_OK)
            status = hetccl_shm_copy_out(shm, span.dst + bytes, block, count * elem_bytes);
    }
    return status;
}

static enum hetccl_status reduce_out(struct hetccl_shm_engine *shm, uint64_t k, size_t offset_bytes,
                                     struct span span)
{
    if (shm->run.is_streaming && span.dst != span.mine)
        return reduce_by(shm, k, offset_bytes, NULL, span);
    return reduce_span(shm, k, offset_bytes, span.dst, span.mine, span.count);
}

static enum hetccl_status reduce_scatter_finish(struct hetccl_shm_engine *shm, uint64_t k)
{
    uint32_t me = shm->base.island_rank;
    size_t left = hetccl_shm_window(shm, me, k), elem_bytes = shm->run.elem_bytes, offset, count;
    size_t in_payload = hetccl_shm_section_bytes(shm, me);
    const struct hetccl_engine_piece *piece;
    enum hetccl_status status = HETCCL_OK;

    while (status == HETCCL_OK &&
           (count = hetccl_shm_cursor_take(shm, &shm->read_at[me], left, &piece, &offset)) > 0) {
        struct span span = {(const uint8_t *)shm->run.op.src + (piece->whole_offset + offset) * elem_bytes,
                            (uint8_t *)shm->run.op.dst + (piece->own_offset + offset) * elem_bytes, count};

        status = reduce_out(shm, k, in_payload, span);
        in_payload += count * elem_bytes;
        left -= count;
    }
    return status;
}

const struct hetccl_shm_method hetccl_shm_method_reduce_scatter = {hetccl_shm_write_sections, NULL,
                                                                   reduce_scatter_finish};

/* The vector of an all-reduce: its first element in src and dst, and the window of tick k. */
static const uint8_t *vector_src(const struct hetccl_shm_engine *shm, size_t at)
{
    return (const uint8_t *)shm->run.op.src + (shm->run.op.pieces[0].own_offset + at) * shm->run.elem_bytes;
}

static uint8_t *vector_dst(const struct hetccl_shm_engine *shm, size_t at)
{
    return (uint8_t *)shm->run.op.dst + (shm->run.op.pieces[0].whole_offset + at) * shm->run.elem_bytes;
}

static size_t vector_window(const struct hetccl_shm_engine *shm, uint64_t k)
{
    if (k >= shm->run.n_windows)
        return 0;
    return hetccl_min_size(shm->run.window_count, shm->run.shape.total - k * shm->run.window_count);
}

static enum hetccl_status direct_write(struct hetccl_shm_engine *shm, uint64_t k, uint8_t *payload)
{
    size_t count = vector_window(shm, k);

    if (count == 0 || shm->base.n_ranks == 1)
        return HETCCL_OK;
    return hetccl_shm_copy(shm, payload, vector_src(shm, k * shm->run.window_count),
                           count * shm->run.elem_bytes);
}

static enum hetccl_status direct_finish(struct hetccl_shm_engine *shm, uint64_t k)
{
    size_t count = vector_window(shm, k), at = k * shm->run.window_count;

    if (count == 0)
        return HETCCL_OK;
    return reduce_out(shm, k, 0, (struct span){vector_src(shm, at), vector_dst(shm, at), count});
}

const struct hetccl_shm_method hetccl_shm_method_allreduce_direct = {direct_write, NULL, direct_finish};

/*
 * Two phases. Each window is cut into one part a rank. At tick k a slot holds window k of its rank's input,
 * and behind it the rank's reduced part of window k - lookahead, put there when that was reduced. In place is
 * safe: a part of dst is written only after the input there has been published (other ranks' parts) or by the
 * very call that reads it (mine).
 */
struct part {
    size_t at, count; /* in the vector */
};

static struct part part_of(const struct hetccl_shm_engine *shm, uint64_t window, uint32_t rank)
{
    size_t length = vector_window(shm, window), unit = HETCCL_CACHE_LINE / shm->run.elem_bytes;
    size_t most = hetccl_round_up(length / shm->base.n_ranks + (length % shm->base.n_ranks != 0), unit);
    size_t start = hetccl_min_size(length, rank * most);

    return (struct part){window * shm->run.window_count + start, hetccl_min_size(most, length - start)};
}

static bool has_gather(const struct hetccl_shm_engine *shm, uint64_t k)
{
    return k >= shm->run.lookahead && k - shm->run.lookahead < shm->run.n_windows;
}

static size_t gather_bytes(const struct hetccl_shm_engine *shm)
{
    return shm->run.window_count * shm->run.elem_bytes;
}

static enum hetccl_status phases_write(struct hetccl_shm_engine *shm, uint64_t k, uint8_t *payload)
{
    uint32_t me = shm->base.island_rank;
    size_t elem_bytes = shm->run.elem_bytes, start = k * shm->run.window_count, count = vector_window(shm, k);
    struct part mine = part_of(shm, k, me);
    size_t before = count == 0 ? 0 : mine.at - start;
    size_t behind = before + mine.count;
    enum hetccl_status status = HETCCL_OK;

    if (count > 0 && shm->run.reads_own_slot)
        status = hetccl_shm_copy(shm, payload, vector_src(shm, start), count * elem_bytes);
    else if (count > 0) {
        status = hetccl_shm_copy(shm, payload, vector_src(shm, start), before * elem_bytes);
        if (status == HETCCL_OK)
            status = hetccl_shm_copy(shm, payload + behind * elem_bytes, vector_src(shm, start + behind),
                                     (count - behind) * elem_bytes);
    }
    if (status != HETCCL_OK || !has_gather(shm, k))
        return status;
    mine = part_of(shm, k - shm->run.lookahead, me);
    return hetccl_shm_copy(shm, payload + gather_bytes(shm), vector_dst(shm, mine.at),
                           mine.count * elem_bytes);
}

static enum hetccl_status phases_read(struct hetccl_shm_engine *shm, uint64_t k, uint32_t peer,
                                      const uint8_t *payload)
{
    struct part theirs;

    if (!has_gather(shm, k))
        return HETCCL_OK;
    theirs = part_of(shm, k - shm->run.lookahead, peer);
    return hetccl_shm_copy_out(shm, vector_dst(shm, theirs.at), payload + gather_bytes(shm),
                               theirs.count * shm->run.elem_bytes);
}

/*
 * Reduces my part of window k straight into the slot of tick k + lookahead, and copies it to dst from there.
 * That slot is free: I have seen all ranks publish tick k, so they have consumed k - lookahead and what lay
 * there before. And I publish that tick only after this one is consumed.
 */
static enum hetccl_status phases_finish(struct hetccl_shm_engine *shm, uint64_t k)
{
    uint32_t me = shm->base.island_rank;
    uint8_t *payload;
    struct part mine;

    if (vector_window(shm, k) == 0)
        return HETCCL_OK;
    mine = part_of(shm, k, me);
    payload = hetccl_shm_payload(shm, me, shm->run.first_tick + k + shm->run.lookahead);
    return reduce_by(shm, k, (mine.at - k * shm->run.window_count) * shm->run.elem_bytes,
                     payload + gather_bytes(shm),
                     (struct span){vector_src(shm, mine.at), vector_dst(shm, mine.at), mine.count});
}

const struct hetccl_shm_method hetccl_shm_method_allreduce_phases = {phases_write, phases_read,
                                                                     phases_finish};
