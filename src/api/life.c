/* SPDX-License-Identifier: Apache-2.0 */
#include "api/group.h"
#include "api/registry.h"

static enum hetccl_status finalize(ncclComm_t handle)
{
    struct hetccl_job job = {.kind = HETCCL_JOB_FINALIZE};
    enum hetccl_status status;

    if (handle == NULL)
        return HETCCL_OK;
    status = hetccl_handle_check_ready(handle, "ncclCommFinalize", &job.comm);
    if (status == HETCCL_OK)
        status = hetccl_registry_mark_finalized(job.comm);
    return status == HETCCL_OK ? hetccl_group_submit_job(&job) : status;
}

static enum hetccl_status claim(struct hetccl_comm *comm, const char *function)
{
    if (hetccl_registry_claim(comm))
        return HETCCL_OK;
    return hetccl_fail(HETCCL_ERR_ARG, "%s: communicator %p is destroyed or aborted already", function,
                       (void *)comm);
}

/* A failed communicator is destroyed like any other; one in progress is still in another thread's hands. */
static enum hetccl_status destroy(ncclComm_t handle)
{
    struct hetccl_job job = {.kind = HETCCL_JOB_DESTROY};
    enum hetccl_status status;

    if (handle == NULL)
        return HETCCL_OK;
    status = hetccl_handle_check_idle(handle, "ncclCommDestroy", &job.comm);
    if (status == HETCCL_OK)
        status = claim(job.comm, "ncclCommDestroy");
    return status == HETCCL_OK ? hetccl_group_submit_job(&job) : status;
}

static enum hetccl_status abort_comm(ncclComm_t handle)
{
    struct hetccl_job job = {.kind = HETCCL_JOB_ABORT};
    enum hetccl_status status;

    if (handle == NULL)
        return HETCCL_OK;
    status = hetccl_handle_check(handle, "ncclCommAbort", &job.comm);
    if (status == HETCCL_OK)
        status = claim(job.comm, "ncclCommAbort");
    return status == HETCCL_OK ? hetccl_group_submit_job(&job) : status;
}

static enum hetccl_status revoke(ncclComm_t handle, int flags)
{
    struct hetccl_comm *comm = NULL;
    enum hetccl_status status = hetccl_handle_check(handle, "ncclCommRevoke", &comm);

    if (status == HETCCL_OK && flags != NCCL_REVOKE_DEFAULT)
        status = hetccl_fail(HETCCL_ERR_ARG, "ncclCommRevoke: flags 0x%x: it takes 0", flags);
    return status == HETCCL_OK ? hetccl_comm_revoke(comm) : status;
}

static enum hetccl_status get_async_error(ncclComm_t handle, ncclResult_t *result_out)
{
    struct hetccl_comm *comm = NULL;
    enum hetccl_status status = hetccl_handle_check(handle, "ncclCommGetAsyncError", &comm);

    if (status == HETCCL_OK)
        status = hetccl_pointer_check(result_out, "ncclCommGetAsyncError", "asyncError");
    if (status == HETCCL_OK)
        *result_out = hetccl_result_of(hetccl_comm_async_state(comm));
    return status;
}

static enum hetccl_status get_int(ncclComm_t handle, const char *function, const char *argument,
                                  int (*getter)(const struct hetccl_comm *comm), int *out)
{
    struct hetccl_comm *comm = NULL;
    enum hetccl_status status = hetccl_handle_check_idle(handle, function, &comm);

    if (status == HETCCL_OK)
        status = hetccl_pointer_check(out, function, argument);
    if (status == HETCCL_OK)
        *out = getter(comm);
    return status;
}

ncclResult_t pncclCommFinalize(ncclComm_t comm)
{
    return hetccl_group_result(finalize(comm));
}

ncclResult_t pncclCommDestroy(ncclComm_t comm)
{
    return hetccl_group_result(destroy(comm));
}

ncclResult_t pncclCommAbort(ncclComm_t comm)
{
    return hetccl_group_result(abort_comm(comm));
}

ncclResult_t pncclCommRevoke(ncclComm_t comm, int revokeFlags)
{
    return hetccl_result_of(revoke(comm, revokeFlags));
}

ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError)
{
    return hetccl_result_of(get_async_error(comm, asyncError));
}

ncclResult_t pncclCommCount(const ncclComm_t comm, int *count)
{
    return hetccl_result_of(get_int(comm, "ncclCommCount", "count", hetccl_comm_n_ranks, count));
}

ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int *device)
{
    return hetccl_result_of(get_int(comm, "ncclCommCuDevice", "device", hetccl_comm_device, device));
}

ncclResult_t pncclCommUserRank(const ncclComm_t comm, int *rank)
{
    return hetccl_result_of(get_int(comm, "ncclCommUserRank", "rank", hetccl_comm_rank, rank));
}

extern __typeof__(pncclCommFinalize) ncclCommFinalize HETCCL_ALIAS("pncclCommFinalize");
extern __typeof__(pncclCommDestroy) ncclCommDestroy HETCCL_ALIAS("pncclCommDestroy");
extern __typeof__(pncclCommAbort) ncclCommAbort HETCCL_ALIAS("pncclCommAbort");
extern __typeof__(pncclCommRevoke) ncclCommRevoke HETCCL_ALIAS("pncclCommRevoke");
extern __typeof__(pncclCommGetAsyncError) ncclCommGetAsyncError HETCCL_ALIAS("pncclCommGetAsyncError");
extern __typeof__(pncclCommCount) ncclCommCount HETCCL_ALIAS("pncclCommCount");
extern __typeof__(pncclCommCuDevice) ncclCommCuDevice HETCCL_ALIAS("pncclCommCuDevice");
extern __typeof__(pncclCommUserRank) ncclCommUserRank HETCCL_ALIAS("pncclCommUserRank");
