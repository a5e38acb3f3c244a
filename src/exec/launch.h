/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_EXEC_LAUNCH_H
#define HETCCL_EXEC_LAUNCH_H

/*
 * Runs of plans on an asynchronous device: one launch of the bridge kernel a call. The counterpart of the
 * lanes in run.h; run.c hands over to it.
 */

#include "exec/exec.h"

struct hetccl_launched;

/* As hetccl_run_create() and the others; progress is HETCCL_OK when everything has been enqueued. */
HETCCL_NODISCARD enum hetccl_status hetccl_launched_create(const struct hetccl_exec_env *env,
                                                           const struct hetccl_plan *plan,
                                                           struct hetccl_launched **out);
void hetccl_launched_destroy(struct hetccl_launched *launched);
HETCCL_NODISCARD enum hetccl_status hetccl_launched_progress(struct hetccl_launched *launched,
                                                             const struct hetccl_run_args *args,
                                                             bool *moved_out);

/* Whether progress would enqueue at once: HETCCL_OK, or HETCCL_AGAIN while rings are missing. Connects as
 * progress does. */
HETCCL_NODISCARD enum hetccl_status hetccl_launched_connect(struct hetccl_launched *launched,
                                                            size_t elem_bytes, uint32_t channel);

/* Cross-island traffic of one execution. */
void hetccl_launched_count(const struct hetccl_launched *launched, size_t elem_bytes,
                           struct hetccl_run_counters *out);

/* "ring to rank 3 not connected yet", or that everything is enqueued. */
void hetccl_launched_describe(const struct hetccl_launched *launched, char *out, size_t bytes);

#endif
