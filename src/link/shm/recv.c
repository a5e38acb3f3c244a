/* SPDX-License-Identifier: Apache-2.0 */
#include "link/shm/internal.h"

#include <inttypes.h>
#include <string.h>

#include "base/doorbell.h"

/* Compared once, when the peer has certainly written it: magic is stored before any slot is published. */
enum hetccl_status hetccl_shm_check_peer(struct hetccl_shm_link *shm)
{
    unsigned magic = atomic_load_explicit(&shm->peer->magic, memory_order_acquire);

    if (magic != HETCCL_SHM_LAYOUT_MAGIC || shm->peer->slot_bytes != shm->slot_bytes ||
        shm->peer->n_slots != shm->n_slots)
        return hetccl_link_fail(
            &shm->core, HETCCL_ERR_USAGE,
            "the ranks lay out the shared memory differently: here %" PRIu64 " slots of %zu bytes (layout "
            "%08x), there %" PRIu64 " of %" PRIu64 " (layout %08x); use one library version and the same "
            "HETCCL_SLOT_BYTES on all ranks",
            shm->n_slots, shm->slot_bytes, HETCCL_SHM_LAYOUT_MAGIC, shm->peer->n_slots, shm->peer->slot_bytes,
            magic);
    shm->is_peer_checked = true;
    return HETCCL_OK;
}

/* Looks at the slot at position for this receive: HETCCL_OK when it holds its next fragment, now checked. */
static enum hetccl_status accept_fragment(struct hetccl_shm_link *shm, struct hetccl_link_request *request)
{
    struct hetccl_shm_incoming *in = &shm->in;
    size_t left_bytes = request->bytes_total - request->bytes_done;
    enum hetccl_status status;
    size_t bytes;

    if (!hetccl_shm_has_arrived(shm))
        return HETCCL_AGAIN;
    if (!shm->is_peer_checked) {
        status = hetccl_shm_check_peer(shm);
        if (status != HETCCL_OK)
            return status;
    }
    if (request->state == HETCCL_REQUEST_QUEUED) {
        struct hetccl_call_tag tag = in->next->tag;

        status = hetccl_link_check_message(&shm->core, request, &tag, in->next->bytes_total);
        if (status != HETCCL_OK)
            return status;
        request->state = HETCCL_REQUEST_ACTIVE;
    }
    bytes = atomic_load_explicit(&in->next->fragment_bytes, memory_order_relaxed);
    if (bytes > shm->slot_bytes || bytes > left_bytes || (bytes == 0 && left_bytes != 0) ||
        (bytes % 16 != 0 && bytes != left_bytes))
        return hetccl_shm_fail_damaged(shm, "fragment bytes", bytes);
    in->fragment_bytes = bytes;
    in->fragment_done = 0;
    return HETCCL_OK;
}

/* Gives the slot at position back to the producer. */
static void free_slot(struct hetccl_shm_link *shm)
{
    struct hetccl_shm_incoming *in = &shm->in;

    in->position++;
    in->next = hetccl_shm_slot_after(shm, in->slots, in->next);
    in->fragment_bytes = 0;
    if (in->position - in->granted < shm->grant_batch)
        return;
    /* Release: all reads of the freed slots come before it. */
    in->granted = in->position;
    atomic_store_explicit(&shm->own->n_freed, in->position, memory_order_release);
    hetccl_doorbell_ring(shm->peer_doorbell);
}

static void finish_receive(struct hetccl_shm_link *shm)
{
    shm->core.link.counters.received_messages++;
    hetccl_link_queue_finish(&shm->core.recvs);
}

/* Copies one accepted fragment into the caller's memory. */
static void take_fragment(struct hetccl_shm_link *shm, struct hetccl_link_request *request)
{
    size_t bytes = shm->in.fragment_bytes;

    if (bytes > 0)
        memcpy((unsigned char *)request->memory + request->bytes_done,
               hetccl_shm_fragment_of(shm->in.next, bytes), bytes);
    request->bytes_done += bytes;
    shm->core.link.counters.received_bytes += bytes;
    shm->core.link.counters.copies_bytes += bytes;
    free_slot(shm);
    if (request->bytes_done == request->bytes_total)
        finish_receive(shm);
}

/*
 * Takes what has arrived, at most one ring full, so that a fast peer can't hold this thread. Stops before a
 * receive without memory that has bytes to show: that is the caller's turn.
 */
enum hetccl_status hetccl_shm_receive_queued(struct hetccl_shm_link *shm, bool *moved_out)
{
    struct hetccl_link_queue *recvs = &shm->core.recvs;

    for (uint64_t i = 0; recvs->first != NULL && i < shm->n_slots; i++) {
        struct hetccl_link_request *request = recvs->first;
        enum hetccl_status status;

        if (shm->in.fragment_bytes > 0)
            return HETCCL_OK;
        status = accept_fragment(shm, request);
        if (status != HETCCL_OK)
            return status;
        *moved_out = true;
        if (request->memory != NULL || request->bytes_total == 0)
            take_fragment(shm, request);
    }
    return HETCCL_OK;
}

enum hetccl_status hetccl_shm_post_recv(struct hetccl_link *link, struct hetccl_link_request *request)
{
    struct hetccl_shm_link *shm = hetccl_shm_of(link);

    if (shm->core.failure != HETCCL_OK)
        return hetccl_link_sticky(&shm->core);
    hetccl_link_queue_push(&shm->core.recvs, request);
    return HETCCL_OK;
}

enum hetccl_status hetccl_shm_peek(struct hetccl_link *link, const struct hetccl_link_request *request,
                                   const void **memory_out, size_t *bytes_out)
{
    struct hetccl_shm_link *shm = hetccl_shm_of(link);
    struct hetccl_shm_incoming *in = &shm->in;
    struct hetccl_link_request *first = shm->core.recvs.first;

    if (shm->core.failure != HETCCL_OK)
        return hetccl_link_sticky(&shm->core);
    if (first != request || request->memory != NULL || request->bytes_total == 0)
        return HETCCL_AGAIN;
    if (in->fragment_bytes == 0) {
        enum hetccl_status status = accept_fragment(shm, first);

        if (status != HETCCL_OK)
            return status;
    }
    *memory_out = hetccl_shm_fragment_of(in->next, in->fragment_bytes) + in->fragment_done;
    *bytes_out = in->fragment_bytes - in->fragment_done;
    return HETCCL_OK;
}

void hetccl_shm_consume(struct hetccl_link *link, struct hetccl_link_request *request, size_t bytes)
{
    struct hetccl_shm_link *shm = hetccl_shm_of(link);
    struct hetccl_shm_incoming *in = &shm->in;
    size_t at_hand = in->fragment_bytes - in->fragment_done;

    if (shm->core.failure != HETCCL_OK ||
        hetccl_link_check_consume(&shm->core, request, bytes, at_hand) != HETCCL_OK || at_hand == 0)
        return;
    in->fragment_done += bytes;
    request->bytes_done += bytes;
    link->counters.received_bytes += bytes;
    if (in->fragment_done < in->fragment_bytes)
        return;
    in->fragment_done = 0;
    free_slot(shm);
    if (request->bytes_done == request->bytes_total)
        finish_receive(shm);
}
