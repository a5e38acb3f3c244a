/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings between asynchronous devices are made at the first use of a pair, as links are. Ranks of one p2p
 * island give each other device memory; otherwise the lower rank makes a segment in host memory that both
 * register. Never blocks on the peer: each look moves it on.
 */
#include <string.h>

#include "base/memory.h"
#include "comm/internal.h"

struct segment_offer {
    char name[HETCCL_SEGMENT_NAME_BYTES];
    uint64_t bytes;
};

struct segment_answer {
    uint8_t is_mapped;
};

static uint16_t message_kind(uint32_t channel)
{
    return (uint16_t)(HETCCL_MESSAGE_RING + channel);
}

static bool is_first(const struct hetccl_comm *comm, uint32_t peer)
{
    return comm->rank < peer;
}

static bool is_p2p_pair(const struct hetccl_comm *comm, uint32_t peer)
{
    uint32_t island = comm->topo.island_of[comm->rank];

    return comm->topo.island_of[peer] == island && comm->topo.islands[island].engine == HETCCL_ENGINE_P2P;
}

static size_t slot_bytes(const struct hetccl_comm *comm)
{
    return comm->bridge->slot_bytes;
}

/* A message of exactly this size, or AGAIN. */
static enum hetccl_status try_recv(struct hetccl_comm *comm, uint32_t peer, uint32_t channel, void *out,
                                   size_t bytes)
{
    size_t got;
    enum hetccl_status status =
        hetccl_mesh_try_recv(comm->mesh, peer, message_kind(channel), out, bytes, &got);

    if (status == HETCCL_OK && got != bytes)
        return hetccl_fail(HETCCL_ERR_REMOTE, "rank %u sent a ring offer that rank %u can't read", peer,
                           comm->rank);
    return status;
}

/* ---- device memory ---- */

static enum hetccl_status offer_device_memory(struct hetccl_comm *comm, uint32_t peer, uint32_t channel,
                                              struct hetccl_peer_link *entry)
{
    struct hetccl_ring_offer offer;
    enum hetccl_status status = hetccl_ring_p2p_open(comm->device, slot_bytes(comm), &entry->ring, &offer);

    if (status == HETCCL_OK)
        status = hetccl_mesh_send(comm->mesh, peer, message_kind(channel), &offer, sizeof(offer));
    entry->state = HETCCL_PEER_LINK_AWAITED;
    return status;
}

static enum hetccl_status await_device_memory(struct hetccl_comm *comm, uint32_t peer, uint32_t channel,
                                              struct hetccl_peer_link *entry)
{
    struct hetccl_ring_offer offer;
    enum hetccl_status status = try_recv(comm, peer, channel, &offer, sizeof(offer));

    if (status == HETCCL_OK)
        status = hetccl_ring_p2p_connect(&entry->ring, slot_bytes(comm), &offer);
    if (status == HETCCL_OK)
        entry->state = HETCCL_PEER_LINK_READY;
    return status;
}

/* ---- host memory ---- */

static enum hetccl_status offer_segment(struct hetccl_comm *comm, uint32_t peer, uint32_t channel,
                                        struct hetccl_peer_link *entry)
{
    size_t bytes = hetccl_ring_shm_bytes(slot_bytes(comm));
    struct segment_offer offer;
    enum hetccl_status status = hetccl_segment_create(bytes, bytes, &entry->segment);

    if (status == HETCCL_OK)
        status =
            hetccl_ring_shm_open(comm->device, entry->segment.memory, slot_bytes(comm), true, &entry->ring);
    if (status != HETCCL_OK)
        return status;
    memset(&offer, 0, sizeof(offer));
    memcpy(offer.name, entry->segment.name, sizeof(offer.name));
    offer.bytes = entry->segment.bytes;
    entry->state = HETCCL_PEER_LINK_OFFERED;
    return hetccl_mesh_send(comm->mesh, peer, message_kind(channel), &offer, sizeof(offer));
}

static enum hetccl_status await_segment(struct hetccl_comm *comm, uint32_t peer, uint32_t channel,
                                        struct hetccl_peer_link *entry)
{
    struct segment_answer answer = {.is_mapped = 1};
    struct segment_offer offer;
    enum hetccl_status status = try_recv(comm, peer, channel, &offer, sizeof(offer));

    if (status != HETCCL_OK)
        return status;
    if (memchr(offer.name, '\0', sizeof(offer.name)) == NULL ||
        offer.bytes < hetccl_ring_shm_bytes(slot_bytes(comm)))
        return hetccl_fail(HETCCL_ERR_REMOTE, "rank %u sent a ring offer that rank %u can't read", peer,
                           comm->rank);
    status = hetccl_segment_open(offer.name, offer.bytes, &entry->segment);
    if (status == HETCCL_OK)
        status =
            hetccl_ring_shm_open(comm->device, entry->segment.memory, slot_bytes(comm), false, &entry->ring);
    if (status == HETCCL_OK)
        status = hetccl_mesh_send(comm->mesh, peer, message_kind(channel), &answer, sizeof(answer));
    if (status == HETCCL_OK)
        entry->state = HETCCL_PEER_LINK_READY;
    return status;
}

static enum hetccl_status await_answer(struct hetccl_comm *comm, uint32_t peer, uint32_t channel,
                                       struct hetccl_peer_link *entry)
{
    struct segment_answer answer;
    enum hetccl_status status = try_recv(comm, peer, channel, &answer, sizeof(answer));

    if (status != HETCCL_OK)
        return status;
    hetccl_segment_unlink(&entry->segment);
    entry->state = HETCCL_PEER_LINK_READY;
    return HETCCL_OK;
}

/* ---- both ---- */

static enum hetccl_status begin(struct hetccl_comm *comm, uint32_t peer, uint32_t channel,
                                struct hetccl_peer_link *entry)
{
    enum hetccl_link_kind kind;
    enum hetccl_status status;

    if (is_p2p_pair(comm, peer))
        return offer_device_memory(comm, peer, channel, entry);
    status = hetccl_topo_link_kind(&comm->topo, comm->rank, peer, &kind);
    if (status != HETCCL_OK)
        return status;
    if (kind != HETCCL_LINK_SHM)
        return hetccl_fail(HETCCL_ERR_USAGE,
                           "rank %u and rank %u on host %s have no shared memory, and device %s has no link "
                           "of kind %s yet",
                           comm->rank, peer, comm->peers[peer].host_name, comm->device->ops->name,
                           hetccl_link_name(kind));
    if (is_first(comm, peer))
        return offer_segment(comm, peer, channel, entry);
    entry->state = HETCCL_PEER_LINK_AWAITED;
    return HETCCL_OK;
}

static enum hetccl_status go_on(struct hetccl_comm *comm, uint32_t peer, uint32_t channel,
                                struct hetccl_peer_link *entry)
{
    if (entry->state == HETCCL_PEER_LINK_OFFERED)
        return await_answer(comm, peer, channel, entry);
    if (is_p2p_pair(comm, peer))
        return await_device_memory(comm, peer, channel, entry);
    return await_segment(comm, peer, channel, entry);
}

enum hetccl_status hetccl_comm_find_ring(void *context, uint32_t peer, uint32_t channel,
                                         const struct hetccl_ring **out)
{
    struct hetccl_comm *comm = context;
    struct hetccl_peer_link *entry = &comm->links[(size_t)peer * HETCCL_CHANNELS + channel];
    enum hetccl_status status = HETCCL_OK;

    if (entry->state == HETCCL_PEER_LINK_NONE)
        status = begin(comm, peer, channel, entry);
    if (status == HETCCL_OK && entry->state != HETCCL_PEER_LINK_READY)
        status = go_on(comm, peer, channel, entry);
    if (status != HETCCL_OK)
        return status;
    hetccl_log(HETCCL_LOG_DEBUG, "ring", "rank %u to rank %u channel %u: %s", comm->rank, peer, channel,
               is_p2p_pair(comm, peer) ? "p2p" : "shm");
    *out = &entry->ring;
    return HETCCL_OK;
}

void hetccl_comm_close_rings(struct hetccl_comm *comm)
{
    for (size_t i = 0; comm->links != NULL && i < (size_t)comm->n_ranks * HETCCL_CHANNELS; i++) {
        hetccl_ring_close(&comm->links[i].ring);
        if (comm->links[i].segment.memory != NULL)
            hetccl_segment_fini(&comm->links[i].segment);
    }
}
