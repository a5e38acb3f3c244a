/* SPDX-License-Identifier: Apache-2.0 */

/* Calls on native communicators: they do what they should, and the vendor's library gets them as they came.
 */

#include <stdint.h>
#include <string.h>

#include "native.h"

enum { FLOAT_BYTES = 4 };

static float *floats(size_t n)
{
    return device_memory(n * FLOAT_BYTES);
}

static void fill(float *out, size_t n, float first)
{
    for (size_t i = 0; i < n; i++)
        out[i] = first + (float)(i % 100);
}

static void expect_floats(const float *values, size_t n, float first, const char *what)
{
    for (size_t i = 0; i < n; i++)
        expect(values[i] == first + (float)(i % 100), "%s: element %zu is %g, not %g", what, i,
               (double)(first + (float)(i % 100)), (double)values[i]);
}

/* (a + i) + (b + i) */
static void expect_sum(const float *values, size_t n, float a_and_b, const char *what)
{
    for (size_t i = 0; i < n; i++)
        expect(values[i] == a_and_b + 2.0f * (float)(i % 100), "%s: element %zu", what, i);
}

static void check_reductions(ncclComm_t comm, hetcclStream_t stream)
{
    float *send = floats(2 * COUNT), *recv = floats(2 * COUNT);

    fill(send, COUNT, rank == 0 ? 1.0f : 10.0f);
    expect_result(ncclAllReduce(send, recv, COUNT, ncclFloat, ncclSum, comm, stream), ncclSuccess,
                  "ncclAllReduce");
    synchronize(stream);
    expect_sum(recv, COUNT, 11.0f, "all-reduce");
    expect_result(ncclAllReduce(send, recv, COUNT, ncclFloat, ncclMax, comm, stream), ncclSuccess,
                  "ncclAllReduce");
    synchronize(stream);
    expect_floats(recv, COUNT, 10.0f, "maximum");
    expect_result(ncclAllReduce(send, recv, COUNT, ncclFloat, ncclAvg, comm, stream), ncclSuccess,
                  "ncclAllReduce");
    synchronize(stream);
    expect_floats(recv, COUNT, 5.5f, "average");
    fill(recv, COUNT, -1.0f);
    expect_result(ncclReduce(send, recv, COUNT, ncclFloat, ncclSum, 1, comm, stream), ncclSuccess,
                  "ncclReduce");
    synchronize(stream);
    if (rank == 1)
        expect_sum(recv, COUNT, 11.0f, "reduce");
    else
        expect_floats(recv, COUNT, -1.0f, "reduce, not the root");
    fill(send, COUNT, rank == 0 ? 1.0f : 10.0f);
    fill(send + COUNT, COUNT, rank == 0 ? 2.0f : 20.0f);
    expect_result(ncclReduceScatter(send, recv, COUNT, ncclFloat, ncclSum, comm, stream), ncclSuccess,
                  "ncclReduceScatter");
    synchronize(stream);
    expect_sum(recv, COUNT, rank == 0 ? 11.0f : 22.0f, "reduce-scatter");
}

static void check_moves(ncclComm_t comm, hetcclStream_t stream)
{
    float *send = floats(2 * COUNT), *recv = floats(2 * COUNT);

    fill(send, COUNT, rank == 0 ? 3.0f : 4.0f);
    fill(send + COUNT, COUNT, rank == 0 ? 5.0f : 6.0f);
    expect_result(ncclBroadcast(send, recv, COUNT, ncclFloat, 1, comm, stream), ncclSuccess, "ncclBroadcast");
    synchronize(stream);
    expect_floats(recv, COUNT, 4.0f, "broadcast");
    fill(recv, COUNT, rank == 0 ? 7.0f : 8.0f);
    expect_result(ncclBcast(recv, COUNT, ncclFloat, 0, comm, stream), ncclSuccess, "ncclBcast");
    synchronize(stream);
    expect_floats(recv, COUNT, 7.0f, "bcast");
    expect_result(ncclAllGather(send, recv, COUNT, ncclFloat, comm, stream), ncclSuccess, "ncclAllGather");
    synchronize(stream);
    expect_floats(recv, COUNT, 3.0f, "all-gather");
    expect_floats(recv + COUNT, COUNT, 4.0f, "all-gather");
    expect_result(ncclAlltoAll(send, recv, COUNT, ncclFloat, comm, stream), ncclSuccess, "ncclAlltoAll");
    synchronize(stream);
    expect_floats(recv, COUNT, rank == 0 ? 3.0f : 5.0f, "all-to-all");
    expect_floats(recv + COUNT, COUNT, rank == 0 ? 4.0f : 6.0f, "all-to-all");
    expect_result(ncclGather(send, recv, COUNT, ncclFloat, 0, comm, stream), ncclSuccess, "ncclGather");
    synchronize(stream);
    if (rank == 0)
        expect_floats(recv + COUNT, COUNT, 4.0f, "gather");
    expect_result(ncclScatter(send, recv, COUNT, ncclFloat, 0, comm, stream), ncclSuccess, "ncclScatter");
    synchronize(stream);
    expect_floats(recv, COUNT, rank == 0 ? 3.0f : 5.0f, "scatter");
}

static void check_messages(ncclComm_t comm, hetcclStream_t stream)
{
    float *send = floats(COUNT), *recv = floats(COUNT);

    fill(send, COUNT, rank == 0 ? 1.0f : 2.0f);
    expect_result(ncclGroupStart(), ncclSuccess, "ncclGroupStart");
    expect_result(ncclSend(send, COUNT, ncclFloat, 1 - rank, comm, stream), ncclSuccess, "ncclSend");
    expect_result(ncclRecv(recv, COUNT, ncclFloat, 1 - rank, comm, stream), ncclSuccess, "ncclRecv");
    expect_result(ncclGroupEnd(), ncclSuccess, "ncclGroupEnd");
    synchronize(stream);
    expect_floats(recv, COUNT, rank == 0 ? 2.0f : 1.0f, "send and receive");
}

static void check_factor(ncclComm_t comm, hetcclStream_t stream)
{
    float factor = 0.5f, *send = floats(COUNT), *recv = floats(COUNT);
    ncclRedOp_t op;

    fill(send, COUNT, 1.0f);
    expect_result(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat, ncclScalarHostImmediate, comm),
                  ncclSuccess, "ncclRedOpCreatePreMulSum");
    expect_result(ncclAllReduce(send, recv, COUNT, ncclFloat, op, comm, stream), ncclSuccess,
                  "ncclAllReduce");
    expect_result(ncclRedOpDestroy(op, comm), ncclSuccess, "ncclRedOpDestroy");
    expect_call("ncclRedOpDestroy(%u, %d/2)", (unsigned)op, rank);
    synchronize(stream);
    expect_floats(recv, COUNT, 1.0f, "half the sum");
    expect_result(ncclRedOpDestroy(op, comm), ncclInvalidArgument, "ncclRedOpDestroy, again");
    expect_error_text("operator");
}

void case_values(void)
{
    ncclComm_t comm = join_comm("values", NULL);
    hetcclStream_t stream = new_stream();

    expect(strcmp(engine_of(comm), "ccl") == 0, "engine ccl");
    check_reductions(comm, stream);
    check_moves(comm, stream);
    check_messages(comm, stream);
    check_factor(comm, stream);
    expect_result(ncclCommDestroy(comm), ncclSuccess, "ncclCommDestroy");
    expect(fakes.n_live() == 0, "no communicator left, not %zu", fakes.n_live());
}

/* ---- arguments ---- */

static void check_collective_arguments(ncclComm_t comm, hetcclStream_t s)
{
    void *a = device_memory(4096), *b = device_memory(4096);
    const char *where = rank == 0 ? "0/2" : "1/2";
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;

    (void)ncclAllReduce(a, b, 3, ncclInt64, ncclMin, comm, s);
    expect_call("ncclAllReduce(%p, %p, 3, 4, 3, %s, %p)", a, b, where, (void *)s);
    (void)ncclBroadcast(a, b, 5, ncclBfloat16, 1, comm, s);
    expect_call("ncclBroadcast(%p, %p, 5, 9, 1, %s, %p)", a, b, where, (void *)s);
    (void)ncclBcast(b, 5, ncclInt8, 1, comm, s);
    expect_call("ncclBcast(%p, 5, 0, 1, %s, %p)", b, where, (void *)s);
    (void)ncclReduce(a, b, 6, ncclHalf, ncclProd, 1, comm, s);
    expect_call("ncclReduce(%p, %p, 6, 6, 1, 1, %s, %p)", a, b, where, (void *)s);
    (void)ncclAllGather(a, b, 7, ncclUint8, comm, s);
    expect_call("ncclAllGather(%p, %p, 7, 1, %s, %p)", a, b, where, (void *)s);
    (void)ncclReduceScatter(a, b, 8, ncclDouble, ncclMax, comm, s);
    expect_call("ncclReduceScatter(%p, %p, 8, 8, 2, %s, %p)", a, b, where, (void *)s);
    (void)ncclAlltoAll(a, b, 9, ncclUint32, comm, s);
    expect_call("ncclAlltoAll(%p, %p, 9, 3, %s, %p)", a, b, where, (void *)s);
    (void)ncclGather(a, b, 10, ncclInt32, 1, comm, s);
    expect_call("ncclGather(%p, %p, 10, 2, 1, %s, %p)", a, b, where, (void *)s);
    (void)ncclScatter(a, b, 11, ncclUint64, 1, comm, s);
    expect_call("ncclScatter(%p, %p, 11, 5, 1, %s, %p)", a, b, where, (void *)s);
    (void)ncclAllReduceConfig(a, b, 3, ncclInt64, ncclMin, comm, s, &config);
    expect_call("ncclAllReduceConfig(%p, %p, 3, 4, 3, %s, %p, %p)", a, b, where, (void *)s, (void *)&config);
    (void)ncclBroadcastConfig(a, b, 5, ncclBfloat16, 1, comm, s, &config);
    expect_call("ncclBroadcastConfig(%p, %p, 5, 9, 1, %s, %p, %p)", a, b, where, (void *)s, (void *)&config);
    (void)ncclReduceConfig(a, b, 6, ncclHalf, ncclProd, 1, comm, s, &config);
    expect_call("ncclReduceConfig(%p, %p, 6, 6, 1, 1, %s, %p, %p)", a, b, where, (void *)s, (void *)&config);
    (void)ncclAllGatherConfig(a, b, 7, ncclUint8, comm, s, &config);
    expect_call("ncclAllGatherConfig(%p, %p, 7, 1, %s, %p, %p)", a, b, where, (void *)s, (void *)&config);
    (void)ncclReduceScatterConfig(a, b, 8, ncclDouble, ncclMax, comm, s, &config);
    expect_call("ncclReduceScatterConfig(%p, %p, 8, 8, 2, %s, %p, %p)", a, b, where, (void *)s,
                (void *)&config);
    (void)ncclAlltoAllConfig(a, b, 9, ncclUint32, comm, s, &config);
    expect_call("ncclAlltoAllConfig(%p, %p, 9, 3, %s, %p, %p)", a, b, where, (void *)s, (void *)&config);
    (void)ncclGatherConfig(a, b, 10, ncclInt32, 1, comm, s, &config);
    expect_call("ncclGatherConfig(%p, %p, 10, 2, 1, %s, %p, %p)", a, b, where, (void *)s, (void *)&config);
    (void)ncclScatterConfig(a, b, 11, ncclUint64, 1, comm, s, NULL);
    expect_call("ncclScatterConfig(%p, %p, 11, 5, 1, %s, %p, (nil))", a, b, where, (void *)s);
    synchronize(s);
}

static void check_other_arguments(ncclComm_t comm, hetcclStream_t s)
{
    void *a = device_memory(4096), *handle = NULL;
    ncclWindow_t window = NULL, fake_window = (ncclWindow_t)(void *)0x77;
    ncclWaitSignalDesc_t description = {.peer = 1};
    const char *where = rank == 0 ? "0/2" : "1/2";
    uint64_t value = 0;
    int number = -1;

    expect_result(ncclCommRegister(comm, a, 64, &handle), ncclSuccess, "ncclCommRegister");
    expect_call("ncclCommRegister(%s, %p, 64, %p)", where, a, (void *)&handle);
    expect(handle == a, "the vendor's handle");
    expect_result(ncclCommDeregister(comm, handle), ncclSuccess, "ncclCommDeregister");
    expect_call("ncclCommDeregister(%s, %p)", where, handle);
    expect_result(ncclCommWindowRegister(comm, a, 64, &window, NCCL_WIN_COLL_SYMMETRIC), ncclSuccess,
                  "ncclCommWindowRegister");
    expect_call("ncclCommWindowRegister(%s, %p, 64, %p, 1)", where, a, (void *)&window);
    expect_result(ncclCommWindowDeregister(comm, window), ncclSuccess, "ncclCommWindowDeregister");
    expect_call("ncclCommWindowDeregister(%s, %p)", where, (void *)window);
    expect_result(ncclWinGetUserPtr(comm, fake_window, &handle), ncclInvalidUsage, "ncclWinGetUserPtr");
    expect_call("ncclWinGetUserPtr(%s, 0x77, %p)", where, (void *)&handle);
    (void)ncclPutSignal(a, 4, ncclInt, 1, fake_window, 8, 2, 3, 4, comm, s);
    expect_call("ncclPutSignal(%p, 4, 2, 1, 0x77, 8, 2, 3, 4, %s, %p)", a, where, (void *)s);
    (void)ncclSignal(1, 2, 3, 4, comm, s);
    expect_call("ncclSignal(1, 2, 3, 4, %s, %p)", where, (void *)s);
    (void)ncclWaitSignal(1, &description, comm, s);
    expect_call("ncclWaitSignal(1, %p, %s, %p)", (void *)&description, where, (void *)s);
    expect_result(ncclCommSuspend(comm, 1), ncclSuccess, "ncclCommSuspend");
    expect_call("ncclCommSuspend(%s, 1)", where);
    expect_result(ncclCommResume(comm), ncclSuccess, "ncclCommResume");
    expect_call("ncclCommResume(%s)", where);
    expect_result(ncclCommMemStats(comm, ncclStatGpuMemTotal, &value), ncclSuccess, "ncclCommMemStats");
    expect(value == 4711, "the vendor's figure");
    expect_call("ncclCommMemStats(%s, 3, %p)", where, (void *)&value);
    expect_result(ncclCommCount(comm, &number), ncclSuccess, "ncclCommCount");
    expect_call("ncclCommCount(%s, %p)", where, (void *)&number);
    expect_result(ncclCommUserRank(comm, &number), ncclSuccess, "ncclCommUserRank");
    expect_call("ncclCommUserRank(%s, %p)", where, (void *)&number);
    expect_result(ncclCommCuDevice(comm, &number), ncclSuccess, "ncclCommCuDevice");
    expect(number == rank, "device %d, not %d", rank, number);
    expect_call("ncclCommCuDevice(%s, %p)", where, (void *)&number);
    (void)ncclCommGetUniqueId(comm, a);
    expect_call("ncclCommGetUniqueId(%s, %p)", where, a);
}

/* Functions without a communicator. */
static void check_library_arguments(void)
{
    ncclParamHandle_t parameter = NULL;
    int32_t value = 0;
    void *memory = NULL;
    int version = 0;

    expect_result(ncclGetVersion(&version), ncclSuccess, "ncclGetVersion");
    expect(version == 22807, "the vendor's version, not %d", version);
    expect_result(ncclMemAlloc(&memory, 4096), ncclSuccess, "ncclMemAlloc");
    expect_call("ncclMemAlloc(%p, 4096)", (void *)&memory);
    expect_result(ncclMemFree(memory), ncclSuccess, "ncclMemFree");
    expect_call("ncclMemFree(%p)", memory);
    (void)ncclParamBind(&parameter, "NCCL_ALGO");
    expect_call("ncclParamBind(%p, NCCL_ALGO)", (void *)&parameter);
    expect_result(ncclParamGetI32(parameter, &value), ncclSuccess, "ncclParamGetI32");
    expect(value == 7, "the vendor's value");
    ncclParamDumpAll();
    expect_call("ncclParamDumpAll()");
    expect(strcmp(ncclGetErrorString(ncclInvalidUsage), "fake: an error") == 0, "the vendor's words");
}

/* The host half of the device API; its types aren't in nccl.h. */
ncclResult_t ncclCommQueryProperties(ncclComm_t comm, void *properties);
ncclResult_t ncclDevCommCreate(ncclComm_t comm, const void *requirements, void *out);
int ncclLLA2ACalcSlots(int max_elements, int max_element_bytes);
struct team {
    int n_ranks, rank, stride;
};
struct team ncclTeamWorld(ncclComm_t comm);
int ncclTeamRankToWorld(ncclComm_t comm, struct team team, int rank);

static void check_device_api(ncclComm_t comm)
{
    const char *where = rank == 0 ? "0/2" : "1/2";
    struct team team = {5, 6, 7};

    (void)ncclCommQueryProperties(comm, &team);
    expect_call("ncclCommQueryProperties(%s, %p)", where, (void *)&team);
    (void)ncclDevCommCreate(comm, &team, &where);
    expect_call("ncclDevCommCreate(%s, %p, %p)", where, (void *)&team, (void *)&where);
    expect(ncclLLA2ACalcSlots(3, 4) == 42, "the vendor's number");
    expect_call("ncclLLA2ACalcSlots(3, 4)");
    expect(ncclTeamRankToWorld(comm, team, 8) == 42, "the vendor's number");
    expect_call("ncclTeamRankToWorld(%s, 5:6:7, 8)", where);
    team = ncclTeamWorld(comm);
    expect_call("ncclTeamWorld(%s)", where);
    expect(team.n_ranks == 2 && team.rank == rank && team.stride == 1, "the vendor's team");
}

void case_arguments(void)
{
    ncclComm_t comm = join_comm("arguments", NULL);
    hetcclStream_t stream = new_stream();

    check_collective_arguments(comm, stream);
    check_other_arguments(comm, stream);
    check_library_arguments();
    check_device_api(comm);
    expect_result(ncclCommRevoke(comm, 0), ncclSuccess, "ncclCommRevoke");
    expect_call("ncclCommRevoke(%d/2, 0)", rank);
    expect_result(ncclCommAbort(comm), ncclSuccess, "ncclCommAbort");
}

/* ---- groups and errors ---- */

void case_group(void)
{
    ncclComm_t comm = join_comm("group", NULL);
    hetcclStream_t stream = new_stream();
    float *send = floats(COUNT), *recv = floats(COUNT), *other = floats(COUNT);
    unsigned n_starts = fakes.n_calls("ncclGroupStart"), n_ends = fakes.n_calls("ncclGroupEnd");
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;

    /* An empty group is none of the vendor's. */
    expect_result(ncclGroupStart(), ncclSuccess, "ncclGroupStart");
    expect_result(ncclGroupEnd(), ncclSuccess, "ncclGroupEnd");
    expect(fakes.n_calls("ncclGroupStart") == n_starts, "no group of the vendor's");
    fill(send, COUNT, 1.0f);
    fill(recv, COUNT, 0.0f);
    (void)ncclGroupStart();
    (void)ncclGroupStart();
    expect_result(ncclAllReduce(send, recv, COUNT, ncclFloat, ncclSum, comm, stream), ncclSuccess,
                  "ncclAllReduce");
    expect_result(ncclGroupEnd(), ncclSuccess, "ncclGroupEnd, inner");
    expect(fakes.n_calls("ncclGroupEnd") == n_ends, "the vendor's group still open");
    expect_result(ncclBroadcast(send, other, COUNT, ncclFloat, 0, comm, stream), ncclSuccess,
                  "ncclBroadcast");
    expect_result(ncclGroupEnd(), ncclSuccess, "ncclGroupEnd");
    expect(fakes.n_calls("ncclGroupStart") == n_starts + 1 && fakes.n_calls("ncclGroupEnd") == n_ends + 1,
           "one group of the vendor's");
    synchronize(stream);
    expect_sum(recv, COUNT, 2.0f, "all-reduce in a group");
    expect_floats(other, COUNT, 1.0f, "broadcast in a group");
    /* The vendor's error comes at once and from the end. */
    (void)ncclGroupStart();
    expect_result(ncclAllReduce(send, recv, COUNT, (ncclDataType_t)99, ncclSum, comm, stream),
                  ncclInvalidArgument, "type 99");
    expect_result(ncclGroupEnd(), ncclInvalidArgument, "ncclGroupEnd");
    /* One of our own drops what the vendor's group holds. */
    fill(recv, COUNT, -5.0f);
    (void)ncclGroupStart();
    expect_result(ncclAllReduce(send, recv, COUNT, ncclFloat, ncclSum, comm, stream), ncclSuccess,
                  "ncclAllReduce");
    expect_result(ncclSend(send, COUNT, ncclFloat, 0, NULL, stream), ncclInvalidArgument, "ncclSend on NULL");
    expect_result(ncclGroupEnd(), ncclInvalidArgument, "ncclGroupEnd");
    expect_error_text("the communicator is NULL");
    synchronize(stream);
    expect_floats(recv, COUNT, -5.0f, "untouched");
    /* Simulated: the vendor's estimate, and nothing runs. */
    (void)ncclGroupStart();
    expect_result(ncclAllReduce(send, recv, COUNT, ncclFloat, ncclSum, comm, stream), ncclSuccess,
                  "ncclAllReduce");
    expect_result(ncclGroupSimulateEnd(&info), ncclSuccess, "ncclGroupSimulateEnd");
    expect(info.estimatedTime == 1.0f, "the vendor's estimate, not %g", (double)info.estimatedTime);
    synchronize(stream);
    expect_floats(recv, COUNT, -5.0f, "untouched");
    /* And the thread's next group is a good one. */
    (void)ncclGroupStart();
    (void)ncclAllReduce(send, recv, COUNT, ncclFloat, ncclSum, comm, stream);
    fakes.fail("ncclGroupEnd:1:2");
    expect_result(ncclGroupEnd(), ncclSystemError, "ncclGroupEnd");
    expect_error_text("scripted failure of ncclGroupEnd");
    expect_result(ncclCommDestroy(comm), ncclSuccess, "ncclCommDestroy");
}

void case_errors(void)
{
    ncclComm_t comm = join_comm("errors", NULL);
    hetcclStream_t stream = new_stream();
    float *memory = floats(COUNT);
    ncclResult_t state = ncclSuccess;

    expect_result(ncclAllReduce(memory, memory, 1, (ncclDataType_t)99, ncclSum, comm, stream),
                  ncclInvalidArgument, "type 99");
    expect_error_text("type 99");
    for (unsigned code = 1; code <= 8; code++) {
        char script[32] = "ncclBroadcast:1:0";

        script[16] = (char)('0' + code);
        fakes.fail(script);
        expect_result(ncclBroadcast(memory, memory, 1, ncclFloat, 0, comm, stream), (ncclResult_t)code,
                      "ncclBroadcast");
        if (code != ncclInProgress)
            expect_error_text("scripted failure of ncclBroadcast");
    }
    /* Ours, after the vendor's. */
    expect_result(ncclCommCount(NULL, NULL), ncclInvalidArgument, "ncclCommCount");
    expect_error_text("ncclCommCount: the communicator is NULL");
    fakes.fail("ncclBroadcast:1:async");
    expect_result(ncclBroadcast(memory, memory, 0, ncclFloat, 0, comm, stream), ncclSuccess, "ncclBroadcast");
    expect_result(ncclCommGetAsyncError(comm, &state), ncclSuccess, "ncclCommGetAsyncError");
    expect_result(state, ncclRemoteError, "the communicator's state");
    expect_result(ncclCommAbort(comm), ncclSuccess, "ncclCommAbort");
    expect_result(ncclAllReduce(memory, memory, 1, ncclFloat, ncclSum, comm, stream), ncclInvalidArgument,
                  "after the end");
}
