/* SPDX-License-Identifier: Apache-2.0 */
/* The checker must notice every kind of damage: right plans are broken one at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bench.h"
#include "plan/check.h"

enum { N_ORDERS = 40 };

static enum hetccl_status check_once(const struct bench *b, enum hetccl_check_mode mode, uint64_t seed)
{
    return hetccl_plan_check(&b->topo, b->requests, (const struct hetccl_plan *const *)b->plans, mode, seed);
}

/* A wrong plan may pass in a lucky order: many are tried. */
static bool is_caught(const struct bench *b)
{
    for (uint64_t seed = 0; seed < N_ORDERS; seed++)
        if (check_once(b, HETCCL_CHECK_LOOSE, seed) != HETCCL_OK ||
            check_once(b, HETCCL_CHECK_STRICT, seed) != HETCCL_OK)
            return true;
    return false;
}

static void open_plans(struct bench *b, enum hetccl_coll coll, bool has_scale)
{
    struct hetccl_plan_request request = bench_request(coll, 24);

    bench_open(b, "AABBBC", "112223");
    request.chunk_bytes = 16;
    request.root = 1;
    request.has_scale = has_scale;
    request.is_in_place = coll == HETCCL_ALLREDUCE;
    bench_plan(b, &request);
    assert_false(is_caught(b));
}

static void expect_text(const struct bench *b, const char *text)
{
    assert_true(is_caught(b));
    if (strstr(hetccl_last_error_thread(), text) == NULL)
        fail_msg("'%s' has no '%s'", hetccl_last_error_thread(), text);
}

static struct hetccl_step *find_step(struct hetccl_plan *plan, enum hetccl_step_kind kind, uint32_t number)
{
    for (uint32_t i = 0; i < plan->n_steps; i++)
        if (plan->steps[i].kind == kind && number-- == 0)
            return &plan->steps[i];
    fail_msg("no such step");
    return NULL;
}

/* Without any one of its deps, some order goes wrong: no dep is needless, and none is overlooked by the
 * checker. */
static void every_dep_is_needed(void **state)
{
    static const enum hetccl_coll colls[] = {HETCCL_ALLREDUCE, HETCCL_REDUCE_SCATTER, HETCCL_BROADCAST,
                                             HETCCL_REDUCE};
    uint32_t n_missed = 0, n_deps = 0;

    for (size_t c = 0; c < sizeof(colls) / sizeof(colls[0]); c++) {
        struct bench b;

        open_plans(&b, colls[c], true);
        for (uint32_t rank = 0; rank < b.topo.n_ranks; rank++) {
            struct hetccl_plan *plan = b.plans[rank];

            for (uint32_t i = 0; i < plan->n_steps; i += 3) {
                struct hetccl_step *step = &plan->steps[i];

                if (step->n_deps == 0)
                    continue;
                step->first_dep++;
                step->n_deps--;
                n_missed += !is_caught(&b);
                n_deps++;
                step->first_dep--;
                step->n_deps++;
            }
        }
        bench_close(&b);
    }
    assert_true(n_deps > 50);
    print_message("%u of %u dropped deps pass\n", n_missed, n_deps);
    /* A lane's or the engine's order already covers some of them. */
    if (n_missed > n_deps / 4)
        fail_msg("%u of %u dropped deps passed unnoticed", n_missed, n_deps);
}

static void wrong_regions_are_caught(void **state)
{
    struct hetccl_step *step;
    struct bench b;

    open_plans(&b, HETCCL_ALLREDUCE, false);
    step = find_step(b.plans[0], HETCCL_STEP_SEND, 0);
    step->src.offset++;
    expect_text(&b, "step");
    step->src.offset--;
    step->src.count--;
    expect_text(&b, "elements");
    step->src.count++;
    step = find_step(b.plans[3], HETCCL_STEP_COMBINE, 0);
    step->dst.offset += 1000;
    expect_text(&b, "leave");
    step->dst.offset -= 1000;
    step->dst.buffer = HETCCL_BUF_SEND;
    step->dst.offset++;
    assert_true(is_caught(&b));
    step->dst.offset--;
    bench_close(&b);
}

static void wrong_messages_are_caught(void **state)
{
    struct hetccl_step *step;
    struct bench b;
    uint32_t peer;

    open_plans(&b, HETCCL_ALLREDUCE, false);
    step = find_step(b.plans[0], HETCCL_STEP_SEND, 0);
    peer = step->peer;
    step->peer = peer == 5 ? 4 : 5;
    assert_true(is_caught(&b));
    step->peer = peer;
    b.plans[0]->n_steps--;
    assert_true(is_caught(&b));
    b.plans[0]->n_steps++;
    b.plans[0]->cross_count++;
    expect_text(&b, "elements across");
    bench_close(&b);
}

static void wrong_island_steps_are_caught(void **state)
{
    struct hetccl_piece *piece;
    struct hetccl_step *step;
    struct bench b;

    open_plans(&b, HETCCL_ALLREDUCE, false);
    step = find_step(b.plans[1], HETCCL_STEP_ISLAND, 1);
    step->op = HETCCL_ISLAND_ALLREDUCE;
    expect_text(&b, "operation");
    step->op = find_step(b.plans[0], HETCCL_STEP_ISLAND, 1)->op;
    piece = &b.plans[1]->pieces[step->first_piece];
    piece->owner ^= 1;
    expect_text(&b, "owner");
    piece->owner ^= 1;
    piece->whole_offset++;
    assert_true(is_caught(&b));
    piece->whole_offset--;
    assert_false(is_caught(&b));
    bench_close(&b);
}

static void wrong_scaling_is_caught(void **state)
{
    struct hetccl_step *step;
    struct bench b;

    open_plans(&b, HETCCL_ALLREDUCE, true);
    step = find_step(b.plans[5], HETCCL_STEP_COPY, 0);
    step->is_raw = false;
    expect_text(&b, "before it is scaled");
    step->is_raw = true;
    b.plans[5]->inputs[find_step(b.plans[5], HETCCL_STEP_COMBINE, 0)->first_input].is_raw ^= true;
    assert_true(is_caught(&b));
    bench_close(&b);
    open_plans(&b, HETCCL_ALLREDUCE, false);
    find_step(b.plans[0], HETCCL_STEP_ISLAND, 0)->is_raw = true;
    expect_text(&b, "without scale");
    bench_close(&b);
}

static void standstill_is_caught(void **state)
{
    struct hetccl_step step;
    struct bench b;

    open_plans(&b, HETCCL_ALLREDUCE, false);
    /* Rank 0 takes its first two island steps the other way round than its island does. */
    step = *find_step(b.plans[0], HETCCL_STEP_ISLAND, 0);
    *find_step(b.plans[0], HETCCL_STEP_ISLAND, 0) = *find_step(b.plans[0], HETCCL_STEP_ISLAND, 2);
    *find_step(b.plans[0], HETCCL_STEP_ISLAND, 2) = step;
    assert_true(is_caught(&b));
    bench_close(&b);
}

/* Two ranks that both want to send before they receive: no room in the channels, no progress. */
static void mutual_sends_need_no_order(void **state)
{
    struct hetccl_step *send, *receive;
    struct bench b;
    uint32_t dep;

    bench_open(&b, "AB", NULL);
    bench_plan(&b,
               &(struct hetccl_plan_request){
                   .coll = HETCCL_ALLREDUCE, .count = 8, .elem_bytes = 4, .chunk_bytes = 4096, .algo = ""});
    assert_int_equal(check_once(&b, HETCCL_CHECK_STRICT, 1), HETCCL_OK);
    for (uint32_t rank = 0; rank < 2; rank++) {
        send = find_step(b.plans[rank], HETCCL_STEP_SEND, 0);
        receive = find_step(b.plans[rank], HETCCL_STEP_COMBINE, 0);
        if (b.plans[rank]->deps == NULL)
            b.plans[rank]->deps = test_malloc(sizeof(uint32_t));
        dep = (uint32_t)(send - b.plans[rank]->steps);
        assert_true(send < receive);
        receive->first_dep = 0;
        receive->n_deps = 1;
        b.plans[rank]->deps[0] = dep;
    }
    assert_int_equal(check_once(&b, HETCCL_CHECK_LOOSE, 1), HETCCL_OK);
    assert_int_equal(check_once(&b, HETCCL_CHECK_STRICT, 1), HETCCL_ERR_INTERNAL);
    assert_non_null(strstr(hetccl_last_error_thread(), "standstill"));
    for (uint32_t rank = 0; rank < 2; rank++) {
        test_free(b.plans[rank]->deps);
        b.plans[rank]->deps = NULL;
    }
    bench_close(&b);
}

/* Copy, send, receive become receive, copy, send; on rank 0 the send waits for the copy, on rank 1 for the
 * receive. Fine where steps overtake each other, but not where the copy comes after the receive. */
static void circle_of_local_steps_is_caught(void **state)
{
    struct bench b;

    bench_open(&b, "AB", NULL);
    bench_plan(&b,
               &(struct hetccl_plan_request){
                   .coll = HETCCL_ALLTOALL, .count = 8, .elem_bytes = 4, .chunk_bytes = 4096, .algo = ""});
    assert_int_equal(check_once(&b, HETCCL_CHECK_SEQUENTIAL, 1), HETCCL_OK);
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct hetccl_plan *plan = b.plans[rank];
        struct hetccl_step steps[] = {*find_step(plan, HETCCL_STEP_COMBINE, 0),
                                      *find_step(plan, HETCCL_STEP_COPY, 0),
                                      *find_step(plan, HETCCL_STEP_SEND, 0)};

        assert_int_equal(plan->n_steps, 3);
        assert_int_equal(plan->n_deps, 0);
        steps[2].first_dep = 0;
        steps[2].n_deps = 1;
        memcpy(plan->steps, steps, sizeof(steps));
        plan->deps = test_malloc(sizeof(uint32_t));
        plan->deps[0] = rank == 0 ? 1 : 0;
    }
    assert_int_equal(check_once(&b, HETCCL_CHECK_LOOSE, 1), HETCCL_OK);
    assert_int_equal(check_once(&b, HETCCL_CHECK_SEQUENTIAL, 1), HETCCL_ERR_INTERNAL);
    assert_non_null(strstr(hetccl_last_error_thread(), "standstill"));
    for (uint32_t rank = 0; rank < 2; rank++) {
        test_free(b.plans[rank]->deps);
        b.plans[rank]->deps = NULL;
    }
    bench_close(&b);
}

static void wrong_times_are_caught(void **state)
{
    struct hetccl_step *step;
    struct bench b;

    open_plans(&b, HETCCL_ALLREDUCE, false);
    step = find_step(b.plans[0], HETCCL_STEP_SEND, 0);
    step->time.round++;
    expect_text(&b, "at time");
    step->time.round--;
    step = &b.plans[0]->steps[b.plans[0]->n_steps - 1];
    assert_true(step->n_deps > 0);
    step->time.round = 0;
    expect_text(&b, "waits for step");
    bench_close(&b);
}

static void disagreement_is_caught(void **state)
{
    struct bench b;

    open_plans(&b, HETCCL_BROADCAST, false);
    b.plans[2]->decision_hash++;
    expect_text(&b, "decided");
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dep_is_needed),
        cmocka_unit_test(wrong_regions_are_caught),
        cmocka_unit_test(wrong_messages_are_caught),
        cmocka_unit_test(wrong_island_steps_are_caught),
        cmocka_unit_test(wrong_scaling_is_caught),
        cmocka_unit_test(standstill_is_caught),
        cmocka_unit_test(mutual_sends_need_no_order),
        cmocka_unit_test(disagreement_is_caught),
        cmocka_unit_test(circle_of_local_steps_is_caught),
        cmocka_unit_test(wrong_times_are_caught),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
