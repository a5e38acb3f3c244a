/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/endpoint.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/time.h"
#include "bootstrap/conn.h"
#include "bootstrap/dial.h"
#include "bootstrap/listener.h"
#include "bootstrap/mesh_internal.h"
#include "bootstrap/root.h"
#include "bootstrap/route.h"

enum { EVENTS_AT_A_TIME = 32, TICK_MS = 100 };

static bool needs_tick(const struct hetccl_endpoint *endpoint)
{
    return endpoint->is_paused || endpoint->drain_until_ns != 0 || hetccl_conns_need_tick(endpoint) ||
           !hetccl_list_is_empty(&endpoint->dials) || !hetccl_list_is_empty(&endpoint->roots);
}

static void resume_listeners(struct hetccl_endpoint *endpoint)
{
    if (!endpoint->is_paused)
        return;
    endpoint->is_paused = false;
    for (size_t i = 0; i < endpoint->n_listeners; i++)
        hetccl_endpoint_rewatch(endpoint, &endpoint->listeners[i].source, EPOLLIN);
    hetccl_roots_rewatch(endpoint, EPOLLIN);
}

static void tick(struct hetccl_endpoint *endpoint)
{
    uint64_t now_ns = hetccl_now_ns();

    resume_listeners(endpoint);
    hetccl_conns_tick(endpoint, now_ns);
    hetccl_dials_tick(endpoint, now_ns);
    hetccl_roots_tick(endpoint, now_ns);
    hetccl_endpoint_tick(endpoint, now_ns);
}

/*
 * A source may have been closed between epoll_wait and here, by a user's thread or by an earlier handler: its
 * memory is still there (the graveyard is emptied below only) and its fd is -1.
 */
static void serve(struct hetccl_endpoint *endpoint, const struct epoll_event *events, int n_events)
{
    for (int i = 0; i < n_events; i++) {
        struct hetccl_source *source = events[i].data.ptr;

        if (source->fd >= 0)
            source->ready(source, events[i].events);
    }
}

static void stop(struct hetccl_endpoint *endpoint)
{
    hetccl_routes_destroy(endpoint);
    hetccl_conns_close_all(endpoint);
    while (!hetccl_list_is_empty(&endpoint->dials))
        hetccl_dial_cancel((struct hetccl_dial *)endpoint->dials.next);
    hetccl_conns_bury(endpoint);
    hetccl_frame_queue_clear(&endpoint->early);
    for (size_t i = 0; i < endpoint->n_listeners; i++)
        hetccl_listener_fini(endpoint, &endpoint->listeners[i]);
    close(endpoint->wake.fd);
    close(endpoint->epoll_fd);
    endpoint->wake.fd = endpoint->epoll_fd = -1;
    if (endpoint->is_detached)
        pthread_detach(pthread_self());
    endpoint->state = HETCCL_ENDPOINT_STOPPED;
    pthread_cond_broadcast(&endpoint->changed);
}

void *hetccl_service_run(void *arg)
{
    struct hetccl_endpoint *endpoint = arg;
    struct epoll_event events[EVENTS_AT_A_TIME];
    uint64_t next_tick_ns = 0;

    hetccl_endpoint_lock(endpoint);
    while (endpoint->state == HETCCL_ENDPOINT_RUNNING) {
        int timeout_ms = needs_tick(endpoint) ? TICK_MS : -1;
        int n;

        hetccl_endpoint_unlock(endpoint);
        n = epoll_wait(endpoint->epoll_fd, events, EVENTS_AT_A_TIME, timeout_ms);
        hetccl_endpoint_lock(endpoint);
        serve(endpoint, events, n > 0 ? n : 0);
        if (hetccl_now_ns() >= next_tick_ns) {
            tick(endpoint);
            next_tick_ns = hetccl_now_ns() + (uint64_t)TICK_MS * HETCCL_NS_PER_MS;
        }
        hetccl_meshes_run_events(endpoint);
        hetccl_conns_bury(endpoint);
    }
    stop(endpoint);
    hetccl_endpoint_unlock(endpoint);
    return NULL;
}
