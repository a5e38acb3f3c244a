/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_EXEC_ISLAND_H
#define HETCCL_EXEC_ISLAND_H

/* Island steps of a plan, in the engine's form. */

#include "exec/exec.h"

/* The memory of a region in the buffers of a call. */
static inline char *hetccl_region_memory(const struct hetccl_run_args *args,
                                         const struct hetccl_region *region)
{
    uintptr_t base = region->buffer == HETCCL_BUF_SEND   ? (uintptr_t)args->send
                     : region->buffer == HETCCL_BUF_RECV ? (uintptr_t)args->recv
                                                         : (uintptr_t)args->scratch;

    /* Groups of sends and receives have no common buffer: their base is NULL and the offset the address. */
    return (char *)(base + region->offset * args->elem_bytes);
}

/* All pieces of the plan; freed by hetccl_free(). */
HETCCL_NODISCARD enum hetccl_status hetccl_island_pieces(const struct hetccl_plan *plan,
                                                         struct hetccl_engine_piece **out);

/* pieces [in] of the plan, as above; borrowed by *out */
void hetccl_island_op_fill(const struct hetccl_step *step, const struct hetccl_engine_piece *pieces,
                           const struct hetccl_run_args *args, struct hetccl_engine_op *out);

#endif
