/* SPDX-License-Identifier: Apache-2.0 */

/* What only AMD's library has. */

#include "check.h"

#include "hetccl/rccl.h"

static void sum_with_bias(ncclComm_t comm, float *values, const float *bias)
{
    assert_int_equal(ncclAllReduceWithBias(values, values, 3, ncclFloat32, ncclSum, comm, NULL, bias),
                     ncclSuccess);
}

static void a_bias_is_added_after_the_reduction(void **state)
{
    const float bias[3] = {10, 20, 30};
    struct hetccl_comm *comm = fake_make(2, 0, true);
    float values[3] = {1, 2, 3};

    sum_with_bias(handle_of(comm), values, bias);
    assert_float_equal(values[0], 11, 0);
    assert_float_equal(values[2], 33, 0);
    sum_with_bias(handle_of(comm), values, NULL);
    assert_float_equal(values[1], 22, 0);
    assert_int_equal(ncclCommDestroy(handle_of(comm)), ncclSuccess);
}

static void in_a_group_it_is_added_at_the_end_and_once(void **state)
{
    const float bias[3] = {10, 20, 30};
    struct hetccl_comm *comm = fake_make(2, 0, true);
    struct hetccl_comm *aborted = fake_make(2, 0, true);
    float values[3] = {1, 2, 3};
    float others[3] = {1, 2, 3};

    assert_int_equal(ncclGroupStart(), ncclSuccess);
    sum_with_bias(handle_of(comm), values, bias);
    sum_with_bias(handle_of(aborted), others, bias);
    assert_int_equal(ncclCommAbort(handle_of(aborted)), ncclSuccess);
    assert_float_equal(values[0], 1, 0);
    assert_int_equal(ncclGroupEnd(), ncclSuccess);
    assert_float_equal(values[0], 11, 0);
    assert_float_equal(values[2], 33, 0);
    assert_float_equal(others[0], 1, 0);
    fake_fail_next("bias", HETCCL_ERR_DEVICE);
    assert_int_equal(
        ncclAllReduceWithBias(values, values, 3, ncclFloat32, ncclSum, handle_of(comm), NULL, bias),
        ncclUnhandledCudaError);
    fake_fail_next("run", HETCCL_ERR_REMOTE);
    assert_int_equal(
        ncclAllReduceWithBias(values, values, 3, ncclFloat32, ncclSum, handle_of(comm), NULL, bias),
        ncclRemoteError);
    assert_float_equal(values[0], 11, 0);
    assert_int_equal(ncclCommDestroy(handle_of(comm)), ncclSuccess);
}

static void a_non_blocking_communicator_adds_it_too(void **state)
{
    const float bias[3] = {10, 20, 30};
    struct hetccl_comm *comm = fake_make(2, 0, false);
    float values[3] = {1, 2, 3};

    assert_int_equal(
        ncclAllReduceWithBias(values, values, 3, ncclFloat32, ncclMax, handle_of(comm), NULL, bias),
        ncclInProgress);
    assert_int_equal(wait_ready(handle_of(comm)), ncclSuccess);
    assert_float_equal(values[0], 10, 0);
    assert_int_equal(ncclCommDestroy(handle_of(comm)), ncclSuccess);
}

static void vectors_are_free_again_when_the_call_returns(void **state)
{
    struct hetccl_comm *comm = fake_make(2, 0, true);
    size_t counts[2] = {3, 4};
    size_t offsets[2] = {0, 3};
    char send[7];
    char recv[7];

    assert_int_equal(ncclGroupStart(), ncclSuccess);
    assert_int_equal(
        ncclAllToAllv(send, counts, offsets, recv, counts, offsets, ncclInt8, handle_of(comm), NULL),
        ncclSuccess);
    counts[0] = counts[1] = 99;
    assert_int_equal(ncclGroupEnd(), ncclSuccess);
    assert_int_equal(fake_send_counts(0)[0], 3);
    assert_int_equal(fake_send_counts(0)[1], 4);
    assert_int_equal(
        ncclAlltoAllv(send, counts, offsets, recv, counts, NULL, ncclInt8, handle_of(comm), NULL),
        ncclInvalidArgument);
    assert_error_says("array of counts or displacements");
    assert_int_equal(ncclAllToAll(send, recv, 3, ncclInt8, handle_of(comm), NULL), ncclSuccess);
    assert_int_equal(ncclCommDestroy(handle_of(comm)), ncclSuccess);
}

static void custom_algorithms_are_refused(void **state)
{
    mscclAlgoHandle_t algorithm;

    assert_int_equal(mscclLoadAlgo("x.xml", &algorithm, 0), ncclInvalidUsage);
    assert_error_says("mscclLoadAlgo");
    assert_int_equal(mscclUnloadAlgo(0), ncclInvalidUsage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_bias_is_added_after_the_reduction, reset_fake),
        cmocka_unit_test_teardown(in_a_group_it_is_added_at_the_end_and_once, reset_fake),
        cmocka_unit_test_teardown(a_non_blocking_communicator_adds_it_too, reset_fake),
        cmocka_unit_test_teardown(vectors_are_free_again_when_the_call_returns, reset_fake),
        cmocka_unit_test_teardown(custom_algorithms_are_refused, reset_fake),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
