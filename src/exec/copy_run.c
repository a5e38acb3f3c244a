/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/copy_run.h"

#include "base/memory.h"
#include "kernels/device/args.h"

enum {
    COPY_BLOCKS_A_UNIT = 4,
    DIRECT_BYTES =
        64 * 1024, /* kernels read up to this from slots in host memory; more goes by copy engine */
};

/* ---- streams ---- */

static struct hetccl_stream stream_of(const struct hetccl_copy_run *run)
{
    return run->at == 0 ? run->call->stream : run->mover->bridge->copier->streams[run->at];
}

static enum hetccl_status is_host_memory(const struct hetccl_copy_run *run, const void *memory, bool *out)
{
    struct hetccl_pointer pointer;
    enum hetccl_status status = run->device->ops->classify(run->device, memory, &pointer);

    if (status == HETCCL_OK)
        *out = pointer.kind != HETCCL_POINTER_DEVICE;
    return status;
}

enum hetccl_status hetccl_copy_run_begin(struct hetccl_copy_run *run, struct hetccl_copy_mover *mover,
                                         const struct hetccl_copy_call *call)
{
    enum hetccl_status status = HETCCL_OK;

    run->mover = mover;
    run->call = call;
    run->device = mover->bridge->device;
    run->status = HETCCL_OK;
    run->at = 0;
    run->n_values = 0;
    run->one = hetccl_scale_one(call->type);
    for (uint32_t i = 0; i < HETCCL_BRIDGE_BUFFERS && status == HETCCL_OK; i++) {
        run->is_host_buffer[i] = false;
        if (call->buffers[i] != NULL)
            status = is_host_memory(run, call->buffers[i], &run->is_host_buffer[i]);
    }
    return status;
}

void hetccl_copy_run_flush(struct hetccl_copy_run *run)
{
    if (run->status == HETCCL_OK && run->n_values > 0)
        run->status =
            run->device->ops->stream_values(run->device, stream_of(run), run->values, run->n_values);
    run->n_values = 0;
}

void hetccl_copy_run_go_to(struct hetccl_copy_run *run, uint32_t stream)
{
    if (stream != run->at)
        hetccl_copy_run_flush(run);
    run->at = stream;
}

static void add_value(struct hetccl_copy_run *run, const struct hetccl_stream_value *value)
{
    if (run->n_values == HETCCL_COPY_MAX_VALUES)
        hetccl_copy_run_flush(run);
    run->values[run->n_values++] = *value;
}

void hetccl_copy_run_write(struct hetccl_copy_run *run, uint32_t *word, uint32_t value)
{
    add_value(run, &(struct hetccl_stream_value){.kind = HETCCL_VALUE_WRITE, .word = word, .value = value});
}

void hetccl_copy_run_record(struct hetccl_copy_run *run, uint32_t event)
{
    struct hetccl_copier *copier = run->mover->bridge->copier;

    hetccl_copy_run_flush(run);
    if (run->status == HETCCL_OK)
        run->status = run->device->ops->event_record(run->device, copier->events[event], stream_of(run));
}

void hetccl_copy_run_await(struct hetccl_copy_run *run, uint32_t event)
{
    struct hetccl_copier *copier = run->mover->bridge->copier;

    hetccl_copy_run_flush(run);
    if (run->status == HETCCL_OK)
        run->status = run->device->ops->stream_wait_event(run->device, stream_of(run), copier->events[event]);
}

/* ---- words ---- */

static uint32_t *slot_word(const struct hetccl_copy_ring *ring, uint32_t piece)
{
    return ring->view.words + (size_t)(piece % HETCCL_RING_SLOTS) * HETCCL_RING_WORD_STRIDE;
}

static void await_words(struct hetccl_copy_run *run, const struct hetccl_copy_ring *ring, uint32_t first,
                        uint32_t n, bool is_full)
{
    for (uint32_t piece = first; piece < first + n; piece++)
        add_value(run, &(struct hetccl_stream_value){
                           .kind = HETCCL_VALUE_WAIT_EQUAL,
                           .word = slot_word(ring, piece),
                           .value = is_full ? hetccl_ring_mark(run->call->tag, piece) : 0});
}

static void empty_slots(struct hetccl_copy_run *run, const struct hetccl_copy_ring *ring, uint32_t first,
                        uint32_t n)
{
    for (uint32_t piece = first; piece < first + n; piece++)
        hetccl_copy_run_write(run, slot_word(ring, piece), 0);
}

/* ---- bytes ---- */

/* Consecutive pieces in a ring, and memory for or of their bytes. */
struct span {
    const struct hetccl_copy_ring *ring;
    uint32_t first, n;
    size_t piece_bytes, bytes;
    unsigned char *memory;
    bool is_host; /* the memory */
};

/* Between two host memories the driver's copy blocks its caller. */
static enum hetccl_status copy_by_kernel(struct hetccl_copy_run *run, void *dst, const void *src,
                                         size_t bytes)
{
    struct hetccl_copy_args args = {
        .dst = dst,
        .src = src,
        .bytes = bytes,
        .n_blocks = hetccl_launch_blocks(bytes, run->device->n_units * COPY_BLOCKS_A_UNIT)};
    void *params[] = {&args};
    struct hetccl_launch launch = {.kernel = run->mover->bridge->copier->copy_kernel,
                                   .n_blocks = (unsigned)args.n_blocks,
                                   .block_threads = HETCCL_BLOCK_THREADS,
                                   .params = params};

    return run->device->ops->kernel_launch(run->device, stream_of(run), &launch);
}

static void copy(struct hetccl_copy_run *run, void *dst, const void *src, size_t bytes, bool are_both_host)
{
    hetccl_copy_run_flush(run);
    if (run->status != HETCCL_OK || bytes == 0)
        return;
    run->status = are_both_host ? copy_by_kernel(run, dst, src, bytes)
                                : run->device->ops->copy(run->device, stream_of(run), dst, src, bytes);
}

static void copy_rows(struct hetccl_copy_run *run, const struct hetccl_rows *rows)
{
    hetccl_copy_run_flush(run);
    if (run->status == HETCCL_OK)
        run->status = run->device->ops->copy_rows(run->device, stream_of(run), rows);
}

static unsigned char *slot_data(const struct hetccl_copy_ring *ring, uint32_t piece)
{
    return ring->view.data + (piece % HETCCL_RING_SLOTS) * ring->view.slot_bytes;
}

static bool is_contiguous(const struct span *span)
{
    return span->n == 1 || (span->piece_bytes == span->ring->view.slot_bytes &&
                            span->first % HETCCL_RING_SLOTS + span->n <= HETCCL_RING_SLOTS);
}

static void move_contiguous(struct hetccl_copy_run *run, const struct span *span, bool into_ring)
{
    unsigned char *slot = slot_data(span->ring, span->first);

    copy(run, into_ring ? slot : span->memory, into_ring ? span->memory : slot, span->bytes,
         span->is_host && span->ring->is_host);
}

/* The pieces but for the last, which may be shorter, as rows; slots don't go round in between. */
static void move_rows(struct hetccl_copy_run *run, const struct span *span, bool into_ring)
{
    size_t slot_bytes = span->ring->view.slot_bytes;
    unsigned char *slot = slot_data(span->ring, span->first);
    struct hetccl_rows rows = {.dst = into_ring ? slot : span->memory,
                               .src = into_ring ? span->memory : slot,
                               .dst_pitch = into_ring ? slot_bytes : span->piece_bytes,
                               .src_pitch = into_ring ? span->piece_bytes : slot_bytes,
                               .row_bytes = span->piece_bytes,
                               .n_rows = span->bytes / span->piece_bytes};
    struct span rest = *span;

    copy_rows(run, &rows);
    if (rows.n_rows == span->n)
        return;
    rest.first = span->first + (uint32_t)rows.n_rows;
    rest.n = 1;
    rest.memory += rows.n_rows * span->piece_bytes;
    rest.bytes -= rows.n_rows * span->piece_bytes;
    move_contiguous(run, &rest, into_ring);
}

static struct span part_of(const struct span *span, uint32_t first, uint32_t n)
{
    struct span part = *span;
    size_t start = first * span->piece_bytes;

    part.first = span->first + first;
    part.n = n;
    part.memory = span->memory + start;
    part.bytes = hetccl_min_size(span->bytes - start, n * span->piece_bytes);
    return part;
}

static void move(struct hetccl_copy_run *run, const struct span *span, bool into_ring)
{
    bool are_rows_slow = span->is_host && span->ring->is_host;
    uint32_t n;

    for (uint32_t done = 0; done < span->n; done += n) {
        uint32_t until_end = HETCCL_RING_SLOTS - (span->first + done) % HETCCL_RING_SLOTS;
        struct span part;

        n = span->n - done < until_end ? span->n - done : until_end;
        if (are_rows_slow && span->piece_bytes != span->ring->view.slot_bytes)
            n = 1;
        part = part_of(span, done, n);
        if (is_contiguous(&part))
            move_contiguous(run, &part, into_ring);
        else
            move_rows(run, &part, into_ring);
    }
}

/* ---- items ---- */

/* An item's operation, and the elements that it covers. */
struct work {
    const struct hetccl_copy_item *item;
    const struct hetccl_bridge_op *op;
    size_t first_byte, bytes;
    unsigned char *stage; /* of its stream; what of it is used already */
};

static unsigned char *memory_at(const struct hetccl_copy_run *run, uint32_t buffer, uint64_t offset)
{
    /* The base of groups of sends and receives is NULL, and their offsets are addresses. */
    return (unsigned char *)((uintptr_t)run->call->buffers[buffer] + offset);
}

static bool is_host(struct hetccl_copy_run *run, uint32_t buffer, const unsigned char *memory)
{
    bool is = run->is_host_buffer[buffer];

    if (run->call->buffers[buffer] == NULL && run->status == HETCCL_OK)
        run->status = is_host_memory(run, memory, &is);
    return is;
}

static unsigned char *stage_of(const struct hetccl_copy_run *run)
{
    const struct hetccl_copy_mover *mover = run->mover;
    uint32_t first_local = 1 + HETCCL_COPY_SEND_STREAMS;
    size_t local = mover->stage_bytes[HETCCL_COPY_STAGE_LOCAL];

    if (mover->stage == NULL)
        return NULL;
    if (run->at == 0)
        return mover->stage->memory;
    if (run->at >= first_local)
        return (unsigned char *)mover->stage->memory + (run->at - first_local) * local;
    return (unsigned char *)mover->stage->memory + HETCCL_COPY_LOCAL_STREAMS * local +
           (run->at - 1) * mover->stage_bytes[HETCCL_COPY_STAGE_SEND];
}

static struct work work_of(const struct hetccl_copy_run *run, const struct hetccl_copy_item *item)
{
    const struct hetccl_bridge_op *op = &run->mover->program->ops[item->op];
    uint64_t first = (uint64_t)item->first_piece * op->piece_count;
    uint64_t count = (uint64_t)item->n_pieces * op->piece_count;

    if (count > op->count - first)
        count = op->count - first;
    return (struct work){.item = item,
                         .op = op,
                         .first_byte = first * run->mover->elem_bytes,
                         .bytes = count * run->mover->elem_bytes,
                         .stage = stage_of(run)};
}

static void reduce(struct hetccl_copy_run *run, struct hetccl_reduce *reduction, size_t bytes)
{
    reduction->count = bytes / run->mover->elem_bytes;
    reduction->type = run->call->type;
    reduction->red = run->call->red;
    hetccl_copy_run_flush(run);
    if (run->status == HETCCL_OK)
        run->status = run->device->ops->reduce(run->device, stream_of(run), reduction);
}

static void scale(struct hetccl_copy_run *run, void *dst, const void *src, size_t bytes)
{
    struct hetccl_reduce reduction = {.dst = dst, .srcs = &src, .scales = &run->call->scale, .n_srcs = 1};

    reduce(run, &reduction, bytes);
}

static void mark(struct hetccl_copy_run *run, const struct span *span)
{
    for (uint32_t i = 0; i < span->n; i++)
        add_value(run,
                  &(struct hetccl_stream_value){.kind = HETCCL_VALUE_WRITE_PAIR,
                                                .word = slot_word(span->ring, span->first + i),
                                                .value = hetccl_ring_mark(run->call->tag, span->first + i),
                                                .second = (uint32_t)hetccl_min_size(
                                                    span->piece_bytes, span->bytes - i * span->piece_bytes)});
}

static void send(struct hetccl_copy_run *run, const struct work *work)
{
    const struct hetccl_bridge_op *op = work->op;
    unsigned char *src = memory_at(run, op->src_buffer, op->src_offset + work->first_byte);
    struct span span = {.ring = &run->mover->rings[work->item->lane],
                        .first = op->first_piece + work->item->first_piece,
                        .n = work->item->n_pieces,
                        .piece_bytes = op->piece_count * run->mover->elem_bytes,
                        .bytes = work->bytes,
                        .memory = src,
                        .is_host = is_host(run, op->src_buffer, src)};

    await_words(run, span.ring, span.first, span.n, false);
    if (op->is_raw && is_contiguous(&span)) {
        scale(run, slot_data(span.ring, span.first), src, span.bytes);
    } else {
        if (op->is_raw) {
            scale(run, work->stage, src, span.bytes);
            span.memory = work->stage;
            span.is_host = false;
        }
        move(run, &span, true);
    }
    mark(run, &span);
}

static struct span input_span(const struct hetccl_copy_run *run, const struct work *work,
                              const struct hetccl_bridge_input *input)
{
    return (struct span){
        .ring = &run->mover->rings[run->mover->program->n_send_lanes + input->lane],
        .first = input->first_piece + work->item->first_piece,
        .n = work->item->n_pieces,
        .piece_bytes = work->op->piece_count * run->mover->elem_bytes,
        .bytes = work->bytes,
    };
}

/* Where a reduction reads an input's message: in its slots, or, where they lie apart or far, where copies
 * have put it; then the slots are free at once. */
static const void *gather(struct hetccl_copy_run *run, struct work *work, struct span *span)
{
    if (is_contiguous(span) && (!span->ring->is_host || span->bytes <= DIRECT_BYTES))
        return slot_data(span->ring, span->first);
    span->memory = work->stage;
    work->stage += hetccl_round_up(span->bytes, HETCCL_COPY_STAGE_ALIGNMENT);
    move(run, span, false);
    empty_slots(run, span->ring, span->first, span->n);
    return span->memory;
}

static void take_one(struct hetccl_copy_run *run, const struct work *work,
                     const struct hetccl_bridge_input *input, unsigned char *dst)
{
    struct span span = input_span(run, work, input);

    span.memory = dst;
    span.is_host = is_host(run, work->op->dst_buffer, dst);
    move(run, &span, false);
    empty_slots(run, span.ring, span.first, span.n);
}

static void take_all(struct hetccl_copy_run *run, struct work *work, const struct hetccl_bridge_input *inputs,
                     unsigned char *dst)
{
    const void *srcs[HETCCL_REDUCE_MAX_INPUTS];
    struct hetccl_scale scales[HETCCL_REDUCE_MAX_INPUTS];
    struct span in_slots[HETCCL_REDUCE_MAX_INPUTS];
    struct hetccl_reduce reduction = {.dst = dst, .srcs = srcs, .n_srcs = work->op->n_inputs};
    uint32_t n_in_slots = 0;

    for (uint32_t i = 0; i < work->op->n_inputs; i++) {
        scales[i] = inputs[i].is_raw ? run->call->scale : run->one;
        if (inputs[i].lane == HETCCL_BRIDGE_NO_LANE) {
            srcs[i] = memory_at(run, inputs[i].buffer, inputs[i].offset + work->first_byte);
            continue;
        }
        in_slots[n_in_slots] = input_span(run, work, &inputs[i]);
        srcs[i] = gather(run, work, &in_slots[n_in_slots]);
        n_in_slots += in_slots[n_in_slots].memory == NULL;
    }
    if (work->op->is_raw)
        reduction.scales = scales;
    reduce(run, &reduction, work->bytes);
    for (uint32_t i = 0; i < n_in_slots; i++)
        empty_slots(run, in_slots[i].ring, in_slots[i].first, in_slots[i].n);
}

static void combine(struct hetccl_copy_run *run, struct work *work)
{
    const struct hetccl_bridge_op *op = work->op;
    const struct hetccl_bridge_input *inputs = &run->mover->program->inputs[op->first_input];
    unsigned char *dst = memory_at(run, op->dst_buffer, op->dst_offset + work->first_byte);

    for (uint32_t i = 0; i < op->n_inputs; i++) {
        struct span span;

        if (inputs[i].lane == HETCCL_BRIDGE_NO_LANE)
            continue;
        span = input_span(run, work, &inputs[i]);
        await_words(run, span.ring, span.first, span.n, true);
    }
    if (op->n_inputs == 1 && inputs[0].lane != HETCCL_BRIDGE_NO_LANE && !op->is_raw)
        take_one(run, work, &inputs[0], dst);
    else
        take_all(run, work, inputs, dst);
}

static void copy_locally(struct hetccl_copy_run *run, const struct work *work)
{
    const struct hetccl_bridge_op *op = work->op;
    unsigned char *dst = memory_at(run, op->dst_buffer, op->dst_offset + work->first_byte);
    unsigned char *src = memory_at(run, op->src_buffer, op->src_offset + work->first_byte);

    if (op->is_raw)
        scale(run, dst, src, work->bytes);
    else if (dst != src)
        copy(run, dst, src, work->bytes,
             is_host(run, op->dst_buffer, dst) && is_host(run, op->src_buffer, src));
}

void hetccl_copy_run_item(struct hetccl_copy_run *run, const struct hetccl_copy_item *item)
{
    struct work work = work_of(run, item);

    if (work.op->kind == HETCCL_BRIDGE_SEND)
        send(run, &work);
    else if (work.op->kind == HETCCL_BRIDGE_COMBINE)
        combine(run, &work);
    else
        copy_locally(run, &work);
}
