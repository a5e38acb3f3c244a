/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "bootstrap/mesh_internal.h"
#include "bootstrap/route.h"

/*
 * How a failure travels: whoever detects it fails its own mesh, and the service thread sends one record to
 * each neighbour rank +- 2^k, which does the same when it hears of it for the first time. Whatever single
 * process is missing, the others stay connected through their neighbours.
 */

static void become_eventful(struct hetccl_mesh *mesh)
{
    struct hetccl_endpoint *endpoint = mesh->endpoint;

    if (mesh->eventful_node.next == NULL)
        hetccl_list_append(&endpoint->eventful, &mesh->eventful_node);
    hetccl_endpoint_wake(endpoint);
}

void hetccl_mesh_owe_arrived(struct hetccl_mesh *mesh)
{
    mesh->owes_arrived = true;
    become_eventful(mesh);
}

void hetccl_mesh_fail(struct hetccl_mesh *mesh, enum hetccl_status status, uint32_t culprit_rank,
                      const char *text)
{
    if (atomic_load_explicit(&mesh->failure_status, memory_order_relaxed) != HETCCL_OK)
        return;
    mesh->culprit_rank = culprit_rank;
    (void)snprintf(mesh->failure_text, sizeof(mesh->failure_text), "%s", text);
    atomic_store_explicit(&mesh->failure_status, (int)status, memory_order_release);
    mesh->owes_flood = true;
    /* A create that hasn't returned reports by its return value. */
    mesh->owes_failed = mesh->stage == HETCCL_MESH_STANDING;
    mesh->endpoint->has_floods = true;
    pthread_cond_broadcast(&mesh->changed);
    become_eventful(mesh);
}

void hetccl_mesh_flood(struct hetccl_mesh *mesh)
{
    uint32_t neighbours[HETCCL_WIRE_MAX_NEIGHBOURS];
    uint32_t n = hetccl_mesh_neighbours(mesh->rank, mesh->n_ranks, neighbours);
    struct hetccl_wire_failure record = {.culprit_rank = mesh->culprit_rank};
    uint8_t payload[HETCCL_WIRE_FAILURE_BYTES];

    mesh->owes_flood = false;
    if (mesh->stage == HETCCL_MESH_JOINING)
        return; /* the root tells the others */
    record.status = (enum hetccl_status)atomic_load_explicit(&mesh->failure_status, memory_order_relaxed);
    memcpy(record.text, mesh->failure_text, sizeof(record.text) - 1);
    hetccl_wire_failure_encode(&record, payload);
    for (uint32_t i = 0; i < n; i++) {
        const struct hetccl_mesh_peer *peer = &mesh->peers[neighbours[i]];
        struct hetccl_wire_frame head = {.kind = HETCCL_FRAME_FAILURE,
                                         .mesh_key = mesh->key,
                                         .src_rank = mesh->rank,
                                         .dst_rank = neighbours[i],
                                         .payload_bytes = sizeof(payload)};

        if (peer->is_known && !peer->is_dead && !peer->has_left)
            (void)!hetccl_mesh_post_bytes(mesh, &head, payload);
    }
}

static void lose_process(struct hetccl_mesh *mesh, uint64_t process_key, enum hetccl_status status,
                         const char *what, const char *reason)
{
    uint32_t culprit_rank = UINT32_MAX;
    char rank_text[HETCCL_RANK_TEXT_BYTES];
    char text[HETCCL_ERROR_TEXT_BYTES];

    for (uint32_t rank = 0; rank < mesh->n_ranks; rank++) {
        struct hetccl_mesh_peer *peer = &mesh->peers[rank];

        if (!peer->is_known || peer->contact.process_key != process_key)
            continue;
        peer->is_dead = true;
        if (!peer->has_left && culprit_rank == UINT32_MAX)
            culprit_rank = rank;
    }
    if (culprit_rank == UINT32_MAX)
        return;
    hetccl_mesh_print_rank(mesh, culprit_rank, rank_text);
    (void)snprintf(text, sizeof(text), "%s %s (%s)", rank_text, what, reason);
    hetccl_mesh_fail(mesh, status, culprit_rank, text);
}

void hetccl_meshes_lose_process(struct hetccl_endpoint *endpoint, uint64_t process_key,
                                enum hetccl_status status, const char *what, const char *reason)
{
    for (struct hetccl_list_node *node = endpoint->meshes.next; node != &endpoint->meshes; node = node->next)
        lose_process((struct hetccl_mesh *)node, process_key, status, what, reason);
}

/* Sending to a rank of this process may fail that rank's mesh too: until nobody owes anything. */
static void run_floods(struct hetccl_endpoint *endpoint)
{
    while (endpoint->has_floods) {
        endpoint->has_floods = false;
        for (struct hetccl_list_node *node = endpoint->meshes.next; node != &endpoint->meshes;
             node = node->next) {
            struct hetccl_mesh *mesh = (struct hetccl_mesh *)node;

            if (mesh->owes_flood)
                hetccl_mesh_flood(mesh);
        }
    }
}

static void run_events_of(struct hetccl_mesh *mesh)
{
    struct hetccl_endpoint *endpoint = mesh->endpoint;
    bool owes_failed = mesh->owes_failed && mesh->events.failed != NULL;
    bool owes_arrived = mesh->owes_arrived && mesh->events.arrived != NULL;
    enum hetccl_status status =
        (enum hetccl_status)atomic_load_explicit(&mesh->failure_status, memory_order_relaxed);

    mesh->owes_failed = mesh->owes_arrived = false;
    if (!owes_failed && !owes_arrived)
        return;
    mesh->is_in_event = true;
    hetccl_endpoint_unlock(endpoint);
    /* The failure's text and culprit don't change any more, and destroy waits for is_in_event. */
    if (owes_failed)
        mesh->events.failed(mesh->events.context, status, mesh->culprit_rank, mesh->failure_text);
    if (owes_arrived)
        mesh->events.arrived(mesh->events.context);
    hetccl_endpoint_lock(endpoint);
    mesh->is_in_event = false;
    pthread_cond_broadcast(&mesh->changed);
}

void hetccl_meshes_run_events(struct hetccl_endpoint *endpoint)
{
    run_floods(endpoint);
    while (!hetccl_list_is_empty(&endpoint->eventful)) {
        struct hetccl_list_node *node = endpoint->eventful.next;

        hetccl_list_remove(node);
        run_events_of((struct hetccl_mesh *)((char *)node - offsetof(struct hetccl_mesh, eventful_node)));
        run_floods(endpoint);
    }
}

void hetccl_mesh_report_failure(struct hetccl_mesh *mesh, enum hetccl_status status, uint32_t culprit_rank,
                                const char *text)
{
    if (hetccl_mesh_is_foreign(mesh))
        return;
    hetccl_endpoint_lock(mesh->endpoint);
    hetccl_mesh_fail(mesh, hetccl_is_error(status) ? status : HETCCL_ERR_INTERNAL, culprit_rank, text);
    hetccl_endpoint_unlock(mesh->endpoint);
}

enum hetccl_status hetccl_mesh_failure(const struct hetccl_mesh *mesh, char *text_out, uint32_t *culprit_out)
{
    int status = atomic_load_explicit(&mesh->failure_status, memory_order_acquire);

    if (status == HETCCL_OK)
        return HETCCL_OK;
    /* Written once, before the status. */
    if (text_out != NULL)
        memcpy(text_out, mesh->failure_text, sizeof(mesh->failure_text));
    if (culprit_out != NULL)
        *culprit_out = mesh->culprit_rank;
    return (enum hetccl_status)status;
}
