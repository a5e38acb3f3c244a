/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_EXEC_COPY_MOVER_H
#define HETCCL_EXEC_COPY_MOVER_H

/*
 * Executes a program by what streams can do: copies between buffers and slots, kernels that reduce, waits for
 * words and writes of them. The same rings, words and marks as the bridge kernel's
 * (kernels/device/program.h), so the ends of a ring may have different movers. For large messages, as copy
 * engines are faster than kernels there, and for processes that share a GPU whose kernels take turns.
 *
 * Everything is enqueued by the calling thread, which waits for nothing. Capturable.
 */

#include "exec/bridge.h"
#include "exec/program.h"
#include "exec/ring.h"

struct hetccl_copy_mover;

/* What one call works on; as the members of struct hetccl_bridge_args. */
struct hetccl_copy_call {
    void *buffers[HETCCL_BRIDGE_BUFFERS];
    struct hetccl_scale scale;
    enum hetccl_type type;
    enum hetccl_red red;
    uint32_t tag;
    struct hetccl_stream stream;
};

/*
 * hetccl_copy_mover_create
 *
 * bridge  [in] it has a copier
 * program [in] made with keeps_all_deps; borrowed until destroy
 * rings   [in] of the send lanes, then of the receive lanes; read only now, but their memory stays in use
 */
HETCCL_NODISCARD enum hetccl_status hetccl_copy_mover_create(struct hetccl_bridge *bridge,
                                                             const struct hetccl_program *program,
                                                             const struct hetccl_ring *const *rings,
                                                             size_t elem_bytes,
                                                             struct hetccl_copy_mover **out);

/* Calls that were made may still run. Takes NULL. */
void hetccl_copy_mover_destroy(struct hetccl_copy_mover *mover);

/* Between hetccl_bridge_enter() and hetccl_bridge_leave(). */
HETCCL_NODISCARD enum hetccl_status hetccl_copy_mover_run(struct hetccl_copy_mover *mover,
                                                          const struct hetccl_copy_call *call);

#endif
