/* SPDX-License-Identifier: Apache-2.0 */

/* What only AMD's library has. Linked into librccl.so.1 only. */

#include "api/api.h"

#pragma GCC visibility push(default)
#include "hetccl/rccl.h"

/* C++'s ncclCommDump(ncclComm_t, std::unordered_map<std::string, std::string> &) under the name its compilers
 * give it. */
ncclResult_t hetccl_comm_dump(ncclComm_t comm, void *map) __asm__(
    "_Z12ncclCommDumpP8ncclCommRSt13unordered_mapINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES7_"
    "St4hashIS7_"
    "ESt8equal_toIS7_ESaISt4pairIKS7_S7_EEE");
#pragma GCC visibility pop

#include "api/enqueue.h"

const enum hetccl_dialect hetccl_dialect = HETCCL_DIALECT_RCCL;

ncclResult_t hetccl_comm_dump(ncclComm_t comm, void *map)
{
    struct hetccl_comm *found;

    return hetccl_result_of(hetccl_handle_check(comm, "ncclCommDump", &found));
}

ncclResult_t pncclAllToAll(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                           ncclComm_t comm, hetcclStream_t stream)
{
    return pncclAlltoAll(sendbuff, recvbuff, count, datatype, comm, stream);
}

ncclResult_t pncclAlltoAllv(const void *sendbuff, const size_t sendcounts[], const size_t sdispls[],
                            void *recvbuff, const size_t recvcounts[], const size_t rdispls[],
                            ncclDataType_t datatype, ncclComm_t comm, hetcclStream_t stream)
{
    return hetccl_request_submit(&(struct hetccl_request){
        .function = "ncclAlltoAllv",
        .comm = comm,
        .type = (int)datatype,
        .call = {.coll = HETCCL_ALLTOALLV,
                 .send = sendbuff,
                 .recv = recvbuff,
                 .send_counts = sendcounts,
                 .send_offsets = sdispls,
                 .recv_counts = recvcounts,
                 .recv_offsets = rdispls,
                 .stream = stream},
    });
}

ncclResult_t pncclAllToAllv(const void *sendbuff, const size_t sendcounts[], const size_t sdispls[],
                            void *recvbuff, const size_t recvcounts[], const size_t rdispls[],
                            ncclDataType_t datatype, ncclComm_t comm, hetcclStream_t stream)
{
    return pncclAlltoAllv(sendbuff, sendcounts, sdispls, recvbuff, recvcounts, rdispls, datatype, comm,
                          stream);
}

ncclResult_t pncclAllReduceWithBias(const void *sendbuff, void *recvbuff, size_t count,
                                    ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                    hetcclStream_t stream, const void *acc)
{
    return hetccl_request_submit(&(struct hetccl_request){
        .function = "ncclAllReduceWithBias",
        .comm = comm,
        .type = (int)datatype,
        .has_op = true,
        .op = (int)op,
        .call =
            {.coll = HETCCL_ALLREDUCE, .send = sendbuff, .recv = recvbuff, .count = count, .stream = stream},
        .bias = acc,
    });
}

static ncclResult_t refuse_algorithm(const char *function)
{
    return hetccl_result_of(hetccl_fail(
        HETCCL_ERR_USAGE, "%s: custom algorithms aren't offered; HETCCL_ALGO chooses among this library's",
        function));
}

ncclResult_t pmscclLoadAlgo(const char *mscclAlgoFilePath, mscclAlgoHandle_t *mscclAlgoHandle, int rank)
{
    return refuse_algorithm("mscclLoadAlgo");
}

ncclResult_t pmscclRunAlgo(const void *sendBuff, const size_t sendCounts[], const size_t sDisPls[],
                           void *recvBuff, const size_t recvCounts[], const size_t rDisPls[], size_t count,
                           ncclDataType_t dataType, int root, int peer, ncclRedOp_t op,
                           mscclAlgoHandle_t mscclAlgoHandle, ncclComm_t comm, hetcclStream_t stream)
{
    return refuse_algorithm("mscclRunAlgo");
}

ncclResult_t pmscclUnloadAlgo(mscclAlgoHandle_t mscclAlgoHandle)
{
    return refuse_algorithm("mscclUnloadAlgo");
}

extern __typeof__(pncclAllToAll) ncclAllToAll HETCCL_ALIAS("pncclAllToAll");
extern __typeof__(pncclAlltoAllv) ncclAlltoAllv HETCCL_ALIAS("pncclAlltoAllv");
extern __typeof__(pncclAllToAllv) ncclAllToAllv HETCCL_ALIAS("pncclAllToAllv");
extern __typeof__(pncclAllReduceWithBias) ncclAllReduceWithBias HETCCL_ALIAS("pncclAllReduceWithBias");
extern __typeof__(pmscclLoadAlgo) mscclLoadAlgo HETCCL_ALIAS("pmscclLoadAlgo");
extern __typeof__(pmscclRunAlgo) mscclRunAlgo HETCCL_ALIAS("pmscclRunAlgo");
extern __typeof__(pmscclUnloadAlgo) mscclUnloadAlgo HETCCL_ALIAS("pmscclUnloadAlgo");
