/* SPDX-License-Identifier: Apache-2.0 */

/* Collectives, sends and receives: checked, and submitted. */

#include <string.h>

#include "internal.h"

enum { AVERAGE = 4 };

static unsigned check(const struct operation *operation)
{
    const struct ncclComm *comm = operation->comm;

    if (!fake_is_comm(comm))
        return fake_fail(INVALID_ARGUMENT, "no communicator");
    if (atomic_load(&comm->state) == IN_PROGRESS)
        return fake_fail(INVALID_ARGUMENT, "the communicator is in progress");
    if (atomic_load(&comm->is_revoked))
        return fake_fail(INVALID_USAGE, "the communicator was revoked");
    if (operation->type >= HETCCL_API_TYPES)
        return fake_fail(INVALID_ARGUMENT, "type %u", operation->type);
    if (operation->root < 0 || operation->root >= comm->n_ranks)
        return fake_fail(INVALID_ARGUMENT, "root %d", operation->root);
    return OK;
}

/* Averages of integers aren't offered: nothing here needs them. */
static unsigned resolve(struct operation *operation)
{
    const struct ncclComm *comm = operation->comm;
    unsigned index = operation->op - FIRST_FACTOR;

    if (operation->op < AVERAGE)
        return OK;
    if (operation->op == AVERAGE && operation->type > HETCCL_UINT64) {
        operation->scale = hetccl_scale_of_average((enum hetccl_type)operation->type, (size_t)comm->n_ranks);
        operation->has_scale = true;
        return OK;
    }
    if (operation->op < FIRST_FACTOR || index >= MAX_FACTORS || !comm->factors[index].is_used ||
        comm->factors[index].type != operation->type)
        return fake_fail(INVALID_ARGUMENT, "operator %u", operation->op);
    operation->scale = comm->factors[index].scale;
    operation->device_scalar = comm->factors[index].device_scalar;
    operation->has_scale = true;
    return OK;
}

static unsigned submit(struct operation *operation, unsigned code)
{
    if (code == OK)
        code = check(operation);
    if (code == OK)
        code = resolve(operation);
    if (code == OK && operation->count == 0 && operation->kind != POINT_TO_POINT)
        return OK;
    return fake_group_note(code == OK ? fake_submit(operation) : code);
}

unsigned ncclAllReduce(const void *send, void *recv, size_t count, unsigned type, unsigned op,
                       struct ncclComm *comm, void *stream)
{
    struct operation operation = {.comm = comm,
                                  .kind = ALL_REDUCE,
                                  .send = send,
                                  .recv = recv,
                                  .count = count,
                                  .type = type,
                                  .op = op,
                                  .stream = stream};

    return submit(&operation,
                  fake_call("ncclAllReduce", comm, "%p, %p, %zu, %u, %u, %s, %p", (const void *)send,
                            (const void *)recv, count, type, op, fake_name(comm), (const void *)stream));
}

unsigned ncclAllReduceConfig(const void *send, void *recv, size_t count, unsigned type, unsigned op,
                             struct ncclComm *comm, void *stream, const void *config)
{
    struct operation operation = {.comm = comm,
                                  .kind = ALL_REDUCE,
                                  .send = send,
                                  .recv = recv,
                                  .count = count,
                                  .type = type,
                                  .op = op,
                                  .stream = stream};

    return submit(&operation, fake_call("ncclAllReduceConfig", comm, "%p, %p, %zu, %u, %u, %s, %p, %p",
                                        (const void *)send, (const void *)recv, count, type, op,
                                        fake_name(comm), (const void *)stream, (const void *)config));
}

unsigned ncclBroadcast(const void *send, void *recv, size_t count, unsigned type, int root,
                       struct ncclComm *comm, void *stream)
{
    struct operation operation = {.comm = comm,
                                  .kind = BROADCAST,
                                  .send = send,
                                  .recv = recv,
                                  .count = count,
                                  .type = type,
                                  .root = root,
                                  .stream = stream};

    return submit(&operation,
                  fake_call("ncclBroadcast", comm, "%p, %p, %zu, %u, %d, %s, %p", (const void *)send,
                            (const void *)recv, count, type, root, fake_name(comm), (const void *)stream));
}

unsigned ncclBroadcastConfig(const void *send, void *recv, size_t count, unsigned type, int root,
                             struct ncclComm *comm, void *stream, const void *config)
{
    struct operation operation = {.comm = comm,
                                  .kind = BROADCAST,
                                  .send = send,
                                  .recv = recv,
                                  .count = count,
                                  .type = type,
                                  .root = root,
                                  .stream = stream};

    return submit(&operation, fake_call("ncclBroadcastConfig", comm, "%p, %p, %zu, %u, %d, %s, %p, %p",
                                        (const void *)send, (const void *)recv, count, type, root,
                                        fake_name(comm), (const void *)stream, (const void *)config));
}

unsigned ncclReduce(const void *send, void *recv, size_t count, unsigned type, unsigned op, int root,
                    struct ncclComm *comm, void *stream)
{
    struct operation operation = {.comm = comm,
                                  .kind = REDUCE,
                                  .send = send,
                                  .recv = recv,
                                  .count = count,
                                  .type = type,
                                  .op = op,
                                  .root = root,
                                  .stream = stream};

    return submit(&operation, fake_call("ncclReduce", comm, "%p, %p, %zu, %u, %u, %d, %s, %p",
                                        (const void *)send, (const void *)recv, count, type, op, root,
                                        fake_name(comm), (const void *)stream));
}

unsigned ncclReduceConfig(const void *send, void *recv, size_t count, unsigned type, unsigned op, int root,
                          struct ncclComm *comm, void *stream, const void *config)
{
    struct operation operation = {.comm = comm,
                                  .kind = REDUCE,
                                  .send = send,
                                  .recv = recv,
                                  .count = count,
                                  .type = type,
                                  .op = op,
                                  .root = root,
                                  .stream = stream};

    return submit(&operation, fake_call("ncclReduceConfig", comm, "%p, %p, %zu, %u, %u, %d, %s, %p, %p",
                                        (const void *)send, (const void *)recv, count, type, op, root,
                                        fake_name(comm), (const void *)stream, (const void *)config));
}

unsigned ncclAllGather(const void *send, void *recv, size_t count, unsigned type, struct ncclComm *comm,
                       void *stream)
{
    struct operation operation = {.comm = comm,
                                  .kind = ALL_GATHER,
                                  .send = send,
                                  .recv = recv,
                                  .count = count,
                                  .type = type,
                                  .stream = stream};

    return submit(&operation,
                  fake_call("ncclAllGather", comm, "%p, %p, %zu, %u, %s, %p", (const void *)send,
                            (const void *)recv, count, type, fake_name(comm), (const void *)stream));
}

unsigned ncclAllGatherConfig(const void *send, void *recv, size_t count, unsigned type, struct ncclComm *comm,
                             void *stream, const void *config)
{
    struct operation operation = {.comm = comm,
                                  .kind = ALL_GATHER,
                                  .send = send,
                                  .recv = recv,
                                  .count = count,
                                  .type = type,
                                  .stream = stream};

    return submit(&operation, fake_call("ncclAllGatherConfig", comm, "%p, %p, %zu, %u, %s, %p, %p",
                                        (const void *)send, (const void *)recv, count, type, fake_name(comm),
                                        (const void *)stream, (const void *)config));
}

unsigned ncclReduceScatter(const void *send, void *recv, size_t count, unsigned type, unsigned op,
                           struct ncclComm *comm, void *stream)
{
    struct operation operation = {.comm = comm,
                                  .kind = REDUCE_SCATTER,
                                  .send = send,
                                  .recv = recv,
                                  .count = count,
                                  .type = type,
                                  .op = op,
                                  .stream = stream};

    return submit(&operation,
                  fake_call("ncclReduceScatter", comm, "%p, %p, %zu, %u, %u, %s, %p", (const void *)send,
                            (const void *)recv, count, type, op, fake_name(comm), (const void *)stream));
}

unsigned ncclReduceScatterConfig(const void *send, void *recv, size_t count, unsigned type, unsigned op,
                                 struct ncclComm *comm, void *stream, const void *config)
{
    struct operation operation = {.comm = comm,
                                  .kind = REDUCE_SCATTER,
                                  .send = send,
                                  .recv = recv,
                                  .count = count,
                                  .type = type,
                                  .op = op,
                                  .stream = stream};

    return submit(&operation, fake_call("ncclReduceScatterConfig", comm, "%p, %p, %zu, %u, %u, %s, %p, %p",
                                        (const void *)send, (const void *)recv, count, type, op,
                                        fake_name(comm), (const void *)stream, (const void *)config));
}

unsigned ncclAlltoAll(const void *send, void *recv, size_t count, unsigned type, struct ncclComm *comm,
                      void *stream)
{
    struct operation operation = {.comm = comm,
                                  .kind = ALL_TO_ALL,
                                  .send = send,
                                  .recv = recv,
                                  .count = count,
                                  .type = type,
                                  .stream = stream};

    return submit(&operation,
                  fake_call("ncclAlltoAll", comm, "%p, %p, %zu, %u, %s, %p", (const void *)send,
                            (const void *)recv, count, type, fake_name(comm), (const void *)stream));
}

unsigned ncclAlltoAllConfig(const void *send, void *recv, size_t count, unsigned type, struct ncclComm *comm,
                            void *stream, const void *config)
{
    struct operation operation = {.comm = comm,
                                  .kind = ALL_TO_ALL,
                                  .send = send,
                                  .recv = recv,
                                  .count = count,
                                  .type = type,
                                  .stream = stream};

    return submit(&operation, fake_call("ncclAlltoAllConfig", comm, "%p, %p, %zu, %u, %s, %p, %p",
                                        (const void *)send, (const void *)recv, count, type, fake_name(comm),
                                        (const void *)stream, (const void *)config));
}

unsigned ncclGather(const void *send, void *recv, size_t count, unsigned type, int root,
                    struct ncclComm *comm, void *stream)
{
    struct operation operation = {.comm = comm,
                                  .kind = GATHER,
                                  .send = send,
                                  .recv = recv,
                                  .count = count,
                                  .type = type,
                                  .root = root,
                                  .stream = stream};

    return submit(&operation,
                  fake_call("ncclGather", comm, "%p, %p, %zu, %u, %d, %s, %p", (const void *)send,
                            (const void *)recv, count, type, root, fake_name(comm), (const void *)stream));
}

unsigned ncclGatherConfig(const void *send, void *recv, size_t count, unsigned type, int root,
                          struct ncclComm *comm, void *stream, const void *config)
{
    struct operation operation = {.comm = comm,
                                  .kind = GATHER,
                                  .send = send,
                                  .recv = recv,
                                  .count = count,
                                  .type = type,
                                  .root = root,
                                  .stream = stream};

    return submit(&operation, fake_call("ncclGatherConfig", comm, "%p, %p, %zu, %u, %d, %s, %p, %p",
                                        (const void *)send, (const void *)recv, count, type, root,
                                        fake_name(comm), (const void *)stream, (const void *)config));
}

unsigned ncclScatter(const void *send, void *recv, size_t count, unsigned type, int root,
                     struct ncclComm *comm, void *stream)
{
    struct operation operation = {.comm = comm,
                                  .kind = SCATTER,
                                  .send = send,
                                  .recv = recv,
                                  .count = count,
                                  .type = type,
                                  .root = root,
                                  .stream = stream};

    return submit(&operation,
                  fake_call("ncclScatter", comm, "%p, %p, %zu, %u, %d, %s, %p", (const void *)send,
                            (const void *)recv, count, type, root, fake_name(comm), (const void *)stream));
}

unsigned ncclScatterConfig(const void *send, void *recv, size_t count, unsigned type, int root,
                           struct ncclComm *comm, void *stream, const void *config)
{
    struct operation operation = {.comm = comm,
                                  .kind = SCATTER,
                                  .send = send,
                                  .recv = recv,
                                  .count = count,
                                  .type = type,
                                  .root = root,
                                  .stream = stream};

    return submit(&operation, fake_call("ncclScatterConfig", comm, "%p, %p, %zu, %u, %d, %s, %p, %p",
                                        (const void *)send, (const void *)recv, count, type, root,
                                        fake_name(comm), (const void *)stream, (const void *)config));
}

unsigned ncclBcast(void *buffer, size_t count, unsigned type, int root, struct ncclComm *comm, void *stream)
{
    struct operation operation = {.comm = comm,
                                  .kind = BROADCAST,
                                  .send = buffer,
                                  .recv = buffer,
                                  .count = count,
                                  .type = type,
                                  .root = root,
                                  .stream = stream};

    return submit(&operation, fake_call("ncclBcast", comm, "%p, %zu, %u, %d, %s, %p", (const void *)buffer,
                                        count, type, root, fake_name(comm), (const void *)stream));
}

unsigned ncclSend(const void *send, size_t count, unsigned type, int peer, struct ncclComm *comm,
                  void *stream)
{
    struct transfer transfer = {.is_send = true, .send = send, .count = count, .type = type, .peer = peer};
    struct operation operation = {.comm = comm,
                                  .kind = POINT_TO_POINT,
                                  .count = count,
                                  .type = type,
                                  .root = peer,
                                  .stream = stream,
                                  .transfers = &transfer,
                                  .n_transfers = 1};

    return submit(&operation, fake_call("ncclSend", comm, "%p, %zu, %u, %d, %s, %p", (const void *)send,
                                        count, type, peer, fake_name(comm), (const void *)stream));
}

unsigned ncclRecv(void *recv, size_t count, unsigned type, int peer, struct ncclComm *comm, void *stream)
{
    struct transfer transfer = {.recv = recv, .count = count, .type = type, .peer = peer};
    struct operation operation = {.comm = comm,
                                  .kind = POINT_TO_POINT,
                                  .count = count,
                                  .type = type,
                                  .root = peer,
                                  .stream = stream,
                                  .transfers = &transfer,
                                  .n_transfers = 1};

    return submit(&operation, fake_call("ncclRecv", comm, "%p, %zu, %u, %d, %s, %p", (const void *)recv,
                                        count, type, peer, fake_name(comm), (const void *)stream));
}

unsigned ncclRedOpCreatePreMulSum(unsigned *op_out, void *scalar, unsigned type, unsigned residence,
                                  struct ncclComm *comm)
{
    unsigned code = fake_call("ncclRedOpCreatePreMulSum", comm, "%p, %p, %u, %u, %s", (const void *)op_out,
                              (const void *)scalar, type, residence, fake_name(comm));

    if (code != OK || !fake_is_comm(comm))
        return code != OK ? code : INVALID_ARGUMENT;
    for (unsigned i = 0; i < MAX_FACTORS; i++) {
        if (comm->factors[i].is_used)
            continue;
        comm->factors[i].is_used = true;
        comm->factors[i].type = type;
        comm->factors[i].scale.bits = 0;
        comm->factors[i].device_scalar = residence == HETCCL_CCL_HOST_IMMEDIATE ? NULL : scalar;
        if (residence == HETCCL_CCL_HOST_IMMEDIATE)
            memcpy(&comm->factors[i].scale.bits, scalar, hetccl_type_bytes((enum hetccl_type)type));
        *op_out = FIRST_FACTOR + i;
        return OK;
    }
    return fake_fail(INTERNAL_ERROR, "too many operators");
}

unsigned ncclRedOpDestroy(unsigned op, struct ncclComm *comm)
{
    unsigned code = fake_call("ncclRedOpDestroy", comm, "%u, %s", op, fake_name(comm));

    if (code != OK)
        return code;
    if (!fake_is_comm(comm) || op < FIRST_FACTOR || op - FIRST_FACTOR >= MAX_FACTORS ||
        !comm->factors[op - FIRST_FACTOR].is_used)
        return fake_fail(INVALID_ARGUMENT, "operator %u", op);
    comm->factors[op - FIRST_FACTOR].is_used = false;
    return OK;
}
