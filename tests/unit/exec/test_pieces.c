/* SPDX-License-Identifier: Apache-2.0 */
/* Links that cut messages into the pieces of a peer's program, over rings that both see and forwarded ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "exec/pieces.h"
#include "exec/program.h"
#include "forward_pair.h"

enum { MAX_BYTES = 700000, N_MESSAGES = 12, PATIENCE = 4000 };

/* One piece, a slot and a byte more, whole rings and more, nothing, and a torn end. */
static const size_t sizes[N_MESSAGES] = {
    4, PAIR_SLOT_BYTES, PAIR_SLOT_BYTES + 1, 0, 300, 262144, 262148, 655360, 16, 650004, 0, 70000};

struct side {
    struct hetccl_link *link;
    struct hetccl_link_request sends[N_MESSAGES], recvs[N_MESSAGES];
    unsigned char *sent[N_MESSAGES], *received[N_MESSAGES];
};

struct sides {
    struct forward_pair pair;
    struct side sides[2];
};

static struct hetccl_call_tag tag_of(uint64_t sequence, size_t count)
{
    return (struct hetccl_call_tag){.sequence = sequence, .count = count, .type = 7, .root = UINT32_MAX};
}

static void open_sides(struct sides *s, bool is_forwarded)
{
    forward_pair_open(&s->pair, 1, is_forwarded);
    for (unsigned i = 0; i < 2; i++) {
        struct forward_side *from = &s->pair.sides[i];
        const struct forward_side *other = &s->pair.sides[1 - i];
        const struct hetccl_pieces_args args = {
            .send = &from->send,
            .recv = is_forwarded ? &from->recv : &other->send,
            .forward = is_forwarded ? from->forward : NULL,
            .own_rank = 3 + i,
            .peer_rank = 4 - i,
            .peer_name = "host-p",
        };

        s->sides[i] = (struct side){.link = NULL};
        assert_int_equal(hetccl_pieces_create(&args, &s->sides[i].link), HETCCL_OK);
        assert_int_equal(s->sides[i].link->is_silent, !is_forwarded);
        if (is_forwarded)
            from->forward = NULL;
    }
}

static void close_sides(struct sides *s)
{
    for (unsigned i = 0; i < 2; i++) {
        s->sides[i].link->ops->close(s->sides[i].link);
        for (unsigned m = 0; m < N_MESSAGES; m++) {
            free(s->sides[i].sent[m]);
            free(s->sides[i].received[m]);
        }
    }
    forward_pair_close(&s->pair);
}

/* Every third receive is peeked. */
static bool is_peeked(unsigned message)
{
    return message % 3 == 1;
}

static void post_all(struct sides *s, uint64_t call)
{
    for (unsigned i = 0; i < 2; i++) {
        struct side *side = &s->sides[i];

        hetccl_pieces_begin(side->link, call);
        for (unsigned m = 0; m < N_MESSAGES; m++) {
            uint64_t random = call * 1000 + i * 100 + m;

            free(side->sent[m]);
            free(side->received[m]);
            side->sent[m] = malloc(sizes[m] + 1);
            side->received[m] = calloc(1, sizes[m] + 1);
            for (size_t k = 0; k < sizes[m]; k++)
                side->sent[m][k] = (unsigned char)forward_random(&random);
            side->sends[m] = (struct hetccl_link_request){
                .memory = side->sent[m], .bytes_total = sizes[m], .tag = tag_of(call, 7)};
            side->recvs[m] = (struct hetccl_link_request){.memory = is_peeked(m) ? NULL : side->received[m],
                                                          .bytes_total = sizes[m],
                                                          .tag = tag_of(call, 7)};
            assert_int_equal(side->link->ops->post_send(side->link, &side->sends[m]), HETCCL_OK);
            assert_int_equal(side->link->ops->post_recv(side->link, &side->recvs[m]), HETCCL_OK);
        }
    }
}

/* Takes what is shown, sometimes only a part. */
static bool peek_some(struct side *side, uint64_t *random)
{
    for (unsigned m = 0; m < N_MESSAGES; m++) {
        struct hetccl_link_request *request = &side->recvs[m];
        const void *memory;
        size_t bytes;

        if (!is_peeked(m) || request->state == HETCCL_REQUEST_DONE ||
            side->link->ops->peek(side->link, request, &memory, &bytes) != HETCCL_OK)
            continue;
        assert_true(bytes > 0);
        assert_int_equal((uintptr_t)memory % 16, 0);
        assert_true(bytes % 16 == 0 || bytes == request->bytes_total - request->bytes_done);
        if (bytes > 16 && forward_random(random) % 3 == 0)
            bytes = 16;
        memcpy(side->received[m] + request->bytes_done, memory, bytes);
        side->link->ops->consume(side->link, request, bytes);
        return true;
    }
    return false;
}

static bool are_done(const struct side *side)
{
    for (unsigned m = 0; m < N_MESSAGES; m++)
        if (side->sends[m].state != HETCCL_REQUEST_DONE || side->recvs[m].state != HETCCL_REQUEST_DONE)
            return false;
    return true;
}

static void run_call(struct sides *s, uint64_t call)
{
    uint64_t random = call;
    uint32_t n_still = 0;

    post_all(s, call);
    while (!are_done(&s->sides[0]) || !are_done(&s->sides[1])) {
        struct side *side = &s->sides[forward_random(&random) % 2];
        enum hetccl_status status = HETCCL_AGAIN;

        if (forward_random(&random) % 4 == 0)
            status = peek_some(side, &random) ? HETCCL_OK : HETCCL_AGAIN;
        else
            status = side->link->ops->progress(side->link);
        assert_false(hetccl_is_error(status));
        n_still = status == HETCCL_OK ? 0 : n_still + 1;
        assert_true(n_still < PATIENCE);
    }
    for (unsigned i = 0; i < 2; i++)
        for (unsigned m = 0; m < N_MESSAGES; m++)
            assert_memory_equal(s->sides[i].received[m], s->sides[1 - i].sent[m], sizes[m]);
}

static void test_messages(void **state)
{
    for (unsigned is_forwarded = 0; is_forwarded < 2; is_forwarded++) {
        struct sides s;

        open_sides(&s, is_forwarded);
        for (uint64_t call = 1; call <= 4; call++)
            run_call(&s, call);
        close_sides(&s);
    }
}

static uint32_t *word_of(const struct hetccl_ring_view *ring, uint32_t piece)
{
    return ring->words + (size_t)(piece % HETCCL_RING_SLOTS) * HETCCL_RING_WORD_STRIDE;
}

/* What lies in the ring is what a program's sends of such messages put there, whatever the elements. */
static void test_cut(void **state)
{
    static const size_t element_bytes[] = {1, 2, 4, 8};
    unsigned char *memory = calloc(1, MAX_BYTES);

    for (size_t e = 0; e < 4; e++) {
        uint32_t piece = 0;
        struct sides s;

        open_sides(&s, false);
        hetccl_pieces_begin(s.sides[0].link, 5);
        for (size_t count = 1; count * element_bytes[e] < MAX_BYTES; count = count * 3 + 1) {
            size_t piece_count = hetccl_program_piece_count(count, element_bytes[e], PAIR_SLOT_BYTES);
            struct hetccl_link_request request = {
                .memory = memory, .bytes_total = count * element_bytes[e], .tag = tag_of(5, count)};

            assert_int_equal(s.sides[0].link->ops->post_send(s.sides[0].link, &request), HETCCL_OK);
            for (size_t left = count; left > 0; piece++) {
                size_t expected = left < piece_count ? left : piece_count;
                uint32_t *word = word_of(&s.pair.sides[0].send, piece);

                (void)s.sides[0].link->ops->progress(s.sides[0].link);
                assert_int_equal(*word, hetccl_ring_mark(hetccl_call_tag_short(&request.tag), piece));
                assert_int_equal(word[1], expected * element_bytes[e]);
                *word = 0;
                left -= expected;
            }
            (void)s.sides[0].link->ops->progress(s.sides[0].link);
            assert_int_equal(request.state, HETCCL_REQUEST_DONE);
        }
        close_sides(&s);
    }
    free(memory);
}

static void expect_refusal(uint32_t mark, uint32_t bytes)
{
    unsigned char memory[64];
    struct hetccl_link_request request = {.memory = memory, .bytes_total = 40, .tag = tag_of(9, 10)};
    struct sides s;

    open_sides(&s, false);
    hetccl_pieces_begin(s.sides[1].link, 9);
    assert_int_equal(s.sides[1].link->ops->post_recv(s.sides[1].link, &request), HETCCL_OK);
    assert_int_equal(s.sides[1].link->ops->progress(s.sides[1].link), HETCCL_AGAIN);
    word_of(&s.pair.sides[0].send, 0)[1] = bytes;
    word_of(&s.pair.sides[0].send, 0)[0] = mark;
    assert_int_equal(s.sides[1].link->ops->progress(s.sides[1].link), HETCCL_ERR_USAGE);
    assert_non_null(strstr(hetccl_last_error_thread(), "rank 4 is in call 9"));
    assert_non_null(strstr(hetccl_last_error_thread(), "what rank 3 on host host-p sent"));
    assert_int_equal(s.sides[1].link->ops->post_recv(s.sides[1].link, &request), HETCCL_ERR_USAGE);
    close_sides(&s);
}

static void test_other_calls(void **state)
{
    const struct hetccl_call_tag own = tag_of(9, 10), other = tag_of(9, 11);
    unsigned char memory[64];
    struct hetccl_link_request request = {.memory = memory, .bytes_total = 40, .tag = own};
    struct sides s;

    assert_int_not_equal(hetccl_call_tag_short(&own), hetccl_call_tag_short(&other));
    expect_refusal(hetccl_ring_mark(hetccl_call_tag_short(&other), 0), 40);
    expect_refusal(hetccl_ring_mark(hetccl_call_tag_short(&own), 0), 36);
    /* A later piece in the slot isn't this one's, but waits for its turn. */
    open_sides(&s, false);
    hetccl_pieces_begin(s.sides[1].link, 9);
    assert_int_equal(s.sides[1].link->ops->post_recv(s.sides[1].link, &request), HETCCL_OK);
    *word_of(&s.pair.sides[0].send, 0) = hetccl_ring_mark(hetccl_call_tag_short(&own), 64);
    assert_int_equal(s.sides[1].link->ops->progress(s.sides[1].link), HETCCL_AGAIN);
    close_sides(&s);
}

/* A send over a forwarded ring isn't done before its pieces have gone: nobody would move them later. */
static void test_sends_leave(void **state)
{
    unsigned char *memory = calloc(1, MAX_BYTES);
    struct hetccl_link_request send = {.memory = memory, .bytes_total = 200000, .tag = tag_of(1, 1)};
    struct hetccl_link *link;
    struct sides s;

    open_sides(&s, true);
    link = s.sides[0].link;
    hetccl_pieces_begin(link, 1);
    assert_int_equal(link->ops->post_send(link, &send), HETCCL_OK);
    for (uint32_t i = 0; i < PATIENCE && send.state != HETCCL_REQUEST_DONE; i++) {
        (void)link->ops->progress(link);
        if (send.state == HETCCL_REQUEST_DONE)
            break;
        if (i % 8 == 7)
            (void)s.sides[1].link->ops->progress(s.sides[1].link);
    }
    assert_int_equal(send.state, HETCCL_REQUEST_DONE);
    for (uint32_t slot = 0; slot < HETCCL_RING_SLOTS; slot++)
        assert_int_equal(*word_of(&s.pair.sides[0].send, slot), 0);
    close_sides(&s);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_other_calls),
        cmocka_unit_test(test_sends_leave),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
