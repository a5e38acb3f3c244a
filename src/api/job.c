/* SPDX-License-Identifier: Apache-2.0 */
#include "api/job.h"

#include <pthread.h>
#include <stdio.h>

#include "api/registry.h"
#include "base/memory.h"
#include "base/thread.h"

bool hetccl_job_is_creation(const struct hetccl_job *job)
{
    return job->kind == HETCCL_JOB_INIT || job->kind == HETCCL_JOB_SPLIT || job->kind == HETCCL_JOB_SHRINK;
}

enum hetccl_status hetccl_job_make_comm(struct hetccl_job *job, const struct hetccl_comm_options *options)
{
    struct hetccl_comm *comm = NULL;
    enum hetccl_status status = hetccl_comm_alloc(options, &comm);

    if (status != HETCCL_OK)
        return status;
    status = hetccl_registry_add(comm);
    if (status != HETCCL_OK) {
        hetccl_comm_destroy(comm);
        return status;
    }
    hetccl_comm_job_begin(comm);
    job->comm = comm;
    /* Before the wait for the other ranks, so that another thread can abort it. */
    *job->handle_out = hetccl_handle_of(comm);
    return HETCCL_OK;
}

/* The new communicator may be freed by another thread from here on. */
static void end_creation(const struct hetccl_job *job)
{
    if (hetccl_job_is_creation(job) && job->comm != NULL)
        hetccl_comm_job_end(job->comm, job->status);
}

void hetccl_job_skip(struct hetccl_job *job, enum hetccl_status failure)
{
    if (job->has_run || !hetccl_job_is_creation(job))
        return;
    job->status = failure;
    job->has_run = true;
    end_creation(job);
}

/*
 * A failure shows as soon as it is known, when the thread of a non-blocking call may not have left yet.
 * Aborting waits for it, and a failed communicator has nobody to say good-bye to.
 */
static void destroy(struct hetccl_comm *comm)
{
    if (hetccl_is_error(hetccl_comm_async_state(comm)))
        hetccl_comm_abort(comm);
    else
        hetccl_comm_destroy(comm);
}

enum hetccl_status hetccl_job_run(struct hetccl_job *job)
{
    job->status = HETCCL_OK;
    switch (job->kind) {
    case HETCCL_JOB_INIT:
        job->status = hetccl_comm_init(job->comm, job->list, job->n_list, job->n_ranks, job->rank);
        break;
    case HETCCL_JOB_SPLIT:
        job->status = hetccl_comm_split(job->parent, job->color, job->key, job->comm);
        break;
    case HETCCL_JOB_SHRINK:
        job->status = hetccl_comm_shrink(job->parent, job->list, job->n_list, job->is_aborting, job->comm);
        break;
    case HETCCL_JOB_FINALIZE:
        job->status = hetccl_comm_finalize(job->comm);
        break;
    case HETCCL_JOB_DESTROY:
        destroy(job->comm);
        break;
    case HETCCL_JOB_ABORT:
        hetccl_comm_abort(job->comm);
        break;
    }
    job->has_run = true;
    end_creation(job);
    return job->status;
}

struct crew {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t n_done;
    enum hetccl_status failure; /* the first one, in time: later ones are often its consequences */
    char failure_text[HETCCL_ERROR_TEXT_BYTES];
};

struct member {
    struct crew *crew;
    struct hetccl_job *job;
    pthread_t thread;
    bool has_thread;
    bool is_done; /* guarded by the crew's lock */
};

static void report(struct member *member, enum hetccl_status status)
{
    struct crew *crew = member->crew;

    pthread_mutex_lock(&crew->lock);
    member->is_done = true;
    crew->n_done++;
    if (hetccl_is_error(status) && crew->failure == HETCCL_OK) {
        crew->failure = status;
        (void)snprintf(crew->failure_text, sizeof(crew->failure_text), "%s", hetccl_last_error_thread());
    }
    pthread_cond_signal(&crew->changed);
    pthread_mutex_unlock(&crew->lock);
}

static void *run_member(void *arg)
{
    struct member *member = arg;

    report(member, hetccl_job_run(member->job));
    return NULL;
}

/* Blocks until all have reported, or one has failed and the others must be told. */
static bool wait_for_failure(struct crew *crew, size_t n_members, bool is_cancelling)
{
    bool must_cancel;

    pthread_mutex_lock(&crew->lock);
    while (crew->n_done < n_members && !(is_cancelling && crew->failure != HETCCL_OK))
        pthread_cond_wait(&crew->changed, &crew->lock);
    must_cancel = crew->n_done < n_members;
    pthread_mutex_unlock(&crew->lock);
    return must_cancel;
}

/* Aborting frees the communicator, once the job's thread has left it. */
static void cancel_others(struct crew *crew, struct member *members, size_t n_members)
{
    for (size_t i = 0; i < n_members; i++) {
        struct hetccl_job *job = members[i].job;

        pthread_mutex_lock(&crew->lock);
        job->is_cancelled = !members[i].is_done && job->comm != NULL && hetccl_registry_claim(job->comm);
        pthread_mutex_unlock(&crew->lock);
        if (job->is_cancelled)
            hetccl_comm_abort(job->comm);
    }
}

static void start_members(struct member *members, struct hetccl_job *const *jobs, size_t n_jobs,
                          struct crew *crew)
{
    for (size_t i = 0; i < n_jobs; i++) {
        members[i].crew = crew;
        members[i].job = jobs[i];
    }
    for (size_t i = 0; i < n_jobs; i++) {
        enum hetccl_status status =
            hetccl_thread_start("hetccl-job", run_member, &members[i], &members[i].thread);

        members[i].has_thread = status == HETCCL_OK;
        if (members[i].has_thread)
            continue;
        jobs[i]->status = status;
        /* At once: the others wait for this rank, and whoever polls it must not. */
        hetccl_job_skip(jobs[i], status);
        report(&members[i], status);
    }
}

enum hetccl_status hetccl_job_run_all(struct hetccl_job *const *jobs, size_t n_jobs, bool is_cancelling)
{
    struct crew crew = {.n_done = 0};
    struct member *members;
    enum hetccl_status status;

    if (n_jobs == 0)
        return HETCCL_OK;
    if (n_jobs == 1)
        return hetccl_job_run(jobs[0]);
    status = hetccl_alloc(n_jobs, sizeof(*members), &members);
    if (status != HETCCL_OK) {
        for (size_t i = 0; i < n_jobs; i++)
            jobs[i]->status = status;
        return status;
    }
    pthread_mutex_init(&crew.lock, NULL);
    pthread_cond_init(&crew.changed, NULL);
    start_members(members, jobs, n_jobs, &crew);
    if (wait_for_failure(&crew, n_jobs, is_cancelling))
        cancel_others(&crew, members, n_jobs);
    for (size_t i = 0; i < n_jobs; i++)
        if (members[i].has_thread)
            pthread_join(members[i].thread, NULL);
    if (crew.failure != HETCCL_OK)
        status = hetccl_fail_quietly(crew.failure, "%s", crew.failure_text);
    pthread_cond_destroy(&crew.changed);
    pthread_mutex_destroy(&crew.lock);
    hetccl_free(members);
    return status;
}

void hetccl_job_undo(struct hetccl_job *job)
{
    if (!job->has_run)
        end_creation(job);
    if (job->comm != NULL && !job->is_cancelled && hetccl_registry_claim(job->comm))
        hetccl_comm_destroy(job->comm);
    job->has_run = true;
    job->comm = NULL;
    *job->handle_out = NULL;
}

void hetccl_job_fini(struct hetccl_job *job)
{
    hetccl_free(job->list);
    job->list = NULL;
}
