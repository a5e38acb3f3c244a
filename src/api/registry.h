/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_API_REGISTRY_H
#define HETCCL_API_REGISTRY_H

/*
 * What the API remembers of a communicator beside the communicator itself: who may end it, the operators made
 * for it, and that it was finalized. Threads: any.
 */

#include "api/api.h"

/* For every new communicator. HETCCL_ERR_SYSTEM. */
HETCCL_NODISCARD enum hetccl_status hetccl_registry_add(struct hetccl_comm *comm);

/*
 * hetccl_registry_claim -- the right to destroy or abort a communicator, given once: a creation that fails
 * and a thread that aborts it meanwhile both want to. Drops everything about it. False: somebody else has it,
 * or it isn't there.
 */
bool hetccl_registry_claim(const struct hetccl_comm *comm);

/* A PreMulSum operator. */
struct hetccl_made_op {
    ncclRedOp_t handle; /* unlike any other's in the process */
    enum hetccl_type type;
    const void *device_scalar; /* NULL: the factor is in scale */
    struct hetccl_scale scale;
};

/* Keeps a copy of *op under a fresh handle. HETCCL_ERR_SYSTEM, HETCCL_ERR_ARG after the claim. */
HETCCL_NODISCARD enum hetccl_status
hetccl_registry_add_op(struct hetccl_comm *comm, const struct hetccl_made_op *op, ncclRedOp_t *handle_out);

/* False when the handle isn't one of this communicator's. */
bool hetccl_registry_find_op(struct hetccl_comm *comm, ncclRedOp_t handle, struct hetccl_made_op *out);
bool hetccl_registry_remove_op(struct hetccl_comm *comm, ncclRedOp_t handle);

/* HETCCL_ERR_ARG when the communicator was marked before, or after the claim. */
HETCCL_NODISCARD enum hetccl_status hetccl_registry_mark_finalized(struct hetccl_comm *comm);

#endif
