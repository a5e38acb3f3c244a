/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings to ranks without common memory are forwarded over links by one thread a communicator, made with the
 * first such ring. It asks nobody what to move: what appears in a ring goes, in graphs too.
 *
 * It spins for a while after something moved, then naps: a GPU rings no bells. Only where no launch can be
 * under way does it sleep for good; each call wakes it (hetccl_comm_wake_progress).
 */
#include <sched.h>
#include <sys/prctl.h>

#include "base/memory.h"
#include "base/thread.h"
#include "base/time.h"
#include "comm/internal.h"
#include "exec/forward.h"

enum {
    SHORTEST_NAP_NS = 5 * HETCCL_NS_PER_US,
    LONGEST_NAP_NS = 200 * HETCCL_NS_PER_US,
    SLEEP_NS = 50 * HETCCL_NS_PER_MS,
    TIMER_SLACK_NS = 1000,
    GRACE_NS = 1500 * HETCCL_NS_PER_MS, /* the watching thread looks after a second */
    STILL_S = 5,                        /* at the end: so long without any movement */
};

struct hetccl_progress_entry {
    struct hetccl_progress_entry *next;
    struct hetccl_forward *forward;
    enum hetccl_status failure;
};

struct loop {
    struct hetccl_comm *comm;
    uint64_t spin_ns, nap_ns;
    uint64_t still_since_ns; /* nothing has moved */
    uint64_t grace_until_ns; /* 0: no link has failed */
};

static struct hetccl_progress_entry *first_entry(const struct loop *loop)
{
    return atomic_load_explicit(&loop->comm->progress.first, memory_order_acquire);
}

/* ---- failures ---- */

/* A peer may leave when nothing is between it and this rank any more; then its link's end is no failure. */
static bool is_missed(const struct loop *loop, const struct hetccl_progress_entry *entry)
{
    return !hetccl_forward_is_delivered(entry->forward) ||
           hetccl_bridge_query(loop->comm->bridge) == HETCCL_AGAIN;
}

/*
 * As in session.c: that a link breaks is mostly the consequence of something that the mesh, or the watching
 * thread, is about to tell in better words.
 */
static void report(struct loop *loop, struct hetccl_progress_entry *entry)
{
    uint64_t now_ns = hetccl_now_ns();

    if (entry->failure == HETCCL_ERR_REMOTE) {
        if (loop->grace_until_ns == 0)
            loop->grace_until_ns = now_ns + GRACE_NS;
        if (now_ns < loop->grace_until_ns)
            return;
    }
    /* Says once more what it said first. */
    entry->failure = hetccl_forward_progress(entry->forward);
    (void)hetccl_comm_fail(loop->comm, entry->failure, hetccl_last_error_thread());
}

static bool move_all(struct loop *loop)
{
    bool has_moved = false;

    for (struct hetccl_progress_entry *entry = first_entry(loop); entry != NULL; entry = entry->next) {
        enum hetccl_status status = entry->failure;

        if (status == HETCCL_OK)
            status = hetccl_forward_progress(entry->forward);
        has_moved |= status == HETCCL_OK;
        if (!hetccl_is_error(status))
            continue;
        entry->failure = status;
        if (is_missed(loop, entry))
            report(loop, entry);
    }
    return has_moved;
}

/* ---- waiting ---- */

static bool has_work(const struct loop *loop)
{
    for (const struct hetccl_progress_entry *entry = first_entry(loop); entry != NULL; entry = entry->next)
        if (hetccl_forward_has_work(entry->forward))
            return true;
    return false;
}

static void add_sockets(const struct loop *loop, struct hetccl_wait_set *set)
{
    for (const struct hetccl_progress_entry *entry = first_entry(loop); entry != NULL; entry = entry->next) {
        struct hetccl_link *link = hetccl_forward_link(entry->forward);
        short events;
        int fd = entry->failure == HETCCL_OK ? link->ops->wait_fd(link, &events) : -1;

        if (fd < 0 || set->n_fds == HETCCL_WAIT_MAX_FDS)
            continue;
        set->fds[set->n_fds] = fd;
        set->events[set->n_fds++] = events;
    }
}

static uint64_t next_nap(struct loop *loop)
{
    loop->nap_ns = loop->nap_ns == 0 ? SHORTEST_NAP_NS : 2 * loop->nap_ns;
    if (loop->nap_ns > LONGEST_NAP_NS)
        loop->nap_ns = LONGEST_NAP_NS;
    return loop->nap_ns;
}

/*
 * Whether a launch may be under way is asked before the last look: what an ended one has left is seen by that
 * look, and one that comes later rings. True when the look moved something, or somebody rang.
 */
static bool sleep_once(struct loop *loop)
{
    struct hetccl_progress *progress = &loop->comm->progress;
    struct hetccl_wait_set set = {.n_doorbells = 0};
    unsigned rings = atomic_load(&progress->doorbell.rings);
    bool may_sleep, has_moved;

    hetccl_wait_set_add_doorbell(&set, &progress->doorbell);
    may_sleep = !atomic_load(&progress->is_ending) && !hetccl_bridge_may_run(loop->comm->bridge);
    has_moved = move_all(loop);
    may_sleep = may_sleep && loop->grace_until_ns == 0 && !has_work(loop);
    if (!may_sleep)
        add_sockets(loop, &set);
    hetccl_wait(&set, has_moved ? 0 : may_sleep ? SLEEP_NS : next_nap(loop));
    return has_moved || (may_sleep && atomic_load(&progress->doorbell.rings) != rings);
}

static void spin(const struct loop *loop)
{
    if (loop->comm->is_crowded)
        sched_yield();
    else
        hetccl_cpu_relax();
}

static void go_on(struct loop *loop)
{
    bool may_sleep = loop->still_since_ns != 0 && hetccl_now_ns() - loop->still_since_ns >= loop->spin_ns;

    if (may_sleep ? sleep_once(loop) : move_all(loop)) {
        loop->still_since_ns = 0;
    } else if (loop->still_since_ns == 0) {
        loop->still_since_ns = hetccl_now_ns();
        loop->nap_ns = 0;
    } else if (!may_sleep) {
        spin(loop);
    }
}

/* ---- the end ---- */

static bool is_all_over(const struct loop *loop)
{
    for (const struct hetccl_progress_entry *entry = first_entry(loop); entry != NULL; entry = entry->next)
        if (entry->failure == HETCCL_OK && !hetccl_forward_is_over(entry->forward))
            return false;
    return true;
}

/* Peers that share no process with this rank have said good-bye: they have read everything. The others may
 * still be about to; those that never will are not waited for. */
static bool must_end(const struct loop *loop)
{
    const struct hetccl_comm *comm = loop->comm;

    if (hetccl_is_error((enum hetccl_status)atomic_load(&comm->state)) || atomic_load(&comm->is_interrupted))
        return true;
    if (!atomic_load(&comm->progress.is_ending))
        return false;
    return is_all_over(loop) || (loop->still_since_ns != 0 && hetccl_now_ns() - loop->still_since_ns >
                                                                  (uint64_t)STILL_S * HETCCL_NS_PER_S);
}

static void *run(void *arg)
{
    struct loop loop = {.comm = arg};

    loop.spin_ns = loop.comm->config.spin_us * HETCCL_NS_PER_US;
    (void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
    while (!must_end(&loop))
        go_on(&loop);
    return NULL;
}

static enum hetccl_status start(struct hetccl_comm *comm)
{
    struct hetccl_progress *progress = &comm->progress;
    enum hetccl_status status;

    if (atomic_load(&progress->has_thread))
        return HETCCL_OK;
    status = hetccl_thread_start("hetccl-progress", run, comm, &progress->thread);
    atomic_store(&progress->has_thread, status == HETCCL_OK);
    return status;
}

enum hetccl_status hetccl_comm_progress_add(struct hetccl_comm *comm, struct hetccl_forward *forward)
{
    struct hetccl_progress_entry *entry;
    enum hetccl_status status = hetccl_alloc(1, sizeof(*entry), &entry);

    if (status != HETCCL_OK)
        return status;
    status = start(comm);
    if (status != HETCCL_OK) {
        hetccl_free(entry);
        return status;
    }
    entry->forward = forward;
    entry->next = atomic_load(&comm->progress.first);
    atomic_store_explicit(&comm->progress.first, entry, memory_order_release);
    hetccl_comm_wake_progress(comm);
    return HETCCL_OK;
}

void hetccl_comm_wake_progress(struct hetccl_comm *comm)
{
    if (atomic_load_explicit(&comm->progress.has_thread, memory_order_relaxed))
        hetccl_doorbell_ring(&comm->progress.doorbell);
}

void hetccl_comm_progress_stop(struct hetccl_comm *comm)
{
    struct hetccl_progress *progress = &comm->progress;
    struct hetccl_progress_entry *entry;

    if (!atomic_load(&progress->has_thread))
        return;
    atomic_store(&progress->is_ending, true);
    hetccl_doorbell_ring(&progress->doorbell);
    (void)pthread_join(progress->thread, NULL);
    atomic_store(&progress->has_thread, false);
    while ((entry = atomic_load(&progress->first)) != NULL) {
        atomic_store(&progress->first, entry->next);
        hetccl_forward_destroy(entry->forward);
        hetccl_free(entry);
    }
}
