/* SPDX-License-Identifier: Apache-2.0 */
#include "api/group.h"

#include <stdio.h>
#include <string.h>

#include "api/native.h"
#include "base/memory.h"

enum mode { MODE_UNKNOWN = 0, MODE_BLOCKING, MODE_NON_BLOCKING };

/* A handle that the vendor's library is to fill when its group ends. */
struct child {
    struct child *next;
    struct hetccl_comm *comm;
    ncclComm_t *handle_out;
};

struct group {
    unsigned depth;
    enum hetccl_status error; /* the first one of the group's calls */
    enum mode mode;           /* set by the first communicator */
    struct hetccl_work work;
    /* Aborts and destructions: kept apart, because they run in this thread, whatever becomes of the rest. */
    struct hetccl_work endings;
    const struct hetccl_ccl_api *native; /* the vendor's group is open */
    struct child *children;
    char error_text[HETCCL_ERROR_TEXT_BYTES];
};

static _Thread_local struct group group;

static void remember(enum hetccl_status status)
{
    if (group.depth == 0 || !hetccl_is_error(status) || group.error != HETCCL_OK)
        return;
    group.error = status;
    (void)snprintf(group.error_text, sizeof(group.error_text), "%s", hetccl_last_error_thread());
}

/* The level is closed already. */
static void remember_native(enum hetccl_status status)
{
    group.error = status;
    (void)snprintf(group.error_text, sizeof(group.error_text), "%s", hetccl_last_error_thread());
}

ncclResult_t hetccl_group_result(enum hetccl_status status)
{
    remember(status);
    return hetccl_result_of(status);
}

void hetccl_group_enter(void)
{
    group.depth++;
}

bool hetccl_group_is_open(void)
{
    return group.depth > 0;
}

/* ---- the vendor's group ---- */

static void start_native(const struct hetccl_ccl_api *api)
{
    unsigned code = api->ncclGroupStart();

    if (code == HETCCL_CCL_SUCCESS)
        group.native = api;
    else
        (void)hetccl_group_result(hetccl_ccl_check(api, code, "ncclGroupStart"));
}

void hetccl_group_open_native(const struct hetccl_ccl_api *api)
{
    if (group.depth > 0 && group.native == NULL)
        start_native(api);
}

/* Without memory a failure would leave the caller a handle that is never ready: no more than that. */
void hetccl_group_add_child(struct hetccl_comm *comm, ncclComm_t *handle_out)
{
    struct child *child;

    if (group.depth == 0 || hetccl_alloc(1, sizeof(*child), &child) != HETCCL_OK)
        return;
    *child = (struct child){.next = group.children, .comm = comm, .handle_out = handle_out};
    group.children = child;
}

static void drop_children(bool is_undoing)
{
    while (group.children != NULL) {
        struct child *child = group.children;

        group.children = child->next;
        if (is_undoing)
            hetccl_native_child_undo(child->comm, child->handle_out);
        hetccl_free(child);
    }
}

/*
 * The vendor's library has no way to drop a group. But it remembers an error of one of the calls and then
 * runs none of them, as we do: this call can't be right, and does nothing else.
 */
static void spoil_native(void)
{
    (void)group.native->ncclSend(NULL, 0, 0, -1, NULL, NULL);
}

/*
 * Closes the vendor's group; what it holds is on its streams before anything of ours. Every rank does it in
 * this order, so no rank waits in the vendor's set-up for one that waits in ours. The vendor's code, unless
 * one of our own checks has failed: then nothing of it may run.
 */
static unsigned end_native(void)
{
    const struct hetccl_ccl_api *api = group.native;
    unsigned code = HETCCL_CCL_SUCCESS;

    if (api == NULL)
        return HETCCL_CCL_SUCCESS;
    if (group.error != HETCCL_OK)
        spoil_native();
    code = api->ncclGroupEnd();
    group.native = NULL;
    drop_children(code != HETCCL_CCL_SUCCESS && code != HETCCL_CCL_IN_PROGRESS);
    if (group.error != HETCCL_OK)
        return HETCCL_CCL_SUCCESS;
    if (code != HETCCL_CCL_SUCCESS)
        (void)hetccl_native_failure(api, code, "ncclGroupEnd");
    if (code != HETCCL_CCL_SUCCESS && code != HETCCL_CCL_IN_PROGRESS)
        remember_native(hetccl_ccl_status(code));
    return code;
}

static enum hetccl_status agree_on_mode(bool is_blocking)
{
    enum mode mode = is_blocking ? MODE_BLOCKING : MODE_NON_BLOCKING;

    if (group.mode != MODE_UNKNOWN && group.mode != mode)
        return hetccl_fail(HETCCL_ERR_ARG, "blocking and non-blocking communicators can't share a group");
    group.mode = mode;
    return HETCCL_OK;
}

static bool has_creations(void)
{
    for (size_t i = 0; i < group.work.n_jobs; i++)
        if (hetccl_job_is_creation(&group.work.jobs[i]))
            return true;
    return false;
}

static enum hetccl_status queue_call(struct hetccl_comm *comm, const struct hetccl_call *call,
                                     const struct hetccl_bias *bias)
{
    enum hetccl_status status;

    if (has_creations())
        return hetccl_fail(HETCCL_ERR_USAGE,
                           "a group that makes communicators can't hold %s too; end the group first",
                           hetccl_coll_name(call->coll));
    status = agree_on_mode(hetccl_comm_is_blocking(comm));
    return status == HETCCL_OK ? hetccl_work_add_call(&group.work, comm, call, bias) : status;
}

static enum hetccl_status launch_call(struct hetccl_comm *comm, const struct hetccl_call *call,
                                      const struct hetccl_bias *bias)
{
    struct hetccl_work work = {.items = NULL};
    enum hetccl_status status = hetccl_work_add_call(&work, comm, call, bias);

    if (status == HETCCL_OK)
        return hetccl_work_launch(&work);
    hetccl_work_fini(&work);
    return status;
}

enum hetccl_status hetccl_group_submit_call(struct hetccl_comm *comm, const struct hetccl_call *call,
                                            const struct hetccl_bias *bias)
{
    const struct hetccl_comm_item item = {.comm = comm, .call = *call};
    enum hetccl_status status;

    if (group.depth > 0)
        return queue_call(comm, call, bias);
    if (!hetccl_comm_is_blocking(comm) && !hetccl_comm_are_connected(&item, 1))
        return launch_call(comm, call, bias);
    status = hetccl_comm_run(&item, 1);
    return status == HETCCL_OK ? hetccl_bias_apply(comm, call, bias) : status;
}

static bool is_ending(const struct hetccl_job *job)
{
    return job->kind == HETCCL_JOB_DESTROY || job->kind == HETCCL_JOB_ABORT;
}

/* The communicator that the caller has to poll decides, not the one to be. */
static bool is_blocking(const struct hetccl_job *job)
{
    return hetccl_comm_is_blocking(job->parent != NULL ? job->parent : job->comm);
}

static enum hetccl_status queue_job(const struct hetccl_job *job)
{
    enum hetccl_status status;

    if (is_ending(job))
        return hetccl_work_add_job(&group.endings, job);
    if (hetccl_job_is_creation(job) && group.work.n_items > 0)
        return hetccl_fail(
            HETCCL_ERR_USAGE,
            "a group that holds communication can't make communicators too; end the group first");
    status = agree_on_mode(is_blocking(job));
    return status == HETCCL_OK ? hetccl_work_add_job(&group.work, job) : status;
}

static enum hetccl_status run_job(struct hetccl_job *job)
{
    enum hetccl_status status = hetccl_job_run(job);

    if (hetccl_job_is_creation(job) && hetccl_is_error(status))
        hetccl_job_undo(job);
    hetccl_job_fini(job);
    return status;
}

enum hetccl_status hetccl_group_submit_job(struct hetccl_job *job)
{
    struct hetccl_work work = {.items = NULL};
    enum hetccl_status status;

    if (group.depth == 0 && (is_ending(job) || is_blocking(job)))
        return run_job(job);
    status = group.depth > 0 ? queue_job(job) : hetccl_work_add_job(&work, job);
    if (status == HETCCL_OK)
        return group.depth > 0 ? HETCCL_OK : hetccl_work_launch(&work);
    if (hetccl_job_is_creation(job))
        hetccl_job_undo(job);
    hetccl_job_fini(job);
    return status;
}

/* All of a kind at once; those for which there is no memory or thread, one after the other: an ending must
 * not fail. */
static void run_endings(enum hetccl_job_kind kind)
{
    struct hetccl_work *endings = &group.endings;
    struct hetccl_job **chosen = NULL;
    size_t n_chosen = 0;

    if (hetccl_alloc(endings->n_jobs, sizeof(struct hetccl_job *), &chosen) == HETCCL_OK) {
        for (size_t i = 0; i < endings->n_jobs; i++)
            if (endings->jobs[i].kind == kind)
                chosen[n_chosen++] = &endings->jobs[i];
        (void)!hetccl_job_run_all(chosen, n_chosen, false);
        hetccl_free(chosen);
    }
    for (size_t i = 0; i < endings->n_jobs; i++)
        if (endings->jobs[i].kind == kind && !endings->jobs[i].has_run)
            (void)hetccl_job_run(&endings->jobs[i]);
}

static enum hetccl_status run_group(void)
{
    if (group.error != HETCCL_OK) {
        hetccl_work_undo(&group.work);
        return hetccl_fail_quietly(group.error, "%s", group.error_text);
    }
    if (group.mode == MODE_NON_BLOCKING && group.work.n_items + group.work.n_jobs > 0 &&
        (group.work.n_jobs > 0 || !hetccl_comm_are_connected(group.work.items, group.work.n_items)))
        return hetccl_work_launch(&group.work);
    return hetccl_work_run(&group.work, true);
}

/* For the next group of this thread. */
static void reset(void)
{
    hetccl_work_fini(&group.work);
    hetccl_work_fini(&group.endings);
    group.error = HETCCL_OK;
    group.mode = MODE_UNKNOWN;
}

static enum hetccl_status check_open(const char *function)
{
    if (group.depth == 0)
        return hetccl_fail(HETCCL_ERR_USAGE, "%s: no group was started in this thread", function);
    return HETCCL_OK;
}

/* *code_out: the vendor's, when it decides. */
static enum hetccl_status leave(unsigned *code_out)
{
    enum hetccl_status status = check_open("ncclGroupEnd");

    if (status != HETCCL_OK || --group.depth > 0)
        return status;
    *code_out = end_native();
    for (size_t i = 0; i < group.endings.n_jobs; i++)
        if (group.endings.jobs[i].kind == HETCCL_JOB_ABORT)
            hetccl_work_drop_comm(&group.work, group.endings.jobs[i].comm);
    run_endings(HETCCL_JOB_ABORT);
    status = run_group();
    run_endings(HETCCL_JOB_DESTROY);
    reset();
    return status;
}

enum hetccl_status hetccl_group_leave(void)
{
    unsigned code = HETCCL_CCL_SUCCESS;
    enum hetccl_status status = leave(&code);

    return status == HETCCL_OK ? hetccl_ccl_status(code) : status;
}

/* Ends the vendor's group without running it. */
static void simulate_native(double *estimate_us_out)
{
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    const struct hetccl_ccl_api *api = group.native;
    unsigned code;

    group.native = NULL;
    if (api->ncclGroupSimulateEnd != NULL && group.error == HETCCL_OK) {
        code = api->ncclGroupSimulateEnd(&info);
        if (code != HETCCL_CCL_SUCCESS)
            (void)hetccl_native_failure(api, code, "ncclGroupSimulateEnd");
        if (code != HETCCL_CCL_SUCCESS)
            remember_native(hetccl_ccl_status(code));
    } else {
        group.native = api;
        spoil_native();
        group.native = NULL;
        (void)api->ncclGroupEnd();
        info.estimatedTime = 0;
    }
    drop_children(true);
    *estimate_us_out = info.estimatedTime > 0 ? (double)info.estimatedTime : 0;
}

enum hetccl_status hetccl_group_simulate(double *estimate_us_out)
{
    enum hetccl_status status = check_open("ncclGroupSimulateEnd");
    double native_us = 0;

    if (status != HETCCL_OK || --group.depth > 0)
        return status;
    if (group.native != NULL)
        simulate_native(&native_us);
    if (group.error != HETCCL_OK)
        status = hetccl_fail_quietly(group.error, "%s", group.error_text);
    else
        *estimate_us_out = native_us + hetccl_work_estimate_us(&group.work);
    hetccl_work_undo(&group.work);
    reset();
    return status;
}

ncclResult_t pncclGroupStart(void)
{
    hetccl_group_enter();
    return ncclSuccess;
}

ncclResult_t pncclGroupEnd(void)
{
    unsigned code = HETCCL_CCL_SUCCESS;
    enum hetccl_status status = leave(&code);

    /* A failure of the vendor's is the group's, and goes back as it came. */
    return code != HETCCL_CCL_SUCCESS && (status == HETCCL_OK || status == hetccl_ccl_status(code))
               ? (ncclResult_t)code
               : hetccl_result_of(status);
}

static enum hetccl_status check_sim_info(const ncclSimInfo_t *info)
{
    const ncclSimInfo_t good = NCCL_SIM_INFO_INITIALIZER;

    if (info == NULL)
        return hetccl_fail(HETCCL_ERR_ARG, "ncclGroupSimulateEnd: argument 'simInfo' is NULL");
    if (info->size < sizeof(*info) || info->magic != good.magic)
        return hetccl_fail(HETCCL_ERR_ARG,
                           "ncclGroupSimulateEnd: initialise ncclSimInfo_t with NCCL_SIM_INFO_INITIALIZER");
    return HETCCL_OK;
}

ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t *simInfo)
{
    double estimate_us = (double)NCCL_UNDEF_FLOAT;
    enum hetccl_status checked = check_sim_info(simInfo);
    enum hetccl_status status = hetccl_group_simulate(&estimate_us);

    if (checked == HETCCL_OK && status == HETCCL_OK)
        simInfo->estimatedTime = (float)estimate_us;
    return hetccl_result_of(checked != HETCCL_OK ? checked : status);
}

extern __typeof__(pncclGroupStart) ncclGroupStart HETCCL_ALIAS("pncclGroupStart");
extern __typeof__(pncclGroupEnd) ncclGroupEnd HETCCL_ALIAS("pncclGroupEnd");
extern __typeof__(pncclGroupSimulateEnd) ncclGroupSimulateEnd HETCCL_ALIAS("pncclGroupSimulateEnd");
