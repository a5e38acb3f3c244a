/* SPDX-License-Identifier: Apache-2.0 */

/* What a mesh does when nothing goes wrong: create, all-gather, messages, streams, children, and leaving no
 * trace. */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/time.h"
#include "team.h"

static const uint32_t sizes[] = {1, 2, 3, 5, 8, 16};
enum { N_SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static uint8_t pattern(uint32_t rank, size_t index)
{
    return (uint8_t)(rank * 37 + index * 11 + 1);
}

static void gather(struct hetccl_mesh *mesh, size_t bytes)
{
    uint32_t n = hetccl_mesh_n_ranks(mesh);
    uint8_t *mine = malloc(bytes + 1);
    uint8_t *all = malloc(n * bytes + 1);
    bool is_right = true;

    all[n * bytes] = 0xcd;
    for (size_t i = 0; i < bytes; i++)
        mine[i] = pattern(hetccl_mesh_rank(mesh), i);
    expect_status(hetccl_mesh_all_gather(mesh, mine, bytes, all, 10), HETCCL_OK, "all-gather");
    for (uint32_t rank = 0; rank < n; rank++)
        for (size_t i = 0; i < bytes; i++)
            is_right = is_right && all[rank * bytes + i] == pattern(rank, i);
    expect(is_right, "all-gather gives everybody's bytes in rank order");
    expect(all[n * bytes] == 0xcd, "all-gather writes nothing beyond the end");
    free(mine);
    free(all);
}

static void receive(struct hetccl_mesh *mesh, uint32_t src, uint16_t kind, uint32_t wanted)
{
    uint32_t got = 0;
    size_t bytes = 0;
    enum hetccl_status status = HETCCL_AGAIN;

    for (int i = 0; i < 10000 && status == HETCCL_AGAIN; i++) {
        status = hetccl_mesh_try_recv(mesh, src, kind, &got, sizeof(got), &bytes);
        if (status == HETCCL_AGAIN)
            hetccl_sleep_ns(HETCCL_NS_PER_MS);
    }
    expect_status(status, HETCCL_OK, "try_recv");
    expect(bytes == sizeof(got) && got == wanted, "a message has the bytes that were sent, in order");
}

static void everybody_with_everybody(struct hetccl_mesh *mesh)
{
    uint32_t own = hetccl_mesh_rank(mesh);

    for (uint32_t round = 0; round < 3; round++)
        for (uint32_t dst = 0; dst < hetccl_mesh_n_ranks(mesh); dst++)
            for (uint16_t kind = 1; kind <= 999; kind += 998) {
                uint32_t payload = own << 16 | dst << 8 | round << 4 | (kind & 1);

                expect_status(hetccl_mesh_send(mesh, dst, kind, &payload, sizeof(payload)), HETCCL_OK,
                              "send");
            }
    for (uint32_t round = 0; round < 3; round++)
        for (uint32_t src = 0; src < hetccl_mesh_n_ranks(mesh); src++)
            for (int kind = 999; kind >= 1; kind -= 998)
                receive(mesh, src, (uint16_t)kind, src << 16 | own << 8 | round << 4 | ((uint32_t)kind & 1));
}

static void exchange_body(struct team_rank *rank)
{
    team_create(rank);
    expect_status(rank->create_status, HETCCL_OK, "create");
    if (rank->create_status != HETCCL_OK)
        return;
    expect(hetccl_mesh_rank(rank->mesh) == rank->rank && hetccl_mesh_n_ranks(rank->mesh) == rank->n_ranks,
           "rank and size");
    expect(hetccl_mesh_host_name(rank->mesh, rank->n_ranks - 1)[0] != '\0', "host names are known");
    gather(rank->mesh, 0);
    gather(rank->mesh, 1);
    gather(rank->mesh, 1000);
    everybody_with_everybody(rank->mesh);
    gather(rank->mesh, 200000);
    for (int i = 0; i < 5000 && atomic_load(&rank->n_arrived) == 0; i++)
        hetccl_sleep_ns(HETCCL_NS_PER_MS);
    expect(atomic_load(&rank->n_arrived) > 0, "arrived events run");
    expect_status(hetccl_mesh_failure(rank->mesh, NULL, NULL), HETCCL_OK, "no failure");
    gather(rank->mesh, 8);
    hetccl_mesh_destroy(rank->mesh);
    expect(atomic_load(&rank->n_failed) == 0, "leaving is no failure");
}

static void test_exchange_in_threads(void **state)
{
    struct hetccl_config config;

    team_config(&config, 10);
    for (size_t i = 0; i < N_SIZES; i++)
        assert_int_equal(team_run_threads(sizes[i], &config, exchange_body, NULL), 0);
}

static void test_exchange_in_processes(void **state)
{
    struct hetccl_config config;

    team_config(&config, 10);
    for (size_t i = 0; i < N_SIZES; i++)
        assert_int_equal(team_run_processes(sizes[i], &config, exchange_body, NULL), 0);
}

/* ---- streams ---- */

enum { STREAM_BYTES = 300000 };

static int open_stream(struct hetccl_mesh *mesh, uint32_t peer, uint32_t stream_id)
{
    struct hetccl_mesh_stream *stream = NULL;
    enum hetccl_status status = hetccl_mesh_stream_open(mesh, peer, stream_id, &stream);
    int fd = -1;

    expect_status(status, HETCCL_OK, "stream open");
    status = HETCCL_AGAIN;
    for (int i = 0; i < 5000 && status == HETCCL_AGAIN; i++) {
        status = hetccl_mesh_stream_test(stream, &fd);
        if (status == HETCCL_AGAIN)
            hetccl_sleep_ns(HETCCL_NS_PER_MS);
    }
    expect_status(status, HETCCL_OK, "stream test");
    hetccl_mesh_stream_close(stream);
    return fd;
}

/* Both ways at once, more than the socket's buffers hold. */
static void pump(int fd, uint32_t own, uint32_t peer)
{
    size_t sent = 0;
    size_t received = 0;
    bool is_right = true;

    for (int idle = 0; idle < 5000 && (sent < STREAM_BYTES || received < STREAM_BYTES);) {
        uint8_t piece[4096];
        size_t n_piece = STREAM_BYTES - sent < sizeof(piece) ? STREAM_BYTES - sent : sizeof(piece);
        ssize_t n;
        ssize_t m;

        for (size_t i = 0; i < n_piece; i++)
            piece[i] = pattern(own, sent + i);
        n = n_piece > 0 ? send(fd, piece, n_piece, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
        sent += n > 0 ? (size_t)n : 0;
        m = recv(fd, piece, sizeof(piece), MSG_DONTWAIT);
        for (ssize_t i = 0; i < m; i++)
            is_right = is_right && piece[i] == pattern(peer, received + (size_t)i);
        received += m > 0 ? (size_t)m : 0;
        if (n <= 0 && m <= 0) {
            idle++;
            hetccl_sleep_ns(HETCCL_NS_PER_MS);
        }
    }
    expect(sent == STREAM_BYTES && received == STREAM_BYTES && is_right,
           "a stream carries the bytes both ways");
}

static void stream_body(struct team_rank *rank)
{
    team_create(rank);
    expect_status(rank->create_status, HETCCL_OK, "create");
    if (rank->create_status != HETCCL_OK)
        return;
    for (uint32_t distance = 1; distance < rank->n_ranks; distance++) {
        /* Pairs in an order without cycles: (0,1) (2,3).. by xor, where it exists. */
        uint32_t peer = rank->rank ^ distance;

        if (peer >= rank->n_ranks)
            continue;
        if (rank->rank > peer && distance == 1)
            hetccl_sleep_ns(50 * HETCCL_NS_PER_MS); /* the connecting side is early */
        for (uint32_t id = 5; id < 7; id++) {
            int fd = open_stream(rank->mesh, peer, id);

            pump(fd, rank->rank, peer);
            close(fd);
        }
    }
    gather(rank->mesh, 4);
    hetccl_mesh_destroy(rank->mesh);
}

static void test_streams(void **state)
{
    struct hetccl_config config;

    team_config(&config, 10);
    assert_int_equal(team_run_threads(4, &config, stream_body, NULL), 0);
    assert_int_equal(team_run_processes(4, &config, stream_body, NULL), 0);
}

/* ---- children ---- */

static struct hetccl_mesh *make_child(struct team_rank *rank, const uint32_t *members, uint32_t n,
                                      uint64_t label)
{
    struct hetccl_mesh_child_args args = {.parent = rank->mesh,
                                          .parent_ranks = members,
                                          .n_ranks = n,
                                          .label = label,
                                          .timeout_s = 10,
                                          .is_cancelled = &rank->is_cancelled};
    struct hetccl_mesh *child = NULL;

    expect_status(hetccl_mesh_create_child(&args, &child), HETCCL_OK, "create child");
    return child;
}

static void child_body(struct team_rank *rank)
{
    uint32_t odd_or_even[TEAM_MAX_RANKS];
    uint32_t backwards[TEAM_MAX_RANKS];
    struct hetccl_mesh *half;
    struct hetccl_mesh *all;
    uint32_t n = 0;

    team_create(rank);
    expect_status(rank->create_status, HETCCL_OK, "create");
    if (rank->create_status != HETCCL_OK)
        return;
    for (uint32_t i = rank->rank % 2; i < rank->n_ranks; i += 2)
        odd_or_even[n++] = i;
    for (uint32_t i = 0; i < rank->n_ranks; i++)
        backwards[i] = rank->n_ranks - 1 - i;
    if (rank->rank == 1)
        hetccl_sleep_ns(100 * HETCCL_NS_PER_MS); /* the others' first frames come before the mesh is there */
    half = make_child(rank, odd_or_even, n, 7);
    all = make_child(rank, backwards, rank->n_ranks, 8);
    expect(half != NULL && hetccl_mesh_rank(half) == rank->rank / 2, "rank in the child");
    expect(all != NULL && hetccl_mesh_rank(all) == rank->n_ranks - 1 - rank->rank, "rank in the other child");
    hetccl_mesh_destroy(rank->mesh); /* children outlive it */
    gather(half, 100);
    gather(all, 100);
    everybody_with_everybody(all);
    hetccl_mesh_destroy(half);
    gather(all, 10);
    hetccl_mesh_destroy(all);
    expect(atomic_load(&rank->n_failed) == 0, "no failure");
}

static void test_children(void **state)
{
    struct hetccl_config config;

    team_config(&config, 10);
    assert_int_equal(team_run_threads(5, &config, child_body, NULL), 0);
    assert_int_equal(team_run_processes(5, &config, child_body, NULL), 0);
}

/* ---- nothing is left ---- */

static void cycle_body(struct team_rank *rank)
{
    team_create(rank);
    expect_status(rank->create_status, HETCCL_OK, "create");
    if (rank->create_status == HETCCL_OK)
        gather(rank->mesh, 8);
    hetccl_mesh_destroy(rank->mesh);
}

static void test_cycles_leave_nothing(void **state)
{
    struct hetccl_config config;
    unsigned threads = team_count_threads();
    unsigned fds = team_count_fds();

    team_config(&config, 10);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(team_run_threads(2, &config, cycle_body, NULL), 0);
        if (i % 50 == 9)
            hetccl_sleep_ns(300 * HETCCL_NS_PER_MS); /* the root ends with the service thread's next tick */
    }
    hetccl_sleep_ns(300 * HETCCL_NS_PER_MS);
    assert_int_equal(team_count_threads(), threads);
    assert_int_equal(team_count_fds(), fds);
}

enum { MANY = 300 };

static void many_body(struct team_rank *rank)
{
    static _Thread_local struct hetccl_mesh *children[MANY];
    uint32_t members[TEAM_MAX_RANKS];
    unsigned fds;

    team_create(rank);
    expect_status(rank->create_status, HETCCL_OK, "create");
    if (rank->create_status != HETCCL_OK)
        return;
    for (uint32_t i = 0; i < rank->n_ranks; i++)
        members[i] = i;
    everybody_with_everybody(rank->mesh);
    fds = team_count_fds();
    for (uint64_t i = 0; i < MANY; i++)
        children[i] = make_child(rank, members, rank->n_ranks, i);
    for (int i = 0; i < MANY; i++)
        gather(children[i], 8);
    expect(team_count_fds() <= fds + 2, "communicators share their connections");
    for (int i = 0; i < MANY; i++)
        hetccl_mesh_destroy(children[i]);
    gather(rank->mesh, 8);
    hetccl_mesh_destroy(rank->mesh);
}

static void test_many_share_connections(void **state)
{
    struct hetccl_config config;

    team_config(&config, 10);
    assert_int_equal(team_run_processes(4, &config, many_body, NULL), 0);
}

static void test_describe(void **state)
{
    struct hetccl_config config;
    char text[128] = "";

    team_config(&config, 10);
    hetccl_sleep_ns(300 * HETCCL_NS_PER_MS); /* no endpoint of an earlier test, whose address would be told */
    assert_int_equal(hetccl_endpoint_describe(&config, text, sizeof(text)), HETCCL_OK);
    assert_non_null(strchr(text, ':'));
    assert_non_null(strchr(text, '('));
    snprintf(config.socket_ifname, sizeof(config.socket_ifname), "=lo");
    assert_int_equal(hetccl_endpoint_describe(&config, text, sizeof(text)), HETCCL_OK);
    assert_non_null(strstr(text, "(lo)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exchange_in_threads),
        cmocka_unit_test(test_exchange_in_processes),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_children),
        cmocka_unit_test(test_cycles_leave_nothing),
        cmocka_unit_test(test_many_share_connections),
        cmocka_unit_test(test_describe),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
