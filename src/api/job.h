/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_API_JOB_H
#define HETCCL_API_JOB_H

/* A blocking step in a communicator's life, described so that it can run later or in another thread. */

#include "api/api.h"

enum hetccl_job_kind {
    HETCCL_JOB_INIT,
    HETCCL_JOB_SPLIT,
    HETCCL_JOB_SHRINK,
    HETCCL_JOB_FINALIZE,
    HETCCL_JOB_DESTROY,
    HETCCL_JOB_ABORT,
};

struct hetccl_job {
    enum hetccl_job_kind kind;
    struct hetccl_comm
        *comm; /* the new one (NULL: split without colour), or the one that is finalized or ended */
    struct hetccl_comm *parent; /* SPLIT, SHRINK */
    ncclComm_t *handle_out;     /* INIT, SPLIT, SHRINK: where the caller keeps the new handle */
    int n_ranks, rank;          /* INIT */
    int color, key;             /* SPLIT */
    bool is_aborting;           /* SHRINK: end the parent's calls first */
    void *list;                 /* INIT: n_list ids, SHRINK: n_list excluded ranks; owned by the job */
    size_t n_list;
    enum hetccl_status status; /* once it has run */
    bool has_run;
    bool is_cancelled; /* comm was aborted because another job of the group failed: it is gone */
};

/* True for the kinds that make a communicator. */
bool hetccl_job_is_creation(const struct hetccl_job *job);

/*
 * hetccl_job_make_comm -- the new communicator of a creation, in job->comm and the caller's *handle_out.
 *
 * From here to the end of the job's run it counts as in use, so that a thread which aborts it by its handle
 * leaves it standing until then. Errors: HETCCL_ERR_SYSTEM, HETCCL_ERR_USAGE (environment).
 */
HETCCL_NODISCARD enum hetccl_status hetccl_job_make_comm(struct hetccl_job *job,
                                                         const struct hetccl_comm_options *options);

/* For a creation that can't be run: its communicator gets the failure, as if it had. Nothing for jobs that
 * have run. */
void hetccl_job_skip(struct hetccl_job *job, enum hetccl_status failure);

/* Runs the job in the calling thread and keeps the result in job->status too. Blocks. */
enum hetccl_status hetccl_job_run(struct hetccl_job *job);

/*
 * hetccl_job_run_all -- all jobs at once, each in a thread of its own (a single one in the caller's). Returns
 * when all have ended.
 *
 * is_cancelling [in] when one fails, abort the new communicators of the others, which else would wait for it
 * Errors: the failure that came first in time, with its text as the calling thread's last error.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_job_run_all(struct hetccl_job *const *jobs, size_t n_jobs,
                                                       bool is_cancelling);

/*
 * A creation failed or is not to run: its caller gets no handle. Frees the new communicator, if nobody else
 * has taken that upon himself, and sets the caller's handle to NULL.
 */
void hetccl_job_undo(struct hetccl_job *job);

/* Frees what the job owns, the communicator not included. */
void hetccl_job_fini(struct hetccl_job *job);

#endif
