/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/time.h"
#include "comm/internal.h"

enum { ABORT_WAIT_MS = 1500, DESTROY_BARRIER_S = 2 };

/* ---- forked children ---- */

static atomic_uint fork_generation;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void count_fork(void)
{
    atomic_fetch_add(&fork_generation, 1);
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, count_fork);
}

unsigned hetccl_fork_generation(void)
{
    pthread_once(&fork_once, watch_forks);
    return atomic_load_explicit(&fork_generation, memory_order_relaxed);
}

/* ---- the handle ---- */

enum hetccl_status hetccl_comm_default_options(struct hetccl_comm_options *out)
{
    struct hetccl_config config;
    enum hetccl_status status = hetccl_config_parse(&config);

    if (status != HETCCL_OK)
        return status;
    *out = (struct hetccl_comm_options){.is_blocking = config.blocking, .device = HETCCL_DEVICE_OF_THREAD};
    return HETCCL_OK;
}

/*
 * The memory of handles is kept for new ones and never given back: two threads may abort one communicator at
 * the same moment, and the later one must still be able to see that it is gone.
 */
static struct hetccl_comm *retired;
static pthread_mutex_t retired_lock = PTHREAD_MUTEX_INITIALIZER;

static enum hetccl_status take_memory(struct hetccl_comm **out)
{
    struct hetccl_comm *comm;

    pthread_mutex_lock(&retired_lock);
    comm = retired;
    if (comm != NULL)
        retired = comm->session.next;
    pthread_mutex_unlock(&retired_lock);
    if (comm == NULL)
        return hetccl_alloc_aligned(1, sizeof(*comm), out);
    memset((char *)comm + sizeof(comm->head.magic), 0, sizeof(*comm) - sizeof(comm->head.magic));
    *out = comm;
    return HETCCL_OK;
}

static void retire_memory(struct hetccl_comm *comm)
{
    pthread_mutex_lock(&retired_lock);
    comm->session.next = retired;
    retired = comm;
    pthread_mutex_unlock(&retired_lock);
}

enum hetccl_status hetccl_comm_alloc(const struct hetccl_comm_options *options, struct hetccl_comm **out)
{
    struct hetccl_comm *comm = NULL;
    enum hetccl_status status = take_memory(&comm);

    if (status != HETCCL_OK)
        return status;
    status = hetccl_config_parse(&comm->config);
    if (status == HETCCL_OK)
        status = hetccl_alloc_aligned(1, sizeof(*comm->private_doorbell), &comm->private_doorbell);
    if (status != HETCCL_OK) {
        retire_memory(comm);
        return status;
    }
    comm->own_doorbell = comm->private_doorbell;
    comm->options = *options;
    comm->fork_generation = hetccl_fork_generation();
    comm->last_plan = "";
    comm->host_segment.fd = -1;
    pthread_mutex_init(&comm->lock, NULL);
    pthread_mutex_init(&comm->calls_lock, NULL);
    atomic_store(&comm->state, (int)HETCCL_AGAIN);
    /* Only this thread knows which GPU is its own; a failure is kept for init, which tells the other ranks.
     */
    comm->device_status = hetccl_device_open(&comm->config, options->device, &comm->device);
    if (comm->device_status != HETCCL_OK)
        (void)snprintf(comm->failure_text, sizeof(comm->failure_text), "%s", hetccl_last_error_thread());
    comm->head.magic = HETCCL_COMM_MAGIC;
    *out = comm;
    return HETCCL_OK;
}

bool hetccl_comm_is_valid(const struct hetccl_comm *comm)
{
    uint64_t magic;

    if (comm == NULL || ((uintptr_t)comm & (HETCCL_CACHE_LINE - 1)) != 0)
        return false;
    magic = atomic_load_explicit(&comm->head.magic, memory_order_acquire);
    return magic == HETCCL_COMM_MAGIC || magic == HETCCL_COMM_NATIVE || magic == HETCCL_COMM_PENDING;
}

static void free_scratch(struct hetccl_comm *comm, const struct hetccl_scratch *scratch)
{
    if (scratch->blob == NULL)
        comm->device->ops->mem_free(comm->device, scratch->memory, HETCCL_MEMORY_DEVICE);
}

/* A launch that can't be ended keeps what it works on. */
static void release_device(struct hetccl_comm *comm)
{
    if (comm->device == NULL || !hetccl_bridge_destroy(comm->bridge))
        return;
    comm->bridge = NULL;
    hetccl_comm_close_rings(comm);
    free_scratch(comm, &comm->scratch);
    free_scratch(comm, &comm->wide_send);
    free_scratch(comm, &comm->wide_recv);
    comm->device->ops->close(comm->device);
}

static void release(struct hetccl_comm *comm)
{
    hetccl_comm_watch_stop(comm);
    hetccl_comm_progress_stop(comm);
    /* Set only when it failed, or was aborted, between joining the vendor's and becoming native. */
    if (comm->head.vendor != NULL)
        (void)hetccl_ccl_end(comm->head.api, comm->head.vendor, true, ABORT_WAIT_MS);
    hetccl_comm_drop_plans(comm);
    hetccl_comm_close_links(comm);
    if (comm->engine != NULL) {
        comm->engine->must_abort = hetccl_is_error((enum hetccl_status)atomic_load(&comm->state));
        comm->engine->ops->destroy(comm->engine);
    }
    hetccl_mesh_destroy(comm->mesh);
    hetccl_comm_drop_child(comm);
    release_device(comm);
    hetccl_segment_fini(&comm->host_segment);
    if (comm->has_topo)
        hetccl_topo_fini(&comm->topo);
    hetccl_free(comm->links);
    hetccl_free(comm->host_index_of);
    hetccl_free(comm->peers);
    hetccl_free(comm->private_doorbell);
    pthread_mutex_destroy(&comm->lock);
    pthread_mutex_destroy(&comm->calls_lock);
    comm->head.magic = 0;
    retire_memory(comm);
}

/* ---- state and failure ---- */

/* What runs on the device would wait for ever for those that are gone. */
static void stop_launches(struct hetccl_comm *comm)
{
    struct hetccl_bridge *bridge = comm->bridge;

    if (bridge != NULL)
        hetccl_bridge_stop(bridge);
}

void hetccl_comm_ring(struct hetccl_comm *comm)
{
    if (hetccl_is_error((enum hetccl_status)atomic_load(&comm->state)) || atomic_load(&comm->is_interrupted))
        stop_launches(comm);
    hetccl_comm_wake_progress(comm);
    hetccl_doorbell_ring(comm->private_doorbell);
    if (comm->own_doorbell != comm->private_doorbell)
        hetccl_doorbell_ring(comm->own_doorbell);
}

/* Keeps the first failure. True when this was it. */
static bool keep_failure(struct hetccl_comm *comm, enum hetccl_status status, const char *text)
{
    bool is_first;

    pthread_mutex_lock(&comm->lock);
    is_first = !hetccl_is_error((enum hetccl_status)atomic_load(&comm->state));
    if (is_first) {
        (void)snprintf(comm->failure_text, sizeof(comm->failure_text), "%s", text);
        atomic_store(&comm->state, (int)status);
    }
    pthread_mutex_unlock(&comm->lock);
    return is_first;
}

static enum hetccl_status sticky_failure(struct hetccl_comm *comm)
{
    enum hetccl_status status;

    pthread_mutex_lock(&comm->lock);
    status = (enum hetccl_status)atomic_load(&comm->state);
    if (hetccl_is_error(status))
        status = hetccl_fail_quietly(status, "%s", comm->failure_text);
    pthread_mutex_unlock(&comm->lock);
    return status;
}

enum hetccl_status hetccl_comm_fail(struct hetccl_comm *comm, enum hetccl_status status, const char *text)
{
    /* An abort of ours is no news to the peers here: hetccl_comm_abort() tells them. */
    if (keep_failure(comm, status, text) && comm->mesh != NULL && status != HETCCL_ERR_ABORTED)
        hetccl_mesh_report_failure(comm->mesh, status, comm->rank, text);
    hetccl_comm_ring(comm);
    return sticky_failure(comm);
}

static void on_failed(void *context, enum hetccl_status status, uint32_t culprit_rank, const char *text)
{
    struct hetccl_comm *comm = context;

    (void)culprit_rank;
    /* From then on the vendor's library says what has failed. */
    if (atomic_load(&comm->head.magic) == HETCCL_COMM_NATIVE) {
        hetccl_log(HETCCL_LOG_INFO, "comm", "rank %u: native communicator: %s", comm->rank, text);
        return;
    }
    if (keep_failure(comm, status, text))
        hetccl_log(HETCCL_LOG_WARN, "comm", "rank %u: communicator failed: %s", comm->rank, text);
    hetccl_comm_ring(comm);
}

static void on_arrived(void *context)
{
    hetccl_comm_ring(context);
}

struct hetccl_mesh_events hetccl_comm_events(struct hetccl_comm *comm)
{
    return (struct hetccl_mesh_events){.context = comm, .failed = on_failed, .arrived = on_arrived};
}

enum hetccl_status hetccl_comm_check_usable(struct hetccl_comm *comm)
{
    enum hetccl_status status = (enum hetccl_status)atomic_load_explicit(&comm->state, memory_order_acquire);

    if (hetccl_is_error(status))
        return sticky_failure(comm);
    if (comm->fork_generation != hetccl_fork_generation())
        return hetccl_fail(
            HETCCL_ERR_USAGE,
            "rank %u: the communicator belongs to the parent of this forked process; create one here",
            comm->rank);
    /* A native one gets here when it became so while a call, made too early, was being checked. */
    if (status == HETCCL_AGAIN || atomic_load(&comm->head.magic) != HETCCL_COMM_MAGIC)
        return hetccl_fail(HETCCL_ERR_ARG,
                           "rank %u: the communicator is still being set up; poll ncclCommGetAsyncError",
                           comm->rank);
    if (atomic_load_explicit(&comm->is_revoked, memory_order_relaxed))
        return hetccl_fail(HETCCL_ERR_USAGE,
                           "rank %u: the communicator was revoked; split, shrink or destroy it", comm->rank);
    return HETCCL_OK;
}

enum hetccl_status hetccl_comm_async_state(struct hetccl_comm *comm)
{
    enum hetccl_status status = (enum hetccl_status)atomic_load_explicit(&comm->state, memory_order_acquire);

    if (atomic_load(&comm->head.magic) != HETCCL_COMM_MAGIC)
        return hetccl_comm_vendor_state(comm);
    if (hetccl_is_error(status))
        return sticky_failure(comm);
    return atomic_load(&comm->n_jobs) > 0 ? HETCCL_AGAIN : status;
}

void hetccl_comm_job_begin(struct hetccl_comm *comm)
{
    atomic_fetch_add(&comm->n_jobs, 1);
}

void hetccl_comm_job_end(struct hetccl_comm *comm, enum hetccl_status result)
{
    if (hetccl_is_error(result))
        (void)keep_failure(comm, result, hetccl_last_error_thread());
    atomic_fetch_sub(&comm->n_jobs, 1);
}

/* ---- init ---- */

static enum hetccl_status check_init(const struct hetccl_comm *comm, size_t n_ids, int n_ranks, int rank)
{
    if ((enum hetccl_status)atomic_load(&comm->state) != HETCCL_AGAIN)
        return hetccl_fail(HETCCL_ERR_ARG, "the communicator was set up before");
    if (n_ranks < 1 || rank < 0 || rank >= n_ranks)
        return hetccl_fail(HETCCL_ERR_ARG, "rank %d of %d: a rank is 0 to n_ranks-1", rank, n_ranks);
    if (n_ids < 1 || n_ids > (size_t)n_ranks)
        return hetccl_fail(HETCCL_ERR_ARG, "%zu unique ids for %d ranks: give 1 to %d", n_ids, n_ranks,
                           n_ranks);
    return HETCCL_OK;
}

enum hetccl_status hetccl_comm_init(struct hetccl_comm *comm, const uint8_t (*ids)[HETCCL_UNIQUE_ID_BYTES],
                                    size_t n_ids, int n_ranks, int rank)
{
    enum hetccl_status status = check_init(comm, n_ids, n_ranks, rank);
    struct hetccl_mesh *mesh = NULL;
    struct hetccl_mesh_args args;

    atomic_fetch_add(&comm->n_inside, 1);
    if (status == HETCCL_OK) {
        comm->n_ranks = (uint32_t)n_ranks;
        comm->rank = (uint32_t)rank;
        args = (struct hetccl_mesh_args){.config = &comm->config,
                                         .ids = ids,
                                         .n_ids = n_ids,
                                         .n_ranks = comm->n_ranks,
                                         .rank = comm->rank,
                                         .is_cancelled = &comm->is_cancelled,
                                         .events = hetccl_comm_events(comm)};
        status = hetccl_mesh_create(&args, &mesh);
        comm->mesh = mesh;
    }
    if (status == HETCCL_OK)
        status = hetccl_comm_join(comm);
    if (status != HETCCL_OK)
        status = hetccl_comm_fail(comm, status, hetccl_last_error_thread());
    atomic_fetch_sub(&comm->n_inside, 1);
    return status;
}

/* ---- the end ---- */

enum hetccl_status hetccl_comm_finalize(struct hetccl_comm *comm)
{
    enum hetccl_status status = hetccl_comm_check_usable(comm);

    if (status != HETCCL_OK)
        return status;
    if (comm->is_finalized)
        return hetccl_fail(HETCCL_ERR_ARG, "rank %u: the communicator was finalized before", comm->rank);
    comm->is_finalized = true;
    hetccl_comm_drain(comm);
    return hetccl_comm_barrier(comm, 0);
}

/* Ranks of one process may be destroyed by one thread, one after the other: there waiting would be for
 * nothing. */
static bool shares_process(const struct hetccl_comm *comm)
{
    for (uint32_t rank = 0; rank < comm->n_ranks; rank++)
        if (rank != comm->rank && hetccl_mesh_is_same_process(comm->mesh, rank))
            return true;
    return false;
}

/*
 * Others may still be on their way to their last calls. Leaving at once would be right too, but then a rank
 * that makes one call too many could not be told from one whose peer died; hence the short wait.
 */
static void say_good_bye(struct hetccl_comm *comm)
{
    if (comm->is_finalized || comm->mesh == NULL || atomic_load(&comm->is_cancelled) ||
        atomic_load(&comm->is_revoked))
        return;
    if ((enum hetccl_status)atomic_load(&comm->state) == HETCCL_OK && !shares_process(comm) &&
        hetccl_comm_barrier(comm, DESTROY_BARRIER_S) != HETCCL_OK)
        hetccl_log(HETCCL_LOG_INFO, "comm", "rank %u leaves while others don't: %s", comm->rank,
                   hetccl_last_error_thread());
}

static bool is_empty_within(const struct hetccl_comm *comm, unsigned wait_ms)
{
    for (unsigned i = 0; i < wait_ms; i++) {
        if (atomic_load(&comm->n_inside) == 0 && atomic_load(&comm->n_jobs) == 0)
            return true;
        hetccl_sleep_ns(HETCCL_NS_PER_MS);
    }
    return false;
}

void hetccl_comm_destroy(struct hetccl_comm *comm)
{
    if (comm == NULL)
        return;
    /* A child of fork shares sockets and memory with its parent: it leaves all of them alone. */
    if (comm->fork_generation != hetccl_fork_generation())
        return;
    if (hetccl_comm_end_native(comm, false, NULL))
        return;
    hetccl_comm_drain(comm);
    say_good_bye(comm);
    /* A thread that can't be got out keeps its memory: a leak is better than a crash. */
    if (is_empty_within(comm, ABORT_WAIT_MS))
        release(comm);
}

void hetccl_comm_leave(struct hetccl_comm *comm)
{
    if (is_empty_within(comm, ABORT_WAIT_MS))
        release(comm);
}

void hetccl_comm_abort(struct hetccl_comm *comm)
{
    char text[HETCCL_ERROR_TEXT_BYTES] = "the communicator was aborted before its ranks had come";
    struct hetccl_mesh *mesh;

    if (comm == NULL || comm->fork_generation != hetccl_fork_generation())
        return;
    if (hetccl_comm_end_native(comm, true, NULL))
        return;
    /* Another thread may still be setting everything up; only the mesh is there for both to see. */
    mesh = comm->mesh;
    if (mesh != NULL)
        (void)snprintf(text, sizeof(text), "rank %u aborted the communicator", hetccl_mesh_rank(mesh));
    atomic_store(&comm->is_cancelled, true);
    atomic_store(&comm->is_interrupted, true);
    if (keep_failure(comm, HETCCL_ERR_ABORTED, text) && mesh != NULL)
        hetccl_mesh_report_failure(mesh, HETCCL_ERR_REMOTE, hetccl_mesh_rank(mesh), text);
    hetccl_comm_ring(comm);
    /* A thread that can't be got out keeps its memory: a leak is better than a crash in a process that is
     * ending. */
    if (is_empty_within(comm, ABORT_WAIT_MS))
        release(comm);
}

enum hetccl_status hetccl_comm_revoke(struct hetccl_comm *comm)
{
    enum hetccl_status status = (enum hetccl_status)atomic_load(&comm->state);

    if (status == HETCCL_AGAIN)
        return hetccl_fail(HETCCL_ERR_ARG, "rank %u: the communicator is still being set up", comm->rank);
    atomic_store(&comm->is_revoked, true);
    atomic_store(&comm->is_interrupted, true);
    hetccl_comm_ring(comm);
    if (!is_empty_within(comm, ABORT_WAIT_MS))
        return hetccl_fail(HETCCL_ERR_SYSTEM, "rank %u: a running call did not end after revoke", comm->rank);
    return HETCCL_OK;
}
