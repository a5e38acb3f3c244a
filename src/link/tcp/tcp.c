/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/fault.h"
#include "link/tcp/internal.h"

static enum hetccl_status tcp_progress(struct hetccl_link *link)
{
    struct hetccl_tcp_link *tcp = hetccl_tcp_of(link);
    bool has_moved = false;
    enum hetccl_status status;

    if (tcp->core.failure != HETCCL_OK)
        return hetccl_link_sticky(&tcp->core);
    status = hetccl_tcp_receive_queued(tcp, &has_moved);
    if (hetccl_is_error(status))
        return status;
    status = hetccl_tcp_send_queued(tcp, &has_moved);
    if (hetccl_is_error(status))
        return status;
    return has_moved ? HETCCL_OK : HETCCL_AGAIN;
}

/* Asks the epoll descriptor for what can bring the link on now; a system call only where that has changed. */
static void update_poll(struct hetccl_tcp_link *tcp, size_t lane, unsigned events)
{
    struct epoll_event event = {.events = events, .data.u64 = lane};

    if (tcp->polled_events[lane] == events)
        return;
    tcp->core.link.counters.system_calls++;
    if (epoll_ctl(tcp->epoll_fd, EPOLL_CTL_MOD, tcp->sockets[lane], &event) == 0)
        tcp->polled_events[lane] = events;
    else
        (void)hetccl_tcp_fail(tcp, "changing what is polled", errno);
}

/*
 * Level-triggered and only for what is wanted: a descriptor that is readable while no receive is queued would
 * keep the caller from sleeping. For the same reason there is none at all while nothing is queued: a reset
 * connection polls ready for ever, whatever was asked for.
 */
static int tcp_wait_fd(struct hetccl_link *link, short *events_out)
{
    struct hetccl_tcp_link *tcp = hetccl_tcp_of(link);
    short events = 0;

    for (size_t lane = 0; lane < tcp->n_sockets; lane++) {
        bool is_in = hetccl_tcp_wants_input(tcp, lane), is_out = hetccl_tcp_wants_output(tcp, lane);

        if (tcp->epoll_fd >= 0)
            update_poll(tcp, lane, (is_in ? (unsigned)EPOLLIN : 0) | (is_out ? (unsigned)EPOLLOUT : 0));
        events |= (short)((is_in ? POLLIN : 0) | (is_out ? POLLOUT : 0));
    }
    *events_out = tcp->epoll_fd >= 0 && events != 0 ? POLLIN : events;
    if (events == 0)
        return -1;
    return tcp->epoll_fd >= 0 ? tcp->epoll_fd : tcp->sockets[0];
}

static void tcp_close(struct hetccl_link *link)
{
    struct hetccl_tcp_link *tcp = hetccl_tcp_of(link);

    if (tcp->epoll_fd >= 0)
        (void)close(tcp->epoll_fd);
    for (size_t lane = 0; lane < tcp->n_sockets; lane++)
        (void)close(tcp->sockets[lane]);
    hetccl_free(tcp->staging);
    hetccl_free(tcp);
}

static const struct hetccl_link_ops tcp_ops = {
    .name = "tcp",
    .post_send = hetccl_tcp_post_send,
    .post_recv = hetccl_tcp_post_recv,
    .progress = tcp_progress,
    .peek = hetccl_tcp_peek,
    .consume = hetccl_tcp_consume,
    .wait_fd = tcp_wait_fd,
    .close = tcp_close,
};

/* Registers all sockets, for nothing yet, so that later changes need no memory and can't fail. */
static enum hetccl_status open_epoll(struct hetccl_tcp_link *tcp)
{
    if (tcp->n_sockets == 1)
        return HETCCL_OK;
    if (!hetccl_fault_hit(HETCCL_FAULT_SOCKET))
        tcp->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    else
        errno = EMFILE;
    if (tcp->epoll_fd < 0)
        return hetccl_fail(HETCCL_ERR_SYSTEM,
                           "tcp link to rank %" PRIu32
                           ": no epoll descriptor: %s; raise the limit (ulimit -n)",
                           tcp->core.link.peer_rank, strerror(errno));
    for (size_t lane = 0; lane < tcp->n_sockets; lane++) {
        struct epoll_event event = {.events = 0, .data.u64 = lane};

        if (epoll_ctl(tcp->epoll_fd, EPOLL_CTL_ADD, tcp->sockets[lane], &event) != 0)
            return hetccl_fail(HETCCL_ERR_SYSTEM,
                               "tcp link to rank %" PRIu32 ": socket %d can't be polled: %s",
                               tcp->core.link.peer_rank, tcp->sockets[lane], strerror(errno));
    }
    return HETCCL_OK;
}

static enum hetccl_status prepare_sockets(const struct hetccl_link_tcp_args *args)
{
    for (size_t lane = 0; lane < args->n_sockets; lane++) {
        enum hetccl_status status =
            hetccl_tcp_socket_prepare(args->sockets[lane], args->death_s, args->peer_rank);

        if (status != HETCCL_OK)
            return status;
    }
    return HETCCL_OK;
}

enum hetccl_status hetccl_link_tcp_create(const struct hetccl_link_tcp_args *args, struct hetccl_link **out)
{
    struct hetccl_tcp_link *tcp;
    enum hetccl_status status;

    if (args->n_sockets < 1 || args->n_sockets > HETCCL_LINK_TCP_MAX_SOCKETS)
        return hetccl_fail(HETCCL_ERR_ARG, "tcp link to rank %" PRIu32 ": %zu sockets; 1 to %d are possible",
                           args->peer_rank, args->n_sockets, HETCCL_LINK_TCP_MAX_SOCKETS);
    status = prepare_sockets(args);
    if (status != HETCCL_OK)
        return status;
    status = hetccl_alloc(1, sizeof(*tcp), &tcp);
    if (status != HETCCL_OK)
        return status;
    hetccl_link_core_init(&tcp->core, &tcp_ops, args->own_rank, args->peer_rank, args->peer_name);
    memcpy(tcp->sockets, args->sockets, args->n_sockets * sizeof(args->sockets[0]));
    tcp->n_sockets = args->n_sockets;
    tcp->epoll_fd = -1;
    hetccl_tcp_address_print(args->sockets[0], tcp->address);
    tcp->staging_bytes =
        hetccl_max_size(HETCCL_TCP_STAGING_STRIPES, 4 * args->n_sockets) * HETCCL_TCP_STRIPE_BYTES;
    status = hetccl_alloc(tcp->staging_bytes, 1, &tcp->staging);
    if (status != HETCCL_OK)
        goto undo_alloc;
    status = open_epoll(tcp);
    if (status != HETCCL_OK)
        goto undo_epoll;
    *out = &tcp->core.link;
    return HETCCL_OK;

undo_epoll:
    if (tcp->epoll_fd >= 0)
        (void)close(tcp->epoll_fd);
    hetccl_free(tcp->staging);
undo_alloc:
    hetccl_free(tcp);
    return status;
}
