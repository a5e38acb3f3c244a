/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/memory.h"
#include "bootstrap/mesh_internal.h"
#include "bootstrap/route.h"

/* Bounds on what is kept for somebody who doesn't fetch it. */
enum {
    MAX_INBOX_FRAMES = 1 << 16,
    MAX_EARLY_FRAMES = 1 << 14,
    MAX_EARLY_BYTES = 128 << 20,
};

struct hetccl_mesh *hetccl_mesh_find(struct hetccl_endpoint *endpoint, uint64_t key, uint32_t rank)
{
    for (struct hetccl_list_node *node = endpoint->meshes.next; node != &endpoint->meshes;
         node = node->next) {
        struct hetccl_mesh *mesh = (struct hetccl_mesh *)node;

        if (mesh->stage != HETCCL_MESH_JOINING && mesh->key == key && mesh->rank == rank)
            return mesh;
    }
    return NULL;
}

/* ---- sending ---- */

void hetccl_mesh_post(struct hetccl_mesh *mesh, uint32_t dst_rank, struct hetccl_frame *frame)
{
    struct hetccl_endpoint *endpoint = mesh->endpoint;

    if (mesh->peers[dst_rank].contact.process_key == endpoint->self.process_key)
        hetccl_mesh_deliver(endpoint, frame, endpoint->self.process_key);
    else
        hetccl_route_send(mesh, dst_rank, frame);
}

enum hetccl_status hetccl_mesh_post_bytes(struct hetccl_mesh *mesh, const struct hetccl_wire_frame *head,
                                          const void *payload)
{
    struct hetccl_frame *frame = NULL;
    enum hetccl_status status = hetccl_frame_create(head, payload, &frame);

    if (status == HETCCL_OK)
        hetccl_mesh_post(mesh, head->dst_rank, frame);
    return status;
}

/* ---- frames that come ---- */

/* Mesh and rank in one word. */
static uint64_t mix(uint64_t key, uint32_t rank)
{
    return key ^ (rank + 1) * 0x9e3779b97f4a7c15ull;
}

void hetccl_mesh_remember_gone(struct hetccl_mesh *mesh)
{
    struct hetccl_endpoint *endpoint = mesh->endpoint;

    endpoint->forgotten[endpoint->n_forgotten++ % HETCCL_FORGOTTEN_KEYS] = mix(mesh->key, mesh->rank);
}

static bool was_here(const struct hetccl_endpoint *endpoint, const struct hetccl_wire_frame *head)
{
    size_t n = hetccl_min_size(endpoint->n_forgotten, HETCCL_FORGOTTEN_KEYS);

    for (size_t i = 0; i < n; i++)
        if (endpoint->forgotten[i] == mix(head->mesh_key, head->dst_rank))
            return true;
    return false;
}

/*
 * A peer may be ahead of us by one step of creation and send its first round, or its failure, before our mesh
 * exists. Anything else comes only when all ranks stand, so it is late, not early.
 */
static void keep_early(struct hetccl_endpoint *endpoint, struct hetccl_frame *frame)
{
    struct hetccl_frame_queue *early = &endpoint->early;

    if ((frame->head.kind != HETCCL_FRAME_GATHER && frame->head.kind != HETCCL_FRAME_FAILURE) ||
        was_here(endpoint, &frame->head)) {
        hetccl_frame_destroy(frame);
        return;
    }
    hetccl_frame_queue_push(early, frame);
    while (early->n_frames > MAX_EARLY_FRAMES || early->payload_bytes > MAX_EARLY_BYTES) {
        hetccl_log(HETCCL_LOG_WARN, "bootstrap",
                   "too much came for communicators that don't exist here; oldest dropped");
        hetccl_frame_destroy(hetccl_frame_queue_pop(early));
    }
}

static void take_failure(struct hetccl_mesh *mesh, const struct hetccl_frame *frame)
{
    struct hetccl_wire_failure record;

    if (hetccl_wire_failure_decode(frame->payload, frame->head.payload_bytes, &record))
        hetccl_mesh_fail(mesh, record.status, record.culprit_rank, record.text);
}

static void take_message(struct hetccl_mesh *mesh, struct hetccl_frame *frame)
{
    if (mesh->inbox_frames >= MAX_INBOX_FRAMES) {
        hetccl_frame_destroy(frame);
        hetccl_mesh_fail(mesh, HETCCL_ERR_INTERNAL, mesh->rank,
                         "too many control messages wait to be received");
        return;
    }
    mesh->inbox_frames++;
    hetccl_frame_queue_push(&mesh->peers[frame->head.src_rank].inbox, frame);
    hetccl_mesh_owe_arrived(mesh);
}

static void take_frame(struct hetccl_mesh *mesh, struct hetccl_frame *frame)
{
    switch (frame->head.kind) {
    case HETCCL_FRAME_GATHER:
        hetccl_frame_queue_push(&mesh->gathers, frame);
        pthread_cond_broadcast(&mesh->changed);
        return;
    case HETCCL_FRAME_FAILURE:
        take_failure(mesh, frame);
        break;
    case HETCCL_FRAME_LEAVE:
        mesh->peers[frame->head.src_rank].has_left = true;
        break;
    default:
        if (frame->head.kind <= HETCCL_FRAME_USER_LAST) {
            take_message(mesh, frame);
            return;
        }
        break; /* the root's kinds make no sense here */
    }
    hetccl_frame_destroy(frame);
}

/*
 * A process speaks for its own ranks only. While the mesh is being created the contacts of ranks that are no
 * neighbours aren't known yet, and such a rank may be a step ahead; its connection was authenticated for the
 * job.
 */
bool hetccl_mesh_is_genuine(const struct hetccl_mesh *mesh, uint32_t src_rank, uint64_t process_key)
{
    const struct hetccl_mesh_peer *peer;

    if (src_rank >= mesh->n_ranks)
        return false;
    peer = &mesh->peers[src_rank];
    if (!peer->is_known)
        return mesh->stage == HETCCL_MESH_MEETING;
    return peer->contact.process_key == process_key;
}

void hetccl_mesh_deliver(struct hetccl_endpoint *endpoint, struct hetccl_frame *frame, uint64_t process_key)
{
    struct hetccl_mesh *mesh = hetccl_mesh_find(endpoint, frame->head.mesh_key, frame->head.dst_rank);

    if (mesh == NULL)
        keep_early(endpoint, frame);
    else if (!hetccl_mesh_is_genuine(mesh, frame->head.src_rank, process_key))
        hetccl_frame_destroy(frame);
    else
        take_frame(mesh, frame);
}

/* Early frames are filed under no process any more: their connection was authenticated for the job. */
void hetccl_mesh_meet(struct hetccl_mesh *mesh, uint64_t key)
{
    struct hetccl_endpoint *endpoint = mesh->endpoint;
    struct hetccl_frame *previous = NULL;
    struct hetccl_frame *frame = endpoint->early.first;

    mesh->key = key;
    mesh->stage = HETCCL_MESH_MEETING;
    while (frame != NULL) {
        struct hetccl_frame *next = frame->next;

        if (frame->head.mesh_key == key && frame->head.dst_rank == mesh->rank) {
            (void)hetccl_frame_queue_take(&endpoint->early, previous);
            if (frame->head.src_rank < mesh->n_ranks)
                take_frame(mesh, frame);
            else
                hetccl_frame_destroy(frame);
        } else {
            previous = frame;
        }
        frame = next;
    }
    pthread_cond_broadcast(&mesh->changed);
}

/* ---- the user's messages ---- */

static enum hetccl_status check(const struct hetccl_mesh *mesh, uint32_t rank, uint16_t kind)
{
    if (hetccl_mesh_is_foreign(mesh))
        return hetccl_fail(HETCCL_ERR_USAGE, "the communicator belongs to the parent process");
    if (rank >= mesh->n_ranks || kind < HETCCL_FRAME_USER_FIRST || kind > HETCCL_FRAME_USER_LAST)
        return hetccl_fail(HETCCL_ERR_ARG, "control message of kind %u with rank %u of %u", kind, rank,
                           mesh->n_ranks);
    return HETCCL_OK;
}

static enum hetccl_status pass_failure_on(const struct hetccl_mesh *mesh)
{
    enum hetccl_status status = hetccl_mesh_failure(mesh, NULL, NULL);

    return status == HETCCL_OK ? HETCCL_OK : hetccl_fail_quietly(status, "%s", mesh->failure_text);
}

enum hetccl_status hetccl_mesh_send(struct hetccl_mesh *mesh, uint32_t dst_rank, uint16_t kind,
                                    const void *payload, size_t bytes)
{
    enum hetccl_status status = check(mesh, dst_rank, kind);
    struct hetccl_wire_frame head = {.kind = kind, .dst_rank = dst_rank, .payload_bytes = (uint32_t)bytes};

    if (status != HETCCL_OK)
        return status;
    if (bytes > HETCCL_WIRE_SMALL_BYTES)
        return hetccl_fail(HETCCL_ERR_ARG, "control message of %zu bytes, above the limit of %d", bytes,
                           HETCCL_WIRE_SMALL_BYTES);
    hetccl_endpoint_lock(mesh->endpoint);
    head.mesh_key = mesh->key;
    head.src_rank = mesh->rank;
    status = pass_failure_on(mesh);
    if (status == HETCCL_OK)
        status = hetccl_mesh_post_bytes(mesh, &head, payload);
    hetccl_endpoint_unlock(mesh->endpoint);
    return status;
}

static struct hetccl_frame *take_kind(struct hetccl_mesh *mesh, uint32_t src_rank, uint16_t kind)
{
    struct hetccl_frame_queue *inbox = &mesh->peers[src_rank].inbox;
    struct hetccl_frame *previous = NULL;

    for (struct hetccl_frame *frame = inbox->first; frame != NULL; previous = frame, frame = frame->next)
        if (frame->head.kind == kind) {
            mesh->inbox_frames--;
            return hetccl_frame_queue_take(inbox, previous);
        }
    return NULL;
}

enum hetccl_status hetccl_mesh_try_recv(struct hetccl_mesh *mesh, uint32_t src_rank, uint16_t kind,
                                        void *payload, size_t max_bytes, size_t *bytes_out)
{
    enum hetccl_status status = check(mesh, src_rank, kind);
    struct hetccl_frame *frame;

    if (status != HETCCL_OK)
        return status;
    hetccl_endpoint_lock(mesh->endpoint);
    frame = take_kind(mesh, src_rank, kind);
    status = pass_failure_on(mesh);
    hetccl_endpoint_unlock(mesh->endpoint);
    if (frame == NULL)
        return status == HETCCL_OK ? HETCCL_AGAIN : status;
    status = HETCCL_OK;
    if (frame->head.payload_bytes > max_bytes) {
        status =
            hetccl_fail(HETCCL_ERR_INTERNAL, "control message of kind %u from rank %u has %u bytes, %zu fit",
                        kind, src_rank, frame->head.payload_bytes, max_bytes);
    } else {
        if (frame->head.payload_bytes > 0)
            memcpy(payload, frame->payload, frame->head.payload_bytes);
        *bytes_out = frame->head.payload_bytes;
    }
    hetccl_frame_destroy(frame);
    return status;
}
