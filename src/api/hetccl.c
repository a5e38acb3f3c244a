/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/api.h"
#include "api/native.h"
#include "base/memory.h"

#define TEXT(x)          #x
#define VERSION(x, y, z) TEXT(x) "." TEXT(y) "." TEXT(z)

/* Copies as much of a filled struct as the caller's has room for; what lies beyond ours reads as zero. */
static enum hetccl_status hand_over(void *caller, const void *filled, size_t filled_bytes,
                                    const char *function)
{
    size_t size;

    memcpy(&size, caller, sizeof(size));
    if (size < sizeof(size) || size > 4096)
        return hetccl_fail(HETCCL_ERR_ARG, "%s: member size is %zu: set it to sizeof the struct", function,
                           size);
    memset((char *)caller + sizeof(size), 0, size - sizeof(size));
    memcpy((char *)caller + sizeof(size), (const char *)filled + sizeof(size),
           hetccl_min_size(size, filled_bytes) - sizeof(size));
    return HETCCL_OK;
}

/* The communicator and its topology; HETCCL_ERR_ARG before it stands. */
static enum hetccl_status find_topo(ncclComm_t handle, const char *function, struct hetccl_comm **comm_out,
                                    const struct hetccl_topo **topo_out)
{
    struct hetccl_comm *comm = NULL;
    const struct hetccl_topo *topo = NULL;
    enum hetccl_status status = hetccl_handle_check(handle, function, &comm);

    if (status != HETCCL_OK)
        return status;
    topo = hetccl_comm_topo(comm);
    if (topo == NULL)
        return hetccl_fail(HETCCL_ERR_ARG, "%s: communicator %p isn't initialised", function, (void *)comm);
    *comm_out = comm;
    *topo_out = topo;
    return HETCCL_OK;
}

/* Of a child that the vendor's library made, of which we know no more. */
static enum hetccl_status read_native_child(const struct hetccl_comm *comm,
                                            const struct hetccl_comm_head *native, hetcclCommInfo_t *info)
{
    bool is_amd = strcmp(native->api->name, "RCCL") == 0;
    hetcclCommInfo_t filled = {.nRanks = hetccl_comm_n_ranks(comm),
                               .rank = hetccl_comm_rank(comm),
                               .nIslands = 1,
                               .islandRank = hetccl_comm_rank(comm),
                               .islandSize = hetccl_comm_n_ranks(comm),
                               .vendor = is_amd ? "amd" : "nvidia",
                               .engine = hetccl_engine_name(HETCCL_ENGINE_CCL),
                               .device = is_amd ? "hip" : "cuda",
                               .lastPlan = ""};

    return hand_over(info, &filled, sizeof(filled), "hetcclCommInfo");
}

static enum hetccl_status read_comm_info(ncclComm_t handle, hetcclCommInfo_t *info)
{
    const struct hetccl_comm_head *native = hetccl_comm_native(handle);
    static const char function[] = "hetcclCommInfo";
    hetcclCommInfo_t filled = {.size = 0};
    const struct hetccl_topo *topo = NULL;
    const struct hetccl_island *island;
    struct hetccl_comm *comm = NULL;
    bool is_small = false;
    enum hetccl_status status = hetccl_pointer_check(info, function, "info");

    if (native != NULL && status == HETCCL_OK &&
        hetccl_comm_topo((struct hetccl_comm *)(void *)handle) == NULL)
        return read_native_child((const struct hetccl_comm *)(const void *)native, native, info);
    if (status == HETCCL_OK)
        status = find_topo(handle, function, &comm, &topo);
    if (status != HETCCL_OK)
        return status;
    filled.nRanks = hetccl_comm_n_ranks(comm);
    filled.rank = hetccl_comm_rank(comm);
    filled.nIslands = (int)topo->n_islands;
    filled.island = (int)topo->island_of[filled.rank];
    filled.islandRank = (int)topo->island_rank_of[filled.rank];
    island = &topo->islands[filled.island];
    filled.islandSize = (int)island->n_ranks;
    filled.nHosts = (int)topo->n_hosts;
    filled.vendor = hetccl_vendor_name(island->vendor);
    filled.engine = hetccl_engine_name(island->engine);
    filled.device = hetccl_comm_device_name(comm);
    filled.lastPlan = hetccl_comm_last_plan(comm, &is_small);
    filled.lastPlanIsSmall = is_small;
    return hand_over(info, &filled, sizeof(filled), function);
}

static enum hetccl_status read_rank_info(ncclComm_t handle, int rank, hetcclRankInfo_t *info)
{
    static const char function[] = "hetcclRankInfo";
    hetcclRankInfo_t filled = {.size = 0};
    const struct hetccl_topo *topo = NULL;
    const struct hetccl_island *island;
    struct hetccl_comm *comm = NULL;
    enum hetccl_status status = find_topo(handle, function, &comm, &topo);

    if (status == HETCCL_OK)
        status = hetccl_pointer_check(info, function, "info");
    if (status != HETCCL_OK)
        return status;
    if (rank < 0 || rank >= hetccl_comm_n_ranks(comm))
        return hetccl_fail(HETCCL_ERR_ARG, "%s: rank %d: the communicator has 0 to %d", function, rank,
                           hetccl_comm_n_ranks(comm) - 1);
    filled.island = (int)topo->island_of[rank];
    filled.islandRank = (int)topo->island_rank_of[rank];
    filled.host = (int)topo->host_of[rank];
    island = &topo->islands[filled.island];
    filled.vendor = hetccl_vendor_name(island->vendor);
    filled.engine = hetccl_engine_name(island->engine);
    filled.link = hetccl_comm_link_in_use(comm, rank);
    filled.hostName = hetccl_comm_host_name(comm, rank);
    return hand_over(info, &filled, sizeof(filled), function);
}

static enum hetccl_status read_counters(ncclComm_t handle, hetcclCounters_t *counters)
{
    static const char function[] = "hetcclCommCounters";
    struct hetccl_comm_counters now;
    struct hetccl_comm *comm = NULL;
    hetcclCounters_t filled = {.size = 0};
    enum hetccl_status status = hetccl_handle_check(handle, function, &comm);

    if (status == HETCCL_OK)
        status = hetccl_pointer_check(counters, function, "counters");
    if (status != HETCCL_OK)
        return status;
    hetccl_comm_read_counters(comm, &now);
    filled.calls = now.calls;
    filled.steps = now.steps;
    filled.crossBytesSent = now.cross_sent_bytes;
    filled.crossBytesReceived = now.cross_received_bytes;
    filled.crossMessages = now.cross_messages;
    filled.islandOperations = now.island_operations;
    filled.copiedBytes = now.copied_bytes;
    return hand_over(counters, &filled, sizeof(filled), function);
}

static enum hetccl_status read_bound(ncclComm_t handle, const char *collective, size_t count,
                                     size_t element_bytes, int root, uint64_t *bytes_out)
{
    static const char function[] = "hetcclCommBound";
    const struct hetccl_topo *topo = NULL;
    struct hetccl_comm *comm = NULL;
    int coll;
    enum hetccl_status status = find_topo(handle, function, &comm, &topo);

    if (status == HETCCL_OK)
        status = hetccl_pointer_check(collective, function, "collective");
    if (status == HETCCL_OK)
        status = hetccl_pointer_check(bytes_out, function, "bytes");
    if (status != HETCCL_OK)
        return status;
    coll = hetccl_coll_find(collective);
    if (coll < 0 || coll == HETCCL_ALLTOALLV || coll == HETCCL_P2P)
        return hetccl_fail(HETCCL_ERR_ARG, "%s: collective '%s' has no bound, or there is none of that name",
                           function, collective);
    if (root < -1 || root >= hetccl_comm_n_ranks(comm))
        return hetccl_fail(HETCCL_ERR_ARG, "%s: root %d: the communicator has 0 to %d", function, root,
                           hetccl_comm_n_ranks(comm) - 1);
    *bytes_out = hetccl_plan_bound_bytes(topo, (enum hetccl_coll)coll, count, element_bytes,
                                         root < 0 ? 0 : (uint32_t)root);
    return HETCCL_OK;
}

const char *hetcclVersion(void)
{
    return VERSION(HETCCL_VERSION_MAJOR, HETCCL_VERSION_MINOR, HETCCL_VERSION_PATCH);
}

ncclResult_t hetcclCommInfo(ncclComm_t comm, hetcclCommInfo_t *info)
{
    return hetccl_result_of(read_comm_info(comm, info));
}

ncclResult_t hetcclRankInfo(ncclComm_t comm, int rank, hetcclRankInfo_t *info)
{
    return hetccl_result_of(read_rank_info(comm, rank, info));
}

ncclResult_t hetcclCommCounters(ncclComm_t comm, hetcclCounters_t *counters)
{
    return hetccl_result_of(read_counters(comm, counters));
}

ncclResult_t hetcclCommBound(ncclComm_t comm, const char *collective, size_t count, size_t elementBytes,
                             int root, uint64_t *bytes)
{
    return hetccl_result_of(read_bound(comm, collective, count, elementBytes, root, bytes));
}
