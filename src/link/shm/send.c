/* SPDX-License-Identifier: Apache-2.0 */
#include "link/shm/internal.h"

#include "base/doorbell.h"

/* HETCCL_OK when a slot is free, HETCCL_AGAIN when none is. */
static enum hetccl_status find_credit(struct hetccl_shm_link *shm)
{
    struct hetccl_shm_outgoing *out = &shm->out;
    uint64_t n_freed;

    if (out->position != out->limit)
        return HETCCL_OK;
    /* Acquire: what the consumer read from the slots it read before it freed them. */
    n_freed = atomic_load_explicit(&shm->peer->n_freed, memory_order_acquire);
    if (n_freed > out->position || out->position - n_freed > shm->n_slots)
        return hetccl_shm_fail_damaged(shm, "slots freed", n_freed);
    out->limit = n_freed + shm->n_slots;
    return out->position != out->limit ? HETCCL_OK : HETCCL_AGAIN;
}

/* Moves the next fragment of a message into the free slot at position and shows it to the peer. */
static void send_fragment(struct hetccl_shm_link *shm, struct hetccl_link_request *request)
{
    struct hetccl_shm_outgoing *out = &shm->out;
    struct hetccl_shm_slot *slot = out->next;
    size_t bytes = hetccl_min_size(request->bytes_total - request->bytes_done, shm->slot_bytes);

    slot->tag = request->tag;
    slot->bytes_total = request->bytes_total;
    atomic_store_explicit(&slot->fragment_bytes, (unsigned)bytes, memory_order_relaxed);
    hetccl_shm_copy_to_slot(hetccl_shm_fragment_of(slot, bytes),
                            (const unsigned char *)request->memory + request->bytes_done, bytes);
    out->position++;
    atomic_store_explicit(&slot->published, out->position, memory_order_release);
    hetccl_doorbell_ring(shm->peer_doorbell);
    out->next = hetccl_shm_slot_after(shm, out->slots, slot);
    request->bytes_done += bytes;
    shm->core.link.counters.sent_bytes += bytes;
    shm->core.link.counters.copies_bytes += bytes;
}

/* Sends of one message as much as there is credit for. HETCCL_OK when all of it is in slots. */
static enum hetccl_status send_message(struct hetccl_shm_link *shm, struct hetccl_link_request *request,
                                       bool *moved_out)
{
    do {
        enum hetccl_status status = find_credit(shm);

        if (status != HETCCL_OK)
            return status;
        send_fragment(shm, request);
        *moved_out = true;
    } while (request->bytes_done < request->bytes_total);
    shm->core.link.counters.sent_messages++;
    return HETCCL_OK;
}

enum hetccl_status hetccl_shm_send_queued(struct hetccl_shm_link *shm, bool *moved_out)
{
    struct hetccl_link_queue *sends = &shm->core.sends;

    while (sends->first != NULL) {
        enum hetccl_status status = send_message(shm, sends->first, moved_out);

        if (status != HETCCL_OK) {
            if (sends->first->bytes_done > 0)
                sends->first->state = HETCCL_REQUEST_ACTIVE;
            return status;
        }
        hetccl_link_queue_finish(sends);
    }
    return HETCCL_OK;
}

enum hetccl_status hetccl_shm_post_send(struct hetccl_link *link, struct hetccl_link_request *request)
{
    struct hetccl_shm_link *shm = hetccl_shm_of(link);
    bool has_moved = false;
    enum hetccl_status status;

    if (shm->core.failure != HETCCL_OK)
        return hetccl_link_sticky(&shm->core);
    hetccl_link_queue_push(&shm->core.sends, request);
    status = hetccl_shm_send_queued(shm, &has_moved);
    return status == HETCCL_AGAIN ? HETCCL_OK : status;
}
