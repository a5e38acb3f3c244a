/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bridge kernel: executes one rank's program (program.h) while the other ranks execute theirs.
 *
 * Blocks have roles. Local blocks walk the COPY and COMBINE operations in order, each taking its share of the
 * pieces; send blocks walk the SENDs of their lanes. So a message that can't leave yet holds up no other
 * lane and no receiver. That is also why nobody waits in a circle: consider the earliest unfinished COMBINE
 * of all ranks, in the order in which the plans list their steps. The messages that it waits for were sent by
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

/* What a thread needs of the arguments: taken out of them one by one, as they are only fast to reach where
 * nothing points to them. */
struct state {
    unsigned char *buffers[HETCCL_BRIDGE_BUFFERS];
    const struct hetccl_bridge_op *ops;
    const struct hetccl_bridge_input *inputs;
    const struct hetccl_bridge_dep *deps;
    const struct hetccl_bridge_send_lane *send_lanes;
    const struct hetccl_ring_view *recv_lanes;
    uint32_t *counters;
    struct hetccl_bridge_control *control;
    struct hetccl_scale scale, one;
    uint32_t n_ops, n_local, n_send_lanes, n_local_blocks, n_send_blocks, lane_blocks;
    uint32_t tag, red, type, element_bytes;
    uint32_t n_ended; /* launches before this one */
};

/* Asked by those who have waited for long, which the host is told: it looks after them. */
HETCCL_KERNEL_INLINE int is_stopped(const struct state *s)
{
    flag_store_relaxed(&s->control->n_waiting, s->n_ended + 1);
    return flag_load_relaxed(&s->control->stop) != 0;
}

/* A slot's word. */
HETCCL_KERNEL_INLINE uint32_t *slot_word(const struct hetccl_ring_view *ring, uint32_t piece)
{
    return ring->words + (uint64_t)(piece % HETCCL_RING_SLOTS) * HETCCL_RING_WORD_STRIDE;
}

HETCCL_KERNEL_INLINE unsigned char *slot_data(const struct hetccl_ring_view *ring, uint32_t piece)
{
    return ring->data + (piece % HETCCL_RING_SLOTS) * ring->slot_bytes;
}

HETCCL_KERNEL_INLINE unsigned char *memory_at(const struct state *s, uint32_t buffer, uint64_t offset)
{
    return s->buffers[buffer] + offset;
}

HETCCL_KERNEL_INLINE uint64_t piece_count(const struct hetccl_bridge_op *op, uint32_t piece)
{
    uint64_t first = (uint64_t)piece * op->piece_count;

    return op->count - first < op->piece_count ? op->count - first : op->piece_count;
}

/* A program that came with the launch, brought to where all threads of the block reach it fast. */
#if defined(__NVPTX__) || defined(__AMDGCN__)

static __attribute__((address_space(3), loader_uninitialized, aligned(16)))
uint32_t program_words[HETCCL_BRIDGE_INLINE_WORDS];

HETCCL_KERNEL_INLINE const unsigned char *block_program(const uint32_t *words, uint32_t n_words)
{
    for (uint32_t i = grid_thread(); i < n_words; i += HETCCL_BLOCK_THREADS)
        program_words[i] = words[i];
    block_barrier();
    return (const unsigned char *)program_words;
}

#else

HETCCL_KERNEL_INLINE const unsigned char *block_program(const uint32_t *words, uint32_t n_words)
{
    (void)n_words;
    return (const unsigned char *)words;
}

#endif

/* ---- waiting; one thread ---- */

HETCCL_KERNEL_INLINE int are_deps_done(const struct state *s, const struct hetccl_bridge_op *op)
{
    for (uint32_t i = op->first_dep; i < op->first_dep + op->n_deps; i++) {
        const struct hetccl_bridge_dep *dep = &s->deps[i];

        if (flag_load_acquire(&s->counters[dep->op]) < dep->n_blocks)
            return 0;
    }
    return 1;
}

HETCCL_KERNEL_INLINE uint32_t wait_deps(const struct state *s, const struct hetccl_bridge_op *op)
{
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
    struct hetccl_bridge_control *control = s->control;

    control->lane = lane;
    control->seen = seen;
    control->expected = expected;
    flag_store_release(&control->error, 1);
    flag_store_release(&control->stop, 1);
    return STOP;
}

HETCCL_KERNEL_INLINE uint32_t wait_full(const struct state *s, uint32_t lane, uint32_t piece)
{
    uint32_t expected = hetccl_ring_mark(s->tag, piece);
    const uint32_t *word = slot_word(&s->recv_lanes[lane], piece);

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

    for (uint32_t i = 0; i < op->n_inputs && verdict == GO; i++) {
        const struct hetccl_bridge_input *input = &s->inputs[op->first_input + i];

        if (input->lane != HETCCL_BRIDGE_NO_LANE)
            verdict = wait_full(s, input->lane, input->first_piece + piece);
    }
    return verdict;
}

/* What was read from the slots has arrived, as it was used before the barrier: the order needs no fence. */
HETCCL_KERNEL_INLINE void release_inputs(const struct state *s, const struct hetccl_bridge_op *op,
                                         uint32_t piece)
{
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        const struct hetccl_bridge_input *input = &s->inputs[op->first_input + i];

        if (input->lane != HETCCL_BRIDGE_NO_LANE)
            flag_store_relaxed(slot_word(&s->recv_lanes[input->lane], input->first_piece + piece), 0);
    }
}

/* Ends with a barrier, so that the threads' writes are done before the block says so. */
HETCCL_KERNEL_INLINE void finish_op(const struct state *s, uint32_t op, int has_part)
{
    if (!has_part || !s->ops[op].is_watched)
        return;
    block_barrier();
    if (grid_thread() == 0)
        (void)count_one(&s->counters[op]);
}

/* ---- element work; all threads of a block ---- */

/* One body a type, however often it is used: the driver compiles them all when it loads the image. */
static __attribute__((noinline)) void block_reduce_int8(const struct hetccl_reduce_args *args)
{
    reduce(args, team_of_block(), HETCCL_INT8);
}

static __attribute__((noinline)) void block_reduce_uint8(const struct hetccl_reduce_args *args)
{
    reduce(args, team_of_block(), HETCCL_UINT8);
}

static __attribute__((noinline)) void block_reduce_int32(const struct hetccl_reduce_args *args)
{
    reduce(args, team_of_block(), HETCCL_INT32);
}

static __attribute__((noinline)) void block_reduce_uint32(const struct hetccl_reduce_args *args)
{
    reduce(args, team_of_block(), HETCCL_UINT32);
}

static __attribute__((noinline)) void block_reduce_int64(const struct hetccl_reduce_args *args)
{
    reduce(args, team_of_block(), HETCCL_INT64);
}

static __attribute__((noinline)) void block_reduce_uint64(const struct hetccl_reduce_args *args)
{
    reduce(args, team_of_block(), HETCCL_UINT64);
}

static __attribute__((noinline)) void block_reduce_float16(const struct hetccl_reduce_args *args)
{
    reduce(args, team_of_block(), HETCCL_FLOAT16);
}

static __attribute__((noinline)) void block_reduce_float32(const struct hetccl_reduce_args *args)
{
    reduce(args, team_of_block(), HETCCL_FLOAT32);
}

static __attribute__((noinline)) void block_reduce_float64(const struct hetccl_reduce_args *args)
{
    reduce(args, team_of_block(), HETCCL_FLOAT64);
}

static __attribute__((noinline)) void block_reduce_bfloat16(const struct hetccl_reduce_args *args)
{
    reduce(args, team_of_block(), HETCCL_BFLOAT16);
}

static __attribute__((noinline)) void block_reduce_float8_e4m3(const struct hetccl_reduce_args *args)
{
    reduce(args, team_of_block(), HETCCL_FLOAT8_E4M3);
}

static __attribute__((noinline)) void block_reduce_float8_e5m2(const struct hetccl_reduce_args *args)
{
    reduce(args, team_of_block(), HETCCL_FLOAT8_E5M2);
}

static __attribute__((noinline)) void block_reduce_float8_e4m3_fnuz(const struct hetccl_reduce_args *args)
{
    reduce(args, team_of_block(), HETCCL_FLOAT8_E4M3_FNUZ);
}

static __attribute__((noinline)) void block_reduce_float8_e5m2_fnuz(const struct hetccl_reduce_args *args)
{
    reduce(args, team_of_block(), HETCCL_FLOAT8_E5M2_FNUZ);
}

static __attribute__((noinline)) void block_move(const struct hetccl_copy_args *args)
{
    move(args, team_of_block());
}

typedef void block_reduce(const struct hetccl_reduce_args *args);

/* Called through a table: a compiler that put all of them into the kernel would take long and have few
 * registers left. */
static block_reduce *const block_reduces[HETCCL_TYPES] = {
    [HETCCL_INT8] = block_reduce_int8,
    [HETCCL_UINT8] = block_reduce_uint8,
    [HETCCL_INT32] = block_reduce_int32,
    [HETCCL_UINT32] = block_reduce_uint32,
    [HETCCL_INT64] = block_reduce_int64,
    [HETCCL_UINT64] = block_reduce_uint64,
    [HETCCL_FLOAT16] = block_reduce_float16,
    [HETCCL_FLOAT32] = block_reduce_float32,
    [HETCCL_FLOAT64] = block_reduce_float64,
    [HETCCL_BFLOAT16] = block_reduce_bfloat16,
    [HETCCL_FLOAT8_E4M3] = block_reduce_float8_e4m3,
    [HETCCL_FLOAT8_E5M2] = block_reduce_float8_e5m2,
    [HETCCL_FLOAT8_E4M3_FNUZ] = block_reduce_float8_e4m3_fnuz,
    [HETCCL_FLOAT8_E5M2_FNUZ] = block_reduce_float8_e5m2_fnuz,
};

/* One piece, whatever its operation: from n_srcs sources to dst. */
HETCCL_KERNEL_INLINE void work(const struct state *s, const struct hetccl_reduce_args *piece)
{
    struct hetccl_copy_args copy = {
        .dst = piece->dst, .src = piece->srcs[0], .bytes = piece->count * s->element_bytes};

    if (piece->n_srcs == 1 && !piece->is_scaled)
        block_move(&copy);
    else
        block_reduces[s->type](piece);
}

HETCCL_KERNEL_INLINE const unsigned char *input_memory(const struct state *s,
                                                       const struct hetccl_bridge_input *input,
                                                       uint32_t piece, uint64_t first_byte)
{
    if (input->lane == HETCCL_BRIDGE_NO_LANE)
        return memory_at(s, input->buffer, input->offset + first_byte);
    return slot_data(&s->recv_lanes[input->lane], input->first_piece + piece);
}

HETCCL_KERNEL_INLINE uint64_t first_byte_of(const struct state *s, const struct hetccl_bridge_op *op,
                                            uint32_t piece)
{
    return (uint64_t)piece * op->piece_count * s->element_bytes;
}

/* COPY and SEND have one source, COMBINE has its inputs. */
HETCCL_KERNEL_INLINE void fill_sources(const struct state *s, const struct hetccl_bridge_op *op,
                                       uint32_t piece, struct hetccl_reduce_args *out)
{
    uint64_t first_byte = first_byte_of(s, op, piece);
    const struct hetccl_bridge_input *inputs = &s->inputs[op->first_input];

    out->count = piece_count(op, piece);
    out->red = s->red;
    out->is_scaled = op->is_raw;
    if (op->kind != HETCCL_BRIDGE_COMBINE) {
        out->n_srcs = 1;
        out->srcs[0] = memory_at(s, op->src_buffer, op->src_offset + first_byte);
        out->scales[0] = s->scale;
        return;
    }
    out->n_srcs = op->n_inputs;
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        out->srcs[i] = input_memory(s, &inputs[i], piece, first_byte);
        out->scales[i] = inputs[i].is_raw ? s->scale : s->one;
    }
}

/* ---- the roles ---- */

HETCCL_KERNEL_INLINE uint32_t local_piece(const struct state *s, const struct hetccl_bridge_op *op,
                                          uint32_t piece, struct hetccl_reduce_args *place)
{
    uint32_t verdict = GO;

    if (op->kind == HETCCL_BRIDGE_COMBINE) {
        if (grid_thread() == 0)
            verdict = wait_inputs(s, op, piece);
        verdict = block_broadcast(verdict);
    }
    if (verdict != GO)
        return verdict;
    fill_sources(s, op, piece, place);
    place->dst = memory_at(s, op->dst_buffer, op->dst_offset + first_byte_of(s, op, piece));
    work(s, place);
    if (op->kind == HETCCL_BRIDGE_COMBINE) {
        block_barrier();
        if (grid_thread() == 0)
            release_inputs(s, op, piece);
    }
    return GO;
}

/* Blocks take turns at being the first of an operation, so that many small ones go side by side. */
HETCCL_KERNEL_INLINE void run_local(const struct state *s, uint32_t block, struct hetccl_reduce_args *place)
{
    uint32_t n_blocks = s->n_local_blocks, turn = 0;

    for (uint32_t i = 0; i < s->n_local; i++) {
        const struct hetccl_bridge_op *op = &s->ops[i];
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
        for (uint32_t piece = first; piece < op->n_pieces && verdict == GO; piece += n_blocks)
            verdict = local_piece(s, op, piece, place);
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
    for (uint32_t polls = 0; polls < POLLS_BETWEEN_STOPS; polls++) {
        if (are_deps_done(s, op) && flag_load_acquire(slot_word(&lane->ring, op->first_piece + piece)) == 0)
            return GO;
        kernel_pause();
        if (s->n_send_lanes > s->n_send_blocks)
            break;
    }
    return is_stopped(s) ? STOP : NOT_YET;
}

HETCCL_KERNEL_INLINE void send_piece(const struct state *s, const struct hetccl_bridge_send_lane *lane,
                                     const struct hetccl_bridge_op *op, uint32_t piece,
                                     struct hetccl_reduce_args *place)
{
    uint32_t number = op->first_piece + piece;

    fill_sources(s, op, piece, place);
    place->dst = slot_data(&lane->ring, number);
    work(s, place);
    block_barrier();
    if (grid_thread() == 0) {
        flag_store_relaxed(slot_word(&lane->ring, number) + 1, (uint32_t)place->count * s->element_bytes);
        flag_store_release(slot_word(&lane->ring, number), hetccl_ring_mark(s->tag, number));
    }
}

/* One piece of the lane if it can go now. NOT_YET also when the lane is through; *n_left counts those that
 * aren't. */
HETCCL_KERNEL_INLINE uint32_t try_lane(const struct state *s, const struct hetccl_bridge_send_lane *lane,
                                       struct cursor *at, uint32_t share, uint32_t *n_left,
                                       struct hetccl_reduce_args *place)
{
    uint32_t lane_blocks = s->lane_blocks, verdict = NOT_YET;
    const struct hetccl_bridge_op *op;
    uint32_t piece;

    for (;; at->op++, at->piece = 0) {
        if (at->op == lane->n_ops)
            return NOT_YET;
        op = &s->ops[lane->first_op + at->op];
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
        send_piece(s, lane, op, piece, place);
        at->piece = piece + 1;
    }
    return verdict;
}

HETCCL_KERNEL_INLINE void run_sends(const struct state *s, uint32_t block, struct hetccl_reduce_args *place)
{
    uint32_t lane_blocks = s->lane_blocks;
    uint32_t first = block / lane_blocks, share = block % lane_blocks;
    uint32_t stride = s->n_send_blocks / lane_blocks, n_left = 1;
    struct cursor at[HETCCL_BRIDGE_MAX_LANES_PER_BLOCK];

    for (uint32_t i = 0; i < HETCCL_BRIDGE_MAX_LANES_PER_BLOCK; i++) {
        at[i].op = 0;
        at[i].piece = 0;
    }
    while (n_left > 0) {
        n_left = 0;
        for (uint32_t lane = first, i = 0; lane < s->n_send_lanes; lane += stride, i++) {
            if (try_lane(s, &s->send_lanes[lane], &at[i], share, &n_left, place) == STOP)
                return;
        }
    }
}

/* The last block out puts the counters back to 0 for the next launch of the program, and tells the host. */
HETCCL_KERNEL_INLINE void leave(const struct state *s, struct hetccl_bridge_memory *memory, uint32_t number)
{
    block_barrier();
    if (grid_thread() != 0 || count_one(&memory->n_blocks_out) + 1 < s->n_local_blocks + s->n_send_blocks)
        return;
    for (uint32_t i = 0; s->counters != 0 && i < s->n_ops; i++)
        flag_store_relaxed(&s->counters[i], 0);
    memory->n_blocks_out = 0;
    memory->n_ended = s->n_ended + 1;
    if (number != 0)
        flag_store_relaxed(&s->control->last_ended, number);
    flag_store_relaxed(&s->control->n_ended, s->n_ended + 1);
}

HETCCL_KERNEL_ENTRY void hetccl_bridge(struct hetccl_bridge_args args)
{
    struct hetccl_reduce_args place; /* of whatever piece is being worked on */
    const unsigned char *program = args.program;
    struct state s;

    if (program == 0)
        program = block_program(args.inline_words, (args.layout.bytes + 3) / 4);
    for (uint32_t i = 0; i < HETCCL_BRIDGE_BUFFERS; i++)
        s.buffers[i] = args.buffers[i];
    s.ops = (const struct hetccl_bridge_op *)(const void *)(program + args.layout.ops);
    s.inputs = (const struct hetccl_bridge_input *)(const void *)(program + args.layout.inputs);
    s.deps = (const struct hetccl_bridge_dep *)(const void *)(program + args.layout.deps);
    s.send_lanes = (const struct hetccl_bridge_send_lane *)(const void *)(program + args.layout.send_lanes);
    s.recv_lanes = (const struct hetccl_ring_view *)(const void *)(program + args.layout.recv_lanes);
    s.counters = args.counters;
    s.control = args.control;
    s.scale = args.scale;
    s.one = args.one;
    s.n_ops = args.n_ops;
    s.n_local = args.n_local;
    s.n_send_lanes = args.n_send_lanes;
    s.n_local_blocks = args.n_local_blocks;
    s.n_send_blocks = args.n_send_blocks;
    s.lane_blocks = args.lane_blocks;
    s.tag = args.tag;
    s.red = args.red;
    s.type = args.type;
    s.element_bytes = type_bytes((enum hetccl_type)args.type);
    if (args.scale_pointer != 0)
        s.scale.bits = element_load(args.scale_pointer, 0, s.element_bytes);
    s.n_ended = args.memory->n_ended;
    if (grid_block() < s.n_local_blocks)
        run_local(&s, grid_block(), &place);
    else
        run_sends(&s, grid_block() - s.n_local_blocks, &place);
    leave(&s, args.memory, args.number);
}
