/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "ct.h"

/* Calls on a GPU's streams: their order, several communicators, groups, and that nothing waits on the host.
 */

enum { COUNT = 500 };

/* Runs `doubled` = 2 x in two all-reduces, b = sum(a) and c = sum(b), which the caller enqueues. */
struct chain {
    struct ct_memory memory;
    float *a, *b, *c;
};

static int open_chain(struct ct *ct, struct chain *chain)
{
    int code = ct_memory_open(ct, 3 * COUNT * sizeof(float), &chain->memory);

    if (code != CT_OK)
        return code;
    chain->a = (float *)(void *)chain->memory.host;
    chain->b = chain->a + COUNT;
    chain->c = chain->b + COUNT;
    for (size_t i = 0; i < COUNT; i++)
        chain->a[i] = (float)(ct->options.rank + 1) + (float)(i % 50);
    return ct_memory_push(ct, &chain->memory);
}

/* c[i] = n * (sum of ranks + n * i) */
static int check_chain(struct ct *ct, struct chain *chain)
{
    float n = (float)ct->options.size;
    int code = ct_memory_pull(ct, &chain->memory);

    for (size_t i = 0; code == CT_OK && i < COUNT; i++) {
        float sum = n * (n + 1) / 2 + n * (float)(i % 50);

        if (chain->b[i] != sum || chain->c[i] != n * sum)
            code = ct_fail(ct, CT_WRONG, "element %zu is %g and then %g, not %g and %g", i,
                           (double)chain->b[i], (double)chain->c[i], (double)sum, (double)(n * sum));
    }
    ct_memory_close(ct, &chain->memory);
    return code;
}

static ncclResult_t sum(const struct chain *chain, const float *from, const float *to, ncclComm_t comm,
                        void *stream)
{
    return ncclAllReduce(ct_memory_at(&chain->memory, from), ct_memory_at(&chain->memory, to), COUNT,
                         ncclFloat32, ncclSum, comm, stream);
}

static int settle_both(struct ct *ct, void *other)
{
    ncclResult_t state = ct_settle_on(ct, ct->comm, other);

    return state == ncclSuccess ? ct_settle(ct) : ct_fail_call(ct, "the second stream", state);
}

/*
 * The second call is on another stream, and nobody but the communicator orders the two: while the first
 * stream stands still the second call may not run. Neither waits on the host.
 */
static int keep_order(struct ct *ct, void *other)
{
    struct ct_gate gate;
    struct chain chain;
    ncclResult_t result;
    int code = open_chain(ct, &chain);

    if (code != CT_OK)
        return code;
    ct_gate_create(ct->cuda, &gate);
    ct_gate_shut(ct->cuda, &gate, ct->stream);
    result = sum(&chain, chain.a, chain.b, ct->comm, ct->stream);
    if (result == ncclSuccess)
        result = sum(&chain, chain.b, chain.c, ct->comm, other);
    if (result == ncclSuccess && ct->cuda->cuStreamQuery(ct->stream) != CT_CUDA_NOT_READY)
        code = ct_fail(ct, CT_WRONG, "the call has waited, or the gate is open");
    if (result == ncclSuccess && ct_becomes_idle(ct, other, 0.1))
        code = ct_fail(ct, CT_WRONG, "the second call has not waited for the first");
    ct_gate_open(&gate);
    if (result != ncclSuccess)
        code = ct_fail_call(ct, "ncclAllReduce", result);
    if (code == CT_OK)
        code = settle_both(ct, other);
    if (code == CT_OK)
        code = check_chain(ct, &chain);
    ct_gate_destroy(ct->cuda, &gate);
    return code;
}

static int check_result(struct ct *ct, ncclResult_t result, const char *call)
{
    return result == ncclSuccess ? CT_OK : ct_fail_call(ct, call, result);
}

static int split_of_all(struct ct *ct, ncclConfig_t *config, ncclComm_t *out)
{
    return check_result(ct, ncclCommSplit(ct->comm, 0, ct->options.rank, out, config), "ncclCommSplit");
}

/* Two communicators alternately on two streams; then both in one group, each on its own stream. */
static int alternate(struct ct *ct, void *other)
{
    struct chain chains[2];
    void *streams[2] = {ct->stream, other};
    ncclComm_t comms[2] = {ct->comm, NULL};
    int code = split_of_all(ct, NULL, &comms[1]);

    for (int i = 0; code == CT_OK && i < 2; i++)
        code = open_chain(ct, &chains[i]);
    for (int i = 0; code == CT_OK && i < 4; i++)
        code = check_result(
            ct, sum(&chains[i % 2], chains[i % 2].a, chains[i % 2].b, comms[i % 2], streams[i % 2]),
            "an alternate call");
    if (code != CT_OK)
        return code;
    code = check_result(ct, ncclGroupStart(), "ncclGroupStart");
    for (int i = 1; code == CT_OK && i >= 0; i--)
        code = check_result(ct, sum(&chains[i], chains[i].b, chains[i].c, comms[i], streams[i]),
                            "a grouped call");
    if (code == CT_OK)
        code = check_result(ct, ncclGroupEnd(), "ncclGroupEnd");
    if (code == CT_OK)
        code = settle_both(ct, other);
    for (int i = 0; code == CT_OK && i < 2; i++)
        code = check_chain(ct, &chains[i]);
    return code == CT_OK ? check_result(ct, ncclCommDestroy(comms[1]), "ncclCommDestroy") : code;
}

static ncclResult_t await(ncclComm_t comm)
{
    ncclResult_t state = ncclInProgress;

    while (ncclCommGetAsyncError(comm, &state) == ncclSuccess && state == ncclInProgress)
        ct_sleep_us(50);
    return state;
}

/* A non-blocking communicator: its calls may say ncclInProgress, also behind a stream that stands still. */
static int be_non_blocking(struct ct *ct)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL;
    struct ct_gate gate;
    struct chain chain;
    ncclResult_t result;
    int code;

    config.blocking = 0;
    code = split_of_all(ct, &config, &comm);
    if (code == CT_OK)
        code = check_result(ct, await(comm), "a non-blocking split");
    if (code == CT_OK)
        code = open_chain(ct, &chain);
    if (code != CT_OK)
        return code;
    ct_gate_create(ct->cuda, &gate);
    ct_gate_shut(ct->cuda, &gate, ct->stream);
    for (int i = 0; code == CT_OK && i < 2; i++) {
        result = i == 0 ? sum(&chain, chain.a, chain.b, comm, ct->stream)
                        : sum(&chain, chain.b, chain.c, comm, ct->stream);
        code = check_result(ct, result == ncclInProgress ? await(comm) : result, "a non-blocking call");
    }
    if (ct->cuda->cuStreamQuery(ct->stream) != CT_CUDA_NOT_READY)
        code = ct_fail(ct, CT_WRONG, "a non-blocking call has waited for the stream");
    ct_gate_open(&gate);
    if (code == CT_OK)
        code = check_chain(ct, &chain);
    ct_gate_destroy(ct->cuda, &gate);
    if (code != CT_OK)
        return code;
    result = ncclCommFinalize(comm);
    code = check_result(ct, result == ncclInProgress ? await(comm) : result, "ncclCommFinalize");
    return code == CT_OK ? check_result(ct, ncclCommDestroy(comm), "ncclCommDestroy") : code;
}

/* Every kind of call behind a stream that stands still: all return, and nothing has run. */
static int wait_for_nothing(struct ct *ct)
{
    struct ct_memory memory[HETCCL_TRIAL_KINDS][2];
    struct hetccl_trial trials[HETCCL_TRIAL_KINDS];
    struct ct_gate gate;
    int code = CT_OK;

    memset(memory, 0, sizeof(memory));
    for (int round = 0; code == CT_OK && round < 2; round++) {
        ct_gate_create(ct->cuda, &gate);
        for (int kind = 0; code == CT_OK && kind < HETCCL_TRIAL_KINDS; kind++) {
            trials[kind] = ct_trial(ct, (enum hetccl_trial_kind)kind, ncclFloat32, HETCCL_REFERENCE_SUM, 90);
            if (round == 0)
                code = ct_trial_memory(ct, &trials[kind], memory[kind]);
            if (code == CT_OK)
                code = ct_fill_trial(ct, &trials[kind], memory[kind]);
        }
        ct_gate_shut(ct->cuda, &gate, ct->stream);
        for (int kind = 0; code == CT_OK && kind < HETCCL_TRIAL_KINDS; kind++)
            code = ct_enqueue_trial(ct, &trials[kind], memory[kind]);
        if (code == CT_OK && ct->cuda->cuStreamQuery(ct->stream) != CT_CUDA_NOT_READY)
            code = ct_fail(ct, CT_WRONG, "the calls have waited for the stream");
        ct_gate_open(&gate);
        for (int kind = 0; code == CT_OK && kind < HETCCL_TRIAL_KINDS; kind++)
            code = ct_check_trial(ct, &trials[kind], memory[kind]);
        if (code == CT_OK)
            ct_gate_destroy(ct->cuda, &gate);
    }
    for (int kind = 0; kind < HETCCL_TRIAL_KINDS; kind++)
        for (int i = 0; i < 2; i++)
            ct_memory_close(ct, &memory[kind][i]);
    return code;
}

int ct_scenario_streams(struct ct *ct)
{
    void *other = ct_cuda_new_stream(ct->cuda);
    int code = keep_order(ct, other);

    if (code == CT_OK)
        code = keep_order(ct, other); /* the first call has made what was needed */
    if (code == CT_OK)
        code = alternate(ct, other);
    if (code == CT_OK)
        code = be_non_blocking(ct);
    if (code == CT_OK)
        code = wait_for_nothing(ct);
    ct_cuda_check(ct->cuda->cuStreamDestroy_v2(other), "cuStreamDestroy");
    return code;
}
