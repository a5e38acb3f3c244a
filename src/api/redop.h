/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_API_REDOP_H
#define HETCCL_API_REDOP_H

#include "api/api.h"

/*
 * hetccl_op_resolve -- what a caller's operator means for one call; made operators' factors are read here,
 * unless an asynchronous device has to read them when the call's work runs.
 *
 * op [in] as the caller gave it, in whatever range
 * Errors: HETCCL_ERR_ARG (no operator, another communicator's, another type's).
 */
HETCCL_NODISCARD enum hetccl_status hetccl_op_resolve(const char *function, struct hetccl_comm *comm, int op,
                                                      enum hetccl_type type, struct hetccl_comm_op *out);

#endif
