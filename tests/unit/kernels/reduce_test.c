/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fenv.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/variants.h"
#include "reference.h"

/* Under the thread sanitizer, which has little to find here and takes 50 times as long, fewer alignments. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
enum { SHIFT_STEP = 13 };
#else
enum { SHIFT_STEP = 1 };
#endif

enum {
    MAX_SRCS = 8,
    SMALL_COUNT = 67,
    ROOM_BYTES = 16 + SMALL_COUNT * 8 + 32,
    LARGE_COUNT = 4096 * 3 + 5,
};

/* A reduction and what it must give. */
struct scenario {
    enum hetccl_type type;
    enum hetccl_red red;
    size_t n_srcs, count;
    unsigned char *srcs[MAX_SRCS];
    struct hetccl_scale scales[MAX_SRCS];
    bool has_scales;
    unsigned char *wanted;
};

static void scenario_init(struct scenario *scenario, size_t count)
{
    memset(scenario, 0, sizeof(*scenario));
    scenario->count = count;
    for (size_t k = 0; k < MAX_SRCS; k++)
        assert_non_null(scenario->srcs[k] = malloc(count * 8));
    assert_non_null(scenario->wanted = malloc(count * 8));
}

static void scenario_fini(struct scenario *scenario)
{
    for (size_t k = 0; k < MAX_SRCS; k++)
        free(scenario->srcs[k]);
    free(scenario->wanted);
}

static void scenario_fill(struct scenario *scenario, uint64_t seed)
{
    for (size_t k = 0; k < scenario->n_srcs; k++) {
        for (size_t i = 0; i < scenario->count; i++)
            element_set(scenario->srcs[k], i, scenario->type, random_element(scenario->type, &seed));
        scenario->scales[k].bits = random_element(scenario->type, &seed);
        if (k % 3 == 1)
            scenario->scales[k] = hetccl_scale_one(scenario->type);
    }
}

static void scenario_solve(struct scenario *scenario)
{
    for (size_t i = 0; i < scenario->count; i++) {
        uint64_t inputs[MAX_SRCS];

        for (size_t k = 0; k < scenario->n_srcs; k++)
            inputs[k] = element_get(scenario->srcs[k], i, scenario->type);
        element_set(scenario->wanted, i, scenario->type,
                    reference_reduce(scenario->type, scenario->red, inputs,
                                     scenario->has_scales ? scenario->scales : NULL, scenario->n_srcs));
    }
}

static void check_equal(const struct scenario *scenario, const unsigned char *got, size_t count,
                        const char *what)
{
    if (memcmp(got, scenario->wanted, count * reference_type_bits(scenario->type) / 8) == 0)
        return;
    for (size_t i = 0; i < count; i++) {
        uint64_t have = element_get(got, i, scenario->type),
                 want = element_get(scenario->wanted, i, scenario->type);

        if (have != want)
            fail_msg("%s: %s %s of %zu inputs, count %zu, element %zu: 0x%llx, not 0x%llx", what,
                     hetccl_type_name(scenario->type), hetccl_red_name(scenario->red), scenario->n_srcs,
                     count, i, (unsigned long long)have, (unsigned long long)want);
    }
}

static void run_reduce(const struct scenario *scenario, void *dst, const void *const *srcs, size_t count)
{
    hetccl_kernel_reduce(dst, srcs, scenario->has_scales ? scenario->scales : NULL, scenario->n_srcs, count,
                         scenario->type, scenario->red);
}

/* Every count at one alignment of dst; sources are each shifted by another amount. Bytes around dst must
 * stay. */
static void check_alignment(const struct scenario *scenario, size_t shift, const char *what)
{
    static unsigned char rooms[MAX_SRCS][ROOM_BYTES], out[ROOM_BYTES], untouched[ROOM_BYTES];
    size_t element_bytes = reference_type_bits(scenario->type) / 8;
    const void *srcs[MAX_SRCS];

    memset(untouched, 0x5a, sizeof(untouched));
    for (size_t k = 0; k < scenario->n_srcs; k++) {
        srcs[k] = rooms[k] + (shift + 5 * k) % 16;
        memcpy(rooms[k] + (shift + 5 * k) % 16, scenario->srcs[k], scenario->count * element_bytes);
    }
    for (size_t count = 0; count <= scenario->count; count++) {
        size_t end = shift + count * element_bytes;

        memset(out, 0x5a, sizeof(out));
        run_reduce(scenario, out + shift, srcs, count);
        check_equal(scenario, out + shift, count, what);
        assert_memory_equal(out, untouched, shift);
        assert_memory_equal(out + end, untouched, sizeof(out) - end);
    }
}

/* The caller's callback for each variant that this machine has. */
static void for_each_variant(const struct scenario *scenario,
                             void (*check)(const struct scenario *, const char *))
{
    for (size_t v = 0; hetccl_kernel_variant_at(v) != NULL; v++) {
        const struct hetccl_kernel_variant *variant = hetccl_kernel_variant_at(v);

        if (!variant->is_supported())
            continue;
        hetccl_kernel_variant_force(variant);
        check(scenario, variant->name);
    }
    hetccl_kernel_variant_force(NULL);
}

static void for_each_reduction(size_t count, void (*check)(const struct scenario *, const char *))
{
    struct scenario scenario;

    scenario_init(&scenario, count);
    for (int type = 0; type < HETCCL_TYPES; type++) {
        for (int red = 0; red <= HETCCL_REDS; red++) {
            scenario.type = (enum hetccl_type)type;
            scenario.has_scales = red == HETCCL_REDS; /* the fifth: a sum of scaled inputs */
            scenario.red = scenario.has_scales ? HETCCL_SUM : (enum hetccl_red)red;
            for (scenario.n_srcs = 1; scenario.n_srcs <= MAX_SRCS; scenario.n_srcs++) {
                scenario_fill(&scenario, (uint64_t)(type * 1000 + red * 100) + scenario.n_srcs);
                scenario_solve(&scenario);
                for_each_variant(&scenario, check);
            }
        }
    }
    scenario_fini(&scenario);
}

static void check_small(const struct scenario *scenario, const char *what)
{
    for (size_t shift = 0; shift < 16; shift += SHIFT_STEP)
        check_alignment(scenario, shift, what);
}

static void test_alignments_and_counts(void **state)
{
    for_each_reduction(SMALL_COUNT, check_small);
}

/* More than one block, ragged end; out of place and in place on each source. */
static void check_large(const struct scenario *scenario, const char *what)
{
    size_t bytes = scenario->count * reference_type_bits(scenario->type) / 8;
    unsigned char *out = malloc(bytes);
    const void *srcs[MAX_SRCS];

    assert_non_null(out);
    for (size_t same = 0; same <= scenario->n_srcs; same++) {
        for (size_t k = 0; k < scenario->n_srcs; k++)
            srcs[k] = scenario->srcs[k];
        if (same < scenario->n_srcs) {
            memcpy(out, srcs[same], bytes);
            srcs[same] = out;
        }
        run_reduce(scenario, out, srcs, scenario->count);
        check_equal(scenario, out, scenario->count, what);
    }
    free(out);
}

static void test_blocks_and_in_place(void **state)
{
    struct scenario scenario;

    scenario_init(&scenario, LARGE_COUNT);
    for (int type = 0; type < HETCCL_TYPES; type++) {
        for (size_t n_srcs = 1; n_srcs <= 3; n_srcs++) {
            scenario.type = (enum hetccl_type)type;
            scenario.n_srcs = n_srcs;
            scenario.red = (enum hetccl_red)((size_t)type * 3 + n_srcs) % HETCCL_REDS;
            scenario.has_scales = scenario.red == HETCCL_SUM && n_srcs != 2;
            scenario_fill(&scenario, (uint64_t)type * 10 + n_srcs);
            scenario_solve(&scenario);
            for_each_variant(&scenario, check_large);
        }
    }
    scenario_fini(&scenario);
}

/* The same pair of pointers twice, and one source given to every place. */
static void test_repeated_source(void **state)
{
    float x[] = {1, -2, 0.5f, 3e38f};
    const void *srcs[] = {x, x, x};

    hetccl_kernel_reduce(x, srcs, NULL, 3, 4, HETCCL_FLOAT32, HETCCL_SUM);
    assert_true(x[0] == 3 && x[1] == -6 && x[2] == 1.5f && x[3] > 3.4e38f);
}

static void test_most_inputs(void **state)
{
    static uint32_t inputs[HETCCL_REDUCE_MAX_INPUTS][100], out[100];
    const void *srcs[HETCCL_REDUCE_MAX_INPUTS];

    for (size_t k = 0; k < HETCCL_REDUCE_MAX_INPUTS; k++) {
        for (uint32_t i = 0; i < 100; i++)
            inputs[k][i] = (uint32_t)k * 1000 + i;
        srcs[k] = inputs[k];
    }
    hetccl_kernel_reduce(out, srcs, NULL, HETCCL_REDUCE_MAX_INPUTS, 100, HETCCL_UINT32, HETCCL_SUM);
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(out[i], 1000 * (63 * 64 / 2) + 64 * i);
}

/* 1e8 + 1 - 1e8: the order shows. */
static void test_order(void **state)
{
    const float big = 1e8f, one = 1, minus = -1e8f;
    const void *first[] = {&big, &one, &minus}, *second[] = {&big, &minus, &one};
    float out;

    hetccl_kernel_reduce(&out, first, NULL, 3, 1, HETCCL_FLOAT32, HETCCL_SUM);
    assert_true(out == 0);
    hetccl_kernel_reduce(&out, second, NULL, 3, 1, HETCCL_FLOAT32, HETCCL_SUM);
    assert_true(out == 1);
}

/* 256 and six ones: added in bf16 one after the other, the ones are lost. */
static void test_low_precision_sum(void **state)
{
    const uint16_t big = 0x4380, one = 0x3f80;
    const void *srcs[] = {&big, &one, &one, &one, &one, &one, &one};
    uint16_t out;

    hetccl_kernel_reduce(&out, srcs, NULL, 7, 1, HETCCL_BFLOAT16, HETCCL_SUM);
    assert_int_equal(out, 0x4383);
}

static void test_lone_source_is_copied(void **state)
{
    const uint32_t src[] = {0x7f800001, 0xffc12345, 0x80000000, 1};
    const void *srcs[] = {src};
    const struct hetccl_scale one = hetccl_scale_one(HETCCL_FLOAT32);
    uint32_t out[4] = {0};

    hetccl_kernel_reduce(out, srcs, NULL, 1, 4, HETCCL_FLOAT32, HETCCL_MAX);
    assert_memory_equal(out, src, sizeof(src));
    hetccl_kernel_reduce(out, srcs, &one, 1, 4, HETCCL_FLOAT32, HETCCL_SUM);
    assert_int_equal(out[0], 0x7fc00000);
    assert_int_equal(out[1], 0x7fc00000);
    assert_int_equal(out[2], 0x80000000);
    assert_int_equal(out[3], 1);
}

static void test_nothing_to_do(void **state)
{
    const void *srcs[] = {NULL, NULL};

    hetccl_kernel_reduce(NULL, srcs, NULL, 2, 0, HETCCL_FLOAT16, HETCCL_SUM);
    hetccl_kernel_reduce(NULL, srcs, NULL, 1, 0, HETCCL_INT64, HETCCL_MIN);
}

/* An application that rounds up, and flushes subnormals, gets the same bits, and its settings back. */
static void test_float_environment(void **state)
{
    const float x[] = {1, 0x1p-140f}, y[] = {0x1p-30f, 0x1p-141f};
    const void *srcs[] = {x, y};
    float out[2];
#if defined(__x86_64__)
    unsigned before = __builtin_ia32_stmxcsr();

    __builtin_ia32_ldmxcsr(before | 0x8040); /* flush results, and take operands for zero */
#endif
    assert_int_equal(fesetround(FE_UPWARD), 0);
    hetccl_kernel_reduce(out, srcs, NULL, 2, 2, HETCCL_FLOAT32, HETCCL_SUM);
    assert_int_equal(fegetround(), FE_UPWARD);
#if defined(__x86_64__)
    assert_int_equal(__builtin_ia32_stmxcsr() & 0x8040, 0x8040);
    __builtin_ia32_ldmxcsr(before);
#endif
    assert_int_equal(fesetround(FE_TONEAREST), 0);
    assert_true(out[0] == 1);
    assert_true(out[1] == 0x1.8p-140f);
}

static void *reduce_once(void *arg)
{
    const float x = 1, y = 2;
    const void *srcs[] = {&x, &y};

    hetccl_kernel_reduce(arg, srcs, NULL, 2, 1, HETCCL_FLOAT32, HETCCL_SUM);
    return NULL;
}

/* Two threads that both find no variant chosen yet. */
static void test_threads(void **state)
{
    pthread_t threads[2];
    float outs[2] = {0};

    hetccl_kernel_variant_force(NULL);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, reduce_once, &outs[i]), 0);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(outs[0] == 3 && outs[1] == 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alignments_and_counts),
        cmocka_unit_test(test_blocks_and_in_place),
        cmocka_unit_test(test_repeated_source),
        cmocka_unit_test(test_most_inputs),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_low_precision_sum),
        cmocka_unit_test(test_lone_source_is_copied),
        cmocka_unit_test(test_nothing_to_do),
        cmocka_unit_test(test_float_environment),
        cmocka_unit_test(test_threads),
    };

    return cmocka_run_group_tests_name("kernels/reduce", tests, NULL, NULL);
}
