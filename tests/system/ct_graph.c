/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "ct.h"

/* A34: captured calls, replayed with other inputs, beside plain ones. */

enum { N_REPLAYS = 3, N_PARTS = 3 };

/* One captured call with its memory. */
struct part {
    struct hetccl_trial trial;
    struct ct_memory memory[2];
};

struct graph {
    void *graph, *exec;
};

static void begin(const struct ct *ct, void *stream, unsigned mode)
{
    ct_cuda_check(ct->cuda->cuStreamBeginCapture_v2(stream, mode), "cuStreamBeginCapture");
}

static void end(const struct ct *ct, void *stream, struct graph *out)
{
    ct_cuda_check(ct->cuda->cuStreamEndCapture(stream, &out->graph), "cuStreamEndCapture");
    ct_cuda_check(ct->cuda->cuGraphInstantiateWithFlags(&out->exec, out->graph, 0), "cuGraphInstantiate");
}

static void destroy(const struct ct *ct, struct graph *graph)
{
    ct_cuda_check(ct->cuda->cuGraphExecDestroy(graph->exec), "cuGraphExecDestroy");
    ct_cuda_check(ct->cuda->cuGraphDestroy(graph->graph), "cuGraphDestroy");
}

/* Another input for each replay, known to all ranks. */
static int fill(struct ct *ct, struct part *part, int replay)
{
    part->trial.reference.seed = (uint64_t)(1000 + replay);
    return ct_fill_trial(ct, &part->trial, part->memory);
}

static int replay(struct ct *ct, const struct graph *graph, struct part *parts, int n_parts, int number)
{
    int code = CT_OK;

    for (int i = 0; code == CT_OK && i < n_parts; i++)
        code = fill(ct, &parts[i], number * 10 + i);
    if (code == CT_OK)
        ct_cuda_check(ct->cuda->cuGraphLaunch(graph->exec, ct->stream), "cuGraphLaunch");
    for (int i = 0; code == CT_OK && i < n_parts; i++)
        code = ct_check_trial(ct, &parts[i].trial, parts[i].memory);
    return code;
}

/* The call itself, outside of any capture, between replays. */
static int run_plain(struct ct *ct, struct part *part, int number)
{
    int code = fill(ct, part, 500 + number);

    if (code == CT_OK)
        code = ct_enqueue_trial(ct, &part->trial, part->memory);
    return code == CT_OK ? ct_check_trial(ct, &part->trial, part->memory) : code;
}

static int replay_all(struct ct *ct, const struct graph *graph, struct part *parts, int n_parts)
{
    int code = CT_OK;

    for (int i = 0; code == CT_OK && i < N_REPLAYS; i++) {
        code = replay(ct, graph, parts, n_parts, i);
        if (code == CT_OK && i == 1)
            code = run_plain(ct, &parts[0], i);
    }
    return code;
}

static int open_part(struct ct *ct, enum hetccl_trial_kind kind, enum hetccl_reference_op op, size_t count,
                     struct part *out)
{
    ncclDataType_t type = op == HETCCL_REFERENCE_AVG ? ncclInt32 : ncclFloat32;

    *out = (struct part){.trial = ct_trial(ct, kind, type, op, count)};
    out->trial.root = (uint32_t)ct->options.size - 1;
    return ct_trial_memory(ct, &out->trial, out->memory);
}

static void close_part(struct ct *ct, struct part *part)
{
    ct_memory_close(ct, &part->memory[0]);
    ct_memory_close(ct, &part->memory[1]);
}

/* One call a graph. Every other one is captured before the communicator has ever seen its shape. */
static int capture_one(struct ct *ct, enum hetccl_trial_kind kind, enum hetccl_reference_op op, unsigned mode)
{
    struct graph graph = {NULL, NULL};
    struct part part;
    int code = open_part(ct, kind, op, 701, &part);

    if (code == CT_OK && ((int)kind + (int)op) % 2 == 0)
        code = run_plain(ct, &part, 0);
    if (code != CT_OK)
        return code;
    begin(ct, ct->stream, mode);
    code = ct_enqueue_trial(ct, &part.trial, part.memory);
    end(ct, ct->stream, &graph);
    if (code == CT_OK)
        code = replay_all(ct, &graph, &part, 1);
    destroy(ct, &graph);
    if (code == CT_OK)
        code = run_plain(ct, &part, 9);
    close_part(ct, &part);
    return code;
}

static int capture_each(struct ct *ct)
{
    int code = CT_OK;

    for (int kind = 0; code == CT_OK && kind < HETCCL_TRIAL_KINDS; kind++) {
        enum hetccl_trial_kind k = (enum hetccl_trial_kind)kind;

        code = capture_one(ct, k, HETCCL_REFERENCE_SUM, (unsigned)kind % 3);
        /* Of integers: runs on widened copies. */
        if (code == CT_OK && hetccl_trial_has_op(k))
            code = capture_one(ct, k, HETCCL_REFERENCE_AVG, CT_CAPTURE_GLOBAL);
        if (code == CT_OK && hetccl_trial_has_op(k))
            code = capture_one(ct, k, HETCCL_REFERENCE_PREMULSUM, CT_CAPTURE_GLOBAL);
    }
    return code;
}

static const enum hetccl_trial_kind part_kinds[N_PARTS] = {HETCCL_TRIAL_ALLREDUCE, HETCCL_TRIAL_SENDRECV,
                                                           HETCCL_TRIAL_ALLGATHER};

static int open_parts(struct ct *ct, size_t count, struct part parts[N_PARTS])
{
    int code = CT_OK;

    memset(parts, 0, N_PARTS * sizeof(parts[0]));
    for (int i = 0; code == CT_OK && i < N_PARTS; i++)
        code = open_part(ct, part_kinds[i], HETCCL_REFERENCE_SUM, count + (size_t)i, &parts[i]);
    return code;
}

/* Several calls in one graph, one behind the other. The communicator's memory for them grows afterwards, in
 * plain calls, which must not take it away from the graph. */
static int capture_several(struct ct *ct)
{
    struct graph graph = {NULL, NULL};
    struct part parts[N_PARTS], larger;
    int code = open_parts(ct, 300, parts);

    if (code == CT_OK)
        code = open_part(ct, HETCCL_TRIAL_ALLREDUCE, HETCCL_REFERENCE_AVG, 9001, &larger);
    if (code != CT_OK)
        return code;
    begin(ct, ct->stream, CT_CAPTURE_THREAD_LOCAL);
    for (int i = 0; code == CT_OK && i < N_PARTS; i++)
        code = ct_enqueue_trial(ct, &parts[i].trial, parts[i].memory);
    end(ct, ct->stream, &graph);
    if (code == CT_OK)
        code = run_plain(ct, &larger, 1);
    if (code == CT_OK)
        code = replay_all(ct, &graph, parts, N_PARTS);
    destroy(ct, &graph);
    for (int i = 0; i < N_PARTS; i++)
        close_part(ct, &parts[i]);
    close_part(ct, &larger);
    return code;
}

static void follow(const struct ct *ct, void *event, void *from, void *to)
{
    ct_cuda_check(ct->cuda->cuEventRecord(event, from), "cuEventRecord");
    ct_cuda_check(ct->cuda->cuStreamWaitEvent(to, event, 0), "cuStreamWaitEvent");
}

/* A capture over two streams that part and meet again; each has calls of the one communicator. */
static int capture_joined(struct ct *ct)
{
    void *second = ct_cuda_new_stream(ct->cuda);
    void *events[2] = {NULL, NULL};
    struct graph graph = {NULL, NULL};
    struct part parts[N_PARTS];
    int code = open_parts(ct, 400, parts);

    for (int i = 0; i < 2; i++)
        ct_cuda_check(ct->cuda->cuEventCreate(&events[i], 2), "cuEventCreate");
    if (code != CT_OK)
        return code;
    begin(ct, ct->stream, CT_CAPTURE_GLOBAL);
    follow(ct, events[0], ct->stream, second);
    for (int i = 0; code == CT_OK && i < N_PARTS; i++) {
        parts[i].trial.stream = i % 2 == 0 ? ct->stream : second;
        code = ct_enqueue_trial(ct, &parts[i].trial, parts[i].memory);
    }
    follow(ct, events[1], second, ct->stream);
    end(ct, ct->stream, &graph);
    if (code == CT_OK)
        code = replay_all(ct, &graph, parts, N_PARTS);
    destroy(ct, &graph);
    for (int i = 0; i < N_PARTS; i++)
        close_part(ct, &parts[i]);
    for (int i = 0; i < 2; i++)
        ct_cuda_check(ct->cuda->cuEventDestroy_v2(events[i]), "cuEventDestroy");
    ct_cuda_check(ct->cuda->cuStreamDestroy_v2(second), "cuStreamDestroy");
    return code;
}

/* A call on a stream whose capture has been spoilt is refused, and the communicator works on. */
static int refuse_spoilt(struct ct *ct)
{
    void *graph = NULL;
    struct part part;
    ncclResult_t state = ncclSuccess;
    int code = open_part(ct, HETCCL_TRIAL_ALLREDUCE, HETCCL_REFERENCE_SUM, 33, &part);
    int refused;

    if (code != CT_OK)
        return code;
    begin(ct, ct->stream, CT_CAPTURE_GLOBAL);
    (void)ct->cuda->cuStreamQuery(ct->stream); /* not allowed meanwhile */
    refused = ct_enqueue_trial(ct, &part.trial, part.memory);
    (void)ct->cuda->cuStreamEndCapture(ct->stream, &graph);
    if (refused != ncclInvalidUsage)
        return ct_fail(ct, CT_WRONG, "a call in a spoilt capture gives %d", refused);
    ct->error[0] = '\0';
    if (ncclCommGetAsyncError(ct->comm, &state) != ncclSuccess || state != ncclSuccess)
        return ct_fail(ct, CT_WRONG, "a refused call leaves the communicator with %d", (int)state);
    code = run_plain(ct, &part, 0);
    close_part(ct, &part);
    return code;
}

/* The communicator goes before its graph. */
static int outlive(struct ct *ct)
{
    struct graph graph = {NULL, NULL};
    struct part part;
    ncclResult_t result = ncclSuccess;
    int code = open_part(ct, HETCCL_TRIAL_ALLREDUCE, HETCCL_REFERENCE_AVG, 100, &part);

    if (code != CT_OK)
        return code;
    begin(ct, ct->stream, CT_CAPTURE_RELAXED);
    code = ct_enqueue_trial(ct, &part.trial, part.memory);
    end(ct, ct->stream, &graph);
    if (code == CT_OK)
        code = replay(ct, &graph, &part, 1, 1);
    if (code == CT_OK)
        result = ncclCommDestroy(ct->comm);
    ct->comm = NULL;
    destroy(ct, &graph);
    close_part(ct, &part);
    if (code != CT_OK)
        return code;
    return result == ncclSuccess ? CT_OK : ct_fail_call(ct, "ncclCommDestroy", result);
}

int ct_scenario_graph(struct ct *ct)
{
    int code = capture_each(ct);

    if (code == CT_OK)
        code = capture_several(ct);
    if (code == CT_OK)
        code = capture_joined(ct);
    if (code == CT_OK)
        code = refuse_spoilt(ct);
    return code == CT_OK ? outlive(ct) : code;
}
