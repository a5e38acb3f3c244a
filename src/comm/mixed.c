/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators of ranks with synchronous devices (CPUs) and asynchronous ones (GPUs). Between the two kinds
 * are rings, as between two GPUs, and the synchronous rank works on them with its own hands.
 */
#include "comm/internal.h"
#include "exec/pieces.h"

bool hetccl_comm_is_async_rank(const struct hetccl_comm *comm, uint32_t rank)
{
    return (comm->peers[rank].flags & HETCCL_WIRE_PEER_IS_ASYNC) != 0;
}

static enum hetccl_status create(struct hetccl_comm *comm, uint32_t peer, uint32_t channel,
                                 struct hetccl_peer_link *entry)
{
    struct hetccl_pieces_args args = {
        .own_rank = comm->rank, .peer_rank = peer, .peer_name = comm->peers[peer].host_name};
    const struct hetccl_ring *ring;
    enum hetccl_status status = hetccl_comm_find_ring(comm, peer, channel, &ring);

    if (status != HETCCL_OK)
        return status;
    /* This rank's device addresses are host addresses. */
    args.send = &ring->send;
    args.recv = &ring->recv;
    args.forward = entry->forward;
    return hetccl_pieces_create(&args, &entry->pieces);
}

enum hetccl_status hetccl_comm_find_pieces(struct hetccl_comm *comm, uint32_t peer, uint32_t channel,
                                           struct hetccl_link **out)
{
    struct hetccl_peer_link *entry = &comm->links[(size_t)peer * HETCCL_CHANNELS + channel];

    if (entry->pieces == NULL) {
        enum hetccl_status status = create(comm, peer, channel, entry);

        if (status != HETCCL_OK)
            return status;
    }
    hetccl_pieces_begin(entry->pieces, channel == HETCCL_CHANNEL_P2P ? comm->n_p2p_groups : comm->sequence);
    *out = entry->pieces;
    return HETCCL_OK;
}
