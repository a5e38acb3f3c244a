/* SPDX-License-Identifier: Apache-2.0 */

/* Whoever else may talk to a listener, ranks of another version, and where listeners are. */

#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/time.h"
#include "bootstrap/address.h"
#include "bootstrap/conn.h"
#include "bootstrap/netif.h"
#include "team.h"

static struct hetccl_wire_unique_id id_of(const struct team_rank *rank)
{
    struct hetccl_wire_unique_id id;

    memset(&id, 0, sizeof(id));
    expect(hetccl_wire_unique_id_decode(rank->id, &id), "the id can be read");
    return id;
}

static int connect_to(const struct hetccl_wire_address *wire)
{
    struct timeval patience = {.tv_sec = 5};
    struct hetccl_address address;
    int fd;

    hetccl_address_from_wire(wire, 0, &address);
    fd = socket(address.socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address.socket, address.socket_bytes) == 0)
        return fd;
    close(fd);
    return -1;
}

static void reset(int fd)
{
    struct linger linger = {.l_onoff = 1};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    close(fd);
}

/* A hello for the job, as a program that has the id (or only its public half) would make it. */
static struct hetccl_wire_hello hello_for(const struct hetccl_wire_unique_id *id, uint32_t rank)
{
    return (struct hetccl_wire_hello){.revision = HETCCL_WIRE_REVISION,
                                      .role = HETCCL_ROLE_REGISTER,
                                      .library_version = HETCCL_WIRE_LIBRARY_VERSION,
                                      .job_id = id->job_id,
                                      .process_key = 99,
                                      .src_rank = rank,
                                      .host_name = "stranger"};
}

/* Says hello and proves the key; the socket, or -1 when the listener has hung up. */
static int authenticate(const struct hetccl_wire_unique_id *id, const struct hetccl_wire_hello *hello,
                        const uint8_t *key)
{
    uint8_t hello_bytes[HETCCL_WIRE_HELLO_BYTES];
    uint8_t answer[HETCCL_WIRE_ANSWER_BYTES];
    uint8_t mac[HETCCL_WIRE_MAC_BYTES];
    int fd = connect_to(&id->addresses[0]);

    if (fd < 0)
        return -1;
    hetccl_wire_hello_encode(hello, hello_bytes);
    if (send(fd, hello_bytes, sizeof(hello_bytes), MSG_NOSIGNAL) != (ssize_t)sizeof(hello_bytes) ||
        recv(fd, answer, sizeof(answer), MSG_WAITALL) != (ssize_t)sizeof(answer)) {
        close(fd);
        return -1;
    }
    hetccl_handshake_mac(key, "client", hello_bytes, answer, mac);
    (void)!send(fd, mac, sizeof(mac), MSG_NOSIGNAL);
    return fd;
}

static bool is_hung_up(int fd)
{
    uint8_t byte;

    return recv(fd, &byte, 1, 0) <= 0;
}

/* ---- rubbish ---- */

static void disturb(const struct hetccl_wire_address *address)
{
    static const char http[] = "GET / HTTP/1.0\r\n\r\n";
    enum { MUCH = 1 << 20 };
    uint8_t *random = malloc(MUCH);
    int fd;

    memset(random, 0xa5, MUCH);
    close(connect_to(address));
    reset(connect_to(address));
    fd = connect_to(address);
    (void)!send(fd, "abc", 3, MSG_NOSIGNAL);
    close(fd);
    fd = connect_to(address);
    (void)!send(fd, http, sizeof(http) - 1, MSG_NOSIGNAL);
    close(fd);
    fd = connect_to(address);
    for (int done = 0; done < MUCH;) {
        ssize_t n = send(fd, random + done, (size_t)(MUCH - done), MSG_NOSIGNAL);

        if (n <= 0)
            break; /* it has hung up */
        done += (int)n;
    }
    close(fd);
    free(random);
}

static void disturbed_body(struct team_rank *rank)
{
    uint32_t all[4];
    uint32_t own = rank->rank;

    if (rank->rank == 3) {
        struct hetccl_wire_unique_id id = id_of(rank);

        for (int round = 0; round < 8; round++)
            for (uint32_t i = 0; i < id.n_addresses; i++)
                disturb(&id.addresses[i]);
    }
    team_create(rank);
    expect_status(rank->create_status, HETCCL_OK, "create");
    if (rank->create_status != HETCCL_OK)
        return;
    expect_status(hetccl_mesh_all_gather(rank->mesh, &own, 4, all, 10), HETCCL_OK, "all-gather");
    expect(all[0] == 0 && all[3] == 3, "all-gather is right");
    hetccl_mesh_destroy(rank->mesh);
}

static void test_rubbish_disturbs_nobody(void **state)
{
    struct hetccl_config config;

    team_config(&config, 15);
    assert_int_equal(team_run_threads(4, &config, disturbed_body, NULL), 0);
}

/* More silent connections than there is room for: ranks still get in. */
static void crowded_body(struct team_rank *rank)
{
    enum { CROWD = 300 };
    struct hetccl_wire_unique_id id = id_of(rank);
    int crowd[CROWD];

    if (rank->rank == 0)
        for (int i = 0; i < CROWD; i++)
            crowd[i] = connect_to(&id.addresses[0]);
    else
        hetccl_sleep_ns(100 * HETCCL_NS_PER_MS);
    team_create(rank);
    expect_status(rank->create_status, HETCCL_OK, "create in a crowd");
    expect(rank->create_ns < 12ull * HETCCL_NS_PER_S, "soon");
    if (rank->rank == 0)
        for (int i = 0; i < CROWD; i++)
            close(crowd[i]);
    hetccl_mesh_destroy(rank->mesh);
}

static void test_silent_crowd(void **state)
{
    struct hetccl_config config;

    team_config(&config, 20);
    assert_int_equal(team_run_threads(2, &config, crowded_body, NULL), 0);
}

/* ---- hellos that are nearly right ---- */

static void mutated_body(struct team_rank *rank)
{
    enum { ROUNDS = 1000 };
    struct hetccl_wire_unique_id id = id_of(rank);
    uint64_t seed = 12345;

    if (rank->rank == 1)
        for (int round = 0; round < ROUNDS; round++) {
            struct hetccl_wire_hello hello = hello_for(&id, round % 3 == 0 ? UINT32_MAX : (uint32_t)round);
            uint8_t bytes[HETCCL_WIRE_HELLO_BYTES];
            int fd = connect_to(&id.addresses[0]);

            seed = seed * 6364136223846793005ull + 1442695040888963407ull;
            hetccl_wire_hello_encode(&hello, bytes);
            bytes[(seed >> 33) % sizeof(bytes)] = (uint8_t)(seed >> 56);
            (void)!send(fd, bytes, sizeof(bytes) - (round % 5 == 0 ? 1 : 0), MSG_NOSIGNAL);
            (void)!send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL); /* where the proof belongs */
            close(fd);
        }
    team_create(rank);
    expect_status(rank->create_status, HETCCL_OK, "create after mutated hellos");
    hetccl_mesh_destroy(rank->mesh);
}

static void test_mutated_hellos(void **state)
{
    struct hetccl_config config;

    team_config(&config, 20);
    assert_int_equal(team_run_threads(2, &config, mutated_body, NULL), 0);
}

static void intruder_body(struct team_rank *rank)
{
    struct hetccl_wire_unique_id id = id_of(rank);
    struct hetccl_wire_hello hello = hello_for(&id, 0);
    uint8_t wrong_key[HETCCL_WIRE_KEY_BYTES] = {1};
    int fd;

    if (rank->rank == 1) {
        hello.revision = HETCCL_WIRE_REVISION + 1; /* must not be believed before it is proved */
        fd = authenticate(&id, &hello, wrong_key);
        expect(fd >= 0 && is_hung_up(fd), "who doesn't know the key is hung up on");
        close(fd);
        hello.job_id++;
        fd = authenticate(&id, &hello, id.key);
        expect(fd >= 0 && is_hung_up(fd), "an unknown job is hung up on");
        close(fd);
        hello.job_id--;
        hello.role = HETCCL_ROLE_CONTROL; /* no mesh of the job stands or joins here but rank 0's */
        fd = authenticate(&id, &hello, wrong_key);
        expect(fd < 0 || is_hung_up(fd), "control connections need the key too");
        close(fd);
    }
    team_create(rank);
    expect_status(rank->create_status, HETCCL_OK, "create after intruders");
    hetccl_mesh_destroy(rank->mesh);
}

static void test_intruders(void **state)
{
    struct hetccl_config config;

    team_config(&config, 15);
    assert_int_equal(team_run_threads(2, &config, intruder_body, NULL), 0);
}

/* A member that sends nonsense frames after a right hello hurts itself only. */
static void babbler_body(struct team_rank *rank)
{
    static const uint32_t lengths[] = {0, 1, 0x80000000u, UINT32_MAX};
    struct hetccl_wire_unique_id id = id_of(rank);
    struct hetccl_wire_hello hello = hello_for(&id, 5);

    if (rank->rank == 1)
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
            for (uint16_t kind = HETCCL_FRAME_REGISTER; kind <= HETCCL_FRAME_REJECT; kind++) {
                struct hetccl_wire_frame head = {.kind = kind, .payload_bytes = lengths[i], .src_rank = 5};
                uint8_t bytes[HETCCL_WIRE_FRAME_BYTES + 1] = {0};
                int fd = authenticate(&id, &hello, id.key);

                hetccl_wire_frame_encode(&head, bytes);
                (void)!send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
                close(fd);
            }
    team_create(rank);
    expect_status(rank->create_status, HETCCL_OK, "create after nonsense frames");
    hetccl_mesh_destroy(rank->mesh);
}

static void test_nonsense_frames(void **state)
{
    struct hetccl_config config;

    team_config(&config, 15);
    assert_int_equal(team_run_threads(2, &config, babbler_body, NULL), 0);
}

/* ---- another version ---- */

static void revision_body(struct team_rank *rank)
{
    struct hetccl_wire_unique_id id = id_of(rank);
    struct hetccl_wire_hello hello = hello_for(&id, 2);
    const char *text;

    if (rank->rank == 2) {
        hetccl_sleep_ns(200 * HETCCL_NS_PER_MS);
        hello.revision = HETCCL_WIRE_REVISION + 1;
        hello.library_version = 0x020304;
        close(authenticate(&id, &hello, id.key));
        return;
    }
    if (rank->rank == 3)
        hetccl_sleep_ns(600 * HETCCL_NS_PER_MS); /* comes when all is lost already */
    team_create(rank);
    expect_status(rank->create_status, HETCCL_ERR_USAGE, "create with another version");
    text = hetccl_last_error_thread();
    expect_text(text, "rank 2 on host stranger");
    expect_text(text, "2.3.4 (wire revision 2)");
    expect_text(text, "0.1.0 (wire revision 1)");
    expect(rank->create_ns < 5ull * HETCCL_NS_PER_S, "quickly");
}

static void test_another_version_fails_all_by_name(void **state)
{
    struct hetccl_config config;

    team_config(&config, 15);
    assert_int_equal(team_run_threads(4, &config, revision_body, NULL), 0);
}

/* The root is the odd one: a fake root answers with another revision. */
struct fake_root {
    int listener;
    struct hetccl_wire_unique_id id;
};

static void *fake_root_main(void *arg)
{
    struct fake_root *root = arg;
    struct hetccl_wire_answer answer = {.revision = HETCCL_WIRE_REVISION + 6,
                                        .library_version = 0x090807,
                                        .process_key = 5,
                                        .host_name = "oldroot"};
    uint8_t hello_bytes[HETCCL_WIRE_HELLO_BYTES];
    uint8_t bytes[HETCCL_WIRE_ANSWER_BYTES];
    uint8_t proof[HETCCL_WIRE_MAC_BYTES];
    int fd = accept(root->listener, NULL, NULL);

    (void)!recv(fd, hello_bytes, sizeof(hello_bytes), MSG_WAITALL);
    hetccl_wire_answer_encode(&answer, bytes);
    hetccl_handshake_mac(root->id.key, "server", hello_bytes, bytes, answer.mac);
    hetccl_wire_answer_encode(&answer, bytes);
    (void)!send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
    expect(recv(fd, proof, sizeof(proof), MSG_WAITALL) == (ssize_t)sizeof(proof),
           "the rank proves itself even so");
    close(fd);
    return NULL;
}

static int listen_on_loopback(struct hetccl_wire_address *address_out)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct hetccl_address address = {.socket_bytes = sizeof(in)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address.socket, &address.socket_bytes), 0);
    hetccl_address_to_wire(&address, address_out);
    return fd;
}

static void test_a_root_of_another_version(void **state)
{
    struct team_rank rank = {.rank = 1, .n_ranks = 2};
    struct fake_root root;
    pthread_t thread;
    int before = team_failures();

    memset(&root, 0, sizeof(root));
    team_config(&rank.config, 10);
    root.id.job_id = 7;
    root.id.place = hetccl_netif_place();
    root.id.n_addresses = 1;
    root.listener = listen_on_loopback(&root.id.addresses[0]);
    hetccl_wire_unique_id_encode(&root.id, rank.id);
    assert_int_equal(pthread_create(&thread, NULL, fake_root_main, &root), 0);
    team_create(&rank);
    pthread_join(thread, NULL);
    close(root.listener);
    assert_int_equal(rank.create_status, HETCCL_ERR_USAGE);
    assert_non_null(strstr(hetccl_last_error_thread(), "rank 1 on host"));
    assert_non_null(strstr(hetccl_last_error_thread(), "oldroot"));
    assert_non_null(strstr(hetccl_last_error_thread(), "9.8.7 (wire revision 7)"));
    assert_int_equal(team_failures(), before);
}

static void test_a_loopback_id_of_another_host(void **state)
{
    struct team_rank rank = {.rank = 1, .n_ranks = 2};
    struct hetccl_wire_unique_id id = {.job_id = 1, .place = 12345, .n_addresses = 1};

    team_config(&rank.config, 10);
    id.addresses[0] =
        (struct hetccl_wire_address){.family = HETCCL_WIRE_IPV4, .port = 4711, .bytes = {127, 0, 0, 1}};
    hetccl_wire_unique_id_encode(&id, rank.id);
    team_create(&rank);
    assert_int_equal(rank.create_status, HETCCL_ERR_USAGE);
    assert_non_null(strstr(hetccl_last_error_thread(), "loopback address 127.0.0.1:4711"));
    assert_true(rank.create_ns < 2ull * HETCCL_NS_PER_S);
}

/* ---- settings ---- */

static void test_ports_come_from_the_range(void **state)
{
    struct hetccl_config config;
    struct hetccl_wire_address taken;
    int fd = listen_on_loopback(&taken);
    char text[128];

    team_config(&config, 5);
    snprintf(config.socket_ifname, sizeof(config.socket_ifname), "=lo");
    config.socket_family = HETCCL_FAMILY_IPV4;
    config.port_first = config.port_last = taken.port;
    assert_int_equal(hetccl_endpoint_describe(&config, text, sizeof(text)), HETCCL_ERR_USAGE);
    snprintf(text, sizeof(text), "%u-%u is full", taken.port, taken.port);
    assert_non_null(strstr(hetccl_last_error_thread(), text));
    assert_non_null(strstr(hetccl_last_error_thread(), "all 1 ports"));
    config.port_first = (uint16_t)(taken.port - 1);
    if (hetccl_endpoint_describe(&config, text, sizeof(text)) ==
        HETCCL_OK) { /* unless somebody has that one too */
        char wanted[32];

        snprintf(wanted, sizeof(wanted), "127.0.0.1:%u (lo)", taken.port - 1);
        assert_string_equal(text, wanted);
    }
    close(fd);
}

static void test_a_wrong_interface_is_named(void **state)
{
    struct hetccl_config config;
    uint8_t id[HETCCL_UNIQUE_ID_BYTES];

    team_config(&config, 5);
    snprintf(config.socket_ifname, sizeof(config.socket_ifname), "eth99");
    assert_int_equal(hetccl_unique_id_create(&config, id), HETCCL_ERR_USAGE);
    assert_non_null(strstr(hetccl_last_error_thread(), "SOCKET_IFNAME"));
    assert_non_null(strstr(hetccl_last_error_thread(), "eth99"));
    assert_non_null(strstr(hetccl_last_error_thread(), "lo"));
}

static void test_interface_names(void **state)
{
    assert_true(hetccl_netif_matches("", "eth0"));
    assert_true(hetccl_netif_matches("eth", "eth0"));
    assert_true(hetccl_netif_matches("ib,eth0", "eth01"));
    assert_false(hetccl_netif_matches("ib,en", "eth0"));
    assert_true(hetccl_netif_matches("=eth0,ib0", "eth0"));
    assert_false(hetccl_netif_matches("=eth", "eth0"));
    assert_false(hetccl_netif_matches("^eth", "eth0"));
    assert_true(hetccl_netif_matches("^docker,lo", "eth0"));
    assert_false(hetccl_netif_matches("^docker,lo", "lo"));
    assert_false(hetccl_netif_matches("^=eth0", "eth0"));
    assert_true(hetccl_netif_matches("^=eth", "eth0"));
    assert_true(hetccl_netif_matches("eth0:4000", "eth0"));
    assert_true(hetccl_netif_is_container_bridge("docker0"));
    assert_true(hetccl_netif_is_container_bridge("virbr0"));
    assert_false(hetccl_netif_is_container_bridge("eth0"));
    assert_false(hetccl_netif_is_container_bridge("bond0"));
}

static void test_choice_of_addresses(void **state)
{
    struct hetccl_netif found[HETCCL_WIRE_MAX_ADDRESSES];
    struct hetccl_config config;
    bool has_other = false;
    size_t n = 0;

    team_config(&config, 5);
    assert_int_equal(hetccl_netif_choose(&config, NULL, found, &n), HETCCL_OK);
    assert_in_range(n, 1, HETCCL_WIRE_MAX_ADDRESSES);
    for (size_t i = 0; i < n; i++)
        has_other = has_other || strcmp(found[i].name, "lo") != 0;
    for (size_t i = 0; i < n && has_other; i++) /* loopback only if there is nothing else */
        assert_string_not_equal(found[i].name, "lo");
}

/* ---- NCCL_COMM_ID ---- */

static void fixed_root_body(struct team_rank *rank)
{
    uint32_t all[3];

    for (int round = 0; round < 3; round++) {
        if (rank->rank == 0 && round == 0)
            hetccl_sleep_ns(700 * HETCCL_NS_PER_MS); /* the root comes last */
        expect_status(hetccl_unique_id_create(&rank->config, rank->id), HETCCL_OK, "id from NCCL_COMM_ID");
        team_create(rank);
        expect_status(rank->create_status, HETCCL_OK, "create");
        if (rank->create_status != HETCCL_OK)
            return;
        expect_status(hetccl_mesh_all_gather(rank->mesh, &rank->rank, 4, all, 10), HETCCL_OK, "all-gather");
        expect(all[0] == 0 && all[1] == 1 && all[2] == 2, "all-gather is right");
        hetccl_mesh_destroy(rank->mesh);
    }
}

static void rootless_body(struct team_rank *rank)
{
    if (rank->rank == 0)
        return;
    expect_status(hetccl_unique_id_create(&rank->config, rank->id), HETCCL_OK, "id from NCCL_COMM_ID");
    team_create(rank);
    expect_status(rank->create_status, HETCCL_ERR_TIMEOUT, "create without rank 0");
    expect_text(hetccl_last_error_thread(), "missing: rank 0");
    expect_text(hetccl_last_error_thread(), "refused");
}

static void test_fixed_root(void **state)
{
    struct hetccl_wire_address free_port;
    struct hetccl_config config;
    uint8_t id[HETCCL_UNIQUE_ID_BYTES];

    team_config(&config, 15);
    close(listen_on_loopback(&free_port));
    snprintf(config.comm_id, sizeof(config.comm_id), "127.0.0.1:%u", free_port.port);
    assert_int_equal(team_run_processes(3, &config, fixed_root_body, NULL), 0);
    assert_int_equal(team_run_threads(3, &config, fixed_root_body, NULL), 0);
    config.init_timeout_s = 1;
    assert_int_equal(team_run_threads(2, &config, rootless_body, NULL), 0);
    snprintf(config.comm_id, sizeof(config.comm_id), "no-port-here");
    assert_int_equal(hetccl_unique_id_create(&config, id), HETCCL_ERR_USAGE);
    assert_non_null(strstr(hetccl_last_error_thread(), "NCCL_COMM_ID"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* before any failed root stays behind and keeps the endpoint */
        cmocka_unit_test(test_ports_come_from_the_range),
        cmocka_unit_test(test_rubbish_disturbs_nobody),
        cmocka_unit_test(test_silent_crowd),
        cmocka_unit_test(test_mutated_hellos),
        cmocka_unit_test(test_intruders),
        cmocka_unit_test(test_nonsense_frames),
        cmocka_unit_test(test_another_version_fails_all_by_name),
        cmocka_unit_test(test_a_root_of_another_version),
        cmocka_unit_test(test_a_loopback_id_of_another_host),
        cmocka_unit_test(test_interface_names),
        cmocka_unit_test(test_choice_of_addresses),
        cmocka_unit_test(test_fixed_root),
        cmocka_unit_test(test_a_wrong_interface_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
