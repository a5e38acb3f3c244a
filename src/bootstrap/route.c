/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/route.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/time.h"

/* How long a process that is known to have lived may refuse connections. */
static const uint64_t refusal_ns = 5ull * HETCCL_NS_PER_S;

struct route {
    struct hetccl_list_node node;
    struct hetccl_endpoint *endpoint;
    uint64_t process_key;
    struct hetccl_conn *conn; /* the one sent through */
    struct hetccl_dial *dial;
    struct hetccl_frame_queue pending; /* while dial */
};

static void conn_frame(struct hetccl_conn *conn, struct hetccl_frame *frame);
static void conn_closed(struct hetccl_conn *conn, enum hetccl_conn_end end, const char *reason);

static const struct hetccl_conn_ops control_ops = {.frame = conn_frame, .closed = conn_closed};

static struct route *find(struct hetccl_endpoint *endpoint, uint64_t process_key)
{
    for (struct hetccl_list_node *node = endpoint->routes.next; node != &endpoint->routes;
         node = node->next) {
        struct route *route = (struct route *)node;

        if (route->process_key == process_key)
            return route;
    }
    return NULL;
}

static struct route *find_or_create(struct hetccl_endpoint *endpoint, uint64_t process_key)
{
    struct route *route = find(endpoint, process_key);

    if (route != NULL || hetccl_alloc(1, sizeof(*route), &route) != HETCCL_OK)
        return route;
    route->endpoint = endpoint;
    route->process_key = process_key;
    hetccl_list_append(&endpoint->routes, &route->node);
    return route;
}

static void destroy(struct route *route)
{
    hetccl_dial_cancel(route->dial);
    hetccl_frame_queue_clear(&route->pending);
    hetccl_list_remove(&route->node);
    hetccl_free(route);
}

static void lose(struct hetccl_endpoint *endpoint, uint64_t process_key, const char *what, const char *reason)
{
    hetccl_meshes_lose_process(endpoint, process_key, HETCCL_ERR_REMOTE, what, reason);
}

static void conn_frame(struct hetccl_conn *conn, struct hetccl_frame *frame)
{
    hetccl_mesh_deliver(conn->endpoint, frame, conn->peer_process_key);
}

static void conn_closed(struct hetccl_conn *conn, enum hetccl_conn_end end, const char *reason)
{
    struct route *route = find(conn->endpoint, conn->peer_process_key);

    (void)end;
    if (route != NULL && (route->conn == conn || route->conn == NULL))
        destroy(route);
    lose(conn->endpoint, conn->peer_process_key, "died", reason);
}

static void dial_connected(void *owner, struct hetccl_conn *conn)
{
    struct route *route = owner;
    struct hetccl_frame *frame;

    route->dial = NULL;
    route->conn = conn;
    conn->ops = &control_ops;
    conn->owner = NULL; /* routes are found by process */
    while ((frame = hetccl_frame_queue_pop(&route->pending)) != NULL)
        hetccl_conn_send(conn, frame);
    hetccl_meshes_poke(route->endpoint);
}

static void dial_failed(void *owner, enum hetccl_status status, const char *text)
{
    struct route *route = owner;
    struct hetccl_endpoint *endpoint = route->endpoint;
    uint64_t process_key = route->process_key;

    route->dial = NULL;
    destroy(route);
    lose(endpoint, process_key, status == HETCCL_ERR_USAGE ? "has left the communicator" : "can't be reached",
         text);
}

static const struct hetccl_dial_ops route_dial_ops = {.connected = dial_connected, .failed = dial_failed};

static enum hetccl_status start_dial(struct route *route, const struct hetccl_mesh *mesh, uint32_t dst_rank)
{
    const struct hetccl_wire_contact *contact = &mesh->peers[dst_rank].contact;
    struct hetccl_dial_args args = {
        .addresses = contact->addresses,
        .n_addresses = contact->n_addresses,
        .expected_process_key = contact->process_key,
        .hello = {.role = HETCCL_ROLE_CONTROL,
                  .job_id = mesh->job_id,
                  .mesh_key = mesh->key,
                  .src_rank = mesh->rank,
                  .dst_rank = dst_rank},
        .key = mesh->job_key,
        .give_up_ns = refusal_ns,
        .ops = &route_dial_ops,
        .owner = route,
    };

    return hetccl_dial_start(route->endpoint, &args, &route->dial);
}

void hetccl_route_send(struct hetccl_mesh *mesh, uint32_t dst_rank, struct hetccl_frame *frame)
{
    uint64_t process_key = mesh->peers[dst_rank].contact.process_key;
    struct route *route = find_or_create(mesh->endpoint, process_key);

    if (route != NULL && route->conn != NULL) {
        hetccl_conn_send(route->conn, frame);
        return;
    }
    if (route != NULL && (route->dial != NULL || start_dial(route, mesh, dst_rank) == HETCCL_OK)) {
        hetccl_frame_queue_push(&route->pending, frame);
        return;
    }
    hetccl_frame_destroy(frame);
    hetccl_mesh_fail(mesh, HETCCL_ERR_SYSTEM, mesh->rank, hetccl_last_error_thread());
}

void hetccl_route_send_everywhere(struct hetccl_endpoint *endpoint, uint64_t process_key,
                                  const struct hetccl_wire_frame *head)
{
    struct route *route = find(endpoint, process_key);
    struct hetccl_frame *frame = NULL;

    if (route != NULL && route->conn == NULL && hetccl_frame_create(head, NULL, &frame) == HETCCL_OK)
        hetccl_frame_queue_push(&route->pending, frame);
    hetccl_conns_send_copies(endpoint, &control_ops, process_key, head);
}

bool hetccl_route_is_flushed(struct hetccl_endpoint *endpoint, uint64_t process_key)
{
    for (struct hetccl_list_node *node = endpoint->routes.next; node != &endpoint->routes;
         node = node->next) {
        const struct route *route = (const struct route *)node;

        if (process_key != 0 && route->process_key != process_key)
            continue;
        if (route->pending.first != NULL || (route->conn != NULL && route->conn->out.first != NULL))
            return false;
    }
    return true;
}

bool hetccl_route_exists(struct hetccl_endpoint *endpoint, uint64_t process_key)
{
    return find(endpoint, process_key) != NULL;
}

void hetccl_route_adopt(struct hetccl_conn *conn)
{
    struct route *route = find_or_create(conn->endpoint, conn->peer_process_key);

    conn->ops = &control_ops;
    if (route == NULL) {
        hetccl_conn_drop(conn, HETCCL_CONN_LOST, "no memory");
        return;
    }
    if (route->conn == NULL && route->dial == NULL)
        route->conn = conn;
}

void hetccl_routes_destroy(struct hetccl_endpoint *endpoint)
{
    while (!hetccl_list_is_empty(&endpoint->routes))
        destroy((struct route *)endpoint->routes.next);
}
