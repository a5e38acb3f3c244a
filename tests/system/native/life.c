/* SPDX-License-Identifier: Apache-2.0 */

/* How native communicators come to be, and end. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "native.h"

static void expect_works(ncclComm_t comm, int n_ranks)
{
    hetcclStream_t stream = new_stream();
    float *memory = device_memory(COUNT * sizeof(float));
    ncclResult_t state = ncclInternalError;

    for (size_t i = 0; i < COUNT; i++)
        memory[i] = 1.0f;
    expect_result(ncclAllReduce(memory, memory, COUNT, ncclFloat, ncclSum, comm, stream), ncclSuccess,
                  "ncclAllReduce");
    synchronize(stream);
    expect_result(ncclCommGetAsyncError(comm, &state), ncclSuccess, "ncclCommGetAsyncError");
    expect_result(state, ncclSuccess, "the communicator's state");
    for (size_t i = 0; i < COUNT; i++)
        expect(memory[i] == (float)n_ranks, "a sum of %d, not %g", n_ranks, (double)memory[i]);
}

/* The configuration reaches the vendor as it came, strings included; none is none. */
void case_init(void)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = join_comm("plain", NULL), other;
    hetcclCommInfo_t info = {.size = sizeof(info)};
    char net[] = "Socket", name[] = "a name";

    expect_call("ncclCommInitRankConfig(2, %d, null)", rank);
    expect_result(hetcclCommInfo(comm, &info), ncclSuccess, "hetcclCommInfo");
    expect(info.nIslands == 1 && info.nRanks == 2 && info.rank == rank, "one island of two");
    expect(strcmp(info.vendor, "nvidia") == 0 && strcmp(info.device, "cuda") == 0, "an NVIDIA GPU");
    config.blocking = 1;
    config.netName = net;
    config.commName = name;
    other = join_comm("config", &config);
    expect_call("ncclCommInitRankConfig(2, %d, {96 23007 blocking 1 net Socket name a name})", rank);
    expect_works(comm, 2);
    expect_works(other, 2);
    config.size = 48; /* a caller of 2.18 */
    config.version = 21800;
    expect_result(ncclCommDestroy(other), ncclSuccess, "ncclCommDestroy");
    other = join_comm("old", &config);
    expect_call("ncclCommInitRankConfig(2, %d, {48 21800 blocking 1 net Socket name -})", rank);
    /* The vendor refuses: its words and result, on both ranks. */
    fakes.fail("ncclCommInitRankConfig:1:5");
    expect_result(try_join("refused", NULL, &other), ncclInvalidUsage, "ncclCommInitRank");
    expect_error_text("scripted failure of ncclCommInitRankConfig");
    expect(other == NULL, "no handle");
}

void case_children(void)
{
    ncclComm_t comm = join_comm("children", NULL), child = NULL, none = comm;
    hetcclCommInfo_t info = {.size = sizeof(info)};
    int excluded = 1, number = -1;

    expect_result(ncclCommSplit(comm, 7, -rank, &child, NULL), ncclSuccess, "ncclCommSplit");
    expect_call("ncclCommSplit(%d/2, 7, %d, (nil))", rank, -rank);
    expect_result(ncclCommUserRank(child, &number), ncclSuccess, "ncclCommUserRank");
    expect(number == 1 - rank, "the ranks in the order of their keys");
    expect_result(hetcclCommInfo(child, &info), ncclSuccess, "hetcclCommInfo");
    expect(info.nRanks == 2 && info.rank == 1 - rank && strcmp(info.engine, "ccl") == 0, "a native child");
    expect_works(child, 2);
    expect_result(ncclCommDestroy(child), ncclSuccess, "ncclCommDestroy");
    /* A colour each, in a group; and none. */
    (void)ncclGroupStart();
    expect_result(ncclCommSplit(comm, rank, 0, &child, NULL), ncclSuccess, "ncclCommSplit");
    expect_result(ncclGroupEnd(), ncclSuccess, "ncclGroupEnd");
    expect_works(child, 1);
    expect_result(ncclCommDestroy(child), ncclSuccess, "ncclCommDestroy");
    expect_result(ncclCommSplit(comm, NCCL_SPLIT_NOCOLOR, 0, &none, NULL), ncclSuccess, "ncclCommSplit");
    expect(none == NULL, "no child");
    /* A failure leaves no handle, and no communicator. */
    fakes.fail("ncclCommSplit:1:6");
    expect_result(ncclCommSplit(comm, 0, 0, &child, NULL), ncclRemoteError, "ncclCommSplit");
    expect(child == NULL, "no handle");
    expect_error_text("scripted failure of ncclCommSplit");
    if (rank == 0) {
        expect_result(ncclCommShrink(comm, &excluded, 1, &child, NULL, NCCL_SHRINK_ABORT), ncclSuccess,
                      "ncclCommShrink");
        expect_call("ncclCommShrink(0/2, %p, 1, (nil), 1)", (void *)&excluded);
        expect_works(child, 1);
        expect_result(ncclCommDestroy(child), ncclSuccess, "ncclCommDestroy");
    }
    expect_result(ncclCommGrow(comm, 3, NULL, -1, &child, NULL), ncclInvalidUsage, "ncclCommGrow");
    expect_error_text("not offered by the fake");
    expect(child == NULL, "no handle");
    expect_result(ncclCommDestroy(comm), ncclSuccess, "ncclCommDestroy");
    expect(fakes.n_live() == 0, "no communicator left, not %zu", fakes.n_live());
}

void case_non_blocking(void)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL, child = NULL;

    config.blocking = 0;
    expect_result(try_join("non-blocking", &config, &comm), ncclInProgress, "ncclCommInitRankConfig");
    expect(comm != NULL, "a handle at once");
    wait_ready(comm);
    expect(strcmp(engine_of(comm), "ccl") == 0, "engine ccl");
    expect_works(comm, 2);
    expect(ncclCommSplit(comm, 0, rank, &child, &config) == ncclInProgress,
           "ncclCommSplit to be in progress");
    expect(child != NULL, "a handle at once");
    wait_ready(child);
    expect_works(child, 2);
    /* Only the parent was polled: the child is ready all the same. */
    expect_result(ncclCommDestroy(child), ncclSuccess, "ncclCommDestroy");
    expect(ncclCommSplit(comm, 0, rank, &child, NULL) == ncclSuccess,
           "a blocking child, as the fake makes them");
    expect_works(child, 2);
    expect_result(ncclCommDestroy(child), ncclSuccess, "ncclCommDestroy");
    fakes.fail("ncclAllReduce:1:7");
    expect_result(ncclAllReduce(NULL, NULL, 0, ncclFloat, ncclSum, comm, NULL), ncclInProgress,
                  "ncclAllReduce");
    expect_result(ncclCommFinalize(comm), ncclSuccess, "ncclCommFinalize");
    expect_call("ncclCommFinalize(%d/2)", rank);
    expect_result(ncclCommFinalize(comm), ncclInvalidArgument, "ncclCommFinalize, again");
    expect_result(ncclCommDestroy(comm), ncclSuccess, "ncclCommDestroy");
}

/* Rank 0 waits for a collective that rank 1 never makes, until its communicator is aborted. */
static void check_abort_of_a_hanging_call(void)
{
    ncclComm_t comm = join_comm("hanging", NULL);
    hetcclStream_t stream = new_stream();
    void *memory = device_memory(64);

    if (rank == 0)
        expect_result(ncclAllReduce(memory, memory, 1, ncclFloat, ncclSum, comm, stream), ncclSuccess,
                      "ncclAllReduce");
    expect_result(ncclCommAbort(comm), ncclSuccess, "ncclCommAbort");
    synchronize(stream);
}

/* The vendor's abort never returns; ours does. */
static void check_hanging_abort(void)
{
    ncclComm_t comm = join_comm("hanging-abort", NULL);
    double start_s = now_s(), took_s;

    fakes.fail("ncclCommAbort:1:hang");
    expect_result(ncclCommAbort(comm), ncclSuccess, "ncclCommAbort");
    took_s = now_s() - start_s;
    expect(took_s > 1.5 && took_s < 6, "an abort of some 2 s, not %g", took_s);
    expect_result(ncclCommAbort(comm), ncclInvalidArgument, "ncclCommAbort, again");
}

struct hanging_init {
    ncclComm_t comm;
    ncclResult_t result;
};

static void *init_in_thread(void *arg)
{
    struct hanging_init *init = arg;

    use_device(rank);
    init->result = try_join("hanging-init", NULL, &init->comm);
    return NULL;
}

/* Another thread ends an init that hangs in the vendor's library. */
static void check_abort_of_a_hanging_init(void)
{
    struct hanging_init init = {.comm = NULL};
    unsigned n_before = fakes.n_calls("ncclCommInitRankConfig");
    pthread_t thread;
    double start_s;

    fakes.fail("ncclCommInitRankConfig:1:hang");
    expect(pthread_create(&thread, NULL, init_in_thread, &init) == 0, "a thread");
    for (int i = 0; i < 20000 && fakes.n_calls("ncclCommInitRankConfig") == n_before; i++)
        (void)usleep(1000);
    start_s = now_s();
    expect_result(ncclCommAbort(*(ncclComm_t volatile *)&init.comm), ncclSuccess, "ncclCommAbort");
    expect(pthread_join(thread, NULL) == 0, "the thread's end");
    expect(now_s() - start_s < 4, "an abort within 4 s");
    expect(init.result != ncclSuccess, "the init to fail");
}

void case_endings(void)
{
    ncclComm_t comm = join_comm("endings", NULL), other = join_comm("other", NULL);

    expect_result(ncclCommFinalize(comm), ncclSuccess, "ncclCommFinalize");
    expect_result(ncclCommDestroy(comm), ncclSuccess, "ncclCommDestroy");
    expect_call("ncclCommDestroy(%d/2)", rank);
    expect_result(ncclCommDestroy(comm), ncclInvalidArgument, "ncclCommDestroy, again");
    expect_result(ncclCommAbort(NULL), ncclSuccess, "ncclCommAbort of nothing");
    /* In groups. */
    comm = join_comm("third", NULL);
    (void)ncclGroupStart();
    expect_result(ncclCommAbort(comm), ncclSuccess, "ncclCommAbort");
    expect_result(ncclCommDestroy(other), ncclSuccess, "ncclCommDestroy");
    expect(fakes.n_live() == 2, "both still there");
    expect_result(ncclGroupEnd(), ncclSuccess, "ncclGroupEnd");
    expect(fakes.n_live() == 0, "both gone");
    check_abort_of_a_hanging_call();
    check_hanging_abort();
    check_abort_of_a_hanging_init();
}

/* Both GPUs in one process; the other rank has a pair of its own. */
void case_init_all(void)
{
    ncclComm_t comms[2] = {NULL, NULL};
    hetcclStream_t streams[2];
    int devices[2] = {1, 0}, device = -1;
    float *memory[2];

    use_device(0);
    expect_result(ncclCommInitAll(comms, 2, devices), ncclSuccess, "ncclCommInitAll");
    for (int i = 0; i < 2; i++) {
        expect(strcmp(engine_of(comms[i]), "ccl") == 0, "engine ccl");
        expect_result(ncclCommCuDevice(comms[i], &device), ncclSuccess, "ncclCommCuDevice");
        expect(device == devices[i], "device %d, not %d", devices[i], device);
        use_device(device);
        streams[i] = new_stream();
        memory[i] = device_memory(sizeof(float));
        *memory[i] = (float)(i + 1);
    }
    (void)ncclGroupStart();
    for (int i = 0; i < 2; i++)
        expect_result(ncclAllReduce(memory[i], memory[i], 1, ncclFloat, ncclSum, comms[i], streams[i]),
                      ncclSuccess, "ncclAllReduce");
    expect_result(ncclGroupEnd(), ncclSuccess, "ncclGroupEnd");
    for (int i = 0; i < 2; i++) {
        synchronize(streams[i]);
        expect(*memory[i] == 3.0f, "a sum of 3, not %g", (double)*memory[i]);
        expect_result(ncclCommDestroy(comms[i]), ncclSuccess, "ncclCommDestroy");
    }
}

/* FAKE_NCCL_VERSION and a library of 2.18. */
void case_old_library(void)
{
    ncclComm_t comm = join_comm("old", NULL);
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
    void *memory = device_memory(64), *other = NULL;
    hetcclStream_t stream = new_stream();
    int version = 0;

    expect_result(ncclGetVersion(&version), ncclSuccess, "ncclGetVersion");
    expect(version == 21805, "version 21805, not %d", version);
    expect_works(comm, 2);
    expect_result(ncclAlltoAll(memory, memory, 1, ncclFloat, comm, stream), ncclInvalidUsage, "ncclAlltoAll");
    expect_error_text("ncclAlltoAll: NCCL of version code 21805");
    expect_result(ncclCommSuspend(comm, 1), ncclInvalidUsage, "ncclCommSuspend");
    expect_error_text("doesn't have it");
    expect_result(ncclAllReduceConfig(memory, memory, 1, ncclFloat, ncclSum, comm, stream, NULL), ncclSuccess,
                  "ncclAllReduceConfig without a config");
    expect_result(ncclAllReduceConfig(memory, memory, 1, ncclFloat, ncclSum, comm, stream, &config),
                  ncclInvalidUsage, "ncclAllReduceConfig");
    synchronize(stream);
    expect_result(ncclMemAlloc(&other, 64), ncclSuccess, "ncclMemAlloc, ours");
    expect_result(ncclMemFree(other), ncclSuccess, "ncclMemFree, ours");
    expect_result(ncclCommDestroy(comm), ncclSuccess, "ncclCommDestroy");
}

/* Without a library, or with one GPU for both, ranks have p2p. */
void case_no_library(void)
{
    ncclComm_t comm = join_comm("none", NULL);

    expect(strcmp(engine_of(comm), "p2p") == 0, "engine p2p, not %s", engine_of(comm));
    expect_result(ncclCommDestroy(comm), ncclSuccess, "ncclCommDestroy");
}

/* HETCCL_ENGINE=ccl where that can't be. */
void case_forced(void)
{
    ncclComm_t comm = NULL;

    expect_result(try_join("forced", NULL, &comm), ncclInvalidUsage, "ncclCommInitRank");
    expect_error_text("HETCCL_ENGINE=ccl");
    expect(comm == NULL, "no handle");
}

/* HETCCL_ISLAND_SPLIT=1 and the like: not native. */
void case_mixed(void)
{
    ncclComm_t comm = join_comm("mixed", NULL);

    expect(strcmp(engine_of(comm), "none") == 0, "no engine, not %s", engine_of(comm));
    expect(fakes.n_live() == 0, "no communicator of the vendor's");
    expect_result(ncclCommDestroy(comm), ncclSuccess, "ncclCommDestroy");
}

/* Nothing but a native communicator that works. */
void case_one(void)
{
    ncclComm_t comm = join_comm("one", NULL);

    expect(strcmp(engine_of(comm), "ccl") == 0, "engine ccl, not %s", engine_of(comm));
    expect_works(comm, 2);
    expect_result(ncclCommDestroy(comm), ncclSuccess, "ncclCommDestroy");
}
