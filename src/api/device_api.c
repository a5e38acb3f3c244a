/* SPDX-License-Identifier: Apache-2.0 */
#include "api/device_api.h"

#include <string.h>

#include "api/native.h"
#include "base/memory.h"

_Static_assert(offsetof(ncclCommProperties_t, ginType) == 36 &&
                   offsetof(ncclCommProperties_t, nLsaTeams) == 40 &&
                   offsetof(ncclCommProperties_t, railedGinType) == 48,
               "2.29.7");

static const ncclTeam_t no_team = {0, 0, 0};

static ncclTeam_t team_of(struct hetccl_ccl_team team)
{
    return (ncclTeam_t){team.n_ranks, team.rank, team.stride};
}

static struct hetccl_ccl_team vendor_team_of(ncclTeam_t team)
{
    return (struct hetccl_ccl_team){team.nRanks, team.rank, team.stride};
}

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
    const struct hetccl_comm_head *native = hetccl_comm_native(comm);

    if (native != NULL && native->api->ncclCommQueryProperties == NULL)
        return hetccl_native_lacks(native->api, "ncclCommQueryProperties");
    if (native != NULL)
        return hetccl_native_result(native->api, native->api->ncclCommQueryProperties(native->vendor, props),
                                    "ncclCommQueryProperties");
    return hetccl_result_of(query(comm, props));
}

ncclResult_t pncclDevCommCreate(ncclComm_t comm, const void *reqs, void *outDevComm)
{
    const struct hetccl_comm_head *native = hetccl_comm_native(comm);

    if (native != NULL && native->api->ncclDevCommCreate == NULL)
        return hetccl_native_lacks(native->api, "ncclDevCommCreate");
    if (native != NULL)
        return hetccl_native_result(native->api,
                                    native->api->ncclDevCommCreate(native->vendor, reqs, outDevComm),
                                    "ncclDevCommCreate");
    return refuse("ncclDevCommCreate");
}

ncclResult_t pncclDevCommDestroy(ncclComm_t comm, const void *devComm)
{
    const struct hetccl_comm_head *native = hetccl_comm_native(comm);

    if (native != NULL && native->api->ncclDevCommDestroy == NULL)
        return hetccl_native_lacks(native->api, "ncclDevCommDestroy");
    if (native != NULL)
        return hetccl_native_result(native->api, native->api->ncclDevCommDestroy(native->vendor, devComm),
                                    "ncclDevCommDestroy");
    return refuse("ncclDevCommDestroy");
}

ncclResult_t pncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void **outPtr)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api_loaded();

    if (api != NULL && api->ncclGetLsaMultimemDevicePointer != NULL)
        return hetccl_native_result(api, api->ncclGetLsaMultimemDevicePointer(window, offset, outPtr),
                                    "ncclGetLsaMultimemDevicePointer");
    return refuse("ncclGetLsaMultimemDevicePointer");
}

ncclResult_t pncclGetMultimemDevicePointer(ncclWindow_t window, size_t offset, ncclMultimemHandle_t multimem,
                                           void **outPtr)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api_loaded();

    if (api != NULL && api->ncclGetMultimemDevicePointer != NULL)
        return hetccl_native_result(api,
                                    api->ncclGetMultimemDevicePointer(
                                        window, offset, (struct hetccl_ccl_multimem){multimem.base}, outPtr),
                                    "ncclGetMultimemDevicePointer");
    return refuse("ncclGetMultimemDevicePointer");
}

ncclResult_t pncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int lsaRank, void **outPtr)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api_loaded();

    if (api != NULL && api->ncclGetLsaDevicePointer != NULL)
        return hetccl_native_result(api, api->ncclGetLsaDevicePointer(window, offset, lsaRank, outPtr),
                                    "ncclGetLsaDevicePointer");
    return refuse("ncclGetLsaDevicePointer");
}

ncclResult_t pncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void **outPtr)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api_loaded();

    if (api != NULL && api->ncclGetPeerDevicePointer != NULL)
        return hetccl_native_result(api, api->ncclGetPeerDevicePointer(window, offset, peer, outPtr),
                                    "ncclGetPeerDevicePointer");
    return refuse("ncclGetPeerDevicePointer");
}

ncclResult_t pncclGetMultimemDeviceLeInfo(ncclWindow_t window, size_t offset, void *leId, size_t *leOffset)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api_loaded();

    if (api != NULL && api->ncclGetMultimemDeviceLeInfo != NULL)
        return hetccl_native_result(api, api->ncclGetMultimemDeviceLeInfo(window, offset, leId, leOffset),
                                    "ncclGetMultimemDeviceLeInfo");
    return refuse("ncclGetMultimemDeviceLeInfo");
}

ncclResult_t pncclGetCftDeviceLeInfo(ncclWindow_t window, size_t offset, int peerCft, ncclTeam_t cftTeam,
                                     void *leId, size_t *leOffset)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api_loaded();

    if (api != NULL && api->ncclGetCftDeviceLeInfo != NULL)
        return hetccl_native_result(
            api,
            api->ncclGetCftDeviceLeInfo(window, offset, peerCft, vendor_team_of(cftTeam), leId, leOffset),
            "ncclGetCftDeviceLeInfo");
    return refuse("ncclGetCftDeviceLeInfo");
}

ncclResult_t pncclGetPeerDeviceLeInfo(ncclWindow_t window, size_t offset, int peerWorld, void *leId,
                                      size_t *leOffset)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api_loaded();

    if (api != NULL && api->ncclGetPeerDeviceLeInfo != NULL)
        return hetccl_native_result(api,
                                    api->ncclGetPeerDeviceLeInfo(window, offset, peerWorld, leId, leOffset),
                                    "ncclGetPeerDeviceLeInfo");
    return refuse("ncclGetPeerDeviceLeInfo");
}

ncclResult_t pncclLLA2ACreateRequirement(int nBlocks, int nSlots, void *outHandle, void *outReq)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api_loaded();

    if (api != NULL && api->ncclLLA2ACreateRequirement != NULL)
        return hetccl_native_result(api, api->ncclLLA2ACreateRequirement(nBlocks, nSlots, outHandle, outReq),
                                    "ncclLLA2ACreateRequirement");
    return refuse("ncclLLA2ACreateRequirement");
}

ncclResult_t pncclLsaBarrierCreateRequirement(ncclTeam_t team, int nBarriers, void *outHandle, void *outReq)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api_loaded();

    if (api != NULL && api->ncclLsaBarrierCreateRequirement != NULL)
        return hetccl_native_result(
            api, api->ncclLsaBarrierCreateRequirement(vendor_team_of(team), nBarriers, outHandle, outReq),
            "ncclLsaBarrierCreateRequirement");
    return refuse("ncclLsaBarrierCreateRequirement");
}

ncclResult_t pncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t team, int nBarriers,
                                              void *outHandle, void *outReq)
{
    const struct hetccl_comm_head *native = hetccl_comm_native(comm);

    if (native != NULL && native->api->ncclGinBarrierCreateRequirement == NULL)
        return hetccl_native_lacks(native->api, "ncclGinBarrierCreateRequirement");
    if (native != NULL)
        return hetccl_native_result(native->api,
                                    native->api->ncclGinBarrierCreateRequirement(
                                        native->vendor, vendor_team_of(team), nBarriers, outHandle, outReq),
                                    "ncclGinBarrierCreateRequirement");
    return refuse("ncclGinBarrierCreateRequirement");
}

ncclResult_t pncclGinInboxA2ACreateRequirement(ncclTeam_t peers, int nBlocks, int size_log2, void *outHandle,
                                               void *outReq)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api_loaded();

    if (api != NULL && api->ncclGinInboxA2ACreateRequirement != NULL)
        return hetccl_native_result(api,
                                    api->ncclGinInboxA2ACreateRequirement(vendor_team_of(peers), nBlocks,
                                                                          size_log2, outHandle, outReq),
                                    "ncclGinInboxA2ACreateRequirement");
    return refuse("ncclGinInboxA2ACreateRequirement");
}

ncclResult_t pncclGinOutboxCreateRequirement(int nBlocks, int size_log2, void *outHandle, void *outReq)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api_loaded();

    if (api != NULL && api->ncclGinOutboxCreateRequirement != NULL)
        return hetccl_native_result(
            api, api->ncclGinOutboxCreateRequirement(nBlocks, size_log2, outHandle, outReq),
            "ncclGinOutboxCreateRequirement");
    return refuse("ncclGinOutboxCreateRequirement");
}

int pncclLLA2ACalcSlots(int maxElts, int maxEltSize)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api_loaded();

    if (api != NULL && api->ncclLLA2ACalcSlots != NULL)
        return api->ncclLLA2ACalcSlots(maxElts, maxEltSize);
    return 0;
}

/* These can't fail with a result: an empty team stands for a bad communicator. */
ncclTeam_t pncclTeamWorld(ncclComm_t comm)
{
    const struct hetccl_comm_head *native = hetccl_comm_native(comm);

    if (native != NULL)
        return native->api->ncclTeamWorld != NULL ? team_of(native->api->ncclTeamWorld(native->vendor))
                                                  : no_team;
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
    const struct hetccl_comm_head *native = hetccl_comm_native(comm);

    if (native != NULL)
        return native->api->ncclTeamLsa != NULL ? team_of(native->api->ncclTeamLsa(native->vendor)) : no_team;
    ncclTeam_t team = pncclTeamWorld(comm);

    if (team.nRanks > 0) {
        team.nRanks = 1;
        team.rank = 0;
    }
    return team;
}

ncclTeam_t pncclTeamRail(ncclComm_t comm)
{
    const struct hetccl_comm_head *native = hetccl_comm_native(comm);

    if (native != NULL)
        return native->api->ncclTeamRail != NULL ? team_of(native->api->ncclTeamRail(native->vendor))
                                                 : no_team;
    return pncclTeamWorld(comm);
}

ncclTeam_t pncclTeamCft(ncclComm_t comm, int mode)
{
    const struct hetccl_comm_head *native = hetccl_comm_native(comm);

    if (native != NULL)
        return native->api->ncclTeamCft != NULL ? team_of(native->api->ncclTeamCft(native->vendor, mode))
                                                : no_team;
    return (ncclTeam_t){0, 0, 0};
}

ncclTeam_t pncclTeamCftMultimem(ncclComm_t comm)
{
    const struct hetccl_comm_head *native = hetccl_comm_native(comm);

    if (native != NULL)
        return native->api->ncclTeamCftMultimem != NULL
                   ? team_of(native->api->ncclTeamCftMultimem(native->vendor))
                   : no_team;
    return (ncclTeam_t){0, 0, 0};
}

int pncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank)
{
    const struct hetccl_comm_head *native = hetccl_comm_native(comm);

    if (native != NULL)
        return native->api->ncclTeamRankToWorld != NULL
                   ? native->api->ncclTeamRankToWorld(native->vendor, vendor_team_of(team), rank)
                   : -1;
    struct hetccl_comm *found;

    if (hetccl_handle_check_idle(comm, "ncclTeamRankToWorld", &found) != HETCCL_OK)
        return -1;
    return hetccl_comm_rank(found) + (rank - team.rank) * team.stride;
}

int pncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank)
{
    const struct hetccl_comm_head *native = hetccl_comm_native(comm);

    if (native != NULL)
        return native->api->ncclTeamRankToLsa != NULL
                   ? native->api->ncclTeamRankToLsa(native->vendor, vendor_team_of(team), rank)
                   : -1;
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
