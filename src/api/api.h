/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_API_API_H
#define HETCCL_API_API_H

/*
 * What the files of the API share: public prototypes with default visibility, results, and checks of handles.
 *
 * Inside, everything returns enum hetccl_status; only the public functions speak ncclResult_t. HETCCL_AGAIN
 * is ncclInProgress.
 */

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "comm/comm.h"

#pragma GCC visibility push(default)
#include "hetccl/nccl.h"

#include "hetccl/hetccl.h"
#pragma GCC visibility pop

/*
 * Every public function is defined as pncclX; ncclX is a weak second name of it, as in NVIDIA's library, so
 * that a profiler may define ncclX itself and call pncclX.
 */
#define HETCCL_ALIAS(target) __attribute__((weak, alias(target), visibility("default")))

/* Whose ncclConfig_t the callers of this library were compiled with. Defined by nccl.c or rccl.c. */
enum hetccl_dialect { HETCCL_DIALECT_NCCL, HETCCL_DIALECT_RCCL };
extern const enum hetccl_dialect hetccl_dialect;

/* The one table from statuses to results; never ncclTimeout. */
ncclResult_t hetccl_result_of(enum hetccl_status status);

static inline ncclComm_t hetccl_handle_of(struct hetccl_comm *comm)
{
    return (ncclComm_t)(void *)comm;
}

/*
 * hetccl_handle_check -- the communicator behind a handle, in whatever state.
 *
 * function [in] name for the text
 * Errors: HETCCL_ERR_ARG for NULL and for what isn't a communicator.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_handle_check(ncclComm_t handle, const char *function,
                                                        struct hetccl_comm **out);

/* As above; HETCCL_ERR_ARG too while the communicator is in progress. A failed communicator passes. */
HETCCL_NODISCARD enum hetccl_status hetccl_handle_check_idle(ncclComm_t handle, const char *function,
                                                             struct hetccl_comm **out);

/* As above; a failed communicator gives its failure. */
HETCCL_NODISCARD enum hetccl_status hetccl_handle_check_ready(ncclComm_t handle, const char *function,
                                                              struct hetccl_comm **out);

/* HETCCL_ERR_ARG naming function and argument when pointer is NULL. */
HETCCL_NODISCARD enum hetccl_status hetccl_pointer_check(const void *pointer, const char *function,
                                                         const char *argument);

/*
 * hetccl_options_read -- what a caller's ncclConfig_t asks for, over the defaults of the environment.
 *
 * config  [in] any release's struct, or NULL for the defaults; read by its size and version
 * Errors: HETCCL_ERR_ARG naming member, value and range; HETCCL_ERR_USAGE for an unusable environment.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_options_read(const void *config, enum hetccl_dialect dialect,
                                                        struct hetccl_comm_options *out);

#endif
