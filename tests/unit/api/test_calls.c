/* SPDX-License-Identifier: Apache-2.0 */

/* What each public call hands down, and which arguments are refused with which code and words. */

#include "check.h"

#include <stdlib.h>

static char send_memory[64], recv_memory[64];
static struct hetccl_comm *comm;
static ncclComm_t handle;

static int set_up(void **state)
{
    comm = fake_make(4, 2, true);
    handle = handle_of(comm);
    return 0;
}

static int tear_down(void **state)
{
    assert_int_equal(ncclCommDestroy(handle), ncclSuccess);
    return reset_fake(state);
}

static const struct hetccl_call *last_call(int run)
{
    const struct hetccl_comm_item *items;
    size_t n;

    items = fake_run(run, &n);
    assert_non_null(items);
    assert_int_equal(n, 1);
    assert_ptr_equal(items[0].comm, comm);
    return &items[0].call;
}

static void assert_call(int run, enum hetccl_coll coll, const void *send, const void *recv, size_t count)
{
    const struct hetccl_call *call = last_call(run);

    assert_int_equal(call->coll, coll);
    assert_ptr_equal(call->send, send);
    assert_ptr_equal(call->recv, recv);
    assert_int_equal(call->count, count);
    assert_ptr_equal(call->stream, (void *)0x77);
}

static void every_call_is_handed_down_as_it_came(void **state)
{
    hetcclStream_t stream = (hetcclStream_t)0x77;
    void *s = send_memory;
    void *r = recv_memory;

    assert_int_equal(ncclAllReduce(s, r, 1, ncclInt32, ncclMax, handle, stream), ncclSuccess);
    assert_call(0, HETCCL_ALLREDUCE, s, r, 1);
    assert_int_equal(last_call(0)->type, HETCCL_INT32);
    assert_int_equal(last_call(0)->op.red, HETCCL_MAX);
    assert_int_equal(ncclReduce(s, r, 2, ncclFloat64, ncclProd, 3, handle, stream), ncclSuccess);
    assert_call(1, HETCCL_REDUCE, s, r, 2);
    assert_int_equal(last_call(1)->root, 3);
    assert_int_equal(last_call(1)->op.red, HETCCL_PROD);
    assert_int_equal(ncclReduceScatter(s, r, 3, ncclBfloat16, ncclMin, handle, stream), ncclSuccess);
    assert_call(2, HETCCL_REDUCE_SCATTER, s, r, 3);
    assert_int_equal(last_call(2)->op.red, HETCCL_MIN);
    assert_int_equal(ncclAllGather(s, r, 4, ncclUint8, handle, stream), ncclSuccess);
    assert_call(3, HETCCL_ALLGATHER, s, r, 4);
    assert_int_equal(ncclBroadcast(s, r, 5, ncclInt8, 0, handle, stream), ncclSuccess);
    assert_call(4, HETCCL_BROADCAST, s, r, 5);
    assert_int_equal(ncclBcast(r, 6, ncclInt8, 1, handle, stream), ncclSuccess);
    assert_call(5, HETCCL_BROADCAST, r, r, 6);
    assert_int_equal(last_call(5)->root, 1);
    assert_int_equal(ncclAlltoAll(s, r, 7, ncclInt64, handle, stream), ncclSuccess);
    assert_call(6, HETCCL_ALLTOALL, s, r, 7);
    assert_int_equal(ncclGather(s, r, 8, ncclInt8, 2, handle, stream), ncclSuccess);
    assert_call(7, HETCCL_GATHER, s, r, 8);
    assert_int_equal(ncclScatter(s, r, 9, ncclInt8, 2, handle, stream), ncclSuccess);
    assert_call(8, HETCCL_SCATTER, s, r, 9);
    assert_int_equal(ncclSend(s, 10, ncclInt8, 1, handle, stream), ncclSuccess);
    assert_call(9, HETCCL_P2P, s, NULL, 10);
    assert_true(last_call(9)->is_send);
    assert_int_equal(last_call(9)->root, 1);
    assert_int_equal(ncclRecv(r, 11, ncclInt8, 3, handle, stream), ncclSuccess);
    assert_call(10, HETCCL_P2P, NULL, r, 11);
    assert_false(last_call(10)->is_send);
}

static ncclResult_t sum(const void *s, void *r, size_t count, int type, int op)
{
    return ncclAllReduce(s, r, count, (ncclDataType_t)type, (ncclRedOp_t)op, handle, NULL);
}

static void bad_types_operators_and_roots_are_refused(void **state)
{
    void *s = send_memory;
    void *r = recv_memory;

    assert_int_equal(sum(s, r, 1, -1, ncclSum), ncclInvalidArgument);
    assert_error_says("type -1");
    assert_int_equal(sum(s, r, 1, ncclNumTypes, ncclSum), ncclInvalidArgument);
    assert_error_says("ncclAllReduce: type 12");
    assert_int_equal(sum(s, r, 1, ncclInt8, -1), ncclInvalidArgument);
    assert_error_says("operator -1");
    assert_int_equal(sum(s, r, 1, ncclInt8, INT_MIN), ncclInvalidArgument);
    assert_int_equal(sum(s, r, 1, ncclInt8, ncclNumOps), ncclInvalidArgument);
    assert_error_says("operator 5");
    assert_int_equal(sum(s, r, 1, ncclInt8, ncclMaxRedOp), ncclInvalidArgument);
    assert_int_equal(ncclBroadcast(s, r, 1, ncclInt8, 4, handle, NULL), ncclInvalidArgument);
    assert_error_says("root 4");
    assert_int_equal(ncclReduce(s, r, 1, ncclInt8, ncclSum, -1, handle, NULL), ncclInvalidArgument);
    assert_error_says("ncclReduce: root -1");
    assert_int_equal(ncclSend(s, 1, ncclInt8, 4, handle, NULL), ncclInvalidArgument);
    assert_error_says("ncclSend: peer 4");
    assert_int_equal(fake_count_events("run"), 0);
}

static void null_buffers_are_refused_where_they_are_used(void **state)
{
    void *s = send_memory;
    void *r = recv_memory;

    assert_int_equal(sum(NULL, r, 1, ncclInt8, ncclSum), ncclInvalidArgument);
    assert_error_says("send buffer is NULL");
    assert_int_equal(sum(s, NULL, 1, ncclInt8, ncclSum), ncclInvalidArgument);
    assert_error_says("receive buffer is NULL");
    assert_int_equal(sum(NULL, NULL, 0, ncclInt8, ncclSum), ncclSuccess);
    /* This is rank 2. */
    assert_int_equal(ncclBroadcast(NULL, r, 1, ncclInt8, 0, handle, NULL), ncclSuccess);
    assert_int_equal(ncclBroadcast(NULL, r, 1, ncclInt8, 2, handle, NULL), ncclInvalidArgument);
    assert_int_equal(ncclReduce(s, NULL, 1, ncclInt8, ncclSum, 0, handle, NULL), ncclSuccess);
    assert_int_equal(ncclReduce(s, NULL, 1, ncclInt8, ncclSum, 2, handle, NULL), ncclInvalidArgument);
    assert_int_equal(ncclGather(s, NULL, 1, ncclInt8, 1, handle, NULL), ncclSuccess);
    assert_int_equal(ncclScatter(NULL, r, 1, ncclInt8, 1, handle, NULL), ncclSuccess);
    assert_int_equal(ncclScatter(NULL, NULL, 1, ncclInt8, 1, handle, NULL), ncclInvalidArgument);
    assert_int_equal(ncclSend(NULL, 1, ncclInt8, 2, handle, NULL), ncclInvalidArgument);
    assert_int_equal(ncclRecv(NULL, 0, ncclInt8, 2, handle, NULL), ncclSuccess);
}

static void counts_beyond_all_memory_are_refused(void **state)
{
    assert_int_equal(sum(send_memory, recv_memory, SIZE_MAX, ncclInt32, ncclSum), ncclInvalidArgument);
    assert_int_equal(ncclAllGather(send_memory, recv_memory, SIZE_MAX / 3, ncclInt8, handle, NULL),
                     ncclInvalidArgument);
    assert_error_says("more than memory");
}

static void bad_communicators_are_refused(void **state)
{
    char rubbish[4096];

    memset(rubbish, 0x5a, sizeof(rubbish));
    assert_int_equal(ncclAllGather(send_memory, recv_memory, 1, ncclInt8, NULL, NULL), ncclInvalidArgument);
    assert_error_says("the communicator is NULL");
    assert_int_equal(ncclAllGather(send_memory, recv_memory, 1, ncclInt8, (ncclComm_t)(void *)rubbish, NULL),
                     ncclInvalidArgument);
    assert_error_says("is not a communicator");
}

static void the_communicator_s_own_check_counts(void **state)
{
    fake_fail_next("check", HETCCL_ERR_USAGE);
    assert_int_equal(sum(send_memory, recv_memory, 1, ncclInt8, ncclSum), ncclInvalidUsage);
    fake_set_state(comm, HETCCL_ERR_REMOTE);
    assert_int_equal(sum(send_memory, recv_memory, 1, ncclInt8, ncclSum), ncclRemoteError);
    assert_error_says("has failed");
    assert_int_equal(fake_count_events("run"), 0);
}

static void averages_scale_floats_and_divide_integers(void **state)
{
    const struct hetccl_comm_op *op;
    float quarter = 0.25f;
    uint32_t bits;

    memcpy(&bits, &quarter, sizeof(bits));
    assert_int_equal(sum(send_memory, recv_memory, 1, ncclFloat32, ncclAvg), ncclSuccess);
    op = &last_call(0)->op;
    assert_int_equal(op->red, HETCCL_SUM);
    assert_true(op->has_scale);
    assert_int_equal(op->scale.bits, bits);
    assert_int_equal(sum(send_memory, recv_memory, 1, ncclInt32, ncclAvg), ncclSuccess);
    op = &last_call(1)->op;
    assert_int_equal(op->red, HETCCL_SUM);
    assert_true(op->is_average);
    assert_false(op->has_scale);
}

static void wishes_are_checked_and_not_fulfilled(void **state)
{
    ncclCollConfig_t wishes = NCCL_COLLCONFIG_INITIALIZER;
    void *s = send_memory;
    void *r = recv_memory;

    wishes.maxCTAs = 3;
    wishes.algSelection = "";
    assert_int_equal(ncclAllReduceConfig(s, r, 1, ncclInt8, ncclSum, handle, NULL, &wishes), ncclSuccess);
    assert_int_equal(ncclAllReduceConfig(s, r, 1, ncclInt8, ncclSum, handle, NULL, NULL), ncclSuccess);
    wishes.algSelection = "ring";
    assert_int_equal(ncclBroadcastConfig(s, r, 1, ncclInt8, 0, handle, NULL, &wishes), ncclInvalidArgument);
    assert_error_says("\"ring\"");
    wishes.forceAlgSelection = 0;
    assert_int_equal(ncclReduceConfig(s, r, 1, ncclInt8, ncclSum, 0, handle, NULL, &wishes), ncclSuccess);
    assert_int_equal(ncclAllGatherConfig(s, r, 1, ncclInt8, handle, NULL, &wishes), ncclSuccess);
    assert_int_equal(ncclReduceScatterConfig(s, r, 1, ncclInt8, ncclSum, handle, NULL, &wishes), ncclSuccess);
    assert_int_equal(ncclAlltoAllConfig(s, r, 1, ncclInt8, handle, NULL, &wishes), ncclSuccess);
    assert_int_equal(ncclGatherConfig(s, r, 1, ncclInt8, 0, handle, NULL, &wishes), ncclSuccess);
    assert_int_equal(ncclScatterConfig(s, r, 1, ncclInt8, 0, handle, NULL, &wishes), ncclSuccess);
    wishes.magic = 0;
    assert_int_equal(ncclScatterConfig(s, r, 1, ncclInt8, 0, handle, NULL, &wishes), ncclInvalidArgument);
    assert_error_says("NCCL_COLLCONFIG_INITIALIZER");
    memset(&wishes, 0, sizeof(wishes));
    assert_int_equal(ncclScatterConfig(s, r, 1, ncclInt8, 0, handle, NULL, &wishes), ncclInvalidArgument);
}

/* ---- operators ---- */

static void made_operators_are_captured_and_belong_to_one_communicator(void **state)
{
    struct hetccl_comm *other = fake_make(2, 0, true);
    double factor = 3.5;
    uint64_t bits;
    ncclRedOp_t op;
    ncclRedOp_t second;

    memcpy(&bits, &factor, sizeof(bits));
    assert_int_equal(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat64, ncclScalarHostImmediate, handle),
                     ncclSuccess);
    assert_true((int)op >= ncclNumOps);
    factor = 1.0;
    assert_int_equal(ncclRedOpCreatePreMulSum(&second, &factor, ncclFloat64, ncclScalarHostImmediate, handle),
                     ncclSuccess);
    assert_int_not_equal(op, second);
    assert_int_equal(sum(send_memory, recv_memory, 1, ncclFloat64, (int)op), ncclSuccess);
    assert_true(last_call(0)->op.has_scale);
    assert_false(last_call(0)->op.is_average);
    assert_int_equal(last_call(0)->op.scale.bits, bits);
    assert_int_equal(sum(send_memory, recv_memory, 1, ncclFloat32, (int)op), ncclInvalidArgument);
    assert_error_says("made for float64");
    assert_int_equal(ncclAllReduce(send_memory, recv_memory, 1, ncclFloat64, op, handle_of(other), NULL),
                     ncclInvalidArgument);
    assert_error_says("made for another one");
    assert_int_equal(ncclRedOpDestroy(op, handle_of(other)), ncclInvalidArgument);
    assert_int_equal(ncclRedOpDestroy(op, handle), ncclSuccess);
    assert_int_equal(ncclRedOpDestroy(op, handle), ncclInvalidArgument);
    assert_int_equal(sum(send_memory, recv_memory, 1, ncclFloat64, (int)op), ncclInvalidArgument);
    assert_int_equal(sum(send_memory, recv_memory, 1, ncclFloat64, (int)second), ncclSuccess);
    assert_int_equal(ncclCommDestroy(handle_of(other)), ncclSuccess);
}

static void a_device_factor_is_read_when_the_call_is_made(void **state)
{
    uint16_t factor = 0x3f80; /* bfloat16 1 */
    ncclRedOp_t op;

    assert_int_equal(ncclRedOpCreatePreMulSum(&op, &factor, ncclBfloat16, ncclScalarDevice, handle),
                     ncclSuccess);
    factor = 0x4000;
    assert_int_equal(sum(send_memory, recv_memory, 1, ncclBfloat16, (int)op), ncclSuccess);
    assert_int_equal(last_call(0)->op.scale.bits, 0x4000);
    assert_null(last_call(0)->op.scale_pointer);
}

/* The host can't read it, and its value counts when the call's work runs. */
static void an_asynchronous_device_gets_a_device_factor_s_address(void **state)
{
    float factor = 2;
    ncclRedOp_t op, immediate;

    fake_set_asynchronous((struct hetccl_comm *)(void *)handle);
    assert_int_equal(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarDevice, handle),
                     ncclSuccess);
    assert_int_equal(
        ncclRedOpCreatePreMulSum(&immediate, &factor, ncclFloat32, ncclScalarHostImmediate, handle),
        ncclSuccess);
    assert_int_equal(sum(send_memory, recv_memory, 1, ncclFloat32, (int)op), ncclSuccess);
    assert_true(last_call(0)->op.has_scale);
    assert_ptr_equal(last_call(0)->op.scale_pointer, &factor);
    assert_int_equal(last_call(0)->op.scale.bits, 0);
    assert_int_equal(sum(send_memory, recv_memory, 1, ncclFloat32, (int)immediate), ncclSuccess);
    assert_null(last_call(1)->op.scale_pointer);
    assert_int_equal(last_call(1)->op.scale.bits, 0x40000000);
}

static void bad_operators_are_not_made(void **state)
{
    float factor = 1;
    ncclRedOp_t op;

    assert_int_equal(ncclRedOpCreatePreMulSum(NULL, &factor, ncclFloat32, ncclScalarDevice, handle),
                     ncclInvalidArgument);
    assert_int_equal(ncclRedOpCreatePreMulSum(&op, NULL, ncclFloat32, ncclScalarDevice, handle),
                     ncclInvalidArgument);
    assert_int_equal(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarDevice, NULL),
                     ncclInvalidArgument);
    assert_int_equal(ncclRedOpCreatePreMulSum(&op, &factor, (ncclDataType_t)12, ncclScalarDevice, handle),
                     ncclInvalidArgument);
    assert_int_equal(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, (ncclScalarResidence_t)2, handle),
                     ncclInvalidArgument);
    assert_error_says("residence 2");
    assert_int_equal(ncclRedOpDestroy(ncclSum, handle), ncclInvalidArgument);
    assert_error_says("built in");
}

static void many_operators_have_different_handles(void **state)
{
    enum { N = 500 };
    float factor = 1;
    ncclRedOp_t ops[N];

    for (int i = 0; i < N; i++) {
        assert_int_equal(
            ncclRedOpCreatePreMulSum(&ops[i], &factor, ncclFloat32, ncclScalarHostImmediate, handle),
            ncclSuccess);
        for (int j = 0; j < i; j++)
            assert_int_not_equal(ops[i], ops[j]);
    }
    for (int i = 0; i < N; i++)
        assert_int_equal(ncclRedOpDestroy(ops[(i * 7) % N], handle), ncclSuccess);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_call_is_handed_down_as_it_came, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_types_operators_and_roots_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(null_buffers_are_refused_where_they_are_used, set_up, tear_down),
        cmocka_unit_test_setup_teardown(counts_beyond_all_memory_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_communicators_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_communicator_s_own_check_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(averages_scale_floats_and_divide_integers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wishes_are_checked_and_not_fulfilled, set_up, tear_down),
        cmocka_unit_test_setup_teardown(made_operators_are_captured_and_belong_to_one_communicator, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_device_factor_is_read_when_the_call_is_made, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_asynchronous_device_gets_a_device_factor_s_address, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(bad_operators_are_not_made, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_operators_have_different_handles, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
