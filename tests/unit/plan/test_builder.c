/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"
#include "bench.h"
#include "plan/builder.h"

static struct hetccl_region send(size_t offset, size_t count)
{
    return hetccl_region_of(HETCCL_BUF_SEND, offset, count);
}

static struct hetccl_region recv(size_t offset, size_t count)
{
    return hetccl_region_of(HETCCL_BUF_RECV, offset, count);
}

static struct hetccl_region scratch(size_t offset, size_t count)
{
    return hetccl_region_of(HETCCL_BUF_SCRATCH, offset, count);
}

static struct hetccl_plan *finish(struct hetccl_builder *b)
{
    struct hetccl_plan *plan = NULL;

    assert_int_equal(hetccl_builder_finish(b, &plan), HETCCL_OK);
    hetccl_builder_fini(b);
    return plan;
}

static bool has_dep(const struct hetccl_plan *plan, uint32_t step, uint32_t dep)
{
    for (uint32_t i = 0; i < plan->steps[step].n_deps; i++)
        if (plan->deps[plan->steps[step].first_dep + i] == dep)
            return true;
    return false;
}

static void conflicts_become_deps(void **state)
{
    struct hetccl_builder b;
    struct hetccl_plan *plan;
    struct bench bench;

    bench_open(&bench, "AB", NULL);
    assert_int_equal(hetccl_builder_init(&b, &bench.topo, 0, NULL), HETCCL_OK);
    hetccl_builder_copy(&b, scratch(0, 10), send(0, 10), false); /* 0 */
    hetccl_builder_send(&b, 1, scratch(2, 4));                   /* 1 reads what 0 wrote */
    hetccl_builder_send(&b, 1, send(0, 10));                     /* 2 nothing wrote SEND */
    hetccl_builder_receive(&b, scratch(5, 5), 1);  /* 3 overwrites what 1 read; 0 is implied there */
    hetccl_builder_send(&b, 1, recv(0, 10));       /* 4 nothing yet */
    hetccl_builder_receive(&b, recv(9, 5), 1);     /* 5 overwrites what 4 read */
    hetccl_builder_send(&b, 1, scratch(0, 2));     /* 6 after 0 */
    hetccl_builder_receive(&b, scratch(0, 20), 1); /* 7 after 1, 3, 6 */
    plan = finish(&b);
    assert_int_equal(plan->n_steps, 8);
    assert_int_equal(plan->steps[0].n_deps, 0);
    assert_true(plan->steps[1].n_deps == 1 && has_dep(plan, 1, 0));
    assert_int_equal(plan->steps[2].n_deps, 0);
    assert_true(plan->steps[3].n_deps == 1 && has_dep(plan, 3, 1));
    assert_int_equal(plan->steps[4].n_deps, 0);
    assert_true(plan->steps[5].n_deps == 1 && has_dep(plan, 5, 4));
    assert_true(plan->steps[6].n_deps == 1 && has_dep(plan, 6, 0));
    assert_true(plan->steps[7].n_deps == 2 && has_dep(plan, 7, 3) && has_dep(plan, 7, 6)); /* 1 is before 3 */
    assert_int_equal(plan->cross_count, 4 + 10 + 10 + 2);
    hetccl_plan_destroy(plan);
    bench_close(&bench);
}

/* In place, what rank 1 sends lies at its block of RECV (all-gather), or RECV at its block of SEND
 * (reduce-scatter). */
static void in_place_buffers_alias(void **state)
{
    static const struct {
        enum hetccl_coll coll;
        size_t send_offset, recv_offset;
    } cases[] = {
        {HETCCL_ALLREDUCE, 3, 3},        {HETCCL_ALLGATHER, 3, 103}, {HETCCL_GATHER, 3, 103},
        {HETCCL_REDUCE_SCATTER, 103, 3}, {HETCCL_SCATTER, 103, 3},   {HETCCL_BROADCAST, 3, 3},
    };
    struct hetccl_plan_request request;
    struct hetccl_builder b;
    struct hetccl_plan *plan;
    struct bench bench;

    bench_open(&bench, "AB", NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int in_place = 0; in_place <= 1; in_place++) {
            request = bench_request(cases[i].coll, 100);
            request.rank = 1;
            request.is_in_place = in_place;
            assert_int_equal(hetccl_builder_init(&b, &bench.topo, 1, &request), HETCCL_OK);
            hetccl_builder_send(&b, 0, send(cases[i].send_offset, 1));
            hetccl_builder_receive(&b, recv(cases[i].recv_offset, 1), 0);
            hetccl_builder_receive(&b, recv(cases[i].recv_offset + 1, 1), 0);
            plan = finish(&b);
            assert_int_equal(plan->steps[1].n_deps, in_place);
            assert_int_equal(plan->steps[2].n_deps, 0);
            hetccl_plan_destroy(plan);
        }
    }
    bench_close(&bench);
}

static void empty_steps_are_left_out(void **state)
{
    struct hetccl_island_step step = {.op = HETCCL_ISLAND_ALLGATHER};
    struct hetccl_builder b;
    struct hetccl_plan *plan;
    struct bench bench;

    bench_open(&bench, "AAB", NULL);
    assert_int_equal(hetccl_builder_init(&b, &bench.topo, 0, NULL), HETCCL_OK);
    hetccl_builder_copy(&b, recv(0, 0), send(0, 0), false);
    hetccl_builder_send(&b, 2, send(0, 0));
    hetccl_builder_receive(&b, recv(0, 0), 2);
    hetccl_builder_island_begin(&b, &step);
    hetccl_builder_piece(&b, (struct hetccl_piece){.owner = 1});
    hetccl_builder_island_end(&b);
    plan = finish(&b);
    assert_int_equal(plan->n_steps + plan->n_pieces + plan->n_inputs, 0);
    hetccl_plan_destroy(plan);
    bench_close(&bench);
}

/* More inputs than a step takes: a chain in which each input comes once, what lies in dst first. */
static void long_combines_become_chains(void **state)
{
    struct hetccl_input inputs[150];
    uint32_t n_messages = 0, n_locals = 0;
    struct hetccl_builder b;
    struct hetccl_plan *plan;
    struct bench bench;

    bench_open(&bench, "AB", NULL);
    assert_int_equal(hetccl_builder_init(&b, &bench.topo, 0, NULL), HETCCL_OK);
    for (uint32_t i = 0; i < 150; i++)
        inputs[i] = i == 130 ? hetccl_input_local(recv(0, 8), true) : hetccl_input_message(i, 8);
    hetccl_builder_combine(&b, recv(0, 8), inputs, 150);
    plan = finish(&b);
    assert_int_equal(plan->n_steps, 3);
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct hetccl_step *step = &plan->steps[i];
        const struct hetccl_input *first = &plan->inputs[step->first_input];

        assert_true(step->n_inputs <= 64);
        assert_false(first->is_message);
        assert_int_equal(first->is_raw, i == 0);
        assert_true(i == 0 || (step->n_deps == 1 && has_dep(plan, i, i - 1)));
        for (uint32_t k = 0; k < step->n_inputs; k++) {
            n_messages += first[k].is_message;
            n_locals += !first[k].is_message;
        }
    }
    assert_int_equal(n_messages, 149);
    assert_int_equal(n_locals, 3);
    hetccl_plan_destroy(plan);
    bench_close(&bench);
}

/* ---- random programs against the definition ---- */

enum { N_STEPS = 300 };

static bool do_overlap(struct hetccl_region a, struct hetccl_region b)
{
    return a.buffer == b.buffer && a.offset < b.offset + b.count && b.offset < a.offset + a.count;
}

static bool do_conflict(const struct hetccl_step *a, const struct hetccl_step *b)
{
    return do_overlap(a->src, b->dst) || do_overlap(a->dst, b->src) || do_overlap(a->dst, b->dst);
}

static struct hetccl_region random_region(uint32_t n_elements)
{
    size_t offset = (size_t)rand() % n_elements;

    return hetccl_region_of((enum hetccl_buffer)(rand() % HETCCL_BUFS), offset,
                            1 + (size_t)rand() % (n_elements - offset < 40 ? n_elements - offset : 40));
}

/* Every conflict is ordered by a path of deps, and every dep is a conflict. */
static void check_program(const struct hetccl_plan *plan)
{
    static bool is_before[N_STEPS][N_STEPS];

    memset(is_before, 0, sizeof(is_before));
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        for (uint32_t k = 0; k < plan->steps[i].n_deps; k++) {
            uint32_t dep = plan->deps[plan->steps[i].first_dep + k];

            assert_true(dep < i);
            assert_true(do_conflict(&plan->steps[dep], &plan->steps[i]));
            is_before[i][dep] = true;
            for (uint32_t j = 0; j < dep; j++)
                is_before[i][j] |= is_before[dep][j];
        }
        for (uint32_t j = 0; j < i; j++)
            if (do_conflict(&plan->steps[j], &plan->steps[i]) && !is_before[i][j])
                fail_msg("step %u doesn't wait for step %u", i, j);
    }
}

static void deps_cover_all_conflicts_and_no_more(void **state)
{
    static const uint32_t spaces[] = {50, 400, 5000};
    struct bench bench;

    bench_open(&bench, "AB", NULL);
    for (unsigned seed = 0; seed < 30; seed++) {
        struct hetccl_builder b;
        struct hetccl_plan *plan;

        srand(seed);
        assert_int_equal(hetccl_builder_init(&b, &bench.topo, 0, NULL), HETCCL_OK);
        for (int i = 0; i < N_STEPS; i++) {
            struct hetccl_region src = random_region(spaces[seed % 3]), dst = random_region(spaces[seed % 3]);

            dst.count = src.count;
            hetccl_builder_copy(&b, dst, src, false);
        }
        plan = finish(&b);
        assert_int_equal(plan->n_steps, N_STEPS);
        check_program(plan);
        hetccl_plan_destroy(plan);
    }
    bench_close(&bench);
}

static void no_memory_is_an_error(void **state)
{
    struct hetccl_plan_request request = bench_request(HETCCL_REDUCE_SCATTER, 1000);
    struct hetccl_plan *plan = NULL;
    unsigned n_failures = 0;
    struct bench bench;

    bench_open(&bench, "AABBC", "11112");
    request.has_scale = true;
    request.chunk_bytes = 256;
    for (unsigned n = 1;; n++) {
        enum hetccl_status status;

        hetccl_fault_arm(HETCCL_FAULT_ALLOC, n);
        status = hetccl_plan_build(&bench.topo, &request, &plan);
        hetccl_fault_arm(HETCCL_FAULT_ALLOC, 0);
        if (status == HETCCL_OK)
            break;
        assert_int_equal(status, HETCCL_ERR_SYSTEM);
        assert_null(plan);
        n_failures++;
    }
    assert_true(n_failures > 20);
    hetccl_plan_destroy(plan);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conflicts_become_deps),
        cmocka_unit_test(in_place_buffers_alias),
        cmocka_unit_test(empty_steps_are_left_out),
        cmocka_unit_test(long_combines_become_chains),
        cmocka_unit_test(deps_cover_all_conflicts_and_no_more),
        cmocka_unit_test(no_memory_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
