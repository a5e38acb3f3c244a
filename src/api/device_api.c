/* SPDX-License-Identifier: Apache-2.0 */
#include "api/device_api.h"

#include <string.h>

#include "base/memory.h"

_Static_assert(offsetof(ncclCommProperties_t, ginType) == 36 &&
                   offsetof(ncclCommProperties_t, nLsaTeams) == 40 &&
                   offsetof(ncclCommProperties_t, railedGinType) == 48,
               "2.29.7");

static ncclResult_t refuse(const char *function)
{
    return hetccl_result_of(hetccl_fail(
        HETCCL_ERR_USAGE, "%s: this library has no device API; ncclCommQueryProperties says so", function));
}

static enum hetccl_status query(ncclComm_t handle, ncclCommProperties_t *properties)
{
    /* Nobody's struct is near this; a larger size is a struct that was not initialised. */
    enum { MAX_SIZE_BYTES = 4096 };
    ncclCommProperties_t filled = {.size = 0};
    struct hetccl_comm *comm = NULL;
    enum hetccl_status status = hetccl_handle_check_idle(handle, "ncclCommQueryProperties", &comm);

    if (status == HETCCL_OK)
        status = hetccl_pointer_check(properties, "ncclCommQueryProperties", "props");
    if (status != HETCCL_OK)
        return status;
    if (properties->size < offsetof(ncclCommProperties_t, rank) || properties->size > MAX_SIZE_BYTES ||
        properties->magic != NCCL_API_MAGIC)
        return hetccl_fail(
            HETCCL_ERR_ARG,
            "ncclCommQueryProperties: initialise the struct with NCCL_COMM_PROPERTIES_INITIALIZER");
    filled.size = properties->size;
    filled.magic = properties->magic;
    filled.version = properties->version;
    filled.rank = hetccl_comm_rank(comm);
    filled.nRanks = hetccl_comm_n_ranks(comm);
    filled.cudaDev = hetccl_comm_device(comm);
    filled.nvmlDev = filled.cudaDev;
    filled.nLsaTeams = filled.nRanks;
    memset((char *)properties + sizeof(size_t), 0, filled.size - sizeof(size_t));
    memcpy(properties, &filled, hetccl_min_size(filled.size, sizeof(filled)));
    return HETCCL_OK;
}

ncclResult_t pncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *props)
{
    return hetccl_result_of(query(comm, props));
}

ncclResult_t pncclDevCommCreate(ncclComm_t comm, const void *reqs, void *outDevComm)
{
    return refuse("ncclDevCommCreate");
}

ncclResult_t pncclDevCommDestroy(ncclComm_t comm, const void *devComm)
{
    return refuse("ncclDevCommDestroy");
}

ncclResult_t pncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void **outPtr)
{
    return refuse("ncclGetLsaMultimemDevicePointer");
}

ncclResult_t pncclGetMultimemDevicePointer(ncclWindow_t window, size_t offset, ncclMultimemHandle_t multimem,
                                           void **outPtr)
{
    return refuse("ncclGetMultimemDevicePointer");
}

ncclResult_t pncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int lsaRank, void **outPtr)
{
    return refuse("ncclGetLsaDevicePointer");
}

ncclResult_t pncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void **outPtr)
{
    return refuse("ncclGetPeerDevicePointer");
}

ncclResult_t pncclGetMultimemDeviceLeInfo(ncclWindow_t window, size_t offset, void *leId, size_t *leOffset)
{
    return refuse("ncclGetMultimemDeviceLeInfo");
}

ncclResult_t pncclGetCftDeviceLeInfo(ncclWindow_t window, size_t offset, int peerCft, ncclTeam_t cftTeam,
                                     void *leId, size_t *leOffset)
{
    return refuse("ncclGetCftDeviceLeInfo");
}

ncclResult_t pncclGetPeerDeviceLeInfo(ncclWindow_t window, size_t offset, int peerWorld, void *leId,
                                      size_t *leOffset)
{
    return refuse("ncclGetPeerDeviceLeInfo");
}

ncclResult_t pncclLLA2ACreateRequirement(int nBlocks, int nSlots, void *outHandle, void *outReq)
{
    return refuse("ncclLLA2ACreateRequirement");
}

ncclResult_t pncclLsaBarrierCreateRequirement(ncclTeam_t team, int nBarriers, void *outHandle, void *outReq)
{
    return refuse("ncclLsaBarrierCreateRequirement");
}

ncclResult_t pncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t team, int nBarriers,
                                              void *outHandle, void *outReq)
{
    return refuse("ncclGinBarrierCreateRequirement");
}

ncclResult_t pncclGinInboxA2ACreateRequirement(ncclTeam_t peers, int nBlocks, int size_log2, void *outHandle,
                                               void *outReq)
{
    return refuse("ncclGinInboxA2ACreateRequirement");
}

ncclResult_t pncclGinOutboxCreateRequirement(int nBlocks, int size_log2, void *outHandle, void *outReq)
{
    return refuse("ncclGinOutboxCreateRequirement");
}

int pncclLLA2ACalcSlots(int maxElts, int maxEltSize)
{
    return 0;
}

/* These can't fail with a result: an empty team stands for a bad communicator. */
ncclTeam_t pncclTeamWorld(ncclComm_t comm)
{
    struct hetccl_comm *found;
    ncclTeam_t team = {0, 0, 0};

    if (hetccl_handle_check_idle(comm, "ncclTeamWorld", &found) == HETCCL_OK) {
        team.nRanks = hetccl_comm_n_ranks(found);
        team.rank = hetccl_comm_rank(found);
        team.stride = 1;
    }
    return team;
}

ncclTeam_t pncclTeamLsa(ncclComm_t comm)
{
    ncclTeam_t team = pncclTeamWorld(comm);

    if (team.nRanks > 0) {
        team.nRanks = 1;
        team.rank = 0;
    }
    return team;
}

ncclTeam_t pncclTeamRail(ncclComm_t comm)
{
    return pncclTeamWorld(comm);
}

ncclTeam_t pncclTeamCft(ncclComm_t comm, int mode)
{
    return (ncclTeam_t){0, 0, 0};
}

ncclTeam_t pncclTeamCftMultimem(ncclComm_t comm)
{
    return (ncclTeam_t){0, 0, 0};
}

int pncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank)
{
    struct hetccl_comm *found;

    if (hetccl_handle_check_idle(comm, "ncclTeamRankToWorld", &found) != HETCCL_OK)
        return -1;
    return hetccl_comm_rank(found) + (rank - team.rank) * team.stride;
}

int pncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank)
{
    struct hetccl_comm *found;

    if (hetccl_handle_check_idle(comm, "ncclTeamRankToLsa", &found) != HETCCL_OK)
        return -1;
    return (rank - team.rank) * team.stride;
}

extern __typeof__(pncclCommQueryProperties) ncclCommQueryProperties HETCCL_ALIAS("pncclCommQueryProperties");
extern __typeof__(pncclDevCommCreate) ncclDevCommCreate HETCCL_ALIAS("pncclDevCommCreate");
extern __typeof__(pncclDevCommDestroy) ncclDevCommDestroy HETCCL_ALIAS("pncclDevCommDestroy");
extern __typeof__(pncclGetLsaMultimemDevicePointer)
    ncclGetLsaMultimemDevicePointer HETCCL_ALIAS("pncclGetLsaMultimemDevicePointer");
extern __typeof__(pncclGetMultimemDevicePointer)
    ncclGetMultimemDevicePointer HETCCL_ALIAS("pncclGetMultimemDevicePointer");
extern __typeof__(pncclGetLsaDevicePointer) ncclGetLsaDevicePointer HETCCL_ALIAS("pncclGetLsaDevicePointer");
extern __typeof__(pncclGetPeerDevicePointer)
    ncclGetPeerDevicePointer HETCCL_ALIAS("pncclGetPeerDevicePointer");
extern __typeof__(pncclGetMultimemDeviceLeInfo)
    ncclGetMultimemDeviceLeInfo HETCCL_ALIAS("pncclGetMultimemDeviceLeInfo");
extern __typeof__(pncclGetCftDeviceLeInfo) ncclGetCftDeviceLeInfo HETCCL_ALIAS("pncclGetCftDeviceLeInfo");
extern __typeof__(pncclGetPeerDeviceLeInfo) ncclGetPeerDeviceLeInfo HETCCL_ALIAS("pncclGetPeerDeviceLeInfo");
extern __typeof__(pncclLLA2ACreateRequirement)
    ncclLLA2ACreateRequirement HETCCL_ALIAS("pncclLLA2ACreateRequirement");
extern __typeof__(pncclLsaBarrierCreateRequirement)
    ncclLsaBarrierCreateRequirement HETCCL_ALIAS("pncclLsaBarrierCreateRequirement");
extern __typeof__(pncclGinBarrierCreateRequirement)
    ncclGinBarrierCreateRequirement HETCCL_ALIAS("pncclGinBarrierCreateRequirement");
extern __typeof__(pncclGinInboxA2ACreateRequirement)
    ncclGinInboxA2ACreateRequirement HETCCL_ALIAS("pncclGinInboxA2ACreateRequirement");
extern __typeof__(pncclGinOutboxCreateRequirement)
    ncclGinOutboxCreateRequirement HETCCL_ALIAS("pncclGinOutboxCreateRequirement");
extern __typeof__(pncclLLA2ACalcSlots) ncclLLA2ACalcSlots HETCCL_ALIAS("pncclLLA2ACalcSlots");
extern __typeof__(pncclTeamWorld) ncclTeamWorld HETCCL_ALIAS("pncclTeamWorld");
extern __typeof__(pncclTeamLsa) ncclTeamLsa HETCCL_ALIAS("pncclTeamLsa");
extern __typeof__(pncclTeamRail) ncclTeamRail HETCCL_ALIAS("pncclTeamRail");
extern __typeof__(pncclTeamCft) ncclTeamCft HETCCL_ALIAS("pncclTeamCft");
extern __typeof__(pncclTeamCftMultimem) ncclTeamCftMultimem HETCCL_ALIAS("pncclTeamCftMultimem");
extern __typeof__(pncclTeamRankToWorld) ncclTeamRankToWorld HETCCL_ALIAS("pncclTeamRankToWorld");
extern __typeof__(pncclTeamRankToLsa) ncclTeamRankToLsa HETCCL_ALIAS("pncclTeamRankToLsa");
