/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/launch.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "exec/program.h"
#include "exec/ring.h"
#include "kernels/device/args.h"

/* Where the parts of a program lie in its blob; bytes from its start. */
struct image {
    size_t ops, inputs, deps, send_lanes, recv_lanes, counters, bytes;
};

struct hetccl_launched {
    const struct hetccl_exec_env *env;
    const struct hetccl_plan *plan;
    struct hetccl_program program;
    struct image image;
    struct hetccl_blob *blob;         /* NULL until all rings are connected */
    const struct hetccl_ring **rings; /* of send lanes, then of receive lanes; NULL until connected */
    uint32_t n_connected;
    struct hetccl_bridge_args args; /* what is the same in every execution */
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
    enum hetccl_status status = hetccl_program_build(&args, &launched->program);

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
    hetccl_bridge_drop(launched->env->bridge, launched->blob);
    hetccl_program_fini(&launched->program);
    hetccl_free(launched->rings);
    hetccl_free(launched);
}

/* ---- connecting ---- */

static enum hetccl_status connect(struct hetccl_launched *launched, uint32_t channel, bool *moved_out)
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
        else
            *moved_out = true;
    }
    return first;
}

/* ---- the blob ---- */

static size_t place(size_t *used, size_t n_items, size_t item_bytes)
{
    size_t at = hetccl_round_up(*used, 64);

    *used = at + n_items * item_bytes;
    return at;
}

static struct image lay_out(const struct hetccl_program *program)
{
    struct image image = {.bytes = 0};

    image.ops = place(&image.bytes, program->n_ops, sizeof(*program->ops));
    image.inputs = place(&image.bytes, program->n_inputs, sizeof(*program->inputs));
    image.deps = place(&image.bytes, program->n_deps, sizeof(*program->deps));
    image.send_lanes = place(&image.bytes, program->n_send_lanes, sizeof(struct hetccl_bridge_send_lane));
    image.recv_lanes = place(&image.bytes, program->n_recv_lanes, sizeof(struct hetccl_ring_view));
    image.counters = place(&image.bytes, (size_t)program->n_ops + 1, sizeof(uint32_t));
    return image;
}

static void write_image(const struct hetccl_launched *launched, char *memory)
{
    const struct hetccl_program *program = &launched->program;
    const struct image *image = &launched->image;
    struct hetccl_bridge_send_lane *send_lanes = (void *)(memory + image->send_lanes);
    struct hetccl_ring_view *recv_lanes = (void *)(memory + image->recv_lanes);

    memset(memory, 0, image->bytes);
    memcpy(memory + image->ops, program->ops, program->n_ops * sizeof(*program->ops));
    memcpy(memory + image->inputs, program->inputs, program->n_inputs * sizeof(*program->inputs));
    memcpy(memory + image->deps, program->deps, program->n_deps * sizeof(*program->deps));
    for (uint32_t i = 0; i < program->n_send_lanes; i++)
        send_lanes[i] = (struct hetccl_bridge_send_lane){.ring = launched->rings[i]->send,
                                                         .first_op = program->send_lanes[i].first_op,
                                                         .n_ops = program->send_lanes[i].n_ops};
    for (uint32_t i = 0; i < program->n_recv_lanes; i++)
        recv_lanes[i] = launched->rings[program->n_send_lanes + i]->recv;
}

static void set_args(struct hetccl_launched *launched)
{
    const struct hetccl_program *program = &launched->program;
    const struct image *image = &launched->image;
    char *address = launched->blob->address;
    bool is_counting = program->n_deps > 0;

    launched->args = (struct hetccl_bridge_args){
        .ops = (const void *)(address + image->ops),
        .inputs = (const void *)(address + image->inputs),
        .deps = (const void *)(address + image->deps),
        .send_lanes = (const void *)(address + image->send_lanes),
        .recv_lanes = (const void *)(address + image->recv_lanes),
        .counters = is_counting ? (void *)(address + image->counters) : NULL,
        .control = launched->env->bridge->control_address,
        .n_ops = program->n_ops,
        .n_local = program->n_local,
        .n_send_lanes = program->n_send_lanes,
        .n_local_blocks = program->n_local_blocks,
        .n_send_blocks = program->n_send_blocks,
        .lane_blocks = program->lane_blocks,
    };
}

/*
 * A collective's program stays and is read from device memory; one of sends and receives is used once, and
 * read from where the host writes it: that costs the kernel a microsecond or two, a copy would cost more.
 */
static enum hetccl_status prepare(struct hetccl_launched *launched)
{
    struct hetccl_bridge *bridge = launched->env->bridge;
    enum hetccl_memory_kind kind = launched->plan->coll == HETCCL_P2P && launched->program.n_deps == 0
                                       ? HETCCL_MEMORY_PINNED
                                       : HETCCL_MEMORY_DEVICE;
    enum hetccl_status status;
    char *memory;

    launched->image = lay_out(&launched->program);
    status = hetccl_alloc(1, launched->image.bytes, &memory);
    if (status != HETCCL_OK)
        return status;
    write_image(launched, memory);
    status = hetccl_bridge_take(bridge, kind, launched->image.bytes, &launched->blob);
    if (status == HETCCL_OK)
        status = hetccl_bridge_fill(bridge, launched->blob, memory, launched->image.bytes);
    hetccl_free(memory);
    if (status == HETCCL_OK)
        set_args(launched);
    return status;
}

/* ---- launching ---- */

/* 14 bits that are the same on all ranks of a call and most likely others in another call. Captured calls are
 * repeated, so the sequence number has no part in it. */
static uint32_t short_tag(const struct hetccl_call_tag *tag)
{
    uint64_t hash = tag->count * 0x9e3779b97f4a7c15u;

    hash ^= (uint64_t)tag->coll << 56 | (uint64_t)tag->type << 48 | (uint64_t)tag->red << 40 | tag->root;
    hash *= 0xff51afd7ed558ccdu;
    return (uint32_t)(hash >> 50);
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
    params->tag = short_tag(&args->tag);
    params->red = (uint32_t)args->red;
    params->type = (uint32_t)args->type;
    hetccl_bridge_use(bridge, launched->blob);
    return device->ops->kernel_launch(device, args->stream, &kernel);
}

enum hetccl_status hetccl_launched_progress(struct hetccl_launched *launched,
                                            const struct hetccl_run_args *args, bool *moved_out)
{
    enum hetccl_status status = HETCCL_OK;

    if (launched->rings == NULL)
        status = lower(launched, args->elem_bytes);
    if (status == HETCCL_OK && launched->blob == NULL) {
        status = connect(launched, args->channel, moved_out);
        if (status == HETCCL_OK)
            status = prepare(launched);
    }
    if (status != HETCCL_OK)
        return status;
    *moved_out = true;
    return launched->program.n_ops > 0 ? launch(launched, args) : HETCCL_OK;
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
