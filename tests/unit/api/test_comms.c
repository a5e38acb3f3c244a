/* SPDX-License-Identifier: Apache-2.0 */

/* Making, asking and ending communicators. */

#include "check.h"

#include "base/fault.h"

#include <pthread.h>
#include <stdlib.h>

static ncclUniqueId fresh_id(void)
{
    ncclUniqueId id;

    assert_int_equal(ncclGetUniqueId(&id), ncclSuccess);
    return id;
}

static void one_rank_joins_and_leaves(void **state)
{
    ncclComm_t comm = NULL;
    int value = -1;

    assert_int_equal(ncclCommInitRank(&comm, 1, fresh_id(), 0), ncclSuccess);
    assert_non_null(comm);
    assert_int_equal(ncclCommCount(comm, &value), ncclSuccess);
    assert_int_equal(value, 1);
    assert_int_equal(ncclCommUserRank(comm, &value), ncclSuccess);
    assert_int_equal(value, 0);
    assert_int_equal(ncclCommCuDevice(comm, &value), ncclSuccess);
    assert_int_equal(value, 3);
    assert_int_equal(ncclCommCount(comm, NULL), ncclInvalidArgument);
    assert_error_says("ncclCommCount: argument 'count' is NULL");
    assert_int_equal(ncclCommFinalize(comm), ncclSuccess);
    assert_int_equal(ncclCommFinalize(comm), ncclInvalidArgument);
    assert_int_equal(ncclCommDestroy(comm), ncclSuccess);
    assert_int_equal(ncclCommDestroy(comm), ncclInvalidArgument);
}

static void nothing_is_done_to_null(void **state)
{
    assert_int_equal(ncclCommFinalize(NULL), ncclSuccess);
    assert_int_equal(ncclCommDestroy(NULL), ncclSuccess);
    assert_int_equal(ncclCommAbort(NULL), ncclSuccess);
    assert_int_equal(ncclCommRevoke(NULL, 0), ncclInvalidArgument);
    assert_int_equal(ncclCommCount(NULL, NULL), ncclInvalidArgument);
    assert_int_equal(ncclCommGetAsyncError(NULL, NULL), ncclInvalidArgument);
}

static void ranks_and_ids_out_of_range_are_refused(void **state)
{
    ncclComm_t comm = (ncclComm_t)(void *)&comm;
    ncclUniqueId ids[2] = {fresh_id(), fresh_id()};

    assert_int_equal(ncclCommInitRank(NULL, 1, ids[0], 0), ncclInvalidArgument);
    assert_int_equal(ncclCommInitRank(&comm, 0, ids[0], 0), ncclInvalidArgument);
    assert_null(comm);
    assert_int_equal(ncclCommInitRank(&comm, 2, ids[0], 2), ncclInvalidArgument);
    assert_error_says("ncclCommInitRank: rank 2 of 2");
    assert_int_equal(ncclCommInitRank(&comm, 2, ids[0], -1), ncclInvalidArgument);
    assert_int_equal(ncclCommInitRankScalable(&comm, 1, 0, 2, ids, NULL), ncclInvalidArgument);
    assert_error_says("2 ids for 1 ranks");
    assert_int_equal(ncclCommInitRankScalable(&comm, 1, 0, 1, NULL, NULL), ncclInvalidArgument);
    assert_int_equal(ncclGetUniqueId(NULL), ncclInvalidArgument);
    assert_int_equal(fake_count_events("alloc"), 0);
}

static void a_failed_init_leaves_no_handle(void **state)
{
    ncclComm_t comm = (ncclComm_t)(void *)&comm;

    fake_fail_next("init", HETCCL_ERR_TIMEOUT);
    assert_int_equal(ncclCommInitRank(&comm, 1, fresh_id(), 0), ncclRemoteError);
    assert_null(comm);
    assert_int_equal(fake_n_live(), 0);
    fake_fail_next("alloc", HETCCL_ERR_SYSTEM);
    assert_int_equal(ncclCommInitRank(&comm, 1, fresh_id(), 0), ncclSystemError);
    assert_null(comm);
}

static void inits_of_a_group_run_at_the_same_time(void **state)
{
    enum { N = 4 };
    ncclUniqueId ids[2] = {fresh_id(), fresh_id()};
    ncclComm_t comms[N];

    assert_int_equal(ncclGroupStart(), ncclSuccess);
    for (int rank = 0; rank < N; rank++)
        assert_int_equal(ncclCommInitRankScalable(&comms[rank], N, rank, 2, ids, NULL), ncclSuccess);
    memset(ids, 0, sizeof(ids)); /* were copied */
    assert_int_equal(fake_count_events("init"), 0);
    assert_int_equal(ncclGroupEnd(), ncclSuccess);
    assert_int_equal(fake_max_inside(), N);
    for (int rank = 0; rank < N; rank++) {
        int value;

        assert_int_equal(ncclCommUserRank(comms[rank], &value), ncclSuccess);
        assert_int_equal(value, rank);
        assert_int_equal(fake_n_ids((struct hetccl_comm *)(void *)comms[rank]), 2);
        assert_int_equal(ncclCommDestroy(comms[rank]), ncclSuccess);
    }
}

static void one_failed_init_cancels_its_group(void **state)
{
    ncclUniqueId id = fresh_id();
    ncclComm_t comms[3];

    fake_fail_next("init", HETCCL_ERR_SYSTEM);
    assert_int_equal(ncclGroupStart(), ncclSuccess);
    for (int rank = 0; rank < 3; rank++)
        assert_int_equal(ncclCommInitRank(&comms[rank], 3, id, rank), ncclSuccess);
    assert_int_equal(ncclGroupEnd(), ncclSystemError);
    assert_error_says("scripted failure of init");
    for (int rank = 0; rank < 3; rank++)
        assert_null(comms[rank]);
    assert_int_equal(fake_n_live(), 0);
}

static void an_error_in_a_group_undoes_its_inits(void **state)
{
    ncclUniqueId id = fresh_id();
    ncclComm_t comms[2];

    assert_int_equal(ncclGroupStart(), ncclSuccess);
    assert_int_equal(ncclCommInitRank(&comms[0], 2, id, 0), ncclSuccess);
    assert_non_null(comms[0]);
    assert_int_equal(ncclCommInitRank(&comms[1], 2, id, 5), ncclInvalidArgument);
    assert_int_equal(ncclGroupEnd(), ncclInvalidArgument);
    assert_null(comms[0]);
    assert_null(comms[1]);
    assert_int_equal(fake_count_events("init"), 0);
}

static void init_all_makes_one_rank_a_device(void **state)
{
    const int devices[3] = {1, 0, 1};
    ncclComm_t comms[3];

    assert_int_equal(setenv("HETCCL_DEVICE", "host", 1), 0);
    assert_int_equal(ncclCommInitAll(comms, 3, devices), ncclSuccess);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fake_options((struct hetccl_comm *)(void *)comms[i])->device, devices[i]);
        assert_int_equal(ncclCommDestroy(comms[i]), ncclSuccess);
    }
    assert_int_equal(ncclCommInitAll(comms, 2, NULL), ncclSuccess);
    assert_int_equal(fake_options((struct hetccl_comm *)(void *)comms[1])->device, 1);
    assert_int_equal(fake_count_events("init"), 5);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ncclCommDestroy(comms[i]), ncclSuccess);
    assert_int_equal(ncclCommInitAll(comms, 0, NULL), ncclSuccess);
    assert_int_equal(ncclCommInitAll(comms, -1, NULL), ncclInvalidArgument);
    assert_int_equal(ncclCommInitAll(NULL, 1, NULL), ncclInvalidArgument);
    assert_int_equal(ncclCommInitAll(comms, 3, (const int[]){0, -2, 1}), ncclInvalidArgument);
    assert_error_says("device -2");
    assert_int_equal(setenv("HETCCL_DEVICE", "cuda", 1), 0);
    assert_int_equal(ncclCommInitAll(comms, 3, devices), ncclInvalidUsage);
    assert_error_says("device 1 is named twice");
    assert_int_equal(unsetenv("HETCCL_DEVICE"), 0);
}

static void init_all_inside_a_group_waits_for_its_end(void **state)
{
    ncclComm_t comms[2];

    assert_int_equal(ncclGroupStart(), ncclSuccess);
    assert_int_equal(ncclCommInitAll(comms, 2, NULL), ncclSuccess);
    assert_int_equal(fake_count_events("init"), 0);
    assert_int_equal(ncclGroupEnd(), ncclSuccess);
    assert_int_equal(fake_count_events("init"), 2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ncclCommDestroy(comms[i]), ncclSuccess);
}

/* As a program polls that gives up at the first failure. */
static ncclResult_t wait_for_pair(const ncclComm_t *comms, ncclResult_t result)
{
    while (result == ncclInProgress) {
        ncclResult_t states[2];

        for (int i = 0; i < 2; i++)
            assert_int_equal(ncclCommGetAsyncError(comms[i], &states[i]), ncclSuccess);
        if (states[0] == states[1])
            result = states[0];
        else if (states[0] != ncclSuccess && states[0] != ncclInProgress)
            result = states[0];
        else if (states[1] != ncclSuccess && states[1] != ncclInProgress)
            result = states[1];
    }
    return result;
}

/* A group of inits and one of calls, of which the n-th allocation or thread fails. True: it came through
 * untouched. */
static bool live_through(enum hetccl_fault kind, unsigned n, bool is_blocking)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comms[2] = {NULL, NULL};
    ncclUniqueId id = fresh_id();
    ncclResult_t result;
    char byte = 0;

    config.blocking = is_blocking;
    hetccl_fault_arm(kind, n);
    assert_int_equal(ncclGroupStart(), ncclSuccess);
    for (int rank = 0; rank < 2; rank++)
        (void)ncclCommInitRankConfig(&comms[rank], 2, id, rank, &config);
    result = wait_for_pair(comms, ncclGroupEnd());
    if (result == ncclSuccess) {
        assert_int_equal(ncclGroupStart(), ncclSuccess);
        for (int rank = 0; rank < 2; rank++)
            (void)ncclAllGather(&byte, &byte, 1, ncclInt8, comms[rank], NULL);
        result = wait_for_pair(comms, ncclGroupEnd());
    }
    hetccl_fault_arm(kind, 0);
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(ncclCommAbort(comms[rank]), ncclSuccess);
    assert_int_equal(fake_n_live(), 0);
    assert_true(result == ncclSuccess || result == ncclSystemError);
    return result == ncclSuccess;
}

static void any_allocation_and_any_thread_may_fail(void **state)
{
    for (int is_blocking = 0; is_blocking <= 1; is_blocking++) {
        unsigned n_allocations = 1;
        unsigned n_threads = 1;

        while (!live_through(HETCCL_FAULT_ALLOC, n_allocations, is_blocking != 0))
            n_allocations++;
        while (!live_through(HETCCL_FAULT_THREAD, n_threads, is_blocking != 0))
            n_threads++;
        /* At least one of each kind was met on the way, else the loops show nothing. */
        assert_true(n_allocations > 5);
        assert_true(n_threads > 2);
    }
}

/* ---- non-blocking ---- */

static ncclConfig_t non_blocking(void)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

    config.blocking = 0;
    return config;
}

static void a_non_blocking_init_is_polled(void **state)
{
    ncclConfig_t config = non_blocking();
    ncclUniqueId id = fresh_id();
    ncclComm_t comms[2];
    int value;

    assert_int_equal(ncclCommInitRankConfig(&comms[0], 2, id, 0, &config), ncclInProgress);
    assert_non_null(comms[0]);
    assert_int_equal(ncclCommCount(comms[0], &value), ncclInvalidArgument);
    assert_int_equal(ncclCommFinalize(comms[0]), ncclInvalidArgument);
    assert_int_equal(ncclCommInitRankConfig(&comms[1], 2, id, 1, &config), ncclInProgress);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(wait_ready(comms[i]), ncclSuccess);
        assert_int_equal(ncclCommCount(comms[i], &value), ncclSuccess);
        assert_int_equal(value, 2);
        assert_int_equal(ncclCommFinalize(comms[i]), ncclInProgress);
        assert_int_equal(wait_ready(comms[i]), ncclSuccess);
        assert_int_equal(ncclCommFinalize(comms[i]), ncclInvalidArgument);
        assert_int_equal(ncclCommDestroy(comms[i]), ncclSuccess);
    }
}

static void a_non_blocking_init_that_fails_keeps_its_handle(void **state)
{
    ncclConfig_t config = non_blocking();
    ncclComm_t comm;

    fake_fail_next("init", HETCCL_ERR_USAGE);
    assert_int_equal(ncclCommInitRankConfig(&comm, 1, fresh_id(), 0, &config), ncclInProgress);
    assert_non_null(comm);
    assert_int_equal(wait_ready(comm), ncclInvalidUsage);
    assert_int_equal(ncclCommAbort(comm), ncclSuccess);
    assert_int_equal(fake_n_live(), 0);
}

static void an_init_that_waits_for_nobody_is_aborted(void **state)
{
    ncclConfig_t config = non_blocking();
    ncclComm_t comm;

    assert_int_equal(ncclCommInitRankConfig(&comm, 2, fresh_id(), 0, &config), ncclInProgress);
    assert_int_equal(ncclCommAbort(comm), ncclSuccess);
    assert_int_equal(fake_n_live(), 0);
}

static void *abort_it(void *arg)
{
    assert_int_equal(ncclCommAbort(arg), ncclSuccess);
    return NULL;
}

struct early_init {
    ncclComm_t comm;
    ncclComm_t seen;
    ncclUniqueId id;
    ncclResult_t result;
};

static void *init_alone(void *arg)
{
    struct early_init *early = arg;

    early->result = ncclCommInitRank(&early->comm, 2, early->id, 0);
    return NULL;
}

/* The way of a program's watchdog: the handle is there while the init blocks. */
static void a_blocking_init_is_aborted_from_another_thread(void **state)
{
    struct early_init early = {.id = fresh_id()};
    pthread_t threads[2];

    assert_int_equal(pthread_create(&threads[0], NULL, init_alone, &early), 0);
    while (fake_count_events("init") == 0)
        ;
    early.seen = __atomic_load_n(&early.comm, __ATOMIC_ACQUIRE);
    assert_non_null(early.seen);
    assert_int_equal(pthread_create(&threads[1], NULL, abort_it, early.seen), 0);
    assert_int_equal(pthread_join(threads[0], NULL), 0);
    assert_int_equal(pthread_join(threads[1], NULL), 0);
    assert_int_equal(early.result, ncclInternalError);
    assert_null(early.comm);
    assert_int_equal(fake_n_live(), 0);
    assert_int_equal(fake_count_events("destroy"), 0);
}

static void a_non_blocking_group_of_inits_is_polled(void **state)
{
    ncclConfig_t config = non_blocking();
    ncclUniqueId id = fresh_id();
    ncclComm_t comms[3];

    assert_int_equal(ncclGroupStart(), ncclSuccess);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ncclCommInitRankConfig(&comms[i], 3, id, i, &config), ncclSuccess);
    assert_int_equal(ncclGroupEnd(), ncclInProgress);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(wait_ready(comms[i]), ncclSuccess);
        assert_int_equal(ncclCommDestroy(comms[i]), ncclSuccess);
    }
}

/* ---- children ---- */

static void children_by_colour(void **state)
{
    struct hetccl_comm *parent = fake_make(4, 1, true);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t child = NULL;

    assert_int_equal(ncclCommSplit(handle_of(parent), 7, 3, &child, NULL), ncclSuccess);
    assert_non_null(child);
    assert_string_equal(fake_event(1), "split 7 3");
    assert_int_equal(ncclCommDestroy(child), ncclSuccess);
    assert_int_equal(ncclCommSplit(handle_of(parent), NCCL_SPLIT_NOCOLOR, 0, &child, NULL), ncclSuccess);
    assert_null(child);
    assert_int_equal(fake_count_events("split -1 0 none"), 1);
    config.commName = "a child";
    assert_int_equal(ncclCommSplit(handle_of(parent), 0, 0, &child, &config), ncclSuccess);
    assert_string_equal(fake_options((struct hetccl_comm *)(void *)child)->name, "a child");
    assert_int_equal(ncclCommDestroy(child), ncclSuccess);
    assert_int_equal(ncclCommSplit(handle_of(parent), -2, 0, &child, NULL), ncclInvalidArgument);
    assert_error_says("color -2");
    assert_int_equal(ncclCommSplit(handle_of(parent), 0, 0, NULL, NULL), ncclInvalidArgument);
    assert_int_equal(ncclCommSplit(NULL, 0, 0, &child, NULL), ncclInvalidArgument);
    child = handle_of(parent);
    fake_fail_next("split", HETCCL_ERR_REMOTE);
    assert_int_equal(ncclCommSplit(handle_of(parent), 0, 0, &child, NULL), ncclRemoteError);
    assert_null(child);
    assert_int_equal(fake_n_live(), 1);
    assert_int_equal(ncclCommDestroy(handle_of(parent)), ncclSuccess);
}

static void a_child_is_like_its_non_blocking_parent(void **state)
{
    struct hetccl_comm *parent = fake_make(4, 1, false);
    ncclResult_t result;
    ncclComm_t child;

    fake_hold(true);
    assert_int_equal(ncclCommSplit(handle_of(parent), 1, 0, &child, NULL), ncclInProgress);
    assert_non_null(child);
    assert_int_equal(ncclCommGetAsyncError(handle_of(parent), &result), ncclSuccess);
    assert_int_equal(result, ncclInProgress);
    assert_int_equal(ncclCommGetAsyncError(child, &result), ncclSuccess);
    assert_int_equal(result, ncclInProgress);
    fake_hold(false);
    assert_int_equal(wait_ready(handle_of(parent)), ncclSuccess);
    assert_int_equal(wait_ready(child), ncclSuccess);
    assert_false(hetccl_comm_is_blocking((struct hetccl_comm *)(void *)child));
    assert_int_equal(ncclCommDestroy(child), ncclSuccess);
    assert_int_equal(ncclCommSplit(handle_of(parent), NCCL_SPLIT_NOCOLOR, 0, &child, NULL), ncclInProgress);
    assert_null(child);
    assert_int_equal(wait_ready(handle_of(parent)), ncclSuccess);
    assert_int_equal(ncclCommDestroy(handle_of(parent)), ncclSuccess);
}

static void ranks_are_left_out(void **state)
{
    struct hetccl_comm *parent = fake_make(4, 1, true);
    int excluded[2] = {3, 0};
    ncclComm_t child;

    assert_int_equal(ncclCommShrink(handle_of(parent), excluded, 2, &child, NULL, NCCL_SHRINK_DEFAULT),
                     ncclSuccess);
    assert_string_equal(fake_event(1), "shrink 2 first 3");
    assert_int_equal(ncclCommDestroy(child), ncclSuccess);
    fake_set_state(parent, HETCCL_ERR_REMOTE);
    assert_int_equal(ncclCommShrink(handle_of(parent), excluded, 1, &child, NULL, NCCL_SHRINK_ABORT),
                     ncclSuccess);
    assert_int_equal(fake_count_events("shrink 1 first 3 abort"), 1);
    assert_int_equal(ncclCommDestroy(child), ncclSuccess);
    assert_int_equal(ncclCommShrink(handle_of(parent), NULL, 1, &child, NULL, 0), ncclInvalidArgument);
    assert_int_equal(ncclCommShrink(handle_of(parent), excluded, 0, &child, NULL, 0), ncclInvalidArgument);
    assert_int_equal(ncclCommShrink(handle_of(parent), excluded, 1, &child, NULL, 2), ncclInvalidArgument);
    assert_error_says("flags 0x2");
    excluded[1] = 1;
    assert_int_equal(ncclCommShrink(handle_of(parent), excluded, 2, &child, NULL, 0), ncclInvalidArgument);
    assert_error_says("excludes itself");
    excluded[1] = 4;
    assert_int_equal(ncclCommShrink(handle_of(parent), excluded, 2, &child, NULL, 0), ncclInvalidArgument);
    assert_error_says("excluded rank 4");
    assert_int_equal(ncclCommDestroy(handle_of(parent)), ncclSuccess);
}

/* ---- states ---- */

static void revoking(void **state)
{
    struct hetccl_comm *comm = fake_make(2, 0, true);
    char byte = 0;

    assert_int_equal(ncclCommRevoke(handle_of(comm), 1), ncclInvalidArgument);
    assert_int_equal(fake_count_events("revoke"), 0);
    assert_int_equal(ncclCommRevoke(handle_of(comm), NCCL_REVOKE_DEFAULT), ncclSuccess);
    assert_int_equal(ncclAllGather(&byte, &byte, 1, ncclInt8, handle_of(comm), NULL), ncclInvalidUsage);
    assert_int_equal(ncclCommDestroy(handle_of(comm)), ncclSuccess);
}

static void states_become_results(void **state)
{
    static const struct {
        enum hetccl_status status;
        ncclResult_t result;
    } pairs[] = {
        {HETCCL_OK, ncclSuccess},
        {HETCCL_AGAIN, ncclInProgress},
        {HETCCL_ERR_ARG, ncclInvalidArgument},
        {HETCCL_ERR_USAGE, ncclInvalidUsage},
        {HETCCL_ERR_SYSTEM, ncclSystemError},
        {HETCCL_ERR_DEVICE, ncclUnhandledCudaError},
        {HETCCL_ERR_REMOTE, ncclRemoteError},
        {HETCCL_ERR_TIMEOUT, ncclRemoteError},
        {HETCCL_ERR_ABORTED, ncclInternalError},
        {HETCCL_ERR_INTERNAL, ncclInternalError},
    };
    struct hetccl_comm *comm = fake_make(2, 0, true);
    ncclResult_t result;

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        fake_set_state(comm, pairs[i].status);
        assert_int_equal(ncclCommGetAsyncError(handle_of(comm), &result), ncclSuccess);
        assert_int_equal(result, pairs[i].result);
    }
    assert_int_equal(ncclCommAbort(handle_of(comm)), ncclSuccess);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(one_rank_joins_and_leaves, reset_fake),
        cmocka_unit_test_teardown(nothing_is_done_to_null, reset_fake),
        cmocka_unit_test_teardown(ranks_and_ids_out_of_range_are_refused, reset_fake),
        cmocka_unit_test_teardown(a_failed_init_leaves_no_handle, reset_fake),
        cmocka_unit_test_teardown(inits_of_a_group_run_at_the_same_time, reset_fake),
        cmocka_unit_test_teardown(one_failed_init_cancels_its_group, reset_fake),
        cmocka_unit_test_teardown(an_error_in_a_group_undoes_its_inits, reset_fake),
        cmocka_unit_test_teardown(init_all_makes_one_rank_a_device, reset_fake),
        cmocka_unit_test_teardown(init_all_inside_a_group_waits_for_its_end, reset_fake),
        cmocka_unit_test_teardown(any_allocation_and_any_thread_may_fail, reset_fake),
        cmocka_unit_test_teardown(a_non_blocking_init_is_polled, reset_fake),
        cmocka_unit_test_teardown(a_non_blocking_init_that_fails_keeps_its_handle, reset_fake),
        cmocka_unit_test_teardown(an_init_that_waits_for_nobody_is_aborted, reset_fake),
        cmocka_unit_test_teardown(a_blocking_init_is_aborted_from_another_thread, reset_fake),
        cmocka_unit_test_teardown(a_non_blocking_group_of_inits_is_polled, reset_fake),
        cmocka_unit_test_teardown(children_by_colour, reset_fake),
        cmocka_unit_test_teardown(a_child_is_like_its_non_blocking_parent, reset_fake),
        cmocka_unit_test_teardown(ranks_are_left_out, reset_fake),
        cmocka_unit_test_teardown(revoking, reset_fake),
        cmocka_unit_test_teardown(states_become_results, reset_fake),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
