/* SPDX-License-Identifier: Apache-2.0 */
#include "api/enqueue.h"
#include "api/native.h"

ncclResult_t pncclAllReduceConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                  ncclRedOp_t op, ncclComm_t comm, hetcclStream_t stream,
                                  const ncclCollConfig_t *config)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL && native->api->ncclAllReduceConfig == NULL)
        return config == NULL ? pncclAllReduce(sendbuff, recvbuff, count, datatype, op, comm, stream)
                              : hetccl_native_lacks(native->api, "ncclAllReduceConfig");
    if (native != NULL)
        return hetccl_native_result(native->api,
                                    native->api->ncclAllReduceConfig(sendbuff, recvbuff, count,
                                                                     (unsigned)datatype, (unsigned)op,
                                                                     native->vendor, stream, config),
                                    "ncclAllReduceConfig");
    return hetccl_request_submit(&(struct hetccl_request){
        .function = "ncclAllReduce",
        .comm = comm,
        .type = (int)datatype,
        .has_op = true,
        .op = (int)op,
        .call =
            {.coll = HETCCL_ALLREDUCE, .send = sendbuff, .recv = recvbuff, .count = count, .stream = stream},
        .config = config,
    });
}

ncclResult_t pncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                            ncclRedOp_t op, ncclComm_t comm, hetcclStream_t stream)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL)
        return hetccl_native_result(native->api,
                                    native->api->ncclAllReduce(sendbuff, recvbuff, count, (unsigned)datatype,
                                                               (unsigned)op, native->vendor, stream),
                                    "ncclAllReduce");
    return pncclAllReduceConfig(sendbuff, recvbuff, count, datatype, op, comm, stream, NULL);
}

ncclResult_t pncclBroadcastConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                  int root, ncclComm_t comm, hetcclStream_t stream,
                                  const ncclCollConfig_t *config)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL && native->api->ncclBroadcastConfig == NULL)
        return config == NULL ? pncclBroadcast(sendbuff, recvbuff, count, datatype, root, comm, stream)
                              : hetccl_native_lacks(native->api, "ncclBroadcastConfig");
    if (native != NULL)
        return hetccl_native_result(native->api,
                                    native->api->ncclBroadcastConfig(sendbuff, recvbuff, count,
                                                                     (unsigned)datatype, root, native->vendor,
                                                                     stream, config),
                                    "ncclBroadcastConfig");
    return hetccl_request_submit(&(struct hetccl_request){
        .function = "ncclBroadcast",
        .comm = comm,
        .type = (int)datatype,
        .call = {.coll = HETCCL_BROADCAST,
                 .send = sendbuff,
                 .recv = recvbuff,
                 .count = count,
                 .root = root,
                 .stream = stream},
        .config = config,
    });
}

ncclResult_t pncclBroadcast(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                            int root, ncclComm_t comm, hetcclStream_t stream)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL)
        return hetccl_native_result(native->api,
                                    native->api->ncclBroadcast(sendbuff, recvbuff, count, (unsigned)datatype,
                                                               root, native->vendor, stream),
                                    "ncclBroadcast");
    return pncclBroadcastConfig(sendbuff, recvbuff, count, datatype, root, comm, stream, NULL);
}

ncclResult_t pncclBcast(void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                        hetcclStream_t stream)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL)
        return hetccl_native_result(
            native->api,
            native->api->ncclBcast(buff, count, (unsigned)datatype, root, native->vendor, stream),
            "ncclBcast");
    return pncclBroadcastConfig(buff, buff, count, datatype, root, comm, stream, NULL);
}

ncclResult_t pncclReduceConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                               ncclRedOp_t op, int root, ncclComm_t comm, hetcclStream_t stream,
                               const ncclCollConfig_t *config)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL && native->api->ncclReduceConfig == NULL)
        return config == NULL ? pncclReduce(sendbuff, recvbuff, count, datatype, op, root, comm, stream)
                              : hetccl_native_lacks(native->api, "ncclReduceConfig");
    if (native != NULL)
        return hetccl_native_result(native->api,
                                    native->api->ncclReduceConfig(sendbuff, recvbuff, count,
                                                                  (unsigned)datatype, (unsigned)op, root,
                                                                  native->vendor, stream, config),
                                    "ncclReduceConfig");
    return hetccl_request_submit(&(struct hetccl_request){
        .function = "ncclReduce",
        .comm = comm,
        .type = (int)datatype,
        .has_op = true,
        .op = (int)op,
        .call = {.coll = HETCCL_REDUCE,
                 .send = sendbuff,
                 .recv = recvbuff,
                 .count = count,
                 .root = root,
                 .stream = stream},
        .config = config,
    });
}

ncclResult_t pncclReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                         ncclRedOp_t op, int root, ncclComm_t comm, hetcclStream_t stream)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL)
        return hetccl_native_result(native->api,
                                    native->api->ncclReduce(sendbuff, recvbuff, count, (unsigned)datatype,
                                                            (unsigned)op, root, native->vendor, stream),
                                    "ncclReduce");
    return pncclReduceConfig(sendbuff, recvbuff, count, datatype, op, root, comm, stream, NULL);
}

ncclResult_t pncclAllGatherConfig(const void *sendbuff, void *recvbuff, size_t sendcount,
                                  ncclDataType_t datatype, ncclComm_t comm, hetcclStream_t stream,
                                  const ncclCollConfig_t *config)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL && native->api->ncclAllGatherConfig == NULL)
        return config == NULL ? pncclAllGather(sendbuff, recvbuff, sendcount, datatype, comm, stream)
                              : hetccl_native_lacks(native->api, "ncclAllGatherConfig");
    if (native != NULL)
        return hetccl_native_result(native->api,
                                    native->api->ncclAllGatherConfig(sendbuff, recvbuff, sendcount,
                                                                     (unsigned)datatype, native->vendor,
                                                                     stream, config),
                                    "ncclAllGatherConfig");
    return hetccl_request_submit(&(struct hetccl_request){
        .function = "ncclAllGather",
        .comm = comm,
        .type = (int)datatype,
        .call = {.coll = HETCCL_ALLGATHER,
                 .send = sendbuff,
                 .recv = recvbuff,
                 .count = sendcount,
                 .stream = stream},
        .config = config,
    });
}

ncclResult_t pncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype,
                            ncclComm_t comm, hetcclStream_t stream)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL)
        return hetccl_native_result(native->api,
                                    native->api->ncclAllGather(sendbuff, recvbuff, sendcount,
                                                               (unsigned)datatype, native->vendor, stream),
                                    "ncclAllGather");
    return pncclAllGatherConfig(sendbuff, recvbuff, sendcount, datatype, comm, stream, NULL);
}

ncclResult_t pncclReduceScatterConfig(const void *sendbuff, void *recvbuff, size_t recvcount,
                                      ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                      hetcclStream_t stream, const ncclCollConfig_t *config)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL && native->api->ncclReduceScatterConfig == NULL)
        return config == NULL ? pncclReduceScatter(sendbuff, recvbuff, recvcount, datatype, op, comm, stream)
                              : hetccl_native_lacks(native->api, "ncclReduceScatterConfig");
    if (native != NULL)
        return hetccl_native_result(native->api,
                                    native->api->ncclReduceScatterConfig(sendbuff, recvbuff, recvcount,
                                                                         (unsigned)datatype, (unsigned)op,
                                                                         native->vendor, stream, config),
                                    "ncclReduceScatterConfig");
    return hetccl_request_submit(&(struct hetccl_request){
        .function = "ncclReduceScatter",
        .comm = comm,
        .type = (int)datatype,
        .has_op = true,
        .op = (int)op,
        .call = {.coll = HETCCL_REDUCE_SCATTER,
                 .send = sendbuff,
                 .recv = recvbuff,
                 .count = recvcount,
                 .stream = stream},
        .config = config,
    });
}

ncclResult_t pncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
                                ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                hetcclStream_t stream)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL)
        return hetccl_native_result(native->api,
                                    native->api->ncclReduceScatter(sendbuff, recvbuff, recvcount,
                                                                   (unsigned)datatype, (unsigned)op,
                                                                   native->vendor, stream),
                                    "ncclReduceScatter");
    return pncclReduceScatterConfig(sendbuff, recvbuff, recvcount, datatype, op, comm, stream, NULL);
}

ncclResult_t pncclAlltoAllConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                 ncclComm_t comm, hetcclStream_t stream, const ncclCollConfig_t *config)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL && native->api->ncclAlltoAllConfig == NULL)
        return config == NULL ? pncclAlltoAll(sendbuff, recvbuff, count, datatype, comm, stream)
                              : hetccl_native_lacks(native->api, "ncclAlltoAllConfig");
    if (native != NULL)
        return hetccl_native_result(native->api,
                                    native->api->ncclAlltoAllConfig(sendbuff, recvbuff, count,
                                                                    (unsigned)datatype, native->vendor,
                                                                    stream, config),
                                    "ncclAlltoAllConfig");
    return hetccl_request_submit(&(struct hetccl_request){
        .function = "ncclAlltoAll",
        .comm = comm,
        .type = (int)datatype,
        .call =
            {.coll = HETCCL_ALLTOALL, .send = sendbuff, .recv = recvbuff, .count = count, .stream = stream},
        .config = config,
    });
}

ncclResult_t pncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                           ncclComm_t comm, hetcclStream_t stream)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL && native->api->ncclAlltoAll == NULL)
        return hetccl_native_lacks(native->api, "ncclAlltoAll");
    if (native != NULL)
        return hetccl_native_result(
            native->api,
            native->api->ncclAlltoAll(sendbuff, recvbuff, count, (unsigned)datatype, native->vendor, stream),
            "ncclAlltoAll");
    return pncclAlltoAllConfig(sendbuff, recvbuff, count, datatype, comm, stream, NULL);
}

ncclResult_t pncclGatherConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                               int root, ncclComm_t comm, hetcclStream_t stream,
                               const ncclCollConfig_t *config)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL && native->api->ncclGatherConfig == NULL)
        return config == NULL ? pncclGather(sendbuff, recvbuff, count, datatype, root, comm, stream)
                              : hetccl_native_lacks(native->api, "ncclGatherConfig");
    if (native != NULL)
        return hetccl_native_result(native->api,
                                    native->api->ncclGatherConfig(sendbuff, recvbuff, count,
                                                                  (unsigned)datatype, root, native->vendor,
                                                                  stream, config),
                                    "ncclGatherConfig");
    return hetccl_request_submit(&(struct hetccl_request){
        .function = "ncclGather",
        .comm = comm,
        .type = (int)datatype,
        .call = {.coll = HETCCL_GATHER,
                 .send = sendbuff,
                 .recv = recvbuff,
                 .count = count,
                 .root = root,
                 .stream = stream},
        .config = config,
    });
}

ncclResult_t pncclGather(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                         int root, ncclComm_t comm, hetcclStream_t stream)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL && native->api->ncclGather == NULL)
        return hetccl_native_lacks(native->api, "ncclGather");
    if (native != NULL)
        return hetccl_native_result(native->api,
                                    native->api->ncclGather(sendbuff, recvbuff, count, (unsigned)datatype,
                                                            root, native->vendor, stream),
                                    "ncclGather");
    return pncclGatherConfig(sendbuff, recvbuff, count, datatype, root, comm, stream, NULL);
}

ncclResult_t pncclScatterConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                int root, ncclComm_t comm, hetcclStream_t stream,
                                const ncclCollConfig_t *config)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL && native->api->ncclScatterConfig == NULL)
        return config == NULL ? pncclScatter(sendbuff, recvbuff, count, datatype, root, comm, stream)
                              : hetccl_native_lacks(native->api, "ncclScatterConfig");
    if (native != NULL)
        return hetccl_native_result(native->api,
                                    native->api->ncclScatterConfig(sendbuff, recvbuff, count,
                                                                   (unsigned)datatype, root, native->vendor,
                                                                   stream, config),
                                    "ncclScatterConfig");
    return hetccl_request_submit(&(struct hetccl_request){
        .function = "ncclScatter",
        .comm = comm,
        .type = (int)datatype,
        .call = {.coll = HETCCL_SCATTER,
                 .send = sendbuff,
                 .recv = recvbuff,
                 .count = count,
                 .root = root,
                 .stream = stream},
        .config = config,
    });
}

ncclResult_t pncclScatter(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                          int root, ncclComm_t comm, hetcclStream_t stream)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL && native->api->ncclScatter == NULL)
        return hetccl_native_lacks(native->api, "ncclScatter");
    if (native != NULL)
        return hetccl_native_result(native->api,
                                    native->api->ncclScatter(sendbuff, recvbuff, count, (unsigned)datatype,
                                                             root, native->vendor, stream),
                                    "ncclScatter");
    return pncclScatterConfig(sendbuff, recvbuff, count, datatype, root, comm, stream, NULL);
}

ncclResult_t pncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                       hetcclStream_t stream)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL)
        return hetccl_native_result(
            native->api,
            native->api->ncclSend(sendbuff, count, (unsigned)datatype, peer, native->vendor, stream),
            "ncclSend");
    return hetccl_request_submit(&(struct hetccl_request){
        .function = "ncclSend",
        .comm = comm,
        .type = (int)datatype,
        .call = {.coll = HETCCL_P2P,
                 .is_send = true,
                 .send = sendbuff,
                 .count = count,
                 .root = peer,
                 .stream = stream},
    });
}

ncclResult_t pncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                       hetcclStream_t stream)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL)
        return hetccl_native_result(
            native->api,
            native->api->ncclRecv(recvbuff, count, (unsigned)datatype, peer, native->vendor, stream),
            "ncclRecv");
    return hetccl_request_submit(&(struct hetccl_request){
        .function = "ncclRecv",
        .comm = comm,
        .type = (int)datatype,
        .call = {.coll = HETCCL_P2P, .recv = recvbuff, .count = count, .root = peer, .stream = stream},
    });
}

extern __typeof__(pncclAllReduceConfig) ncclAllReduceConfig HETCCL_ALIAS("pncclAllReduceConfig");
extern __typeof__(pncclAllReduce) ncclAllReduce HETCCL_ALIAS("pncclAllReduce");
extern __typeof__(pncclBroadcastConfig) ncclBroadcastConfig HETCCL_ALIAS("pncclBroadcastConfig");
extern __typeof__(pncclBroadcast) ncclBroadcast HETCCL_ALIAS("pncclBroadcast");
extern __typeof__(pncclBcast) ncclBcast HETCCL_ALIAS("pncclBcast");
extern __typeof__(pncclReduceConfig) ncclReduceConfig HETCCL_ALIAS("pncclReduceConfig");
extern __typeof__(pncclReduce) ncclReduce HETCCL_ALIAS("pncclReduce");
extern __typeof__(pncclAllGatherConfig) ncclAllGatherConfig HETCCL_ALIAS("pncclAllGatherConfig");
extern __typeof__(pncclAllGather) ncclAllGather HETCCL_ALIAS("pncclAllGather");
extern __typeof__(pncclReduceScatterConfig) ncclReduceScatterConfig HETCCL_ALIAS("pncclReduceScatterConfig");
extern __typeof__(pncclReduceScatter) ncclReduceScatter HETCCL_ALIAS("pncclReduceScatter");
extern __typeof__(pncclAlltoAllConfig) ncclAlltoAllConfig HETCCL_ALIAS("pncclAlltoAllConfig");
extern __typeof__(pncclAlltoAll) ncclAlltoAll HETCCL_ALIAS("pncclAlltoAll");
extern __typeof__(pncclGatherConfig) ncclGatherConfig HETCCL_ALIAS("pncclGatherConfig");
extern __typeof__(pncclGather) ncclGather HETCCL_ALIAS("pncclGather");
extern __typeof__(pncclScatterConfig) ncclScatterConfig HETCCL_ALIAS("pncclScatterConfig");
extern __typeof__(pncclScatter) ncclScatter HETCCL_ALIAS("pncclScatter");
extern __typeof__(pncclSend) ncclSend HETCCL_ALIAS("pncclSend");
extern __typeof__(pncclRecv) ncclRecv HETCCL_ALIAS("pncclRecv");
