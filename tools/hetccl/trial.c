/* SPDX-License-Identifier: Apache-2.0 */
#include "trial.h"

#include <string.h>

struct kind_facts {
    const char *name;
    bool has_op, has_root, has_in_place, is_shared;
};

static const struct kind_facts kinds[HETCCL_TRIAL_KINDS] = {
    [HETCCL_TRIAL_ALLREDUCE] = {"allreduce", true, false, true, false},
    [HETCCL_TRIAL_ALLGATHER] = {"allgather", false, false, true, true},
    [HETCCL_TRIAL_REDUCE_SCATTER] = {"reducescatter", true, false, true, true},
    [HETCCL_TRIAL_BROADCAST] = {"broadcast", false, true, true, false},
    [HETCCL_TRIAL_REDUCE] = {"reduce", true, true, true, false},
    [HETCCL_TRIAL_ALLTOALL] = {"alltoall", false, false, false, true},
    [HETCCL_TRIAL_GATHER] = {"gather", false, true, true, true},
    [HETCCL_TRIAL_SCATTER] = {"scatter", false, true, true, true},
    [HETCCL_TRIAL_SENDRECV] = {"sendrecv", false, false, false, false},
    [HETCCL_TRIAL_BCAST] = {"bcast", false, true, true, false},
};

enum { CHECK_BLOCK_BYTES = 32768, GUARD = 0x5a, POISON = 0xdb };

const char *hetccl_trial_name(enum hetccl_trial_kind kind)
{
    return kinds[kind].name;
}

int hetccl_trial_find(const char *name)
{
    for (int i = 0; i < HETCCL_TRIAL_KINDS; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return i;
    return -1;
}

bool hetccl_trial_has_op(enum hetccl_trial_kind kind)
{
    return kinds[kind].has_op;
}

bool hetccl_trial_has_root(enum hetccl_trial_kind kind)
{
    return kinds[kind].has_root;
}

bool hetccl_trial_has_in_place(enum hetccl_trial_kind kind)
{
    return kinds[kind].has_in_place;
}

bool hetccl_trial_is_shared(enum hetccl_trial_kind kind)
{
    return kinds[kind].is_shared;
}

double hetccl_trial_bus_factor(enum hetccl_trial_kind kind, uint32_t n_ranks)
{
    double share = (double)(n_ranks - 1) / n_ranks;

    if (kind == HETCCL_TRIAL_ALLREDUCE)
        return 2 * share;
    return kinds[kind].is_shared ? share : 1.0;
}

static bool is_root(const struct hetccl_trial *trial)
{
    return trial->rank == trial->root;
}

size_t hetccl_trial_send_count(const struct hetccl_trial *trial)
{
    size_t all = trial->count * trial->reference.n_ranks;

    switch (trial->kind) {
    case HETCCL_TRIAL_REDUCE_SCATTER:
    case HETCCL_TRIAL_ALLTOALL:
        return all;
    case HETCCL_TRIAL_BROADCAST:
    case HETCCL_TRIAL_BCAST:
        return is_root(trial) ? trial->count : 0;
    case HETCCL_TRIAL_SCATTER:
        return is_root(trial) ? all : 0;
    default:
        return trial->count;
    }
}

size_t hetccl_trial_recv_count(const struct hetccl_trial *trial)
{
    size_t all = trial->count * trial->reference.n_ranks;

    switch (trial->kind) {
    case HETCCL_TRIAL_ALLGATHER:
    case HETCCL_TRIAL_ALLTOALL:
        return all;
    case HETCCL_TRIAL_REDUCE:
        return is_root(trial) ? trial->count : 0;
    case HETCCL_TRIAL_GATHER:
        return is_root(trial) ? all : 0;
    default:
        return trial->count;
    }
}

size_t hetccl_trial_buffer_count(const struct hetccl_trial *trial)
{
    size_t send_count = hetccl_trial_send_count(trial);
    size_t recv_count = hetccl_trial_recv_count(trial);

    return send_count > recv_count ? send_count : recv_count;
}

void hetccl_trial_place(const struct hetccl_trial *trial, char *a, char *b, void **send_out, void **recv_out)
{
    size_t bytes = trial->count * hetccl_reference_type_bytes(trial->reference.type);
    char *send = a;
    char *recv = b;

    if (trial->is_in_place)
        send = b;
    if (trial->is_in_place && trial->kind == HETCCL_TRIAL_ALLGATHER)
        send = b + trial->rank * bytes;
    else if (trial->is_in_place && trial->kind == HETCCL_TRIAL_REDUCE_SCATTER)
        recv = b + trial->rank * bytes;
    else if (trial->is_in_place && trial->kind == HETCCL_TRIAL_GATHER && is_root(trial))
        send = b + trial->root * bytes;
    else if (trial->is_in_place && trial->kind == HETCCL_TRIAL_SCATTER && is_root(trial))
        recv = b + trial->root * bytes;
    *send_out = send;
    *recv_out = recv;
}

void hetccl_trial_fill(const struct hetccl_trial *trial, void *send, void *recv)
{
    size_t bytes = hetccl_reference_type_bytes(trial->reference.type);

    char *base = (trial->is_in_place && (char *)send < (char *)recv) ? send : recv;

    memset(base, POISON, hetccl_trial_buffer_count(trial) * bytes);
    hetccl_reference_fill(&trial->reference, trial->rank, 0, hetccl_trial_send_count(trial), send);
}

ncclResult_t hetccl_trial_op_begin(const struct hetccl_trial *trial, ncclComm_t comm, ncclRedOp_t *out)
{
    static const ncclRedOp_t ops[HETCCL_REFERENCE_OPS] = {
        [HETCCL_REFERENCE_SUM] = ncclSum, [HETCCL_REFERENCE_PROD] = ncclProd,
        [HETCCL_REFERENCE_MAX] = ncclMax, [HETCCL_REFERENCE_MIN] = ncclMin,
        [HETCCL_REFERENCE_AVG] = ncclAvg,
    };
    uint64_t scalar = 0;

    if (trial->reference.op != HETCCL_REFERENCE_PREMULSUM) {
        *out = ops[trial->reference.op];
        return ncclSuccess;
    }
    hetccl_reference_scalar(&trial->reference, trial->rank, &scalar);
    return ncclRedOpCreatePreMulSum(out, &scalar, trial->reference.type, ncclScalarHostImmediate, comm);
}

void hetccl_trial_op_end(const struct hetccl_trial *trial, ncclComm_t comm, ncclRedOp_t op)
{
    if (trial->reference.op == HETCCL_REFERENCE_PREMULSUM)
        (void)ncclRedOpDestroy(op, comm);
}

static ncclResult_t run_ring(const struct hetccl_trial *trial, const void *send, void *recv, ncclComm_t comm)
{
    int n = (int)trial->reference.n_ranks;
    int rank = (int)trial->rank;
    ncclResult_t first = ncclGroupStart();
    ncclResult_t result;

    if (first == ncclSuccess)
        first = ncclSend(send, trial->count, trial->reference.type, (rank + 1) % n, comm, trial->stream);
    if (first == ncclSuccess)
        first = ncclRecv(recv, trial->count, trial->reference.type, (rank + n - 1) % n, comm, trial->stream);
    result = ncclGroupEnd();
    return first != ncclSuccess ? first : result;
}

ncclResult_t hetccl_trial_run(const struct hetccl_trial *trial, const void *send, void *recv, ncclRedOp_t op,
                              ncclComm_t comm)
{
    ncclDataType_t type = trial->reference.type;
    size_t count = trial->count;
    int root = (int)trial->root;

    switch (trial->kind) {
    case HETCCL_TRIAL_ALLREDUCE:
        return ncclAllReduce(send, recv, count, type, op, comm, trial->stream);
    case HETCCL_TRIAL_ALLGATHER:
        return ncclAllGather(send, recv, count, type, comm, trial->stream);
    case HETCCL_TRIAL_REDUCE_SCATTER:
        return ncclReduceScatter(send, recv, count, type, op, comm, trial->stream);
    case HETCCL_TRIAL_BROADCAST:
        return ncclBroadcast(send, recv, count, type, root, comm, trial->stream);
    case HETCCL_TRIAL_BCAST:
        return ncclBcast(recv, count, type, root, comm, trial->stream);
    case HETCCL_TRIAL_REDUCE:
        return ncclReduce(send, recv, count, type, op, root, comm, trial->stream);
    case HETCCL_TRIAL_ALLTOALL:
        return ncclAlltoAll(send, recv, count, type, comm, trial->stream);
    case HETCCL_TRIAL_GATHER:
        return ncclGather(send, recv, count, type, root, comm, trial->stream);
    case HETCCL_TRIAL_SCATTER:
        return ncclScatter(send, recv, count, type, root, comm, trial->stream);
    case HETCCL_TRIAL_SENDRECV:
        return run_ring(trial, send, recv, comm);
    case HETCCL_TRIAL_KINDS:
        break;
    }
    return ncclInvalidArgument;
}

/*
 * The right result, elements first .. first + count - 1 of recv, where all lie in one rank's share (see
 * share_of()).
 */
static void expect(const struct hetccl_trial *trial, size_t first, size_t count, void *out)
{
    const struct hetccl_reference *reference = &trial->reference;
    uint32_t sender = trial->count > 0 ? (uint32_t)(first / trial->count) : 0;
    size_t inside = trial->count > 0 ? first % trial->count : 0;

    switch (trial->kind) {
    case HETCCL_TRIAL_ALLREDUCE:
    case HETCCL_TRIAL_REDUCE:
        hetccl_reference_reduce(reference, first, count, out);
        break;
    case HETCCL_TRIAL_REDUCE_SCATTER:
        hetccl_reference_reduce(reference, trial->rank * trial->count + first, count, out);
        break;
    case HETCCL_TRIAL_ALLGATHER:
    case HETCCL_TRIAL_GATHER:
        hetccl_reference_fill(reference, sender, inside, count, out);
        break;
    case HETCCL_TRIAL_ALLTOALL:
        hetccl_reference_fill(reference, sender, trial->rank * trial->count + inside, count, out);
        break;
    case HETCCL_TRIAL_SCATTER:
        hetccl_reference_fill(reference, trial->root, trial->rank * trial->count + first, count, out);
        break;
    case HETCCL_TRIAL_BROADCAST:
    case HETCCL_TRIAL_BCAST:
        hetccl_reference_fill(reference, trial->root, first, count, out);
        break;
    case HETCCL_TRIAL_SENDRECV:
        hetccl_reference_fill(reference, (trial->rank + reference->n_ranks - 1) % reference->n_ranks, first,
                              count, out);
        break;
    case HETCCL_TRIAL_KINDS:
        break;
    }
}

static uint64_t check_result(const struct hetccl_trial *trial, const char *recv)
{
    _Alignas(16) char expected[CHECK_BLOCK_BYTES];
    size_t bytes = hetccl_reference_type_bytes(trial->reference.type);
    size_t total = hetccl_trial_recv_count(trial);
    uint64_t n_wrong = 0;
    size_t count;

    for (size_t first = 0; first < total; first += count) {
        count = trial->count - first % trial->count; /* not across a share's end */
        if (count > CHECK_BLOCK_BYTES / bytes)
            count = CHECK_BLOCK_BYTES / bytes;
        expect(trial, first, count, expected);
        n_wrong += hetccl_reference_compare(&trial->reference, expected, recv + first * bytes, count);
    }
    return n_wrong;
}

static uint64_t check_input(const struct hetccl_trial *trial, const char *send)
{
    _Alignas(16) char expected[CHECK_BLOCK_BYTES];
    size_t bytes = hetccl_reference_type_bytes(trial->reference.type);
    size_t total = hetccl_trial_send_count(trial);
    uint64_t n_wrong = 0;
    size_t count;

    for (size_t first = 0; first < total; first += count) {
        count = total - first < CHECK_BLOCK_BYTES / bytes ? total - first : CHECK_BLOCK_BYTES / bytes;
        hetccl_reference_fill(&trial->reference, trial->rank, first, count, expected);
        n_wrong += memcmp(expected, send + first * bytes, count * bytes) != 0;
    }
    return n_wrong;
}

static uint64_t check_poison(const char *from, size_t bytes)
{
    uint64_t n_wrong = 0;

    for (size_t i = 0; i < bytes; i++)
        n_wrong += (unsigned char)from[i] != POISON;
    return n_wrong;
}

uint64_t hetccl_trial_check(const struct hetccl_trial *trial, const void *send, const void *recv)
{
    size_t bytes = hetccl_reference_type_bytes(trial->reference.type);
    size_t recv_count = hetccl_trial_recv_count(trial);
    uint64_t n_wrong = check_result(trial, recv);

    if (!trial->is_in_place)
        n_wrong += check_poison((const char *)recv + recv_count * bytes,
                                (hetccl_trial_buffer_count(trial) - recv_count) * bytes);
    /* In place, an input is kept only where the rank gets no result. */
    if (!trial->is_in_place || recv_count == 0)
        n_wrong += check_input(trial, send);
    return n_wrong;
}

void hetccl_trial_guard_paint(char *region, size_t bytes)
{
    memset(region - HETCCL_TRIAL_GUARD_BYTES, GUARD, HETCCL_TRIAL_GUARD_BYTES);
    memset(region + bytes, GUARD, HETCCL_TRIAL_GUARD_BYTES);
}

uint64_t hetccl_trial_guard_check(const char *region, size_t bytes)
{
    uint64_t n_wrong = 0;

    for (int i = 1; i <= HETCCL_TRIAL_GUARD_BYTES; i++) {
        n_wrong += region[-i] != GUARD;
        n_wrong += region[bytes + (size_t)i - 1] != GUARD;
    }
    return n_wrong;
}
