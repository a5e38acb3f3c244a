/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench.h"
#include "plan/check.h"
#include "plan/print.h"

static void bounds_are_those_of_the_design(void **state)
{
    struct bench b;

    bench_open(&b, "AAABBC", "111222"); /* 3 + 2 + 1 ranks */
    assert_int_equal(hetccl_plan_bound_bytes(&b.topo, HETCCL_ALLREDUCE, 10, 4, 0), 2 * 2 * 40);
    assert_int_equal(hetccl_plan_bound_bytes(&b.topo, HETCCL_ALLGATHER, 10, 4, 0), 2 * 6 * 40);
    assert_int_equal(hetccl_plan_bound_bytes(&b.topo, HETCCL_REDUCE_SCATTER, 10, 4, 0), 2 * 6 * 40);
    assert_int_equal(hetccl_plan_bound_bytes(&b.topo, HETCCL_BROADCAST, 10, 4, 5), 2 * 40);
    assert_int_equal(hetccl_plan_bound_bytes(&b.topo, HETCCL_REDUCE, 10, 4, 5), 2 * 40);
    assert_int_equal(hetccl_plan_bound_bytes(&b.topo, HETCCL_ALLTOALL, 10, 4, 0),
                     2 * (3 * 2 + 3 * 1 + 2 * 1) * 40);
    assert_int_equal(hetccl_plan_bound_bytes(&b.topo, HETCCL_GATHER, 10, 4, 3), 4 * 40);
    assert_int_equal(hetccl_plan_bound_bytes(&b.topo, HETCCL_SCATTER, 10, 4, 5), 5 * 40);
    assert_int_equal(hetccl_plan_bound_bytes(&b.topo, HETCCL_ALLTOALLV, 10, 4, 0), 0);
    bench_close(&b);
    bench_open(&b, "AAA", NULL);
    assert_int_equal(hetccl_plan_bound_bytes(&b.topo, HETCCL_ALLREDUCE, 10, 4, 0), 0);
    bench_close(&b);
}

static void expect_near(double value, double expected)
{
    if (fabs(value - expected) > 0.02 * expected)
        fail_msg("%f is more than 2 %% off %f", value, expected);
}

/* All-reduce: every island sends 2 (p - 1) / p S (p = 2: S), spread evenly over its ranks. */
static void allreduce_spreads_its_bytes(void **state)
{
    static const char *const shapes[] = {"AABB",       "AAAAAAAABBBB", "ABABABA", "AABBCC",
                                         "AAABBCCCCC", "ABCDE",        "AB"};
    const size_t count = 3000017;

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct hetccl_plan_request request = bench_request(HETCCL_ALLREDUCE, count);
        struct bench b;
        double p, share;

        bench_open(&b, shapes[i], NULL);
        bench_plan(&b, &request);
        p = b.topo.n_islands;
        share = p == 2 ? (double)count : 2 * (p - 1) / p * (double)count;
        for (uint32_t island = 0; island < b.topo.n_islands; island++)
            expect_near((double)bench_island_sent(&b, island), share);
        for (uint32_t rank = 0; rank < b.topo.n_ranks; rank++)
            expect_near((double)b.plans[rank]->cross_count,
                        share / b.topo.islands[b.topo.island_of[rank]].n_ranks);
        bench_close(&b);
    }
}

static uint64_t received_across(const struct bench *b, uint32_t rank)
{
    const struct hetccl_plan *plan = b->plans[rank];
    uint64_t received = 0;

    for (uint32_t i = 0; i < plan->n_inputs; i++)
        if (plan->inputs[i].is_message && b->topo.island_of[plan->inputs[i].peer] != b->topo.island_of[rank])
            received += plan->inputs[i].region.count;
    return received;
}

/* All-gather: an island receives (N - n_i) s, each rank its share of that. Reduce-scatter: it sends as much.
 */
static void blocks_spread_over_all_ranks(void **state)
{
    static const char *const shapes[] = {"AABB", "AAAAAABBB", "ABABABA", "AABBCC", "AAABBCCCCC"};
    const size_t count = 100003;

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct hetccl_plan_request gather = bench_request(HETCCL_ALLGATHER, count);
        struct hetccl_plan_request scatter = bench_request(HETCCL_REDUCE_SCATTER, count);
        struct bench b;

        bench_open(&b, shapes[i], NULL);
        bench_plan(&b, &gather);
        for (uint32_t rank = 0; rank < b.topo.n_ranks; rank++) {
            double n = b.topo.islands[b.topo.island_of[rank]].n_ranks;

            expect_near((double)received_across(&b, rank), (b.topo.n_ranks - n) / n * (double)count);
        }
        bench_plan(&b, &scatter);
        for (uint32_t rank = 0; rank < b.topo.n_ranks; rank++) {
            double n = b.topo.islands[b.topo.island_of[rank]].n_ranks;

            expect_near((double)b.plans[rank]->cross_count, (b.topo.n_ranks - n) / n * (double)count);
        }
        bench_close(&b);
    }
}

/* Two domains of two islands each: what crosses between domains is the two-level minimum. */
static void domains_merge_before_the_network(void **state)
{
    struct hetccl_plan_request request = bench_request(HETCCL_ALLREDUCE, 1000000);
    uint64_t between_domains = 0;
    struct bench b;

    bench_open(&b, "AABBCCDD", "11112222");
    bench_plan(&b, &request);
    assert_int_equal(b.topo.n_domains, 2);
    for (uint32_t rank = 0; rank < 8; rank++)
        for (uint32_t i = 0; i < b.plans[rank]->n_steps; i++)
            if (b.plans[rank]->steps[i].kind == HETCCL_STEP_SEND &&
                b.topo.host_of[b.plans[rank]->steps[i].peer] != b.topo.host_of[rank])
                between_domains += b.plans[rank]->steps[i].src.count;
    assert_int_equal(between_domains, 2 * request.count);
    bench_close(&b);
}

/* The root's island sends about one vector, and nobody sends more. */
static void broadcast_and_reduce_share_the_work(void **state)
{
    static const enum hetccl_coll colls[] = {HETCCL_BROADCAST, HETCCL_REDUCE};

    for (size_t c = 0; c < 2; c++) {
        struct hetccl_plan_request request = bench_request(colls[c], 2000003);
        struct bench b;

        bench_open(&b, "AABBBCCDD", NULL);
        request.root = 3;
        bench_plan(&b, &request);
        for (uint32_t island = 0; island < 4; island++)
            assert_true((double)bench_island_sent(&b, island) < 1.02 * (double)request.count);
        if (colls[c] == HETCCL_BROADCAST)
            assert_int_equal(bench_island_sent(&b, 1), request.count);
        else
            assert_int_equal(bench_island_sent(&b, 1), 0);
        bench_close(&b);
    }
}

static void scratch_is_a_few_chunks(void **state)
{
    static const enum hetccl_coll colls[] = {HETCCL_ALLREDUCE, HETCCL_REDUCE_SCATTER, HETCCL_REDUCE};

    for (size_t c = 0; c < 3; c++) {
        bool is_of_blocks = colls[c] == HETCCL_REDUCE_SCATTER;
        struct hetccl_plan_request request = bench_request(colls[c], is_of_blocks ? 16 << 20 : 128 << 20);
        struct bench b;

        bench_open(&b, "AAAABBBB", NULL);
        bench_plan(&b, &request);
        assert_true(b.plans[0]->n_chunks >= 64);
        assert_true(b.plans[0]->scratch_count * 4 <= 8 * request.chunk_bytes);
        bench_close(&b);
    }
}

static void nothing_to_do_is_no_steps(void **state)
{
    struct bench b;

    bench_open(&b, "AABBC", NULL);
    for (int coll = 0; coll < HETCCL_ALLTOALLV; coll++) {
        struct hetccl_plan_request request = bench_request((enum hetccl_coll)coll, 0);

        bench_plan(&b, &request);
        for (uint32_t rank = 0; rank < 5; rank++)
            assert_int_equal(b.plans[rank]->n_steps + b.plans[rank]->scratch_count, 0);
    }
    bench_close(&b);
    bench_open(&b, "A", NULL);
    for (int coll = 0; coll < HETCCL_P2P; coll++) {
        size_t counts[1] = {5}, offsets[1] = {0};
        struct hetccl_plan_request request = bench_request((enum hetccl_coll)coll, 5);

        request.send_counts = request.recv_counts = counts;
        request.send_offsets = request.recv_offsets = offsets;
        bench_plan(&b, &request);
        assert_int_equal(b.plans[0]->n_steps, 1);
        assert_int_equal(b.plans[0]->steps[0].kind, HETCCL_STEP_COPY);
        request.is_in_place = true;
        if (coll != HETCCL_ALLTOALLV) {
            bench_plan(&b, &request);
            assert_int_equal(b.plans[0]->n_steps, 0);
        }
    }
    bench_close(&b);
}

static void one_island_is_one_engine_step(void **state)
{
    struct bench b;

    bench_open(&b, "AAAA", NULL);
    for (int coll = 0; coll < HETCCL_ALLTOALLV; coll++) {
        struct hetccl_plan_request request = bench_request((enum hetccl_coll)coll, 10 << 20);

        request.root = 2;
        bench_plan(&b, &request);
        for (uint32_t rank = 0; rank < 4; rank++) {
            assert_int_equal(b.plans[rank]->n_steps, 1);
            assert_int_equal(b.plans[rank]->steps[0].kind, HETCCL_STEP_ISLAND);
        }
    }
    bench_close(&b);
}

static void expect_refused(struct bench *b, enum hetccl_coll coll, const char *algo, const char *text)
{
    struct hetccl_plan_request request = bench_request(coll, 100);
    struct hetccl_plan *plan = NULL;

    request.algo = algo;
    assert_int_equal(hetccl_plan_build(&b->topo, &request, &plan), HETCCL_ERR_USAGE);
    assert_null(plan);
    assert_non_null(strstr(hetccl_last_error_thread(), algo));
    if (strstr(hetccl_last_error_thread(), text) == NULL)
        fail_msg("'%s' has no '%s'", hetccl_last_error_thread(), text);
}

static void unfit_algorithms_are_refused(void **state)
{
    struct hetccl_plan_request request = bench_request(HETCCL_ALLREDUCE, 100);
    struct hetccl_plan *plan = NULL;
    struct bench b;

    bench_open(&b, "AABB", NULL);
    expect_refused(&b, HETCCL_ALLREDUCE, "ring", "may be: hier, flat, leader");
    expect_refused(&b, HETCCL_REDUCE, "leader", "may be: hier, flat");
    expect_refused(&b, HETCCL_ALLGATHER, "flat", "may be: hier");
    request.root = 4;
    assert_int_equal(hetccl_plan_build(&b.topo, &request, &plan), HETCCL_ERR_ARG);
    assert_non_null(strstr(hetccl_last_error_thread(), "root 4"));
    bench_close(&b);
}

static void small_calls_may_take_short_cuts(void **state)
{
    struct hetccl_plan_request request = bench_request(HETCCL_ALLREDUCE, 2);
    struct bench b;

    bench_open(&b, "AABB", NULL);
    bench_plan(&b, &request);
    assert_string_equal(b.plans[0]->name, "hier"); /* small_bytes is 0 */
    assert_false(b.plans[0]->is_small);
    request.small_bytes = 64;
    bench_plan(&b, &request);
    assert_string_not_equal(b.plans[0]->name, "hier");
    assert_true(b.plans[0]->is_small);
    request.count = 17;
    bench_plan(&b, &request);
    assert_string_equal(b.plans[0]->name, "hier");
    for (const char *const *algo = hetccl_plan_algorithms(HETCCL_ALLREDUCE); *algo != NULL; algo++) {
        request.algo = *algo;
        bench_plan(&b, &request);
        assert_string_equal(b.plans[0]->name, *algo);
        assert_true(b.plans[0]->predicted_us > 0);
    }
    bench_close(&b);
}

static uint64_t hash_of(struct bench *b, const struct hetccl_plan_request *request)
{
    bench_plan(b, request);
    return b->plans[0]->decision_hash;
}

static void decision_hash_covers_the_wire(void **state)
{
    struct hetccl_plan_request request = bench_request(HETCCL_ALLREDUCE, 100), other;
    struct bench b;
    uint64_t hash;

    bench_open(&b, "AABB", NULL);
    hash = hash_of(&b, &request);
    other = request;
    other.is_in_place = true; /* each rank's own affair */
    assert_true(hash_of(&b, &other) == hash);
    for (int change = 0; change < 7; change++) {
        other = request;
        other.count += change == 0;
        other.elem_bytes += change == 1 ? 4 : 0;
        other.root += change == 2;
        other.has_scale = change == 3;
        other.chunk_bytes += change == 4;
        other.algo = change == 5 ? "flat" : "";
        other.coll = change == 6 ? HETCCL_BROADCAST : HETCCL_ALLREDUCE;
        if (hash_of(&b, &other) == hash)
            fail_msg("change %d isn't in the hash", change);
    }
    bench_close(&b);
    bench_open(&b, "ABAB", NULL);
    assert_true(hash_of(&b, &request) != hash);
    bench_close(&b);
}

/* ---- send and receive groups ---- */

static void groups_pair_up_with_oneself(void **state)
{
    const struct hetccl_p2p items[] = {
        {.is_send = true, .peer = 0, .offset = 0, .count = 8},
        {.is_send = false, .peer = 1, .offset = 64, .count = 4},
        {.is_send = false, .peer = 0, .offset = 16, .count = 8},
        {.is_send = true, .peer = 1, .offset = 8, .count = 4},
        {.is_send = true, .peer = 0, .offset = 32, .count = 2},
        {.is_send = false, .peer = 0, .offset = 48, .count = 2},
        {.is_send = true, .peer = 1, .offset = 12, .count = 0},
    };
    struct hetccl_plan *plan = NULL;
    struct bench b;

    bench_open(&b, "AB", NULL);
    assert_int_equal(hetccl_plan_build_p2p(&b.topo, 0, items, 7, &plan), HETCCL_OK);
    assert_int_equal(plan->n_steps, 4);
    assert_int_equal(plan->coll, HETCCL_P2P);
    assert_int_equal(plan->steps[0].kind, HETCCL_STEP_COPY);
    assert_int_equal(plan->steps[0].src.offset, 0);
    assert_int_equal(plan->steps[0].dst.offset, 16);
    assert_int_equal(plan->steps[1].src.offset, 32);
    assert_int_equal(plan->steps[1].dst.offset, 48);
    assert_int_equal(plan->steps[2].kind, HETCCL_STEP_COMBINE);
    assert_int_equal(plan->inputs[plan->steps[2].first_input].peer, 1);
    assert_int_equal(plan->steps[3].kind, HETCCL_STEP_SEND);
    assert_int_equal(plan->n_deps, 0);
    hetccl_plan_destroy(plan);
    plan = NULL;
    assert_int_equal(hetccl_plan_build_p2p(&b.topo, 0, items, 3, &plan), HETCCL_OK);
    hetccl_plan_destroy(plan);
    plan = NULL;
    assert_int_equal(hetccl_plan_build_p2p(&b.topo, 0, items, 5, &plan), HETCCL_ERR_USAGE);
    assert_non_null(strstr(hetccl_last_error_thread(), "sends 2 messages to itself and receives 1"));
    assert_int_equal(hetccl_plan_build_p2p(&b.topo, 1, items + 1, 1, &plan), HETCCL_ERR_USAGE);
    assert_null(plan);
    bench_close(&b);
}

static void group_sizes_must_match(void **state)
{
    const struct hetccl_p2p items[] = {{.is_send = true, .peer = 0, .count = 8},
                                       {.is_send = false, .peer = 0, .offset = 16, .count = 9},
                                       {.is_send = true, .peer = 7, .count = 1}};
    struct hetccl_plan *plan = NULL;
    struct bench b;

    bench_open(&b, "AB", NULL);
    assert_int_equal(hetccl_plan_build_p2p(&b.topo, 0, items, 2, &plan), HETCCL_ERR_USAGE);
    assert_non_null(strstr(hetccl_last_error_thread(), "8 bytes"));
    assert_int_equal(hetccl_plan_build_p2p(&b.topo, 0, items + 2, 1, &plan), HETCCL_ERR_ARG);
    assert_null(plan);
    bench_close(&b);
}

static void plans_are_printed(void **state)
{
    struct hetccl_plan_request request = bench_request(HETCCL_ALLREDUCE, 100);
    char *text = NULL;
    size_t n_bytes;
    FILE *file = open_memstream(&text, &n_bytes);
    struct bench b;

    bench_open(&b, "AAB", NULL);
    bench_plan(&b, &request);
    assert_int_equal(hetccl_plan_print(&b.topo, b.plans[0], 4, file), HETCCL_OK);
    fclose(file);
    assert_non_null(strstr(text, "allreduce hier, rank 0 of 3 (island 0 of 2)"));
    assert_non_null(strstr(text, "reduce-scatter: send to scratch, 2 pieces, 100 elements"));
    assert_non_null(strstr(text, "combine  recv[0..50) = scratch[0..50) + rank 2; after 0"));
    assert_non_null(strstr(text, "rank 2 (island 1): sends 200 bytes in 1, receives 200 bytes in 1"));
    free(text);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_are_those_of_the_design),
        cmocka_unit_test(allreduce_spreads_its_bytes),
        cmocka_unit_test(blocks_spread_over_all_ranks),
        cmocka_unit_test(domains_merge_before_the_network),
        cmocka_unit_test(broadcast_and_reduce_share_the_work),
        cmocka_unit_test(scratch_is_a_few_chunks),
        cmocka_unit_test(nothing_to_do_is_no_steps),
        cmocka_unit_test(one_island_is_one_engine_step),
        cmocka_unit_test(unfit_algorithms_are_refused),
        cmocka_unit_test(small_calls_may_take_short_cuts),
        cmocka_unit_test(decision_hash_covers_the_wire),
        cmocka_unit_test(groups_pair_up_with_oneself),
        cmocka_unit_test(group_sizes_must_match),
        cmocka_unit_test(plans_are_printed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
