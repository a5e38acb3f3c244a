/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "kernels/variants.h"
#include "reference.h"

/* Two inputs, all four reductions, through the public function; every variant against the reference. */

enum { MAX_PAIRS = 1 << 18 };

static unsigned char left[MAX_PAIRS * 2], right[MAX_PAIRS * 2], result[MAX_PAIRS * 2], wanted[MAX_PAIRS * 2];

static void check_result(enum hetccl_type type, enum hetccl_red red, size_t count, const char *variant)
{
    if (memcmp(result, wanted, count * reference_type_bits(type) / 8) == 0)
        return;
    for (size_t i = 0; i < count; i++) {
        uint64_t got = element_get(result, i, type), want = element_get(wanted, i, type);

        if (got != want)
            fail_msg("%s %s %s of 0x%llx and 0x%llx is 0x%llx, not 0x%llx", variant, hetccl_type_name(type),
                     hetccl_red_name(red), (unsigned long long)element_get(left, i, type),
                     (unsigned long long)element_get(right, i, type), (unsigned long long)got,
                     (unsigned long long)want);
    }
}

static void check_pairs(enum hetccl_type type, enum hetccl_red red, size_t count)
{
    const void *srcs[] = {left, right};

    for (size_t i = 0; i < count; i++) {
        const uint64_t inputs[] = {element_get(left, i, type), element_get(right, i, type)};

        element_set(wanted, i, type, reference_reduce(type, red, inputs, NULL, 2));
    }
    for (size_t v = 0; hetccl_kernel_variant_at(v) != NULL; v++) {
        const struct hetccl_kernel_variant *variant = hetccl_kernel_variant_at(v);

        if (!variant->is_supported())
            continue;
        hetccl_kernel_variant_force(variant);
        memset(result, 0xa5, sizeof(result));
        hetccl_kernel_reduce(result, srcs, NULL, 2, count, type, red);
        check_result(type, red, count, variant->name);
    }
    hetccl_kernel_variant_force(NULL);
}

static void check_fp8(enum hetccl_type type)
{
    for (size_t i = 0; i < 65536; i++) {
        left[i] = (unsigned char)(i >> 8);
        right[i] = (unsigned char)i;
    }
    for (int red = 0; red < HETCCL_REDS; red++)
        check_pairs(type, (enum hetccl_red)red, 65536);
}

static void test_all_fp8_pairs(void **state)
{
    check_fp8(HETCCL_FLOAT8_E4M3);
    check_fp8(HETCCL_FLOAT8_E5M2);
    check_fp8(HETCCL_FLOAT8_E4M3_FNUZ);
    check_fp8(HETCCL_FLOAT8_E5M2_FNUZ);
}

static void test_all_int8_pairs(void **state)
{
    check_fp8(HETCCL_INT8);
    check_fp8(HETCCL_UINT8);
}

/* Random pairs; half of them with exponents near each other, so that sums round and cancel. */
static void check_sampled(enum hetccl_type type)
{
    uint64_t seed = 7;

    for (size_t i = 0; i < MAX_PAIRS; i++) {
        uint64_t a = random_element(type, &seed), b = random_element(type, &seed);

        element_set(left, i, type, a);
        element_set(right, i, type, i % 2 == 0 ? b : a ^ (b & 0x83ff));
    }
    for (int red = 0; red < HETCCL_REDS; red++)
        check_pairs(type, (enum hetccl_red)red, MAX_PAIRS);
}

static void test_sampled_f16_pairs(void **state)
{
    check_sampled(HETCCL_FLOAT16);
}

static void test_sampled_bf16_pairs(void **state)
{
    check_sampled(HETCCL_BFLOAT16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_fp8_pairs),
        cmocka_unit_test(test_all_int8_pairs),
        cmocka_unit_test(test_sampled_f16_pairs),
        cmocka_unit_test(test_sampled_bf16_pairs),
    };

    return cmocka_run_group_tests_name("kernels/pairs", tests, NULL, NULL);
}
