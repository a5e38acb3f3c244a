/* SPDX-License-Identifier: Apache-2.0 */

/* Ranks that come late, not at all or twice, give up, die, stop, or report a failure. */

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/time.h"
#include "team.h"

static void sleep_ms(unsigned ms)
{
    hetccl_sleep_ns((uint64_t)ms * HETCCL_NS_PER_MS);
}

static void gather_number(struct hetccl_mesh *mesh)
{
    uint32_t all[TEAM_MAX_RANKS];
    uint32_t own = hetccl_mesh_rank(mesh) + 100;

    expect_status(hetccl_mesh_all_gather(mesh, &own, sizeof(own), all, 10), HETCCL_OK, "all-gather");
    for (uint32_t i = 0; i < hetccl_mesh_n_ranks(mesh); i++)
        expect(all[i] == i + 100, "all-gather gives everybody's number");
}

/* ---- creation ---- */

static void late_body(struct team_rank *rank)
{
    if (rank->rank == 2)
        sleep_ms(1200);
    team_create(rank);
    expect_status(rank->create_status, HETCCL_OK, "create");
    if (rank->create_status == HETCCL_OK)
        gather_number(rank->mesh);
    hetccl_mesh_destroy(rank->mesh);
}

static void test_a_late_rank_is_waited_for(void **state)
{
    struct hetccl_config config;

    team_config(&config, 15);
    assert_int_equal(team_run_processes(3, &config, late_body, NULL), 0);
}

static void missing_body(struct team_rank *rank)
{
    uint64_t s = HETCCL_NS_PER_S;

    if (rank->rank == 2)
        return;
    team_create(rank);
    expect_status(rank->create_status, HETCCL_ERR_TIMEOUT, "create without rank 2");
    expect_text(hetccl_last_error_thread(), "missing: rank 2");
    expect(strstr(hetccl_last_error_thread(), "rank 2,") == NULL, "nobody else is missing");
    expect(rank->create_ns > 1 * s && rank->create_ns < 6 * s, "at the deadline");
    expect(atomic_load(&rank->n_failed) == 0, "no event for a mesh that never stood");
}

static void test_a_missing_rank_is_named(void **state)
{
    struct hetccl_config config;

    team_config(&config, 2);
    assert_int_equal(team_run_processes(4, &config, missing_body, NULL), 0);
}

static void duplicate_body(struct team_rank *rank)
{
    if (rank->rank == 3) {
        sleep_ms(100);
        rank->rank = 1;
    }
    team_create(rank);
    expect_status(rank->create_status, HETCCL_ERR_USAGE, "create with rank 1 twice");
    expect_text(hetccl_last_error_thread(), "rank 1 is taken twice");
    expect(rank->create_ns < 5ull * HETCCL_NS_PER_S, "quickly");
}

static void wrong_n_body(struct team_rank *rank)
{
    if (rank->rank == 2)
        rank->n_ranks = 7;
    team_create(rank);
    expect_status(rank->create_status, HETCCL_ERR_USAGE, "create with unlike numbers of ranks");
    expect_text(hetccl_last_error_thread(), "disagree on their number");
    expect_text(hetccl_last_error_thread(), "7");
}

static void test_ranks_that_do_not_fit(void **state)
{
    struct hetccl_config config;

    team_config(&config, 15);
    assert_int_equal(team_run_processes(4, &config, duplicate_body, NULL), 0);
    assert_int_equal(team_run_threads(4, &config, duplicate_body, NULL), 0);
    assert_int_equal(team_run_processes(4, &config, wrong_n_body, NULL), 0);
}

static void old_id_body(struct team_rank *rank)
{
    uint8_t old_id[HETCCL_UNIQUE_ID_BYTES];
    struct team_rank late = {.rank = 1, .n_ranks = 2, .config = rank->config};

    team_create(rank);
    expect_status(rank->create_status, HETCCL_OK, "create");
    if (rank->create_status != HETCCL_OK)
        return;
    memcpy(old_id, rank->id, sizeof(old_id));
    gather_number(rank->mesh);
    sleep_ms(50);
    if (rank->rank == 1) {
        memcpy(late.id, old_id, sizeof(old_id));
        team_create(&late);
        expect_status(late.create_status, HETCCL_ERR_USAGE, "create with an old id");
        expect_text(hetccl_last_error_thread(), "id belongs to another run");
        expect(late.create_ns < 5ull * HETCCL_NS_PER_S, "quickly");
    }
    gather_number(rank->mesh); /* undisturbed */
    hetccl_mesh_destroy(rank->mesh);
    expect(atomic_load(&rank->n_failed) == 0, "no failure");
}

static void test_an_old_id_is_refused(void **state)
{
    struct hetccl_config config;

    team_config(&config, 15);
    assert_int_equal(team_run_processes(2, &config, old_id_body, NULL), 0);
}

static void test_arguments(void **state)
{
    struct team_rank rank = {.rank = 0, .n_ranks = 2};

    team_config(&rank.config, 2);
    team_create(&rank); /* an id of zeros */
    assert_int_equal(rank.create_status, HETCCL_ERR_ARG);
    assert_non_null(strstr(hetccl_last_error_thread(), "unique id"));
    assert_int_equal(hetccl_unique_id_create(&rank.config, rank.id), HETCCL_OK);
    rank.rank = 2;
    team_create(&rank);
    assert_int_equal(rank.create_status, HETCCL_ERR_ARG);
    rank.rank = 0;
    rank.id[40] ^= 1;
    team_create(&rank);
    assert_int_equal(rank.create_status, HETCCL_ERR_ARG);
}

/* ---- cancellation ---- */

static void *cancel_later(void *arg)
{
    struct team_rank *rank = arg;

    sleep_ms(300);
    atomic_store(&rank->is_cancelled, true);
    return NULL;
}

static void cancel_body(struct team_rank *rank)
{
    pthread_t thread;

    if (rank->rank == 2)
        return;
    if (rank->rank == 1) {
        team_create(rank); /* is told by the root, which lives with rank 0, that rank 0 has gone */
        expect(hetccl_is_error(rank->create_status), "create fails after another rank gave up");
        expect(rank->create_ns < 8ull * HETCCL_NS_PER_S, "without waiting for the deadline");
        return;
    }
    if (pthread_create(&thread, NULL, cancel_later, rank) != 0)
        return;
    team_create(rank);
    pthread_join(thread, NULL);
    expect_status(rank->create_status, HETCCL_ERR_ABORTED, "create");
    expect(rank->create_ns > 250ull * HETCCL_NS_PER_MS && rank->create_ns < 800ull * HETCCL_NS_PER_MS,
           "create ends soon after it is cancelled");
}

static void test_create_can_be_cancelled(void **state)
{
    struct hetccl_config config;

    team_config(&config, 20);
    assert_int_equal(team_run_threads(3, &config, cancel_body, NULL), 0);
}

static void cancel_gather_body(struct team_rank *rank)
{
    uint32_t all[2];
    pthread_t thread;
    uint64_t start_ns;

    team_create(rank);
    expect_status(rank->create_status, HETCCL_OK, "create");
    if (rank->create_status != HETCCL_OK)
        return;
    if (rank->rank == 0 && pthread_create(&thread, NULL, cancel_later, rank) == 0) {
        start_ns = hetccl_now_ns();
        expect_status(hetccl_mesh_all_gather(rank->mesh, &rank->rank, 4, all, 10), HETCCL_ERR_ABORTED,
                      "all-gather");
        expect(hetccl_now_ns() - start_ns < 800ull * HETCCL_NS_PER_MS, "soon");
        pthread_join(thread, NULL);
    } else {
        sleep_ms(600);
    }
    hetccl_mesh_destroy(rank->mesh);
}

static void test_waits_can_be_cancelled(void **state)
{
    struct hetccl_config config;

    team_config(&config, 15);
    assert_int_equal(team_run_threads(2, &config, cancel_gather_body, NULL), 0);
}

static void timeout_body(struct team_rank *rank)
{
    uint8_t all[4 * 16];

    team_create(rank);
    expect_status(rank->create_status, HETCCL_OK, "create");
    if (rank->create_status != HETCCL_OK)
        return;
    if (rank->rank == 0) {
        expect_status(hetccl_mesh_all_gather(rank->mesh, all, 4, all, 1), HETCCL_ERR_TIMEOUT, "all-gather");
        expect_text(hetccl_last_error_thread(), "waited for rank 1 on host");
    } else {
        sleep_ms(1500);
    }
    hetccl_mesh_destroy(rank->mesh);
}

static void unlike_body(struct team_rank *rank)
{
    uint8_t all[64] = {0};
    uint8_t mine[16] = {0};

    team_create(rank);
    expect_status(rank->create_status, HETCCL_OK, "create");
    if (rank->create_status != HETCCL_OK)
        return;
    expect_status(hetccl_mesh_all_gather(rank->mesh, mine, rank->rank == 0 ? 8 : 16, all, 5),
                  HETCCL_ERR_USAGE, "all-gather of unlike sizes");
    expect_text(hetccl_last_error_thread(), "exchange different things");
    hetccl_mesh_destroy(rank->mesh);
}

static void test_gather_that_goes_wrong(void **state)
{
    struct hetccl_config config;

    team_config(&config, 15);
    assert_int_equal(team_run_threads(2, &config, timeout_body, NULL), 0);
    assert_int_equal(team_run_threads(2, &config, unlike_body, NULL), 0);
}

/* ---- death ---- */

/* Ranks stand, then wait for what the test does to rank 2; survivors must hear of it, and can go on without.
 */
static void survivor_body(struct team_rank *rank)
{
    uint32_t survivors[] = {0, 1, 3, 4};
    struct hetccl_mesh_child_args args = {
        .parent_ranks = survivors, .n_ranks = 4, .label = 1, .timeout_s = 10};
    struct hetccl_mesh *child = NULL;
    char text[HETCCL_ERROR_TEXT_BYTES] = "";
    uint32_t culprit = 0;
    uint32_t all[5];

    team_create(rank);
    expect_status(rank->create_status, HETCCL_OK, "create");
    if (rank->create_status != HETCCL_OK)
        return;
    gather_number(rank->mesh);
    atomic_fetch_add(&rank->shared->n_ready, 1);
    expect(team_wait_failed(rank, 10000), "the failed event runs once");
    expect(rank->failed_status == HETCCL_ERR_REMOTE && rank->failed_culprit == 2, "it blames rank 2");
    expect_text(rank->failed_text, "rank 2 on host ");
    expect_text(rank->failed_text, "died");
    expect_status(hetccl_mesh_failure(rank->mesh, text, &culprit), HETCCL_ERR_REMOTE, "failure");
    expect(culprit == 2 && strcmp(text, rank->failed_text) == 0, "the same story everywhere");
    expect_status(hetccl_mesh_all_gather(rank->mesh, all, 4, all, 10), HETCCL_ERR_REMOTE,
                  "all-gather afterwards");
    expect_text(hetccl_last_error_thread(), "rank 2");
    args.parent = rank->mesh;
    expect_status(hetccl_mesh_create_child(&args, &child), HETCCL_OK, "a child without the dead rank");
    if (child != NULL)
        gather_number(child);
    hetccl_mesh_destroy(child);
    hetccl_mesh_destroy(rank->mesh);
    expect(atomic_load(&rank->n_failed) == 1, "the failed event ran once");
}

static void kill_rank_2(team_body *body)
{
    struct hetccl_config config;
    struct team_shared *shared;
    uint64_t start_ns;
    pid_t pids[5];

    team_config(&config, 20);
    shared = team_start_processes(5, &config, body, NULL, pids);
    assert_true(team_wait_count(&shared->n_ready, 5, 20000));
    sleep_ms(50);
    start_ns = hetccl_now_ns();
    kill(pids[2], SIGKILL);
    for (int i = 0; i < 5; i++)
        if (i != 2)
            assert_true(team_reap(pids[i], 10000));
    assert_true(hetccl_now_ns() - start_ns <
                5ull * HETCCL_NS_PER_S); /* child included; 2 s on an idle machine */
    assert_false(team_reap(pids[2], 1000));
}

static void test_a_killed_rank_is_noticed_by_all(void **state)
{
    kill_rank_2(survivor_body);
}

/* A worker forked by the rank lives on and holds copies of whatever it inherited. */
static void forking_body(struct team_rank *rank)
{
    struct hetccl_mesh *none = NULL;
    pid_t worker;

    (void)none;
    if (rank->rank != 2) {
        survivor_body(rank);
        return;
    }
    team_create(rank);
    gather_number(rank->mesh);
    worker = fork();
    if (worker == 0) {
        hetccl_mesh_report_failure(rank->mesh, HETCCL_ERR_INTERNAL, 2,
                                   "a child must not speak for its parent");
        hetccl_mesh_destroy(rank->mesh);
        sleep_ms(3000);
        _exit(0);
    }
    atomic_fetch_add(&rank->shared->n_ready, 1);
    sleep_ms(20000);
}

static void test_a_worker_does_not_hide_its_parents_death(void **state)
{
    kill_rank_2(forking_body);
}

/* Children at any time, with all the ways to end; the parent goes on. */
static void fork_body(struct team_rank *rank)
{
    uint32_t number = 1;

    team_create(rank);
    expect_status(rank->create_status, HETCCL_OK, "create");
    if (rank->create_status != HETCCL_OK)
        return;
    for (int i = 0; i < 4; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            bool is_refused =
                hetccl_mesh_send(rank->mesh, 0, 1, &number, sizeof(number)) == HETCCL_ERR_USAGE &&
                hetccl_mesh_all_gather(rank->mesh, &number, 4, &number, 1) == HETCCL_ERR_USAGE;

            hetccl_mesh_destroy(rank->mesh);
            if (i == 3)
                execl("/bin/true", "true", (char *)NULL);
            _exit(is_refused ? 0 : 1);
        }
        for (int k = 0; k < 20; k++)
            gather_number(rank->mesh);
        expect(team_reap(pid, 5000), "a child ends well");
    }
    gather_number(rank->mesh);
    hetccl_mesh_destroy(rank->mesh);
    expect(atomic_load(&rank->n_failed) == 0, "no failure");
}

static void test_fork_is_harmless(void **state)
{
    struct hetccl_config config;

    team_config(&config, 15);
    assert_int_equal(team_run_processes(3, &config, fork_body, NULL), 0);
}

static void stopped_body(struct team_rank *rank)
{
    team_create(rank);
    expect_status(rank->create_status, HETCCL_OK, "create");
    if (rank->create_status != HETCCL_OK)
        return;
    gather_number(rank->mesh);
    atomic_fetch_add(&rank->shared->n_ready, 1);
    if (rank->rank != 1)
        sleep_ms(200);
    gather_number(rank->mesh); /* waits for the stopped one */
    hetccl_mesh_destroy(rank->mesh);
    expect(atomic_load(&rank->n_failed) == 0, "a stopped rank is not dead");
}

static void test_a_stopped_rank_is_not_dead(void **state)
{
    struct hetccl_config config;
    struct team_shared *shared;
    pid_t pids[3];

    team_config(&config, 20);
    config.death_s = 2;
    shared = team_start_processes(3, &config, stopped_body, NULL, pids);
    assert_true(team_wait_count(&shared->n_ready, 3, 20000));
    kill(pids[1], SIGSTOP);
    sleep_ms(3000);
    kill(pids[1], SIGCONT);
    for (int i = 0; i < 3; i++)
        assert_true(team_reap(pids[i], 10000));
}

static void root_dies_body(struct team_rank *rank)
{
    if (rank->rank == 0) {
        if (hetccl_unique_id_create(&rank->config, rank->shared->id) == HETCCL_OK)
            atomic_store(&rank->shared->has_id, true);
        sleep_ms(20000);
    }
    team_create(rank);
    expect_status(rank->create_status, HETCCL_ERR_REMOTE, "create after the root died");
    expect_text(hetccl_last_error_thread(), "root");
}

static void test_death_while_creating(void **state)
{
    struct hetccl_config config;
    struct team_shared *shared;
    pid_t pids[3];

    team_config(&config, 20);
    shared = team_start_processes(3, &config, root_dies_body, NULL, pids);
    while (!atomic_load(&shared->has_id))
        sleep_ms(1);
    sleep_ms(700);
    kill(pids[0], SIGKILL);
    assert_true(team_reap(pids[1], 10000));
    assert_true(team_reap(pids[2], 10000));
    assert_false(team_reap(pids[0], 1000));
}

/* ---- reports and leaving ---- */

static void report_body(struct team_rank *rank)
{
    size_t bytes = 0;

    team_create(rank);
    expect_status(rank->create_status, HETCCL_OK, "create");
    if (rank->create_status != HETCCL_OK)
        return;
    expect_status(hetccl_mesh_send(rank->mesh, 3, 5, NULL, 0), HETCCL_OK, "send");
    if (rank->rank == 3) {
        for (uint32_t src = 0; src < rank->n_ranks; src++)
            while (hetccl_mesh_try_recv(rank->mesh, src, 5, NULL, 0, &bytes) == HETCCL_AGAIN)
                sleep_ms(1); /* all stand, else their create would fail */
        hetccl_mesh_report_failure(rank->mesh, HETCCL_ERR_DEVICE, 3, "rank 3 has lost its device");
        hetccl_mesh_report_failure(rank->mesh, HETCCL_ERR_SYSTEM, 1, "a later report is dropped");
    }
    expect(team_wait_failed(rank, 10000), "the failed event runs once");
    expect(rank->failed_status == HETCCL_ERR_DEVICE && rank->failed_culprit == 3,
           "status and culprit travel");
    expect_text(rank->failed_text, "rank 3 has lost its device");
    sleep_ms(200);
    hetccl_mesh_destroy(rank->mesh);
    expect(atomic_load(&rank->n_failed) == 1, "once");
}

static void test_a_report_reaches_all(void **state)
{
    struct hetccl_config config;

    team_config(&config, 15);
    assert_int_equal(team_run_threads(7, &config, report_body, NULL), 0);
    assert_int_equal(team_run_processes(7, &config, report_body, NULL), 0);
}

static void leave_body(struct team_rank *rank)
{
    uint32_t number = 0;
    size_t bytes = 0;
    uint32_t peer = rank->rank == 0 ? 2 : 0;

    team_create(rank);
    expect_status(rank->create_status, HETCCL_OK, "create");
    if (rank->create_status != HETCCL_OK)
        return;
    if (rank->rank == 1 || rank->rank == 3) {
        hetccl_mesh_destroy(rank->mesh);
        return; /* and the process ends */
    }
    sleep_ms(500);
    expect_status(hetccl_mesh_send(rank->mesh, peer, 1, &rank->rank, 4), HETCCL_OK, "send");
    for (int i = 0; i < 5000 && hetccl_mesh_try_recv(rank->mesh, peer, 1, &number, 4, &bytes) == HETCCL_AGAIN;
         i++)
        sleep_ms(1);
    expect(number == peer && bytes == 4, "those who stay can talk");
    sleep_ms(300);
    expect(atomic_load(&rank->n_failed) == 0, "leaving is no failure");
    hetccl_mesh_destroy(rank->mesh);
}

static void test_leaving_is_no_failure(void **state)
{
    struct hetccl_config config;

    team_config(&config, 15);
    assert_int_equal(team_run_processes(4, &config, leave_body, NULL), 0);
}

/* ---- resources that fail ---- */

struct strike {
    enum hetccl_fault kind;
    unsigned n;
};

static void struck_body(struct team_rank *rank)
{
    const struct strike *strike = rank->arg;
    uint64_t start_ns = hetccl_now_ns();
    uint32_t all[2] = {0};

    if (rank->rank == 0)
        hetccl_fault_arm(strike->kind, strike->n);
    team_create(rank);
    expect(rank->create_status == HETCCL_OK || hetccl_last_error_thread()[0] != '\0', "an error has a text");
    if (rank->create_status == HETCCL_OK &&
        hetccl_mesh_all_gather(rank->mesh, &rank->rank, sizeof(rank->rank), all, 1) == HETCCL_OK)
        expect(all[0] == 0 && all[1] == 1, "what succeeds is right");
    hetccl_mesh_destroy(rank->mesh);
    expect(hetccl_now_ns() - start_ns < 6ull * HETCCL_NS_PER_S, "nobody hangs");
}

/* Every fourth point, as a rank that fails before it could say so is missed until the deadline. */
static void test_failing_resources_end_well(void **state)
{
    static const struct strike last[] = {
        {HETCCL_FAULT_ALLOC, 30}, {HETCCL_FAULT_SOCKET, 5}, {HETCCL_FAULT_THREAD, 1}};
    struct hetccl_config config;
    int before = team_failures();

    team_config(&config, 1);
    for (size_t k = 0; k < sizeof(last) / sizeof(last[0]); k++)
        for (unsigned n = 1; n <= last[k].n; n += 4) {
            struct strike strike = {last[k].kind, n};

            (void)team_run_threads(2, &config, struck_body, &strike);
            hetccl_fault_arm(strike.kind, 0);
        }
    assert_int_equal(team_failures(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_late_rank_is_waited_for),
        cmocka_unit_test(test_a_missing_rank_is_named),
        cmocka_unit_test(test_ranks_that_do_not_fit),
        cmocka_unit_test(test_an_old_id_is_refused),
        cmocka_unit_test(test_create_can_be_cancelled),
        cmocka_unit_test(test_waits_can_be_cancelled),
        cmocka_unit_test(test_gather_that_goes_wrong),
        cmocka_unit_test(test_a_killed_rank_is_noticed_by_all),
        cmocka_unit_test(test_a_worker_does_not_hide_its_parents_death),
        cmocka_unit_test(test_fork_is_harmless),
        cmocka_unit_test(test_a_stopped_rank_is_not_dead),
        cmocka_unit_test(test_death_while_creating),
        cmocka_unit_test(test_a_report_reaches_all),
        cmocka_unit_test(test_leaving_is_no_failure),
        cmocka_unit_test(test_failing_resources_end_well),
        cmocka_unit_test(test_arguments), /* last: its unused root keeps the endpoint */
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
