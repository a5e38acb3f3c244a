/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/pieces.h"

#include <string.h>

#include "base/memory.h"
#include "exec/program.h"
#include "link/common.h"

/* After a message came in: passes until the peer has been told that its slots are empty. */
enum { TELLING_PASSES = 4 };

struct pieces {
    struct hetccl_link_core core;
    struct hetccl_ring_view send, recv;
    struct hetccl_forward *forward;
    uint64_t call;
    uint32_t next_send, next_recv;       /* numbers of pieces */
    struct hetccl_link_request *writing; /* the first send that isn't in the ring altogether */
    size_t shown_bytes, shown_done;      /* of the piece at hand; 0: none is */
};

static struct pieces *pieces_of(struct hetccl_link *link)
{
    return (struct pieces *)link;
}

static uint32_t *word_of(const struct hetccl_ring_view *ring, uint32_t piece)
{
    return ring->words + (size_t)(piece % HETCCL_RING_SLOTS) * HETCCL_RING_WORD_STRIDE;
}

static unsigned char *data_of(const struct hetccl_ring_view *ring, uint32_t piece)
{
    return ring->data + piece % HETCCL_RING_SLOTS * ring->slot_bytes;
}

static uint32_t load_word(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void store_word(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* The next piece of a message of which bytes_done are through. Whatever the type of its elements: all sizes
 * of pieces are multiples of them. */
static size_t next_bytes(const struct hetccl_link_request *request, size_t slot_bytes)
{
    size_t whole = hetccl_program_piece_count(request->bytes_total, 1, slot_bytes);

    return hetccl_min_size(whole, request->bytes_total - request->bytes_done);
}

static uint32_t mark_of(const struct hetccl_link_request *request, uint32_t piece)
{
    return hetccl_ring_mark(hetccl_call_tag_short(&request->tag), piece);
}

/* ---- sending ---- */

/* True when it is in the ring altogether. */
static bool write_pieces(struct pieces *pieces, struct hetccl_link_request *request, bool *moved_out)
{
    while (request->bytes_done < request->bytes_total) {
        size_t bytes = next_bytes(request, pieces->send.slot_bytes);
        uint32_t *word = word_of(&pieces->send, pieces->next_send);

        if (load_word(word) != 0)
            return false;
        memcpy(data_of(&pieces->send, pieces->next_send),
               (const unsigned char *)request->memory + request->bytes_done, bytes);
        store_word(word + 1, (uint32_t)bytes);
        store_word(word, mark_of(request, pieces->next_send));
        pieces->next_send++;
        request->bytes_done += bytes;
        pieces->core.link.counters.sent_bytes += bytes;
        pieces->core.link.counters.copies_bytes += bytes;
        *moved_out = true;
    }
    return true;
}

/*
 * What is in a forwarded ring has not left: nobody would move it once this rank's calls have returned. So a
 * send is done when all slots are empty; on a ring that the peer sees, when it is written.
 */
static void finish_sends(struct pieces *pieces, bool *moved_out)
{
    if (pieces->forward != NULL)
        for (uint32_t slot = 0; slot < HETCCL_RING_SLOTS; slot++)
            if (load_word(word_of(&pieces->send, slot)) != 0)
                return;
    while (pieces->core.sends.first != pieces->writing) {
        pieces->core.link.counters.sent_messages++;
        hetccl_link_queue_finish(&pieces->core.sends);
        *moved_out = true;
    }
}

static void send_queued(struct pieces *pieces, bool *moved_out)
{
    while (pieces->writing != NULL && write_pieces(pieces, pieces->writing, moved_out))
        pieces->writing = pieces->writing->next;
}

/* ---- receiving ---- */

static enum hetccl_status refuse(struct pieces *pieces, const struct hetccl_link_request *request)
{
    const struct hetccl_link *link = &pieces->core.link;
    char expected[HETCCL_CALL_TAG_TEXT_BYTES];

    hetccl_call_tag_print(&request->tag, expected);
    return hetccl_link_fail(&pieces->core, HETCCL_ERR_USAGE,
                            "the ranks' calls don't fit together: rank %u is in %s, and what rank %u on host "
                            "%s sent belongs to another call; make the same calls in the same order on all "
                            "ranks",
                            link->own_rank, expected, link->peer_rank, link->peer_name);
}

/* Makes the next piece of the first receive the one at hand. HETCCL_AGAIN: it hasn't come. */
static enum hetccl_status accept(struct pieces *pieces, const struct hetccl_link_request *request)
{
    const uint32_t *word = word_of(&pieces->recv, pieces->next_recv);
    uint32_t expected = mark_of(request, pieces->next_recv);
    size_t bytes = next_bytes(request, pieces->recv.slot_bytes);
    uint32_t seen;

    if (pieces->shown_bytes > 0)
        return HETCCL_OK;
    seen = load_word(word);
    if (seen == expected && load_word(word + 1) == bytes) {
        pieces->shown_bytes = bytes;
        return HETCCL_OK;
    }
    /* Anything else with this number is of another call; with another number it isn't this one's turn yet. */
    if (seen != 0 && (seen & 0xffff) == (expected & 0xffff))
        return refuse(pieces, request);
    return HETCCL_AGAIN;
}

static void finish_receive(struct pieces *pieces)
{
    enum hetccl_status status = HETCCL_OK;

    pieces->core.link.counters.received_messages++;
    hetccl_link_queue_finish(&pieces->core.recvs);
    /* An error stays with the forward. */
    for (unsigned i = 0; pieces->forward != NULL && i < TELLING_PASSES && status == HETCCL_OK; i++)
        status = hetccl_forward_progress(pieces->forward);
}

/* The first `bytes` of what is left of the piece at hand were used. */
static void take(struct pieces *pieces, struct hetccl_link_request *request, size_t bytes)
{
    request->bytes_done += bytes;
    pieces->core.link.counters.received_bytes += bytes;
    pieces->shown_done += bytes;
    if (pieces->shown_done < pieces->shown_bytes)
        return;
    pieces->shown_bytes = pieces->shown_done = 0;
    store_word(word_of(&pieces->recv, pieces->next_recv++), 0);
    if (request->bytes_done == request->bytes_total)
        finish_receive(pieces);
}

static enum hetccl_status receive_queued(struct pieces *pieces, bool *moved_out)
{
    struct hetccl_link_request *request;

    while ((request = pieces->core.recvs.first) != NULL) {
        enum hetccl_status status;

        if (request->bytes_total == 0) {
            finish_receive(pieces);
            *moved_out = true;
            continue;
        }
        if (pieces->shown_bytes > 0)
            return HETCCL_OK;
        status = accept(pieces, request);
        if (status != HETCCL_OK)
            return status == HETCCL_AGAIN ? HETCCL_OK : status;
        *moved_out = true;
        if (request->memory == NULL)
            return HETCCL_OK;
        memcpy((unsigned char *)request->memory + request->bytes_done,
               data_of(&pieces->recv, pieces->next_recv), pieces->shown_bytes);
        pieces->core.link.counters.copies_bytes += pieces->shown_bytes;
        take(pieces, request, pieces->shown_bytes);
    }
    return HETCCL_OK;
}

/* ---- the operations ---- */

static enum hetccl_status forward_some(struct pieces *pieces, bool *moved_out)
{
    enum hetccl_status status =
        pieces->forward != NULL ? hetccl_forward_progress(pieces->forward) : HETCCL_AGAIN;

    *moved_out |= status == HETCCL_OK;
    return status == HETCCL_AGAIN ? HETCCL_OK : status;
}

static enum hetccl_status pieces_progress(struct hetccl_link *link)
{
    struct pieces *pieces = pieces_of(link);
    bool has_moved = false, has_written = false;
    enum hetccl_status status = pieces->core.failure;

    if (status != HETCCL_OK)
        return hetccl_link_sticky(&pieces->core);
    status = forward_some(pieces, &has_moved);
    if (status == HETCCL_OK)
        status = receive_queued(pieces, &has_moved);
    if (status == HETCCL_OK)
        send_queued(pieces, &has_written);
    if (status == HETCCL_OK && has_written)
        status = forward_some(pieces, &has_moved);
    if (status != HETCCL_OK)
        return status;
    finish_sends(pieces, &has_moved);
    return has_moved || has_written ? HETCCL_OK : HETCCL_AGAIN;
}

static enum hetccl_status pieces_post_send(struct hetccl_link *link, struct hetccl_link_request *request)
{
    struct pieces *pieces = pieces_of(link);

    if (pieces->core.failure != HETCCL_OK)
        return hetccl_link_sticky(&pieces->core);
    hetccl_link_queue_push(&pieces->core.sends, request);
    if (pieces->writing == NULL)
        pieces->writing = request;
    return HETCCL_OK;
}

static enum hetccl_status pieces_post_recv(struct hetccl_link *link, struct hetccl_link_request *request)
{
    struct pieces *pieces = pieces_of(link);

    if (pieces->core.failure != HETCCL_OK)
        return hetccl_link_sticky(&pieces->core);
    hetccl_link_queue_push(&pieces->core.recvs, request);
    return HETCCL_OK;
}

static enum hetccl_status pieces_peek(struct hetccl_link *link, const struct hetccl_link_request *request,
                                      const void **memory_out, size_t *bytes_out)
{
    struct pieces *pieces = pieces_of(link);
    enum hetccl_status status;

    if (pieces->core.failure != HETCCL_OK)
        return hetccl_link_sticky(&pieces->core);
    if (pieces->core.recvs.first != request || request->memory != NULL || request->bytes_total == 0)
        return HETCCL_AGAIN;
    status = accept(pieces, request);
    if (status != HETCCL_OK)
        return status;
    *memory_out = data_of(&pieces->recv, pieces->next_recv) + pieces->shown_done;
    *bytes_out = pieces->shown_bytes - pieces->shown_done;
    return HETCCL_OK;
}

static void pieces_consume(struct hetccl_link *link, struct hetccl_link_request *request, size_t bytes)
{
    struct pieces *pieces = pieces_of(link);
    size_t at_hand = pieces->shown_bytes - pieces->shown_done;

    if (pieces->core.failure == HETCCL_OK &&
        hetccl_link_check_consume(&pieces->core, request, bytes, at_hand) == HETCCL_OK && at_hand > 0)
        take(pieces, request, bytes);
}

static int pieces_wait_fd(struct hetccl_link *link, short *events_out)
{
    struct pieces *pieces = pieces_of(link);
    struct hetccl_link *inner;

    if (pieces->forward == NULL)
        return -1;
    inner = hetccl_forward_link(pieces->forward);
    return inner->ops->wait_fd(inner, events_out);
}

static void pieces_close(struct hetccl_link *link)
{
    hetccl_forward_destroy(pieces_of(link)->forward);
    hetccl_free(link);
}

static const struct hetccl_link_ops pieces_ops = {
    .name = "pieces",
    .post_send = pieces_post_send,
    .post_recv = pieces_post_recv,
    .progress = pieces_progress,
    .peek = pieces_peek,
    .consume = pieces_consume,
    .wait_fd = pieces_wait_fd,
    .close = pieces_close,
};

enum hetccl_status hetccl_pieces_create(const struct hetccl_pieces_args *args, struct hetccl_link **out)
{
    struct pieces *pieces;
    enum hetccl_status status = hetccl_alloc(1, sizeof(*pieces), &pieces);

    if (status != HETCCL_OK)
        return status;
    hetccl_link_core_init(&pieces->core, &pieces_ops, args->own_rank, args->peer_rank, args->peer_name);
    pieces->core.link.is_silent = args->forward == NULL;
    pieces->send = *args->send;
    pieces->recv = *args->recv;
    pieces->forward = args->forward;
    *out = &pieces->core.link;
    return HETCCL_OK;
}

void hetccl_pieces_begin(struct hetccl_link *link, uint64_t call)
{
    struct pieces *pieces = pieces_of(link);

    if (pieces->call == call)
        return;
    pieces->call = call;
    pieces->next_send = pieces->next_recv = 0;
}
