/* SPDX-License-Identifier: Apache-2.0 */

/* What NVIDIA's library offers and this one doesn't: an answer in words, never a missing symbol. */

#include "api/group.h"
#include "api/native.h"

static enum hetccl_status refuse(ncclComm_t handle, const char *function, const char *what)
{
    struct hetccl_comm *comm = NULL;
    enum hetccl_status status = hetccl_handle_check(handle, function, &comm);

    if (status == HETCCL_OK)
        status = hetccl_fail(HETCCL_ERR_USAGE, "%s: %s", function, what);
    return status;
}

static const char no_windows[] =
    "one-sided calls aren't offered, as no memory windows are; use ncclSend and ncclRecv";
static const char no_suspension[] = "communicators can't be suspended";

ncclResult_t pncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void **outUserPtr)
{
    const struct hetccl_comm_head *native = hetccl_comm_native(comm);

    if (native != NULL && native->api->ncclWinGetUserPtr == NULL)
        return hetccl_native_lacks(native->api, "ncclWinGetUserPtr");
    if (native != NULL)
        return hetccl_native_result(native->api,
                                    native->api->ncclWinGetUserPtr(native->vendor, win, outUserPtr),
                                    "ncclWinGetUserPtr");
    return hetccl_result_of(refuse(comm, "ncclWinGetUserPtr", no_windows));
}

ncclResult_t pncclPutSignal(const void *localbuff, size_t count, ncclDataType_t datatype, int peer,
                            ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
                            unsigned int flags, ncclComm_t comm, hetcclStream_t stream)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL && native->api->ncclPutSignal == NULL)
        return hetccl_native_lacks(native->api, "ncclPutSignal");
    if (native != NULL)
        return hetccl_native_result(native->api,
                                    native->api->ncclPutSignal(localbuff, count, (unsigned)datatype, peer,
                                                               peerWin, peerWinOffset, sigIdx, ctx, flags,
                                                               native->vendor, stream),
                                    "ncclPutSignal");
    return hetccl_group_result(refuse(comm, "ncclPutSignal", no_windows));
}

ncclResult_t pncclSignal(int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                         hetcclStream_t stream)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL && native->api->ncclSignal == NULL)
        return hetccl_native_lacks(native->api, "ncclSignal");
    if (native != NULL)
        return hetccl_native_result(native->api,
                                    native->api->ncclSignal(peer, sigIdx, ctx, flags, native->vendor, stream),
                                    "ncclSignal");
    return hetccl_group_result(refuse(comm, "ncclSignal", no_windows));
}

ncclResult_t pncclWaitSignal(int nDesc, ncclWaitSignalDesc_t *signalDescs, ncclComm_t comm,
                             hetcclStream_t stream)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL && native->api->ncclWaitSignal == NULL)
        return hetccl_native_lacks(native->api, "ncclWaitSignal");
    if (native != NULL)
        return hetccl_native_result(native->api,
                                    native->api->ncclWaitSignal(nDesc, signalDescs, native->vendor, stream),
                                    "ncclWaitSignal");
    return hetccl_group_result(refuse(comm, "ncclWaitSignal", no_windows));
}

ncclResult_t pncclCommSuspend(ncclComm_t comm, int flags)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL && native->api->ncclCommSuspend == NULL)
        return hetccl_native_lacks(native->api, "ncclCommSuspend");
    if (native != NULL)
        return hetccl_native_result(native->api, native->api->ncclCommSuspend(native->vendor, flags),
                                    "ncclCommSuspend");
    return hetccl_result_of(refuse(comm, "ncclCommSuspend", no_suspension));
}

ncclResult_t pncclCommResume(ncclComm_t comm)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL && native->api->ncclCommResume == NULL)
        return hetccl_native_lacks(native->api, "ncclCommResume");
    if (native != NULL)
        return hetccl_native_result(native->api, native->api->ncclCommResume(native->vendor),
                                    "ncclCommResume");
    return hetccl_result_of(refuse(comm, "ncclCommResume", no_suspension));
}

extern __typeof__(pncclWinGetUserPtr) ncclWinGetUserPtr HETCCL_ALIAS("pncclWinGetUserPtr");
extern __typeof__(pncclPutSignal) ncclPutSignal HETCCL_ALIAS("pncclPutSignal");
extern __typeof__(pncclSignal) ncclSignal HETCCL_ALIAS("pncclSignal");
extern __typeof__(pncclWaitSignal) ncclWaitSignal HETCCL_ALIAS("pncclWaitSignal");
extern __typeof__(pncclCommSuspend) ncclCommSuspend HETCCL_ALIAS("pncclCommSuspend");
extern __typeof__(pncclCommResume) ncclCommResume HETCCL_ALIAS("pncclCommResume");
