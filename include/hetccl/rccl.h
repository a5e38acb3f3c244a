/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The RCCL API as HetCCL's librccl.so.1 exports it: all of nccl.h with HIP's stream type, and the functions
 * that only AMD's library has. The rules at the top of nccl.h hold here too.
 */
#ifndef HETCCL_RCCL_H
#define HETCCL_RCCL_H

#define HETCCL_USE_HIP 1
#include "nccl.h"

/* What programs ask for at compile time. */
#define RCCL_BFLOAT16            1
#define RCCL_FLOAT8              1
#define RCCL_GATHER_SCATTER      1
#define RCCL_ALLTOALLV           1
#define RCCL_ALLREDUCE_WITH_BIAS 1

#ifdef __cplusplus
#include <string>
#include <unordered_map>

/* Adds nothing to map: there is no state to dump in that form. hetccl.h has the figures of a communicator. */
#define NCCL_COMM_DUMP 1
ncclResult_t ncclCommDump(ncclComm_t comm, std::unordered_map<std::string, std::string> &map);

extern "C" {
#endif

/* The older spelling of ncclAlltoAll(). */
ncclResult_t ncclAllToAll(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                          ncclComm_t comm, hetcclStream_t stream);

/*
 * Blocks of different sizes: sendcounts[j] elements from sendbuff + sdispls[j] go to rank j, recvcounts[j]
 * elements from rank j to recvbuff + rdispls[j]. The arrays have one entry a rank, in host memory, and are
 * free again when the call returns, in a group too. Two spellings of one function.
 */
ncclResult_t ncclAllToAllv(const void *sendbuff, const size_t sendcounts[], const size_t sdispls[],
                           void *recvbuff, const size_t recvcounts[], const size_t rdispls[],
                           ncclDataType_t datatype, ncclComm_t comm, hetcclStream_t stream);
ncclResult_t ncclAlltoAllv(const void *sendbuff, const size_t sendcounts[], const size_t sdispls[],
                           void *recvbuff, const size_t recvcounts[], const size_t rdispls[],
                           ncclDataType_t datatype, ncclComm_t comm, hetcclStream_t stream);

/*
 * recvbuff [count] = ncclAllReduce's result, combined with this rank's acc [count] by the same operator
 * (added for ncclAvg and for made operators). acc NULL: plain. acc must not overlap recvbuff.
 */
ncclResult_t ncclAllReduceWithBias(const void *sendbuff, void *recvbuff, size_t count,
                                   ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                   hetcclStream_t stream, const void *acc);

/* Custom algorithms aren't offered: ncclInvalidUsage. */
typedef int mscclAlgoHandle_t;
ncclResult_t mscclLoadAlgo(const char *mscclAlgoFilePath, mscclAlgoHandle_t *mscclAlgoHandle, int rank);
ncclResult_t mscclRunAlgo(const void *sendBuff, const size_t sendCounts[], const size_t sDisPls[],
                          void *recvBuff, const size_t recvCounts[], const size_t rDisPls[], size_t count,
                          ncclDataType_t dataType, int root, int peer, ncclRedOp_t op,
                          mscclAlgoHandle_t mscclAlgoHandle, ncclComm_t comm, hetcclStream_t stream);
ncclResult_t mscclUnloadAlgo(mscclAlgoHandle_t mscclAlgoHandle);

ncclResult_t pncclAllToAll(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                           ncclComm_t comm, hetcclStream_t stream);
ncclResult_t pncclAllToAllv(const void *sendbuff, const size_t sendcounts[], const size_t sdispls[],
                            void *recvbuff, const size_t recvcounts[], const size_t rdispls[],
                            ncclDataType_t datatype, ncclComm_t comm, hetcclStream_t stream);
ncclResult_t pncclAlltoAllv(const void *sendbuff, const size_t sendcounts[], const size_t sdispls[],
                            void *recvbuff, const size_t recvcounts[], const size_t rdispls[],
                            ncclDataType_t datatype, ncclComm_t comm, hetcclStream_t stream);
ncclResult_t pncclAllReduceWithBias(const void *sendbuff, void *recvbuff, size_t count,
                                    ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                    hetcclStream_t stream, const void *acc);
ncclResult_t pmscclLoadAlgo(const char *mscclAlgoFilePath, mscclAlgoHandle_t *mscclAlgoHandle, int rank);
ncclResult_t pmscclRunAlgo(const void *sendBuff, const size_t sendCounts[], const size_t sDisPls[],
                           void *recvBuff, const size_t recvCounts[], const size_t rDisPls[], size_t count,
                           ncclDataType_t dataType, int root, int peer, ncclRedOp_t op,
                           mscclAlgoHandle_t mscclAlgoHandle, ncclComm_t comm, hetcclStream_t stream);
ncclResult_t pmscclUnloadAlgo(mscclAlgoHandle_t mscclAlgoHandle);

#ifdef __cplusplus
}
#endif

#endif
