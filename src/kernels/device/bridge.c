/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bridge kernel: executes one rank's program (program.h) while the other ranks execute theirs.
 *
 * Blocks have roles. Local blocks walk the COPY and COMBINE operations in order, each taking its share of the
 * pieces; send blocks walk the SENDs of their lanes. So a message that can't leave yet holds up no other
 * lane and no receiver. That is also why nobody waits in a circle: consider the earliest unfinished COMBINE of
 * all ranks, in the order in which the plans list their steps. The messages that it waits for were sent by
 * steps that are earlier still, so what those depend on is done, and the slots that they need are free, as
 * this rank took everything that came before through that lane.
 *
 * One thread a block waits and the others follow its word. Every wait ends when control->stop is set.
 */
#include "kernels/device/count.h"
#include "kernels/device/entries.h"
#include "kernels/device/move.h"
#include "kernels/device/reduction.h"
#include "kernels/device/sync.h"

enum verdict { NOT_YET, GO, STOP };

enum { POLLS_BETWEEN_STOPS = 64 };

struct state {
    const struct hetccl_bridge_args *args;
    struct hetccl_scale scale;
};

HETCCL_KERNEL_INLINE int is_stopped(const struct state *s)
{
    return flag_load_relaxed(&s->args->control->stop) != 0;
}

/* A slot's word. */
HETCCL_KERNEL_INLINE uint32_t *slot_word(uint32_t *words, uint32_t piece)
{
    return words + (uint64_t)(piece % HETCCL_RING_SLOTS) * HETCCL_RING_WORD_STRIDE;
}

HETCCL_KERNEL_INLINE unsigned char *slot_data(const struct hetccl_ring_view *ring, uint32_t piece)
{
    return ring->data + (piece % HETCCL_RING_SLOTS) * ring->slot_bytes;
}

HETCCL_KERNEL_INLINE unsigned char *memory_at(const struct state *s, uint32_t buffer, uint64_t offset)
{
    return (unsigned char *)s->args->buffers[buffer] + offset;
}

HETCCL_KERNEL_INLINE uint64_t piece_count(const struct hetccl_bridge_op *op, uint32_t piece)
{
    uint64_t first = (uint64_t)piece * op->piece_count;

    return op->count - first < op->piece_count ? op->count - first : op->piece_count;
}

/* ---- waiting; one thread ---- */

HETCCL_KERNEL_INLINE int are_deps_done(const struct state *s, const struct hetccl_bridge_op *op)
{
    HETCCL_KERNEL_ROLLED
    for (uint32_t i = op->first_dep; i < op->first_dep + op->n_deps; i++) {
        const struct hetccl_bridge_dep *dep = &s->args->deps[i];

        if (flag_load_acquire(&s->args->counters[dep->op]) < dep->n_blocks)
            return 0;
    }
    return 1;
}

HETCCL_KERNEL_INLINE uint32_t wait_deps(const struct state *s, const struct hetccl_bridge_op *op)
{
    HETCCL_KERNEL_ROLLED
    for (uint32_t polls = 1; !are_deps_done(s, op); polls++) {
        if (polls % POLLS_BETWEEN_STOPS == 0 && is_stopped(s))
            return STOP;
        kernel_pause();
    }
    return GO;
}

/* A piece with the right number but another tag belongs to another call: the ranks' calls differ. */
HETCCL_KERNEL_INLINE int is_foreign(uint32_t seen, uint32_t expected)
{
    return seen != 0 && seen != expected && (seen & 0xffff) == (expected & 0xffff);
}

HETCCL_KERNEL_INLINE uint32_t report_foreign(const struct state *s, uint32_t lane, uint32_t seen,
                                             uint32_t expected)
{
    struct hetccl_bridge_control *control = s->args->control;

    control->lane = lane;
    control->seen = seen;
    control->expected = expected;
    flag_store_release(&control->error, 1);
    flag_store_release(&control->stop, 1);
    return STOP;
}

HETCCL_KERNEL_INLINE uint32_t wait_full(const struct state *s, uint32_t lane, uint32_t piece)
{
    uint32_t expected = hetccl_ring_mark(s->args->tag, piece);
    const uint32_t *word = slot_word(s->args->recv_lanes[lane].full, piece);

    HETCCL_KERNEL_ROLLED
    for (uint32_t polls = 1;; polls++) {
        uint32_t seen = flag_load_acquire(word);

        if (seen == expected)
            return GO;
        if (is_foreign(seen, expected))
            return report_foreign(s, lane, seen, expected);
        if (polls % POLLS_BETWEEN_STOPS == 0 && is_stopped(s))
            return STOP;
        kernel_pause();
    }
}

HETCCL_KERNEL_INLINE uint32_t wait_inputs(const struct state *s, const struct hetccl_bridge_op *op,
                                          uint32_t piece)
{
    uint32_t verdict = GO;

    HETCCL_KERNEL_ROLLED
    for (uint32_t i = 0; i < op->n_inputs && verdict == GO; i++) {
        const struct hetccl_bridge_input *input = &s->args->inputs[op->first_input + i];

        if (input->lane != HETCCL_BRIDGE_NO_LANE)
            verdict = wait_full(s, input->lane, input->first_piece + piece);
    }
    return verdict;
}

HETCCL_KERNEL_INLINE void release_inputs(const struct state *s, const struct hetccl_bridge_op *op,
                                         uint32_t piece)
{
    HETCCL_KERNEL_ROLLED
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        const struct hetccl_bridge_input *input = &s->args->inputs[op->first_input + i];
        const struct hetccl_ring_view *ring = &s->args->recv_lanes[input->lane];

        if (input->lane == HETCCL_BRIDGE_NO_LANE)
            continue;
        flag_store_relaxed(slot_word(ring->full, input->first_piece + piece), 0);
        flag_store_release(slot_word(ring->free, input->first_piece + piece), 1);
    }
}

/* Ends with a barrier, so that the threads' writes are done before the block says so. */
HETCCL_KERNEL_INLINE void finish_op(const struct state *s, uint32_t op, int has_part)
{
    if (!has_part || !s->args->ops[op].is_watched)
        return;
    block_barrier();
    if (grid_thread() == 0)
        (void)count_one(&s->args->counters[op]);
}

/* ---- element work; all threads of a block ---- */

HETCCL_KERNEL_INLINE void move_scaled(const struct state *s, void *dst, const void *src, uint64_t count,
                                      uint32_t is_raw, enum hetccl_type type)
{
    struct hetccl_copy_args copy = {.dst = dst, .src = src, .bytes = count * type_bytes(type)};
    struct hetccl_reduce_args scaled;

    if (!is_raw) {
        move(&copy, team_of_block());
        return;
    }
    scaled.dst = dst;
    scaled.count = count;
    scaled.n_srcs = 1;
    scaled.red = HETCCL_SUM;
    scaled.is_scaled = 1;
    scaled.srcs[0] = src;
    scaled.scales[0] = s->scale;
    reduce(&scaled, team_of_block(), type);
}

HETCCL_KERNEL_INLINE const unsigned char *input_memory(const struct state *s,
                                                       const struct hetccl_bridge_input *input,
                                                       uint32_t piece, uint64_t first_byte)
{
    if (input->lane == HETCCL_BRIDGE_NO_LANE)
        return memory_at(s, input->buffer, input->offset + first_byte);
    return slot_data(&s->args->recv_lanes[input->lane], input->first_piece + piece);
}

HETCCL_KERNEL_INLINE void combine_piece(const struct state *s, const struct hetccl_bridge_op *op,
                                        uint32_t piece, enum hetccl_type type)
{
    uint64_t first_byte = (uint64_t)piece * op->piece_count * type_bytes(type);
    unsigned char *dst = memory_at(s, op->dst_buffer, op->dst_offset + first_byte);
    const struct hetccl_bridge_input *inputs = &s->args->inputs[op->first_input];
    struct hetccl_reduce_args all;

    if (op->n_inputs == 1) {
        move_scaled(s, dst, input_memory(s, &inputs[0], piece, first_byte), piece_count(op, piece),
                    inputs[0].is_raw, type);
        return;
    }
    all.dst = dst;
    all.count = piece_count(op, piece);
    all.n_srcs = op->n_inputs;
    all.red = s->args->red;
    all.is_scaled = op->is_raw;
    HETCCL_KERNEL_ROLLED
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        all.srcs[i] = input_memory(s, &inputs[i], piece, first_byte);
        all.scales[i] = inputs[i].is_raw ? s->scale : s->args->one;
    }
    reduce(&all, team_of_block(), type);
}

HETCCL_KERNEL_INLINE void copy_piece(const struct state *s, const struct hetccl_bridge_op *op, uint32_t piece,
                                     enum hetccl_type type)
{
    uint64_t first_byte = (uint64_t)piece * op->piece_count * type_bytes(type);

    move_scaled(s, memory_at(s, op->dst_buffer, op->dst_offset + first_byte),
                memory_at(s, op->src_buffer, op->src_offset + first_byte), piece_count(op, piece), op->is_raw,
                type);
}

/* ---- the roles ---- */

HETCCL_KERNEL_INLINE uint32_t local_piece(const struct state *s, const struct hetccl_bridge_op *op,
                                          uint32_t piece, enum hetccl_type type)
{
    uint32_t verdict = GO;

    if (op->kind == HETCCL_BRIDGE_COPY) {
        copy_piece(s, op, piece, type);
        return GO;
    }
    if (grid_thread() == 0)
        verdict = wait_inputs(s, op, piece);
    verdict = block_broadcast(verdict);
    if (verdict != GO)
        return verdict;
    combine_piece(s, op, piece, type);
    block_barrier();
    if (grid_thread() == 0)
        release_inputs(s, op, piece);
    return GO;
}

/* Blocks take turns at being the first of an operation, so that many small ones go side by side. */
HETCCL_KERNEL_INLINE void run_local(const struct state *s, uint32_t block, enum hetccl_type type)
{
    uint32_t n_blocks = s->args->n_local_blocks, turn = 0;

    HETCCL_KERNEL_ROLLED
    for (uint32_t i = 0; i < s->args->n_local; i++) {
        const struct hetccl_bridge_op *op = &s->args->ops[i];
        uint32_t first = (block + n_blocks - turn) % n_blocks;
        uint32_t verdict = GO;

        turn = (turn + op->n_pieces) % n_blocks;
        if (first >= op->n_pieces)
            continue;
        if (op->n_deps > 0) {
            if (grid_thread() == 0)
                verdict = wait_deps(s, op);
            verdict = block_broadcast(verdict);
        }
        HETCCL_KERNEL_ROLLED
        for (uint32_t piece = first; piece < op->n_pieces && verdict == GO; piece += n_blocks)
            verdict = local_piece(s, op, piece, type);
        if (verdict != GO)
            return;
        finish_op(s, i, 1);
    }
}

/* Where a block stands in one of its send lanes. */
struct cursor {
    uint32_t op;    /* among the lane's */
    uint32_t piece; /* of the operation */
};

/* The first piece of an operation, from `piece` on, that is this block's. */
HETCCL_KERNEL_INLINE uint32_t own_piece(const struct hetccl_bridge_op *op, uint32_t piece, uint32_t share,
                                        uint32_t lane_blocks)
{
    return piece + (share + lane_blocks - (op->first_piece + piece) % lane_blocks) % lane_blocks;
}

HETCCL_KERNEL_INLINE uint32_t may_send(const struct state *s, const struct hetccl_bridge_send_lane *lane,
                                       const struct hetccl_bridge_op *op, uint32_t piece)
{
    HETCCL_KERNEL_ROLLED
    for (uint32_t polls = 0; polls < POLLS_BETWEEN_STOPS; polls++) {
        if (are_deps_done(s, op) && flag_load_acquire(slot_word(lane->ring.free, op->first_piece + piece)) == 1)
            return GO;
        if (s->args->n_send_lanes > s->args->n_send_blocks)
            break;
        kernel_pause();
    }
    return is_stopped(s) ? STOP : NOT_YET;
}

HETCCL_KERNEL_INLINE void send_piece(const struct state *s, const struct hetccl_bridge_send_lane *lane,
                                     const struct hetccl_bridge_op *op, uint32_t piece, enum hetccl_type type)
{
    uint32_t number = op->first_piece + piece;
    uint64_t first_byte = (uint64_t)piece * op->piece_count * type_bytes(type);

    move_scaled(s, slot_data(&lane->ring, number), memory_at(s, op->src_buffer, op->src_offset + first_byte),
                piece_count(op, piece), op->is_raw, type);
    block_barrier();
    if (grid_thread() == 0) {
        flag_store_relaxed(slot_word(lane->ring.free, number), 0);
        flag_store_release(slot_word(lane->ring.full, number), hetccl_ring_mark(s->args->tag, number));
    }
}

/* One piece of the lane if it can go now. NOT_YET also when the lane is through; *n_left counts those that
 * aren't. */
HETCCL_KERNEL_INLINE uint32_t try_lane(const struct state *s, const struct hetccl_bridge_send_lane *lane,
                                       struct cursor *at, uint32_t share, uint32_t *n_left,
                                       enum hetccl_type type)
{
    uint32_t lane_blocks = s->args->lane_blocks, verdict = NOT_YET;
    const struct hetccl_bridge_op *op;
    uint32_t piece;

    HETCCL_KERNEL_ROLLED
    for (;; at->op++, at->piece = 0) {
        if (at->op == lane->n_ops)
            return NOT_YET;
        op = &s->args->ops[lane->first_op + at->op];
        piece = own_piece(op, at->piece, share, lane_blocks);
        if (piece < op->n_pieces)
            break;
        finish_op(s, lane->first_op + at->op, at->piece > 0);
    }
    at->piece = piece;
    *n_left += 1;
    if (grid_thread() == 0)
        verdict = may_send(s, lane, op, piece);
    verdict = block_broadcast(verdict);
    if (verdict == GO) {
        send_piece(s, lane, op, piece, type);
        at->piece = piece + 1;
    }
    return verdict;
}

HETCCL_KERNEL_INLINE void run_sends(const struct state *s, uint32_t block, enum hetccl_type type)
{
    uint32_t lane_blocks = s->args->lane_blocks;
    uint32_t first = block / lane_blocks, share = block % lane_blocks;
    uint32_t stride = s->args->n_send_blocks / lane_blocks, n_left = 1;
    struct cursor at[HETCCL_BRIDGE_MAX_LANES_PER_BLOCK];

    HETCCL_KERNEL_ROLLED
    for (uint32_t i = 0; i < HETCCL_BRIDGE_MAX_LANES_PER_BLOCK; i++) {
        at[i].op = 0;
        at[i].piece = 0;
    }
    HETCCL_KERNEL_ROLLED
    while (n_left > 0) {
        n_left = 0;
        HETCCL_KERNEL_ROLLED
        for (uint32_t lane = first, i = 0; lane < s->args->n_send_lanes; lane += stride, i++) {
            if (try_lane(s, &s->args->send_lanes[lane], &at[i], share, &n_left, type) == STOP)
                return;
        }
    }
}

/* The last block out puts the counters back to 0 for the next launch of the program. */
HETCCL_KERNEL_INLINE void leave(const struct hetccl_bridge_args *args)
{
    uint32_t n_blocks = args->n_local_blocks + args->n_send_blocks;

    if (args->counters == 0)
        return;
    block_barrier();
    if (grid_thread() != 0 || count_one(&args->counters[args->n_ops]) + 1 < n_blocks)
        return;
    HETCCL_KERNEL_ROLLED
    for (uint32_t i = 0; i <= args->n_ops; i++)
        flag_store_relaxed(&args->counters[i], 0);
}

HETCCL_KERNEL_INLINE void bridge(const struct hetccl_bridge_args *args, enum hetccl_type type)
{
    struct state s = {args, args->scale};
    uint32_t block = grid_block();

    if (args->scale_pointer != 0)
        s.scale.bits = element_load(args->scale_pointer, 0, type_bytes(type));
    if (block < args->n_local_blocks)
        run_local(&s, block, type);
    else
        run_sends(&s, block - args->n_local_blocks, type);
    leave(args);
}

HETCCL_KERNEL_ENTRY void hetccl_bridge_int8(struct hetccl_bridge_args args)
{
    bridge(&args, HETCCL_INT8);
}

HETCCL_KERNEL_ENTRY void hetccl_bridge_uint8(struct hetccl_bridge_args args)
{
    bridge(&args, HETCCL_UINT8);
}

HETCCL_KERNEL_ENTRY void hetccl_bridge_int32(struct hetccl_bridge_args args)
{
    bridge(&args, HETCCL_INT32);
}

HETCCL_KERNEL_ENTRY void hetccl_bridge_uint32(struct hetccl_bridge_args args)
{
    bridge(&args, HETCCL_UINT32);
}

HETCCL_KERNEL_ENTRY void hetccl_bridge_int64(struct hetccl_bridge_args args)
{
    bridge(&args, HETCCL_INT64);
}

HETCCL_KERNEL_ENTRY void hetccl_bridge_uint64(struct hetccl_bridge_args args)
{
    bridge(&args, HETCCL_UINT64);
}

HETCCL_KERNEL_ENTRY void hetccl_bridge_float16(struct hetccl_bridge_args args)
{
    bridge(&args, HETCCL_FLOAT16);
}

HETCCL_KERNEL_ENTRY void hetccl_bridge_float32(struct hetccl_bridge_args args)
{
    bridge(&args, HETCCL_FLOAT32);
}

HETCCL_KERNEL_ENTRY void hetccl_bridge_float64(struct hetccl_bridge_args args)
{
    bridge(&args, HETCCL_FLOAT64);
}

HETCCL_KERNEL_ENTRY void hetccl_bridge_bfloat16(struct hetccl_bridge_args args)
{
    bridge(&args, HETCCL_BFLOAT16);
}

HETCCL_KERNEL_ENTRY void hetccl_bridge_float8_e4m3(struct hetccl_bridge_args args)
{
    bridge(&args, HETCCL_FLOAT8_E4M3);
}

HETCCL_KERNEL_ENTRY void hetccl_bridge_float8_e5m2(struct hetccl_bridge_args args)
{
    bridge(&args, HETCCL_FLOAT8_E5M2);
}

HETCCL_KERNEL_ENTRY void hetccl_bridge_float8_e4m3_fnuz(struct hetccl_bridge_args args)
{
    bridge(&args, HETCCL_FLOAT8_E4M3_FNUZ);
}

HETCCL_KERNEL_ENTRY void hetccl_bridge_float8_e5m2_fnuz(struct hetccl_bridge_args args)
{
    bridge(&args, HETCCL_FLOAT8_E5M2_FNUZ);
}
