/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_HETCCL_H
#define HETCCL_HETCCL_H

/*
 * HetCCL's own functions, exported by libnccl.so.2 and librccl.so.1 beside the NCCL API: what a communicator
 * consists of, which engine and links it uses, and what it has moved. Include nccl.h first. All functions are
 * callable from any thread while the communicator lives, never block, and return ncclInvalidArgument for a
 * bad communicator or pointer.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HETCCL_VERSION_MAJOR 0
#define HETCCL_VERSION_MINOR 1
#define HETCCL_VERSION_PATCH 0

/*
 * Structs grow at their end only. The caller sets `size` to sizeof the struct it was compiled with; the
 * library fills that many bytes and no more; what it doesn't know reads as zero.
 */
typedef struct {
    size_t size;
    int nRanks, rank;
    int nIslands;   /* islands of the communicator */
    int island;     /* index of this rank's island */
    int islandRank; /* index of this rank inside it */
    int islandSize;
    int nHosts; /* 0: unknown, as the vendor's library made this child of a native communicator */
    const char
        *vendor; /* "nvidia", "amd", "cpu"; static storage, like all strings here unless said otherwise */
    const char *engine;   /* "ccl", "p2p", "shm", "none" for an island of one rank */
    const char *device;   /* "host", "cuda", "hip" */
    const char *lastPlan; /* algorithm of the last collective, "" before the first */
    int lastPlanIsSmall;  /* 1: a small-message plan, which may send more than the bound */
} hetcclCommInfo_t;

typedef struct {
    size_t size;
    int island, islandRank, host;
    const char *vendor;
    const char *engine;
    const char
        *link; /* link in use from this rank: "shm", "tcp", "verbs", "engine", "self", "" while unconnected */
    const char *hostName; /* lives as long as the communicator */
} hetcclRankInfo_t;

typedef struct {
    size_t size;
    uint64_t calls;          /* collective calls and send/receive groups completed */
    uint64_t steps;          /* plan steps executed */
    uint64_t crossBytesSent; /* payload this rank sent to other islands */
    uint64_t crossBytesReceived;
    uint64_t crossMessages;    /* messages this rank sent to other islands */
    uint64_t islandOperations; /* collectives run by the engine */
    uint64_t copiedBytes;      /* bytes the CPU copied between user memory and slots */
} hetcclCounters_t;

/* Library version as text, "0.1.0"; static storage. */
const char *hetcclVersion(void);

ncclResult_t hetcclCommInfo(ncclComm_t comm, hetcclCommInfo_t *info);
ncclResult_t hetcclRankInfo(ncclComm_t comm, int rank, hetcclRankInfo_t *info);
ncclResult_t hetcclCommCounters(ncclComm_t comm, hetcclCounters_t *counters);

/*
 * Bytes that must cross between islands for one collective, in all: DESIGN's bound. collective is
 * "allreduce", "allgather", "reducescatter", "broadcast", "reduce", "alltoall", "gather" or "scatter"; count
 * as in the NCCL call; root -1 if none.
 */
ncclResult_t hetcclCommBound(ncclComm_t comm, const char *collective, size_t count, size_t elementBytes,
                             int root, uint64_t *bytes);

#ifdef __cplusplus
}
#endif

#endif
