/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings between asynchronous devices are made at the first use of a pair, as links are. Ranks of one p2p
 * island give each other device memory; those that share host memory work on a segment that the lower rank
 * makes and both register; others forward rings of their own over a link. Never blocks on the peer: each look
 * moves it on.
 */
#include <string.h>

#include "base/memory.h"
#include "comm/internal.h"
#include "exec/forward.h"

enum { SLOT_UNIT_BYTES = 16 };

enum pair_kind { PAIR_P2P, PAIR_SHM, PAIR_FORWARDED };

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

static enum hetccl_status kind_of(const struct hetccl_comm *comm, uint32_t peer, enum pair_kind *out)
{
    uint32_t island = comm->topo.island_of[comm->rank];
    enum hetccl_link_kind kind;
    enum hetccl_status status;

    if (comm->topo.island_of[peer] == island && comm->topo.islands[island].engine == HETCCL_ENGINE_P2P) {
        *out = PAIR_P2P;
        return HETCCL_OK;
    }
    status = hetccl_topo_link_kind(&comm->topo, comm->rank, peer, &kind);
    if (status == HETCCL_OK)
        *out = kind == HETCCL_LINK_SHM ? PAIR_SHM : PAIR_FORWARDED;
    return status;
}

/* A multiple of all elements' sizes, so that pieces can be cut without knowing what they are of. */
size_t hetccl_comm_ring_slot_bytes(const struct hetccl_comm *comm)
{
    return comm->config.ring_slot_bytes / SLOT_UNIT_BYTES * SLOT_UNIT_BYTES;
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
    enum hetccl_status status =
        hetccl_ring_p2p_open(comm->device, hetccl_comm_ring_slot_bytes(comm), &entry->ring, &offer);

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
        status = hetccl_ring_p2p_connect(&entry->ring, hetccl_comm_ring_slot_bytes(comm), &offer);
    if (status == HETCCL_OK)
        entry->state = HETCCL_PEER_LINK_READY;
    return status;
}

/* ---- host memory ---- */

static enum hetccl_status offer_segment(struct hetccl_comm *comm, uint32_t peer, uint32_t channel,
                                        struct hetccl_peer_link *entry)
{
    size_t bytes = hetccl_ring_shm_bytes(hetccl_comm_ring_slot_bytes(comm));
    struct segment_offer offer;
    enum hetccl_status status = hetccl_segment_create(bytes, bytes, &entry->segment);

    if (status == HETCCL_OK)
        status = hetccl_ring_shm_open(comm->device, entry->segment.memory, hetccl_comm_ring_slot_bytes(comm),
                                      true, &entry->ring);
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
        offer.bytes < hetccl_ring_shm_bytes(hetccl_comm_ring_slot_bytes(comm)))
        return hetccl_fail(HETCCL_ERR_REMOTE, "rank %u sent a ring offer that rank %u can't read", peer,
                           comm->rank);
    status = hetccl_segment_open(offer.name, offer.bytes, &entry->segment);
    if (status == HETCCL_OK)
        status = hetccl_ring_shm_open(comm->device, entry->segment.memory, hetccl_comm_ring_slot_bytes(comm),
                                      false, &entry->ring);
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

/* ---- rings of this rank alone ---- */

static enum hetccl_status open_forwarded(struct hetccl_comm *comm, uint32_t peer, uint32_t channel,
                                         struct hetccl_peer_link *entry)
{
    struct hetccl_ring_view send, recv;
    struct hetccl_link *link;
    enum hetccl_status status = hetccl_comm_find_plain_link(comm, peer, channel, &link);

    if (status != HETCCL_OK)
        return status;
    status =
        hetccl_ring_own_open(comm->device, hetccl_comm_ring_slot_bytes(comm), &entry->ring, &send, &recv);
    if (status != HETCCL_OK)
        return status;
    status = hetccl_forward_create(&send, &recv, link, &entry->forward);
    /* A synchronous rank moves its pieces itself. */
    if (status != HETCCL_OK || comm->bridge == NULL)
        return status;
    status = hetccl_comm_progress_add(comm, entry->forward);
    if (status == HETCCL_OK)
        entry->forward = NULL;
    return status;
}

/* ---- all ---- */

static enum hetccl_status begin(struct hetccl_comm *comm, uint32_t peer, uint32_t channel, bool is_p2p,
                                struct hetccl_peer_link *entry)
{
    if (is_p2p)
        return offer_device_memory(comm, peer, channel, entry);
    if (is_first(comm, peer))
        return offer_segment(comm, peer, channel, entry);
    entry->state = HETCCL_PEER_LINK_AWAITED;
    return HETCCL_OK;
}

static enum hetccl_status go_on(struct hetccl_comm *comm, uint32_t peer, uint32_t channel, bool is_p2p,
                                struct hetccl_peer_link *entry)
{
    if (entry->state == HETCCL_PEER_LINK_OFFERED)
        return await_answer(comm, peer, channel, entry);
    if (is_p2p)
        return await_device_memory(comm, peer, channel, entry);
    return await_segment(comm, peer, channel, entry);
}

static enum hetccl_status connect(struct hetccl_comm *comm, uint32_t peer, uint32_t channel,
                                  enum pair_kind kind, struct hetccl_peer_link *entry)
{
    enum hetccl_status status = HETCCL_OK;

    if (kind == PAIR_FORWARDED)
        return open_forwarded(comm, peer, channel, entry);
    if (entry->state == HETCCL_PEER_LINK_NONE)
        status = begin(comm, peer, channel, kind == PAIR_P2P, entry);
    if (status == HETCCL_OK && entry->state != HETCCL_PEER_LINK_READY)
        status = go_on(comm, peer, channel, kind == PAIR_P2P, entry);
    return status;
}

enum hetccl_status hetccl_comm_find_ring(void *context, uint32_t peer, uint32_t channel,
                                         const struct hetccl_ring **out)
{
    static const char *const names[] = {
        [PAIR_P2P] = "p2p", [PAIR_SHM] = "shm", [PAIR_FORWARDED] = "forwarded"};
    struct hetccl_comm *comm = context;
    struct hetccl_peer_link *entry = &comm->links[(size_t)peer * HETCCL_CHANNELS + channel];
    enum pair_kind kind;
    enum hetccl_status status;

    if (!entry->has_ring) {
        status = kind_of(comm, peer, &kind);
        if (status == HETCCL_OK)
            status = connect(comm, peer, channel, kind, entry);
        if (status != HETCCL_OK)
            return status;
        entry->has_ring = true;
        hetccl_log(HETCCL_LOG_DEBUG, "ring", "rank %u to rank %u channel %u: %s", comm->rank, peer, channel,
                   names[kind]);
    }
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
