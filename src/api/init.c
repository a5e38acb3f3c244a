/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/group.h"
#include "base/memory.h"

_Static_assert(sizeof(ncclUniqueId) == HETCCL_UNIQUE_ID_BYTES, "ids are copied as they are");

static enum hetccl_status get_unique_id(ncclUniqueId *unique_id)
{
    struct hetccl_config config;
    uint8_t id[HETCCL_UNIQUE_ID_BYTES];
    enum hetccl_status status = hetccl_pointer_check(unique_id, "ncclGetUniqueId", "uniqueId");

    if (status == HETCCL_OK)
        status = hetccl_config_parse(&config);
    if (status == HETCCL_OK)
        status = hetccl_unique_id_create(&config, id);
    if (status == HETCCL_OK)
        memcpy(unique_id->internal, id, sizeof(id));
    return status;
}

struct init_request {
    const char *function;
    ncclComm_t *handle_out;
    int n_ranks, rank, n_ids;
    const ncclUniqueId *ids;
    const ncclConfig_t *config;
    int device; /* a GPU by its number, or OF_THREAD */
};

enum { OF_THREAD = -1 };

static enum hetccl_status check_request(const struct init_request *request)
{
    enum hetccl_status status = hetccl_pointer_check(request->ids, request->function, "commIds");

    if (status != HETCCL_OK)
        return status;
    if (request->n_ranks < 1 || request->rank < 0 || request->rank >= request->n_ranks)
        return hetccl_fail(HETCCL_ERR_ARG,
                           "%s: rank %d of %d ranks: it takes 1 rank or more, and a rank below that",
                           request->function, request->rank, request->n_ranks);
    if (request->n_ids < 1 || request->n_ids > request->n_ranks)
        return hetccl_fail(HETCCL_ERR_ARG, "%s: %d ids for %d ranks: it takes 1 id to one a rank",
                           request->function, request->n_ids, request->n_ranks);
    return HETCCL_OK;
}

static enum hetccl_status copy_ids(const struct init_request *request, struct hetccl_job *job)
{
    enum hetccl_status status = hetccl_alloc((size_t)request->n_ids, HETCCL_UNIQUE_ID_BYTES, &job->list);

    if (status != HETCCL_OK)
        return status;
    memcpy(job->list, request->ids, (size_t)request->n_ids * HETCCL_UNIQUE_ID_BYTES);
    job->n_list = (size_t)request->n_ids;
    return HETCCL_OK;
}

static enum hetccl_status init(const struct init_request *request)
{
    struct hetccl_job job = {.kind = HETCCL_JOB_INIT,
                             .handle_out = request->handle_out,
                             .n_ranks = request->n_ranks,
                             .rank = request->rank};
    struct hetccl_comm_options options;
    enum hetccl_status status = hetccl_pointer_check(request->handle_out, request->function, "comm");

    if (status != HETCCL_OK)
        return status;
    *request->handle_out = NULL;
    status = check_request(request);
    if (status == HETCCL_OK)
        status = hetccl_options_read(request->config, hetccl_dialect, &options);
    if (status == HETCCL_OK)
        status = copy_ids(request, &job);
    if (status != HETCCL_OK)
        return status;
    options.device = request->device;
    status = hetccl_job_make_comm(&job, &options);
    if (status != HETCCL_OK) {
        hetccl_job_fini(&job);
        return status;
    }

    return hetccl_group_submit_job(&job);
}

static int compare_ints(const void *a, const void *b)
{
    int left = *(const int *)a;
    int right = *(const int *)b;

    return (left > right) - (left < right);
}

static enum hetccl_status check_sorted_devices(const int *devices, size_t n_devices, bool may_repeat)
{
    if (n_devices > 0 && devices[0] < 0)
        return hetccl_fail(HETCCL_ERR_ARG, "ncclCommInitAll: device %d: devices are counted from 0",
                           devices[0]);
    for (size_t i = 1; i < n_devices && !may_repeat; i++)
        if (devices[i] == devices[i - 1])
            return hetccl_fail(HETCCL_ERR_USAGE,
                               "ncclCommInitAll: device %d is named twice; only CPU ranks may share one",
                               devices[i]);
    return HETCCL_OK;
}

static enum hetccl_status check_devices(const int *devices, size_t n_devices)
{
    struct hetccl_config config;
    int *sorted;
    enum hetccl_status status = hetccl_config_parse(&config);

    if (status != HETCCL_OK || devices == NULL)
        return status;
    status = hetccl_alloc(n_devices, sizeof(*sorted), &sorted);
    if (status != HETCCL_OK)
        return status;
    memcpy(sorted, devices, n_devices * sizeof(*sorted));
    qsort(sorted, n_devices, sizeof(*sorted), compare_ints);
    status = check_sorted_devices(sorted, n_devices,
                                  config.device == HETCCL_DEVICE_HOST || config.device == HETCCL_DEVICE_AUTO);
    hetccl_free(sorted);
    return status;
}

/* A group of its own, so that every rank gets a thread; inside a caller's group it is just more of that. */
static enum hetccl_status init_all(ncclComm_t *comms, int n_devices, const int *devices)
{
    ncclUniqueId id;
    enum hetccl_status status = hetccl_pointer_check(comms, "ncclCommInitAll", "comm");

    if (status == HETCCL_OK && n_devices < 0)
        status = hetccl_fail(HETCCL_ERR_ARG, "ncclCommInitAll: %d devices: it takes 0 or more", n_devices);
    if (status == HETCCL_OK)
        status = check_devices(devices, (size_t)n_devices);
    if (status == HETCCL_OK && n_devices > 0)
        status = get_unique_id(&id);
    if (status != HETCCL_OK || n_devices == 0)
        return status;
    hetccl_group_enter();
    for (int rank = 0; rank < n_devices; rank++) {
        const struct init_request request = {.function = "ncclCommInitAll",
                                             .handle_out = &comms[rank],
                                             .n_ranks = n_devices,
                                             .rank = rank,
                                             .n_ids = 1,
                                             .ids = &id,
                                             .device = devices != NULL ? devices[rank] : rank};
        /* Also remembered for the end: then nothing is started. */
        if (hetccl_group_result(init(&request)) != ncclSuccess)
            break;
    }
    return hetccl_group_leave();
}

ncclResult_t pncclGetUniqueId(ncclUniqueId *uniqueId)
{
    return hetccl_result_of(get_unique_id(uniqueId));
}

ncclResult_t pncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank)
{
    const struct init_request request = {.function = "ncclCommInitRank",
                                         .handle_out = comm,
                                         .n_ranks = nranks,
                                         .rank = rank,
                                         .n_ids = 1,
                                         .ids = &commId,
                                         .device = OF_THREAD};

    return hetccl_group_result(init(&request));
}

ncclResult_t pncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank,
                                     ncclConfig_t *config)
{
    const struct init_request request = {.function = "ncclCommInitRankConfig",
                                         .handle_out = comm,
                                         .n_ranks = nranks,
                                         .rank = rank,
                                         .n_ids = 1,
                                         .ids = &commId,
                                         .config = config,
                                         .device = OF_THREAD};

    return hetccl_group_result(init(&request));
}

ncclResult_t pncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int myrank, int nId,
                                       ncclUniqueId *commIds, ncclConfig_t *config)
{
    const struct init_request request = {.function = "ncclCommInitRankScalable",
                                         .handle_out = newcomm,
                                         .n_ranks = nranks,
                                         .rank = myrank,
                                         .n_ids = nId,
                                         .ids = commIds,
                                         .config = config,
                                         .device = OF_THREAD};

    return hetccl_group_result(init(&request));
}

ncclResult_t pncclCommInitAll(ncclComm_t *comm, int ndev, const int *devlist)
{
    return hetccl_group_result(init_all(comm, ndev, devlist));
}

extern __typeof__(pncclGetUniqueId) ncclGetUniqueId HETCCL_ALIAS("pncclGetUniqueId");
extern __typeof__(pncclCommInitRank) ncclCommInitRank HETCCL_ALIAS("pncclCommInitRank");
extern __typeof__(pncclCommInitRankConfig) ncclCommInitRankConfig HETCCL_ALIAS("pncclCommInitRankConfig");
extern __typeof__(pncclCommInitRankScalable)
    ncclCommInitRankScalable HETCCL_ALIAS("pncclCommInitRankScalable");
extern __typeof__(pncclCommInitAll) ncclCommInitAll HETCCL_ALIAS("pncclCommInitAll");
