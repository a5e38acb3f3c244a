/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/group.h"
#include "api/native.h"
#include "base/memory.h"

/* Without a config a child is like its parent. Its device is the parent's in any case. */
static enum hetccl_status read_options(const struct hetccl_comm *parent, const ncclConfig_t *config,
                                       struct hetccl_comm_options *out)
{
    enum hetccl_status status = hetccl_options_read(config, hetccl_dialect, out);

    if (status != HETCCL_OK)
        return status;
    if (config == NULL)
        out->is_blocking = hetccl_comm_is_blocking(parent);
    out->device = hetccl_comm_device(parent);
    return HETCCL_OK;
}

/* Makes the handle of the child and hands the job over. */
static enum hetccl_status submit_child(struct hetccl_job *job, const ncclConfig_t *config)
{
    struct hetccl_comm_options options;
    enum hetccl_status status = read_options(job->parent, config, &options);

    if (status == HETCCL_OK)
        status = hetccl_job_make_comm(job, &options);
    if (status != HETCCL_OK) {
        hetccl_job_fini(job);
        return status;
    }

    return hetccl_group_submit_job(job);
}

static enum hetccl_status split(ncclComm_t handle, int color, int key, ncclComm_t *child_out,
                                const ncclConfig_t *config)
{
    struct hetccl_job job = {.kind = HETCCL_JOB_SPLIT, .handle_out = child_out, .color = color, .key = key};
    enum hetccl_status status = hetccl_handle_check(handle, "ncclCommSplit", &job.parent);

    if (status == HETCCL_OK)
        status = hetccl_pointer_check(child_out, "ncclCommSplit", "newcomm");
    if (status != HETCCL_OK)
        return status;
    *child_out = NULL;
    status = hetccl_handle_check_idle(handle, "ncclCommSplit", &job.parent);
    if (status != HETCCL_OK)
        return status;
    if (color < 0 && color != NCCL_SPLIT_NOCOLOR)
        return hetccl_fail(HETCCL_ERR_ARG,
                           "ncclCommSplit: color %d: it takes 0 or more, or NCCL_SPLIT_NOCOLOR", color);
    if (color == NCCL_SPLIT_NOCOLOR) {
        job.color = HETCCL_SPLIT_NO_COLOR;
        return hetccl_group_submit_job(&job);
    }
    return submit_child(&job, config);
}

static enum hetccl_status check_excluded(const struct hetccl_comm *parent, const int *ranks, int n_ranks)
{
    enum hetccl_status status = hetccl_pointer_check(ranks, "ncclCommShrink", "excludeRanksList");

    if (status != HETCCL_OK)
        return status;
    if (n_ranks <= 0)
        return hetccl_fail(HETCCL_ERR_ARG, "ncclCommShrink: %d excluded ranks: it takes 1 or more", n_ranks);
    for (int i = 0; i < n_ranks; i++) {
        if (ranks[i] < 0 || ranks[i] >= hetccl_comm_n_ranks(parent))
            return hetccl_fail(HETCCL_ERR_ARG,
                               "ncclCommShrink: excluded rank %d: the communicator has 0 to %d", ranks[i],
                               hetccl_comm_n_ranks(parent) - 1);
        if (ranks[i] == hetccl_comm_rank(parent))
            return hetccl_fail(HETCCL_ERR_ARG,
                               "ncclCommShrink: rank %d excludes itself; only ranks that stay call this",
                               ranks[i]);
    }
    return HETCCL_OK;
}

/* A hanging call keeps a communicator in progress; that is what NCCL_SHRINK_ABORT is for. */
static enum hetccl_status find_parent(ncclComm_t handle, int flags, struct hetccl_comm **out)
{
    if (flags == NCCL_SHRINK_ABORT)
        return hetccl_handle_check(handle, "ncclCommShrink", out);
    return hetccl_handle_check_idle(handle, "ncclCommShrink", out);
}

static enum hetccl_status shrink(ncclComm_t handle, const int *excluded, int n_excluded,
                                 const ncclConfig_t *config, int flags, ncclComm_t *child_out)
{
    struct hetccl_job job = {
        .kind = HETCCL_JOB_SHRINK, .handle_out = child_out, .is_aborting = flags == NCCL_SHRINK_ABORT};
    enum hetccl_status status = find_parent(handle, flags, &job.parent);

    if (status == HETCCL_OK)
        status = hetccl_pointer_check(child_out, "ncclCommShrink", "newcomm");
    if (status == HETCCL_OK)
        status = check_excluded(job.parent, excluded, n_excluded);
    if (status != HETCCL_OK)
        return status;
    if (flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT)
        return hetccl_fail(HETCCL_ERR_ARG, "ncclCommShrink: flags 0x%x: it takes 0 or NCCL_SHRINK_ABORT",
                           flags);
    *child_out = NULL;
    status = hetccl_alloc((size_t)n_excluded, sizeof(*excluded), &job.list);
    if (status != HETCCL_OK)
        return status;
    memcpy(job.list, excluded, (size_t)n_excluded * sizeof(*excluded));
    job.n_list = (size_t)n_excluded;
    return submit_child(&job, config);
}

/* The answer for what isn't offered; a bad handle is told apart all the same. */
static enum hetccl_status refuse_growth(ncclComm_t handle, const char *function)
{
    struct hetccl_comm *comm = NULL;
    enum hetccl_status status = hetccl_handle_check(handle, function, &comm);

    if (status == HETCCL_OK)
        status = hetccl_fail(
            HETCCL_ERR_USAGE,
            "%s: this library can't add ranks to a communicator; make a new one with ncclCommInitRank",
            function);
    return status;
}

/* ---- children of native communicators, which the vendor's library makes ---- */

/* A rank without a colour takes part and gets nothing; the vendor's library says so by NULL, in its own time.
 */
static ncclResult_t split_off(const struct hetccl_comm_head *native, int key, ncclComm_t *child_out,
                              ncclConfig_t *config)
{
    static struct ncclComm *nobody;

    if (child_out != NULL)
        *child_out = NULL;
    return hetccl_native_result(
        native->api, native->api->ncclCommSplit(native->vendor, NCCL_SPLIT_NOCOLOR, key, &nobody, config),
        "ncclCommSplit");
}

static ncclResult_t split_native(const struct hetccl_comm_head *native, int color, int key,
                                 ncclComm_t *child_out, ncclConfig_t *config)
{
    struct hetccl_native_child child = {
        .function = "ncclCommSplit", .api = native->api, .handle_out = child_out};
    enum hetccl_status status;

    if (color == NCCL_SPLIT_NOCOLOR)
        return split_off(native, key, child_out, config);
    status = hetccl_native_child_begin(&child, native, config);
    if (status != HETCCL_OK)
        return hetccl_group_result(status);
    return hetccl_native_child_end(
        &child, native->api->ncclCommSplit(native->vendor, color, key, child.slot, config));
}

struct shrink_request {
    int *excluded;
    int n_excluded, flags;
    ncclConfig_t *config;
};

static ncclResult_t shrink_native(const struct hetccl_comm_head *native, const struct shrink_request *request,
                                  ncclComm_t *child_out)
{
    struct hetccl_native_child child = {
        .function = "ncclCommShrink", .api = native->api, .handle_out = child_out};
    enum hetccl_status status;

    if (native->api->ncclCommShrink == NULL)
        return hetccl_native_lacks(native->api, "ncclCommShrink");
    status = hetccl_native_child_begin(&child, native, request->config);
    if (status != HETCCL_OK)
        return hetccl_group_result(status);
    return hetccl_native_child_end(&child, native->api->ncclCommShrink(native->vendor, request->excluded,
                                                                       request->n_excluded, child.slot,
                                                                       request->config, request->flags));
}

struct grow_request {
    int n_ranks, rank;
    const ncclUniqueId *id;
    ncclConfig_t *config;
};

/* native NULL: the caller is a new rank. */
static ncclResult_t grow_native(const struct hetccl_ccl_api *api, const struct hetccl_comm_head *native,
                                const struct grow_request *request, ncclComm_t *child_out)
{
    struct hetccl_native_child child = {.function = "ncclCommGrow", .api = api, .handle_out = child_out};
    struct ncclComm *vendor = native != NULL ? native->vendor : NULL;
    enum hetccl_status status;

    if (api->ncclCommGrow == NULL)
        return hetccl_native_lacks(api, "ncclCommGrow");
    status = hetccl_native_child_begin(&child, native, request->config);
    if (status != HETCCL_OK)
        return hetccl_group_result(status);
    return hetccl_native_child_end(&child, api->ncclCommGrow(vendor, request->n_ranks, request->id,
                                                             request->rank, child.slot, request->config));
}

ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL)
        return split_native(native, color, key, newcomm, config);
    return hetccl_group_result(split(comm, color, key, newcomm, config));
}

ncclResult_t pncclCommShrink(ncclComm_t comm, int *excludeRanksList, int excludeRanksCount,
                             ncclComm_t *newcomm, ncclConfig_t *config, int shrinkFlags)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL)
        return shrink_native(native,
                             &(struct shrink_request){.excluded = excludeRanksList,
                                                      .n_excluded = excludeRanksCount,
                                                      .flags = shrinkFlags,
                                                      .config = config},
                             newcomm);
    return hetccl_group_result(
        shrink(comm, excludeRanksList, excludeRanksCount, config, shrinkFlags, newcomm));
}

ncclResult_t pncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *uniqueId)
{
    const struct hetccl_comm_head *native = hetccl_comm_native(comm);

    if (native != NULL && native->api->ncclCommGetUniqueId == NULL)
        return hetccl_native_lacks(native->api, "ncclCommGetUniqueId");
    if (native != NULL)
        return hetccl_native_result(native->api, native->api->ncclCommGetUniqueId(native->vendor, uniqueId),
                                    "ncclCommGetUniqueId");
    return hetccl_result_of(refuse_growth(comm, "ncclCommGetUniqueId"));
}

/*
 * New ranks come without a communicator, and with an id that the vendor's library made: only native ones
 * grow. Where there is no vendor's library only the second half of the answer is left for them.
 */
ncclResult_t pncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId *uniqueId, int rank,
                           ncclComm_t *newcomm, ncclConfig_t *config)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);
    const struct hetccl_ccl_api *api = native != NULL ? native->api
                                       : comm == NULL ? hetccl_vendor_api()
                                                      : NULL;

    if (api != NULL)
        return grow_native(
            api, native,
            &(struct grow_request){.n_ranks = nRanks, .rank = rank, .id = uniqueId, .config = config},
            newcomm);
    if (newcomm != NULL)
        *newcomm = NULL;
    if (comm != NULL)
        return hetccl_group_result(refuse_growth(comm, "ncclCommGrow"));
    return hetccl_group_result(
        hetccl_fail(HETCCL_ERR_USAGE, "ncclCommGrow: this library can't add ranks to a communicator"));
}

extern __typeof__(pncclCommSplit) ncclCommSplit HETCCL_ALIAS("pncclCommSplit");
extern __typeof__(pncclCommShrink) ncclCommShrink HETCCL_ALIAS("pncclCommShrink");
extern __typeof__(pncclCommGetUniqueId) ncclCommGetUniqueId HETCCL_ALIAS("pncclCommGetUniqueId");
extern __typeof__(pncclCommGrow) ncclCommGrow HETCCL_ALIAS("pncclCommGrow");
