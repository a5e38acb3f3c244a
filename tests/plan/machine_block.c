/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "machine_state.h"

/* ---- whose piece comes next: as run_local(), own_piece() and run_lane() of the kernel ---- */

static void seek_local(const struct hetccl_program *program, struct block *b)
{
    uint32_t n_blocks = program->n_local_blocks;

    for (; b->op < b->end; b->op++) {
        uint32_t n_pieces = program->ops[b->op].n_pieces;
        uint32_t first = b->share >= b->turn ? b->share - b->turn : b->share + n_blocks - b->turn;

        b->turn = n_blocks > 1 ? (b->turn + n_pieces) % n_blocks : 0;
        b->piece = first;
        if (first < n_pieces)
            return;
    }
}

static void seek_send(const struct hetccl_program *program, struct block *b)
{
    for (; b->op < b->end; b->op++) {
        const struct hetccl_bridge_op *op = &program->ops[b->op];

        b->piece = (b->share - op->first_piece) & (program->lane_blocks - 1);
        if (b->piece < op->n_pieces)
            return;
    }
}

static void seek(const struct hetccl_program *program, struct block *b)
{
    b->has_deps = false;
    if (b->is_send)
        seek_send(program, b);
    else
        seek_local(program, b);
}

bool machine_block_begin(const struct machine *m, struct block *b)
{
    const struct hetccl_program *program = machine_program(m, b);

    b->op = b->is_send ? program->send_lanes[b->lane].first_op : 0;
    b->end = b->is_send ? b->op + program->send_lanes[b->lane].n_ops : program->n_local;
    seek(program, b);
    return b->op < b->end;
}

/* ---- waiting ---- */

static const struct hetccl_bridge_dep *find_missing_dep(const struct machine *m, const struct block *b)
{
    const struct hetccl_program *program = machine_program(m, b);
    const struct hetccl_bridge_op *op = &program->ops[b->op];

    for (uint32_t i = op->first_dep; i < op->first_dep + op->n_deps; i++)
        if (m->counters[b->rank][program->deps[i].op] < program->deps[i].n_blocks)
            return &program->deps[i];
    return NULL;
}

static bool wait_deps(struct machine *m, struct block *b)
{
    const struct hetccl_program *program = machine_program(m, b);
    const struct hetccl_bridge_op *op = &program->ops[b->op];

    if (!b->has_deps && find_missing_dep(m, b) != NULL)
        return false;
    for (uint32_t i = op->first_dep; m->races != NULL && !b->has_deps && i < op->first_dep + op->n_deps; i++)
        races_acquire(&m->races[b->rank], b->number, program->deps[i].op);
    b->has_deps = true;
    return true;
}

static struct ring *recv_ring(const struct machine *m, const struct block *b, uint32_t lane)
{
    return m->rings[machine_program(m, b)->recv_peers[lane] * m->args->n_ranks + b->rank];
}

static struct ring *send_ring(const struct machine *m, const struct block *b)
{
    return m->rings[b->rank * m->args->n_ranks + machine_program(m, b)->send_lanes[b->lane].peer];
}

static const struct hetccl_bridge_input *find_missing_input(const struct machine *m, const struct block *b)
{
    const struct hetccl_program *program = machine_program(m, b);
    const struct hetccl_bridge_op *op = &program->ops[b->op];

    for (uint32_t i = op->first_input; i < op->first_input + op->n_inputs; i++) {
        const struct hetccl_bridge_input *input = &program->inputs[i];
        uint32_t piece = input->first_piece + b->piece;

        if (input->lane != HETCCL_BRIDGE_NO_LANE &&
            recv_ring(m, b, input->lane)->words[piece % HETCCL_RING_SLOTS] !=
                hetccl_ring_mark(MACHINE_TAG, piece))
            return input;
    }
    return NULL;
}

static bool is_slot_free(const struct machine *m, const struct block *b)
{
    uint32_t piece = machine_program(m, b)->ops[b->op].first_piece + b->piece;

    return send_ring(m, b)->words[piece % HETCCL_RING_SLOTS] == 0;
}

void machine_block_describe(const struct machine *m, const struct block *b, char *text, size_t bytes)
{
    const struct hetccl_program *program = machine_program(m, b);
    const struct hetccl_bridge_dep *dep = find_missing_dep(m, b);
    const struct hetccl_bridge_input *input;
    int length =
        snprintf(text, bytes, "rank %u %s block %u, operation %u piece %u of %u, waits for ", b->rank,
                 b->is_send ? "send" : "local", b->number, b->op, b->piece, program->ops[b->op].n_pieces);

    if (length < 0 || (size_t)length >= bytes)
        return;
    text += length;
    bytes -= (size_t)length;
    if (!b->has_deps && dep != NULL) {
        snprintf(text, bytes, "operation %u, of which %u of %u blocks are through", dep->op,
                 m->counters[b->rank][dep->op], dep->n_blocks);
    } else if (b->is_send) {
        snprintf(text, bytes, "a slot to rank %u", program->send_lanes[b->lane].peer);
    } else {
        input = find_missing_input(m, b);
        snprintf(text, bytes, "ring piece %u of rank %u", input != NULL ? input->first_piece + b->piece : 0,
                 input != NULL ? program->recv_peers[input->lane] : b->rank);
    }
}

/* ---- the work ---- */

static enum hetccl_status fail(const struct block *b, const char *what)
{
    return hetccl_fail_quietly(HETCCL_ERR_INTERNAL, "rank %u operation %u piece %u: %s", b->rank, b->op,
                               b->piece, what);
}

static size_t piece_count(const struct hetccl_bridge_op *op, uint32_t piece)
{
    uint64_t first = (uint64_t)piece * op->piece_count;

    return (size_t)(op->count - first < op->piece_count ? op->count - first : op->piece_count);
}

/* The piece's cells in a buffer, first_out of the rank's memory. */
static enum hetccl_status find_cells(const struct machine *m, const struct block *b, uint32_t number,
                                     uint64_t offset_bytes, size_t *first_out)
{
    const struct hetccl_bridge_op *op = &machine_program(m, b)->ops[b->op];
    const struct memory_buffer *buffer = &m->args->memories[b->rank].buffers[number];
    uint64_t first = offset_bytes / ELEMENT_BYTES + (uint64_t)b->piece * op->piece_count;

    if (number >= HETCCL_BUFS || offset_bytes % ELEMENT_BYTES != 0 ||
        first + piece_count(op, b->piece) > buffer->count)
        return fail(b, "leaves its buffer");
    *first_out = buffer->start + (size_t)first;
    return HETCCL_OK;
}

static void add(struct machine *m, const uint32_t *values, size_t count, bool is_raw, bool is_first)
{
    for (size_t i = 0; i < count; i++)
        m->sums[i] = (is_first ? 0 : m->sums[i]) + values[i] * (is_raw ? MEMORY_SCALE : 1);
}

static enum hetccl_status add_memory(struct machine *m, const struct block *b, uint32_t buffer,
                                     uint64_t offset_bytes, bool is_raw, bool is_first)
{
    size_t first = 0, count = piece_count(&machine_program(m, b)->ops[b->op], b->piece);
    enum hetccl_status status = find_cells(m, b, buffer, offset_bytes, &first);

    if (status == HETCCL_OK && m->races != NULL)
        status = races_read(&m->races[b->rank], b->number, b->op, first, count);
    if (status == HETCCL_OK)
        add(m, m->args->memories[b->rank].cells + first, count, is_raw, is_first);
    return status;
}

static enum hetccl_status add_message(struct machine *m, const struct block *b,
                                      const struct hetccl_bridge_input *input, bool is_first)
{
    struct ring *ring = recv_ring(m, b, input->lane);
    uint32_t slot = (input->first_piece + b->piece) % HETCCL_RING_SLOTS;
    size_t count = piece_count(&machine_program(m, b)->ops[b->op], b->piece);

    if (ring->counts[slot] != count)
        return fail(b, "the sender's piece has another length");
    add(m, ring->data + slot * m->slot_count, count, input->is_raw != 0, is_first);
    return HETCCL_OK;
}

/* The piece's result in m->sums. */
static enum hetccl_status add_sources(struct machine *m, const struct block *b)
{
    const struct hetccl_program *program = machine_program(m, b);
    const struct hetccl_bridge_op *op = &program->ops[b->op];
    enum hetccl_status status = HETCCL_OK;

    if (b->piece * (uint64_t)op->piece_count >= op->count || piece_count(op, b->piece) > m->slot_count)
        return fail(b, "is empty, or doesn't fit into a slot");
    if (op->kind != HETCCL_BRIDGE_COMBINE)
        return add_memory(m, b, op->src_buffer, op->src_offset, op->is_raw, true);
    if (op->n_inputs == 0 || op->n_inputs > HETCCL_REDUCE_MAX_INPUTS)
        return fail(b, "has no inputs or too many");
    for (uint32_t i = 0; i < op->n_inputs && status == HETCCL_OK; i++) {
        const struct hetccl_bridge_input *input = &program->inputs[op->first_input + i];

        if (input->is_raw && !op->is_raw)
            return fail(b, "has an input to be scaled, but doesn't say so");
        if (input->lane == HETCCL_BRIDGE_NO_LANE)
            status = add_memory(m, b, input->buffer, input->offset, input->is_raw != 0, i == 0);
        else
            status = add_message(m, b, input, i == 0);
    }
    return status;
}

static void put_message(struct machine *m, const struct block *b)
{
    const struct hetccl_bridge_op *op = &machine_program(m, b)->ops[b->op];
    struct ring *ring = send_ring(m, b);
    uint32_t number = op->first_piece + b->piece, slot = number % HETCCL_RING_SLOTS;
    size_t count = piece_count(op, b->piece);

    for (size_t i = 0; i < count; i++)
        ring->data[slot * m->slot_count + i] = m->sums[i];
    ring->counts[slot] = (uint32_t)count;
    ring->words[slot] = hetccl_ring_mark(MACHINE_TAG, number);
}

static enum hetccl_status put_memory(struct machine *m, const struct block *b)
{
    const struct hetccl_bridge_op *op = &machine_program(m, b)->ops[b->op];
    size_t first = 0, count = piece_count(op, b->piece);
    enum hetccl_status status = find_cells(m, b, op->dst_buffer, op->dst_offset, &first);

    if (status == HETCCL_OK && m->races != NULL)
        status = races_write(&m->races[b->rank], b->number, b->op, first, count);
    for (size_t i = 0; i < count && status == HETCCL_OK; i++)
        m->args->memories[b->rank].cells[first + i] = m->sums[i];
    return status;
}

static void release_inputs(const struct machine *m, const struct block *b)
{
    const struct hetccl_program *program = machine_program(m, b);
    const struct hetccl_bridge_op *op = &program->ops[b->op];

    for (uint32_t i = op->first_input; i < op->first_input + op->n_inputs; i++)
        if (program->inputs[i].lane != HETCCL_BRIDGE_NO_LANE)
            recv_ring(m, b, program->inputs[i].lane)
                ->words[(program->inputs[i].first_piece + b->piece) % HETCCL_RING_SLOTS] = 0;
}

static void finish_op(struct machine *m, const struct block *b)
{
    if (!machine_program(m, b)->ops[b->op].is_watched)
        return;
    m->counters[b->rank][b->op]++;
    if (m->races != NULL)
        races_release(&m->races[b->rank], b->number, b->op);
}

/* In place, copies to where the data are touch nothing. */
static bool is_to_itself(const struct machine *m, const struct block *b)
{
    const struct hetccl_bridge_op *op = &machine_program(m, b)->ops[b->op];
    size_t src, dst;

    return op->kind == HETCCL_BRIDGE_COPY && !op->is_raw &&
           find_cells(m, b, op->src_buffer, op->src_offset, &src) == HETCCL_OK &&
           find_cells(m, b, op->dst_buffer, op->dst_offset, &dst) == HETCCL_OK && src == dst;
}

static enum hetccl_status do_piece(struct machine *m, const struct block *b)
{
    enum hetccl_status status = HETCCL_OK;

    if (is_to_itself(m, b))
        return HETCCL_OK;
    status = add_sources(m, b);
    if (status != HETCCL_OK)
        return status;
    if (b->is_send) {
        put_message(m, b);
        return HETCCL_OK;
    }
    status = put_memory(m, b);
    release_inputs(m, b);
    return status;
}

enum machine_progress machine_block_step(struct machine *m, struct block *b)
{
    const struct hetccl_program *program = machine_program(m, b);
    const struct hetccl_bridge_op *op = &program->ops[b->op];

    if ((op->kind == HETCCL_BRIDGE_SEND) != b->is_send)
        m->status = fail(b, "is in the wrong part of the program");
    if (m->status != HETCCL_OK || !wait_deps(m, b))
        return MACHINE_WAITS;
    if (b->is_send ? !is_slot_free(m, b) : find_missing_input(m, b) != NULL)
        return MACHINE_WAITS;
    m->status = do_piece(m, b);
    b->piece += b->is_send ? program->lane_blocks : program->n_local_blocks;
    if (b->piece < op->n_pieces)
        return MACHINE_MOVED;
    finish_op(m, b);
    b->op++;
    seek(program, b);
    return b->op < b->end ? MACHINE_MOVED : MACHINE_ENDED;
}
