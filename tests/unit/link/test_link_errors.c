/* SPDX-License-Identifier: Apache-2.0 */
/* What every kind of link does when something is wrong. Both sides are driven by this thread in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/time.h"
#include "pair.h"

enum { SMALL = 40, LARGE = 48 << 20 /* more than a socket's buffers hold */, PATIENCE_S = 10 };

struct duo {
    struct pair pair;
    struct side sides[2];
};

static const struct hetccl_call_tag tag_a = {
    .sequence = 7, .count = 10, .coll = 0, .type = 7, .red = 0, .root = UINT32_MAX};
static const struct hetccl_call_tag tag_b = {
    .sequence = 7, .count = 10, .coll = 4, .type = 7, .red = 2, .root = 5};

static unsigned char *memory_a, *memory_b; /* LARGE bytes each */

static void duo_init(struct duo *duo, size_t kind)
{
    pair_init(&duo->pair, &pair_kinds[kind]);
    assert_true(side_open(&duo->sides[0], &duo->pair, 0));
    assert_true(side_open(&duo->sides[1], &duo->pair, 1));
}

static void duo_fini(struct duo *duo)
{
    for (size_t i = 0; i < 2; i++) {
        if (duo->sides[i].link != NULL)
            side_close(&duo->sides[i]);
    }
    pair_fini(&duo->pair);
}

static enum hetccl_status progress(struct side *side)
{
    return side->link->ops->progress(side->link);
}

static struct hetccl_link_request request_of(void *memory, size_t bytes, struct hetccl_call_tag tag)
{
    return (struct hetccl_link_request){.memory = memory, .bytes_total = bytes, .tag = tag};
}

static void post_send(struct side *side, struct hetccl_link_request *request)
{
    assert_int_equal(side->link->ops->post_send(side->link, request), HETCCL_OK);
}

static void post_recv(struct side *side, struct hetccl_link_request *request)
{
    assert_int_equal(side->link->ops->post_recv(side->link, request), HETCCL_OK);
}

/* Drives until `watched` fails; the other side, if open, goes on too. */
static enum hetccl_status drive_to_failure(struct duo *duo, unsigned watched)
{
    uint64_t deadline_ns = hetccl_deadline_ns(PATIENCE_S);

    while (hetccl_now_ns() < deadline_ns) {
        enum hetccl_status status = progress(&duo->sides[watched]);

        if (hetccl_is_error(status))
            return status;
        if (duo->sides[1 - watched].link != NULL)
            assert_false(hetccl_is_error(progress(&duo->sides[1 - watched])));
    }
    return HETCCL_OK;
}

static void drive_until_done(struct duo *duo, const struct hetccl_link_request *request)
{
    uint64_t deadline_ns = hetccl_deadline_ns(PATIENCE_S);

    while (request->state != HETCCL_REQUEST_DONE) {
        for (size_t i = 0; i < 2; i++) {
            if (duo->sides[i].link != NULL)
                assert_false(hetccl_is_error(progress(&duo->sides[i])));
        }
        assert_true(hetccl_now_ns() < deadline_ns);
    }
}

static void assert_text_has(const char *part)
{
    if (strstr(hetccl_last_error_thread(), part) == NULL)
        fail_msg("'%s' is not in: %s", part, hetccl_last_error_thread());
}

/* The failure stays, with its text, whatever is called. */
static void assert_sticky(struct side *side, enum hetccl_status status, const char *part)
{
    struct hetccl_link_request request = request_of(NULL, 16, tag_a);
    struct hetccl_link *link = side->link;
    const void *shown;
    size_t bytes;

    (void)hetccl_fail_quietly(HETCCL_ERR_ARG, "something else");
    assert_int_equal(link->ops->progress(link), status);
    assert_text_has(part);
    (void)hetccl_fail_quietly(HETCCL_ERR_ARG, "something else");
    assert_int_equal(link->ops->post_recv(link, &request), status);
    assert_text_has(part);
    request.memory = memory_a;
    assert_int_equal(link->ops->post_send(link, &request), status);
    request.memory = NULL;
    assert_int_equal(link->ops->peek(link, &request, &shown, &bytes), status);
}

static void check_mismatch(size_t kind, struct hetccl_link_request sent, struct hetccl_link_request expected)
{
    struct duo duo;

    duo_init(&duo, kind);
    post_send(&duo.sides[0], &sent);
    post_recv(&duo.sides[1], &expected);
    assert_int_equal(drive_to_failure(&duo, 1), HETCCL_ERR_USAGE);
    assert_text_has("rank 4 is in");
    assert_text_has("rank 3 on host host-3 in");
    assert_text_has("same order");
    assert_sticky(&duo.sides[1], HETCCL_ERR_USAGE, "rank 3 on host host-3 in");
    assert_int_not_equal(expected.state, HETCCL_REQUEST_DONE);
    duo_fini(&duo);
}

static void test_tag_mismatch(void **state)
{
    for (size_t kind = 0; kind < N_PAIR_KINDS; kind++) {
        check_mismatch(kind, request_of(memory_a, SMALL, tag_a), request_of(memory_b, SMALL, tag_b));
        assert_text_has("rank 4 is in call 7 reduce count 10 float32 max root 5 (message of 40 bytes)");
        assert_text_has("in call 7 allreduce count 10 float32 sum (message of 40 bytes)");
        check_mismatch(kind, request_of(memory_a, SMALL, tag_a), request_of(NULL, SMALL, tag_b));
        check_mismatch(kind, request_of(memory_a, 0, tag_a), request_of(NULL, 0, tag_b));
        check_mismatch(kind, request_of(memory_a, 2 << 20, tag_a), request_of(memory_b, 2 << 20, tag_b));
    }
}

static void test_size_mismatch(void **state)
{
    for (size_t kind = 0; kind < N_PAIR_KINDS; kind++) {
        check_mismatch(kind, request_of(memory_a, SMALL, tag_a), request_of(memory_b, SMALL + 8, tag_a));
        assert_text_has("(message of 48 bytes)");
        assert_text_has("(message of 40 bytes)");
        check_mismatch(kind, request_of(memory_a, SMALL, tag_a), request_of(memory_b, 0, tag_a));
        check_mismatch(kind, request_of(memory_a, 0, tag_a), request_of(NULL, 1, tag_a));
        check_mismatch(kind, request_of(memory_a, 2 << 20, tag_a), request_of(memory_b, 70000, tag_a));
        check_mismatch(kind, request_of(memory_a, 70000, tag_a), request_of(NULL, 2 << 20, tag_a));
    }
}

/* A mismatch in the second message: the first is received all the same. */
static void test_mismatch_after_a_good_message(void **state)
{
    for (size_t kind = 0; kind < N_PAIR_KINDS; kind++) {
        struct hetccl_link_request sends[2] = {request_of(memory_a, SMALL, tag_a),
                                               request_of(memory_a, SMALL, tag_a)};
        struct hetccl_link_request recvs[2] = {request_of(memory_b, SMALL, tag_a),
                                               request_of(memory_b, SMALL, tag_b)};
        struct duo duo;

        duo_init(&duo, kind);
        for (size_t i = 0; i < 2; i++) {
            post_send(&duo.sides[0], &sends[i]);
            post_recv(&duo.sides[1], &recvs[i]);
        }
        assert_int_equal(drive_to_failure(&duo, 1), HETCCL_ERR_USAGE);
        assert_int_equal(recvs[0].state, HETCCL_REQUEST_DONE);
        assert_int_not_equal(recvs[1].state, HETCCL_REQUEST_DONE);
        duo_fini(&duo);
    }
}

static void test_peer_closes_before_a_message(void **state)
{
    for (size_t kind = 0; kind < N_PAIR_KINDS; kind++) {
        struct hetccl_link_request recv = request_of(memory_b, SMALL, tag_a);
        struct duo duo;

        duo_init(&duo, kind);
        post_recv(&duo.sides[1], &recv);
        assert_int_equal(progress(&duo.sides[1]), HETCCL_AGAIN);
        side_close(&duo.sides[0]);
        assert_int_equal(drive_to_failure(&duo, 1), HETCCL_ERR_REMOTE);
        assert_text_has("rank 3 on host host-3 closed the link");
        assert_sticky(&duo.sides[1], HETCCL_ERR_REMOTE, "closed the link");
        duo_fini(&duo);
    }
}

static void check_close_in_a_message(size_t kind, bool is_peeked)
{
    struct hetccl_link_request send = request_of(memory_a, LARGE, tag_a);
    struct hetccl_link_request recv = request_of(is_peeked ? NULL : memory_b, LARGE, tag_a);
    struct duo duo;
    uint64_t deadline_ns = hetccl_deadline_ns(PATIENCE_S);
    enum hetccl_status status = HETCCL_AGAIN;
    const void *shown;
    size_t bytes;

    duo_init(&duo, kind);
    post_send(&duo.sides[0], &send);
    post_recv(&duo.sides[1], &recv);
    (void)progress(&duo.sides[1]);
    assert_int_not_equal(send.state, HETCCL_REQUEST_DONE);
    side_close(&duo.sides[0]);
    while (!hetccl_is_error(status) && hetccl_now_ns() < deadline_ns) {
        status = progress(&duo.sides[1]);
        if (is_peeked && !hetccl_is_error(status) &&
            duo.sides[1].link->ops->peek(duo.sides[1].link, &recv, &shown, &bytes) == HETCCL_OK) {
            assert_memory_equal(shown, memory_a + recv.bytes_done, bytes);
            duo.sides[1].link->ops->consume(duo.sides[1].link, &recv, bytes);
        }
    }
    assert_int_equal(status, HETCCL_ERR_REMOTE);
    assert_text_has("rank 3 on host host-3");
    assert_in_range(recv.bytes_done, 1, LARGE - 1);
    assert_int_not_equal(recv.state, HETCCL_REQUEST_DONE);
    duo_fini(&duo);
}

static void test_peer_closes_in_a_message(void **state)
{
    for (size_t kind = 0; kind < N_PAIR_KINDS; kind++) {
        check_close_in_a_message(kind, false);
        check_close_in_a_message(kind, true);
    }
}

static void test_peer_closes_while_this_side_sends(void **state)
{
    for (size_t kind = 0; kind < N_PAIR_KINDS; kind++) {
        struct hetccl_link_request send = request_of(memory_a, LARGE, tag_a);
        struct duo duo;

        duo_init(&duo, kind);
        post_send(&duo.sides[0], &send);
        side_close(&duo.sides[1]);
        assert_int_equal(drive_to_failure(&duo, 0), HETCCL_ERR_REMOTE);
        assert_text_has("rank 4 on host host-4");
        assert_int_not_equal(send.state, HETCCL_REQUEST_DONE);
        duo_fini(&duo);
    }
}

/* What was sent before the close arrives. */
static void test_messages_before_a_close_arrive(void **state)
{
    for (size_t kind = 0; kind < N_PAIR_KINDS; kind++) {
        struct hetccl_link_request send = request_of(memory_a, SMALL, tag_a),
                                   recv = request_of(memory_b, SMALL, tag_a);
        struct duo duo;

        duo_init(&duo, kind);
        memset(memory_b, 0, SMALL);
        post_send(&duo.sides[0], &send);
        assert_int_equal(send.state, HETCCL_REQUEST_DONE);
        side_close(&duo.sides[0]);
        post_recv(&duo.sides[1], &recv);
        drive_until_done(&duo, &recv);
        assert_memory_equal(memory_a, memory_b, SMALL);
        duo_fini(&duo);
    }
}

static void test_idle_links_say_again(void **state)
{
    for (size_t kind = 0; kind < N_PAIR_KINDS; kind++) {
        struct hetccl_link_request recv = request_of(memory_b, SMALL, tag_a),
                                   peeked = request_of(NULL, SMALL, tag_a);
        const void *shown;
        struct duo duo;
        size_t bytes;

        duo_init(&duo, kind);
        assert_string_equal(duo.sides[0].link->ops->name, pair_kinds[kind].n_sockets > 0 ? "tcp" : "shm");
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(progress(&duo.sides[i % 2]), HETCCL_AGAIN);
        post_recv(&duo.sides[1], &recv);
        post_recv(&duo.sides[1], &peeked);
        assert_int_equal(progress(&duo.sides[1]), HETCCL_AGAIN);
        assert_int_equal(duo.sides[1].link->ops->peek(duo.sides[1].link, &peeked, &shown, &bytes),
                         HETCCL_AGAIN);
        assert_int_equal(recv.state, HETCCL_REQUEST_QUEUED);
        duo_fini(&duo);
    }
}

static void test_wrong_consume(void **state)
{
    for (size_t kind = 0; kind < N_PAIR_KINDS; kind++) {
        struct hetccl_link_request send = request_of(memory_a, SMALL, tag_a),
                                   recv = request_of(NULL, SMALL, tag_a);
        const void *shown;
        struct duo duo;
        size_t bytes = 0;

        duo_init(&duo, kind);
        post_send(&duo.sides[0], &send);
        post_recv(&duo.sides[1], &recv);
        while (duo.sides[1].link->ops->peek(duo.sides[1].link, &recv, &shown, &bytes) == HETCCL_AGAIN)
            (void)progress(&duo.sides[1]);
        assert_int_equal(bytes, SMALL);
        assert_memory_equal(shown, memory_a, SMALL);
        duo.sides[1].link->ops->consume(duo.sides[1].link, &recv, 16);
        assert_int_equal(recv.bytes_done, 16);
        duo.sides[1].link->ops->consume(duo.sides[1].link, &recv, 9);
        assert_int_equal(recv.bytes_done, 16);
        assert_sticky(&duo.sides[1], HETCCL_ERR_ARG, "9 bytes given back of 24 shown");
        duo_fini(&duo);
    }
}

static void check_create_fault(struct pair *pair, enum hetccl_fault fault)
{
    struct side side;
    bool ok = false;

    for (unsigned n = 1; !ok; n++) {
        assert_true(n < 100);
        hetccl_fault_arm(fault, n);
        ok = side_open(&side, pair, 0);
        hetccl_fault_arm(fault, 0);
        /* Without success the sockets are still the caller's. */
        if (!ok && pair->kind->n_sockets > 0)
            assert_int_not_equal(fcntl(pair->sockets[0][0], F_GETFD), -1);
    }
    side_close(&side);
}

static void test_faults_at_creation(void **state)
{
    for (size_t kind = 0; kind < N_PAIR_KINDS; kind++) {
        struct pair pair;

        pair_init(&pair, &pair_kinds[kind]);
        check_create_fault(&pair, HETCCL_FAULT_ALLOC);
        side_drop_other(&pair, 0);
        pair_fini(&pair);
        pair_init(&pair, &pair_kinds[kind]);
        check_create_fault(&pair, HETCCL_FAULT_SOCKET);
        side_drop_other(&pair, 0);
        pair_fini(&pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tag_mismatch),
        cmocka_unit_test(test_size_mismatch),
        cmocka_unit_test(test_mismatch_after_a_good_message),
        cmocka_unit_test(test_peer_closes_before_a_message),
        cmocka_unit_test(test_peer_closes_in_a_message),
        cmocka_unit_test(test_peer_closes_while_this_side_sends),
        cmocka_unit_test(test_messages_before_a_close_arrive),
        cmocka_unit_test(test_idle_links_say_again),
        cmocka_unit_test(test_wrong_consume),
        cmocka_unit_test(test_faults_at_creation),
    };
    int n_failed;

    pattern_init();
    memory_a = calloc(1, LARGE);
    memory_b = calloc(1, LARGE);
    if (memory_a == NULL || memory_b == NULL)
        return 1;
    pattern_fill(memory_a, 4 << 20, 0, 1);
    n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(memory_a);
    free(memory_b);
    return n_failed;
}
