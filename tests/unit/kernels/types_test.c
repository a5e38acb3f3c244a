/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/kernels.h"
#include "reference.h"

static void test_names(void **state)
{
    for (int type = 0; type < HETCCL_TYPES; type++) {
        assert_int_equal(hetccl_type_find(hetccl_type_name((enum hetccl_type)type)), type);
        assert_int_equal(hetccl_type_bytes((enum hetccl_type)type),
                         reference_type_bits((enum hetccl_type)type) / 8);
    }
    assert_string_equal(hetccl_type_name(HETCCL_FLOAT32), "float32");
    assert_int_equal(hetccl_type_find("half"), HETCCL_FLOAT16);
    assert_int_equal(hetccl_type_find("float"), HETCCL_FLOAT32);
    assert_int_equal(hetccl_type_find("double"), HETCCL_FLOAT64);
    assert_int_equal(hetccl_type_find("bfloat16"), HETCCL_BFLOAT16);
    assert_int_equal(hetccl_type_find("f8e4m3"), HETCCL_FLOAT8_E4M3);
    assert_int_equal(hetccl_type_find("f8e5m2"), HETCCL_FLOAT8_E5M2);
    assert_int_equal(hetccl_type_find("float3"), -1);
    assert_int_equal(hetccl_type_find(""), -1);
}

static void test_out_of_range(void **state)
{
    assert_int_equal(hetccl_type_bytes(HETCCL_TYPES), 0);
    assert_string_equal(hetccl_type_name((enum hetccl_type)99), "unknown type");
    assert_string_equal(hetccl_red_name(HETCCL_REDS), "unknown reduction");
}

static void test_red_names(void **state)
{
    assert_string_equal(hetccl_red_name(HETCCL_SUM), "sum");
    assert_string_equal(hetccl_red_name(HETCCL_PROD), "prod");
    assert_string_equal(hetccl_red_name(HETCCL_MAX), "max");
    assert_string_equal(hetccl_red_name(HETCCL_MIN), "min");
}

static void test_wide_types(void **state)
{
    assert_int_equal(hetccl_average_wide_type(HETCCL_INT8), HETCCL_INT32);
    assert_int_equal(hetccl_average_wide_type(HETCCL_UINT8), HETCCL_INT32);
    assert_int_equal(hetccl_average_wide_type(HETCCL_INT32), HETCCL_INT64);
    assert_int_equal(hetccl_average_wide_type(HETCCL_UINT32), HETCCL_INT64);
    assert_int_equal(hetccl_average_wide_type(HETCCL_INT64), HETCCL_INT64);
    assert_int_equal(hetccl_average_wide_type(HETCCL_UINT64), HETCCL_UINT64);
    assert_int_equal(hetccl_average_wide_factor(HETCCL_INT8), 1);
    assert_int_equal(hetccl_average_wide_factor(HETCCL_UINT32), 1);
    assert_int_equal(hetccl_average_wide_factor(HETCCL_INT64), 2);
    assert_int_equal(hetccl_average_wide_factor(HETCCL_UINT64), 2);
    assert_int_equal(hetccl_average_wide_factor(HETCCL_FLOAT64), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_out_of_range),
        cmocka_unit_test(test_red_names),
        cmocka_unit_test(test_wide_types),
    };

    return cmocka_run_group_tests_name("kernels/types", tests, NULL, NULL);
}
