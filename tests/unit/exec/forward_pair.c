/* SPDX-License-Identifier: Apache-2.0 */
#include "forward_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    WORDS_BYTES = HETCCL_RING_SLOTS * HETCCL_RING_WORD_STRIDE * 4,
    RING_BYTES = WORDS_BYTES + HETCCL_RING_SLOTS * PAIR_SLOT_BYTES
};

static struct hetccl_ring_view view_of(char *memory)
{
    return (struct hetccl_ring_view){.words = (uint32_t *)(void *)memory,
                                     .data = (unsigned char *)memory + WORDS_BYTES,
                                     .slot_bytes = PAIR_SLOT_BYTES};
}

void forward_pair_open(struct forward_pair *pair, size_t n_sockets, bool has_second_forward)
{
    struct hetccl_link_tcp_args args[2];

    memset(pair, 0, sizeof(*pair));
    for (unsigned i = 0; i < 2; i++)
        args[i] = (struct hetccl_link_tcp_args){.n_sockets = n_sockets,
                                                .own_rank = 3 + i,
                                                .peer_rank = 4 - i,
                                                .peer_name = i == 0 ? "host-4" : "host-3"};
    for (size_t i = 0; i < n_sockets; i++) {
        int fds[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        args[0].sockets[i] = fds[0];
        args[1].sockets[i] = fds[1];
    }
    for (unsigned i = 0; i < 2; i++) {
        struct forward_side *side = &pair->sides[i];

        side->memory = calloc(2, RING_BYTES);
        assert_non_null(side->memory);
        side->send = view_of(side->memory);
        side->recv = view_of((char *)side->memory + RING_BYTES);
        assert_int_equal(hetccl_link_tcp_create(&args[i], &side->link), HETCCL_OK);
        if (i == 0 || has_second_forward)
            assert_int_equal(hetccl_forward_create(&side->send, &side->recv, side->link, &side->forward),
                             HETCCL_OK);
    }
}

void forward_pair_close(struct forward_pair *pair)
{
    for (unsigned i = 0; i < 2; i++) {
        struct forward_side *side = &pair->sides[i];

        hetccl_forward_destroy(side->forward);
        if (side->link != NULL)
            side->link->ops->close(side->link);
        free(side->memory);
    }
}

/* ---- contents ---- */

uint32_t forward_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static uint64_t state_of(const struct traffic *traffic, uint32_t call, uint32_t piece)
{
    return (uint64_t)traffic->seed << 40 ^ (uint64_t)call << 20 ^ piece;
}

/* A quarter fits into a frame, with its borders. */
uint32_t piece_bytes(const struct traffic *traffic, uint32_t call, uint32_t piece)
{
    static const uint32_t edges[] = {1, 239, 240, 241, PAIR_SLOT_BYTES - 1, PAIR_SLOT_BYTES};
    uint64_t state = state_of(traffic, call, piece);
    uint32_t random = forward_random(&state);

    return random % 4 == 0 ? edges[random / 4 % 6] : 1 + random % PAIR_SLOT_BYTES;
}

uint32_t piece_mark(uint32_t call, uint32_t piece)
{
    return hetccl_ring_mark(call * 77, piece);
}

void piece_fill(unsigned char *out, const struct traffic *traffic, uint32_t call, uint32_t piece)
{
    uint64_t state = ~state_of(traffic, call, piece);
    uint32_t bytes = piece_bytes(traffic, call, piece);

    for (uint32_t i = 0; i < bytes; i += 4) {
        uint32_t random = forward_random(&state);

        memcpy(out + i, &random, bytes - i < 4 ? bytes - i : 4);
    }
}

/* ---- who works on the rings ---- */

static uint32_t *word_of(const struct hetccl_ring_view *ring, uint32_t piece)
{
    return ring->words + (size_t)(piece % HETCCL_RING_SLOTS) * HETCCL_RING_WORD_STRIDE;
}

static unsigned char *data_of(const struct hetccl_ring_view *ring, uint32_t piece)
{
    return ring->data + (size_t)(piece % HETCCL_RING_SLOTS) * PAIR_SLOT_BYTES;
}

static void begin_call(struct sender *sender)
{
    for (uint32_t block = 0; block < sender->traffic->n_blocks; block++)
        sender->next[block] = block;
}

void traffic_begin(struct forward_pair *pair, unsigned from, const struct traffic *traffic)
{
    pair->sides[from].sender = (struct sender){.traffic = traffic};
    pair->sides[1 - from].receiver = (struct receiver){.traffic = traffic};
    begin_call(&pair->sides[from].sender);
}

bool sender_is_done(const struct sender *sender)
{
    return sender->traffic == NULL || sender->call == sender->traffic->n_calls;
}

static bool is_call_done(const struct sender *sender)
{
    for (uint32_t block = 0; block < sender->traffic->n_blocks; block++)
        if (sender->next[block] < sender->traffic->n_pieces[sender->call])
            return false;
    return true;
}

bool sender_step(struct forward_side *side, uint32_t block)
{
    struct sender *sender = &side->sender;
    uint32_t piece;

    if (sender_is_done(sender))
        return false;
    if (is_call_done(sender)) {
        sender->call++;
        begin_call(sender);
        return true;
    }
    block %= sender->traffic->n_blocks;
    piece = sender->next[block];
    if (piece >= sender->traffic->n_pieces[sender->call] ||
        __atomic_load_n(word_of(&side->send, piece), __ATOMIC_ACQUIRE) != 0)
        return false;
    piece_fill(data_of(&side->send, piece), sender->traffic, sender->call, piece);
    __atomic_store_n(word_of(&side->send, piece) + 1, piece_bytes(sender->traffic, sender->call, piece),
                     __ATOMIC_RELAXED);
    __atomic_store_n(word_of(&side->send, piece), piece_mark(sender->call, piece), __ATOMIC_RELEASE);
    sender->next[block] += sender->traffic->n_blocks;
    return true;
}

bool receiver_is_done(const struct receiver *receiver)
{
    return receiver->traffic == NULL || receiver->problem != NULL ||
           receiver->call == receiver->traffic->n_calls;
}

/* Only the piece that is waited for is looked at, but what lies in its slot must be that of its call. */
bool receiver_step(struct forward_side *side)
{
    struct receiver *receiver = &side->receiver;
    unsigned char expected[PAIR_SLOT_BYTES];
    uint32_t mark, bytes;

    if (receiver_is_done(receiver))
        return false;
    if (receiver->piece == receiver->traffic->n_pieces[receiver->call]) {
        receiver->call++;
        receiver->piece = 0;
        return true;
    }
    mark = __atomic_load_n(word_of(&side->recv, receiver->piece), __ATOMIC_ACQUIRE);
    if (mark == 0)
        return false;
    bytes = piece_bytes(receiver->traffic, receiver->call, receiver->piece);
    piece_fill(expected, receiver->traffic, receiver->call, receiver->piece);
    if (mark != piece_mark(receiver->call, receiver->piece))
        receiver->problem = "a slot has another piece than the one whose turn it is";
    else if (__atomic_load_n(word_of(&side->recv, receiver->piece) + 1, __ATOMIC_RELAXED) != bytes)
        receiver->problem = "the word behind the mark is not the number of bytes";
    else if (memcmp(data_of(&side->recv, receiver->piece), expected, bytes) != 0)
        receiver->problem = "a piece has other contents than were sent";
    __atomic_store_n(word_of(&side->recv, receiver->piece), 0, __ATOMIC_RELEASE);
    receiver->piece++;
    return true;
}
