/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/run.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "exec/island.h"

/* A combine pass works on at most this much: a multiple of every element size, small enough to stay in the
 * cache. */
enum { COMBINE_PASS_BYTES = 128 * 1024 };

static const struct hetccl_step *step_of(const struct hetccl_run *run, uint32_t step)
{
    return &run->plan->steps[step];
}

static char *region_memory(const struct hetccl_run *run, const struct hetccl_region *region)
{
    return hetccl_region_memory(&run->args, region);
}

static void make_ready(struct hetccl_run *run, uint32_t step)
{
    const struct hetccl_step *s = step_of(run, step);

    if (s->kind == HETCCL_STEP_COPY)
        run->ready[run->n_ready++] = step;
    else if (s->kind == HETCCL_STEP_COMBINE &&
             !(run->states[step].n_messages > 0 && run->messages[run->states[step].first_message].is_direct))
        run->combines[run->n_combines++] = step;
}

static void finish_step(struct hetccl_run *run, uint32_t step)
{
    run->states[step].is_done = true;
    run->n_done++;
    run->counters.steps++;
    for (uint32_t i = run->first_successor[step]; i < run->first_successor[step + 1]; i++)
        if (--run->states[run->successors[i]].n_missing == 0)
            make_ready(run, run->successors[i]);
}

void hetccl_run_start(struct hetccl_run *run, const struct hetccl_run_args *args)
{
    const struct hetccl_plan *plan = run->plan;

    run->args = *args;
    run->counters = (struct hetccl_run_counters){0};
    if (run->launched != NULL)
        return;
    run->n_done = run->n_ready = run->n_combines = run->next_island_step = 0;
    run->is_island_active = false;
    for (uint32_t l = 0; l < run->n_lanes; l++) {
        run->lanes[l].link = NULL;
        run->lanes[l].n_posted = run->lanes[l].n_done = 0;
    }
    for (uint32_t i = 0; i < run->n_messages; i++)
        run->messages[i].request.state = HETCCL_REQUEST_IDLE;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        struct step_state *state = &run->states[i];

        state->n_missing = plan->steps[i].n_deps;
        state->n_messages_done = 0;
        state->done_bytes = 0;
        state->is_done = false;
    }
    for (uint32_t i = 0; i < plan->n_steps; i++)
        if (run->states[i].n_missing == 0)
            make_ready(run, i);
}

/* ---- local steps ---- */

static enum hetccl_status run_copy(struct hetccl_run *run, const struct hetccl_step *step)
{
    const struct hetccl_run_args *args = &run->args;
    struct hetccl_device *device = run->env->device;
    struct hetccl_stream stream = {0};
    void *dst = region_memory(run, &step->dst);
    const void *src = region_memory(run, &step->src);
    struct hetccl_reduce reduce = {.dst = dst,
                                   .srcs = &src,
                                   .scales = &args->scale,
                                   .n_srcs = 1,
                                   .count = step->dst.count,
                                   .type = args->type,
                                   .red = args->red};

    if (step->is_raw)
        return device->ops->reduce(device, stream, &reduce);
    if (dst == src)
        return HETCCL_OK;
    return device->ops->copy(device, stream, dst, src, step->dst.count * args->elem_bytes);
}

static enum hetccl_status run_ready(struct hetccl_run *run, bool *moved_out)
{
    while (run->n_ready > 0) {
        uint32_t step = run->ready[--run->n_ready];
        enum hetccl_status status = run_copy(run, step_of(run, step));

        if (status != HETCCL_OK)
            return status;
        finish_step(run, step);
        *moved_out = true;
    }
    return HETCCL_OK;
}

/* ---- island steps ---- */

static enum hetccl_status start_island_step(struct hetccl_run *run)
{
    struct hetccl_engine *engine = run->env->engine;
    struct hetccl_engine_op op;

    hetccl_island_op_fill(step_of(run, run->island_steps[run->next_island_step]), run->pieces, &run->args,
                          &op);
    run->is_island_active = true;
    run->counters.island_operations++;
    return engine->ops->start(engine, &op);
}

static enum hetccl_status run_island(struct hetccl_run *run, bool *moved_out)
{
    struct hetccl_engine *engine = run->env->engine;

    while (run->next_island_step < run->n_island_steps) {
        uint32_t step = run->island_steps[run->next_island_step];
        enum hetccl_status status = HETCCL_OK;
        bool moved = false;

        if (!run->is_island_active) {
            if (run->states[step].n_missing > 0)
                return HETCCL_OK;
            *moved_out = true;
            status = start_island_step(run);
        }
        if (status == HETCCL_OK)
            status = engine->ops->progress(engine, &moved);
        *moved_out |= moved;
        if (status != HETCCL_OK)
            return status == HETCCL_AGAIN ? HETCCL_OK : status;
        run->is_island_active = false;
        run->next_island_step++;
        *moved_out = true;
        finish_step(run, step);
    }
    return HETCCL_OK;
}

/* ---- messages ---- */

static size_t message_bytes(const struct hetccl_run *run, const struct message *message)
{
    const struct hetccl_step *step = step_of(run, message->step);
    size_t count = step->kind == HETCCL_STEP_SEND ? step->src.count : step->dst.count;

    return count * run->args.elem_bytes;
}

static bool is_cross(const struct hetccl_run *run, uint32_t peer)
{
    return run->env->island_of[peer] != run->env->island_of[run->env->rank];
}

/* A message may be posted when the memory that it touches is ready; one that is peeked touches none. */
static bool may_post(const struct hetccl_run *run, const struct message *message)
{
    return !message->is_direct || run->states[message->step].n_missing == 0;
}

static enum hetccl_status post(struct hetccl_run *run, struct lane *lane, struct message *message)
{
    const struct hetccl_step *step = step_of(run, message->step);
    struct hetccl_link_request *request = &message->request;

    request->bytes_total = message_bytes(run, message);
    request->bytes_done = 0;
    request->tag = run->args.tag;
    if (lane->is_send) {
        request->memory = region_memory(run, &step->src);
        if (is_cross(run, lane->peer)) {
            run->counters.cross_sent_bytes += request->bytes_total;
            run->counters.cross_messages++;
        }
        return lane->link->ops->post_send(lane->link, request);
    }
    request->memory = message->is_direct ? region_memory(run, &step->dst) : NULL;
    /* A zero-byte receive may have a NULL buffer, and must not be mistaken for one that is peeked. */
    if (message->is_direct && request->memory == NULL)
        request->memory = request;
    if (is_cross(run, lane->peer))
        run->counters.cross_received_bytes += request->bytes_total;
    return lane->link->ops->post_recv(lane->link, request);
}

static void finish_message(struct hetccl_run *run, const struct message *message)
{
    struct step_state *state = &run->states[message->step];

    if (message->is_direct && ++state->n_messages_done == state->n_messages)
        finish_step(run, message->step);
}

static enum hetccl_status run_lane(struct hetccl_run *run, struct lane *lane, bool *moved_out)
{
    enum hetccl_status status;

    if (lane->link == NULL) {
        status = run->env->find_link(run->env->link_context, lane->peer, run->args.channel, &lane->link);
        if (status != HETCCL_OK)
            return status == HETCCL_AGAIN ? HETCCL_OK : status;
        *moved_out = true;
    }
    while (lane->n_posted < lane->n_messages &&
           may_post(run, &run->messages[lane->messages[lane->n_posted]])) {
        status = post(run, lane, &run->messages[lane->messages[lane->n_posted]]);
        if (status != HETCCL_OK)
            return status;
        lane->n_posted++;
        *moved_out = true;
    }
    if (lane->n_done == lane->n_posted)
        return HETCCL_OK;
    status = lane->link->ops->progress(lane->link);
    if (hetccl_is_error(status))
        return status;
    *moved_out |= status == HETCCL_OK;
    while (lane->n_done < lane->n_posted &&
           run->messages[lane->messages[lane->n_done]].request.state == HETCCL_REQUEST_DONE) {
        finish_message(run, &run->messages[lane->messages[lane->n_done++]]);
        *moved_out = true;
    }
    return HETCCL_OK;
}

/* ---- combine steps that peek ---- */

/* Bytes that all message inputs of the step have at hand, at most a pass; 0 when one has none. */
static enum hetccl_status peek_inputs(const struct hetccl_run *run, uint32_t step, const void **srcs,
                                      size_t *bytes_out)
{
    const struct hetccl_step *s = step_of(run, step);
    const struct step_state *state = &run->states[step];
    size_t bytes = s->dst.count * run->args.elem_bytes - state->done_bytes;
    uint32_t next_message = state->first_message;

    bytes = hetccl_min_size(bytes, COMBINE_PASS_BYTES);
    for (uint32_t k = 0; k < s->n_inputs; k++) {
        const struct hetccl_input *input = &run->plan->inputs[s->first_input + k];
        const struct message *message;
        const struct lane *lane;
        enum hetccl_status status;
        size_t at_hand;

        if (!input->is_message) {
            srcs[k] = region_memory(run, &input->region) + state->done_bytes;
            continue;
        }
        message = &run->messages[next_message++];
        lane = &run->lanes[message->lane];
        *bytes_out = 0;
        if (lane->link == NULL || message->request.state == HETCCL_REQUEST_IDLE)
            return HETCCL_OK;
        status = lane->link->ops->peek(lane->link, &message->request, &srcs[k], &at_hand);
        if (status != HETCCL_OK)
            return status == HETCCL_AGAIN ? HETCCL_OK : status;
        bytes = hetccl_min_size(bytes, at_hand);
    }
    *bytes_out = bytes;
    return HETCCL_OK;
}

static void consume_inputs(struct hetccl_run *run, uint32_t step, size_t bytes)
{
    const struct step_state *state = &run->states[step];

    for (uint32_t i = 0; i < state->n_messages; i++) {
        struct message *message = &run->messages[state->first_message + i];
        struct hetccl_link *link = run->lanes[message->lane].link;

        link->ops->consume(link, &message->request, bytes);
    }
}

static enum hetccl_status reduce_inputs(const struct hetccl_run *run, uint32_t step, const void *const *srcs,
                                        size_t bytes)
{
    const struct hetccl_step *s = step_of(run, step);
    struct hetccl_device *device = run->env->device;
    struct hetccl_stream stream = {0};
    struct hetccl_scale scales[HETCCL_REDUCE_MAX_INPUTS];
    struct hetccl_reduce reduce = {.dst = region_memory(run, &s->dst) + run->states[step].done_bytes,
                                   .srcs = srcs,
                                   .n_srcs = s->n_inputs,
                                   .count = bytes / run->args.elem_bytes,
                                   .type = run->args.type,
                                   .red = run->args.red};
    bool has_raw = false;

    for (uint32_t k = 0; k < s->n_inputs; k++)
        has_raw |= run->plan->inputs[s->first_input + k].is_raw;
    for (uint32_t k = 0; has_raw && k < s->n_inputs; k++)
        scales[k] =
            run->plan->inputs[s->first_input + k].is_raw ? run->args.scale : hetccl_scale_one(run->args.type);
    if (has_raw)
        reduce.scales = scales;
    return device->ops->reduce(device, stream, &reduce);
}

static enum hetccl_status run_combine(struct hetccl_run *run, uint32_t step, bool *moved_out)
{
    size_t total = step_of(run, step)->dst.count * run->args.elem_bytes;
    struct step_state *state = &run->states[step];
    const void *srcs[HETCCL_REDUCE_MAX_INPUTS];
    enum hetccl_status status;
    size_t bytes;

    while (state->done_bytes < total) {
        status = peek_inputs(run, step, srcs, &bytes);
        if (status != HETCCL_OK || bytes == 0)
            return status;
        status = reduce_inputs(run, step, srcs, bytes);
        if (status != HETCCL_OK)
            return status;
        consume_inputs(run, step, bytes);
        state->done_bytes += bytes;
        *moved_out = true;
    }
    return HETCCL_OK;
}

static enum hetccl_status run_combines(struct hetccl_run *run, bool *moved_out)
{
    for (uint32_t i = 0; i < run->n_combines;) {
        uint32_t step = run->combines[i];
        enum hetccl_status status = run_combine(run, step, moved_out);

        if (status != HETCCL_OK)
            return status;
        if (run->states[step].done_bytes < step_of(run, step)->dst.count * run->args.elem_bytes) {
            i++;
            continue;
        }
        run->combines[i] = run->combines[--run->n_combines];
        finish_step(run, step);
    }
    return HETCCL_OK;
}

/* ---- the whole ---- */

/* Done when every step is; a link may then still hold nothing of ours, as requests end before their steps do.
 */
static bool is_finished(const struct hetccl_run *run)
{
    return run->n_done == run->plan->n_steps;
}

static enum hetccl_status enqueue(struct hetccl_run *run, bool *moved_out)
{
    enum hetccl_status status = hetccl_launched_progress(run->launched, &run->args, moved_out);

    if (status == HETCCL_OK)
        hetccl_launched_count(run->launched, run->args.elem_bytes, &run->counters);
    return status;
}

enum hetccl_status hetccl_run_progress(struct hetccl_run *run, bool *moved_out)
{
    enum hetccl_status status;

    if (run->launched != NULL)
        return enqueue(run, moved_out);
    status = run_ready(run, moved_out);
    if (status == HETCCL_OK)
        status = run_island(run, moved_out);
    for (uint32_t l = 0; l < run->n_lanes && status == HETCCL_OK; l++)
        if (run->lanes[l].n_done < run->lanes[l].n_messages)
            status = run_lane(run, &run->lanes[l], moved_out);
    if (status == HETCCL_OK)
        status = run_combines(run, moved_out);
    if (status != HETCCL_OK)
        return status;
    return is_finished(run) ? HETCCL_OK : HETCCL_AGAIN;
}

enum hetccl_status hetccl_run_connect(struct hetccl_run *run, size_t elem_bytes, uint32_t channel)
{
    return hetccl_launched_connect(run->launched, elem_bytes, channel);
}

const struct hetccl_run_counters *hetccl_run_read_counters(const struct hetccl_run *run)
{
    return &run->counters;
}

static bool is_waiting(const struct lane *lane)
{
    return lane->n_done < lane->n_messages;
}

void hetccl_run_describe(const struct hetccl_run *run, char *out, size_t bytes)
{
    if (run->launched != NULL) {
        hetccl_launched_describe(run->launched, out, bytes);
        return;
    }
    if (run->is_island_active) {
        (void)snprintf(out, bytes, "island step %u of %u, engine %s", run->next_island_step + 1,
                       run->n_island_steps, run->env->engine->ops->name);
        return;
    }
    for (uint32_t l = 0; l < run->n_lanes; l++) {
        const struct lane *lane = &run->lanes[l];

        if (!is_waiting(lane))
            continue;
        (void)snprintf(out, bytes, "message %u of %u %s rank %u%s", lane->n_done + 1, lane->n_messages,
                       lane->is_send ? "to" : "from", lane->peer,
                       lane->link == NULL ? ", link not connected yet" : "");
        return;
    }
    (void)snprintf(out, bytes, "%u of %u steps done", run->n_done, run->plan->n_steps);
}

void hetccl_run_collect_waits(const struct hetccl_run *run, struct hetccl_wait_set *set)
{
    set->is_truncated |= run->launched != NULL;
    set->has_shared |= run->is_island_active;
    for (uint32_t l = 0; l < run->n_lanes; l++) {
        const struct lane *lane = &run->lanes[l];
        short events = 0;
        int fd;

        if (!is_waiting(lane))
            continue;
        if (lane->link == NULL) {
            set->is_truncated = true;
            continue;
        }
        if (lane->n_posted == lane->n_done)
            continue;
        set->is_truncated |= lane->link->is_silent;
        fd = lane->link->ops->wait_fd(lane->link, &events);
        if (fd < 0)
            set->has_shared = true;
        else if (set->n_fds == HETCCL_WAIT_MAX_FDS)
            set->is_truncated = true;
        else {
            set->fds[set->n_fds] = fd;
            set->events[set->n_fds++] = events;
        }
    }
}
