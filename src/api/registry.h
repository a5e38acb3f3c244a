/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_API_REGISTRY_H
#define HETCCL_API_REGISTRY_H

/*
 * What the API remembers of a communicator beside the communicator itself: the operators made for it and that
 * it was finalized. An entry comes into being when there is something to remember and goes with the
 * communicator. Threads: any.
 */

#include "api/api.h"

/* A PreMulSum operator. */
struct hetccl_made_op {
    ncclRedOp_t handle; /* unlike any other's in the process */
    enum hetccl_type type;
    const void *device_scalar; /* NULL: the factor is in scale */
    struct hetccl_scale scale;
};

/* Keeps a copy of *op under a fresh handle. HETCCL_ERR_SYSTEM. */
HETCCL_NODISCARD enum hetccl_status
hetccl_registry_add_op(struct hetccl_comm *comm, const struct hetccl_made_op *op, ncclRedOp_t *handle_out);

/* False when the handle isn't one of this communicator's. */
bool hetccl_registry_find_op(struct hetccl_comm *comm, ncclRedOp_t handle, struct hetccl_made_op *out);
bool hetccl_registry_remove_op(struct hetccl_comm *comm, ncclRedOp_t handle);

/* HETCCL_ERR_ARG when the communicator was marked before. */
HETCCL_NODISCARD enum hetccl_status hetccl_registry_mark_finalized(struct hetccl_comm *comm);

/* Drops everything about a communicator that is about to go. */
void hetccl_registry_forget(struct hetccl_comm *comm);

#endif
