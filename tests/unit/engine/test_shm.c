/* SPDX-License-Identifier: Apache-2.0 */
/* Values: every kind of operation, many shapes, as threads and as processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/time.h"
#include "cases.h"

/* The thread sanitizer looks at every access of every rank: fewer ranks and smaller counts show it the same
 * races. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
enum { LARGEST_COUNT = 4097, MOST_THREADS = 4, MANY_RANKS = 9, HAS_STREAMED = 0 };
#else
enum { LARGEST_COUNT = 30011, MOST_THREADS = 8, MANY_RANKS = 130, HAS_STREAMED = 1 };
#endif

enum {
    ALL_KINDS = HETCCL_ENGINE_ALLTOALL + 1,
    TINY_SLOT = 4096,
    MIDDLE_SLOT = 64 << 10,
    STREAMED = (4 << 20) + 12345,
    TWO_PHASES = 9001, /* two bytes each: too many for every rank to reduce all */
};

static bool can_cut(enum hetccl_engine_op_kind kind, enum case_cut cut)
{
    if (kind == HETCCL_ENGINE_ALLREDUCE || kind == HETCCL_ENGINE_ALLTOALL)
        return cut == CUT_EVEN;
    return true;
}

/* All kinds and cuts, in and out of place, for one count and type. */
static int sweep_shapes(struct island_rank *self, size_t count, enum hetccl_type type, uint64_t *sequence)
{
    for (int kind = 0; kind < ALL_KINDS; kind++)
        for (int variant = 0; variant < 8; variant++) {
            struct case_spec spec = {.kind = kind,
                                     .type = type,
                                     .count = count,
                                     .cut = variant / 2,
                                     .is_in_place = variant % 2 != 0,
                                     .is_raw = (*sequence & 1) != 0,
                                     .root = (uint32_t)(*sequence % self->n_ranks),
                                     .is_skewed = (*sequence % 5) == 0,
                                     .sequence = *sequence + 1};

            if (!can_cut(spec.kind, spec.cut))
                continue;
            ++*sequence;
            if (case_run(self, &spec) != 0)
                return 1;
        }
    return 0;
}

static int body_shapes(struct island_rank *self)
{
    static const size_t counts[] = {0, 1, 2, 3, 5, 64, 1000, 4097, 30011};
    uint64_t sequence = 0;

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        if (counts[i] <= LARGEST_COUNT && sweep_shapes(self, counts[i], HETCCL_FLOAT32, &sequence) != 0)
            return 1;
    return sweep_shapes(self, 4097, HETCCL_FLOAT64, &sequence) ||
           sweep_shapes(self, 4097, HETCCL_UINT8, &sequence);
}

static int body_types(struct island_rank *self)
{
    uint64_t sequence = 0;

    for (int type = 0; type < HETCCL_TYPES; type++)
        for (int red = 0; red < HETCCL_REDS; red++)
            for (int kind = 0; kind < 2; kind++) {
                struct case_spec spec = {
                    .kind = kind, .type = type, .red = red, .count = 7001, .sequence = ++sequence};

                if (red == HETCCL_SUM && case_run(self, &spec) != 0)
                    return 1;
                spec.is_raw = red == HETCCL_SUM && type < HETCCL_FLOAT8_E4M3;
                spec.count = 5;
                if (case_run(self, &spec) != 0)
                    return 1;
            }
    return 0;
}

static int body_large(struct island_rank *self)
{
    uint64_t sequence = 0;

    for (int kind = 0; kind < ALL_KINDS; kind++) {
        struct case_spec spec = {.kind = kind, .type = HETCCL_FLOAT32, .count = 100003, .is_raw = true};

        for (int variant = 0; variant < 4; variant++) {
            spec.is_in_place = variant % 2 != 0;
            spec.cut = variant < 2 || !can_cut(kind, CUT_SEVERAL) ? CUT_EVEN : CUT_SEVERAL;
            spec.sequence = ++sequence;
            if (case_run(self, &spec) != 0)
                return 1;
        }
    }
    return 0;
}

/* Large enough to be written around the caches, to places of any alignment. */
static int body_streaming(struct island_rank *self)
{
    uint64_t sequence = 0;

    for (int kind = 0; kind < ALL_KINDS; kind++)
        for (int is_in_place = 0; is_in_place < 2; is_in_place++) {
            struct case_spec spec = {.kind = kind,
                                     .type = HETCCL_UINT8,
                                     .count = kind == HETCCL_ENGINE_ALLREDUCE ? STREAMED
                                                                              : STREAMED / self->n_ranks,
                                     .is_in_place = is_in_place != 0,
                                     .sequence = ++sequence};

            if (case_run(self, &spec) != 0)
                return 1;
        }
    return 0;
}

/* Small and large by turns, so that both rings of slots are used at every phase of the tick count. */
static int body_alternating(struct island_rank *self)
{
    uint64_t shared = 42;

    for (uint64_t i = 1; i <= 250; i++) {
        struct case_spec spec = {.type = HETCCL_INT32, .sequence = i, .is_skewed = true};

        spec.kind = island_random(&shared, ALL_KINDS);
        spec.count =
            island_random(&shared, 4) == 0 ? island_random(&shared, 20000) : island_random(&shared, 40);
        spec.root = island_random(&shared, self->n_ranks);
        spec.cut = can_cut(spec.kind, CUT_UNEVEN) ? island_random(&shared, 4) : CUT_EVEN;
        spec.is_in_place = island_random(&shared, 2) != 0;
        if (case_run(self, &spec) != 0)
            return 1;
    }
    return 0;
}

static void run(uint32_t n_ranks, size_t slot_bytes, bool has_processes, island_body body)
{
    struct island_spec spec = {.n_ranks = n_ranks,
                               .slot_bytes = slot_bytes,
                               .n_spins = 200,
                               .has_processes = has_processes,
                               .body = body};

    assert_int_equal(island_run(&spec), 0);
}

static void test_shapes_as_threads(void **state)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 5, 8};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        if (sizes[i] <= MOST_THREADS)
            run(sizes[i], TINY_SLOT, false, body_shapes);
}

static void test_shapes_as_processes(void **state)
{
    run(2, MIDDLE_SLOT, true, body_shapes);
    run(5, MIDDLE_SLOT, true, body_shapes);
}

static void test_types(void **state)
{
    run(2, TINY_SLOT, false, body_types);
    run(5, TINY_SLOT, false, body_types);
    run(3, MIDDLE_SLOT, true, body_types);
}

static void test_larger_than_slots(void **state)
{
    run(2, TINY_SLOT, false, body_large);
    run(3, MIDDLE_SLOT, true, body_large);
    run(4, MIDDLE_SLOT, false, body_large);
}

static void test_larger_than_caches(void **state)
{
    run(2, MIDDLE_SLOT, true, body_streaming);
    if (HAS_STREAMED)
        run(3, MIDDLE_SLOT, false, body_streaming);
}

static void test_small_and_large_alternating(void **state)
{
    run(2, TINY_SLOT, true, body_alternating);
    run(4, TINY_SLOT, false, body_alternating);
}

/* More ranks than a kernel takes inputs: chains; in place must survive them. */
static int body_many(struct island_rank *self)
{
    uint64_t sequence = 0;

    for (int kind = 0; kind < 3; kind++)
        for (int variant = self->n_ranks > 100 ? 2 : 0; variant < 4; variant++) {
            struct case_spec spec = {.kind = kind,
                                     .type = HETCCL_BFLOAT16,
                                     .count = variant < 2                       ? 3
                                              : kind == HETCCL_ENGINE_ALLREDUCE ? TWO_PHASES
                                                                                : 200,
                                     .is_in_place = variant % 2 != 0,
                                     .is_raw = variant % 2 == 0,
                                     .sequence = ++sequence};

            if (case_run(self, &spec) != 0)
                return 1;
        }
    return 0;
}

static void test_many_ranks(void **state)
{
    run(MANY_RANKS / 2, TINY_SLOT, false, body_many);
    run(MANY_RANKS, TINY_SLOT, false, body_many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes_as_threads),
        cmocka_unit_test(test_shapes_as_processes),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_larger_than_slots),
        cmocka_unit_test(test_larger_than_caches),
        cmocka_unit_test(test_small_and_large_alternating),
        cmocka_unit_test(test_many_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
