/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <pthread.h>

static float in[8], out[8];

static ncclResult_t all_reduce(struct hetccl_comm *comm, size_t count)
{
    return ncclAllReduce(in, out, count, ncclFloat32, ncclSum, handle_of(comm), NULL);
}

static void end(struct hetccl_comm *comm)
{
    assert_int_equal(ncclCommDestroy(handle_of(comm)), ncclSuccess);
}

static void outside_a_group_a_call_runs_at_once(void **state)
{
    struct hetccl_comm *comm = fake_make(2, 0, true);
    const struct hetccl_comm_item *items;
    size_t n;

    assert_int_equal(all_reduce(comm, 8), ncclSuccess);
    items = fake_run(0, &n);
    assert_non_null(items);
    assert_int_equal(n, 1);
    assert_ptr_equal(items[0].comm, comm);
    assert_int_equal(items[0].call.coll, HETCCL_ALLREDUCE);
    assert_int_equal(items[0].call.count, 8);
    end(comm);
}

static void calls_of_a_group_run_together_in_order(void **state)
{
    struct hetccl_comm *a = fake_make(2, 0, true);
    struct hetccl_comm *b = fake_make(2, 1, true);
    const struct hetccl_comm_item *items;
    size_t n;

    assert_int_equal(ncclGroupStart(), ncclSuccess);
    assert_int_equal(all_reduce(a, 1), ncclSuccess);
    assert_int_equal(ncclSend(in, 2, ncclInt8, 1, handle_of(a), NULL), ncclSuccess);
    assert_int_equal(all_reduce(b, 3), ncclSuccess);
    for (size_t count = 4; count < 40; count++)
        assert_int_equal(ncclRecv(out, count, ncclInt8, 0, handle_of(b), NULL), ncclSuccess);
    assert_null(fake_run(0, &n));
    assert_int_equal(ncclGroupEnd(), ncclSuccess);
    items = fake_run(0, &n);
    assert_non_null(items);
    assert_int_equal(n, 39);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(items[i].call.count, i + 1);
        assert_ptr_equal(items[i].comm, i < 2 ? a : b);
    }
    assert_true(items[1].call.is_send);
    assert_false(items[3].call.is_send);
    assert_null(fake_run(1, &n));
    end(a);
    end(b);
}

static void groups_nest(void **state)
{
    struct hetccl_comm *comm = fake_make(1, 0, true);
    size_t n;

    assert_int_equal(ncclGroupStart(), ncclSuccess);
    assert_int_equal(ncclGroupStart(), ncclSuccess);
    assert_int_equal(all_reduce(comm, 1), ncclSuccess);
    assert_int_equal(ncclGroupEnd(), ncclSuccess);
    assert_null(fake_run(0, &n));
    assert_int_equal(all_reduce(comm, 2), ncclSuccess);
    assert_int_equal(ncclGroupEnd(), ncclSuccess);
    assert_non_null(fake_run(0, &n));
    assert_int_equal(n, 2);
    end(comm);
}

static void an_empty_group_is_fine_and_an_end_without_start_is_not(void **state)
{
    assert_int_equal(ncclGroupStart(), ncclSuccess);
    assert_int_equal(ncclGroupEnd(), ncclSuccess);
    assert_int_equal(ncclGroupEnd(), ncclInvalidUsage);
    assert_error_says("ncclGroupEnd: no group was started");
    assert_int_equal(fake_count_events(""), 0);
}

static void an_error_comes_at_once_and_again_at_the_end(void **state)
{
    struct hetccl_comm *comm = fake_make(2, 0, true);
    size_t n;

    assert_int_equal(ncclGroupStart(), ncclSuccess);
    assert_int_equal(all_reduce(comm, 1), ncclSuccess);
    assert_int_equal(ncclBroadcast(in, out, 1, ncclInt8, 7, handle_of(comm), NULL), ncclInvalidArgument);
    assert_error_says("root 7");
    assert_int_equal(ncclAllReduce(in, out, 1, (ncclDataType_t)55, ncclSum, handle_of(comm), NULL),
                     ncclInvalidArgument);
    assert_int_equal(all_reduce(comm, 1), ncclSuccess);
    assert_int_equal(ncclGroupEnd(), ncclInvalidArgument);
    assert_error_says("root 7");
    assert_null(fake_run(0, &n));
    /* The next group starts afresh. */
    assert_int_equal(ncclGroupStart(), ncclSuccess);
    assert_int_equal(all_reduce(comm, 1), ncclSuccess);
    assert_int_equal(ncclGroupEnd(), ncclSuccess);
    end(comm);
}

static void a_failure_to_run_comes_from_the_end(void **state)
{
    struct hetccl_comm *comm = fake_make(2, 0, true);

    fake_fail_next("run", HETCCL_ERR_REMOTE);
    assert_int_equal(ncclGroupStart(), ncclSuccess);
    assert_int_equal(all_reduce(comm, 1), ncclSuccess);
    assert_int_equal(ncclGroupEnd(), ncclRemoteError);
    assert_error_says("scripted failure of run");
    end(comm);
}

static void a_timeout_is_a_remote_error(void **state)
{
    struct hetccl_comm *comm = fake_make(2, 0, true);

    fake_fail_next("run", HETCCL_ERR_TIMEOUT);
    assert_int_equal(all_reduce(comm, 1), ncclRemoteError);
    end(comm);
}

static void blocking_and_non_blocking_do_not_mix(void **state)
{
    struct hetccl_comm *a = fake_make(1, 0, true);
    struct hetccl_comm *b = fake_make(1, 0, false);
    size_t n;

    assert_int_equal(ncclGroupStart(), ncclSuccess);
    assert_int_equal(all_reduce(a, 1), ncclSuccess);
    assert_int_equal(all_reduce(b, 1), ncclInvalidArgument);
    assert_int_equal(ncclGroupEnd(), ncclInvalidArgument);
    assert_error_says("can't share a group");
    assert_null(fake_run(0, &n));
    end(a);
    end(b);
}

static void making_and_using_communicators_do_not_mix(void **state)
{
    struct hetccl_comm *comm = fake_make(1, 0, true);
    ncclComm_t child = (ncclComm_t)(void *)&child;
    ncclUniqueId id;

    assert_int_equal(ncclGetUniqueId(&id), ncclSuccess);
    assert_int_equal(ncclGroupStart(), ncclSuccess);
    assert_int_equal(all_reduce(comm, 1), ncclSuccess);
    assert_int_equal(ncclCommInitRank(&child, 1, id, 0), ncclInvalidUsage);
    assert_null(child);
    assert_int_equal(ncclGroupEnd(), ncclInvalidUsage);
    assert_int_equal(ncclGroupStart(), ncclSuccess);
    assert_int_equal(ncclCommSplit(handle_of(comm), 0, 0, &child, NULL), ncclSuccess);
    assert_int_equal(all_reduce(comm, 1), ncclInvalidUsage);
    assert_error_says("allreduce");
    assert_int_equal(ncclGroupEnd(), ncclInvalidUsage);
    assert_null(child);
    assert_int_equal(fake_count_events("split"), 0);
    assert_int_equal(fake_count_events("run"), 0);
    end(comm);
}

static void an_operator_may_go_before_the_group_ends(void **state)
{
    struct hetccl_comm *comm = fake_make(2, 0, true);
    const struct hetccl_comm_item *items;
    float factor = 0.25f;
    uint32_t bits;
    ncclRedOp_t op;
    size_t n;

    assert_int_equal(ncclGroupStart(), ncclSuccess);
    assert_int_equal(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarDevice, handle_of(comm)),
                     ncclSuccess);
    assert_int_equal(ncclAllReduce(in, out, 1, ncclFloat32, op, handle_of(comm), NULL), ncclSuccess);
    assert_int_equal(ncclRedOpDestroy(op, handle_of(comm)), ncclSuccess);
    factor = 8.0f;
    assert_int_equal(ncclGroupEnd(), ncclSuccess);
    items = fake_run(0, &n);
    factor = 0.25f;
    memcpy(&bits, &factor, sizeof(bits));
    assert_true(items[0].call.op.has_scale);
    assert_int_equal(items[0].call.op.scale.bits, bits);
    end(comm);
}

static void simulation_runs_nothing(void **state)
{
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    struct hetccl_comm *comm = fake_make(1, 0, true);
    struct hetccl_island island = {.engine = HETCCL_ENGINE_SHM, .n_ranks = 1};
    struct hetccl_topo topo = {.n_ranks = 1, .n_islands = 1, .n_hosts = 1, .islands = &island};
    size_t n;

    topo.engine_cost[HETCCL_ENGINE_SHM] = (struct hetccl_cost){.latency_us = 5, .bytes_per_us = 4};
    fake_set_topo(comm, &topo);
    assert_int_equal(ncclGroupStart(), ncclSuccess);
    assert_int_equal(all_reduce(comm, 8), ncclSuccess);
    assert_int_equal(all_reduce(comm, 4), ncclSuccess);
    assert_int_equal(ncclGroupSimulateEnd(&info), ncclSuccess);
    /* 2 x 5 us + 48 bytes at 4 bytes/us */
    assert_float_equal(info.estimatedTime, 22.0f, 0.001f);
    assert_null(fake_run(0, &n));
    assert_int_equal(ncclGroupEnd(), ncclInvalidUsage);
    assert_int_equal(ncclGroupSimulateEnd(&info), ncclInvalidUsage);
    end(comm);
}

static void simulation_checks_its_struct_and_still_ends_the_group(void **state)
{
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;

    info.magic = 1;
    assert_int_equal(ncclGroupStart(), ncclSuccess);
    assert_int_equal(ncclGroupSimulateEnd(&info), ncclInvalidArgument);
    assert_int_equal(ncclGroupEnd(), ncclInvalidUsage);
    assert_int_equal(ncclGroupStart(), ncclSuccess);
    assert_int_equal(ncclGroupSimulateEnd(NULL), ncclInvalidArgument);
    assert_int_equal(ncclGroupEnd(), ncclInvalidUsage);
    assert_true(info.estimatedTime < 0);
}

static void destructions_come_last_and_aborts_first(void **state)
{
    struct hetccl_comm *a = fake_make(1, 0, true);
    struct hetccl_comm *b = fake_make(1, 0, true);
    size_t n;

    assert_int_equal(ncclGroupStart(), ncclSuccess);
    assert_int_equal(ncclCommDestroy(handle_of(a)), ncclSuccess);
    assert_int_equal(all_reduce(a, 1), ncclSuccess);
    assert_int_equal(all_reduce(b, 2), ncclSuccess);
    assert_int_equal(ncclCommAbort(handle_of(b)), ncclSuccess);
    assert_int_equal(fake_n_live(), 2);
    assert_int_equal(ncclGroupEnd(), ncclSuccess);
    assert_string_equal(fake_event(0), "abort");
    assert_string_equal(fake_event(1), "run 1");
    assert_string_equal(fake_event(2), "destroy");
    assert_ptr_equal(fake_run(0, &n)->comm, a);
    assert_int_equal(fake_n_live(), 0);
}

static void aborts_and_destructions_happen_after_an_error_too(void **state)
{
    struct hetccl_comm *comms[3];

    for (int i = 0; i < 3; i++)
        comms[i] = fake_make(3, i, true);
    assert_int_equal(ncclGroupStart(), ncclSuccess);
    assert_int_equal(all_reduce(NULL, 1), ncclInvalidArgument);
    assert_int_equal(ncclCommAbort(handle_of(comms[0])), ncclSuccess);
    assert_int_equal(ncclCommAbort(handle_of(comms[1])), ncclSuccess);
    assert_int_equal(ncclCommDestroy(handle_of(comms[2])), ncclSuccess);
    assert_int_equal(ncclGroupEnd(), ncclInvalidArgument);
    assert_int_equal(fake_n_live(), 0);
}

static void finalizations_run_at_the_same_time(void **state)
{
    struct hetccl_comm *a = fake_make(2, 0, true);
    struct hetccl_comm *b = fake_make(2, 1, true);

    assert_int_equal(ncclGroupStart(), ncclSuccess);
    assert_int_equal(ncclCommFinalize(handle_of(a)), ncclSuccess);
    assert_int_equal(ncclCommFinalize(handle_of(b)), ncclSuccess);
    assert_int_equal(fake_count_events("finalize"), 0);
    assert_int_equal(ncclGroupEnd(), ncclSuccess);
    assert_int_equal(fake_count_events("finalize"), 2);
    assert_int_equal(ncclCommFinalize(handle_of(a)), ncclInvalidArgument);
    assert_error_says("finalized before");
    end(a);
    end(b);
}

static void *look_at_another_group(void *arg)
{
    struct hetccl_comm *comm = arg;

    /* This thread has no group open: the call runs at once, the end has no start. */
    assert_int_equal(all_reduce(comm, 5), ncclSuccess);
    assert_int_equal(ncclGroupEnd(), ncclInvalidUsage);
    return NULL;
}

static void groups_are_the_thread_s(void **state)
{
    struct hetccl_comm *a = fake_make(1, 0, true);
    struct hetccl_comm *b = fake_make(1, 0, true);
    pthread_t thread;
    size_t n;

    assert_int_equal(ncclGroupStart(), ncclSuccess);
    assert_int_equal(all_reduce(a, 1), ncclSuccess);
    assert_int_equal(pthread_create(&thread, NULL, look_at_another_group, b), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(fake_run(0, &n)->call.count, 5);
    assert_int_equal(ncclGroupEnd(), ncclSuccess);
    assert_int_equal(fake_run(1, &n)->call.count, 1);
    end(a);
    end(b);
}

static void a_non_blocking_group_runs_behind_the_caller_s_back(void **state)
{
    struct hetccl_comm *a = fake_make(1, 0, false);
    struct hetccl_comm *b = fake_make(1, 0, false);
    ncclResult_t result;
    size_t n;

    fake_hold(true);
    assert_int_equal(ncclGroupStart(), ncclSuccess);
    assert_int_equal(all_reduce(a, 1), ncclSuccess);
    assert_int_equal(all_reduce(b, 1), ncclSuccess);
    assert_int_equal(all_reduce(a, 1), ncclSuccess);
    assert_int_equal(ncclGroupEnd(), ncclInProgress);
    assert_int_equal(ncclCommGetAsyncError(handle_of(a), &result), ncclSuccess);
    assert_int_equal(result, ncclInProgress);
    assert_int_equal(ncclCommGetAsyncError(handle_of(b), &result), ncclSuccess);
    assert_int_equal(result, ncclInProgress);
    assert_int_equal(all_reduce(b, 1), ncclInvalidArgument);
    assert_error_says("still in progress");
    assert_int_equal(ncclCommDestroy(handle_of(a)), ncclInvalidArgument);
    fake_hold(false);
    assert_int_equal(wait_ready(handle_of(a)), ncclSuccess);
    assert_int_equal(wait_ready(handle_of(b)), ncclSuccess);
    assert_non_null(fake_run(0, &n));
    assert_int_equal(n, 3);
    end(a);
    end(b);
}

static void a_non_blocking_call_s_failure_is_polled(void **state)
{
    struct hetccl_comm *comm = fake_make(1, 0, false);

    fake_fail_next("run", HETCCL_ERR_SYSTEM);
    assert_int_equal(all_reduce(comm, 1), ncclInProgress);
    assert_int_equal(wait_ready(handle_of(comm)), ncclSystemError);
    assert_int_equal(all_reduce(comm, 1), ncclSystemError);
    end(comm);
}

static void a_hanging_non_blocking_call_is_aborted(void **state)
{
    struct hetccl_comm *comm = fake_make(1, 0, false);

    fake_hold(true);
    assert_int_equal(all_reduce(comm, 1), ncclInProgress);
    assert_int_equal(ncclCommAbort(handle_of(comm)), ncclSuccess);
    assert_int_equal(fake_n_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(outside_a_group_a_call_runs_at_once, reset_fake),
        cmocka_unit_test_teardown(calls_of_a_group_run_together_in_order, reset_fake),
        cmocka_unit_test_teardown(groups_nest, reset_fake),
        cmocka_unit_test_teardown(an_empty_group_is_fine_and_an_end_without_start_is_not, reset_fake),
        cmocka_unit_test_teardown(an_error_comes_at_once_and_again_at_the_end, reset_fake),
        cmocka_unit_test_teardown(a_failure_to_run_comes_from_the_end, reset_fake),
        cmocka_unit_test_teardown(a_timeout_is_a_remote_error, reset_fake),
        cmocka_unit_test_teardown(blocking_and_non_blocking_do_not_mix, reset_fake),
        cmocka_unit_test_teardown(making_and_using_communicators_do_not_mix, reset_fake),
        cmocka_unit_test_teardown(an_operator_may_go_before_the_group_ends, reset_fake),
        cmocka_unit_test_teardown(simulation_runs_nothing, reset_fake),
        cmocka_unit_test_teardown(simulation_checks_its_struct_and_still_ends_the_group, reset_fake),
        cmocka_unit_test_teardown(destructions_come_last_and_aborts_first, reset_fake),
        cmocka_unit_test_teardown(aborts_and_destructions_happen_after_an_error_too, reset_fake),
        cmocka_unit_test_teardown(finalizations_run_at_the_same_time, reset_fake),
        cmocka_unit_test_teardown(groups_are_the_thread_s, reset_fake),
        cmocka_unit_test_teardown(a_non_blocking_group_runs_behind_the_caller_s_back, reset_fake),
        cmocka_unit_test_teardown(a_non_blocking_call_s_failure_is_polled, reset_fake),
        cmocka_unit_test_teardown(a_hanging_non_blocking_call_is_aborted, reset_fake),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
