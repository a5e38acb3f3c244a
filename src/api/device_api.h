/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_API_DEVICE_API_H
#define HETCCL_API_DEVICE_API_H

/*
 * The host half of NVIDIA's device API (nccl_device.h), as far as the calling convention needs it. A kernel
 * can't reach other ranks' memory through this library, so ncclCommQueryProperties() says that there is no
 * device API and everything that would set one up is ncclInvalidUsage. Types that only pass through as
 * pointers are void here.
 */

#include <stdbool.h>

#include "api/api.h"

#pragma GCC visibility push(default)

/* Ranks first, first + stride, ... of a communicator, as seen from member `rank`. */
typedef struct {
    int nRanks, rank, stride;
} ncclTeam_t;

/* Passed by value. */
typedef struct {
    void *base;
} ncclMultimemHandle_t;

/* Grows at its end; the caller's size says how much of it there is. */
typedef struct {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int rank;
    int nRanks;
    int cudaDev;
    int nvmlDev;
    bool deviceApiSupport; /* false, as all capabilities below */
    bool multimemSupport;
    int ginType;
    int nLsaTeams; /* 2.29.7: teams that share memory; one a rank */
    bool hostRmaSupport;
    int railedGinType;
} ncclCommProperties_t;

/* HETCCL: fills the caller's struct as far as it goes, zeros what it doesn't know. */
ncclResult_t ncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *props);
ncclResult_t pncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *props);

/* ncclInvalidUsage. */
ncclResult_t ncclDevCommCreate(ncclComm_t comm, const void *reqs, void *outDevComm);
ncclResult_t pncclDevCommCreate(ncclComm_t comm, const void *reqs, void *outDevComm);
ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const void *devComm);
ncclResult_t pncclDevCommDestroy(ncclComm_t comm, const void *devComm);
ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void **outPtr);
ncclResult_t pncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void **outPtr);
ncclResult_t ncclGetMultimemDevicePointer(ncclWindow_t window, size_t offset, ncclMultimemHandle_t multimem,
                                          void **outPtr);
ncclResult_t pncclGetMultimemDevicePointer(ncclWindow_t window, size_t offset, ncclMultimemHandle_t multimem,
                                           void **outPtr);
ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int lsaRank, void **outPtr);
ncclResult_t pncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int lsaRank, void **outPtr);
ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void **outPtr);
ncclResult_t pncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void **outPtr);
ncclResult_t ncclGetMultimemDeviceLeInfo(ncclWindow_t window, size_t offset, void *leId, size_t *leOffset);
ncclResult_t pncclGetMultimemDeviceLeInfo(ncclWindow_t window, size_t offset, void *leId, size_t *leOffset);
ncclResult_t ncclGetCftDeviceLeInfo(ncclWindow_t window, size_t offset, int peerCft, ncclTeam_t cftTeam,
                                    void *leId, size_t *leOffset);
ncclResult_t pncclGetCftDeviceLeInfo(ncclWindow_t window, size_t offset, int peerCft, ncclTeam_t cftTeam,
                                     void *leId, size_t *leOffset);
ncclResult_t ncclGetPeerDeviceLeInfo(ncclWindow_t window, size_t offset, int peerWorld, void *leId,
                                     size_t *leOffset);
ncclResult_t pncclGetPeerDeviceLeInfo(ncclWindow_t window, size_t offset, int peerWorld, void *leId,
                                      size_t *leOffset);
ncclResult_t ncclLLA2ACreateRequirement(int nBlocks, int nSlots, void *outHandle, void *outReq);
ncclResult_t pncclLLA2ACreateRequirement(int nBlocks, int nSlots, void *outHandle, void *outReq);
ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam_t team, int nBarriers, void *outHandle, void *outReq);
ncclResult_t pncclLsaBarrierCreateRequirement(ncclTeam_t team, int nBarriers, void *outHandle, void *outReq);
ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t team, int nBarriers, void *outHandle,
                                             void *outReq);
ncclResult_t pncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t team, int nBarriers,
                                              void *outHandle, void *outReq);
ncclResult_t ncclGinInboxA2ACreateRequirement(ncclTeam_t peers, int nBlocks, int size_log2, void *outHandle,
                                              void *outReq);
ncclResult_t pncclGinInboxA2ACreateRequirement(ncclTeam_t peers, int nBlocks, int size_log2, void *outHandle,
                                               void *outReq);
ncclResult_t ncclGinOutboxCreateRequirement(int nBlocks, int size_log2, void *outHandle, void *outReq);
ncclResult_t pncclGinOutboxCreateRequirement(int nBlocks, int size_log2, void *outHandle, void *outReq);

/* 0: no slots, whatever is asked for. */
int ncclLLA2ACalcSlots(int maxElts, int maxEltSize);
int pncclLLA2ACalcSlots(int maxElts, int maxEltSize);

/*
 * Teams: all ranks; the ranks whose memory this one's kernels reach (itself alone); one rank of each such
 * team (all again); fabric endpoints (none: an empty team, as for a bad communicator).
 */
ncclTeam_t ncclTeamWorld(ncclComm_t comm);
ncclTeam_t pncclTeamWorld(ncclComm_t comm);
ncclTeam_t ncclTeamLsa(ncclComm_t comm);
ncclTeam_t pncclTeamLsa(ncclComm_t comm);
ncclTeam_t ncclTeamRail(ncclComm_t comm);
ncclTeam_t pncclTeamRail(ncclComm_t comm);
ncclTeam_t ncclTeamCft(ncclComm_t comm, int mode);
ncclTeam_t pncclTeamCft(ncclComm_t comm, int mode);
ncclTeam_t ncclTeamCftMultimem(ncclComm_t comm);
ncclTeam_t pncclTeamCftMultimem(ncclComm_t comm);

/* A member's rank in the communicator, or its index in ncclTeamLsa(); -1 for a bad communicator. */
int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank);
int pncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank);
int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank);
int pncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank);

#pragma GCC visibility pop

#endif
