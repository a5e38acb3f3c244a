/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Work of non-blocking communicators. Each of them is marked as in progress once, however often it occurs in
 * the work, and gets the first failure that concerns it when the thread is done. After its mark has ended a
 * communicator may be freed by another thread at any moment, so nothing may touch it then.
 */

#include "api/work.h"
#include "base/memory.h"
#include "base/thread.h"

struct mark {
    struct hetccl_comm *comm;
    enum hetccl_status result;
};

struct launch {
    struct hetccl_work work;
    struct mark *marks;
    size_t n_marks;
};

static struct mark *find_mark(struct launch *launch, struct hetccl_comm *comm)
{
    size_t i = 0;

    while (i < launch->n_marks && launch->marks[i].comm != comm)
        i++;
    if (i == launch->n_marks)
        launch->marks[launch->n_marks++] = (struct mark){comm, HETCCL_OK};
    return &launch->marks[i];
}

static void note(struct launch *launch, struct hetccl_comm *comm, enum hetccl_status status)
{
    struct mark *mark;

    if (comm == NULL)
        return;
    mark = find_mark(launch, comm);
    if (mark->result == HETCCL_OK)
        mark->result = status;
}

/* Also makes the marks in the first place, when every status is HETCCL_OK still. */
static void note_all(struct launch *launch)
{
    const struct hetccl_work *work = &launch->work;

    for (size_t i = 0; i < work->n_jobs; i++) {
        /* A new communicator is in progress by itself, and done as soon as its own job is. */
        if (!hetccl_job_is_creation(&work->jobs[i]))
            note(launch, work->jobs[i].comm, work->jobs[i].status);
        /* Revoking the parent waits until nothing is in progress on it: that job itself mustn't count. */
        if (!work->jobs[i].is_aborting)
            note(launch, work->jobs[i].parent, work->jobs[i].status);
    }
    for (size_t i = 0; i < work->n_items; i++)
        note(launch, work->items[i].comm, work->calls_status);
}

static void finish(struct launch *launch, enum hetccl_status result)
{
    for (size_t i = 0; i < launch->work.n_jobs; i++)
        hetccl_job_skip(&launch->work.jobs[i], result);
    note_all(launch);
    /* Callers' arrays and ids may be given back before anybody can see that the work is done. */
    hetccl_work_fini(&launch->work);
    for (size_t i = 0; i < launch->n_marks; i++)
        hetccl_comm_job_end(launch->marks[i].comm, launch->marks[i].result);
    hetccl_free(launch->marks);
    hetccl_free(launch);
}

static void *run_launch(void *arg)
{
    struct launch *launch = arg;

    finish(launch, hetccl_work_run(&launch->work, false));
    return NULL;
}

static enum hetccl_status prepare(struct hetccl_work *work, struct launch **out)
{
    struct launch *launch;
    size_t max_marks;
    enum hetccl_status status;

    if (!hetccl_add_size(work->n_items, 2 * work->n_jobs, &max_marks))
        return HETCCL_ERR_INTERNAL;
    status = hetccl_alloc(1, sizeof(*launch), &launch);
    if (status != HETCCL_OK)
        return status;
    status = hetccl_alloc(max_marks, sizeof(*launch->marks), &launch->marks);
    if (status != HETCCL_OK) {
        hetccl_free(launch);
        return status;
    }
    launch->work = *work;
    *work = (struct hetccl_work){.items = NULL};
    note_all(launch);
    *out = launch;
    return HETCCL_OK;
}

enum hetccl_status hetccl_work_launch(struct hetccl_work *work)
{
    struct launch *launch;
    pthread_t thread;
    enum hetccl_status status = prepare(work, &launch);

    if (status != HETCCL_OK) {
        hetccl_work_undo(work);
        hetccl_work_fini(work);
        return status;
    }
    for (size_t i = 0; i < launch->n_marks; i++)
        hetccl_comm_job_begin(launch->marks[i].comm);
    status = hetccl_thread_start("hetccl-job", run_launch, launch, &thread);
    if (status != HETCCL_OK) {
        for (size_t i = 0; i < launch->n_marks; i++)
            launch->marks[i].result = status;
        finish(launch, status);
        return status;
    }
    /* Nobody waits for it: who wants to know polls the communicator, and abort waits until it has left that.
     */
    pthread_detach(thread);
    return HETCCL_AGAIN;
}
