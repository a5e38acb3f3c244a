/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_API_WORK_H
#define HETCCL_API_WORK_H

/*
 * Queued calls and jobs: what a group collects, and what a non-blocking communicator's thread is given. A
 * zeroed struct is empty. Threads: one at a time.
 */

#include "api/job.h"

/* The trailing argument of ncclAllReduceWithBias(). */
struct hetccl_bias {
    const void *acc; /* NULL: none */
    enum hetccl_red red;
};

struct hetccl_bias_step {
    struct hetccl_comm *comm;
    struct hetccl_call call;
    struct hetccl_bias bias;
};

struct hetccl_work {
    struct hetccl_comm_item *items; /* in the order of the calls */
    size_t n_items, cap_items;
    struct hetccl_bias_step *biases; /* applied when all items are done, or enqueued */
    size_t n_biases, cap_biases;
    void **copies; /* arrays that items point to */
    size_t n_copies, cap_copies;
    struct hetccl_job *jobs;
    size_t n_jobs, cap_jobs;
    enum hetccl_status calls_status; /* once it has run */
};

/* Queues a call; arrays it points to (ALLTOALLV) are copied, buffers are not. HETCCL_ERR_SYSTEM: nothing was
 * queued. */
HETCCL_NODISCARD enum hetccl_status hetccl_work_add_call(struct hetccl_work *work, struct hetccl_comm *comm,
                                                         const struct hetccl_call *call,
                                                         const struct hetccl_bias *bias);

/* Queues a job and takes over what it owns. HETCCL_ERR_SYSTEM: the caller still has it. */
HETCCL_NODISCARD enum hetccl_status hetccl_work_add_job(struct hetccl_work *work,
                                                        const struct hetccl_job *job);

/* The call's result combined with the bias, as hetccl_comm_apply_bias(). acc NULL: nothing. */
HETCCL_NODISCARD enum hetccl_status
hetccl_bias_apply(struct hetccl_comm *comm, const struct hetccl_call *call, const struct hetccl_bias *bias);

/*
 * hetccl_work_run -- creations (all at once), then calls, then finalizations (all at once); stops at the
 * first of these that fails. Blocks. Doesn't empty the work. Errors: the first failure.
 *
 * is_cancelling [in] a failed creation cancels the others: their callers get no handle
 */
HETCCL_NODISCARD enum hetccl_status hetccl_work_run(struct hetccl_work *work, bool is_cancelling);

/*
 * hetccl_work_launch -- run in a thread of its own, for non-blocking communicators; empties the work in any
 * case.
 *
 * All its communicators are in progress until the thread is done, and then have its result.
 * Returns HETCCL_AGAIN, or a failure to start (HETCCL_ERR_SYSTEM), which the communicators have too.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_work_launch(struct hetccl_work *work);

/* Undoes the queued creations: frees the new communicators and sets their callers' handles to NULL. */
void hetccl_work_undo(struct hetccl_work *work);

/* Takes out everything that concerns a communicator which is about to go; creations from it are undone. */
void hetccl_work_drop_comm(struct hetccl_work *work, const struct hetccl_comm *comm);

/*
 * hetccl_work_estimate_us -- what the collectives take at least, by the cost model: of each, its bytes across
 * the slowest link in use, or inside the island, and one latency. Sends and receives count nothing.
 */
double hetccl_work_estimate_us(const struct hetccl_work *work);

/* Frees and empties. */
void hetccl_work_fini(struct hetccl_work *work);

#endif
