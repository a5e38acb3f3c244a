/* SPDX-License-Identifier: Apache-2.0 */
#include "api/work.h"

#include <string.h>

#include "base/memory.h"

/* Room for one more entry; the array's address is passed as hetccl_resize() wants it. */
static enum hetccl_status reserve(void *array, size_t n_used, size_t *cap, size_t item_bytes)
{
    size_t wanted = *cap == 0 ? 16 : *cap * 2;
    enum hetccl_status status;

    if (n_used < *cap)
        return HETCCL_OK;
    status = hetccl_resize(array, wanted, item_bytes);
    if (status == HETCCL_OK)
        *cap = wanted;
    return status;
}

static enum hetccl_status copy_arrays(struct hetccl_work *work, size_t n_ranks, struct hetccl_call *call)
{
    const size_t *sources[4] = {call->send_counts, call->send_offsets, call->recv_counts, call->recv_offsets};
    size_t *copy;
    enum hetccl_status status =
        reserve(&work->copies, work->n_copies, &work->cap_copies, sizeof(*work->copies));

    if (status == HETCCL_OK)
        status = hetccl_alloc(n_ranks, sizeof(sources), &copy);
    if (status != HETCCL_OK)
        return status;
    work->copies[work->n_copies++] = copy;
    for (size_t i = 0; i < 4; i++)
        memcpy(copy + i * n_ranks, sources[i], n_ranks * sizeof(*copy));
    call->send_counts = copy;
    call->send_offsets = copy + n_ranks;
    call->recv_counts = copy + 2 * n_ranks;
    call->recv_offsets = copy + 3 * n_ranks;
    return HETCCL_OK;
}

enum hetccl_status hetccl_work_add_call(struct hetccl_work *work, struct hetccl_comm *comm,
                                        const struct hetccl_call *call, const struct hetccl_bias *bias)
{
    struct hetccl_comm_item item = {.comm = comm, .call = *call};
    enum hetccl_status status = reserve(&work->items, work->n_items, &work->cap_items, sizeof(*work->items));

    if (status == HETCCL_OK)
        status = reserve(&work->biases, work->n_biases, &work->cap_biases, sizeof(*work->biases));
    if (status == HETCCL_OK && call->coll == HETCCL_ALLTOALLV)
        status = copy_arrays(work, (size_t)hetccl_comm_n_ranks(comm), &item.call);
    if (status != HETCCL_OK)
        return status;
    work->items[work->n_items++] = item;
    if (bias->acc != NULL)
        work->biases[work->n_biases++] = (struct hetccl_bias_step){comm, *call, *bias};
    return HETCCL_OK;
}

enum hetccl_status hetccl_work_add_job(struct hetccl_work *work, const struct hetccl_job *job)
{
    enum hetccl_status status = reserve(&work->jobs, work->n_jobs, &work->cap_jobs, sizeof(*work->jobs));

    if (status == HETCCL_OK)
        work->jobs[work->n_jobs++] = *job;
    return status;
}

enum hetccl_status hetccl_bias_apply(struct hetccl_comm *comm, const struct hetccl_call *call,
                                     const struct hetccl_bias *bias)
{
    return bias->acc != NULL ? hetccl_comm_apply_bias(comm, call, bias->acc, bias->red) : HETCCL_OK;
}

static enum hetccl_status run_calls(struct hetccl_work *work)
{
    if (work->n_items > 0)
        work->calls_status = hetccl_comm_run(work->items, work->n_items);
    for (size_t i = 0; work->calls_status == HETCCL_OK && i < work->n_biases; i++) {
        const struct hetccl_bias_step *step = &work->biases[i];

        work->calls_status = hetccl_bias_apply(step->comm, &step->call, &step->bias);
    }
    return work->calls_status;
}

static enum hetccl_status run_jobs(struct hetccl_work *work, bool are_creations, bool is_cancelling)
{
    struct hetccl_job **chosen;
    size_t n_chosen = 0;
    enum hetccl_status status;

    for (size_t i = 0; i < work->n_jobs; i++)
        n_chosen += hetccl_job_is_creation(&work->jobs[i]) == are_creations;
    if (n_chosen == 0)
        return HETCCL_OK;
    status = hetccl_alloc(n_chosen, sizeof(struct hetccl_job *), &chosen);
    if (status != HETCCL_OK) {
        if (is_cancelling)
            hetccl_work_undo(work);
        return status;
    }
    n_chosen = 0;
    for (size_t i = 0; i < work->n_jobs; i++)
        if (hetccl_job_is_creation(&work->jobs[i]) == are_creations)
            chosen[n_chosen++] = &work->jobs[i];
    status = hetccl_job_run_all(chosen, n_chosen, is_cancelling);
    for (size_t i = 0; i < n_chosen && is_cancelling; i++)
        if (hetccl_is_error(chosen[i]->status) || chosen[i]->is_cancelled)
            hetccl_job_undo(chosen[i]);
    hetccl_free(chosen);
    return status;
}

enum hetccl_status hetccl_work_run(struct hetccl_work *work, bool is_cancelling)
{
    enum hetccl_status status = run_jobs(work, true, is_cancelling);

    if (status == HETCCL_OK)
        status = run_calls(work);
    return status == HETCCL_OK ? run_jobs(work, false, false) : status;
}

void hetccl_work_undo(struct hetccl_work *work)
{
    for (size_t i = 0; i < work->n_jobs; i++)
        if (hetccl_job_is_creation(&work->jobs[i]))
            hetccl_job_undo(&work->jobs[i]);
}

void hetccl_work_drop_comm(struct hetccl_work *work, const struct hetccl_comm *comm)
{
    size_t n_kept = 0;

    for (size_t i = 0; i < work->n_items; i++)
        if (work->items[i].comm != comm)
            work->items[n_kept++] = work->items[i];
    work->n_items = n_kept;
    n_kept = 0;
    for (size_t i = 0; i < work->n_biases; i++)
        if (work->biases[i].comm != comm)
            work->biases[n_kept++] = work->biases[i];
    work->n_biases = n_kept;
    n_kept = 0;
    for (size_t i = 0; i < work->n_jobs; i++) {
        struct hetccl_job *job = &work->jobs[i];

        if (job->comm != comm && job->parent != comm) {
            work->jobs[n_kept++] = *job;
            continue;
        }
        if (hetccl_job_is_creation(job))
            hetccl_job_undo(job);
        hetccl_job_fini(job);
    }
    work->n_jobs = n_kept;
}

void hetccl_work_fini(struct hetccl_work *work)
{
    for (size_t i = 0; i < work->n_copies; i++)
        hetccl_free(work->copies[i]);
    for (size_t i = 0; i < work->n_jobs; i++)
        hetccl_job_fini(&work->jobs[i]);
    hetccl_free(work->copies);
    hetccl_free(work->items);
    hetccl_free(work->biases);
    hetccl_free(work->jobs);
    memset(work, 0, sizeof(*work));
}
