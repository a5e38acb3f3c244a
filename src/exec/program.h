/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_EXEC_PROGRAM_H
#define HETCCL_EXEC_PROGRAM_H

/*
 * A plan as the bridge kernel executes it (kernels/device/program.h): steps become operations, island steps
 * of a p2p island become sends and combines, messages become pieces in rings. Pure: no device, no link.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "kernels/device/program.h"
#include "plan/plan.h"

struct hetccl_program_args {
    const struct hetccl_plan *plan;
    size_t elem_bytes;
    const uint32_t *island_ranks; /* p2p island: global rank by island rank; NULL: plan has no island steps */
    uint32_t n_island_ranks, island_rank;
    bool has_engine; /* island steps are an engine's, on a stream beside the kernel; else they are lowered */
    size_t slot_bytes;
    uint32_t max_blocks; /* of one launch, at least 4 */
    bool keeps_all_deps; /* also those that the order of a single local block implies */
};

/* Messages to a rank: operations [first_op, first_op + n_ops). */
struct hetccl_program_lane {
    uint32_t peer, first_op, n_ops;
};

/* An island step for the engine: it waits until the counters of what `op` depends on stand, and then counts
 * as operation `op`. */
struct hetccl_program_island {
    uint32_t step, op;
};

struct hetccl_program {
    struct hetccl_bridge_op *ops; /* local ones first, then the sends by lane */
    struct hetccl_bridge_input *inputs;
    struct hetccl_bridge_dep *deps;
    struct hetccl_program_lane *send_lanes;
    uint32_t *recv_peers;                  /* rank by receive lane */
    struct hetccl_program_island *islands; /* in order; their operations are the last ones */
    uint32_t n_islands;
    uint32_t n_ops, n_local, n_inputs, n_deps, n_send_lanes, n_recv_lanes;
    uint32_t n_local_blocks, n_send_blocks, lane_blocks;
    uint32_t *plan_order;           /* operations, dependencies first */
    struct hetccl_step_time *times; /* by operation, as plan.h has them */
};

/*
 * hetccl_program_build -- lower a plan.
 *
 * All ranks of a call lower their plans with the same slot_bytes; max_blocks may differ. Errors:
 * HETCCL_ERR_SYSTEM; HETCCL_ERR_USAGE for more peers in one call, or more island ranks, than the kernel
 * takes. Ownership: freed by hetccl_program_fini().
 */
HETCCL_NODISCARD enum hetccl_status hetccl_program_build(const struct hetccl_program_args *args,
                                                         struct hetccl_program *out);

/* Takes a zeroed struct. */
void hetccl_program_fini(struct hetccl_program *program);

/* Elements of one piece of a message, or of a local operation, of count elements: equal on both ends. */
uint32_t hetccl_program_piece_count(size_t count, size_t elem_bytes, size_t slot_bytes);

#endif
