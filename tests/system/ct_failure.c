/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ct.h"

/* A15 abort from another thread, A16 ranks that disagree. */

struct aborter {
    const struct ct *ct;
    ncclComm_t comm;
    long after_ms;
    double took_s;
    ncclResult_t result;
};

static void *abort_later(void *argument)
{
    struct aborter *aborter = argument;
    double start;

    ct_sleep_ms(aborter->after_ms);
    while (aborter->after_ms == 0 && !ct_is_marked(aborter->ct, "go", aborter->ct->options.rank))
        ct_sleep_ms(1);
    start = ct_now_s();
    aborter->result = ncclCommAbort(aborter->comm);
    aborter->took_s = ct_now_s() - start;
    return NULL;
}

/* Calls until one fails: the peer has been stopped, or this communicator aborted, perhaps in another thread.
 * That one's failure is told by the call, or by the call after it. */
static ncclResult_t call_until_failure(struct ct *ct, ncclComm_t comm)
{
    enum { COUNT = 1 << 16 };
    struct ct_memory data;
    ncclResult_t result = ncclSystemError;
    bool is_first = true;

    if (ct_memory_open(ct, COUNT * sizeof(float), &data) == CT_OK)
        result = ncclSuccess;
    while (result == ncclSuccess) {
        result = ncclAllReduce(data.device, data.device, COUNT, ncclFloat32, ncclMax, comm, ct->stream);
        if (!ct_becomes_idle(ct, ct->stream, 30))
            return ncclInternalError;
        if (is_first)
            ct_mark(ct, "busy");
        is_first = false;
    }
    ct_memory_close(ct, &data);
    return result;
}

/*
 * The runner stops a peer; after --limit ms, or with 0 when the runner marks "go", a second thread (--variant
 * twice: two of them) aborts. The call must end, and no thread of the library may be left.
 */
int ct_scenario_abort(struct ct *ct)
{
    int n = strcmp(ct->options.variant, "twice") == 0 ? 2 : 1;
    struct aborter aborters[2];
    pthread_t threads[2];
    ncclResult_t result;
    bool is_done = false;
    double worst = 0;

    for (int i = 0; i < n; i++) {
        aborters[i] = (struct aborter){.ct = ct, .comm = ct->comm, .after_ms = ct->options.limit};
        if (pthread_create(&threads[i], NULL, abort_later, &aborters[i]) != 0)
            return ct_fail(ct, CT_SETUP, "no thread");
    }
    result = call_until_failure(ct, ct->comm);
    ct->comm = NULL; /* gone with the abort */
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
        worst = aborters[i].took_s > worst ? aborters[i].took_s : worst;
        is_done = is_done || aborters[i].result == ncclSuccess; /* the second may find it gone */
    }
    ct_sleep_ms(100);
    ct_note(ct, " abort_s=%.3f call=%d threads_left=%ld", worst, (int)result, ct_count_threads() - 1);
    return is_done ? CT_OK : ct_fail(ct, (int)aborters[0].result, "ncclCommAbort failed");
}

/* The peers never come; a non-blocking init is aborted after --limit ms. */
int ct_scenario_abort_init(struct ct *ct)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL;
    ncclResult_t state = ncclSuccess;
    ncclResult_t result;
    double start;

    config.blocking = 0;
    result = ncclCommInitRankConfig(&comm, ct->options.size, ct->id, ct->options.rank, &config);
    if (result != ncclInProgress || comm == NULL)
        return ct_fail(ct, CT_WRONG, "a non-blocking init gave %d", (int)result);
    ct_sleep_ms(ct->options.limit);
    result = ncclCommGetAsyncError(comm, &state);
    /* Another rank of the two may have aborted a moment ago. */
    if (result != ncclSuccess || (state != ncclInProgress && state != ncclRemoteError))
        return ct_fail(ct, CT_WRONG, "the state is %d while ranks are missing", (int)state);
    start = ct_now_s();
    result = ncclCommAbort(comm);
    ct_note(ct, " abort_s=%.3f", ct_now_s() - start);
    ct_sleep_ms(100);
    ct_note(ct, " threads_left=%ld", ct_count_threads() - 1);
    return result == ncclSuccess ? CT_OK : ct_fail_call(ct, "ncclCommAbort", result);
}

static void *call_for_ever(void *argument)
{
    struct ct *ct = argument;

    (void)call_until_failure(ct, ct->comm);
    return NULL;
}

/* exit(0) with a call of another thread under way and nothing given back; the runner takes the time. */
int ct_scenario_leave(struct ct *ct)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, call_for_ever, ct) != 0)
        return ct_fail(ct, CT_SETUP, "no thread");
    ct_sleep_ms(ct->options.limit);
    printf("%d 0 %.3f 0 0 0 00000000 leaving_at=%.3f\n", ct->options.rank, ct_now_s(), ct_now_s());
    (void)fflush(stdout);
    exit(0);
}

static ncclResult_t differ(const struct ct *ct, const char *variant, void *data, bool is_odd)
{
    ncclComm_t comm = ct->comm;
    void *stream = ct->stream;
    size_t count = 100 * 2560;

    if (strcmp(variant, "count") == 0)
        return ncclAllReduce(data, data, is_odd ? 2 * count : count, ncclFloat32, ncclSum, comm, stream);
    if (strcmp(variant, "one") == 0)
        return ncclAllReduce(data, data, is_odd ? 2 : 1, ncclFloat32, ncclSum, comm, stream);
    if (strcmp(variant, "type") == 0)
        return ncclAllReduce(data, data, is_odd ? 2 * count : count, is_odd ? ncclBfloat16 : ncclFloat32,
                             ncclSum, comm, stream);
    if (strcmp(variant, "op") == 0)
        return ncclAllReduce(data, data, count, ncclFloat32, is_odd ? ncclMax : ncclSum, comm, stream);
    if (strcmp(variant, "root") == 0)
        return ncclBroadcast(data, data, count, ncclFloat32, is_odd ? 1 : 0, comm, stream);
    if ((strcmp(variant, "kind") == 0 || strcmp(variant, "ahead") == 0) && is_odd)
        return ncclBroadcast(data, data, count, ncclFloat32, 0, comm, stream);
    return ncclAllReduce(data, data, count, ncclFloat32, ncclSum, comm, stream);
}

/* Rank 0 differs. The runner expects ncclInvalidUsage from everybody; `extra` is one call more by rank 0,
 * `ahead` is `kind` with others behind it. */
int ct_scenario_mismatch(struct ct *ct)
{
    const char *variant = ct->options.variant;
    bool is_odd = ct->options.rank == 0;
    struct ct_memory memory;
    int code = ct_memory_open(ct, 200 * 2560 * sizeof(float), &memory);
    ncclResult_t result = code == CT_OK ? ncclSuccess : ncclSystemError;
    void *data = memory.device;
    double start;

    /* All have joined before one fails: else a late one would hear of it in its init. */
    if (result == ncclSuccess)
        result = ncclAllReduce(data, data, 1, ncclFloat32, ncclSum, ct->comm, ct->stream);
    if (result == ncclSuccess)
        result = ct_settle_on(ct, ct->comm, ct->stream);
    start = ct_now_s();
    if (result == ncclSuccess)
        result = differ(ct, variant, data, is_odd);
    if (result == ncclSuccess && is_odd && strcmp(variant, "extra") == 0)
        result = differ(ct, variant, data, is_odd);
    for (int i = 0; result == ncclSuccess && strcmp(variant, "ahead") == 0 && i < 3; i++)
        result = ncclAllReduce(data, data, 1, ncclFloat32, ncclSum, ct->comm, ct->stream);
    if (result == ncclSuccess)
        result = ct_settle_on(ct, ct->comm, ct->stream);
    /* A root may be through before the others' messages tell; the end of the communicator has to say it then.
     */
    if (result == ncclSuccess && strcmp(variant, "extra") != 0)
        result = ncclCommFinalize(ct->comm);
    ct_note(ct, " call_s=%.3f", ct_now_s() - start);
    if (!ct_becomes_idle(ct, ct->stream, 10))
        return ct_fail(ct, CT_WRONG, "the stream doesn't become idle");
    ct_memory_close(ct, &memory);
    return result == ncclSuccess ? CT_OK : ct_fail_call(ct, "the call", result);
}
