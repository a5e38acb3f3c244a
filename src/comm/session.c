/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups: any calls on any communicators and ranks, driven to their end by one thread. Each communicator has
 * a session: its collectives one after the other, its sends and receives all at once beside them. Nothing
 * here blocks but sleep().
 */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/thread.h"
#include "base/time.h"
#include "comm/internal.h"

enum {
    SLEEP_NS = 50 * HETCCL_NS_PER_MS,
    LOOK_NS = 200 * HETCCL_NS_PER_MS, /* between looks at what the other ranks say */
    STUCK_NS = HETCCL_NS_PER_S,       /* without progress for so long: tell the others */
    GRACE_NS = HETCCL_NS_PER_S,
};

struct group {
    const struct hetccl_comm_item *items;
    size_t n_items;
    struct hetccl_comm *comms; /* under way; linked by session.next, in order of first item */
    struct hetccl_comm *ended; /* through, but perhaps still in use by this pass */
    enum hetccl_status first_error;
    char first_error_text[HETCCL_ERROR_TEXT_BYTES];
    uint64_t started_ns, spin_ns, last_look_ns;
    bool is_crowded; /* more ranks on this host than processors: give them away while waiting */
};

/* ---- sends and receives ---- */

/* How many there are of the communicator; also lists them where out is not NULL. */
static size_t collect_p2p(const struct group *group, const struct hetccl_comm *comm, struct hetccl_p2p *out)
{
    size_t n = 0;

    for (size_t i = 0; i < group->n_items; i++) {
        const struct hetccl_call *call = &group->items[i].call;

        if (group->items[i].comm != comm || call->coll != HETCCL_P2P)
            continue;
        if (out != NULL)
            out[n] =
                (struct hetccl_p2p){.is_send = call->is_send,
                                    .peer = (uint32_t)call->root,
                                    .offset = call->is_send ? (uintptr_t)call->send : (uintptr_t)call->recv,
                                    .count = call->count * hetccl_type_bytes(call->type)};
        n++;
    }
    return n;
}

static bool is_p2p_of(const struct hetccl_comm_item *item, const struct hetccl_comm *comm)
{
    return item->comm == comm && item->call.coll == HETCCL_P2P;
}

static struct hetccl_stream first_p2p_stream(const struct group *group, const struct hetccl_comm *comm)
{
    for (size_t i = 0; i < group->n_items; i++)
        if (is_p2p_of(&group->items[i], comm))
            return (struct hetccl_stream){group->items[i].call.stream};
    return (struct hetccl_stream){NULL};
}

/* The streams of the group's sends and receives become one, and part again: is_before tells which. */
static enum hetccl_status join_p2p_streams(const struct group *group, struct hetccl_comm *comm,
                                           bool is_before)
{
    struct hetccl_stream first = first_p2p_stream(group, comm), previous = first;
    enum hetccl_status status = is_before ? hetccl_bridge_enter(comm->bridge, first)
                                          : hetccl_bridge_leave(comm->bridge, first, false);

    for (size_t i = 0; i < group->n_items && status == HETCCL_OK; i++) {
        struct hetccl_stream stream = {group->items[i].call.stream};

        if (!is_p2p_of(&group->items[i], comm) || stream.handle == first.handle ||
            stream.handle == previous.handle)
            continue;
        status = is_before ? hetccl_bridge_join(comm->bridge, stream, first)
                           : hetccl_bridge_join(comm->bridge, first, stream);
        previous = stream;
    }
    return status;
}

static enum hetccl_status start_p2p(const struct group *group, struct hetccl_comm *comm)
{
    struct hetccl_session *session = &comm->session;
    struct hetccl_run_args args = {
        .elem_bytes = 1,
        .type = HETCCL_UINT8,
        .tag = {.coll = HETCCL_P2P, .type = HETCCL_UINT8, .red = 255, .root = UINT32_MAX},
        .channel = HETCCL_CHANNEL_P2P,
        .stream = first_p2p_stream(group, comm)};
    struct hetccl_p2p *list = NULL;
    enum hetccl_status status;
    size_t n = collect_p2p(group, comm, NULL);

    if (n == 0)
        return HETCCL_OK;
    comm->n_p2p_groups++;
    status = hetccl_alloc(n, sizeof(*list), &list);
    if (status != HETCCL_OK)
        return status;
    (void)collect_p2p(group, comm, list);
    status = hetccl_plan_build_p2p(&comm->topo, comm->rank, list, n, &session->p2p_plan);
    hetccl_free(list);
    if (status == HETCCL_OK)
        status = hetccl_run_create(&comm->env, session->p2p_plan, &session->p2p_run);
    if (status == HETCCL_OK)
        hetccl_run_start(session->p2p_run, &args);
    return status;
}

static void drop_p2p(struct hetccl_session *session)
{
    hetccl_run_destroy(session->p2p_run);
    hetccl_plan_destroy(session->p2p_plan);
    session->p2p_run = NULL;
    session->p2p_plan = NULL;
}

static enum hetccl_status progress_p2p(const struct group *group, struct hetccl_comm *comm, bool *moved_out)
{
    struct hetccl_session *session = &comm->session;
    enum hetccl_status status = HETCCL_OK;

    if (session->p2p_run == NULL)
        return HETCCL_OK;
    if (comm->bridge != NULL && !session->has_entered_p2p) {
        status = join_p2p_streams(group, comm, true);
        session->has_entered_p2p = status == HETCCL_OK;
    }
    if (status == HETCCL_OK)
        status = hetccl_run_progress(session->p2p_run, moved_out);
    if (status == HETCCL_OK && comm->bridge != NULL)
        status = join_p2p_streams(group, comm, false);
    hetccl_comm_wake_progress(comm);
    if (status != HETCCL_OK)
        return status;
    hetccl_comm_count_run(comm, session->p2p_run);
    drop_p2p(session);
    return HETCCL_OK;
}

/* ---- one communicator ---- */

static enum hetccl_status start_next_collective(const struct group *group, struct hetccl_comm *comm)
{
    struct hetccl_session *session = &comm->session;

    while (session->next_item < group->n_items) {
        const struct hetccl_comm_item *item = &group->items[session->next_item++];
        enum hetccl_status status;

        if (item->comm != comm || item->call.coll == HETCCL_P2P)
            continue;
        status = hetccl_collective_start(comm, &item->call);
        if (status != HETCCL_OK || session->active.original != NULL)
            return status;
    }
    return HETCCL_OK;
}

/* OK: no collective is left. */
static enum hetccl_status progress_collectives(const struct group *group, struct hetccl_comm *comm,
                                               bool *moved_out)
{
    struct hetccl_session *session = &comm->session;

    while (session->active.original != NULL) {
        enum hetccl_status status = hetccl_run_progress(session->active.cached->run, moved_out);

        if (status == HETCCL_OK)
            status = hetccl_collective_finish(comm);
        if (status == HETCCL_OK)
            status = start_next_collective(group, comm);
        if (status != HETCCL_OK)
            return status;
        *moved_out = true;
    }
    return HETCCL_OK;
}

/* A failure from elsewhere, an abort or a revoke ends what runs here. */
static enum hetccl_status check_interrupted(struct hetccl_comm *comm)
{
    if (hetccl_is_error((enum hetccl_status)atomic_load_explicit(&comm->state, memory_order_acquire)))
        return hetccl_comm_check_usable(comm);
    if (atomic_load_explicit(&comm->is_interrupted, memory_order_relaxed))
        return hetccl_fail_quietly(HETCCL_ERR_ABORTED,
                                   "rank %u: the communicator was revoked while a call ran", comm->rank);
    return HETCCL_OK;
}

/*
 * A link or engine says that the peer is gone. Most often that is the consequence of a failure of which the
 * mesh is about to tell, or of a peer that has finished without making this call: the cause makes the better
 * error.
 */
static enum hetccl_status begin_grace(struct hetccl_comm *comm)
{
    struct hetccl_session *session = &comm->session;

    session->grace_until_ns = hetccl_now_ns() + GRACE_NS;
    (void)snprintf(comm->grace_text, sizeof(comm->grace_text), "%s", hetccl_last_error_thread());
    return HETCCL_AGAIN;
}

static enum hetccl_status await_cause(struct hetccl_comm *comm)
{
    struct hetccl_session *session = &comm->session;
    enum hetccl_status status = hetccl_comm_look_for_others(comm, false);

    if (status != HETCCL_OK)
        return status;
    if (hetccl_now_ns() < session->grace_until_ns)
        return HETCCL_AGAIN;
    return hetccl_fail_quietly(HETCCL_ERR_REMOTE, "%s", comm->grace_text);
}

static enum hetccl_status progress_runs(const struct group *group, struct hetccl_comm *comm, bool *moved_out)
{
    enum hetccl_status collectives = progress_collectives(group, comm, moved_out);
    enum hetccl_status p2p;

    /* What is enqueued on streams is enqueued in one order. */
    if (hetccl_is_error(collectives) || (collectives == HETCCL_AGAIN && comm->bridge != NULL))
        return collectives;
    p2p = progress_p2p(group, comm, moved_out);
    if (hetccl_is_error(p2p))
        return p2p;
    return collectives == HETCCL_OK && p2p == HETCCL_OK ? HETCCL_OK : HETCCL_AGAIN;
}

static enum hetccl_status progress_comm(const struct group *group, struct hetccl_comm *comm, bool *moved_out)
{
    enum hetccl_status status = check_interrupted(comm);

    if (status != HETCCL_OK)
        return status;
    if (comm->session.start_status != HETCCL_OK)
        return hetccl_fail_quietly(comm->session.start_status, "%s", comm->grace_text);
    if (comm->session.grace_until_ns != 0)
        return await_cause(comm);
    status = progress_runs(group, comm, moved_out);
    return status == HETCCL_ERR_REMOTE ? begin_grace(comm) : status;
}

/*
 * Takes *link's communicator off the list. A revoked communicator can still be split, so its revocation is no
 * failure of it.
 */
static void end_comm(struct group *group, struct hetccl_comm **link, enum hetccl_status status)
{
    struct hetccl_comm *comm = *link;

    *link = comm->session.next;
    comm->session.next = group->ended;
    group->ended = comm;
    comm->session.active.original = NULL;
    drop_p2p(&comm->session);
    if (status == HETCCL_OK)
        return;
    if (!atomic_load(&comm->is_revoked) || status != HETCCL_ERR_ABORTED)
        status = hetccl_comm_fail(comm, status, hetccl_last_error_thread());
    if (group->first_error == HETCCL_OK) {
        group->first_error = status;
        (void)snprintf(group->first_error_text, sizeof(group->first_error_text), "%s",
                       hetccl_last_error_thread());
    }
}

/* After this another thread that aborts one of them may free it, whatever the rest of the group still does.
 */
static void release_ended(struct group *group)
{
    while (group->ended != NULL) {
        struct hetccl_comm *comm = group->ended;

        group->ended = comm->session.next;
        comm->session.is_listed = false;
        atomic_fetch_sub(&comm->n_inside, 1);
    }
}

/* True when all are done. */
static bool progress_group(struct group *group, bool *moved_out)
{
    struct hetccl_comm **link = &group->comms;

    while (*link != NULL) {
        enum hetccl_status status = progress_comm(group, *link, moved_out);

        if (status == HETCCL_AGAIN)
            link = &(*link)->session.next;
        else
            end_comm(group, link, status);
    }
    return group->comms == NULL;
}

/* ---- waiting ---- */

static void describe(const struct hetccl_comm *comm, char *out, size_t bytes)
{
    const struct hetccl_session *session = &comm->session;

    if (session->active.original != NULL)
        hetccl_run_describe(session->active.cached->run, out, bytes);
    else if (session->p2p_run != NULL)
        hetccl_run_describe(session->p2p_run, out, bytes);
    else
        (void)snprintf(out, bytes, "nothing");
}

static enum hetccl_status check_deadline(const struct group *group, const struct hetccl_comm *comm,
                                         uint64_t now_ns)
{
    char text[256];
    const struct hetccl_call *call = comm->session.active.original;

    if (comm->config.timeout_s == 0 || now_ns - group->started_ns < comm->config.timeout_s * HETCCL_NS_PER_S)
        return HETCCL_OK;
    describe(comm, text, sizeof(text));
    return hetccl_fail(HETCCL_ERR_TIMEOUT,
                       "rank %u: %s call %" PRIu64 " is not done after HETCCL_TIMEOUT_S=%" PRIu64
                       " s; it waits for: %s",
                       comm->rank, call != NULL ? hetccl_coll_name(call->coll) : "send/recv", comm->sequence,
                       comm->config.timeout_s, text);
}

/* What only a rank that waits long has to look at. */
static void look_around(struct group *group, uint64_t now_ns, uint64_t idle_ns)
{
    struct hetccl_comm **link = &group->comms;

    if (now_ns - group->last_look_ns < LOOK_NS)
        return;
    group->last_look_ns = now_ns;
    while (*link != NULL) {
        struct hetccl_comm *comm = *link;
        enum hetccl_status status = comm->session.active.original != NULL
                                        ? hetccl_comm_look_for_others(comm, idle_ns >= STUCK_NS)
                                        : HETCCL_OK;

        if (status == HETCCL_OK)
            status = check_deadline(group, comm, now_ns);
        if (status == HETCCL_OK)
            link = &comm->session.next;
        else
            end_comm(group, link, status);
    }
}

static void collect_waits(const struct hetccl_comm *comm, struct hetccl_wait_set *set)
{
    const struct hetccl_session *session = &comm->session;

    if (session->grace_until_ns != 0)
        return;
    if (session->active.original != NULL)
        hetccl_run_collect_waits(session->active.cached->run, set);
    if (session->p2p_run != NULL)
        hetccl_run_collect_waits(session->p2p_run, set);
}

/* Announce, look once more, sleep if the look moved nothing. True when it found everything done. */
static bool sleep_group(struct group *group, bool *moved_out)
{
    struct hetccl_wait_set set = {.n_doorbells = 0};
    bool is_done;

    for (struct hetccl_comm *comm = group->comms; comm != NULL; comm = comm->session.next)
        hetccl_wait_set_add_doorbell(&set, comm->own_doorbell);
    is_done = progress_group(group, moved_out);
    for (struct hetccl_comm *comm = group->comms; comm != NULL && !*moved_out; comm = comm->session.next)
        collect_waits(comm, &set);
    hetccl_wait(&set, *moved_out || is_done ? 0 : SLEEP_NS);
    return is_done;
}

/* One pass without progress. True when everything is done. */
static bool wait_group(struct group *group, uint64_t idle_ns, uint64_t now_ns, bool *moved_out)
{
    if (idle_ns >= group->spin_ns) {
        look_around(group, now_ns, idle_ns);
        return sleep_group(group, moved_out);
    }
    if (group->is_crowded)
        sched_yield();
    else
        hetccl_cpu_relax();
    return progress_group(group, moved_out);
}

static void drive(struct group *group)
{
    uint64_t idle_since_ns = 0;
    bool moved = false;
    bool is_done = progress_group(group, &moved);

    while (!is_done) {
        uint64_t now_ns;

        release_ended(group);
        if (moved) {
            moved = false;
            idle_since_ns = 0;
            is_done = progress_group(group, &moved);
            continue;
        }
        now_ns = hetccl_now_ns();
        if (idle_since_ns == 0)
            idle_since_ns = now_ns;
        is_done = wait_group(group, now_ns - idle_since_ns, now_ns, &moved);
    }
}

/* ---- the group ---- */

static uint32_t n_ranks_here(const struct hetccl_comm *comm)
{
    uint32_t n = 0;

    for (uint32_t rank = 0; rank < comm->n_ranks; rank++)
        n += comm->peers[rank].machine_key == comm->peers[comm->rank].machine_key;
    return n;
}

/* A start that fails is told by the first pass: until then the group may hold more calls of this
 * communicator. */
static void open_session(struct group *group, struct hetccl_comm *comm, struct hetccl_comm **tail)
{
    enum hetccl_status status;

    comm->session = (struct hetccl_session){.is_listed = true};
    *tail = comm;
    atomic_fetch_add(&comm->n_inside, 1);
    group->is_crowded |= comm->is_crowded;
    group->spin_ns = hetccl_max_size(group->spin_ns, comm->config.spin_us * HETCCL_NS_PER_US);
    status = start_p2p(group, comm);
    if (status == HETCCL_OK)
        status = start_next_collective(group, comm);
    comm->session.start_status = status;
    if (status != HETCCL_OK)
        (void)snprintf(comm->grace_text, sizeof(comm->grace_text), "%s", hetccl_last_error_thread());
}

enum hetccl_status hetccl_comm_run(const struct hetccl_comm_item *items, size_t n_items)
{
    struct group group = {.items = items, .n_items = n_items, .started_ns = hetccl_now_ns()};
    struct hetccl_comm **tail = &group.comms;

    group.last_look_ns = group.started_ns;
    for (size_t i = 0; i < n_items; i++) {
        struct hetccl_comm *comm = items[i].comm;

        if (comm->session.is_listed)
            continue;
        open_session(&group, comm, tail);
        tail = &comm->session.next;
    }
    drive(&group);
    release_ended(&group);
    if (group.first_error != HETCCL_OK)
        return hetccl_fail_quietly(group.first_error, "%s", group.first_error_text);
    return HETCCL_OK;
}

bool hetccl_comm_is_crowded(const struct hetccl_comm *comm)
{
    cpu_set_t allowed;

    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        return false;
    return n_ranks_here(comm) > (uint32_t)CPU_COUNT(&allowed);
}
