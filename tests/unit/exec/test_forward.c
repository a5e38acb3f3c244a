/* SPDX-License-Identifier: Apache-2.0 */
/* Rings forwarded over sockets: every order in which senders, receivers and both sides may go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "forward_pair.h"
#include "wire/piece.h"

enum { PATIENCE = 2000 }; /* rounds in which nothing moves before a test says that all is stuck */

/* Calls shorter than the ring, as long, and several times round it; none at all; a single piece. */
static const uint32_t many_sizes[] = {1, 5, 10, 64, 0, 63, 65, 300, 2, 128, 1, 1, 129, 700, 7, 64, 64, 3};

static bool forward_once(struct forward_side *side)
{
    enum hetccl_status status = hetccl_forward_progress(side->forward);

    assert_true(status == HETCCL_OK || status == HETCCL_AGAIN);
    return status == HETCCL_OK;
}

static bool is_over(const struct forward_pair *pair)
{
    for (unsigned i = 0; i < 2; i++)
        if (!sender_is_done(&pair->sides[i].sender) || !receiver_is_done(&pair->sides[i].receiver) ||
            !hetccl_forward_is_over(pair->sides[i].forward))
            return false;
    return true;
}

static void check_receivers(const struct forward_pair *pair)
{
    for (unsigned i = 0; i < 2; i++) {
        if (pair->sides[i].receiver.problem != NULL)
            fail_msg("side %u: %s", i, pair->sides[i].receiver.problem);
        assert_true(receiver_is_done(&pair->sides[i].receiver));
    }
}

/* Everybody in random order; how likely each is changes from time to time, so that some fall far behind. */
static void run_at_random(struct forward_pair *pair, uint64_t seed)
{
    uint32_t weights[6 + PAIR_MAX_BLOCKS] = {0};
    uint64_t random = seed;
    uint32_t n_still = 0;

    for (uint32_t i = 0; !is_over(pair); i++) {
        struct forward_side *side = &pair->sides[forward_random(&random) % 2];
        uint32_t actor = forward_random(&random) % (2 + PAIR_MAX_BLOCKS);
        bool has_moved = true;

        if (i % 512 == 0)
            for (uint32_t k = 0; k < 2 + PAIR_MAX_BLOCKS; k++)
                weights[k] = forward_random(&random) % 4;
        if (forward_random(&random) % 4 >= 1 + weights[actor])
            continue;
        if (actor == 0)
            has_moved = forward_once(side);
        else if (actor == 1)
            has_moved = receiver_step(side);
        else
            has_moved = sender_step(side, actor - 2);
        n_still = has_moved ? 0 : n_still + 1;
        assert_true(n_still < PATIENCE);
    }
}

static void test_any_order(void **state)
{
    for (uint32_t seed = 1; seed <= 12; seed++) {
        const struct traffic there = {many_sizes, sizeof(many_sizes) / 4, 1u << seed % 4, seed};
        const struct traffic back = {many_sizes + seed % 9, 9, 1u << seed / 4 % 4, seed + 100};
        struct forward_pair pair;

        forward_pair_open(&pair, 1 + seed % 2 * 2, true);
        traffic_begin(&pair, 0, &there);
        if (seed % 3 != 0)
            traffic_begin(&pair, 1, &back);
        run_at_random(&pair, seed);
        check_receivers(&pair);
        forward_pair_close(&pair);
    }
}

static void settle(struct forward_pair *pair)
{
    for (uint32_t i = 0, n_still = 0; n_still < 8; i++)
        n_still = forward_once(&pair->sides[i % 2]) ? 0 : n_still + 1;
}

/* A block that is a whole ring ahead of the others doesn't shut them out. */
static void test_fast_block(void **state)
{
    static const uint32_t sizes[] = {256};
    const struct traffic traffic = {sizes, 1, 2, 9};
    struct forward_pair pair;
    struct forward_side *from, *to;

    forward_pair_open(&pair, 1, true);
    from = &pair.sides[0];
    to = &pair.sides[1];
    traffic_begin(&pair, 0, &traffic);
    /* 32 slots in the peer's ring, and as many of the next round in this one. */
    for (uint32_t i = 0; i < 128; i++) {
        (void)sender_step(from, 1);
        settle(&pair);
    }
    assert_int_equal(from->sender.next[1], 129);
    assert_false(receiver_step(to));
    assert_true(sender_step(from, 0));
    settle(&pair);
    assert_true(receiver_step(to));
    assert_true(receiver_step(to));
    assert_false(receiver_step(to));
    run_at_random(&pair, 5);
    check_receivers(&pair);
    forward_pair_close(&pair);
}

/* The next call's sixth piece comes before its first, right behind a call of five, and is no sixth of that.
 */
static void test_calls_overlap(void **state)
{
    static const uint32_t sizes[] = {5, 200};
    const struct traffic traffic = {sizes, 2, 8, 3};
    struct forward_pair pair;
    struct forward_side *from;

    forward_pair_open(&pair, 1, true);
    from = &pair.sides[0];
    traffic_begin(&pair, 0, &traffic);
    for (uint32_t block = 0; block < 5; block++)
        assert_true(sender_step(from, block));
    settle(&pair);
    assert_true(sender_step(from, 0)); /* on to the next call */
    for (uint32_t block = 5; block < 8; block++) {
        assert_true(sender_step(from, block));
        settle(&pair);
    }
    run_at_random(&pair, 6);
    check_receivers(&pair);
    forward_pair_close(&pair);
}

/* A short ring of sockets is no reason for a side to claim that there is nothing left to do. */
static void test_says_what_is_left(void **state)
{
    static const uint32_t sizes[] = {3};
    const struct traffic traffic = {sizes, 1, 1, 4};
    struct forward_pair pair;
    struct forward_side *from, *to;

    forward_pair_open(&pair, 1, true);
    from = &pair.sides[0];
    to = &pair.sides[1];
    assert_true(hetccl_forward_is_delivered(from->forward));
    assert_false(hetccl_forward_has_work(from->forward));
    traffic_begin(&pair, 0, &traffic);
    assert_true(sender_step(from, 0));
    assert_true(hetccl_forward_has_work(from->forward));
    assert_false(hetccl_forward_is_delivered(from->forward));
    settle(&pair);
    /* On the peer's side, unread. */
    assert_false(hetccl_forward_has_work(from->forward));
    assert_false(hetccl_forward_is_delivered(from->forward));
    assert_true(receiver_step(to));
    /* Read, but `to` hasn't seen it and `from` doesn't know. */
    assert_false(hetccl_forward_is_over(to->forward));
    settle(&pair);
    assert_true(hetccl_forward_is_over(to->forward));
    assert_true(hetccl_forward_is_delivered(from->forward));
    assert_int_equal(hetccl_forward_progress(from->forward), HETCCL_AGAIN);
    forward_pair_close(&pair);
}

/* ---- threads ---- */

struct worker {
    struct forward_pair *pair;
    atomic_bool *is_ended;
    uint32_t index; /* side */
    uint64_t random;
    enum hetccl_status failure;
    char failure_text[HETCCL_ERROR_TEXT_BYTES];
};

/* Now and then as slow as another process that isn't running. */
static void dawdle(struct worker *worker)
{
    if (forward_random(&worker->random) % 256 == 0)
        hetccl_sleep_ns(forward_random(&worker->random) % 300 * HETCCL_NS_PER_US);
    else
        (void)sched_yield();
}

static void *work_forward(void *arg)
{
    struct worker *worker = arg;

    while (!atomic_load(worker->is_ended)) {
        enum hetccl_status status = hetccl_forward_progress(worker->pair->sides[worker->index].forward);

        if (status == HETCCL_AGAIN)
            dawdle(worker);
        if (!hetccl_is_error(status))
            continue;
        worker->failure = status;
        (void)snprintf(worker->failure_text, sizeof(worker->failure_text), "%s", hetccl_last_error_thread());
        atomic_store(worker->is_ended, true);
    }
    return NULL;
}

static void *work_sender(void *arg)
{
    struct worker *worker = arg;
    struct forward_side *side = &worker->pair->sides[worker->index];

    while (!sender_is_done(&side->sender) && !atomic_load(worker->is_ended))
        for (uint32_t block = 0; block < side->sender.traffic->n_blocks; block++)
            if (!sender_step(side, block))
                dawdle(worker);
    return NULL;
}

static void *work_receiver(void *arg)
{
    struct worker *worker = arg;
    struct forward_side *side = &worker->pair->sides[worker->index];

    while (!receiver_is_done(&side->receiver) && !atomic_load(worker->is_ended))
        if (!receiver_step(side))
            dawdle(worker);
    return NULL;
}

static void test_threads(void **state)
{
    static void *(*const bodies[])(void *) = {work_sender, work_receiver, work_forward};
    const struct traffic there = {many_sizes, sizeof(many_sizes) / 4, 4, 1};
    const struct traffic back = {many_sizes, sizeof(many_sizes) / 4, 1, 2};
    struct forward_pair pair;
    struct worker workers[6];
    pthread_t threads[6];
    atomic_bool is_ended = false;

    forward_pair_open(&pair, 2, true);
    traffic_begin(&pair, 0, &there);
    traffic_begin(&pair, 1, &back);
    for (uint32_t i = 0; i < 6; i++) {
        workers[i] = (struct worker){.pair = &pair, .is_ended = &is_ended, .index = i % 2, .random = i};
        assert_int_equal(pthread_create(&threads[i], NULL, bodies[i / 2], &workers[i]), 0);
    }
    for (uint32_t i = 0; i < 4; i++)
        (void)pthread_join(threads[i], NULL);
    atomic_store(&is_ended, true);
    for (uint32_t i = 4; i < 6; i++) {
        (void)pthread_join(threads[i], NULL);
        if (workers[i].failure != HETCCL_OK)
            fail_msg("%s", workers[i].failure_text);
    }
    check_receivers(&pair);
    forward_pair_close(&pair);
}

/* ---- a link that is late ---- */

/* Sends what was posted at the next progress only, and lets the peer answer before that returns. */
struct late_link {
    struct hetccl_link link;
    struct hetccl_link *inner;
    struct forward_side *peer;
    struct hetccl_link_request *posted[4];
    size_t n_posted;
};

static enum hetccl_status late_post_send(struct hetccl_link *link, struct hetccl_link_request *request)
{
    struct late_link *late = (struct late_link *)link;

    assert_true(late->n_posted < 4);
    late->posted[late->n_posted++] = request;
    return HETCCL_OK;
}

static enum hetccl_status late_post_recv(struct hetccl_link *link, struct hetccl_link_request *request)
{
    struct late_link *late = (struct late_link *)link;

    return late->inner->ops->post_recv(late->inner, request);
}

static enum hetccl_status late_progress(struct hetccl_link *link)
{
    struct late_link *late = (struct late_link *)link;

    for (size_t i = 0; i < late->n_posted; i++)
        assert_int_equal(late->inner->ops->post_send(late->inner, late->posted[i]), HETCCL_OK);
    late->n_posted = 0;
    for (unsigned i = 0; i < 8; i++)
        if (!forward_once(late->peer))
            (void)receiver_step(late->peer);
    return late->inner->ops->progress(late->inner);
}

/* The peer has read a piece, and says so, before this side knows that the link is done with it. */
static void test_fast_peer(void **state)
{
    static const struct hetccl_link_ops ops = {
        .post_send = late_post_send, .post_recv = late_post_recv, .progress = late_progress};
    static const uint32_t sizes[] = {130};
    const struct traffic traffic = {sizes, 1, 1, 2};
    struct late_link late = {.link = {.ops = &ops, .own_rank = 4, .peer_rank = 3}};
    struct forward_pair pair;
    struct forward_side *from;

    forward_pair_open(&pair, 1, false);
    from = &pair.sides[1];
    late.inner = from->link;
    late.peer = &pair.sides[0];
    assert_int_equal(hetccl_forward_create(&from->send, &from->recv, &late.link, &from->forward), HETCCL_OK);
    traffic_begin(&pair, 1, &traffic);
    for (uint32_t i = 0; i < PATIENCE && !is_over(&pair); i++) {
        (void)sender_step(from, 0);
        (void)forward_once(from);
    }
    assert_true(is_over(&pair));
    check_receivers(&pair);
    forward_pair_close(&pair);
}

/* ---- what may not be ---- */

static void expect_failure(struct forward_side *side, enum hetccl_status expected, const char *text)
{
    enum hetccl_status status = HETCCL_AGAIN;

    for (uint32_t i = 0; i < PATIENCE && !hetccl_is_error(status); i++)
        status = hetccl_forward_progress(side->forward);
    assert_int_equal(status, expected);
    if (strstr(hetccl_last_error_thread(), text) == NULL)
        fail_msg("'%s' doesn't say '%s'", hetccl_last_error_thread(), text);
    /* It stays. */
    (void)hetccl_fail_quietly(HETCCL_ERR_ARG, "something else");
    assert_int_equal(hetccl_forward_progress(side->forward), expected);
    assert_non_null(strstr(hetccl_last_error_thread(), text));
}

static void send_frames(struct forward_pair *pair, const struct hetccl_piece_head *heads, size_t n_heads)
{
    static struct hetccl_link_request requests[4];
    static uint8_t frames[4][HETCCL_PIECE_FRAME_BYTES];
    struct hetccl_link *link = pair->sides[1].link;

    for (size_t i = 0; i < n_heads; i++) {
        requests[i] =
            (struct hetccl_link_request){.memory = frames[i],
                                         .bytes_total = sizeof(frames[i]),
                                         .tag = {.coll = 255, .type = 255, .red = 255, .root = UINT32_MAX}};
        hetccl_piece_head_encode(&heads[i], frames[i]);
        assert_int_equal(link->ops->post_send(link, &requests[i]), HETCCL_OK);
    }
}

static void test_bad_peers(void **state)
{
    const uint32_t mark = hetccl_ring_mark(1, 7);
    const struct {
        struct hetccl_piece_head heads[2];
        size_t n_heads;
        const char *text;
    } cases[] = {
        {{{.mark = 7, .bytes = 1}}, 1, "rank 4 on host host-4 sent rank 3 a frame that is none"},
        {{{.mark = mark | 1u << 31, .bytes = 1}}, 1, "a frame that is none"},
        {{{.mark = mark}}, 1, "a frame that is none"},
        {{{.bytes = 4}}, 1, "a frame that is none"},
        {{{.mark = mark, .bytes = PAIR_SLOT_BYTES + 1}}, 1, "a piece that has no room in its slot"},
        {{{.mark = mark, .bytes = 4}, {.mark = mark + 64, .bytes = 4}},
         2,
         "a piece that has no room in its slot"},
        {{{.freed_slots = 2}}, 1, "back a slot that it had not been given"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct forward_pair pair;

        forward_pair_open(&pair, 1, false);
        send_frames(&pair, cases[i].heads, cases[i].n_heads);
        expect_failure(&pair.sides[0], HETCCL_ERR_REMOTE, cases[i].text);
        forward_pair_close(&pair);
    }
}

static void test_peer_gone(void **state)
{
    struct forward_pair pair;

    forward_pair_open(&pair, 1, true);
    settle(&pair);
    hetccl_forward_destroy(pair.sides[1].forward);
    pair.sides[1].forward = NULL;
    pair.sides[1].link->ops->close(pair.sides[1].link);
    pair.sides[1].link = NULL;
    expect_failure(&pair.sides[0], HETCCL_ERR_REMOTE, "rank 4 on host host-4 closed the link");
    forward_pair_close(&pair);
}

static void test_bad_slot(void **state)
{
    struct forward_pair pair;

    forward_pair_open(&pair, 1, true);
    pair.sides[0].send.words[1] = 16;
    pair.sides[0].send.words[0] = hetccl_ring_mark(1, 3); /* in slot 0 */
    expect_failure(&pair.sides[0], HETCCL_ERR_INTERNAL, "slot 0 for rank 4");
    forward_pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order),     cmocka_unit_test(test_fast_block),
        cmocka_unit_test(test_calls_overlap), cmocka_unit_test(test_says_what_is_left),
        cmocka_unit_test(test_threads),       cmocka_unit_test(test_fast_peer),
        cmocka_unit_test(test_bad_peers),     cmocka_unit_test(test_peer_gone),
        cmocka_unit_test(test_bad_slot),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
