/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links are made at the first use of a pair. The lower rank offers a shared segment by mesh message and the
 * higher one answers whether it could map it; where one of them can't, both take sockets. Never blocks: each
 * look moves it on.
 */
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "comm/internal.h"
#include "exec/forward.h"

enum { SHM_LINK_SLOTS = 4 };

struct link_offer {
    char name[HETCCL_SEGMENT_NAME_BYTES];
    uint64_t bytes; /* 0: take sockets */
};

struct link_answer {
    uint8_t is_mapped;
};

static bool is_first(const struct hetccl_comm *comm, uint32_t peer)
{
    return comm->rank < peer;
}

static struct hetccl_doorbell *doorbell_of(const struct hetccl_comm *comm, uint32_t rank)
{
    const char *own = (const char *)comm->own_doorbell;
    ptrdiff_t distance = (ptrdiff_t)comm->host_index_of[rank] - (ptrdiff_t)comm->host_index_of[comm->rank];

    return (struct hetccl_doorbell *)(own + distance * (ptrdiff_t)sizeof(struct hetccl_doorbell));
}

/* ---- shared memory ---- */

static enum hetccl_status create_shm(struct hetccl_comm *comm, uint32_t peer, struct hetccl_peer_link *entry)
{
    struct hetccl_link_shm_args args = {.segment = entry->segment.memory,
                                        .segment_bytes = entry->segment.bytes,
                                        .slot_bytes = comm->config.slot_bytes,
                                        .is_first = is_first(comm, peer),
                                        .own_rank = comm->rank,
                                        .peer_rank = peer,
                                        .peer_name = comm->peers[peer].host_name,
                                        .own_doorbell = comm->own_doorbell,
                                        .peer_doorbell = doorbell_of(comm, peer)};
    enum hetccl_status status = hetccl_link_shm_create(&args, &entry->link);

    if (status == HETCCL_OK)
        entry->state = HETCCL_PEER_LINK_READY;
    return status;
}

static enum hetccl_status offer_segment(struct hetccl_comm *comm, uint32_t peer, uint32_t channel,
                                        struct hetccl_peer_link *entry)
{
    size_t bytes = hetccl_link_shm_bytes(comm->config.slot_bytes, SHM_LINK_SLOTS);
    struct link_offer offer;

    memset(&offer, 0, sizeof(offer));
    if (hetccl_segment_create(bytes, bytes, &entry->segment) == HETCCL_OK) {
        memcpy(offer.name, entry->segment.name, sizeof(offer.name));
        offer.bytes = entry->segment.bytes;
    } else {
        hetccl_log(HETCCL_LOG_INFO, "link", "rank %u to rank %u: no shared segment, tcp instead", comm->rank,
                   peer);
    }
    entry->state = HETCCL_PEER_LINK_OFFERED;
    return hetccl_mesh_send(comm->mesh, peer, (uint16_t)(HETCCL_MESSAGE_LINK_OFFER + channel), &offer,
                            sizeof(offer));
}

/* ---- sockets ---- */

static uint32_t stream_id(uint32_t channel, size_t index)
{
    return channel * HETCCL_LINK_TCP_MAX_SOCKETS + (uint32_t)index;
}

static enum hetccl_status open_streams(struct hetccl_comm *comm, uint32_t peer, uint32_t channel,
                                       struct hetccl_peer_link *entry)
{
    if (!(comm->topo.link_kinds_of[comm->rank] & comm->topo.link_kinds_of[peer] & (1u << HETCCL_LINK_TCP)))
        return hetccl_fail(HETCCL_ERR_SYSTEM,
                           "rank %u and rank %u on host %s can't share memory and HETCCL_LINK allows no tcp",
                           comm->rank, peer, comm->peers[peer].host_name);
    for (size_t i = 0; i < comm->config.sockets_per_link; i++) {
        enum hetccl_status status;

        entry->sockets[i] = -1;
        status = hetccl_mesh_stream_open(comm->mesh, peer, stream_id(channel, i), &entry->streams[i]);
        if (status != HETCCL_OK)
            return status;
    }
    entry->state = HETCCL_PEER_LINK_STREAMS;
    return HETCCL_AGAIN;
}

static enum hetccl_status collect_streams(struct hetccl_comm *comm, uint32_t peer,
                                          struct hetccl_peer_link *entry)
{
    struct hetccl_link_tcp_args args = {.n_sockets = comm->config.sockets_per_link,
                                        .death_s = comm->config.death_s,
                                        .own_rank = comm->rank,
                                        .peer_rank = peer,
                                        .peer_name = comm->peers[peer].host_name};
    enum hetccl_status status;

    for (size_t i = 0; i < args.n_sockets; i++) {
        if (entry->streams[i] == NULL)
            continue;
        status = hetccl_mesh_stream_test(entry->streams[i], &entry->sockets[i]);
        if (status != HETCCL_OK)
            return status;
        hetccl_mesh_stream_close(entry->streams[i]);
        entry->streams[i] = NULL;
    }
    memcpy(args.sockets, entry->sockets, sizeof(args.sockets));
    status = hetccl_link_tcp_create(&args, &entry->link);
    if (status == HETCCL_OK)
        entry->state = HETCCL_PEER_LINK_READY;
    return status;
}

/* ---- both ---- */

static enum hetccl_status begin(struct hetccl_comm *comm, uint32_t peer, uint32_t channel,
                                struct hetccl_peer_link *entry)
{
    enum hetccl_link_kind kind;
    enum hetccl_status status = hetccl_topo_link_kind(&comm->topo, comm->rank, peer, &kind);

    if (status != HETCCL_OK)
        return status;
    if (kind == HETCCL_LINK_TCP)
        return open_streams(comm, peer, channel, entry);
    if (!is_first(comm, peer)) {
        entry->state = HETCCL_PEER_LINK_AWAITED;
        return HETCCL_OK;
    }
    return offer_segment(comm, peer, channel, entry);
}

static enum hetccl_status await_offer(struct hetccl_comm *comm, uint32_t peer, uint32_t channel,
                                      struct hetccl_peer_link *entry)
{
    struct link_offer offer;
    struct link_answer answer;
    enum hetccl_status status;
    size_t bytes;

    status = hetccl_mesh_try_recv(comm->mesh, peer, (uint16_t)(HETCCL_MESSAGE_LINK_OFFER + channel), &offer,
                                  sizeof(offer), &bytes);
    if (status != HETCCL_OK)
        return status;
    if (bytes != sizeof(offer) || memchr(offer.name, '\0', sizeof(offer.name)) == NULL)
        return hetccl_fail(HETCCL_ERR_REMOTE, "rank %u sent a link offer that rank %u can't read", peer,
                           comm->rank);
    if (offer.bytes == 0)
        return open_streams(comm, peer, channel, entry);
    answer.is_mapped = hetccl_segment_open(offer.name, offer.bytes, &entry->segment) == HETCCL_OK;
    status = hetccl_mesh_send(comm->mesh, peer, (uint16_t)(HETCCL_MESSAGE_LINK_ANSWER + channel), &answer,
                              sizeof(answer));
    if (status != HETCCL_OK)
        return status;
    return answer.is_mapped ? create_shm(comm, peer, entry) : open_streams(comm, peer, channel, entry);
}

static enum hetccl_status await_answer(struct hetccl_comm *comm, uint32_t peer, uint32_t channel,
                                       struct hetccl_peer_link *entry)
{
    struct link_answer answer = {0};
    enum hetccl_status status;
    size_t bytes;

    if (entry->segment.memory == NULL)
        return open_streams(comm, peer, channel, entry);
    status = hetccl_mesh_try_recv(comm->mesh, peer, (uint16_t)(HETCCL_MESSAGE_LINK_ANSWER + channel), &answer,
                                  sizeof(answer), &bytes);
    if (status != HETCCL_OK)
        return status;
    hetccl_segment_unlink(&entry->segment);
    if (answer.is_mapped)
        return create_shm(comm, peer, entry);
    hetccl_segment_fini(&entry->segment);
    return open_streams(comm, peer, channel, entry);
}

enum hetccl_status hetccl_comm_find_plain_link(struct hetccl_comm *comm, uint32_t peer, uint32_t channel,
                                               struct hetccl_link **out)
{
    struct hetccl_peer_link *entry = &comm->links[(size_t)peer * HETCCL_CHANNELS + channel];
    enum hetccl_status status = HETCCL_OK;

    if (entry->state == HETCCL_PEER_LINK_NONE)
        status = begin(comm, peer, channel, entry);
    if (status == HETCCL_OK && entry->state == HETCCL_PEER_LINK_AWAITED)
        status = await_offer(comm, peer, channel, entry);
    else if (status == HETCCL_OK && entry->state == HETCCL_PEER_LINK_OFFERED)
        status = await_answer(comm, peer, channel, entry);
    if ((status == HETCCL_OK || status == HETCCL_AGAIN) && entry->state == HETCCL_PEER_LINK_STREAMS)
        status = collect_streams(comm, peer, entry);
    if (status != HETCCL_OK)
        return status;
    hetccl_log(HETCCL_LOG_DEBUG, "link", "rank %u to rank %u channel %u: %s", comm->rank, peer, channel,
               entry->link->ops->name);
    *out = entry->link;
    return HETCCL_OK;
}

enum hetccl_status hetccl_comm_find_link(void *context, uint32_t peer, uint32_t channel,
                                         struct hetccl_link **out)
{
    struct hetccl_comm *comm = context;

    if (hetccl_comm_is_async_rank(comm, peer))
        return hetccl_comm_find_pieces(comm, peer, channel, out);
    return hetccl_comm_find_plain_link(comm, peer, channel, out);
}

/* The segment of a ring is closed after the launches that work on it. */
static void close_one(struct hetccl_peer_link *entry, size_t n_sockets)
{
    bool owns_sockets = entry->state == HETCCL_PEER_LINK_STREAMS;

    if (entry->pieces != NULL)
        entry->pieces->ops->close(entry->pieces);
    else
        hetccl_forward_destroy(entry->forward);
    if (entry->link != NULL)
        entry->link->ops->close(entry->link);
    for (size_t i = 0; i < n_sockets; i++) {
        if (entry->streams[i] != NULL)
            hetccl_mesh_stream_close(entry->streams[i]);
        else if (owns_sockets && entry->sockets[i] >= 0)
            close(entry->sockets[i]);
    }
    if (entry->segment.memory != NULL && entry->ring.device == NULL)
        hetccl_segment_fini(&entry->segment);
}

void hetccl_comm_close_links(struct hetccl_comm *comm)
{
    for (size_t i = 0; comm->links != NULL && i < (size_t)comm->n_ranks * HETCCL_CHANNELS; i++)
        close_one(&comm->links[i], comm->config.sockets_per_link);
}
