/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/ccl/calls.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "base/time.h"

enum { LOOK_MS = 5, POLL_NS = 200000 };

/* ---- configurations ---- */

/* Where ncclConfig_t keeps its strings, and since which version of its header. */
enum { NET_NAME_OFFSET = 32, NET_NAME_SINCE = 21700, COMM_NAME_OFFSET = 48, COMM_NAME_SINCE = 22700 };

static bool has_text(const struct hetccl_ccl_config *config, size_t offset, unsigned since)
{
    unsigned version;

    memcpy(&version, config->data + 12, sizeof(version));
    return config->bytes >= offset + sizeof(char *) && version >= since;
}

static void copy_text(const struct hetccl_ccl_config *config, size_t offset, unsigned since, char *out,
                      size_t out_bytes)
{
    const char *text = NULL;

    if (has_text(config, offset, since))
        memcpy(&text, config->data + offset, sizeof(text));
    if (text != NULL)
        (void)snprintf(out, out_bytes, "%s", text);
}

void hetccl_ccl_config_copy(const void *config, struct hetccl_ccl_config *out)
{
    size_t size;

    memset(out, 0, sizeof(*out));
    if (config == NULL)
        return;
    memcpy(&size, config, sizeof(size));
    out->bytes = hetccl_min_size(size, sizeof(out->data));
    memcpy(out->data, config, out->bytes);
    memcpy(out->data, &out->bytes, sizeof(out->bytes));
    copy_text(out, NET_NAME_OFFSET, NET_NAME_SINCE, out->net_name, sizeof(out->net_name));
    copy_text(out, COMM_NAME_OFFSET, COMM_NAME_SINCE, out->comm_name, sizeof(out->comm_name));
}

static void point_to(struct hetccl_ccl_config *config, size_t offset, unsigned since, const char *text)
{
    const char *pointer = text[0] != '\0' ? text : NULL;

    if (has_text(config, offset, since))
        memcpy(config->data + offset, &pointer, sizeof(pointer));
}

/* What the library is given: the copy, with its strings beside it. */
static void *revive(struct hetccl_ccl_config *config)
{
    if (config->bytes == 0)
        return NULL;
    point_to(config, NET_NAME_OFFSET, NET_NAME_SINCE, config->net_name);
    point_to(config, COMM_NAME_OFFSET, COMM_NAME_SINCE, config->comm_name);
    return config->data;
}

/* ---- calls in threads ---- */

/* Belongs to the caller and the thread; whoever is last frees it. */
struct call {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned n_owners;
    bool is_bound;     /* the device isn't needed any more */
    bool is_done;      /* the outcome stands */
    bool is_abandoned; /* the caller has left */

    const struct hetccl_ccl_api *api;
    struct hetccl_device *device;
    enum { CALL_INIT, CALL_ABORT, CALL_DESTROY } kind;
    int n_ranks, rank;
    struct hetccl_ccl_id id;
    struct hetccl_ccl_config config;
    struct ncclComm *comm;

    unsigned code;
    enum hetccl_status status;
    char text[HETCCL_ERROR_TEXT_BYTES];
};

static enum hetccl_status create(const struct hetccl_ccl_api *api, struct call **out)
{
    pthread_condattr_t attributes;
    struct call *call;
    enum hetccl_status status = hetccl_alloc(1, sizeof(*call), &call);

    if (status != HETCCL_OK)
        return status;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&call->lock, NULL);
    pthread_cond_init(&call->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    call->api = api;
    call->n_owners = 1;
    *out = call;
    return HETCCL_OK;
}

static void release(struct call *call)
{
    bool is_last;

    pthread_mutex_lock(&call->lock);
    is_last = --call->n_owners == 0;
    pthread_mutex_unlock(&call->lock);
    if (!is_last)
        return;
    pthread_cond_destroy(&call->changed);
    pthread_mutex_destroy(&call->lock);
    hetccl_free(call);
}

static void tell(struct call *call, bool *flag)
{
    pthread_mutex_lock(&call->lock);
    *flag = true;
    pthread_cond_broadcast(&call->changed);
    pthread_mutex_unlock(&call->lock);
}

static bool is_abandoned(struct call *call)
{
    bool is;

    pthread_mutex_lock(&call->lock);
    is = call->is_abandoned;
    pthread_mutex_unlock(&call->lock);
    return is;
}

static unsigned init(struct call *call)
{
    unsigned code = call->api->ncclCommInitRankConfig(&call->comm, call->n_ranks, call->id, call->rank,
                                                      revive(&call->config));

    while (code == HETCCL_CCL_IN_PROGRESS && call->comm != NULL && !is_abandoned(call)) {
        unsigned asked;

        hetccl_sleep_ns(POLL_NS);
        asked = call->api->ncclCommGetAsyncError(call->comm, &code);
        if (asked != HETCCL_CCL_SUCCESS)
            code = asked;
    }
    return code;
}

/* Nobody waits any more: what was made has no owner. */
static void finish(struct call *call)
{
    bool is_orphan;

    pthread_mutex_lock(&call->lock);
    is_orphan = call->is_abandoned && call->kind == CALL_INIT && call->comm != NULL &&
                call->code == HETCCL_CCL_SUCCESS;
    call->is_done = true;
    pthread_cond_broadcast(&call->changed);
    pthread_mutex_unlock(&call->lock);
    if (is_orphan)
        (void)call->api->ncclCommAbort(call->comm);
    release(call);
}

static unsigned end(const struct hetccl_ccl_api *api, struct ncclComm *comm, bool is_abort)
{
    return is_abort ? api->ncclCommAbort(comm) : api->ncclCommDestroy(comm);
}

static void *run(void *arg)
{
    struct call *call = arg;

    if (call->device != NULL)
        call->status = call->device->ops->bind_thread(call->device);
    tell(call, &call->is_bound);
    if (call->status == HETCCL_OK && call->kind == CALL_INIT) {
        call->code = init(call);
        call->status = hetccl_ccl_check(call->api, call->code, "ncclCommInitRankConfig");
    } else if (call->status == HETCCL_OK) {
        call->code = end(call->api, call->comm, call->kind == CALL_ABORT);
    }
    if (hetccl_is_error(call->status))
        (void)snprintf(call->text, sizeof(call->text), "%s", hetccl_last_error_thread());
    finish(call);
    return NULL;
}

static enum hetccl_status start(struct call *call)
{
    pthread_t thread;
    enum hetccl_status status;

    call->n_owners = 2;
    status = hetccl_thread_start("hetccl-ccl", run, call, &thread);
    if (status == HETCCL_OK)
        pthread_detach(thread);
    else
        call->n_owners = 1;
    return status;
}

/* With the lock held, for a little while. */
static void wait_a_little(struct call *call)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)LOOK_MS * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    (void)pthread_cond_timedwait(&call->changed, &call->lock, &until);
}

/*
 * False when the deadline passed, or must_stop said so, before the call was done. A device is in use until it
 * is bound, and no longer.
 */
static bool wait_for(struct call *call, uint64_t deadline_ns, const struct hetccl_ccl_init_args *args)
{
    bool is_leaving = false, is_done;

    pthread_mutex_lock(&call->lock);
    while (!call->is_done && !(is_leaving && call->is_bound)) {
        wait_a_little(call);
        is_leaving = hetccl_now_ns() > deadline_ns || (args != NULL && args->must_stop(args->context));
    }
    is_done = call->is_done;
    call->is_abandoned = !is_done;
    pthread_mutex_unlock(&call->lock);
    return is_done;
}

static enum hetccl_status outcome(const struct call *call, struct ncclComm **out)
{
    if (hetccl_is_error(call->status))
        return hetccl_fail_quietly(call->status, "%s", call->text);
    *out = call->comm;
    return HETCCL_OK;
}

static enum hetccl_status give_up(const struct hetccl_ccl_init_args *args)
{
    if (args->must_stop(args->context))
        return hetccl_fail_quietly(HETCCL_ERR_ABORTED, "rank %d: aborted while %s was setting up", args->rank,
                                   args->api->name);
    return hetccl_fail(HETCCL_ERR_TIMEOUT,
                       "rank %d of %d: ncclCommInitRankConfig of %s (%s) is not done after "
                       "HETCCL_INIT_TIMEOUT_S=%llu s; NCCL_DEBUG=INFO shows what it waits for",
                       args->rank, args->n_ranks, args->api->name, args->api->path,
                       (unsigned long long)args->timeout_s);
}

enum hetccl_status hetccl_ccl_init(const struct hetccl_ccl_init_args *args, struct ncclComm **out)
{
    struct call *call;
    enum hetccl_status status = create(args->api, &call);

    if (status != HETCCL_OK)
        return status;
    call->device = args->device;
    call->n_ranks = args->n_ranks;
    call->rank = args->rank;
    call->id = args->id;
    call->config = *args->config;
    status = start(call);
    if (status == HETCCL_OK)
        status = wait_for(call, hetccl_now_ns() + args->timeout_s * (uint64_t)HETCCL_NS_PER_S, args)
                     ? outcome(call, out)
                     : give_up(args);
    release(call);
    return status;
}

unsigned hetccl_ccl_end(const struct hetccl_ccl_api *api, struct ncclComm *comm, bool is_abort,
                        unsigned timeout_ms)
{
    struct call *call;
    unsigned code = HETCCL_CCL_SUCCESS;

    if (create(api, &call) != HETCCL_OK)
        return end(api, comm, is_abort);
    call->comm = comm;
    call->kind = is_abort ? CALL_ABORT : CALL_DESTROY;
    if (start(call) != HETCCL_OK)
        code = end(api, comm, is_abort);
    else if (wait_for(call, hetccl_now_ns() + timeout_ms * (uint64_t)HETCCL_NS_PER_MS, NULL))
        code = call->code;
    else
        hetccl_log(HETCCL_LOG_WARN, "engine", "%s %s is still busy after %u ms: left to itself", api->name,
                   is_abort ? "ncclCommAbort" : "ncclCommDestroy", timeout_ms);
    release(call);
    return code;
}
