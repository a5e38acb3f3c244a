/* SPDX-License-Identifier: Apache-2.0 */
/* The whole flow under the API on ranks that are threads: every collective on several clusters, and the life
 * cycle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ranks.h"

enum { MAX_COUNT = 300007 };

static int32_t value(int rank, size_t index)
{
    return (int32_t)((unsigned)rank * 1000003u + (unsigned)index * 7919u) % 100000;
}

static enum hetccl_status run(struct hetccl_comm *comm, const struct hetccl_call *call)
{
    struct hetccl_comm_item item = {.comm = comm, .call = *call};
    enum hetccl_status status = hetccl_comm_check_call(comm, call);

    return status == HETCCL_OK ? hetccl_comm_run(&item, 1) : status;
}

static int32_t *make(size_t count)
{
    int32_t *memory = malloc((count + 1) * sizeof(*memory));

    memset(memory, 0x5a, (count + 1) * sizeof(*memory));
    return memory;
}

static int32_t *make_filled(int rank, size_t count)
{
    int32_t *memory = make(count);

    for (size_t i = 0; i < count; i++)
        memory[i] = value(rank, i);
    return memory;
}

static int32_t sum_at(int n_ranks, size_t index)
{
    int32_t sum = 0;

    for (int rank = 0; rank < n_ranks; rank++)
        sum += value(rank, index);
    return sum;
}

static void all_reduce(struct rank_context *c, size_t count, int in_place)
{
    int32_t *send = make_filled(c->rank, count);
    int32_t *recv = in_place ? send : make(count);
    struct hetccl_call call = {
        .coll = HETCCL_ALLREDUCE, .send = send, .recv = recv, .count = count, .type = HETCCL_INT32};
    int good = 1;

    CHECK(run(c->comm, &call) == HETCCL_OK);
    for (size_t i = 0; i < count; i++)
        good &= recv[i] == sum_at(c->n_ranks, i);
    CHECK(good);
    CHECK(recv[count] == 0x5a5a5a5a);
    free(send);
    if (!in_place)
        free(recv);
}

static void all_gather(struct rank_context *c, size_t count, int in_place)
{
    size_t n = (size_t)c->n_ranks;
    int32_t *send = make_filled(c->rank, count);
    int32_t *recv = make(count * n);
    struct hetccl_call call = {
        .coll = HETCCL_ALLGATHER, .send = send, .recv = recv, .count = count, .type = HETCCL_INT32};
    int good = 1;

    if (in_place) {
        memcpy(recv + (size_t)c->rank * count, send, count * sizeof(*recv));
        call.send = recv + (size_t)c->rank * count;
    }
    CHECK(run(c->comm, &call) == HETCCL_OK);
    for (size_t r = 0; r < n; r++)
        for (size_t i = 0; i < count; i++)
            good &= recv[r * count + i] == value((int)r, i);
    CHECK(good);
    CHECK(recv[count * n] == 0x5a5a5a5a);
    free(send);
    free(recv);
}

static void reduce_scatter(struct rank_context *c, size_t count, int in_place)
{
    size_t n = (size_t)c->n_ranks;
    int32_t *send = make_filled(c->rank, count * n);
    int32_t *recv = in_place ? send + (size_t)c->rank * count : make(count);
    struct hetccl_call call = {
        .coll = HETCCL_REDUCE_SCATTER, .send = send, .recv = recv, .count = count, .type = HETCCL_INT32};
    int good = 1;

    CHECK(run(c->comm, &call) == HETCCL_OK);
    for (size_t i = 0; i < count; i++)
        good &= recv[i] == sum_at(c->n_ranks, (size_t)c->rank * count + i);
    CHECK(good);
    free(send);
    if (!in_place)
        free(recv);
}

static void broadcast_and_reduce(struct rank_context *c, size_t count, int root)
{
    int32_t *send = make_filled(c->rank, count);
    int32_t *recv = make(count);
    struct hetccl_call call = {.coll = HETCCL_BROADCAST,
                               .send = send,
                               .recv = recv,
                               .count = count,
                               .type = HETCCL_INT32,
                               .root = root};
    int good = 1;

    CHECK(run(c->comm, &call) == HETCCL_OK);
    for (size_t i = 0; i < count; i++)
        good &= recv[i] == value(root, i);
    CHECK(good);
    memset(recv, 0x5a, count * sizeof(*recv));
    call.coll = HETCCL_REDUCE;
    CHECK(run(c->comm, &call) == HETCCL_OK);
    for (size_t i = 0; i < count; i++)
        good &= recv[i] == (c->rank == root ? sum_at(c->n_ranks, i) : 0x5a5a5a5a);
    CHECK(good);
    free(send);
    free(recv);
}

static void all_to_all(struct rank_context *c, size_t count)
{
    size_t n = (size_t)c->n_ranks;
    int32_t *send = make_filled(c->rank, count * n);
    int32_t *recv = make(count * n);
    struct hetccl_call call = {
        .coll = HETCCL_ALLTOALL, .send = send, .recv = recv, .count = count, .type = HETCCL_INT32};
    int good = 1;

    CHECK(run(c->comm, &call) == HETCCL_OK);
    for (size_t r = 0; r < n; r++)
        for (size_t i = 0; i < count; i++)
            good &= recv[r * count + i] == value((int)r, (size_t)c->rank * count + i);
    CHECK(good);
    free(send);
    free(recv);
}

static void gather_and_scatter(struct rank_context *c, size_t count, int root)
{
    size_t n = (size_t)c->n_ranks;
    int32_t *own = make_filled(c->rank, count);
    int32_t *all = make(count * n);
    struct hetccl_call call = {
        .coll = HETCCL_GATHER, .send = own, .recv = all, .count = count, .type = HETCCL_INT32, .root = root};
    int good = 1;

    CHECK(run(c->comm, &call) == HETCCL_OK);
    for (size_t r = 0; r < n; r++)
        for (size_t i = 0; i < count; i++)
            good &= all[r * count + i] == (c->rank == root ? value((int)r, i) : 0x5a5a5a5a);
    CHECK(good);
    for (size_t i = 0; i < count * n; i++)
        all[i] = value(c->rank, i);
    call = (struct hetccl_call){
        .coll = HETCCL_SCATTER, .send = all, .recv = own, .count = count, .type = HETCCL_INT32, .root = root};
    CHECK(run(c->comm, &call) == HETCCL_OK);
    for (size_t i = 0; i < count; i++)
        good &= own[i] == value(root, (size_t)c->rank * count + i);
    CHECK(good);
    free(own);
    free(all);
}

/* Everybody sends to and receives from everybody, itself included, in one group. */
static void exchange(struct rank_context *c, size_t count)
{
    size_t n = (size_t)c->n_ranks;
    int32_t *send = make_filled(c->rank, count * n);
    int32_t *recv = make(count * n);
    struct hetccl_comm_item items[2 * MAX_RANKS];
    int good = 1;

    for (size_t r = 0; r < n; r++) {
        items[r] = (struct hetccl_comm_item){c->comm,
                                             {.coll = HETCCL_P2P,
                                              .is_send = true,
                                              .send = send + r * count,
                                              .count = count,
                                              .type = HETCCL_INT32,
                                              .root = (int)r}};
        items[n + r] = (struct hetccl_comm_item){c->comm,
                                                 {.coll = HETCCL_P2P,
                                                  .recv = recv + r * count,
                                                  .count = count,
                                                  .type = HETCCL_INT32,
                                                  .root = (int)r}};
    }
    CHECK(hetccl_comm_run(items, 2 * n) == HETCCL_OK);
    for (size_t r = 0; r < n; r++)
        for (size_t i = 0; i < count; i++)
            good &= recv[r * count + i] == value((int)r, (size_t)c->rank * count + i);
    CHECK(good);
    free(send);
    free(recv);
}

/* Averages of integers are exact across islands, where a sum of the type itself would wrap. */
static void integer_average(struct rank_context *c)
{
    int8_t send[3] = {(int8_t)(127 - c->rank), (int8_t)(-128 + c->rank), (int8_t)c->rank};
    int8_t recv[3] = {0};
    int sums[3] = {0};
    struct hetccl_call call = {.coll = HETCCL_ALLREDUCE,
                               .send = send,
                               .recv = recv,
                               .count = 3,
                               .type = HETCCL_INT8,
                               .op = {.red = HETCCL_SUM, .is_average = true}};

    for (int r = 0; r < c->n_ranks; r++) {
        sums[0] += 127 - r;
        sums[1] += -128 + r;
        sums[2] += r;
    }
    CHECK(run(c->comm, &call) == HETCCL_OK);
    for (int i = 0; i < 3; i++)
        CHECK(recv[i] == sums[i] / c->n_ranks);
}

static void float_average(struct rank_context *c)
{
    float send = (float)(c->rank + 1);
    float recv = 0;
    float expected = (float)(c->n_ranks + 1) / 2;
    struct hetccl_call call = {.coll = HETCCL_ALLREDUCE,
                               .send = &send,
                               .recv = &recv,
                               .count = 1,
                               .type = HETCCL_FLOAT32,
                               .op = {.red = HETCCL_SUM, .is_average = true}};

    CHECK(run(c->comm, &call) == HETCCL_OK);
    CHECK(recv > expected * 0.999999f && recv < expected * 1.000001f);
}

static void all_collectives(struct rank_context *c)
{
    static const size_t counts[] = {0, 1, 7, 1000, 4099, MAX_COUNT};

    CHECK(c->init_status == HETCCL_OK);
    if (c->init_status != HETCCL_OK)
        return;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            all_reduce(c, counts[i], in_place);
            all_gather(c, counts[i] / 4, in_place);
            reduce_scatter(c, counts[i] / 4, in_place);
        }
        all_to_all(c, counts[i] / 4);
        exchange(c, counts[i] / 4);
        for (int root = 0; root<c->n_ranks; root += c->n_ranks> 2 ? c->n_ranks - 1 : 1) {
            broadcast_and_reduce(c, counts[i], root);
            gather_and_scatter(c, counts[i] / 4, root);
        }
    }
    integer_average(c);
    float_average(c);
}

static void run_cluster(int n_ranks, const char *vendors, const char *hosts, const char *link)
{
    set_cluster(vendors, hosts, link);
    run_ranks(n_ranks, all_collectives, NULL);
    set_cluster(NULL, NULL, NULL);
    assert_int_equal(take_failures(), 0);
}

static void test_one_rank(void **state)
{
    (void)state;
    run_cluster(1, NULL, NULL, NULL);
}

static void test_one_island(void **state)
{
    (void)state;
    run_cluster(2, NULL, NULL, NULL);
    run_cluster(3, NULL, NULL, NULL);
    run_cluster(4, NULL, NULL, NULL);
}

static void test_two_islands_shm(void **state)
{
    (void)state;
    run_cluster(2, "nvidia,amd", NULL, NULL);
    run_cluster(4, "nvidia,nvidia,amd,amd", NULL, NULL);
    run_cluster(5, "nvidia,amd", NULL, NULL);
}

static void test_two_islands_tcp(void **state)
{
    (void)state;
    run_cluster(2, "nvidia,amd", NULL, "tcp");
    run_cluster(5, "nvidia,amd,amd", NULL, "tcp");
}

static void test_islands_on_hosts(void **state)
{
    (void)state;
    run_cluster(4, NULL, "a,a,b,b", NULL);
    run_cluster(4, "nvidia,amd", "a,a,b,b", NULL);
    run_cluster(6, "nvidia,amd,cpu", "a,a,a,b,b,b", NULL);
    run_cluster(5, NULL, "a,b,c,d,e", "tcp");
}

/* ---- life cycle ---- */

static void split_body(struct rank_context *c)
{
    struct hetccl_comm_options options = {.is_blocking = true};
    struct rank_context child = *c;

    CHECK(c->init_status == HETCCL_OK);
    all_reduce(c, 10, 0);
    CHECK(hetccl_comm_alloc(&options, &child.comm) == HETCCL_OK);
    CHECK(hetccl_comm_split(c->comm, c->rank % 2, -c->rank, child.comm) == HETCCL_OK);
    child.n_ranks = hetccl_comm_n_ranks(child.comm);
    child.rank = hetccl_comm_rank(child.comm);
    CHECK(child.n_ranks == (c->n_ranks + 1 - c->rank % 2) / 2);
    CHECK(child.rank == (c->n_ranks - 1 - c->rank) / 2);
    all_reduce(&child, 1000, 1);
    hetccl_comm_destroy(child.comm);
    /* Some take no part. */
    child.comm = NULL;
    if (c->rank != 0)
        CHECK(hetccl_comm_alloc(&options, &child.comm) == HETCCL_OK);
    CHECK(hetccl_comm_split(c->comm, c->rank != 0 ? 5 : HETCCL_SPLIT_NO_COLOR, 0, child.comm) == HETCCL_OK);
    if (child.comm != NULL) {
        child.n_ranks = c->n_ranks - 1;
        child.rank = c->rank - 1;
        CHECK(hetccl_comm_n_ranks(child.comm) == child.n_ranks && hetccl_comm_rank(child.comm) == child.rank);
        all_reduce(&child, 1000, 1);
        hetccl_comm_destroy(child.comm);
    }
    all_reduce(c, 10, 0);
    CHECK(hetccl_comm_finalize(c->comm) == HETCCL_OK);
    CHECK(hetccl_comm_finalize(c->comm) == HETCCL_ERR_ARG);
}

static void test_split(void **state)
{
    (void)state;
    set_cluster("nvidia,nvidia,amd,amd,amd", NULL, NULL);
    run_ranks(5, split_body, NULL);
    set_cluster(NULL, NULL, NULL);
    assert_int_equal(take_failures(), 0);
}

/*
 * Rank 1 calls for another count than the others. A rank whose init has not returned yet when the others find
 * out gets the same error from it.
 */
static void mismatch_body(struct rank_context *c)
{
    size_t count = c->rank == 1 ? 200 : 100;
    int32_t *send = make_filled(c->rank, 200);
    struct hetccl_call call = {
        .coll = HETCCL_ALLREDUCE, .send = send, .recv = send, .count = count, .type = HETCCL_INT32};
    enum hetccl_status status = c->init_status == HETCCL_OK ? run(c->comm, &call) : c->init_status;
    const char *text = c->init_status == HETCCL_OK ? hetccl_last_error_thread() : c->init_text;

    CHECK(status == HETCCL_ERR_USAGE);
    CHECK(strstr(text, "100") != NULL && strstr(text, "200") != NULL);
    CHECK(hetccl_comm_async_state(c->comm) == HETCCL_ERR_USAGE);
    free(send);
}

static void test_mismatch(void **state)
{
    (void)state;
    for (int tcp = 0; tcp < 2; tcp++) {
        set_cluster("nvidia,nvidia,amd,amd", NULL, tcp ? "tcp" : NULL);
        run_ranks(4, mismatch_body, NULL);
        assert_int_equal(take_failures(), 0);
        set_cluster("nvidia,amd", NULL, tcp ? "tcp" : NULL);
        run_ranks(2, mismatch_body, NULL);
        assert_int_equal(take_failures(), 0);
    }
    set_cluster(NULL, NULL, NULL);
}

/* Rank 0 makes a call that nobody else makes. */
static void extra_call_body(struct rank_context *c)
{
    int32_t number = 1;
    struct hetccl_call call = {
        .coll = HETCCL_ALLREDUCE, .send = &number, .recv = &number, .count = 1, .type = HETCCL_INT32};

    CHECK(run(c->comm, &call) == HETCCL_OK);
    if (c->rank == 0)
        CHECK(run(c->comm, &call) == HETCCL_ERR_USAGE);
    else
        CHECK(hetccl_comm_finalize(c->comm) == HETCCL_ERR_USAGE);
}

static void test_extra_call(void **state)
{
    (void)state;
    set_cluster("nvidia,nvidia,amd,amd", NULL, NULL);
    run_ranks(4, extra_call_body, NULL);
    set_cluster(NULL, NULL, NULL);
    assert_int_equal(take_failures(), 0);
}

/* Rank 1 aborts instead of calling; rank 2 and 0 are told. */
static void abort_body(struct rank_context *c)
{
    int32_t number = 1;
    struct hetccl_call call = {
        .coll = HETCCL_ALLREDUCE, .send = &number, .recv = &number, .count = 1, .type = HETCCL_INT32};

    if (c->rank == 1) {
        usleep(100000);
        hetccl_comm_abort(c->comm);
        c->comm = NULL;
        return;
    }
    CHECK(run(c->comm, &call) == HETCCL_ERR_REMOTE);
    CHECK(strstr(hetccl_last_error_thread(), "rank 1") != NULL);
}

static void test_abort(void **state)
{
    (void)state;
    set_cluster("nvidia,nvidia,amd", NULL, NULL);
    run_ranks(3, abort_body, NULL);
    set_cluster(NULL, NULL, NULL);
    assert_int_equal(take_failures(), 0);
}

/* Rank 2 revokes and leaves; the others shrink without it and go on. */
static void shrink_body(struct rank_context *c)
{
    struct hetccl_comm_options options = {.is_blocking = true};
    struct rank_context child = *c;
    int exclude = 2;

    all_reduce(c, 100, 0);
    if (c->rank == 2)
        return;
    CHECK(hetccl_comm_alloc(&options, &child.comm) == HETCCL_OK);
    CHECK(hetccl_comm_shrink(c->comm, &exclude, 1, true, child.comm) == HETCCL_OK);
    child.n_ranks = hetccl_comm_n_ranks(child.comm);
    child.rank = hetccl_comm_rank(child.comm);
    CHECK(child.n_ranks == 4 && child.rank == (c->rank > 2 ? c->rank - 1 : c->rank));
    all_reduce(&child, 5000, 0);
    hetccl_comm_destroy(child.comm);
}

static void test_shrink(void **state)
{
    (void)state;
    set_cluster("nvidia,nvidia,amd,amd,amd", NULL, NULL);
    run_ranks(5, shrink_body, NULL);
    set_cluster(NULL, NULL, NULL);
    assert_int_equal(take_failures(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_one_island),
        cmocka_unit_test(test_two_islands_shm),
        cmocka_unit_test(test_two_islands_tcp),
        cmocka_unit_test(test_islands_on_hosts),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_extra_call),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_shrink),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
