/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots, as sets of 64 bits. Of the send ring:
 *
 *   credits   the peer's slot is empty: what appears in ours may go
 *   sending   given to the link, which reads it; the word still has its mark
 *
 * and of the receive ring, each slot at most in one of them:
 *
 *   arriving  the link writes it
 *   filled    its word has a mark; the device reads it
 *   freed     read, and the peer doesn't know it yet
 */
#include "exec/forward.h"

#include <string.h>

#include "base/memory.h"
#include "wire/piece.h"

_Static_assert(HETCCL_RING_SLOTS == 64, "sets of slots are 64 bits");

enum {
    FREED_AT_ONCE = 8, /* so many freed slots don't wait for a piece to travel with */
    MAX_ROUNDS = 64,   /* in one progress, so that a fast peer can't hold this thread */
};

#define ALL_SLOTS UINT64_MAX

/* A frame, and behind it the data of a piece that isn't inside. */
struct outgoing {
    struct hetccl_link_request frame_request, data_request;
    uint8_t frame[HETCCL_PIECE_FRAME_BYTES];
};

struct incoming {
    struct hetccl_link_request data_request;
    struct hetccl_piece_head head;
};

/* Slots in the order in which the link was given them, which is that in which it is done with them. */
struct order {
    uint8_t slots[HETCCL_RING_SLOTS];
    uint32_t first, n;
};

struct hetccl_forward {
    struct hetccl_ring_view send, recv;
    struct hetccl_link *link;
    enum hetccl_status failure;
    char failure_text[HETCCL_ERROR_TEXT_BYTES];
    uint64_t credits, sending, arriving, filled, freed;
    uint32_t next_slot; /* where to look first for the next piece */
    struct order sends, receives;
    struct outgoing freed_alone; /* a frame without a piece */
    struct outgoing outgoing[HETCCL_RING_SLOTS];
    struct incoming incoming[HETCCL_RING_SLOTS];
    struct hetccl_link_request frame_request;
    uint8_t frame[HETCCL_PIECE_FRAME_BYTES]; /* the next one to come */
};

/* Every message of the link has it: what the pieces belong to, their marks say. */
static const struct hetccl_call_tag link_tag = {.coll = 255, .type = 255, .red = 255, .root = UINT32_MAX};

static uint64_t bit_of(uint32_t slot)
{
    return UINT64_C(1) << slot;
}

static uint32_t *word_of(const struct hetccl_ring_view *ring, uint32_t slot)
{
    return ring->words + (size_t)slot * HETCCL_RING_WORD_STRIDE;
}

static unsigned char *data_of(const struct hetccl_ring_view *ring, uint32_t slot)
{
    return ring->data + slot * ring->slot_bytes;
}

/* Acquire and release: a word hands its slot over, between this thread and the device. */
static uint32_t load_word(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void store_word(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static void push(struct order *order, uint32_t slot)
{
    order->slots[(order->first + order->n++) % HETCCL_RING_SLOTS] = (uint8_t)slot;
}

static uint32_t pop(struct order *order)
{
    uint32_t slot = order->slots[order->first];

    order->first = (order->first + 1) % HETCCL_RING_SLOTS;
    order->n--;
    return slot;
}

static void prepare(struct hetccl_link_request *request, void *memory, size_t bytes)
{
    *request = (struct hetccl_link_request){.memory = memory, .bytes_total = bytes, .tag = link_tag};
}

/* ---- sending ---- */

static bool is_under_way(const struct outgoing *out)
{
    return out->frame_request.state != HETCCL_REQUEST_DONE ||
           (out->data_request.bytes_total > 0 && out->data_request.state != HETCCL_REQUEST_DONE);
}

/* Every frame that goes out says which slots have become free. */
static enum hetccl_status post_frame(struct hetccl_forward *forward, struct outgoing *out, uint32_t mark,
                                     uint32_t bytes)
{
    const struct hetccl_piece_head head = {.mark = mark, .bytes = bytes, .freed_slots = forward->freed};

    forward->freed = 0;
    hetccl_piece_head_encode(&head, out->frame);
    prepare(&out->frame_request, out->frame, sizeof(out->frame));
    return forward->link->ops->post_send(forward->link, &out->frame_request);
}

static enum hetccl_status post_piece(struct hetccl_forward *forward, uint32_t slot, uint32_t mark)
{
    struct outgoing *out = &forward->outgoing[slot];
    unsigned char *data = data_of(&forward->send, slot);
    uint32_t bytes = load_word(word_of(&forward->send, slot) + 1);
    enum hetccl_status status;

    if (mark % HETCCL_RING_SLOTS != slot || bytes == 0 || bytes > forward->send.slot_bytes)
        return hetccl_fail(HETCCL_ERR_INTERNAL,
                           "rank %u: slot %u for rank %u holds mark %x and %u bytes: no piece",
                           forward->link->own_rank, slot, forward->link->peer_rank, mark, bytes);
    forward->credits &= ~bit_of(slot);
    forward->sending |= bit_of(slot);
    push(&forward->sends, slot);
    forward->next_slot = (slot + 1) % HETCCL_RING_SLOTS;
    prepare(&out->data_request, data, 0);
    if (bytes <= HETCCL_PIECE_INLINE_BYTES) {
        memcpy(hetccl_piece_inline(out->frame), data, bytes);
        return post_frame(forward, out, mark, bytes);
    }
    out->data_request.bytes_total = bytes;
    status = post_frame(forward, out, mark, bytes);
    return status == HETCCL_OK ? forward->link->ops->post_send(forward->link, &out->data_request) : status;
}

/* Slots that may go and have something, from next_slot on: most often that is the order of their numbers. */
static enum hetccl_status send_pieces(struct hetccl_forward *forward, bool *moved_out)
{
    uint32_t first = forward->next_slot;

    for (uint32_t i = 0; i < HETCCL_RING_SLOTS; i++) {
        uint32_t slot = (first + i) % HETCCL_RING_SLOTS;
        enum hetccl_status status;
        uint32_t mark;

        if ((forward->credits & ~forward->sending & bit_of(slot)) == 0)
            continue;
        mark = load_word(word_of(&forward->send, slot));
        if (mark == 0)
            continue;
        status = post_piece(forward, slot, mark);
        if (status != HETCCL_OK)
            return status;
        *moved_out = true;
    }
    return HETCCL_OK;
}

/* What the link is done with is the device's again. */
static void empty_sent(struct hetccl_forward *forward, bool *moved_out)
{
    while (forward->sends.n > 0 &&
           !is_under_way(&forward->outgoing[forward->sends.slots[forward->sends.first]])) {
        uint32_t slot = pop(&forward->sends);

        forward->sending &= ~bit_of(slot);
        store_word(word_of(&forward->send, slot), 0);
        *moved_out = true;
    }
}

/* ---- receiving ---- */

static enum hetccl_status refuse(const struct hetccl_forward *forward, const char *what)
{
    return hetccl_fail(HETCCL_ERR_REMOTE,
                       "rank %u on host %s sent rank %u %s; use the same build of the library everywhere",
                       forward->link->peer_rank, forward->link->peer_name, forward->link->own_rank, what);
}

static enum hetccl_status await_frame(struct hetccl_forward *forward)
{
    prepare(&forward->frame_request, forward->frame, sizeof(forward->frame));
    return forward->link->ops->post_recv(forward->link, &forward->frame_request);
}

/* The word last: it hands over all that was written before it. */
static void hand_over(struct hetccl_forward *forward, uint32_t slot, const struct hetccl_piece_head *head)
{
    uint32_t *word = word_of(&forward->recv, slot);

    store_word(word + 1, head->bytes);
    store_word(word, head->mark);
    forward->filled |= bit_of(slot);
}

static enum hetccl_status begin_piece(struct hetccl_forward *forward, const struct hetccl_piece_head *head)
{
    uint32_t slot = head->mark % HETCCL_RING_SLOTS;
    struct incoming *in = &forward->incoming[slot];

    if (((forward->arriving | forward->filled | forward->freed) & bit_of(slot)) != 0 ||
        head->bytes > forward->recv.slot_bytes)
        return refuse(forward, "a piece that has no room in its slot");
    if (head->bytes <= HETCCL_PIECE_INLINE_BYTES) {
        memcpy(data_of(&forward->recv, slot), hetccl_piece_inline(forward->frame), head->bytes);
        hand_over(forward, slot, head);
        return HETCCL_OK;
    }
    in->head = *head;
    forward->arriving |= bit_of(slot);
    push(&forward->receives, slot);
    prepare(&in->data_request, data_of(&forward->recv, slot), head->bytes);
    return forward->link->ops->post_recv(forward->link, &in->data_request);
}

/* Data of the piece goes to the link before the next frame does: so they come. */
static enum hetccl_status take_frame(struct hetccl_forward *forward, bool *moved_out)
{
    struct hetccl_piece_head head;
    enum hetccl_status status = HETCCL_OK;

    if (forward->frame_request.state != HETCCL_REQUEST_DONE)
        return HETCCL_OK;
    *moved_out = true;
    if (!hetccl_piece_head_decode(forward->frame, &head))
        return refuse(forward, "a frame that is none");
    /* The peer may have read a piece before this side has seen that its send is done. */
    if ((head.freed_slots & forward->credits) != 0)
        return refuse(forward, "back a slot that it had not been given");
    forward->credits |= head.freed_slots;
    if (head.mark != 0)
        status = begin_piece(forward, &head);
    return status == HETCCL_OK ? await_frame(forward) : status;
}

static void take_data(struct hetccl_forward *forward, bool *moved_out)
{
    while (forward->receives.n > 0) {
        uint32_t slot = forward->receives.slots[forward->receives.first];
        struct incoming *in = &forward->incoming[slot];

        if (in->data_request.state != HETCCL_REQUEST_DONE)
            return;
        (void)pop(&forward->receives);
        forward->arriving &= ~bit_of(slot);
        hand_over(forward, slot, &in->head);
        *moved_out = true;
    }
}

/* A frame must be looked at before what follows it can be received: as long as there are some, go round. */
static enum hetccl_status receive_pieces(struct hetccl_forward *forward, bool *moved_out)
{
    for (uint32_t round = 0; round < MAX_ROUNDS; round++) {
        enum hetccl_status status = forward->link->ops->progress(forward->link);
        bool has_taken = false;

        if (hetccl_is_error(status))
            return status;
        *moved_out |= status == HETCCL_OK;
        take_data(forward, &has_taken);
        status = take_frame(forward, &has_taken);
        if (status != HETCCL_OK)
            return status;
        if (!has_taken)
            break;
        *moved_out = true;
    }
    return HETCCL_OK;
}

static void find_freed(struct hetccl_forward *forward, bool *moved_out)
{
    for (uint64_t left = forward->filled; left != 0; left &= left - 1) {
        uint32_t slot = (uint32_t)__builtin_ctzll(left);

        if (load_word(word_of(&forward->recv, slot)) != 0)
            continue;
        forward->filled &= ~bit_of(slot);
        forward->freed |= bit_of(slot);
        *moved_out = true;
    }
}

static enum hetccl_status tell_freed(struct hetccl_forward *forward, bool has_moved)
{
    if (forward->freed == 0 || is_under_way(&forward->freed_alone) ||
        (has_moved && __builtin_popcountll(forward->freed) < FREED_AT_ONCE))
        return HETCCL_OK;
    return post_frame(forward, &forward->freed_alone, 0, 0);
}

/* ---- both ---- */

static enum hetccl_status move(struct hetccl_forward *forward, bool *moved_out)
{
    enum hetccl_status status = receive_pieces(forward, moved_out);

    if (status != HETCCL_OK)
        return status;
    empty_sent(forward, moved_out);
    find_freed(forward, moved_out);
    status = send_pieces(forward, moved_out);
    if (status != HETCCL_OK)
        return status;
    /* Small pieces have gone already. */
    empty_sent(forward, moved_out);
    return tell_freed(forward, *moved_out);
}

static enum hetccl_status keep_failure(struct hetccl_forward *forward, enum hetccl_status status)
{
    forward->failure = status;
    (void)strncpy(forward->failure_text, hetccl_last_error_thread(), sizeof(forward->failure_text) - 1);
    return status;
}

enum hetccl_status hetccl_forward_progress(struct hetccl_forward *forward)
{
    enum hetccl_status status;
    bool has_moved = false;

    if (forward->failure != HETCCL_OK)
        return hetccl_fail_quietly(forward->failure, "%s", forward->failure_text);
    status = move(forward, &has_moved);
    if (hetccl_is_error(status))
        return keep_failure(forward, status);
    return has_moved ? HETCCL_OK : HETCCL_AGAIN;
}

enum hetccl_status hetccl_forward_create(const struct hetccl_ring_view *send,
                                         const struct hetccl_ring_view *recv, struct hetccl_link *link,
                                         struct hetccl_forward **out)
{
    struct hetccl_forward *forward;
    enum hetccl_status status = hetccl_alloc(1, sizeof(*forward), &forward);

    if (status != HETCCL_OK)
        return status;
    forward->send = *send;
    forward->recv = *recv;
    forward->link = link;
    forward->credits = ALL_SLOTS;
    forward->freed_alone.frame_request.state = HETCCL_REQUEST_DONE;
    status = await_frame(forward);
    if (status != HETCCL_OK) {
        hetccl_free(forward);
        return status;
    }
    *out = forward;
    return HETCCL_OK;
}

void hetccl_forward_destroy(struct hetccl_forward *forward)
{
    hetccl_free(forward);
}

static bool has_piece_waiting(const struct hetccl_forward *forward)
{
    for (uint32_t slot = 0; slot < HETCCL_RING_SLOTS; slot++)
        if (load_word(word_of(&forward->send, slot)) != 0)
            return true;
    return false;
}

bool hetccl_forward_has_work(const struct hetccl_forward *forward)
{
    return (forward->arriving | forward->freed) != 0 || is_under_way(&forward->freed_alone) ||
           has_piece_waiting(forward);
}

bool hetccl_forward_is_delivered(const struct hetccl_forward *forward)
{
    return forward->credits == ALL_SLOTS && !has_piece_waiting(forward);
}

bool hetccl_forward_is_over(const struct hetccl_forward *forward)
{
    return forward->filled == 0 && hetccl_forward_is_delivered(forward) && !hetccl_forward_has_work(forward);
}

struct hetccl_link *hetccl_forward_link(const struct hetccl_forward *forward)
{
    return forward->link;
}
