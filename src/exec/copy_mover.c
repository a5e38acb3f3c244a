/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/copy_mover.h"

#include <string.h>

#include "base/memory.h"
#include "exec/copier.h"
#include "exec/copy_order.h"
#include "exec/copy_run.h"

/* Up to so many items and bytes, one stream after the other costs less than several at once. */
enum { IN_LINE_ITEMS = 8, IN_LINE_BYTES = 256 * 1024 };

/* ---- what it is made of ---- */

static uint32_t n_lanes(const struct hetccl_copy_mover *mover)
{
    return mover->program->n_send_lanes + mover->program->n_recv_lanes;
}

static void fill_rings(struct hetccl_copy_mover *mover, const struct hetccl_ring *const *rings)
{
    for (uint32_t i = 0; i < n_lanes(mover); i++) {
        bool is_send = i < mover->program->n_send_lanes;

        mover->rings[i] = (struct hetccl_copy_ring){
            .view = is_send ? rings[i]->send : rings[i]->recv,
            .host_words = is_send ? rings[i]->host_send_words : rings[i]->host_recv_words,
            .is_host = rings[i]->host_send_words != NULL,
        };
    }
}

static enum hetccl_status trace(struct hetccl_copy_mover *mover)
{
    const struct hetccl_program *program = mover->program;
    struct hetccl_copy_words *words;
    enum hetccl_status status = hetccl_alloc(n_lanes(mover), sizeof(*words), &words);

    if (status != HETCCL_OK)
        return status;
    for (uint32_t i = 0; i < n_lanes(mover); i++)
        words[i] = (struct hetccl_copy_words){.words = mover->rings[i].view.words,
                                              .host_words = mover->rings[i].host_words,
                                              .is_send = i < program->n_send_lanes};
    for (uint32_t i = 0; i < program->n_local; i++)
        for (uint32_t k = 0; k < program->ops[i].n_inputs; k++) {
            const struct hetccl_bridge_input *input = &program->inputs[program->ops[i].first_input + k];

            if (input->lane != HETCCL_BRIDGE_NO_LANE)
                words[program->n_send_lanes + input->lane].n_pieces =
                    input->first_piece + program->ops[i].n_pieces;
        }
    status = hetccl_copier_trace(mover->bridge->copier, words, n_lanes(mover),
                                 hetccl_bridge_last_ended(mover->bridge), &mover->trace);
    hetccl_free(words);
    return status;
}

/* ---- room for what lies apart in slots ---- */

static size_t staged_bytes(const struct hetccl_copy_mover *mover, const struct hetccl_bridge_op *op)
{
    size_t group = hetccl_min_size(op->n_pieces, HETCCL_COPY_MERGE) * (size_t)op->piece_count;
    size_t n_inputs = 0;

    if (op->kind == HETCCL_BRIDGE_SEND)
        n_inputs = op->is_raw;
    for (uint32_t i = 0; i < op->n_inputs; i++)
        n_inputs += mover->program->inputs[op->first_input + i].lane != HETCCL_BRIDGE_NO_LANE;
    if (op->n_inputs == 1 && !op->is_raw)
        n_inputs = 0;
    return hetccl_round_up(group * mover->elem_bytes, HETCCL_COPY_STAGE_ALIGNMENT) * n_inputs;
}

/* A place for each stream that may need one, as streams order its uses. */
static enum hetccl_status stage(struct hetccl_copy_mover *mover)
{
    const struct hetccl_program *program = mover->program;
    size_t local = 0, send = 0;

    for (uint32_t i = 0; i < program->n_ops; i++) {
        size_t bytes = staged_bytes(mover, &program->ops[i]);

        if (program->ops[i].kind == HETCCL_BRIDGE_SEND)
            send = hetccl_max_size(send, bytes);
        else
            local = hetccl_max_size(local, bytes);
    }
    if (mover->order.n_joins == 0)
        local = hetccl_max_size(local, send);
    mover->stage_bytes[HETCCL_COPY_STAGE_LOCAL] = local;
    mover->stage_bytes[HETCCL_COPY_STAGE_SEND] = send;
    if (local + send == 0)
        return HETCCL_OK;
    return hetccl_bridge_take(
        mover->bridge, HETCCL_COPY_LOCAL_STREAMS * local + HETCCL_COPY_SEND_STREAMS * send, &mover->stage);
}

/* ---- life ---- */

static bool is_small(const struct hetccl_copy_mover *mover)
{
    uint64_t n_items = 0, bytes = 0;

    for (uint32_t i = 0; i < mover->program->n_ops; i++) {
        n_items += (mover->program->ops[i].n_pieces + HETCCL_COPY_MERGE - 1) / HETCCL_COPY_MERGE;
        bytes += mover->program->ops[i].count * mover->elem_bytes;
    }
    return n_items <= IN_LINE_ITEMS && bytes <= IN_LINE_BYTES;
}

static enum hetccl_status build_order(struct hetccl_copy_mover *mover, enum hetccl_copy_layout layout,
                                      struct hetccl_copy_order *order)
{
    enum hetccl_status status = hetccl_copy_order_build(mover->program, layout, order);

    if (status == HETCCL_OK)
        status = hetccl_copier_reserve(mover->bridge->copier, order);
    return status;
}

static enum hetccl_status prepare(struct hetccl_copy_mover *mover, const struct hetccl_ring *const *rings)
{
    enum hetccl_status status = hetccl_alloc(n_lanes(mover), sizeof(*mover->rings), &mover->rings);

    if (status != HETCCL_OK)
        return status;
    fill_rings(mover, rings);
    mover->is_in_line = is_small(mover);
    status = build_order(mover, mover->is_in_line ? HETCCL_COPY_IN_LINE : HETCCL_COPY_SPREAD, &mover->order);
    if (status == HETCCL_OK)
        status = stage(mover);
    return status == HETCCL_OK ? trace(mover) : status;
}

enum hetccl_status hetccl_copy_mover_create(struct hetccl_bridge *bridge,
                                            const struct hetccl_program *program,
                                            const struct hetccl_ring *const *rings, size_t elem_bytes,
                                            struct hetccl_copy_mover **out)
{
    struct hetccl_copy_mover *mover;
    enum hetccl_status status = hetccl_alloc(1, sizeof(*mover), &mover);

    if (status != HETCCL_OK)
        return status;
    mover->bridge = bridge;
    mover->program = program;
    mover->elem_bytes = elem_bytes;
    status = prepare(mover, rings);
    if (status != HETCCL_OK) {
        hetccl_copy_mover_destroy(mover);
        return status;
    }
    *out = mover;
    return HETCCL_OK;
}

void hetccl_copy_mover_destroy(struct hetccl_copy_mover *mover)
{
    if (mover == NULL)
        return;
    if (mover->trace != NULL)
        hetccl_copier_untrace(mover->bridge->copier, mover->trace);
    hetccl_bridge_drop(mover->stage);
    hetccl_copy_order_fini(&mover->order);
    hetccl_copy_order_fini(&mover->captured);
    hetccl_free(mover->rings);
    hetccl_free(mover);
}

/* ---- calls ---- */

/* Graph launches keep no other order than that of their edges. */
static enum hetccl_status choose_order(struct hetccl_copy_mover *mover, bool is_captured,
                                       const struct hetccl_copy_order **out)
{
    enum hetccl_status status = HETCCL_OK;

    *out = &mover->order;
    if (!is_captured || mover->is_in_line)
        return HETCCL_OK;
    if (mover->captured.items == NULL)
        status = build_order(mover, HETCCL_COPY_CHAINED, &mover->captured);
    *out = &mover->captured;
    return status;
}

static void begin(struct hetccl_copy_run *run, const struct hetccl_copy_order *order, bool is_captured)
{
    struct hetccl_bridge_control *control = run->mover->bridge->control_address;

    if (is_captured) {
        hetccl_copy_run_write(run, &control->is_copying, 1);
        hetccl_copy_run_write(run, &control->has_begun, 1);
    }
    if (order->n_joins > 0)
        hetccl_copy_run_record(run, HETCCL_COPY_FORK_EVENT);
}

static void end(struct hetccl_copy_run *run, const struct hetccl_copy_order *order, uint32_t number)
{
    struct hetccl_bridge_control *control = run->mover->bridge->control_address;

    hetccl_copy_run_go_to(run, 0);
    for (uint32_t i = 0; i < order->n_joins; i++)
        hetccl_copy_run_await(run, order->joins[i]);
    if (number != 0)
        hetccl_copy_run_write(run, &control->last_ended, number);
    else
        hetccl_copy_run_write(run, &control->is_copying, 0);
    hetccl_copy_run_flush(run);
}

static enum hetccl_status enqueue(struct hetccl_copy_run *run, const struct hetccl_copy_order *order,
                                  uint32_t number)
{
    begin(run, order, number == 0);
    for (uint32_t i = 0; i < order->n_items && run->status == HETCCL_OK; i++) {
        const struct hetccl_copy_item *item = &order->items[i];

        hetccl_copy_run_go_to(run, item->stream);
        for (uint32_t k = item->first_wait; k < item->first_wait + item->n_waits; k++)
            hetccl_copy_run_await(run, order->waits[k]);
        hetccl_copy_run_item(run, item);
        if (item->event != HETCCL_COPY_NO_EVENT)
            hetccl_copy_run_record(run, item->event);
    }
    end(run, order, number);
    return run->status;
}

enum hetccl_status hetccl_copy_mover_run(struct hetccl_copy_mover *mover, const struct hetccl_copy_call *call)
{
    struct hetccl_bridge *bridge = mover->bridge;
    uint32_t number = hetccl_bridge_number(bridge);
    const struct hetccl_copy_order *order;
    struct hetccl_copy_run run;
    enum hetccl_status status = choose_order(mover, number == 0, &order);

    if (status == HETCCL_OK)
        status = hetccl_copier_note(bridge->copier, mover->trace, call->tag, number);
    if (status == HETCCL_OK)
        status = hetccl_copy_run_begin(&run, mover, call);
    if (status != HETCCL_OK)
        return status;
    if (mover->stage != NULL)
        hetccl_bridge_use(bridge, mover->stage);
    return enqueue(&run, order, number);
}
