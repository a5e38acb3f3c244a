/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <nccl.h>

#include <hetccl/hetccl.h>

#include "perf_session.h"

/*
 * Times are the largest of the ranks' means, wrong elements and bytes are sums; both are gathered by the
 * communicator itself, but each rank also leaves with HETCCL_EXIT_WRONG for its own wrong elements, so that a
 * wrong sum can't hide them. On a GPU the clock runs from the first call to the end of the stream's work.
 */

enum { POLLS_BETWEEN_LOOKS = 4096 };

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

bool hetccl_perf_give_up(const struct hetccl_perf_session *session, const char *call, ncclResult_t result)
{
    hetccl_board_fail(session->slot, "%s gave error %d (%s): %s", call, (int)result,
                      ncclGetErrorString(result), ncclGetLastError(session->comm));
    return false;
}

static bool give_up_on_device(const struct hetccl_perf_session *session, const char *what)
{
    hetccl_board_fail(session->slot, "%s: %s", what, hetccl_perf_device_error());
    return false;
}

static bool is_alive(const struct hetccl_perf_session *session)
{
    ncclResult_t state = ncclSuccess;
    ncclResult_t result = ncclCommGetAsyncError(session->comm, &state);

    if (result == ncclSuccess && (state == ncclSuccess || state == ncclInProgress))
        return true;
    return hetccl_perf_give_up(session, "the communicator", result == ncclSuccess ? state : result);
}

/* Waits for all that is enqueued. */
static bool finish(const struct hetccl_perf_session *session)
{
    enum hetccl_status status = hetccl_perf_device_poll(&session->device);

    for (unsigned n = 1; status == HETCCL_AGAIN; n++) {
        if (n % POLLS_BETWEEN_LOOKS == 0 && !is_alive(session))
            return false;
        status = hetccl_perf_device_poll(&session->device);
    }
    return status == HETCCL_OK || give_up_on_device(session, "waiting for the stream");
}

/* values become those of all ranks, combined. */
static bool combine(struct hetccl_perf_session *session, void *values, size_t count, ncclDataType_t type,
                    ncclRedOp_t op)
{
    size_t bytes = count * hetccl_reference_type_bytes(type);
    ncclResult_t result;

    memcpy(session->small.shadow, values, bytes);
    if (!hetccl_perf_upload(&session->device, &session->small, bytes))
        return give_up_on_device(session, "summing up");
    result = ncclAllReduce(session->small.memory, session->small.memory, count, type, op, session->comm,
                           session->device.stream.handle);
    if (result != ncclSuccess)
        return hetccl_perf_give_up(session, "summing up", result);
    if (!hetccl_perf_download(&session->device, &session->small, bytes))
        return give_up_on_device(session, "summing up");
    if (!finish(session))
        return false;
    memcpy(values, session->small.shadow, bytes);
    return true;
}

bool hetccl_perf_barrier(struct hetccl_perf_session *session)
{
    int32_t token = 1;

    return combine(session, &token, 1, ncclInt32, ncclSum);
}

static uint64_t cross_bytes_sent(const struct hetccl_perf_session *session)
{
    hetcclCounters_t counters = {.size = sizeof(counters)};

    return hetcclCommCounters(session->comm, &counters) == 0 ? counters.crossBytesSent : 0;
}

struct call {
    const struct hetccl_trial *trial;
    void *send, *recv;
    const void *send_shadow, *recv_shadow; /* the same in the host's copies */
    char *regions[2];                      /* of the copies: what lies between guards; [1] only in place */
    size_t region_bytes;
    ncclRedOp_t op;
};

static bool run_call(struct hetccl_perf_session *session, const struct call *call)
{
    ncclResult_t result = hetccl_trial_run(call->trial, call->send, call->recv, call->op, session->comm);

    hetccl_board_beat(session->slot);
    return result == ncclSuccess ||
           hetccl_perf_give_up(session, hetccl_trial_name(call->trial->kind), result);
}

static bool exchange(struct hetccl_perf_session *session, const struct call *call, bool is_upload)
{
    size_t bytes = call->region_bytes + 2 * (size_t)HETCCL_TRIAL_GUARD_BYTES;

    for (int i = 0; i < 2; i++) {
        const struct hetccl_perf_buffer *buffer = &session->buffers[i];
        bool is_done = is_upload ? hetccl_perf_upload(&session->device, buffer, bytes)
                                 : hetccl_perf_download(&session->device, buffer, bytes);

        if (!is_done)
            return give_up_on_device(session, "copying");
    }
    return finish(session);
}

static bool check(struct hetccl_perf_session *session, const struct call *call,
                  struct hetccl_perf_measure *out)
{
    if (!exchange(session, call, false))
        return false;
    out->n_wrong += hetccl_trial_check(call->trial, call->send_shadow, call->recv_shadow);
    for (int i = 0; i < 2; i++)
        out->n_wrong += hetccl_trial_guard_check(call->regions[i], call->region_bytes);
    return true;
}

static bool run_checked(struct hetccl_perf_session *session, const struct call *call,
                        struct hetccl_perf_measure *out)
{
    if (!exchange(session, call, true) || !run_call(session, call))
        return false;
    return !session->options->is_checked || check(session, call, out);
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;

    return (left > right) - (left < right);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), compare);
    return values[n / 2];
}

static bool time_calls(struct hetccl_perf_session *session, const struct call *call,
                       struct hetccl_perf_measure *out)
{
    const struct hetccl_perf_options *options = session->options;
    uint64_t crossed;
    double start;

    for (unsigned i = 0; i < options->n_warmups; i++)
        if (!run_call(session, call))
            return false;
    if (!hetccl_perf_barrier(session))
        return false;
    crossed = cross_bytes_sent(session);
    start = now_us();
    for (unsigned i = 0; i < options->n_iterations; i++) {
        double called = now_us();

        if (!run_call(session, call))
            return false;
        session->enqueue_us[i] = now_us() - called;
    }
    if (!finish(session))
        return false;
    out->time_us = (now_us() - start) / options->n_iterations;
    out->cross_bytes = (cross_bytes_sent(session) - crossed) / options->n_iterations;
    return true;
}

/* Bytes are counted when calls are made, so those of a graph when it is captured. */
static bool capture(struct hetccl_perf_session *session, const struct call *call,
                    struct hetccl_perf_measure *out, struct hetccl_graph *graph_out)
{
    const struct hetccl_perf_device *on = &session->device;
    uint64_t crossed = cross_bytes_sent(session);
    struct hetccl_graph graph = {.handle = NULL};
    bool is_called = true;

    if (on->device->ops->capture_begin(on->device, on->stream) != HETCCL_OK)
        return give_up_on_device(session, "--graph");
    for (unsigned i = 0; is_called && i < session->options->n_graph; i++)
        is_called = run_call(session, call);
    if (on->device->ops->capture_end(on->device, on->stream, &graph) != HETCCL_OK)
        return is_called ? give_up_on_device(session, "--graph") : false;
    if (!is_called) {
        on->device->ops->graph_destroy(on->device, graph);
        return false;
    }
    out->cross_bytes = (cross_bytes_sent(session) - crossed) / session->options->n_graph;
    *graph_out = graph;
    return true;
}

static bool launch(struct hetccl_perf_session *session, struct hetccl_graph graph)
{
    const struct hetccl_perf_device *on = &session->device;

    hetccl_board_beat(session->slot);
    return on->device->ops->graph_launch(on->device, on->stream, graph) == HETCCL_OK ||
           give_up_on_device(session, "--graph");
}

static bool time_launches(struct hetccl_perf_session *session, struct hetccl_graph graph,
                          struct hetccl_perf_measure *out)
{
    const struct hetccl_perf_options *options = session->options;
    double start;

    for (unsigned i = 0; i < options->n_warmups; i++)
        if (!launch(session, graph))
            return false;
    if (!hetccl_perf_barrier(session))
        return false;
    start = now_us();
    for (unsigned i = 0; i < options->n_iterations; i++) {
        double called = now_us();

        if (!launch(session, graph))
            return false;
        session->enqueue_us[i] = now_us() - called;
    }
    if (!finish(session))
        return false;
    out->time_us = (now_us() - start) / options->n_iterations / options->n_graph;
    return true;
}

/* In place, a second call combines results: only out of place can what the replays left be checked. */
static bool time_graph(struct hetccl_perf_session *session, const struct call *call,
                       struct hetccl_perf_measure *out)
{
    struct hetccl_graph graph;
    bool is_done;

    if (!capture(session, call, out, &graph))
        return false;
    is_done = time_launches(session, graph, out);
    if (is_done && session->options->is_checked && !call->trial->is_in_place)
        is_done = check(session, call, out);
    session->device.device->ops->graph_destroy(session->device.device, graph);
    return is_done;
}

static bool run_timed(struct hetccl_perf_session *session, const struct call *call,
                      struct hetccl_perf_measure *out)
{
    bool is_done =
        session->options->n_graph > 0 ? time_graph(session, call, out) : time_calls(session, call, out);

    if (is_done && session->device.is_asynchronous)
        out->enqueue_us = median(session->enqueue_us, session->options->n_iterations);
    return is_done;
}

/* Own figures become everybody's: the largest times, the sums of the rest. */
static bool share(struct hetccl_perf_session *session, struct hetccl_perf_measure *measure)
{
    uint64_t sums[2] = {measure->n_wrong, measure->cross_bytes};
    double times[2] = {measure->time_us, measure->enqueue_us};

    session->n_own_wrong += measure->n_wrong;
    if (!combine(session, times, 2, ncclFloat64, ncclMax) || !combine(session, sums, 2, ncclUint64, ncclSum))
        return false;
    measure->time_us = times[0];
    measure->enqueue_us = times[1];
    measure->n_wrong = sums[0];
    measure->cross_bytes = sums[1];
    return true;
}

static void note_plan(const struct hetccl_perf_session *session, struct hetccl_perf_row *row)
{
    hetcclCommInfo_t info = {.size = sizeof(info)};

    if (row->trial.kind == HETCCL_TRIAL_SENDRECV) {
        (void)snprintf(row->plan, sizeof(row->plan), "p2p");
    } else if (hetcclCommInfo(session->comm, &info) == 0 && row->trial.count > 0) {
        (void)snprintf(row->plan, sizeof(row->plan), "%s", info.lastPlan);
        row->is_small = info.lastPlanIsSmall != 0;
    } else {
        (void)snprintf(row->plan, sizeof(row->plan), "-");
    }
}

static void prepare(struct hetccl_perf_session *session, struct call *call)
{
    const struct hetccl_trial *trial = call->trial;
    void *send;
    void *recv;

    for (int i = 0; i < 2; i++)
        call->regions[i] = session->buffers[i].shadow + HETCCL_TRIAL_GUARD_BYTES;
    call->region_bytes =
        hetccl_trial_buffer_count(trial) * hetccl_reference_type_bytes(trial->reference.type);
    hetccl_trial_place(trial, session->buffers[0].memory + HETCCL_TRIAL_GUARD_BYTES,
                       session->buffers[1].memory + HETCCL_TRIAL_GUARD_BYTES, &call->send, &call->recv);
    hetccl_trial_place(trial, call->regions[0], call->regions[1], &send, &recv);
    hetccl_trial_fill(trial, send, recv);
    for (int i = 0; i < 2; i++)
        hetccl_trial_guard_paint(call->regions[i], call->region_bytes);
    call->send_shadow = send;
    call->recv_shadow = recv;
}

bool hetccl_perf_measure(struct hetccl_perf_session *session, struct hetccl_perf_row *row, bool is_in_place,
                         struct hetccl_perf_measure *out)
{
    struct hetccl_trial trial = row->trial;
    struct call call = {.trial = &trial};
    ncclResult_t result;
    bool is_done;

    trial.is_in_place = is_in_place;
    trial.stream = session->device.stream.handle;
    prepare(session, &call);
    result = hetccl_trial_op_begin(&trial, session->comm, &call.op);
    if (result != ncclSuccess)
        return hetccl_perf_give_up(session, "ncclRedOpCreatePreMulSum", result);
    is_done = run_checked(session, &call, out) && run_timed(session, &call, out);
    if (is_done)
        note_plan(session, row);
    hetccl_trial_op_end(&trial, session->comm, call.op);
    out->is_there = is_done;
    return is_done && share(session, out);
}
