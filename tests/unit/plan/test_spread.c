/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench.h"
#include "plan/spread.h"

static void cuts_are_balanced_and_complete(void **state)
{
    static const size_t granules[] = {1, 16, 64};

    for (size_t g = 0; g < 3; g++) {
        for (size_t n = 1; n <= 9; n++) {
            for (size_t length = 0; length < 3000; length += 1 + length / 7) {
                struct hetccl_space space = {.start = 5, .end = 5 + length, .granule = granules[g]};
                size_t at = 5, least = SIZE_MAX, most = 0;

                for (size_t i = 0; i < n; i++) {
                    struct hetccl_span span = hetccl_cut_span(&space, n, i);

                    assert_int_equal(span.start, at);
                    assert_true(span.end >= at);
                    least = span.end - at < least ? span.end - at : least;
                    most = span.end - at > most ? span.end - at : most;
                    at = span.end;
                }
                assert_int_equal(at, 5 + length);
                assert_true(most - least <= (most > 16 * granules[g] ? 2 * granules[g] : 1));
            }
        }
    }
}

static void large_shares_start_at_lines(void **state)
{
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(hetccl_cut(0, 1000003, 7, i, 16) % 16, 0);
    assert_int_equal(hetccl_cut(0, 1000003, 7, 7, 16), 1000003);
    assert_int_equal(hetccl_cut(0, 10, 2, 1, 16), 5); /* too small to align */
}

static void cuts_do_not_wrap(void **state)
{
    size_t end = SIZE_MAX / 2;

    assert_int_equal(hetccl_cut(0, end, 4096, 4096, 8), end);
    assert_true(hetccl_cut(0, end, 4096, 4095, 8) > hetccl_cut(0, end, 4096, 4094, 8));
}

static void spans_meet(void **state)
{
    struct hetccl_span meet = hetccl_span_meet((struct hetccl_span){2, 8}, (struct hetccl_span){5, 9});

    assert_int_equal(meet.start, 5);
    assert_int_equal(meet.end, 8);
    meet = hetccl_span_meet((struct hetccl_span){2, 3}, (struct hetccl_span){5, 9});
    assert_int_equal(meet.start, meet.end);
}

enum { N_ELEMENTS = 60, BLOCK = 15 };

/* One window: its intervals are adjacent, inside one block, and held as `holders` says (which a full window
 * fills). */
static void sweep_window(struct hetccl_sweep *sweep, const struct hetccl_space *space,
                         struct hetccl_span window, uint32_t *holders)
{
    bool is_full = window.end - window.start == N_ELEMENTS;
    size_t at = window.start;

    hetccl_sweep_begin(sweep, window, space->block);
    hetccl_sweep_add_domain(sweep, 0, space);
    hetccl_sweep_add_island(sweep, 3, space);
    while (hetccl_sweep_next(sweep)) {
        assert_int_equal(sweep->start, at);
        assert_int_equal(sweep->start / BLOCK, (sweep->end - 1) / BLOCK);
        for (; at < sweep->end; at++) {
            holders[at] = is_full ? sweep->holders[0] : holders[at];
            assert_int_equal(holders[at], sweep->holders[0]);
            assert_int_equal(sweep->holders[1], at < 30 ? 6 : 7);
        }
    }
    assert_int_equal(at, window.end);
}

/* Whoever holds element i must not depend on the window that is looked at. */
static void holders_do_not_depend_on_the_window(void **state)
{
    struct hetccl_space space = {.start = 0, .end = N_ELEMENTS, .granule = 1, .block = BLOCK};
    struct hetccl_sweep sweep, inner;
    uint32_t holders[N_ELEMENTS];
    struct bench b;

    bench_open(&b, "AABBBCDD", "11111122");
    hetccl_sweep_init(&inner, &b.topo, NULL);
    hetccl_sweep_init(&sweep, &b.topo, &inner);
    for (size_t length = N_ELEMENTS; length >= 1; length--)
        for (size_t start = 0; start + length <= N_ELEMENTS; start++)
            sweep_window(&sweep, &space, (struct hetccl_span){start, start + length}, holders);
    hetccl_sweep_fini(&sweep);
    hetccl_sweep_fini(&inner);
    bench_close(&b);
}

/* Every island of a domain holds its fair part, and only ranks whose own share covers an element hold it. */
static void domains_share_evenly(void **state)
{
    struct hetccl_space space = {.start = 0, .end = 6000, .granule = 1};
    struct hetccl_sweep sweep, inner;
    size_t by_rank[6] = {0};
    struct bench b;

    bench_open(&b, "AABBBC", "111111");
    hetccl_sweep_init(&inner, &b.topo, NULL);
    hetccl_sweep_init(&sweep, &b.topo, &inner);
    hetccl_sweep_begin(&sweep, (struct hetccl_span){0, 6000}, 0);
    hetccl_sweep_add_domain(&sweep, 0, &space);
    for (uint32_t i = 0; i < 3; i++)
        hetccl_sweep_add_island(&sweep, i, &space);
    while (hetccl_sweep_next(&sweep)) {
        uint32_t rank = sweep.holders[0];

        assert_int_equal(sweep.holders[1 + b.topo.island_of[rank]], rank);
        by_rank[rank] += sweep.end - sweep.start;
    }
    for (uint32_t rank = 0; rank < 6; rank++) {
        double fair = 2000.0 / b.topo.islands[b.topo.island_of[rank]].n_ranks;

        assert_true((double)by_rank[rank] > fair - 4 && (double)by_rank[rank] < fair + 4);
    }
    hetccl_sweep_fini(&sweep);
    hetccl_sweep_fini(&inner);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_are_balanced_and_complete),
        cmocka_unit_test(large_shares_start_at_lines),
        cmocka_unit_test(cuts_do_not_wrap),
        cmocka_unit_test(spans_meet),
        cmocka_unit_test(holders_do_not_depend_on_the_window),
        cmocka_unit_test(domains_share_evenly),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
