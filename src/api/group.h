/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_API_GROUP_H
#define HETCCL_API_GROUP_H

/*
 * The calling thread's group, after NCCL's rules: calls inside are queued, an error of one is returned at
 * once and again by the outermost end, and then nothing of the group runs but aborts and destructions.
 */

#include "api/work.h"

/* The result of a public function: a failure inside a group is remembered for its end. */
ncclResult_t hetccl_group_result(enum hetccl_status status);

void hetccl_group_enter(void);
bool hetccl_group_is_open(void);

/*
 * hetccl_group_open_native -- before a call is handed over to the vendor's library: in a group opens the
 * vendor's, once; outside does nothing. The outermost end closes it before anything of ours runs.
 */
struct hetccl_ccl_api;
void hetccl_group_open_native(const struct hetccl_ccl_api *api);

/* A child of a native communicator that is being made: if an open group fails, its caller gets no handle. */
void hetccl_group_add_child(struct hetccl_comm *comm, ncclComm_t *handle_out);

/* Ends one level; the outermost runs what was queued. HETCCL_AGAIN for non-blocking communicators; see
 * ncclGroupEnd(). */
HETCCL_NODISCARD enum hetccl_status hetccl_group_leave(void);

/* Ends one level; the outermost throws away what was queued, and gives what it would have taken, in
 * microseconds. */
HETCCL_NODISCARD enum hetccl_status hetccl_group_simulate(double *estimate_us_out);

/*
 * hetccl_group_submit_call -- run a checked call, or queue it in an open group.
 *
 * Outside a group: a blocking communicator's call is run here, without allocating anything; a non-blocking
 * one's in a thread. Errors: those of hetccl_comm_run(); HETCCL_ERR_ARG when blocking and non-blocking
 * communicators meet in a group, HETCCL_ERR_USAGE when communicators are made in it.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_group_submit_call(struct hetccl_comm *comm,
                                                             const struct hetccl_call *call,
                                                             const struct hetccl_bias *bias);

/*
 * hetccl_group_submit_job -- the same for a job; takes over what it owns in any case.
 *
 * When a creation fails, or can't be queued, its communicator is freed and the caller's handle is NULL; but
 * for a non-blocking one that was started: it keeps its failure as its state.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_group_submit_job(struct hetccl_job *job);

#endif
