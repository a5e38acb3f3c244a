/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_API_NATIVE_H
#define HETCCL_API_NATIVE_H

/*
 * The hand-over of calls on native communicators (comm/native.h). It comes first in every public function:
 * one load and one branch, then the vendor's function with the arguments as they came, and its result as it
 * is.
 */

#include "api/api.h"
#include "api/group.h"
#include "comm/native.h"

/* For a call that the vendor's group collects too: opens that group when it is the first of the caller's. */
static inline const struct hetccl_comm_head *hetccl_native_for_call(ncclComm_t handle)
{
    const struct hetccl_comm_head *native = hetccl_comm_native(handle);

    if (native != NULL)
        hetccl_group_open_native(native->api);
    return native;
}

/* Keeps the vendor's last error as ours, but for ncclInProgress. */
ncclResult_t hetccl_native_failure(const struct hetccl_ccl_api *api, unsigned code, const char *function);

/* The vendor's code as a result. */
static inline ncclResult_t hetccl_native_result(const struct hetccl_ccl_api *api, unsigned code,
                                                const char *function)
{
    if (__builtin_expect(code == HETCCL_CCL_SUCCESS, 1))
        return ncclSuccess;
    return hetccl_native_failure(api, code, function);
}

/* ncclInvalidUsage: the vendor's library is of a release before the function. */
ncclResult_t hetccl_native_lacks(const struct hetccl_ccl_api *api, const char *function);

/* A child of a native communicator, as its public function goes along. */
struct hetccl_native_child {
    const char *function;
    const struct hetccl_ccl_api *api;
    ncclComm_t *handle_out;
    struct hetccl_comm *comm;
    struct ncclComm **slot; /* for the vendor's function */
};

/*
 * hetccl_native_child_begin -- the handle of a child to be, pending, in *handle_out.
 *
 * parent  [in] its head; NULL for a rank that grows into a communicator
 * options of the child follow from config, or the parent. Errors: as hetccl_options_read(),
 * HETCCL_ERR_SYSTEM.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_native_child_begin(struct hetccl_native_child *child,
                                                              const struct hetccl_comm_head *parent,
                                                              const ncclConfig_t *config);

/*
 * hetccl_native_child_end -- after the vendor's function. A failure takes the handle back; in a group the
 * child is kept in mind for its end.
 */
ncclResult_t hetccl_native_child_end(const struct hetccl_native_child *child, unsigned code);

/* The same for a group that has ended with the code. */
void hetccl_native_child_undo(struct hetccl_comm *comm, ncclComm_t *handle_out);

#endif
