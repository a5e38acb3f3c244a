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

typedef void block_function(const struct hetccl_reduce_args *piece);

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
    struct hetccl_bridge_memory *memory;
    block_function *reduce; /* of the call's type */
};

/* Asked by those who have waited for long, which the host is told: it looks after them. */
HETCCL_KERNEL_INLINE int is_stopped(const struct state *s)
{
    flag_store_relaxed(&s->control->n_waiting, s->memory->n_ended + 1);
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
        kernel_pause(polls);
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
        kernel_pause(polls);
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

/*
 * Little data: an element a thread, its sources read four at a time. Calling the reduction of a type costs
 * more than the work does then.
 */
enum { LITTLE_COUNT = HETCCL_BLOCK_THREADS };

HETCCL_KERNEL_INLINE uint64_t scaled_bits(const struct hetccl_reduce_args *args, uint32_t k, uint64_t bits,
                                          enum hetccl_type type)
{
    if (!args->is_scaled)
        return type_bytes(type) == 8 ? bits : word_decode((uint32_t)bits, type);
    if (type_bytes(type) == 8)
        return word_combine_64(bits, args->scales[k].bits, type, HETCCL_PROD);
    return word_combine(word_decode((uint32_t)bits, type), word_decode((uint32_t)args->scales[k].bits, type),
                        type, HETCCL_PROD);
}

HETCCL_KERNEL_INLINE uint64_t combined_bits(uint64_t sum, uint64_t next, uint32_t red, enum hetccl_type type)
{
    if (type_bytes(type) == 8)
        return word_combine_64(sum, next, type, (enum hetccl_red)red);
    return word_combine((uint32_t)sum, (uint32_t)next, type, (enum hetccl_red)red);
}

HETCCL_KERNEL_INLINE void reduce_little(const struct hetccl_reduce_args *args, enum hetccl_type type)
{
    enum { AT_ONCE = 4 };
    uint64_t sum = 0;

    if (grid_thread() >= args->count)
        return;
    for (uint32_t first = 0; first < args->n_srcs; first += AT_ONCE) {
        uint64_t bits[AT_ONCE] = {0};

        HETCCL_KERNEL_UNROLL
        for (uint32_t k = 0; k < AT_ONCE; k++)
            if (first + k < args->n_srcs)
                bits[k] = element_load(args->srcs[first + k], grid_thread(), type_bytes(type));
        HETCCL_KERNEL_UNROLL
        for (uint32_t k = 0; k < AT_ONCE; k++) {
            if (first + k >= args->n_srcs)
                break;
            bits[k] = scaled_bits(args, first + k, bits[k], type);
            sum = first + k == 0 ? bits[k] : combined_bits(sum, bits[k], args->red, type);
        }
    }
    element_store(args->dst, grid_thread(), type_bytes(type),
                  type_bytes(type) == 8 ? sum : word_encode((uint32_t)sum, type));
}

HETCCL_KERNEL_INLINE void block_reduce(const struct hetccl_reduce_args *piece, enum hetccl_type type)
{
    if (piece->count <= LITTLE_COUNT)
        reduce_little(piece, type);
    else
        reduce(piece, team_of_block(), type);
}

static __attribute__((noinline)) void block_reduce_int8(const struct hetccl_reduce_args *piece)
{
    block_reduce(piece, HETCCL_INT8);
}

static __attribute__((noinline)) void block_reduce_uint8(const struct hetccl_reduce_args *piece)
{
    block_reduce(piece, HETCCL_UINT8);
}

static __attribute__((noinline)) void block_reduce_int32(const struct hetccl_reduce_args *piece)
{
    block_reduce(piece, HETCCL_INT32);
}

static __attribute__((noinline)) void block_reduce_uint32(const struct hetccl_reduce_args *piece)
{
    block_reduce(piece, HETCCL_UINT32);
}

static __attribute__((noinline)) void block_reduce_int64(const struct hetccl_reduce_args *piece)
{
    block_reduce(piece, HETCCL_INT64);
}

static __attribute__((noinline)) void block_reduce_uint64(const struct hetccl_reduce_args *piece)
{
    block_reduce(piece, HETCCL_UINT64);
}

static __attribute__((noinline)) void block_reduce_float16(const struct hetccl_reduce_args *piece)
{
    block_reduce(piece, HETCCL_FLOAT16);
}

static __attribute__((noinline)) void block_reduce_float32(const struct hetccl_reduce_args *piece)
{
    block_reduce(piece, HETCCL_FLOAT32);
}

static __attribute__((noinline)) void block_reduce_float64(const struct hetccl_reduce_args *piece)
{
    block_reduce(piece, HETCCL_FLOAT64);
}

static __attribute__((noinline)) void block_reduce_bfloat16(const struct hetccl_reduce_args *piece)
{
    block_reduce(piece, HETCCL_BFLOAT16);
}

static __attribute__((noinline)) void block_reduce_float8_e4m3(const struct hetccl_reduce_args *piece)
{
    block_reduce(piece, HETCCL_FLOAT8_E4M3);
}

static __attribute__((noinline)) void block_reduce_float8_e5m2(const struct hetccl_reduce_args *piece)
{
    block_reduce(piece, HETCCL_FLOAT8_E5M2);
}

static __attribute__((noinline)) void block_reduce_float8_e4m3_fnuz(const struct hetccl_reduce_args *piece)
{
    block_reduce(piece, HETCCL_FLOAT8_E4M3_FNUZ);
}

static __attribute__((noinline)) void block_reduce_float8_e5m2_fnuz(const struct hetccl_reduce_args *piece)
{
    block_reduce(piece, HETCCL_FLOAT8_E5M2_FNUZ);
}

/* Called through a table: a compiler that put all of them into the kernel, which the driver does when it
 * loads the image, would take long and have few registers left. */
static block_function *const block_functions[HETCCL_TYPES] = {
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

    if (piece->n_srcs != 1 || piece->is_scaled)
        s->reduce(piece);
    else if (copy.dst != copy.src) /* the call is in place: others may be reading it */
        move(&copy, team_of_block());
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
        uint32_t first = block >= turn ? block - turn : block + n_blocks - turn;
        uint32_t verdict = GO;

        turn = n_blocks > 1 ? (turn + op->n_pieces) % n_blocks : 0;
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

/* The first piece of an operation, from `piece` on, that is this block's. lane_blocks is a power of two. */
HETCCL_KERNEL_INLINE uint32_t own_piece(const struct state *s, const struct hetccl_bridge_op *op,
                                        uint32_t piece, uint32_t share)
{
    return piece + ((share - op->first_piece - piece) & (s->lane_blocks - 1));
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

HETCCL_KERNEL_INLINE int is_free(const struct hetccl_bridge_send_lane *lane, uint32_t number)
{
    return flag_load_acquire(slot_word(&lane->ring, number)) == 0;
}

HETCCL_KERNEL_INLINE uint32_t wait_free(const struct state *s, const struct hetccl_bridge_send_lane *lane,
                                        uint32_t number)
{
    for (uint32_t polls = 1; !is_free(lane, number); polls++) {
        if (polls % POLLS_BETWEEN_STOPS == 0 && is_stopped(s))
            return STOP;
        kernel_pause(polls);
    }
    return GO;
}

/* A block that serves one lane. */
HETCCL_KERNEL_INLINE void run_lane(const struct state *s, const struct hetccl_bridge_send_lane *lane,
                                   uint32_t share, struct hetccl_reduce_args *place)
{
    for (uint32_t i = lane->first_op; i < lane->first_op + lane->n_ops; i++) {
        const struct hetccl_bridge_op *op = &s->ops[i];
        uint32_t first = own_piece(s, op, 0, share);

        for (uint32_t piece = first; piece < op->n_pieces; piece += s->lane_blocks) {
            uint32_t verdict = GO;

            if (grid_thread() == 0 && piece == first)
                verdict = wait_deps(s, op);
            if (grid_thread() == 0 && verdict == GO)
                verdict = wait_free(s, lane, op->first_piece + piece);
            if (block_broadcast(verdict) != GO)
                return;
            send_piece(s, lane, op, piece, place);
        }
        finish_op(s, i, first < op->n_pieces);
    }
}

/* Where a block that serves several lanes stands in one of them. */
struct cursor {
    uint32_t op;    /* among the lane's */
    uint32_t piece; /* of the operation */
    uint32_t n_tries;
};

HETCCL_KERNEL_INLINE uint32_t may_send(const struct state *s, const struct hetccl_bridge_send_lane *lane,
                                       const struct hetccl_bridge_op *op, const struct cursor *at)
{
    if (are_deps_done(s, op) && is_free(lane, op->first_piece + at->piece))
        return GO;
    kernel_pause(0);
    return at->n_tries % POLLS_BETWEEN_STOPS == 0 && is_stopped(s) ? STOP : NOT_YET;
}

/* One piece of the lane if it can go now. NOT_YET also when the lane is through; *n_left counts those that
 * aren't. A lane has one block here. */
HETCCL_KERNEL_INLINE uint32_t try_lane(const struct state *s, const struct hetccl_bridge_send_lane *lane,
                                       struct cursor *at, uint32_t *n_left, struct hetccl_reduce_args *place)
{
    const struct hetccl_bridge_op *op;
    uint32_t verdict = NOT_YET;

    if (at->op == lane->n_ops)
        return NOT_YET;
    *n_left += 1;
    op = &s->ops[lane->first_op + at->op];
    at->n_tries++;
    if (grid_thread() == 0)
        verdict = may_send(s, lane, op, at);
    verdict = block_broadcast(verdict);
    if (verdict != GO)
        return verdict;
    send_piece(s, lane, op, at->piece, place);
    if (++at->piece == op->n_pieces) {
        finish_op(s, lane->first_op + at->op, 1);
        at->op++;
        at->piece = 0;
    }
    return GO;
}

/* More lanes than blocks: each block goes round its lanes. */
HETCCL_KERNEL_INLINE void run_lanes(const struct state *s, uint32_t block, struct hetccl_reduce_args *place)
{
    struct cursor at[HETCCL_BRIDGE_MAX_LANES_PER_BLOCK];
    uint32_t n_left = 1;

    for (uint32_t i = 0; i < HETCCL_BRIDGE_MAX_LANES_PER_BLOCK; i++)
        at[i] = (struct cursor){0, 0, 0};
    while (n_left > 0) {
        n_left = 0;
        for (uint32_t lane = block, i = 0; lane < s->n_send_lanes; lane += s->n_send_blocks, i++)
            if (try_lane(s, &s->send_lanes[lane], &at[i], &n_left, place) == STOP)
                return;
    }
}

HETCCL_KERNEL_INLINE void run_sends(const struct state *s, uint32_t block, struct hetccl_reduce_args *place)
{
    if (s->n_send_lanes > s->n_send_blocks)
        run_lanes(s, block, place);
    else
        run_lane(s, &s->send_lanes[block / s->lane_blocks], block & (s->lane_blocks - 1), place);
}

/* The last block out puts the counters back to 0 for the next launch of the program, and tells the host. */
HETCCL_KERNEL_INLINE void leave(const struct state *s, uint32_t number)
{
    struct hetccl_bridge_memory *memory = s->memory;
    uint32_t n_ended = memory->n_ended + 1;

    block_barrier();
    if (grid_thread() != 0 || count_one(&memory->n_blocks_out) + 1 < s->n_local_blocks + s->n_send_blocks)
        return;
    for (uint32_t i = 0; s->counters != 0 && i < s->n_ops; i++)
        flag_store_relaxed(&s->counters[i], 0);
    memory->n_blocks_out = 0;
    memory->n_ended = n_ended;
    if (number != 0)
        flag_store_relaxed(&s->control->last_ended, number);
    flag_store_relaxed(&s->control->n_ended, n_ended);
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
    s.memory = args.memory;
    s.reduce = block_functions[args.type];
    if (grid_block() < s.n_local_blocks)
        run_local(&s, grid_block(), &place);
    else
        run_sends(&s, grid_block() - s.n_local_blocks, &place);
    leave(&s, args.number);
}
