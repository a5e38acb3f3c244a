/* SPDX-License-Identifier: Apache-2.0 */
#include "api/group.h"
#include "api/native.h"
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

static enum hetccl_status state_of(struct hetccl_comm *comm)
{
    enum hetccl_status state = hetccl_comm_async_state(comm);

    return state == HETCCL_OK && hetccl_comm_is_doubtful(comm) ? HETCCL_AGAIN : state;
}

static enum hetccl_status get_async_error(ncclComm_t handle, ncclResult_t *result_out)
{
    struct hetccl_comm *comm = NULL;
    enum hetccl_status status = hetccl_handle_check(handle, "ncclCommGetAsyncError", &comm);

    if (status == HETCCL_OK)
        status = hetccl_pointer_check(result_out, "ncclCommGetAsyncError", "asyncError");
    if (status == HETCCL_OK)
        *result_out = hetccl_result_of(state_of(comm));
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
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL)
        return hetccl_native_result(native->api, native->api->ncclCommFinalize(native->vendor),
                                    "ncclCommFinalize");
    return hetccl_group_result(finalize(comm));
}

/*
 * Of a native or pending communicator, outside a group: the vendor's result as it is. Inside a group the end
 * of it does this, as for all communicators. False: not one of these.
 */
static bool end_native(ncclComm_t handle, bool is_abort, ncclResult_t *result_out)
{
    const char *function = is_abort ? "ncclCommAbort" : "ncclCommDestroy";
    struct hetccl_comm *comm = (struct hetccl_comm *)(void *)handle;
    unsigned code = HETCCL_CCL_SUCCESS;

    if (hetccl_group_is_open() || (hetccl_comm_native(handle) == NULL &&
                                   !(is_abort && hetccl_comm_is_valid(comm) && hetccl_comm_is_pending(comm))))
        return false;
    if (claim(comm, function) != HETCCL_OK)
        code = HETCCL_CCL_INVALID_ARGUMENT;
    else if (!hetccl_comm_end_native(comm, is_abort, &code))
        return false;
    *result_out = (ncclResult_t)code;
    return true;
}

ncclResult_t pncclCommDestroy(ncclComm_t comm)
{
    ncclResult_t result;

    if (end_native(comm, false, &result))
        return result;
    return hetccl_group_result(destroy(comm));
}

ncclResult_t pncclCommAbort(ncclComm_t comm)
{
    ncclResult_t result;

    if (end_native(comm, true, &result))
        return result;
    return hetccl_group_result(abort_comm(comm));
}

ncclResult_t pncclCommRevoke(ncclComm_t comm, int revokeFlags)
{
    const struct hetccl_comm_head *native = hetccl_comm_native(comm);

    if (native != NULL && native->api->ncclCommRevoke == NULL)
        return hetccl_native_lacks(native->api, "ncclCommRevoke");
    if (native != NULL)
        return hetccl_native_result(native->api, native->api->ncclCommRevoke(native->vendor, revokeFlags),
                                    "ncclCommRevoke");
    return hetccl_result_of(revoke(comm, revokeFlags));
}

static ncclResult_t ask_native(const struct hetccl_comm_head *native, ncclResult_t *result_out)
{
    const struct hetccl_ccl_api *api = native->api;
    unsigned code = api->ncclCommGetAsyncError(native->vendor, (unsigned *)result_out);

    if (code == HETCCL_CCL_SUCCESS && result_out != NULL && *result_out != ncclSuccess)
        (void)hetccl_native_failure(api, (unsigned)*result_out, "ncclCommGetAsyncError");
    return hetccl_native_result(api, code, "ncclCommGetAsyncError");
}

ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError)
{
    const struct hetccl_comm_head *native = hetccl_comm_native(comm);

    if (native != NULL)
        return ask_native(native, asyncError);
    return hetccl_result_of(get_async_error(comm, asyncError));
}

ncclResult_t pncclCommCount(const ncclComm_t comm, int *count)
{
    const struct hetccl_comm_head *native = hetccl_comm_native(comm);

    if (native != NULL)
        return hetccl_native_result(native->api, native->api->ncclCommCount(native->vendor, count),
                                    "ncclCommCount");
    return hetccl_result_of(get_int(comm, "ncclCommCount", "count", hetccl_comm_n_ranks, count));
}

ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int *device)
{
    const struct hetccl_comm_head *native = hetccl_comm_native(comm);

    if (native != NULL)
        return hetccl_native_result(native->api, native->api->ncclCommCuDevice(native->vendor, device),
                                    "ncclCommCuDevice");
    return hetccl_result_of(get_int(comm, "ncclCommCuDevice", "device", hetccl_comm_device, device));
}

ncclResult_t pncclCommUserRank(const ncclComm_t comm, int *rank)
{
    const struct hetccl_comm_head *native = hetccl_comm_native(comm);

    if (native != NULL)
        return hetccl_native_result(native->api, native->api->ncclCommUserRank(native->vendor, rank),
                                    "ncclCommUserRank");
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
