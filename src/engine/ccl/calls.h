/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_ENGINE_CCL_CALLS_H
#define HETCCL_ENGINE_CCL_CALLS_H

/*
 * Calls of a vendor's library that may block for ever: each runs in a thread of its own, so that the caller
 * can leave. A thread that was left stays until its call returns, and then cleans up after itself.
 */

#include <stdbool.h>

#include "device/device.h"
#include "engine/ccl/table.h"

/*
 * A user's ncclConfig_t, byte by byte as it came, for a call that is made later and elsewhere. Its two
 * strings are kept with it.
 */
struct hetccl_ccl_config {
    size_t bytes; /* 0: there was none */
    _Alignas(8) unsigned char data[256];
    char net_name[64], comm_name[128];
};

/* Copies a config, which has at least its size member; NULL: none. What is longer than there is room is cut.
 */
void hetccl_ccl_config_copy(const void *config, struct hetccl_ccl_config *out);

struct hetccl_ccl_init_args {
    const struct hetccl_ccl_api *api;
    struct hetccl_device *device; /* made current for the call */
    int n_ranks, rank;
    struct hetccl_ccl_id id;
    const struct hetccl_ccl_config *config; /* copied */
    uint64_t timeout_s;
    bool (*must_stop)(void *context); /* asked every few milliseconds: true ends the wait */
    void *context;
};

/*
 * hetccl_ccl_init -- join a communicator of the vendor's; non-blocking ones too are ready on return.
 *
 * Blocks until all ranks have come. Errors: the library's (its text); HETCCL_ERR_TIMEOUT; HETCCL_ERR_ABORTED
 * when must_stop said so.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_ccl_init(const struct hetccl_ccl_init_args *args,
                                                    struct ncclComm **out);

/*
 * hetccl_ccl_end -- ncclCommAbort() or ncclCommDestroy(), waited for at most timeout_ms. Returns its code, or
 * success (with a line in the log) when it is still busy: the caller must not use comm again in any case.
 */
unsigned hetccl_ccl_end(const struct hetccl_ccl_api *api, struct ncclComm *comm, bool is_abort,
                        unsigned timeout_ms);

#endif
