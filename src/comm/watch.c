/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on an asynchronous device have returned long before they run. What goes wrong then, a thread of the
 * communicator finds: pieces of unlike calls, ranks that are stuck in different ones, a deadline that has
 * passed. Deaths of peers come from the mesh; all end what runs on the device by hetccl_comm_fail().
 */
#include <inttypes.h>

#include "base/thread.h"
#include "base/time.h"
#include "comm/internal.h"

enum {
    TICK_NS = 50 * HETCCL_NS_PER_MS,
    STUCK_NS = HETCCL_NS_PER_S,
    CAUSE_NS = 2 * HETCCL_NS_PER_S, /* how long the other side's view of a mismatch may take */
    DRAIN_NS = 20 * HETCCL_NS_PER_US,
};

/* The launches that run now have run since then. */
struct watch {
    uint64_t n_launches;
    uint64_t busy_since_ns; /* 0: nothing runs */
};

static enum hetccl_status explain_mismatch(struct hetccl_comm *comm)
{
    uint64_t until_ns = hetccl_now_ns() + CAUSE_NS;
    enum hetccl_status status = HETCCL_OK;

    hetccl_comm_repeat_note(comm);
    while (status == HETCCL_OK && hetccl_now_ns() < until_ns &&
           !hetccl_is_error((enum hetccl_status)atomic_load(&comm->state)) &&
           !atomic_load(&comm->is_interrupted)) {
        status = hetccl_comm_look_for_others(comm, true);
        hetccl_sleep_ns(HETCCL_NS_PER_MS);
    }
    if (status != HETCCL_OK)
        return status;
    return hetccl_fail(
        HETCCL_ERR_USAGE,
        "rank %u: data of another call arrived; all ranks must make the same calls in the same "
        "order",
        comm->rank);
}

static enum hetccl_status check_stuck(struct hetccl_comm *comm, const struct watch *watch, uint64_t now_ns)
{
    uint64_t busy_ns = now_ns - watch->busy_since_ns;
    enum hetccl_status status;

    if (busy_ns < STUCK_NS)
        return HETCCL_OK;
    status = hetccl_comm_look_for_others(comm, true);
    if (status != HETCCL_OK || comm->config.timeout_s == 0 ||
        busy_ns < comm->config.timeout_s * HETCCL_NS_PER_S)
        return status;
    return hetccl_fail(HETCCL_ERR_TIMEOUT,
                       "rank %u: what was enqueued up to collective call %" PRIu64
                       " is not done after HETCCL_TIMEOUT_S=%" PRIu64 " s on device %s %d",
                       comm->rank, comm->sequence, comm->config.timeout_s, comm->device->ops->name,
                       comm->device->ordinal);
}

static enum hetccl_status look(struct hetccl_comm *comm, struct watch *watch)
{
    struct hetccl_bridge *bridge = comm->bridge;
    enum hetccl_status status;
    uint64_t now_ns;

    if (hetccl_bridge_has_mismatch(bridge))
        return explain_mismatch(comm);
    if (atomic_exchange(&comm->has_mail, false)) {
        status = hetccl_comm_read_notes(comm);
        if (status != HETCCL_OK)
            return status;
    }
    status = hetccl_bridge_query(bridge);
    if (status != HETCCL_AGAIN) {
        watch->busy_since_ns = 0;
        return status;
    }
    now_ns = hetccl_now_ns();
    if (watch->busy_since_ns == 0 || hetccl_bridge_count(bridge) != watch->n_launches) {
        watch->busy_since_ns = now_ns;
        watch->n_launches = hetccl_bridge_count(bridge);
    }
    return check_stuck(comm, watch, now_ns);
}

/* Of a communicator that has failed; some may still be on their way to the device. */
static void end_calls(struct hetccl_comm *comm)
{
    hetccl_bridge_stop(comm->bridge);
    while (hetccl_bridge_query(comm->bridge) == HETCCL_AGAIN && !atomic_load(&comm->is_watch_ending))
        hetccl_bridge_release(comm->bridge);
}

static void *run(void *arg)
{
    struct hetccl_comm *comm = arg;
    struct watch watch = {.n_launches = 0};
    enum hetccl_status status = HETCCL_OK;

    while (status == HETCCL_OK && !atomic_load(&comm->is_watch_ending)) {
        hetccl_sleep_ns(TICK_NS);
        if (hetccl_is_error((enum hetccl_status)atomic_load(&comm->state)) ||
            atomic_load(&comm->is_interrupted))
            break;
        status = look(comm, &watch);
    }
    if (status != HETCCL_OK)
        (void)hetccl_comm_fail(comm, status, hetccl_last_error_thread());
    while (!atomic_load(&comm->is_watch_ending)) {
        end_calls(comm);
        hetccl_sleep_ns(TICK_NS);
    }
    return NULL;
}

enum hetccl_status hetccl_comm_watch_start(struct hetccl_comm *comm)
{
    enum hetccl_status status = hetccl_thread_start("hetccl-watch", run, comm, &comm->watch_thread);

    comm->has_watch_thread = status == HETCCL_OK;
    return status;
}

void hetccl_comm_watch_stop(struct hetccl_comm *comm)
{
    if (!comm->has_watch_thread)
        return;
    atomic_store(&comm->is_watch_ending, true);
    (void)pthread_join(comm->watch_thread, NULL);
    comm->has_watch_thread = false;
}

bool hetccl_comm_is_doubtful(const struct hetccl_comm *comm)
{
    const struct hetccl_bridge *bridge = comm->bridge;

    return bridge != NULL && hetccl_bridge_has_mismatch(bridge) && !atomic_load(&comm->is_interrupted) &&
           !hetccl_is_error((enum hetccl_status)atomic_load(&comm->state));
}

void hetccl_comm_drain(struct hetccl_comm *comm)
{
    while (comm->bridge != NULL && !atomic_load(&comm->is_interrupted) &&
           !hetccl_is_error((enum hetccl_status)atomic_load(&comm->state)) &&
           (hetccl_bridge_query(comm->bridge) == HETCCL_AGAIN || hetccl_comm_is_doubtful(comm)))
        hetccl_sleep_ns(DRAIN_NS);
}
