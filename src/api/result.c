/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api.h"

#include "api/native.h"
#include "base/log.h"

ncclResult_t hetccl_result_of(enum hetccl_status status)
{
    switch (status) {
    case HETCCL_OK:
        return ncclSuccess;
    case HETCCL_AGAIN:
        return ncclInProgress;
    case HETCCL_ERR_ARG:
        return ncclInvalidArgument;
    case HETCCL_ERR_USAGE:
        return ncclInvalidUsage;
    case HETCCL_ERR_SYSTEM:
        return ncclSystemError;
    case HETCCL_ERR_DEVICE:
        return ncclUnhandledCudaError;
    /* Programs built before ncclTimeout existed throw on it, and what timed out is a peer. */
    case HETCCL_ERR_REMOTE:
    case HETCCL_ERR_TIMEOUT:
        return ncclRemoteError;
    case HETCCL_ERR_ABORTED:
    case HETCCL_ERR_INTERNAL:
        return ncclInternalError;
    }
    return ncclInternalError;
}

enum hetccl_status hetccl_pointer_check(const void *pointer, const char *function, const char *argument)
{
    if (pointer == NULL)
        return hetccl_fail(HETCCL_ERR_ARG, "%s: argument '%s' is NULL", function, argument);
    return HETCCL_OK;
}

enum hetccl_status hetccl_handle_check(ncclComm_t handle, const char *function, struct hetccl_comm **out)
{
    struct hetccl_comm *comm = (struct hetccl_comm *)(void *)handle;

    if (comm == NULL)
        return hetccl_fail(HETCCL_ERR_ARG, "%s: the communicator is NULL", function);
    if (!hetccl_comm_is_valid(comm))
        return hetccl_fail(
            HETCCL_ERR_ARG,
            "%s: %p is not a communicator: destroyed, never initialised, or made by another library",
            function, (void *)comm);
    *out = comm;
    return HETCCL_OK;
}

static enum hetccl_status check_state(ncclComm_t handle, const char *function, struct hetccl_comm **out,
                                      enum hetccl_status *state_out)
{
    struct hetccl_comm *comm = NULL;
    enum hetccl_status status = hetccl_handle_check(handle, function, &comm);
    enum hetccl_status state = HETCCL_OK;

    if (status != HETCCL_OK)
        return status;
    state = hetccl_comm_async_state(comm);
    if (state == HETCCL_AGAIN)
        return hetccl_fail(
            HETCCL_ERR_ARG,
            "%s: communicator %p is still in progress; poll ncclCommGetAsyncError until it gives ncclSuccess",
            function, (void *)comm);
    *out = comm;
    *state_out = state;
    return HETCCL_OK;
}

enum hetccl_status hetccl_handle_check_idle(ncclComm_t handle, const char *function, struct hetccl_comm **out)
{
    enum hetccl_status state = HETCCL_OK;

    return check_state(handle, function, out, &state);
}

enum hetccl_status hetccl_handle_check_ready(ncclComm_t handle, const char *function,
                                             struct hetccl_comm **out)
{
    struct hetccl_comm *comm = NULL;
    enum hetccl_status state = HETCCL_OK;
    enum hetccl_status status = check_state(handle, function, &comm, &state);

    if (status != HETCCL_OK)
        return status;
    if (state != HETCCL_OK)
        return state;
    *out = comm;
    return HETCCL_OK;
}

const char *pncclGetErrorString(ncclResult_t result)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api_loaded();

    if (api != NULL)
        return api->ncclGetErrorString((unsigned)result);
    switch (result) {
    case ncclSuccess:
        return "success";
    case ncclUnhandledCudaError:
        return "a call to the device runtime failed";
    case ncclSystemError:
        return "a system call or resource failed";
    case ncclInternalError:
        return "internal failure, or the communicator was aborted";
    case ncclInvalidArgument:
        return "an argument is invalid";
    case ncclInvalidUsage:
        return "calls, settings or ranks do not fit together";
    case ncclRemoteError:
        return "another rank failed, closed or did not answer";
    case ncclInProgress:
        return "in progress";
    case ncclTimeout:
        return "a deadline passed";
    case ncclNumResults:
        break;
    }
    return "unknown result";
}

const char *pncclGetLastError(ncclComm_t comm)
{
    return hetccl_last_error_process();
}

/* Programs decide by this what they may call, so on a GPU it is the vendor's. */
ncclResult_t pncclGetVersion(int *version)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api();
    enum hetccl_status status = hetccl_pointer_check(version, "ncclGetVersion", "version");

    if (status == HETCCL_OK)
        *version = api != NULL ? api->version : NCCL_VERSION_CODE;
    return hetccl_result_of(status);
}

void pncclResetDebugInit(void)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api_loaded();

    if (api != NULL && api->ncclResetDebugInit != NULL)
        api->ncclResetDebugInit();
}

extern __typeof__(pncclGetErrorString) ncclGetErrorString HETCCL_ALIAS("pncclGetErrorString");
extern __typeof__(pncclGetLastError) ncclGetLastError HETCCL_ALIAS("pncclGetLastError");
extern __typeof__(pncclGetVersion) ncclGetVersion HETCCL_ALIAS("pncclGetVersion");
extern __typeof__(pncclResetDebugInit) ncclResetDebugInit HETCCL_ALIAS("pncclResetDebugInit");
