/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "kernels/kernels.h"
#include "reference.h"

enum { COUNT = 61, MAX_PERIOD = 9 };

static __int128 as_integer(enum hetccl_type type, uint64_t bits)
{
    switch (type) {
    case HETCCL_INT8:
        return (int8_t)bits;
    case HETCCL_INT32:
        return (int32_t)bits;
    case HETCCL_INT64:
        return (int64_t)bits;
    default:
        return bits;
    }
}

/* sum += times * wide, in additions of the library. */
static void add_times(void *sum, const void *wide, size_t times, enum hetccl_type type)
{
    static unsigned char power[COUNT * 16 + 1];
    size_t count = COUNT * hetccl_average_wide_factor(type);
    const void *into_sum[] = {sum, power + 1}, *doubled[] = {power + 1, power + 1};

    memcpy(power + 1, wide, COUNT * 16);
    for (; times > 0; times /= 2) {
        if (times % 2 == 1)
            hetccl_kernel_reduce(sum, into_sum, NULL, 2, count, hetccl_average_wide_type(type), HETCCL_SUM);
        hetccl_kernel_reduce(power + 1, doubled, NULL, 2, count, hetccl_average_wide_type(type), HETCCL_SUM);
    }
}

/* n ranks whose inputs repeat with a period of `period` different ones. Arrays start at odd addresses. */
static void check_average(enum hetccl_type type, size_t n_ranks, size_t period, uint64_t seed)
{
    static unsigned char src[COUNT * 8 + 1], wide[COUNT * 16 + 1], sum[COUNT * 16 + 1], out[COUNT * 8 + 1];
    __int128 exact[COUNT] = {0};

    memset(sum, 0, sizeof(sum));
    for (size_t p = 0; p < period; p++) {
        size_t times = (n_ranks + period - 1 - p) / period;

        for (size_t i = 0; i < COUNT; i++) {
            element_set(src + 1, i, type, random_element(type, &seed));
            exact[i] += as_integer(type, element_get(src + 1, i, type)) * (__int128)times;
        }
        hetccl_kernel_average_widen(wide + 1, src + 1, COUNT, type, n_ranks);
        add_times(sum + 1, wide + 1, times, type);
    }
    hetccl_kernel_average_narrow(out + 1, sum + 1, COUNT, type, n_ranks);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(as_integer(type, element_get(out + 1, i, type)) == exact[i] / (__int128)n_ranks);
}

static void test_averages(void **state)
{
    static const size_t ranks[] = {1, 2, 3, 5, 7, 8, 9, 64, 100, 127, 1000, 4095};

    for (int type = HETCCL_INT8; type <= HETCCL_UINT64; type++) {
        for (size_t r = 0; r < sizeof(ranks) / sizeof(ranks[0]); r++) {
            for (uint64_t seed = 0; seed < 8; seed++)
                check_average((enum hetccl_type)type, ranks[r], ranks[r] < MAX_PERIOD ? ranks[r] : MAX_PERIOD,
                              seed);
        }
    }
}

static void test_most_ranks(void **state)
{
    for (int type = HETCCL_INT8; type <= HETCCL_UINT64; type++) {
        check_average((enum hetccl_type)type, HETCCL_AVERAGE_MAX_RANKS, 2, 11);
        check_average((enum hetccl_type)type, HETCCL_AVERAGE_MAX_RANKS - 1, 5, 12);
    }
}

/* All ranks at a limit of the type: the widest sums there are. */
static void check_limit(enum hetccl_type type, uint64_t bits, size_t n_ranks)
{
    int64_t wide[2];
    uint64_t out = 0;
    enum hetccl_type wide_type = hetccl_average_wide_type(type);

    hetccl_kernel_average_widen(wide, &bits, 1, type, n_ranks);
    for (size_t i = 0; i < hetccl_average_wide_factor(type); i++) {
        __int128 total = as_integer(wide_type, element_get(wide, i, wide_type)) * (__int128)n_ranks;

        assert_true(total == as_integer(wide_type, (uint64_t)total)); /* it fits */
        element_set(wide, i, wide_type, (uint64_t)total);
    }
    hetccl_kernel_average_narrow(&out, wide, 1, type, n_ranks);
    assert_true(element_get(&out, 0, type) == element_get(&bits, 0, type));
}

static void test_limits(void **state)
{
    static const size_t ranks[] = {1, 2, 3, 1000, HETCCL_AVERAGE_MAX_RANKS};

    for (size_t r = 0; r < sizeof(ranks) / sizeof(ranks[0]); r++) {
        check_limit(HETCCL_INT8, 0x80, ranks[r]);
        check_limit(HETCCL_UINT8, 0xff, ranks[r]);
        check_limit(HETCCL_INT32, 0x80000000, ranks[r]);
        check_limit(HETCCL_INT32, 0x7fffffff, ranks[r]);
        check_limit(HETCCL_UINT32, 0xffffffff, ranks[r]);
        check_limit(HETCCL_INT64, 0x8000000000000000, ranks[r]);
        check_limit(HETCCL_INT64, 0x7fffffffffffffff, ranks[r]);
        check_limit(HETCCL_UINT64, 0xffffffffffffffff, ranks[r]);
    }
}

static void test_truncation(void **state)
{
    const int64_t inputs[][2] = {{-1, 0}, {-3, 0}, {3, 0}, {5, -2}, {-5, 2}, {INT64_MIN, INT64_MAX}, {7, -8}};
    const int64_t means[] = {0, -1, 1, 1, -1, 0, 0};

    for (size_t i = 0; i < sizeof(means) / sizeof(means[0]); i++) {
        int64_t wides[2][2], mean;
        const void *srcs[] = {wides[0], wides[1]};

        for (size_t rank = 0; rank < 2; rank++)
            hetccl_kernel_average_widen(wides[rank], &inputs[i][rank], 1, HETCCL_INT64, 2);
        hetccl_kernel_reduce(wides[0], srcs, NULL, 2, 2, HETCCL_INT64, HETCCL_SUM);
        hetccl_kernel_average_narrow(&mean, wides[0], 1, HETCCL_INT64, 2);
        assert_true(mean == means[i]);
    }
}

static void test_scales(void **state)
{
    assert_int_equal(hetccl_scale_of_average(HETCCL_FLOAT16, 3).bits, 0x3555);
    assert_int_equal(hetccl_scale_of_average(HETCCL_BFLOAT16, 3).bits, 0x3eab);
    assert_int_equal(hetccl_scale_of_average(HETCCL_FLOAT32, 3).bits, 0x3eaaaaab);
    assert_true(hetccl_scale_of_average(HETCCL_FLOAT64, 3).bits == 0x3fd5555555555555);
    assert_int_equal(hetccl_scale_of_average(HETCCL_FLOAT8_E4M3, 4).bits, 0x28);
    assert_int_equal(hetccl_scale_of_average(HETCCL_FLOAT8_E5M2, 4).bits, 0x34);
    assert_int_equal(hetccl_scale_of_average(HETCCL_FLOAT8_E4M3_FNUZ, 4).bits, 0x30);
    assert_int_equal(hetccl_scale_of_average(HETCCL_FLOAT8_E5M2_FNUZ, 4).bits, 0x38);
    for (int type = 0; type < HETCCL_TYPES; type++) {
        uint64_t one = hetccl_scale_one((enum hetccl_type)type).bits;

        if (reference_is_float((enum hetccl_type)type))
            assert_true(reference_decode((enum hetccl_type)type, one) == 1);
        else
            assert_int_equal(one, 1);
    }
}

/* The mean of equal numbers, and of numbers whose plain sum would overflow f16. */
static void test_float_average(void **state)
{
    const uint16_t x[] = {0x7bff, 0x4200}; /* 65504, 3 */
    const void *srcs[] = {x, x, x, x};
    struct hetccl_scale quarter = hetccl_scale_of_average(HETCCL_FLOAT16, 4);
    const struct hetccl_scale scales[] = {quarter, quarter, quarter, quarter};
    uint16_t out[2];

    hetccl_kernel_reduce(out, srcs, scales, 4, 2, HETCCL_FLOAT16, HETCCL_SUM);
    assert_memory_equal(out, x, sizeof(x));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_averages), cmocka_unit_test(test_most_ranks),
        cmocka_unit_test(test_limits),   cmocka_unit_test(test_truncation),
        cmocka_unit_test(test_scales),   cmocka_unit_test(test_float_average),
    };

    return cmocka_run_group_tests_name("kernels/average", tests, NULL, NULL);
}
