/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api.h"
#include "api/native.h"

static enum hetccl_status mem_alloc(void **memory_out, size_t bytes)
{
    void *memory = NULL;
    enum hetccl_status status = hetccl_pointer_check(memory_out, "ncclMemAlloc", "ptr");

    if (status == HETCCL_OK && bytes > 0)
        status = hetccl_comm_mem_alloc(bytes, &memory);
    if (status == HETCCL_OK)
        *memory_out = memory;
    return status;
}

static enum hetccl_status register_buffer(ncclComm_t handle, void *buffer, size_t bytes, void **handle_out)
{
    struct hetccl_comm *comm = NULL;
    enum hetccl_status status = hetccl_handle_check_ready(handle, "ncclCommRegister", &comm);

    if (status == HETCCL_OK)
        status = hetccl_pointer_check(handle_out, "ncclCommRegister", "handle");
    if (status == HETCCL_OK)
        status = hetccl_pointer_check(buffer, "ncclCommRegister", "buff");
    if (status == HETCCL_OK && bytes == 0)
        status = hetccl_fail(HETCCL_ERR_ARG, "ncclCommRegister: the buffer has no bytes");
    return status == HETCCL_OK ? hetccl_comm_register(comm, buffer, bytes, handle_out) : status;
}

/* Failed communicators too: programs take back their registrations before they abort. */
static enum hetccl_status deregister_buffer(ncclComm_t handle, void *registration)
{
    struct hetccl_comm *comm = NULL;
    enum hetccl_status status = hetccl_handle_check(handle, "ncclCommDeregister", &comm);

    if (status != HETCCL_OK || registration == NULL)
        return status;
    return hetccl_comm_deregister(comm, registration);
}

static enum hetccl_status register_window(ncclComm_t handle, const void *buffer, size_t bytes, int flags,
                                          ncclWindow_t *window_out)
{
    enum { WIN_GIN_ONLY = 0x04 }; /* release 2.31 */
    const int known = NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING | WIN_GIN_ONLY;
    struct hetccl_comm *comm = NULL;
    enum hetccl_status status = hetccl_handle_check_ready(handle, "ncclCommWindowRegister", &comm);

    if (status == HETCCL_OK)
        status = hetccl_pointer_check(window_out, "ncclCommWindowRegister", "win");
    if (status == HETCCL_OK && buffer == NULL && bytes > 0)
        status = hetccl_pointer_check(buffer, "ncclCommWindowRegister", "buff");
    if (status == HETCCL_OK && (flags & ~known) != 0)
        status = hetccl_fail(HETCCL_ERR_ARG, "ncclCommWindowRegister: flags 0x%x: it takes bits of 0x%x",
                             flags, known);
    if (status == HETCCL_OK)
        *window_out = NULL;
    return status;
}

static enum hetccl_status deregister_window(ncclComm_t handle, ncclWindow_t window)
{
    struct hetccl_comm *comm = NULL;
    enum hetccl_status status = hetccl_handle_check(handle, "ncclCommWindowDeregister", &comm);

    if (status == HETCCL_OK && window != NULL)
        status = hetccl_fail(HETCCL_ERR_ARG, "ncclCommWindowDeregister: %p is no window of this library",
                             (void *)window);
    return status;
}

static enum hetccl_status mem_stats(ncclComm_t handle, ncclCommMemStat_t stat, uint64_t *value_out)
{
    struct hetccl_comm *comm = NULL;
    enum hetccl_status status = hetccl_handle_check(handle, "ncclCommMemStats", &comm);

    if (status == HETCCL_OK)
        status = hetccl_pointer_check(value_out, "ncclCommMemStats", "value");
    if (status == HETCCL_OK && (unsigned)stat > ncclStatGpuMemTotal)
        status = hetccl_fail(HETCCL_ERR_ARG, "ncclCommMemStats: figure %d is unknown: it takes 0 to %d",
                             (int)stat, ncclStatGpuMemTotal);
    if (status == HETCCL_OK)
        *value_out = 0;
    return status;
}

/* No communicator tells whose memory it is to be: on a GPU always the vendor's, which calls on any of its
 * communicators may need. */
ncclResult_t pncclMemAlloc(void **ptr, size_t size)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api();

    if (api != NULL && api->ncclMemAlloc != NULL && api->ncclMemFree != NULL)
        return hetccl_native_result(api, api->ncclMemAlloc(ptr, size), "ncclMemAlloc");
    return hetccl_result_of(mem_alloc(ptr, size));
}

ncclResult_t pncclMemFree(void *ptr)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api();

    if (api != NULL && api->ncclMemAlloc != NULL && api->ncclMemFree != NULL)
        return hetccl_native_result(api, api->ncclMemFree(ptr), "ncclMemFree");
    return hetccl_result_of(ptr != NULL ? hetccl_comm_mem_free(ptr) : HETCCL_OK);
}

ncclResult_t pncclCommRegister(const ncclComm_t comm, void *buff, size_t size, void **handle)
{
    const struct hetccl_comm_head *native = hetccl_comm_native(comm);

    if (native != NULL && native->api->ncclCommRegister == NULL)
        return hetccl_native_lacks(native->api, "ncclCommRegister");
    if (native != NULL)
        return hetccl_native_result(native->api,
                                    native->api->ncclCommRegister(native->vendor, buff, size, handle),
                                    "ncclCommRegister");
    return hetccl_result_of(register_buffer(comm, buff, size, handle));
}

ncclResult_t pncclCommDeregister(const ncclComm_t comm, void *handle)
{
    const struct hetccl_comm_head *native = hetccl_comm_native(comm);

    if (native != NULL && native->api->ncclCommDeregister == NULL)
        return hetccl_native_lacks(native->api, "ncclCommDeregister");
    if (native != NULL)
        return hetccl_native_result(native->api, native->api->ncclCommDeregister(native->vendor, handle),
                                    "ncclCommDeregister");
    return hetccl_result_of(deregister_buffer(comm, handle));
}

ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win,
                                     int winFlags)
{
    const struct hetccl_comm_head *native = hetccl_native_for_call(comm);

    if (native != NULL && native->api->ncclCommWindowRegister == NULL)
        return hetccl_native_lacks(native->api, "ncclCommWindowRegister");
    if (native != NULL)
        return hetccl_native_result(
            native->api, native->api->ncclCommWindowRegister(native->vendor, buff, size, win, winFlags),
            "ncclCommWindowRegister");
    return hetccl_result_of(register_window(comm, buff, size, winFlags, win));
}

ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win)
{
    const struct hetccl_comm_head *native = hetccl_comm_native(comm);

    if (native != NULL && native->api->ncclCommWindowDeregister == NULL)
        return hetccl_native_lacks(native->api, "ncclCommWindowDeregister");
    if (native != NULL)
        return hetccl_native_result(native->api, native->api->ncclCommWindowDeregister(native->vendor, win),
                                    "ncclCommWindowDeregister");
    return hetccl_result_of(deregister_window(comm, win));
}

ncclResult_t pncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value)
{
    const struct hetccl_comm_head *native = hetccl_comm_native(comm);

    if (native != NULL && native->api->ncclCommMemStats == NULL)
        return hetccl_native_lacks(native->api, "ncclCommMemStats");
    if (native != NULL)
        return hetccl_native_result(native->api,
                                    native->api->ncclCommMemStats(native->vendor, (unsigned)stat, value),
                                    "ncclCommMemStats");
    return hetccl_result_of(mem_stats(comm, stat, value));
}

extern __typeof__(pncclMemAlloc) ncclMemAlloc HETCCL_ALIAS("pncclMemAlloc");
extern __typeof__(pncclMemFree) ncclMemFree HETCCL_ALIAS("pncclMemFree");
extern __typeof__(pncclCommRegister) ncclCommRegister HETCCL_ALIAS("pncclCommRegister");
extern __typeof__(pncclCommDeregister) ncclCommDeregister HETCCL_ALIAS("pncclCommDeregister");
extern __typeof__(pncclCommWindowRegister) ncclCommWindowRegister HETCCL_ALIAS("pncclCommWindowRegister");
extern __typeof__(pncclCommWindowDeregister)
    ncclCommWindowDeregister HETCCL_ALIAS("pncclCommWindowDeregister");
extern __typeof__(pncclCommMemStats) ncclCommMemStats HETCCL_ALIAS("pncclCommMemStats");
