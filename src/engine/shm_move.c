/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations that only move data. What a rank owns, and what stays with it, is copied straight between
 * its own buffers; the rest goes through slots once.
 */
#include "base/memory.h"
#include "engine/shm_engine.h"

enum offset_kind { OWN, WHOLE };

enum hetccl_status hetccl_shm_copy(struct hetccl_shm_engine *shm, void *dst, const void *src, size_t bytes)
{
    if (bytes == 0 || dst == src)
        return HETCCL_OK;
    shm->base.counters.copied_bytes += bytes;
    return shm->device->ops->copy(shm->device, (struct hetccl_stream){NULL}, dst, src, bytes);
}

enum hetccl_status hetccl_shm_copy_out(struct hetccl_shm_engine *shm, void *dst, const void *src,
                                       size_t bytes)
{
    if (!shm->run.is_streaming || bytes == 0 || dst == src)
        return hetccl_shm_copy(shm, dst, src, bytes);
    shm->base.counters.copied_bytes += bytes;
    hetccl_shm_stream_copy(dst, src, bytes);
    return HETCCL_OK;
}

size_t hetccl_shm_window(const struct hetccl_shm_engine *shm, uint32_t owner, uint64_t k)
{
    size_t start = k * shm->run.window_count; /* at most one window past the end: no wrap */

    if (start >= shm->totals[owner])
        return 0;
    return hetccl_min_size(shm->run.window_count, shm->totals[owner] - start);
}

size_t hetccl_shm_cursor_take(const struct hetccl_shm_engine *shm, struct hetccl_shm_cursor *cursor,
                              size_t max, const struct hetccl_engine_piece **piece_out, size_t *offset_out)
{
    const struct hetccl_engine_piece *piece;
    size_t count;

    if (max == 0 || cursor->piece == HETCCL_SHM_NO_PIECE)
        return 0;
    piece = &shm->run.op.pieces[cursor->piece];
    count = hetccl_min_size(max, piece->count - cursor->offset);
    *piece_out = piece;
    *offset_out = cursor->offset;
    cursor->offset += count;
    if (cursor->offset == piece->count) {
        cursor->piece = shm->next_piece[cursor->piece];
        cursor->offset = 0;
    }
    return count;
}

size_t hetccl_shm_section_bytes(const struct hetccl_shm_engine *shm, uint32_t owner)
{
    return shm->section[owner] * shm->run.window_count * shm->run.elem_bytes;
}

static size_t place_bytes(const struct hetccl_shm_engine *shm, const struct hetccl_engine_piece *piece,
                          enum offset_kind kind, size_t offset)
{
    return ((kind == OWN ? piece->own_offset : piece->whole_offset) + offset) * shm->run.elem_bytes;
}

/* An owner's window of src, at the offsets of the kind, to the payload. */
static enum hetccl_status write_window(struct hetccl_shm_engine *shm, uint32_t owner, uint64_t k,
                                       enum offset_kind kind, uint8_t *payload)
{
    size_t left = hetccl_shm_window(shm, owner, k), offset, count;
    const struct hetccl_engine_piece *piece;
    enum hetccl_status status = HETCCL_OK;

    while (status == HETCCL_OK &&
           (count = hetccl_shm_cursor_take(shm, &shm->write_at[owner], left, &piece, &offset)) > 0) {
        const uint8_t *src = (const uint8_t *)shm->run.op.src + place_bytes(shm, piece, kind, offset);

        status = hetccl_shm_copy(shm, payload, src, count * shm->run.elem_bytes);
        payload += count * shm->run.elem_bytes;
        left -= count;
    }
    return status;
}

/* An owner's window from the payload to dst. */
static enum hetccl_status read_window(struct hetccl_shm_engine *shm, uint32_t owner, uint64_t k,
                                      enum offset_kind kind, const uint8_t *payload)
{
    size_t left = hetccl_shm_window(shm, owner, k), offset, count;
    const struct hetccl_engine_piece *piece;
    enum hetccl_status status = HETCCL_OK;

    while (status == HETCCL_OK &&
           (count = hetccl_shm_cursor_take(shm, &shm->read_at[owner], left, &piece, &offset)) > 0) {
        uint8_t *dst = (uint8_t *)shm->run.op.dst + place_bytes(shm, piece, kind, offset);

        status = hetccl_shm_copy_out(shm, dst, payload, count * shm->run.elem_bytes);
        payload += count * shm->run.elem_bytes;
        left -= count;
    }
    return status;
}

/* What I own stays with me: from src to dst, without a slot. */
static enum hetccl_status copy_mine(struct hetccl_shm_engine *shm, uint64_t k, enum offset_kind src_kind)
{
    uint32_t me = shm->base.island_rank;
    enum offset_kind dst_kind = src_kind == OWN ? WHOLE : OWN;
    size_t left = hetccl_shm_window(shm, me, k), offset, count;
    const struct hetccl_engine_piece *piece;
    enum hetccl_status status = HETCCL_OK;

    while (status == HETCCL_OK &&
           (count = hetccl_shm_cursor_take(shm, &shm->read_at[me], left, &piece, &offset)) > 0) {
        const uint8_t *src = (const uint8_t *)shm->run.op.src + place_bytes(shm, piece, src_kind, offset);
        uint8_t *dst = (uint8_t *)shm->run.op.dst + place_bytes(shm, piece, dst_kind, offset);

        status = hetccl_shm_copy_out(shm, dst, src, count * shm->run.elem_bytes);
        left -= count;
    }
    return status;
}

enum hetccl_status hetccl_shm_write_sections(struct hetccl_shm_engine *shm, uint64_t k, uint8_t *payload)
{
    bool is_reduction = shm->run.op.kind == HETCCL_ENGINE_REDUCE_SCATTER;
    enum offset_kind kind = shm->run.op.kind == HETCCL_ENGINE_ALLTOALL ? OWN : WHOLE;
    enum hetccl_status status = HETCCL_OK;

    for (uint32_t owner = 0; owner < shm->base.n_ranks && status == HETCCL_OK; owner++)
        if (owner != shm->base.island_rank || (is_reduction && shm->run.reads_own_slot))
            status = write_window(shm, owner, k, kind, payload + hetccl_shm_section_bytes(shm, owner));
    return status;
}

static enum hetccl_status allgather_write(struct hetccl_shm_engine *shm, uint64_t k, uint8_t *payload)
{
    if (shm->base.n_ranks == 1)
        return HETCCL_OK;
    return write_window(shm, shm->base.island_rank, k, OWN, payload);
}

static enum hetccl_status allgather_read(struct hetccl_shm_engine *shm, uint64_t k, uint32_t peer,
                                         const uint8_t *payload)
{
    return read_window(shm, peer, k, WHOLE, payload);
}

static enum hetccl_status allgather_finish(struct hetccl_shm_engine *shm, uint64_t k)
{
    return copy_mine(shm, k, OWN);
}

const struct hetccl_shm_method hetccl_shm_method_allgather = {allgather_write, allgather_read,
                                                              allgather_finish};

static bool is_root(const struct hetccl_shm_engine *shm)
{
    return shm->base.island_rank == shm->run.op.root;
}

static enum hetccl_status gather_write(struct hetccl_shm_engine *shm, uint64_t k, uint8_t *payload)
{
    return is_root(shm) ? HETCCL_OK : write_window(shm, shm->base.island_rank, k, OWN, payload);
}

static enum hetccl_status gather_read(struct hetccl_shm_engine *shm, uint64_t k, uint32_t peer,
                                      const uint8_t *payload)
{
    return is_root(shm) ? read_window(shm, peer, k, WHOLE, payload) : HETCCL_OK;
}

static enum hetccl_status gather_finish(struct hetccl_shm_engine *shm, uint64_t k)
{
    return is_root(shm) ? copy_mine(shm, k, OWN) : HETCCL_OK;
}

const struct hetccl_shm_method hetccl_shm_method_gather = {gather_write, gather_read, gather_finish};

static enum hetccl_status scatter_write(struct hetccl_shm_engine *shm, uint64_t k, uint8_t *payload)
{
    return is_root(shm) ? hetccl_shm_write_sections(shm, k, payload) : HETCCL_OK;
}

static enum hetccl_status scatter_read(struct hetccl_shm_engine *shm, uint64_t k, uint32_t peer,
                                       const uint8_t *payload)
{
    uint32_t me = shm->base.island_rank;

    return peer == shm->run.op.root
               ? read_window(shm, me, k, OWN, payload + hetccl_shm_section_bytes(shm, me))
               : HETCCL_OK;
}

static enum hetccl_status scatter_finish(struct hetccl_shm_engine *shm, uint64_t k)
{
    return is_root(shm) ? copy_mine(shm, k, WHOLE) : HETCCL_OK;
}

const struct hetccl_shm_method hetccl_shm_method_scatter = {scatter_write, scatter_read, scatter_finish};

static enum hetccl_status alltoall_read(struct hetccl_shm_engine *shm, uint64_t k, uint32_t peer,
                                        const uint8_t *payload)
{
    return read_window(shm, peer, k, WHOLE, payload + hetccl_shm_section_bytes(shm, shm->base.island_rank));
}

static enum hetccl_status alltoall_finish(struct hetccl_shm_engine *shm, uint64_t k)
{
    return copy_mine(shm, k, OWN);
}

const struct hetccl_shm_method hetccl_shm_method_alltoall = {hetccl_shm_write_sections, alltoall_read,
                                                             alltoall_finish};
