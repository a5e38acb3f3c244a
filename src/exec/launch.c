/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/launch.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "exec/copier.h"
#include "exec/copy_mover.h"
#include "exec/island.h"
#include "exec/program.h"
#include "exec/ring.h"
#include "kernels/device/args.h"

struct hetccl_launched {
    const struct hetccl_exec_env *env;
    const struct hetccl_plan *plan;
    struct hetccl_program program;
    bool is_connected;                /* all rings are */
    bool is_prepared;                 /* args are filled */
    struct hetccl_blob *blob;         /* what of it lies in device memory; NULL: nothing */
    const struct hetccl_ring **rings; /* of send lanes, then of receive lanes; NULL until connected */
    uint32_t n_connected;
    struct hetccl_bridge_args args; /* what is the same in every execution */
    bool is_copied;                 /* by a copy mover, where the call allows it */
    struct hetccl_copy_mover *copy_mover;
    struct hetccl_engine_piece
        *pieces; /* of the plan, for the engine; NULL: it has no island steps for one */
};

/* ---- making ---- */

static uint32_t n_lanes(const struct hetccl_launched *launched)
{
    return launched->program.n_send_lanes + launched->program.n_recv_lanes;
}

static uint32_t peer_of(const struct hetccl_launched *launched, uint32_t lane)
{
    const struct hetccl_program *program = &launched->program;

    return lane < program->n_send_lanes ? program->send_lanes[lane].peer
                                        : program->recv_peers[lane - program->n_send_lanes];
}

/* Elements of the longest message, or of the longest piece that an island makes messages of. */
static size_t largest_message(const struct hetccl_plan *plan)
{
    size_t largest = 0;

    for (uint32_t i = 0; i < plan->n_steps; i++)
        if (plan->steps[i].kind == HETCCL_STEP_SEND)
            largest = hetccl_max_size(largest, plan->steps[i].src.count);
        else if (plan->steps[i].kind == HETCCL_STEP_COMBINE)
            largest = hetccl_max_size(largest, plan->steps[i].dst.count);
    for (uint32_t i = 0; i < plan->n_pieces; i++)
        largest = hetccl_max_size(largest, plan->pieces[i].count);
    return largest;
}

/* An engine whose operations can be enqueued, on a device whose streams can wait for the kernel. */
static bool has_engine(const struct hetccl_launched *launched)
{
    const struct hetccl_engine *engine = launched->env->engine;

    if (engine == NULL || engine->ops->enqueue == NULL || !launched->env->device->has_stream_values)
        return false;
    for (uint32_t i = 0; i < launched->plan->n_steps; i++)
        if (launched->plan->steps[i].kind == HETCCL_STEP_ISLAND)
            return true;
    return false;
}

static enum hetccl_status lower(struct hetccl_launched *launched, size_t elem_bytes)
{
    const struct hetccl_exec_env *env = launched->env;
    struct hetccl_program_args args = {
        .plan = launched->plan,
        .elem_bytes = elem_bytes,
        .island_ranks = env->island_ranks,
        .n_island_ranks = env->n_island_ranks,
        .island_rank = env->island_rank,
        .slot_bytes = env->bridge->slot_bytes,
        .max_blocks = env->bridge->max_blocks,
    };
    enum hetccl_status status;

    args.has_engine = has_engine(launched);
    launched->is_copied = env->bridge->copier != NULL && !args.has_engine &&
                          largest_message(launched->plan) * elem_bytes >= env->bridge->copy_bytes;
    args.keeps_all_deps = launched->is_copied;
    status = hetccl_program_build(&args, &launched->program);

    if (status == HETCCL_OK && args.has_engine)
        status = hetccl_island_pieces(launched->plan, &launched->pieces);
    if (status == HETCCL_OK)
        status = hetccl_alloc(n_lanes(launched), sizeof(*launched->rings), &launched->rings);
    return status;
}

enum hetccl_status hetccl_launched_create(const struct hetccl_exec_env *env, const struct hetccl_plan *plan,
                                          struct hetccl_launched **out)
{
    struct hetccl_launched *launched;
    enum hetccl_status status = hetccl_alloc(1, sizeof(*launched), &launched);

    if (status != HETCCL_OK)
        return status;
    launched->env = env;
    launched->plan = plan;
    *out = launched;
    return HETCCL_OK;
}

void hetccl_launched_destroy(struct hetccl_launched *launched)
{
    if (launched == NULL)
        return;
    hetccl_copy_mover_destroy(launched->copy_mover);
    hetccl_free(launched->pieces);
    hetccl_bridge_drop(launched->blob);
    hetccl_program_fini(&launched->program);
    hetccl_free(launched->rings);
    hetccl_free(launched);
}

/* ---- connecting ---- */

static enum hetccl_status connect(struct hetccl_launched *launched, uint32_t channel)
{
    const struct hetccl_exec_env *env = launched->env;
    enum hetccl_status first = HETCCL_OK;

    /* All are looked at in every pass: each look moves a connection on. */
    for (uint32_t lane = 0; lane < n_lanes(launched); lane++) {
        enum hetccl_status status = HETCCL_OK;

        if (launched->rings[lane] == NULL)
            status =
                env->find_ring(env->link_context, peer_of(launched, lane), channel, &launched->rings[lane]);
        else
            continue;
        if (hetccl_is_error(status))
            return status;
        if (status == HETCCL_AGAIN)
            first = HETCCL_AGAIN;
    }
    launched->is_connected = first == HETCCL_OK;
    return first;
}

/* ---- the program's bytes ---- */

static uint32_t place(uint32_t *used, size_t n_items, size_t item_bytes)
{
    uint32_t at = (uint32_t)hetccl_round_up(*used, 8);

    *used = at + (uint32_t)(n_items * item_bytes);
    return at;
}

static struct hetccl_bridge_layout lay_out(const struct hetccl_program *program)
{
    struct hetccl_bridge_layout layout = {.bytes = 0};

    layout.ops = place(&layout.bytes, program->n_ops, sizeof(*program->ops));
    layout.inputs = place(&layout.bytes, program->n_inputs, sizeof(*program->inputs));
    layout.deps = place(&layout.bytes, program->n_deps, sizeof(*program->deps));
    layout.send_lanes = place(&layout.bytes, program->n_send_lanes, sizeof(struct hetccl_bridge_send_lane));
    layout.recv_lanes = place(&layout.bytes, program->n_recv_lanes, sizeof(struct hetccl_ring_view));
    return layout;
}

/* memory: zeroed. */
static void write_program(const struct hetccl_launched *launched, char *memory)
{
    const struct hetccl_program *program = &launched->program;
    const struct hetccl_bridge_layout *layout = &launched->args.layout;
    struct hetccl_bridge_send_lane *send_lanes = (void *)(memory + layout->send_lanes);
    struct hetccl_ring_view *recv_lanes = (void *)(memory + layout->recv_lanes);

    memcpy(memory + layout->ops, program->ops, program->n_ops * sizeof(*program->ops));
    memcpy(memory + layout->inputs, program->inputs, program->n_inputs * sizeof(*program->inputs));
    memcpy(memory + layout->deps, program->deps, program->n_deps * sizeof(*program->deps));
    for (uint32_t i = 0; i < program->n_send_lanes; i++)
        send_lanes[i] = (struct hetccl_bridge_send_lane){.ring = launched->rings[i]->send,
                                                         .first_op = program->send_lanes[i].first_op,
                                                         .n_ops = program->send_lanes[i].n_ops};
    for (uint32_t i = 0; i < program->n_recv_lanes; i++)
        recv_lanes[i] = launched->rings[program->n_send_lanes + i]->recv;
}

/* The counters, all 0, and in front of them the program, where it is too long to travel with the launch. */
static enum hetccl_status fill_blob(struct hetccl_launched *launched, size_t program_bytes,
                                    size_t counters_bytes)
{
    struct hetccl_bridge *bridge = launched->env->bridge;
    char *memory;
    enum hetccl_status status = hetccl_alloc(1, program_bytes + counters_bytes, &memory);

    if (status != HETCCL_OK)
        return status;
    if (program_bytes > 0)
        write_program(launched, memory);
    status = hetccl_bridge_take(bridge, program_bytes + counters_bytes, &launched->blob);
    if (status == HETCCL_OK)
        status = hetccl_bridge_fill(bridge, launched->blob, memory, program_bytes + counters_bytes);
    hetccl_free(memory);
    if (status != HETCCL_OK)
        return status;
    if (program_bytes > 0)
        launched->args.program = launched->blob->memory;
    if (launched->pieces != NULL) {
        launched->blob->waited_offset = program_bytes;
        launched->blob->waited_bytes = counters_bytes;
    }
    if (counters_bytes > 0)
        launched->args.counters = (uint32_t *)(void *)((char *)launched->blob->memory + program_bytes);
    return HETCCL_OK;
}

static enum hetccl_status prepare(struct hetccl_launched *launched)
{
    const struct hetccl_program *program = &launched->program;
    struct hetccl_bridge *bridge = launched->env->bridge;
    size_t program_bytes = 0, counters_bytes = 0;
    enum hetccl_status status = HETCCL_OK;

    launched->args = (struct hetccl_bridge_args){
        .control = bridge->control_address,
        .memory = bridge->memory,
        .layout = lay_out(program),
        .n_ops = program->n_ops,
        .n_local = program->n_local,
        .n_send_lanes = program->n_send_lanes,
        .n_local_blocks = program->n_local_blocks,
        .n_send_blocks = program->n_send_blocks,
        .lane_blocks = program->lane_blocks,
    };
    if (launched->args.layout.bytes <= sizeof(launched->args.inline_words))
        write_program(launched, (char *)launched->args.inline_words);
    else
        program_bytes = hetccl_round_up(launched->args.layout.bytes, HETCCL_CACHE_LINE);
    if (program->n_deps > 0)
        counters_bytes = program->n_ops * sizeof(uint32_t);
    if (program_bytes + counters_bytes > 0)
        status = fill_blob(launched, program_bytes, counters_bytes);
    launched->is_prepared = status == HETCCL_OK;
    hetccl_log(
        HETCCL_LOG_DEBUG, "exec",
        "rank %u: program for %s: %u operations (%u local), %u dependencies, %u bytes; blocks: %u local, %u "
        "for sends, %u a lane",
        launched->env->rank, hetccl_coll_name(launched->plan->coll), program->n_ops, program->n_local,
        program->n_deps, launched->args.layout.bytes, program->n_local_blocks, program->n_send_blocks,
        program->lane_blocks);
    return status;
}

/* ---- launching ---- */

static enum hetccl_status move_by_copies(struct hetccl_launched *launched, const struct hetccl_run_args *args)
{
    struct hetccl_copy_call call = {.scale = args->scale,
                                    .type = args->type,
                                    .red = args->red,
                                    .tag = hetccl_call_tag_short(&args->tag),
                                    .stream = args->stream};
    enum hetccl_status status = HETCCL_OK;

    call.buffers[HETCCL_BUF_SEND] = (void *)(uintptr_t)args->send;
    call.buffers[HETCCL_BUF_RECV] = args->recv;
    call.buffers[HETCCL_BUF_SCRATCH] = args->scratch;
    if (launched->copy_mover == NULL)
        status = hetccl_copy_mover_create(launched->env->bridge, &launched->program, launched->rings,
                                          args->elem_bytes, &launched->copy_mover);
    return status == HETCCL_OK ? hetccl_copy_mover_run(launched->copy_mover, &call) : status;
}

static enum hetccl_status launch(struct hetccl_launched *launched, const struct hetccl_run_args *args)
{
    struct hetccl_bridge *bridge = launched->env->bridge;
    struct hetccl_device *device = launched->env->device;
    struct hetccl_bridge_args *params = &launched->args;
    void *pointers[] = {params};
    struct hetccl_launch kernel = {.kernel = bridge->kernel,
                                   .n_blocks = params->n_local_blocks + params->n_send_blocks,
                                   .block_threads = HETCCL_BLOCK_THREADS,
                                   .params = pointers};

    params->buffers[HETCCL_BUF_SEND] = (void *)(uintptr_t)args->send;
    params->buffers[HETCCL_BUF_RECV] = args->recv;
    params->buffers[HETCCL_BUF_SCRATCH] = args->scratch;
    params->scale = args->scale;
    params->scale_pointer = args->scale_pointer;
    params->one = hetccl_scale_one(args->type);
    params->tag = hetccl_call_tag_short(&args->tag);
    params->red = (uint32_t)args->red;
    params->type = (uint32_t)args->type;
    params->number = hetccl_bridge_number(bridge);
    if (launched->blob != NULL)
        hetccl_bridge_use(bridge, launched->blob);
    return device->ops->kernel_launch(device, args->stream, &kernel);
}

/*
 * The engine's part runs beside the kernel, on a stream of the bridge's: each step waits for the counters of
 * what it depends on, and sets its own when it is done, for which the kernel waits. The kernel is enqueued
 * first, and steps in their order, so that nothing stands in front of what it waits for, however streams
 * share queues.
 */
static enum hetccl_status enqueue_island(struct hetccl_launched *launched, const struct hetccl_run_args *args,
                                         struct hetccl_stream stream,
                                         const struct hetccl_program_island *island)
{
    struct hetccl_device *device = launched->env->device;
    struct hetccl_engine *engine = launched->env->engine;
    const struct hetccl_bridge_op *op = &launched->program.ops[island->op];
    enum hetccl_status status = HETCCL_OK;
    struct hetccl_engine_op engine_op;

    for (uint32_t i = op->first_dep; i < op->first_dep + op->n_deps && status == HETCCL_OK; i++) {
        const struct hetccl_bridge_dep *dep = &launched->program.deps[i];

        status =
            device->ops->stream_wait_value(device, stream, &launched->args.counters[dep->op], dep->n_blocks);
    }
    hetccl_island_op_fill(&launched->plan->steps[island->step], launched->pieces, args, &engine_op);
    if (status == HETCCL_OK)
        status = engine->ops->enqueue(engine, &engine_op, stream);
    return status == HETCCL_OK
               ? device->ops->stream_write_value(device, stream, &launched->args.counters[island->op], 1)
               : status;
}

static enum hetccl_status launch_with_engine(struct hetccl_launched *launched,
                                             const struct hetccl_run_args *args)
{
    struct hetccl_bridge *bridge = launched->env->bridge;
    struct hetccl_stream beside;
    enum hetccl_status status = hetccl_bridge_engine_stream(bridge, &beside);

    if (status == HETCCL_OK)
        status = hetccl_bridge_join(bridge, args->stream, beside);
    if (status == HETCCL_OK)
        status = launch(launched, args);
    for (uint32_t i = 0; i < launched->program.n_islands && status == HETCCL_OK; i++)
        status = enqueue_island(launched, args, beside, &launched->program.islands[i]);
    return status == HETCCL_OK ? hetccl_bridge_join(bridge, beside, args->stream) : status;
}

enum hetccl_status hetccl_launched_connect(struct hetccl_launched *launched, size_t elem_bytes,
                                           uint32_t channel)
{
    enum hetccl_status status = HETCCL_OK;

    if (launched->rings == NULL)
        status = lower(launched, elem_bytes);
    if (status == HETCCL_OK && !launched->is_connected)
        status = connect(launched, channel);
    return status;
}

enum hetccl_status hetccl_launched_progress(struct hetccl_launched *launched,
                                            const struct hetccl_run_args *args, bool *moved_out)
{
    enum hetccl_status status = hetccl_launched_connect(launched, args->elem_bytes, args->channel);
    /* A scale that isn't known before the call runs is a kernel's. */
    bool is_copied = launched->is_copied && args->scale_pointer == NULL;

    if (status == HETCCL_OK && !is_copied && !launched->is_prepared)
        status = prepare(launched);
    if (status != HETCCL_OK)
        return status;
    *moved_out = true;
    if (launched->program.n_ops == 0)
        return HETCCL_OK;
    if (launched->pieces != NULL)
        return launch_with_engine(launched, args);
    return is_copied ? move_by_copies(launched, args) : launch(launched, args);
}

/* ---- what it says of itself ---- */

static bool is_cross(const struct hetccl_exec_env *env, uint32_t peer)
{
    return env->island_of[peer] != env->island_of[env->rank];
}

void hetccl_launched_count(const struct hetccl_launched *launched, size_t elem_bytes,
                           struct hetccl_run_counters *out)
{
    const struct hetccl_plan *plan = launched->plan;

    *out = (struct hetccl_run_counters){.steps = plan->n_steps};
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct hetccl_step *step = &plan->steps[i];

        out->island_operations += step->kind == HETCCL_STEP_ISLAND;
        if (step->kind == HETCCL_STEP_SEND && is_cross(launched->env, step->peer)) {
            out->cross_sent_bytes += step->src.count * elem_bytes;
            out->cross_messages++;
        }
        for (uint32_t k = 0; step->kind == HETCCL_STEP_COMBINE && k < step->n_inputs; k++) {
            const struct hetccl_input *input = &plan->inputs[step->first_input + k];

            if (input->is_message && is_cross(launched->env, input->peer))
                out->cross_received_bytes += step->dst.count * elem_bytes;
        }
    }
}

void hetccl_launched_describe(const struct hetccl_launched *launched, char *out, size_t bytes)
{
    for (uint32_t lane = 0; launched->rings != NULL && lane < n_lanes(launched); lane++)
        if (launched->rings[lane] == NULL) {
            (void)snprintf(out, bytes, "ring to rank %u not connected yet", peer_of(launched, lane));
            return;
        }
    (void)snprintf(out, bytes, "all of it is enqueued");
}
