/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "kernels/narrow.h"
#include "kernels/variants.h"
#include "reference.h"

/* Encoding as the library does it: f32 in, through a scale of one, is not to be had; so the element
 * functions. */
static uint64_t encode(enum hetccl_type type, float value)
{
    uint32_t bits = f32_to_bits(value);

    switch (type) {
    case HETCCL_FLOAT16:
        return narrow_encode(bits, format_f16);
    case HETCCL_BFLOAT16:
        return bf16_encode(bits);
    case HETCCL_FLOAT8_E4M3:
        return narrow_encode(bits, format_e4m3);
    case HETCCL_FLOAT8_E5M2:
        return narrow_encode(bits, format_e5m2);
    case HETCCL_FLOAT8_E4M3_FNUZ:
        return narrow_encode(bits, format_e4m3_fnuz);
    default:
        return narrow_encode(bits, format_e5m2_fnuz);
    }
}

static float decode(enum hetccl_type type, uint64_t bits)
{
    return f32_of_bits(hetccl_scale_to_f32((struct hetccl_scale){bits}, type));
}

static void check_encode(enum hetccl_type type, float value)
{
    uint64_t want = reference_encode(type, value), got = encode(type, value);

    if (got != want)
        fail_msg("%s: %a became 0x%llx, not 0x%llx", hetccl_type_name(type), (double)value,
                 (unsigned long long)got, (unsigned long long)want);
}

struct known_value {
    enum hetccl_type type;
    uint64_t bits;
    double value;
};

/* From the formats' specifications. */
static const struct known_value known_values[] = {
    {HETCCL_FLOAT16, 0x0001, 0x1p-24},     {HETCCL_FLOAT16, 0x0400, 0x1p-14},
    {HETCCL_FLOAT16, 0x3c00, 1},           {HETCCL_FLOAT16, 0xc000, -2},
    {HETCCL_FLOAT16, 0x7bff, 65504},       {HETCCL_FLOAT16, 0xfc00, -INFINITY},
    {HETCCL_BFLOAT16, 0x0001, 0x1p-133},   {HETCCL_BFLOAT16, 0x3f80, 1},
    {HETCCL_BFLOAT16, 0x7f7f, 0x1.fep127}, {HETCCL_BFLOAT16, 0x7f80, INFINITY},
    {HETCCL_FLOAT8_E4M3, 0x01, 0x1p-9},    {HETCCL_FLOAT8_E4M3, 0x08, 0x1p-6},
    {HETCCL_FLOAT8_E4M3, 0x38, 1},         {HETCCL_FLOAT8_E4M3, 0x7e, 448},
    {HETCCL_FLOAT8_E4M3, 0xfe, -448},      {HETCCL_FLOAT8_E5M2, 0x01, 0x1p-16},
    {HETCCL_FLOAT8_E5M2, 0x3c, 1},         {HETCCL_FLOAT8_E5M2, 0x7b, 57344},
    {HETCCL_FLOAT8_E5M2, 0xfc, -INFINITY}, {HETCCL_FLOAT8_E4M3_FNUZ, 0x01, 0x1p-10},
    {HETCCL_FLOAT8_E4M3_FNUZ, 0x40, 1},    {HETCCL_FLOAT8_E4M3_FNUZ, 0x7f, 240},
    {HETCCL_FLOAT8_E4M3_FNUZ, 0xff, -240}, {HETCCL_FLOAT8_E5M2_FNUZ, 0x01, 0x1p-17},
    {HETCCL_FLOAT8_E5M2_FNUZ, 0x40, 1},    {HETCCL_FLOAT8_E5M2_FNUZ, 0x7f, 57344},
};

static void test_known_values(void **state)
{
    for (size_t i = 0; i < sizeof(known_values) / sizeof(known_values[0]); i++) {
        const struct known_value *known = &known_values[i];

        assert_true(reference_decode(known->type, known->bits) == known->value);
        assert_true((double)decode(known->type, known->bits) == known->value);
        assert_int_equal(encode(known->type, (float)known->value), known->bits);
    }
}

static void test_decode_all(void **state)
{
    for (size_t t = 0; t < N_NARROW_TYPES; t++) {
        enum hetccl_type type = narrow_types[t];

        for (uint64_t bits = 0; bits < 1ull << reference_type_bits(type); bits++) {
            double want = reference_decode(type, bits);
            double got = decode(type, bits);

            if (isnan(want) ? !isnan(got) : got != want || !signbit(got) != !signbit(want))
                fail_msg("%s: 0x%llx is %a, not %a", hetccl_type_name(type), (unsigned long long)bits, got,
                         want);
            assert_int_equal(encode(type, (float)got), isnan(want) ? reference_canonical_nan(type) : bits);
        }
    }
}

/* Every number, the middles between neighbours (exact in f32), and the floats next to those, of both signs.
 */
static void test_encode_boundaries(void **state)
{
    for (size_t t = 0; t < N_NARROW_TYPES; t++) {
        enum hetccl_type type = narrow_types[t];
        uint64_t half = 1ull << (reference_type_bits(type) - 1);

        for (uint64_t magnitude = 0; magnitude + 1 < half; magnitude++) {
            float low = (float)reference_decode(type, magnitude);
            float middle = low / 2 + (float)reference_decode(type, magnitude + 1) / 2;
            float around[] = {low, middle, nextafterf(middle, 0), nextafterf(middle, INFINITY),
                              nextafterf(low, INFINITY)};

            for (size_t i = 0; i < sizeof(around) / sizeof(around[0]); i++) {
                check_encode(type, around[i]);
                check_encode(type, -around[i]);
            }
        }
    }
}

static void test_encode_overflow(void **state)
{
    static const float beyond[] = {65519.996f, 65520,   65536,   448,  463.99f,   464,
                                   464.01f,    480,     247.99f, 248,  61439.99f, 61440,
                                   1e6f,       3.4e38f, 1e38f,   1e3f, INFINITY,  3.3961776e38f};

    for (size_t t = 0; t < N_NARROW_TYPES; t++) {
        for (size_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++) {
            check_encode(narrow_types[t], beyond[i]);
            check_encode(narrow_types[t], -beyond[i]);
        }
    }
    assert_int_equal(encode(HETCCL_FLOAT8_E4M3, INFINITY), 0x7e);
    assert_int_equal(encode(HETCCL_FLOAT8_E4M3, -1e6f), 0xfe);
    assert_int_equal(encode(HETCCL_FLOAT8_E5M2, 61440), 0x7c);
    assert_int_equal(encode(HETCCL_FLOAT8_E4M3_FNUZ, 1e6f), 0x7f);
    assert_int_equal(encode(HETCCL_FLOAT8_E5M2_FNUZ, -INFINITY), 0xff);
    assert_int_equal(encode(HETCCL_FLOAT16, 65520), 0x7c00);
}

static void test_encode_sampled(void **state)
{
    uint64_t seed = 1;

    for (size_t i = 0; i < 100000; i++) {
        for (size_t t = 0; t < N_NARROW_TYPES; t++) {
            uint64_t bits = random_bits(&seed);

            check_encode(narrow_types[t], f32_of_bits((uint32_t)bits));
            /* With an exponent in the types' range. */
            check_encode(narrow_types[t], ldexpf(1 + (float)(bits >> 40) * 0x1p-24f, (int)(bits % 48) - 28));
        }
    }
}

static void test_encode_nan(void **state)
{
    static const uint32_t nans[] = {0x7fc00000, 0xffc00000, 0x7f800001, 0xff800001,
                                    0x7fffffff, 0xffffffff, 0x7fbfffff};

    for (size_t t = 0; t < N_NARROW_TYPES; t++) {
        for (size_t i = 0; i < sizeof(nans) / sizeof(nans[0]); i++)
            assert_int_equal(encode(narrow_types[t], f32_of_bits(nans[i])),
                             reference_canonical_nan(narrow_types[t]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),      cmocka_unit_test(test_decode_all),
        cmocka_unit_test(test_encode_boundaries), cmocka_unit_test(test_encode_overflow),
        cmocka_unit_test(test_encode_sampled),    cmocka_unit_test(test_encode_nan),
    };

    return cmocka_run_group_tests_name("kernels/convert", tests, NULL, NULL);
}
