/* SPDX-License-Identifier: Apache-2.0 */
#include "link/shm/internal.h"

#include <inttypes.h>

#include "base/doorbell.h"

static size_t stride_of(size_t slot_bytes)
{
    return sizeof(struct hetccl_shm_slot) + hetccl_round_up(slot_bytes, HETCCL_CACHE_LINE);
}

size_t hetccl_link_shm_bytes(size_t slot_bytes, size_t n_slots)
{
    size_t bytes;

    if (slot_bytes > HETCCL_SHM_MAX_SLOT_BYTES || !hetccl_mul_size(stride_of(slot_bytes), n_slots, &bytes) ||
        !hetccl_mul_size(bytes, 2, &bytes) ||
        !hetccl_add_size(bytes, 2 * sizeof(struct hetccl_shm_side), &bytes))
        return 0;
    return bytes;
}

enum hetccl_status hetccl_shm_fail_damaged(struct hetccl_shm_link *shm, const char *what, uint64_t value)
{
    return hetccl_link_fail(
        &shm->core, HETCCL_ERR_INTERNAL,
        "the shared memory is damaged: %s %" PRIu64 "; some process wrote into it by mistake", what, value);
}

/* Nothing moved: is anything waited for that this peer, or a closed one, will never do? */
static enum hetccl_status check_idle(struct hetccl_shm_link *shm)
{
    bool is_sending = shm->core.sends.first != NULL;
    bool is_receiving = shm->core.recvs.first != NULL && shm->in.fragment_bytes == 0;

    if (!shm->is_peer_checked && atomic_load_explicit(&shm->peer->magic, memory_order_acquire) != 0) {
        enum hetccl_status status = hetccl_shm_check_peer(shm);

        if (status != HETCCL_OK)
            return status;
    }
    if (atomic_load_explicit(&shm->peer->is_closed, memory_order_acquire) == 0)
        return HETCCL_AGAIN;
    /* What the peer published before it closed still counts: the acquire above made it visible. */
    if (!is_sending && (!is_receiving || hetccl_shm_has_arrived(shm)))
        return HETCCL_AGAIN;
    return hetccl_link_fail(
        &shm->core, HETCCL_ERR_REMOTE,
        "rank %" PRIu32 " on host %s closed the link while this rank waited to %s; look for the first error "
        "on that rank",
        shm->core.link.peer_rank, shm->core.link.peer_name, is_sending ? "send" : "receive");
}

static enum hetccl_status shm_progress(struct hetccl_link *link)
{
    struct hetccl_shm_link *shm = hetccl_shm_of(link);
    bool has_moved = false;
    enum hetccl_status status;

    if (shm->core.failure != HETCCL_OK)
        return hetccl_link_sticky(&shm->core);
    status = hetccl_shm_receive_queued(shm, &has_moved);
    if (hetccl_is_error(status))
        return status;
    status = hetccl_shm_send_queued(shm, &has_moved);
    if (hetccl_is_error(status))
        return status;
    return has_moved ? HETCCL_OK : check_idle(shm);
}

static int shm_wait_fd(struct hetccl_link *link, short *events_out)
{
    *events_out = 0;
    return -1;
}

static void shm_close(struct hetccl_link *link)
{
    struct hetccl_shm_link *shm = hetccl_shm_of(link);

    atomic_store_explicit(&shm->own->is_closed, 1, memory_order_release);
    hetccl_doorbell_ring(shm->peer_doorbell);
    hetccl_free(shm);
}

static const struct hetccl_link_ops shm_ops = {
    .name = "shm",
    .post_send = hetccl_shm_post_send,
    .post_recv = hetccl_shm_post_recv,
    .progress = shm_progress,
    .peek = hetccl_shm_peek,
    .consume = hetccl_shm_consume,
    .wait_fd = shm_wait_fd,
    .close = shm_close,
};

static void place_rings(struct hetccl_shm_link *shm, const struct hetccl_link_shm_args *args)
{
    struct hetccl_shm_side *sides = args->segment;
    unsigned char *rings[2];

    rings[0] = (unsigned char *)(sides + 2);
    rings[1] = rings[0] + shm->n_slots * shm->stride_bytes;
    shm->own = &sides[args->is_first ? 0 : 1];
    shm->peer = &sides[args->is_first ? 1 : 0];
    shm->out.slots = rings[args->is_first ? 0 : 1];
    shm->out.next = (struct hetccl_shm_slot *)shm->out.slots;
    shm->out.limit = shm->n_slots;
    shm->in.slots = rings[args->is_first ? 1 : 0];
    shm->in.next = (struct hetccl_shm_slot *)shm->in.slots;
}

static enum hetccl_status check_args(const struct hetccl_link_shm_args *args)
{
    size_t least_bytes = hetccl_link_shm_bytes(args->slot_bytes, HETCCL_SHM_MIN_SLOTS);

    if (args->segment != NULL && (uintptr_t)args->segment % HETCCL_CACHE_LINE == 0 &&
        args->peer_doorbell != NULL && args->slot_bytes >= HETCCL_CACHE_LINE && args->slot_bytes % 16 == 0 &&
        least_bytes != 0 && args->segment_bytes >= least_bytes)
        return HETCCL_OK;
    return hetccl_fail(HETCCL_ERR_ARG,
                       "shm link to rank %" PRIu32
                       ": a segment of %zu bytes with slots of %zu bytes is impossible; slots are a "
                       "multiple of 16 from 64 bytes on, at least %d must fit in each direction (%zu bytes)",
                       args->peer_rank, args->segment_bytes, args->slot_bytes, HETCCL_SHM_MIN_SLOTS,
                       least_bytes);
}

enum hetccl_status hetccl_link_shm_create(const struct hetccl_link_shm_args *args, struct hetccl_link **out)
{
    struct hetccl_shm_link *shm;
    enum hetccl_status status = check_args(args);

    if (status != HETCCL_OK)
        return status;
    status = hetccl_alloc(1, sizeof(*shm), &shm);
    if (status != HETCCL_OK)
        return status;
    hetccl_link_core_init(&shm->core, &shm_ops, args->own_rank, args->peer_rank, args->peer_name);
    shm->slot_bytes = args->slot_bytes;
    shm->stride_bytes = stride_of(args->slot_bytes);
    shm->n_slots = (args->segment_bytes - 2 * sizeof(struct hetccl_shm_side)) / 2 / shm->stride_bytes;
    shm->grant_batch = shm->n_slots >= 8 ? shm->n_slots / 4 : 1;
    shm->peer_doorbell = args->peer_doorbell;
    place_rings(shm, args);
    shm->own->slot_bytes = shm->slot_bytes;
    shm->own->n_slots = shm->n_slots;
    atomic_store_explicit(&shm->own->magic, HETCCL_SHM_LAYOUT_MAGIC, memory_order_release);
    *out = &shm->core.link;
    return HETCCL_OK;
}
