/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/endpoint.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/thread.h"
#include "base/time.h"
#include "bootstrap/conn.h"
#include "bootstrap/listener.h"
#include "bootstrap/mesh.h"
#include "bootstrap/netif.h"
#include "bootstrap/root.h"
#include "bootstrap/route.h"

static struct hetccl_endpoint the_endpoint = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .changed = PTHREAD_COND_INITIALIZER,
    .epoll_fd = -1,
    .wake = {.fd = -1},
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool is_prepared;

static const uint64_t drain_ns = 3ull * HETCCL_NS_PER_S;

struct hetccl_endpoint *hetccl_endpoint_find(void)
{
    return &the_endpoint;
}

void hetccl_endpoint_lock(struct hetccl_endpoint *endpoint)
{
    pthread_mutex_lock(&endpoint->lock);
}

void hetccl_endpoint_unlock(struct hetccl_endpoint *endpoint)
{
    pthread_mutex_unlock(&endpoint->lock);
}

/* ---- fork ---- */

static void before_fork(void)
{
    pthread_mutex_lock(&the_endpoint.lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&the_endpoint.lock);
}

static void forget_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/*
 * The only thing of ours that runs in a child. A child that kept the parent's connections open would hide the
 * parent's death from the peers: the kernel says goodbye when the last copy of a socket is closed. Nothing is
 * sent (no shutdown), nothing is freed, and the endpoint is as new; the parent's thread doesn't exist here.
 */
static void after_fork_in_child(void)
{
    struct hetccl_endpoint *endpoint = &the_endpoint;

    if (endpoint->state != HETCCL_ENDPOINT_STOPPED) {
        for (struct hetccl_list_node *node = endpoint->conns.next; node != &endpoint->conns;
             node = node->next)
            forget_fd(hetccl_conn_fd(node));
        for (size_t i = 0; i < endpoint->n_listeners; i++)
            forget_fd(&endpoint->listeners[i].source.fd);
        forget_fd(&endpoint->wake.fd);
        forget_fd(&endpoint->epoll_fd);
    }
    endpoint->n_users = 0;
    endpoint->n_listeners = 0;
    endpoint->state = HETCCL_ENDPOINT_STOPPED;
    (void)pthread_cond_init(&endpoint->changed, NULL); /* its waiters stayed with the parent */
    pthread_mutex_unlock(&endpoint->lock);
}

static void prepare_process(void)
{
    is_prepared = sodium_init() >= 0;
    (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* ---- the epoll set ---- */

enum hetccl_status hetccl_endpoint_watch(struct hetccl_endpoint *endpoint, struct hetccl_source *source,
                                         uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};

    if (epoll_ctl(endpoint->epoll_fd, EPOLL_CTL_ADD, source->fd, &event) != 0)
        return hetccl_fail(HETCCL_ERR_SYSTEM, "a socket could not be watched (epoll): %s", strerror(errno));
    return HETCCL_OK;
}

void hetccl_endpoint_rewatch(struct hetccl_endpoint *endpoint, struct hetccl_source *source, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};

    (void)epoll_ctl(endpoint->epoll_fd, EPOLL_CTL_MOD, source->fd, &event);
}

/* Explicitly, as a copy of the descriptor in a child of an unlucky moment would keep a closed one in the set.
 */
void hetccl_endpoint_unwatch(struct hetccl_endpoint *endpoint, struct hetccl_source *source)
{
    (void)epoll_ctl(endpoint->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
}

void hetccl_endpoint_pause(struct hetccl_endpoint *endpoint)
{
    endpoint->is_paused = true;
    for (size_t i = 0; i < endpoint->n_listeners; i++)
        hetccl_endpoint_rewatch(endpoint, &endpoint->listeners[i].source, 0);
    hetccl_roots_rewatch(endpoint, 0);
}

void hetccl_endpoint_wake(struct hetccl_endpoint *endpoint)
{
    uint64_t one = 1;

    if (!atomic_exchange_explicit(&endpoint->is_woken, true, memory_order_acq_rel) &&
        write(endpoint->wake.fd, &one, sizeof(one)) < 0)
        atomic_store_explicit(&endpoint->is_woken, false, memory_order_release);
}

static void wake_ready(struct hetccl_source *source, uint32_t events)
{
    struct hetccl_endpoint *endpoint = &the_endpoint;
    uint64_t count;

    (void)events;
    if (read(source->fd, &count, sizeof(count)) < 0)
        return;
    atomic_store_explicit(&endpoint->is_woken, false, memory_order_release);
}

/* ---- start and stop ---- */

static enum hetccl_status open_listeners(struct hetccl_endpoint *endpoint, const struct hetccl_config *config,
                                         const struct hetccl_wire_address *peer)
{
    struct hetccl_netif netifs[HETCCL_WIRE_MAX_ADDRESSES];
    size_t n_netifs = 0;
    enum hetccl_status status = hetccl_netif_choose(config, peer, netifs, &n_netifs);

    endpoint->n_listeners = 0;
    for (size_t i = 0; i < n_netifs && status == HETCCL_OK; i++) {
        struct hetccl_listener *listener = &endpoint->listeners[endpoint->n_listeners];
        int fd = -1;

        status = hetccl_listener_open(&netifs[i].address, config->port_first, config->port_last, &fd);
        if (status == HETCCL_OK) {
            listener->source.fd = fd;
            endpoint->n_listeners++;
            status = hetccl_listener_init(endpoint, fd, netifs[i].name, listener);
        } else if (endpoint->n_listeners > 0) {
            status = HETCCL_OK; /* the first address is enough */
        }
    }
    return status;
}

static void describe_self(struct hetccl_endpoint *endpoint)
{
    struct hetccl_wire_contact *self = &endpoint->self;

    memset(self, 0, sizeof(*self));
    randombytes_buf(&self->process_key, sizeof(self->process_key));
    self->place = hetccl_netif_place();
    self->pid = (uint32_t)getpid();
    self->n_addresses = (uint32_t)endpoint->n_listeners;
    for (size_t i = 0; i < endpoint->n_listeners; i++)
        self->addresses[i] = endpoint->listeners[i].address;
    if (gethostname(self->host_name, sizeof(self->host_name) - 1) != 0)
        (void)snprintf(self->host_name, sizeof(self->host_name), "unknown");
}

static enum hetccl_status open_epoll(struct hetccl_endpoint *endpoint)
{
    endpoint->wake.ready = wake_ready;
    atomic_store(&endpoint->is_woken, false);
    endpoint->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    endpoint->wake.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (endpoint->epoll_fd < 0 || endpoint->wake.fd < 0)
        return hetccl_fail(HETCCL_ERR_SYSTEM,
                           "epoll or eventfd: %s; raise the limit of open files (ulimit -n)",
                           strerror(errno));
    return hetccl_endpoint_watch(endpoint, &endpoint->wake, EPOLLIN);
}

static void undo_start(struct hetccl_endpoint *endpoint)
{
    for (size_t i = 0; i < endpoint->n_listeners; i++)
        hetccl_listener_fini(endpoint, &endpoint->listeners[i]);
    endpoint->n_listeners = 0;
    forget_fd(&endpoint->wake.fd);
    forget_fd(&endpoint->epoll_fd);
}

static enum hetccl_status start(struct hetccl_endpoint *endpoint, const struct hetccl_config *config,
                                const struct hetccl_wire_address *peer)
{
    struct hetccl_list_node *lists[] = {&endpoint->conns,   &endpoint->graveyard, &endpoint->dials,
                                        &endpoint->roots,   &endpoint->meshes,    &endpoint->routes,
                                        &endpoint->eventful};
    enum hetccl_status status;

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        hetccl_list_init(lists[i]);
    memset(&endpoint->early, 0, sizeof(endpoint->early));
    endpoint->n_unproved = endpoint->n_forgotten = 0;
    endpoint->drain_until_ns = 0;
    endpoint->is_paused = endpoint->is_detached = endpoint->has_floods = false;
    endpoint->death_s = config->death_s;
    memcpy(endpoint->socket_ifname, config->socket_ifname, sizeof(endpoint->socket_ifname));
    status = open_epoll(endpoint);
    if (status == HETCCL_OK)
        status = open_listeners(endpoint, config, peer);
    if (status != HETCCL_OK)
        goto undo_start;
    describe_self(endpoint);
    endpoint->state = HETCCL_ENDPOINT_RUNNING;
    status = hetccl_thread_start("hetccl-control", hetccl_service_run, endpoint, &endpoint->thread);
    if (status != HETCCL_OK)
        goto undo_state;
    return HETCCL_OK;
undo_state:
    endpoint->state = HETCCL_ENDPOINT_STOPPED;
undo_start:
    undo_start(endpoint);
    return status;
}

static void log_start(const struct hetccl_endpoint *endpoint)
{
    char text[HETCCL_ADDRESS_TEXT_BYTES];

    for (size_t i = 0; i < endpoint->n_listeners; i++) {
        hetccl_address_print(&endpoint->listeners[i].address, text);
        hetccl_log(HETCCL_LOG_INFO, "bootstrap", "listening at %s, interface %s", text,
                   endpoint->listeners[i].if_name);
    }
}

/* An endpoint that runs stays where it is; a setting that would not have been usable is an error all the
 * same. */
static enum hetccl_status check_settings(const struct hetccl_endpoint *endpoint,
                                         const struct hetccl_config *config)
{
    struct hetccl_netif netifs[HETCCL_WIRE_MAX_ADDRESSES];
    size_t n = 0;

    if (strcmp(endpoint->socket_ifname, config->socket_ifname) == 0)
        return HETCCL_OK;
    hetccl_log(HETCCL_LOG_INFO, "bootstrap",
               "HETCCL_SOCKET_IFNAME '%s' comes too late, this process talks already", config->socket_ifname);
    return hetccl_netif_choose(config, NULL, netifs, &n);
}

enum hetccl_status hetccl_endpoint_get(const struct hetccl_config *config,
                                       const struct hetccl_wire_address *peer, struct hetccl_endpoint **out)
{
    struct hetccl_endpoint *endpoint = &the_endpoint;
    enum hetccl_status status = HETCCL_OK;

    pthread_once(&once, prepare_process);
    if (!is_prepared)
        return hetccl_fail(HETCCL_ERR_SYSTEM, "no source of random numbers (libsodium)");
    hetccl_endpoint_lock(endpoint);
    while (endpoint->state == HETCCL_ENDPOINT_STOPPING)
        pthread_cond_wait(&endpoint->changed, &endpoint->lock);
    if (endpoint->state == HETCCL_ENDPOINT_STOPPED) {
        status = start(endpoint, config, peer);
        if (status == HETCCL_OK)
            log_start(endpoint);
    } else {
        status = check_settings(endpoint, config);
    }
    if (status == HETCCL_OK) {
        endpoint->n_users++;
        *out = endpoint;
    }
    hetccl_endpoint_unlock(endpoint);
    return status;
}

/* The last user has gone. True: stop at once. A peer that reads slowly, or isn't connected yet, gets a moment
 * more. */
static bool begin_stop(struct hetccl_endpoint *endpoint)
{
    bool is_flushed = hetccl_route_is_flushed(endpoint, 0);

    if (is_flushed)
        endpoint->state = HETCCL_ENDPOINT_STOPPING;
    else
        endpoint->drain_until_ns = hetccl_now_ns() + drain_ns;
    hetccl_endpoint_wake(endpoint);
    return is_flushed;
}

void hetccl_endpoint_put(struct hetccl_endpoint *endpoint)
{
    bool is_stopping;
    pthread_t thread;

    hetccl_endpoint_lock(endpoint);
    is_stopping = --endpoint->n_users == 0 && begin_stop(endpoint);
    thread = endpoint->thread;
    hetccl_endpoint_unlock(endpoint);
    if (is_stopping)
        pthread_join(thread, NULL);
}

void hetccl_endpoint_put_inside(struct hetccl_endpoint *endpoint)
{
    if (--endpoint->n_users == 0)
        endpoint->is_detached = begin_stop(endpoint);
}

void hetccl_endpoint_tick(struct hetccl_endpoint *endpoint, uint64_t now_ns)
{
    if (endpoint->drain_until_ns == 0 || endpoint->state != HETCCL_ENDPOINT_RUNNING)
        return;
    if (endpoint->n_users > 0) { /* somebody came again */
        endpoint->drain_until_ns = 0;
    } else if (now_ns >= endpoint->drain_until_ns || hetccl_route_is_flushed(endpoint, 0)) {
        endpoint->state = HETCCL_ENDPOINT_STOPPING;
        endpoint->is_detached = true;
    }
}

enum hetccl_status hetccl_endpoint_describe(const struct hetccl_config *config, char *out, size_t bytes)
{
    struct hetccl_endpoint *endpoint = NULL;
    char address[HETCCL_ADDRESS_TEXT_BYTES];
    enum hetccl_status status = hetccl_endpoint_get(config, NULL, &endpoint);

    if (status != HETCCL_OK)
        return status;
    hetccl_endpoint_lock(endpoint);
    hetccl_address_print(&endpoint->listeners[0].address, address);
    (void)snprintf(out, bytes, "%s (%s)", address, endpoint->listeners[0].if_name);
    hetccl_endpoint_unlock(endpoint);
    hetccl_endpoint_put(endpoint);
    return HETCCL_OK;
}
