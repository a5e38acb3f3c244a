/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_BOOTSTRAP_ENDPOINT_H
#define HETCCL_BOOTSTRAP_ENDPOINT_H

/*
 * What this process talks from: listeners, one service thread, and all connections, shared by every mesh and
 * root of the process. It lives from the first use to the last (meshes and roots count), so threads and
 * descriptors come back.
 *
 * Locking: one lock guards this structure and every object of this folder. The service thread holds it but
 * while it sleeps and while it runs a user's event. "Locked" below means that the caller holds it.
 *
 * After fork the child's copy is empty: the descriptors are closed there (else a dead parent's connections
 * would seem alive), nothing is sent, and meshes of the parent are dead weight. See hetccl_mesh_is_foreign().
 */

#include <net/if.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "bootstrap/frame.h"
#include "bootstrap/list.h"
#include "wire/contact.h"

/* Something in the epoll set; the first member of what it is. ready runs on the service thread, locked. */
struct hetccl_source {
    int fd;
    void (*ready)(struct hetccl_source *source, uint32_t events);
};

struct hetccl_listener {
    struct hetccl_source source;
    struct hetccl_wire_address address;
    char if_name[IF_NAMESIZE];
};

enum hetccl_endpoint_state { HETCCL_ENDPOINT_STOPPED = 0, HETCCL_ENDPOINT_RUNNING, HETCCL_ENDPOINT_STOPPING };

enum { HETCCL_FORGOTTEN_KEYS = 256 };

struct hetccl_endpoint {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* state */
    enum hetccl_endpoint_state state;
    unsigned n_users;
    pthread_t thread;
    int epoll_fd;
    struct hetccl_source wake; /* an eventfd */
    atomic_bool is_woken;      /* a wake-up is under way: spares the system call */
    uint64_t drain_until_ns;   /* no users any more, but something is still to be sent; 0: not so */
    bool is_detached;          /* the service thread stops itself and nobody joins it */
    uint64_t death_s;
    char socket_ifname[HETCCL_CONFIG_TEXT_BYTES];
    struct hetccl_wire_contact self;
    struct hetccl_listener listeners[HETCCL_WIRE_MAX_ADDRESSES];
    size_t n_listeners;
    bool is_paused;    /* listeners are out of the epoll set until the next tick */
    size_t n_unproved; /* accepted connections that haven't proved who they are */
    struct hetccl_list_node conns, graveyard, dials, roots, meshes, routes;
    struct hetccl_list_node eventful;          /* meshes that owe an event */
    bool has_floods;                           /* a mesh owes its neighbours a failure */
    struct hetccl_frame_queue early;           /* frames for meshes that don't exist here yet */
    uint64_t forgotten[HETCCL_FORGOTTEN_KEYS]; /* meshes that were here: late frames for them are dropped */
    size_t n_forgotten;
};

/*
 * hetccl_endpoint_get -- one more user; the first starts the endpoint.
 *
 * peer [in] an address that will have to be reached, or NULL
 * Errors: HETCCL_ERR_USAGE (interface, port range), HETCCL_ERR_SYSTEM. Not locked.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_endpoint_get(const struct hetccl_config *config,
                                                        const struct hetccl_wire_address *peer,
                                                        struct hetccl_endpoint **out);

/*
 * One user less; the last stops the endpoint and waits for the service thread. When something is still to be
 * sent, the endpoint stops by itself a little later instead. Not locked, not on the service thread.
 */
void hetccl_endpoint_put(struct hetccl_endpoint *endpoint);

/* The same for objects that end on the service thread. Locked. */
void hetccl_endpoint_put_inside(struct hetccl_endpoint *endpoint);

void hetccl_endpoint_lock(struct hetccl_endpoint *endpoint);
void hetccl_endpoint_unlock(struct hetccl_endpoint *endpoint);

/* Stops the endpoint if it has no users and nothing left to send, or has had its time. Service thread,
 * locked. */
void hetccl_endpoint_tick(struct hetccl_endpoint *endpoint, uint64_t now_ns);

/* The endpoint of this process, running or not. */
struct hetccl_endpoint *hetccl_endpoint_find(void);

/* Makes the service thread look at everything once more. Any thread, locked or not. */
void hetccl_endpoint_wake(struct hetccl_endpoint *endpoint);

/* The epoll set. Locked. */
HETCCL_NODISCARD enum hetccl_status hetccl_endpoint_watch(struct hetccl_endpoint *endpoint,
                                                          struct hetccl_source *source, uint32_t events);
void hetccl_endpoint_rewatch(struct hetccl_endpoint *endpoint, struct hetccl_source *source, uint32_t events);
void hetccl_endpoint_unwatch(struct hetccl_endpoint *endpoint, struct hetccl_source *source);

/* Takes the listeners out of the epoll set until the next tick. Locked. */
void hetccl_endpoint_pause(struct hetccl_endpoint *endpoint);

/* The service thread's body; arg is the endpoint. */
void *hetccl_service_run(void *arg);

#endif
