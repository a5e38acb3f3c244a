/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/group.h"
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

ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config)
{
    return hetccl_group_result(split(comm, color, key, newcomm, config));
}

ncclResult_t pncclCommShrink(ncclComm_t comm, int *excludeRanksList, int excludeRanksCount,
                             ncclComm_t *newcomm, ncclConfig_t *config, int shrinkFlags)
{
    return hetccl_group_result(
        shrink(comm, excludeRanksList, excludeRanksCount, config, shrinkFlags, newcomm));
}

ncclResult_t pncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *uniqueId)
{
    return hetccl_result_of(refuse_growth(comm, "ncclCommGetUniqueId"));
}

/* New ranks come without a communicator; for them only the second half of the answer is left. */
ncclResult_t pncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId *uniqueId, int rank,
                           ncclComm_t *newcomm, ncclConfig_t *config)
{
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
