/* SPDX-License-Identifier: Apache-2.0 */
/* What only tcp links have: lanes, system calls, what is polled, a peer that doesn't read for long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "link/tcp/lanes.h"
#include "pair.h"

enum { MIB = 1 << 20, LOOK_AHEAD_BYTES = 4096, PATIENCE_S = 10, LARGE = 48 * MIB };
enum { ONE_SOCKET = 4, THREE_SOCKETS = 5, SIXTEEN_SOCKETS = 6 }; /* of pair_kinds */

static bool is_polled_ready(struct side *side, int patience_ms)
{
    struct pollfd polled = {0};

    polled.fd = side->link->ops->wait_fd(side->link, &polled.events);
    return polled.fd >= 0 && poll(&polled, 1, patience_ms) > 0;
}

/* Loopback may deliver late on a busy machine. */
static void await_bytes(int fd)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};

    assert_int_equal(poll(&polled, 1, PATIENCE_S * 1000), 1);
}

static void drive(struct side sides[2], const struct hetccl_link_request *request)
{
    uint64_t deadline_ns = hetccl_deadline_ns(PATIENCE_S);

    while (request->state != HETCCL_REQUEST_DONE) {
        for (size_t i = 0; i < 2; i++)
            assert_false(hetccl_is_error(sides[i].link->ops->progress(sides[i].link)));
        assert_true(hetccl_now_ns() < deadline_ns);
    }
}

static void open_both(struct pair *pair, struct side sides[2], size_t kind)
{
    pair_init(pair, &pair_kinds[kind]);
    assert_true(side_open(&sides[0], pair, 0));
    assert_true(side_open(&sides[1], pair, 1));
}

static void close_both(struct pair *pair, struct side sides[2])
{
    side_close(&sides[0]);
    side_close(&sides[1]);
    pair_fini(pair);
}

/* Every byte is carried by exactly one lane, in steps as the kernel may cut them. */
static void check_lanes(size_t bytes_total, size_t n_sockets, uint64_t *random)
{
    struct hetccl_tcp_layout layout = hetccl_tcp_layout_of(bytes_total, n_sockets);
    unsigned char *seen = calloc(1, bytes_total + 1);
    const struct hetccl_tcp_span span = {seen, SIZE_MAX, SIZE_MAX};
    size_t sum = 0;

    assert_non_null(seen);
    for (size_t lane = 0; lane < layout.n_lanes; lane++) {
        size_t lane_bytes = hetccl_tcp_lane_bytes(&layout, lane), done = 0;

        while (done < lane_bytes) {
            struct iovec piece;
            size_t bytes = 0;

            assert_int_equal(hetccl_tcp_lane_pieces(&layout, lane, done, &span, &piece, 1, &bytes), 1);
            assert_int_equal(piece.iov_len, bytes);
            assert_in_range(bytes, 1, lane_bytes - done);
            assert_ptr_equal(piece.iov_base, seen + hetccl_tcp_lane_offset(&layout, lane, done));
            bytes = 1 + random_next(random) % bytes;
            for (size_t i = 0; i < bytes; i++)
                ((unsigned char *)piece.iov_base)[i]++;
            done += bytes;
        }
        assert_int_equal(hetccl_tcp_lane_offset(&layout, lane, lane_bytes), bytes_total);
        sum += lane_bytes;
    }
    assert_int_equal(sum, bytes_total);
    for (size_t i = 0; i < bytes_total; i++)
        assert_true(seen[i] == 1);
    assert_int_equal(seen[bytes_total], 0);
    free(seen);
}

static void test_lanes_partition_the_message(void **state)
{
    uint64_t random = 1;

    for (size_t n_sockets = 1; n_sockets <= HETCCL_LINK_TCP_MAX_SOCKETS; n_sockets += 3) {
        size_t threshold = n_sockets * HETCCL_TCP_STRIPE_BYTES;

        check_lanes(0, n_sockets, &random);
        check_lanes(threshold, n_sockets, &random);
        check_lanes(threshold + 1, n_sockets, &random);
        check_lanes(2 * threshold - 1, n_sockets, &random);
        check_lanes(random_next(&random) % (2 * MIB), n_sockets, &random);
    }
    assert_int_equal(hetccl_tcp_layout_of(3 * HETCCL_TCP_STRIPE_BYTES, 3).n_lanes, 1);
    assert_int_equal(hetccl_tcp_layout_of(3 * HETCCL_TCP_STRIPE_BYTES + 1, 3).n_lanes, 3);
}

/* A ring and a limit: pieces end where the ring does, and at the limit. */
static void test_pieces_stay_inside_the_ring(void **state)
{
    static unsigned char ring[4 * HETCCL_TCP_STRIPE_BYTES];
    struct hetccl_tcp_layout layout = hetccl_tcp_layout_of(MIB, 1);
    struct hetccl_tcp_span span = {ring, sizeof(ring), sizeof(ring) + 100};
    struct iovec pieces[4];
    size_t bytes;

    assert_int_equal(hetccl_tcp_lane_pieces(&layout, 0, 1000, &span, pieces, 4, &bytes), 2);
    assert_ptr_equal(pieces[0].iov_base, ring + 1000);
    assert_int_equal(pieces[0].iov_len, sizeof(ring) - 1000);
    assert_ptr_equal(pieces[1].iov_base, ring);
    assert_int_equal(pieces[1].iov_len, 100);
    assert_int_equal(bytes, sizeof(ring) - 900);
    assert_int_equal(hetccl_tcp_lane_pieces(&layout, 0, sizeof(ring) + 100, &span, pieces, 4, &bytes), 0);
}

static void check_small_messages(size_t kind, size_t bytes)
{
    enum { N = 50 };
    unsigned char sent[1024], received[1024];
    struct side sides[2];
    struct pair pair;

    open_both(&pair, sides, kind);
    pattern_fill(sent, sizeof(sent), 0, 5);
    for (unsigned i = 0; i < N; i++) {
        struct hetccl_link_request send = {.memory = sent, .bytes_total = bytes};
        struct hetccl_link_request recv = {.memory = received, .bytes_total = bytes};

        assert_int_equal(sides[0].link->ops->post_send(sides[0].link, &send), HETCCL_OK);
        assert_int_equal(send.state, HETCCL_REQUEST_DONE);
        assert_int_equal(sides[1].link->ops->post_recv(sides[1].link, &recv), HETCCL_OK);
        await_bytes(pair.sockets[1][0]);
        assert_int_equal(sides[1].link->ops->progress(sides[1].link), HETCCL_OK);
        assert_int_equal(recv.state, HETCCL_REQUEST_DONE);
        assert_memory_equal(sent, received, bytes);
    }
    assert_int_equal(sides[0].link->counters.system_calls, N);
    assert_int_equal(sides[1].link->counters.system_calls, N);
    assert_int_equal(sides[0].link->counters.copies_bytes, 0);
    assert_int_equal(sides[1].link->counters.copies_bytes, 0);
    close_both(&pair, sides);
}

/* One call to send and one to receive, straight into the caller's memory. */
static void test_a_small_message_is_one_call_a_side(void **state)
{
    for (size_t kind = ONE_SOCKET; kind <= SIXTEEN_SOCKETS; kind++) {
        check_small_messages(kind, 0);
        check_small_messages(kind, 8);
        check_small_messages(kind, 1024);
    }
}

/* A run of small messages comes with a few calls, by the look-ahead. */
static void test_a_run_of_small_messages_is_looked_ahead(void **state)
{
    enum { N = 40 };
    struct hetccl_link_request sends[N], recvs[N];
    uint64_t sent[N], received[N];
    struct side sides[2];
    struct pair pair;

    open_both(&pair, sides, ONE_SOCKET);
    for (unsigned i = 0; i < N; i++) {
        sent[i] = i * 3;
        sends[i] = (struct hetccl_link_request){.memory = &sent[i], .bytes_total = 8, .tag.sequence = i};
        recvs[i] = (struct hetccl_link_request){.memory = &received[i], .bytes_total = 8, .tag.sequence = i};
        assert_int_equal(sides[0].link->ops->post_send(sides[0].link, &sends[i]), HETCCL_OK);
        assert_int_equal(sides[1].link->ops->post_recv(sides[1].link, &recvs[i]), HETCCL_OK);
    }
    drive(sides, &recvs[N - 1]);
    assert_memory_equal(sent, received, sizeof(sent));
    assert_in_range(sides[1].link->counters.system_calls, 1, 5);
    close_both(&pair, sides);
}

static void test_large_payloads_are_not_copied(void **state)
{
    unsigned char *sent = malloc(4 * MIB), *received = malloc(4 * MIB);

    assert_true(sent != NULL && received != NULL);
    pattern_fill(sent, 4 * MIB, 0, 9);
    for (size_t kind = ONE_SOCKET; kind <= SIXTEEN_SOCKETS; kind++) {
        struct hetccl_link_request sends[4], recvs[4];
        struct side sides[2];
        struct pair pair;

        open_both(&pair, sides, kind);
        memset(received, 0, 4 * MIB);
        for (unsigned i = 0; i < 4; i++) {
            sends[i] = (struct hetccl_link_request){.memory = sent + i * MIB, .bytes_total = MIB};
            recvs[i] = (struct hetccl_link_request){.memory = received + i * MIB, .bytes_total = MIB};
            assert_int_equal(sides[0].link->ops->post_send(sides[0].link, &sends[i]), HETCCL_OK);
            assert_int_equal(sides[1].link->ops->post_recv(sides[1].link, &recvs[i]), HETCCL_OK);
        }
        drive(sides, &recvs[3]);
        assert_memory_equal(sent, received, 4 * MIB);
        assert_int_equal(sides[0].link->counters.copies_bytes, 0);
        assert_in_range(sides[1].link->counters.copies_bytes, 0, 3 * LOOK_AHEAD_BYTES);
        close_both(&pair, sides);
    }
    free(sent);
    free(received);
}

/* Readable only for what is wanted; nothing to poll while nothing is queued, also after the peer has gone. */
static void test_polls_only_what_is_wanted(void **state)
{
    for (size_t kind = ONE_SOCKET; kind <= SIXTEEN_SOCKETS; kind++) {
        uint64_t sent = 5, received = 0;
        struct hetccl_link_request send = {.memory = &sent, .bytes_total = 8};
        struct hetccl_link_request recv = {.memory = &received, .bytes_total = 8};
        struct side sides[2];
        struct pair pair;
        short events;

        open_both(&pair, sides, kind);
        assert_int_equal(sides[1].link->ops->wait_fd(sides[1].link, &events), -1);
        assert_int_equal(sides[1].link->ops->post_recv(sides[1].link, &recv), HETCCL_OK);
        assert_true(sides[1].link->ops->wait_fd(sides[1].link, &events) >= 0);
        assert_int_equal(events, POLLIN);
        assert_false(is_polled_ready(&sides[1], 0));
        assert_int_equal(sides[0].link->ops->post_send(sides[0].link, &send), HETCCL_OK);
        assert_true(is_polled_ready(&sides[1], PATIENCE_S * 1000));
        drive(sides, &recv);
        assert_int_equal(sides[1].link->ops->post_send(sides[1].link, &send), HETCCL_OK);
        side_close(&sides[0]); /* with a byte unread: a reset */
        assert_int_equal(sides[1].link->ops->wait_fd(sides[1].link, &events), -1);
        recv.state = HETCCL_REQUEST_IDLE;
        assert_int_equal(sides[1].link->ops->post_recv(sides[1].link, &recv), HETCCL_OK);
        assert_true(is_polled_ready(&sides[1], PATIENCE_S * 1000));
        assert_int_equal(sides[1].link->ops->progress(sides[1].link), HETCCL_ERR_REMOTE);
        assert_non_null(strstr(hetccl_last_error_thread(), "address 127.0.0.1:"));
        side_close(&sides[1]);
        pair_fini(&pair);
    }
}

static void test_options_are_set(void **state)
{
    struct side sides[2];
    struct pair pair;
    int value = 0;
    socklen_t bytes = sizeof(value);

    open_both(&pair, sides, THREE_SOCKETS);
    for (size_t i = 0; i < 3; i++) {
        int fd = pair.sockets[0][i];

        assert_true((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
        assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
        assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &bytes), 0);
        assert_true(value != 0);
        assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, &bytes), 0);
        assert_true(value != 0);
        assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &value, &bytes), 0);
        assert_int_equal(value, 15);
    }
    close_both(&pair, sides);
}

static void test_foreign_bytes(void **state)
{
    static const char foreign[64] = "GET / HTTP/1.1\r\n";
    struct hetccl_link_request recv = {.memory = NULL, .bytes_total = 4096};
    struct side side;
    struct pair pair;

    pair_init(&pair, &pair_kinds[ONE_SOCKET]);
    assert_true(side_open(&side, &pair, 0));
    assert_int_equal(write(pair.sockets[1][0], foreign, sizeof(foreign)), sizeof(foreign));
    assert_int_equal(side.link->ops->post_recv(side.link, &recv), HETCCL_OK);
    await_bytes(pair.sockets[0][0]);
    assert_int_equal(side.link->ops->progress(side.link), HETCCL_ERR_REMOTE);
    assert_non_null(strstr(hetccl_last_error_thread(), "no message header"));
    side_close(&side);
    close(pair.sockets[1][0]);
    pair_fini(&pair);
}

/* Not reading for longer than death_s isn't death: a stopped or busy rank goes on later. */
static void test_peer_that_does_not_read_is_not_dead(void **state)
{
    unsigned char *sent = calloc(1, LARGE), *received = calloc(1, LARGE);
    struct hetccl_link_request send = {.memory = sent, .bytes_total = LARGE};
    struct hetccl_link_request recv = {.memory = received, .bytes_total = LARGE};
    struct side sides[2];
    struct pair pair;

    assert_true(sent != NULL && received != NULL);
    pattern_fill(sent + LARGE - MIB, MIB, 0, 1);
    pair_init(&pair, &pair_kinds[ONE_SOCKET]);
    pair.death_s = 1;
    assert_true(side_open(&sides[0], &pair, 0));
    assert_true(side_open(&sides[1], &pair, 1));
    assert_int_equal(sides[0].link->ops->post_send(sides[0].link, &send), HETCCL_OK);
    for (unsigned i = 0; i < 30; i++) {
        hetccl_sleep_ns(100 * (uint64_t)HETCCL_NS_PER_MS);
        assert_false(hetccl_is_error(sides[0].link->ops->progress(sides[0].link)));
    }
    assert_int_equal(send.state, HETCCL_REQUEST_ACTIVE);
    assert_int_equal(sides[1].link->ops->post_recv(sides[1].link, &recv), HETCCL_OK);
    drive(sides, &recv);
    assert_memory_equal(sent, received, LARGE);
    close_both(&pair, sides);
    free(sent);
    free(received);
}

static void test_wrong_arguments(void **state)
{
    struct hetccl_link_tcp_args args = {.n_sockets = 0, .peer_rank = 4};
    struct hetccl_link *link = NULL;

    assert_int_equal(hetccl_link_tcp_create(&args, &link), HETCCL_ERR_ARG);
    args.n_sockets = HETCCL_LINK_TCP_MAX_SOCKETS + 1;
    assert_int_equal(hetccl_link_tcp_create(&args, &link), HETCCL_ERR_ARG);
    args.n_sockets = 1;
    args.sockets[0] = -1;
    assert_int_equal(hetccl_link_tcp_create(&args, &link), HETCCL_ERR_SYSTEM);
    assert_null(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lanes_partition_the_message),
        cmocka_unit_test(test_pieces_stay_inside_the_ring),
        cmocka_unit_test(test_a_small_message_is_one_call_a_side),
        cmocka_unit_test(test_a_run_of_small_messages_is_looked_ahead),
        cmocka_unit_test(test_large_payloads_are_not_copied),
        cmocka_unit_test(test_polls_only_what_is_wanted),
        cmocka_unit_test(test_options_are_set),
        cmocka_unit_test(test_foreign_bytes),
        cmocka_unit_test(test_peer_that_does_not_read_is_not_dead),
        cmocka_unit_test(test_wrong_arguments),
    };

    pattern_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
