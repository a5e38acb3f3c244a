/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/mesh.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/time.h"
#include "bootstrap/mesh_internal.h"
#include "bootstrap/route.h"
#include "bootstrap/stream.h"

/* How late a waiter may notice that it is cancelled. */
static const uint64_t nap_ns = 50ull * HETCCL_NS_PER_MS;

bool hetccl_mesh_is_foreign(const struct hetccl_mesh *mesh)
{
    return mesh->pid != getpid();
}

uint32_t hetccl_mesh_neighbours(uint32_t rank, uint32_t n_ranks, uint32_t out[HETCCL_WIRE_MAX_NEIGHBOURS])
{
    uint32_t n = 0;

    for (uint64_t distance = 1; distance < n_ranks && n + 2 <= HETCCL_WIRE_MAX_NEIGHBOURS; distance *= 2) {
        uint32_t pair[2] = {(uint32_t)((rank + distance) % n_ranks),
                            (uint32_t)((rank + n_ranks - distance) % n_ranks)};

        for (int side = 0; side < 2; side++) {
            uint32_t i = 0;

            while (i < n && out[i] != pair[side])
                i++;
            if (i == n)
                out[n++] = pair[side];
        }
    }
    return n;
}

void hetccl_mesh_print_rank(const struct hetccl_mesh *mesh, uint32_t rank, char out[HETCCL_RANK_TEXT_BYTES])
{
    const struct hetccl_mesh_peer *peer = &mesh->peers[rank];

    if (peer->is_known)
        (void)snprintf(out, HETCCL_RANK_TEXT_BYTES, "rank %u on host %s", rank, peer->contact.host_name);
    else
        (void)snprintf(out, HETCCL_RANK_TEXT_BYTES, "rank %u", rank);
}

const uint8_t *hetccl_mesh_job_key(struct hetccl_endpoint *endpoint, uint64_t job_id)
{
    for (struct hetccl_list_node *node = endpoint->meshes.next; node != &endpoint->meshes;
         node = node->next) {
        struct hetccl_mesh *mesh = (struct hetccl_mesh *)node;

        if (mesh->job_id == job_id)
            return mesh->job_key;
    }
    return NULL;
}

bool hetccl_mesh_is_cancelled(const struct hetccl_mesh *mesh)
{
    return mesh->is_cancelled != NULL && atomic_load_explicit(mesh->is_cancelled, memory_order_acquire);
}

void hetccl_mesh_nap(struct hetccl_mesh *mesh, uint64_t deadline_ns)
{
    uint64_t now_ns = hetccl_now_ns();
    uint64_t until_ns = now_ns + nap_ns < deadline_ns ? now_ns + nap_ns : deadline_ns;
    struct timespec until = {.tv_sec = (time_t)(until_ns / HETCCL_NS_PER_S),
                             .tv_nsec = (long)(until_ns % HETCCL_NS_PER_S)};

    (void)pthread_cond_timedwait(&mesh->changed, &mesh->endpoint->lock, &until);
}

enum hetccl_status hetccl_mesh_wait(struct hetccl_mesh *mesh, uint64_t deadline_ns, bool *is_late_out)
{
    enum hetccl_status status = hetccl_mesh_failure(mesh, NULL, NULL);

    *is_late_out = false;
    if (status != HETCCL_OK)
        return hetccl_fail_quietly(status, "%s", mesh->failure_text);
    if (hetccl_mesh_is_cancelled(mesh))
        return hetccl_fail_quietly(HETCCL_ERR_ABORTED,
                                   "rank %u of the communicator was aborted by its own process", mesh->rank);
    *is_late_out = hetccl_now_ns() >= deadline_ns;
    if (*is_late_out)
        return HETCCL_ERR_TIMEOUT;
    hetccl_mesh_nap(mesh, deadline_ns);
    return HETCCL_AGAIN;
}

void hetccl_meshes_poke(struct hetccl_endpoint *endpoint)
{
    for (struct hetccl_list_node *node = endpoint->meshes.next; node != &endpoint->meshes; node = node->next)
        pthread_cond_broadcast(&((struct hetccl_mesh *)node)->changed);
}

/* ---- life ---- */

static void init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

enum hetccl_status hetccl_mesh_setup(const struct hetccl_mesh_setup *setup, struct hetccl_mesh **out)
{
    struct hetccl_endpoint *endpoint = setup->endpoint;
    struct hetccl_mesh *mesh = NULL;
    enum hetccl_status status = hetccl_alloc(1, sizeof(*mesh), &mesh);

    if (status != HETCCL_OK)
        return status;
    status = hetccl_alloc(setup->n_ranks, sizeof(mesh->peers[0]), &mesh->peers);
    if (status != HETCCL_OK)
        goto undo_mesh;
    mesh->endpoint = endpoint;
    mesh->pid = getpid();
    mesh->rank = setup->rank;
    mesh->n_ranks = setup->n_ranks;
    mesh->is_cancelled = setup->is_cancelled;
    mesh->events = setup->events;
    init_condition(&mesh->changed);
    hetccl_list_init(&mesh->streams);
    hetccl_endpoint_lock(endpoint);
    mesh->peers[mesh->rank].contact = endpoint->self;
    mesh->peers[mesh->rank].is_known = true;
    hetccl_list_append(&endpoint->meshes, &mesh->node);
    hetccl_endpoint_unlock(endpoint);
    *out = mesh;
    return HETCCL_OK;
undo_mesh:
    hetccl_free(mesh);
    return status;
}

static void destroy(struct hetccl_mesh *mesh)
{
    struct hetccl_endpoint *endpoint = mesh->endpoint;

    hetccl_endpoint_lock(endpoint);
    while (mesh->is_in_event)
        pthread_cond_wait(&mesh->changed, &endpoint->lock);
    hetccl_streams_abandon(mesh);
    hetccl_list_remove(&mesh->node);
    hetccl_list_remove(&mesh->eventful_node);
    if (mesh->stage != HETCCL_MESH_JOINING)
        hetccl_mesh_remember_gone(mesh);
    hetccl_endpoint_unlock(endpoint);
    for (uint32_t rank = 0; rank < mesh->n_ranks; rank++)
        hetccl_frame_queue_clear(&mesh->peers[rank].inbox);
    hetccl_frame_queue_clear(&mesh->gathers);
    pthread_cond_destroy(&mesh->changed);
    hetccl_free(mesh->peers);
    sodium_memzero(mesh->job_key, sizeof(mesh->job_key));
    hetccl_free(mesh);
    hetccl_endpoint_put(endpoint);
}

/* Peers that aren't connected can't notice that we go, so they needn't be told. */
static void say_goodbye(struct hetccl_mesh *mesh)
{
    struct hetccl_endpoint *endpoint = mesh->endpoint;

    for (uint32_t rank = 0; rank < mesh->n_ranks; rank++) {
        const struct hetccl_mesh_peer *peer = &mesh->peers[rank];
        struct hetccl_wire_frame head = {
            .kind = HETCCL_FRAME_LEAVE, .mesh_key = mesh->key, .src_rank = mesh->rank, .dst_rank = rank};
        bool is_local = peer->contact.process_key == endpoint->self.process_key;

        if (rank == mesh->rank || !peer->is_known || peer->is_dead)
            continue;
        if (is_local)
            (void)!hetccl_mesh_post_bytes(mesh, &head, NULL);
        else if (hetccl_route_exists(endpoint, peer->contact.process_key))
            hetccl_route_send_everywhere(endpoint, peer->contact.process_key, &head);
    }
}

/* Neighbours that have the mesh already must not wait for us; who has caused it is said by the text. */
static void tell_undone(struct hetccl_mesh *mesh, enum hetccl_status status, const char *text)
{
    char told[HETCCL_ERROR_TEXT_BYTES];

    if (status == HETCCL_ERR_ABORTED) {
        (void)snprintf(told, sizeof(told), "rank %u gave up while the communicator was being created: %.900s",
                       mesh->rank, text);
        hetccl_mesh_fail(mesh, HETCCL_ERR_REMOTE, mesh->rank, told);
    } else {
        hetccl_mesh_fail(mesh, status, mesh->rank, text);
    }
    if (mesh->owes_flood)
        hetccl_mesh_flood(mesh);
    say_goodbye(mesh);
}

void hetccl_mesh_undo(struct hetccl_mesh *mesh, enum hetccl_status status)
{
    char text[HETCCL_ERROR_TEXT_BYTES];

    (void)snprintf(text, sizeof(text), "%s", hetccl_last_error_thread());
    hetccl_endpoint_lock(mesh->endpoint);
    hetccl_join_stop(mesh, status, text);
    if (mesh->stage != HETCCL_MESH_JOINING)
        tell_undone(mesh, status, text);
    hetccl_endpoint_unlock(mesh->endpoint);
    destroy(mesh);
}

void hetccl_mesh_destroy(struct hetccl_mesh *mesh)
{
    if (mesh == NULL || hetccl_mesh_is_foreign(mesh))
        return;
    hetccl_endpoint_lock(mesh->endpoint);
    if (mesh->owes_flood)
        hetccl_mesh_flood(mesh);
    say_goodbye(mesh);
    hetccl_endpoint_unlock(mesh->endpoint);
    destroy(mesh);
}

/* ---- all meet ---- */

static enum hetccl_status take_contacts(struct hetccl_mesh *mesh, const uint8_t *all)
{
    struct hetccl_wire_contact contact;

    for (uint32_t rank = 0; rank < mesh->n_ranks; rank++) {
        struct hetccl_wire_reader reader =
            hetccl_wire_reader(all + (size_t)rank * HETCCL_WIRE_CONTACT_BYTES, HETCCL_WIRE_CONTACT_BYTES);

        if (!hetccl_wire_get_contact(&reader, &contact))
            return hetccl_fail(HETCCL_ERR_INTERNAL, "the contact of rank %u makes no sense", rank);
        mesh->peers[rank].contact = contact;
        mesh->peers[rank].is_known = true;
    }
    return HETCCL_OK;
}

static enum hetccl_status exchange_contacts(struct hetccl_mesh *mesh, uint64_t deadline_ns)
{
    uint8_t mine[HETCCL_WIRE_CONTACT_BYTES];
    struct hetccl_wire_writer writer = hetccl_wire_writer(mine, sizeof(mine));
    uint8_t *all = NULL;
    enum hetccl_status status = hetccl_alloc(mesh->n_ranks, sizeof(mine), &all);

    if (status != HETCCL_OK)
        return status;
    hetccl_wire_put_contact(&writer, &mesh->endpoint->self);
    status = hetccl_mesh_gather(mesh, mine, sizeof(mine), all, deadline_ns);
    if (status == HETCCL_OK) {
        hetccl_endpoint_lock(mesh->endpoint);
        status = take_contacts(mesh, all);
        hetccl_endpoint_unlock(mesh->endpoint);
    }
    hetccl_free(all);
    return status;
}

enum hetccl_status hetccl_mesh_stand(struct hetccl_mesh *mesh, uint64_t deadline_ns)
{
    enum hetccl_status status = exchange_contacts(mesh, deadline_ns);

    if (status == HETCCL_OK) {
        hetccl_endpoint_lock(mesh->endpoint);
        status = hetccl_mesh_failure(mesh, NULL, NULL);
        if (status == HETCCL_OK)
            mesh->stage = HETCCL_MESH_STANDING;
        else
            status = hetccl_fail_quietly(status, "%s", mesh->failure_text);
        hetccl_endpoint_unlock(mesh->endpoint);
    }
    if (status != HETCCL_OK)
        hetccl_mesh_undo(mesh, status);
    return status;
}

uint32_t hetccl_mesh_rank(const struct hetccl_mesh *mesh)
{
    return mesh->rank;
}

uint32_t hetccl_mesh_n_ranks(const struct hetccl_mesh *mesh)
{
    return mesh->n_ranks;
}

uint64_t hetccl_mesh_key(const struct hetccl_mesh *mesh)
{
    return mesh->key;
}

/* Contacts don't change once the mesh stands. */
const char *hetccl_mesh_host_name(const struct hetccl_mesh *mesh, uint32_t rank)
{
    return rank < mesh->n_ranks ? mesh->peers[rank].contact.host_name : "";
}

bool hetccl_mesh_is_same_process(const struct hetccl_mesh *mesh, uint32_t rank)
{
    return rank < mesh->n_ranks &&
           mesh->peers[rank].contact.process_key == mesh->peers[mesh->rank].contact.process_key;
}
