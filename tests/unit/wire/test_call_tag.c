/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/call_tag.h"

static const struct hetccl_call_tag sample = {
    .sequence = 0x0102030405060708,
    .count = 0x1112131415161718,
    .coll = 0,
    .type = 7,
    .red = 0,
    .flags = 1,
    .root = 0x21222324,
};

static void test_wire_bytes_are_little_endian(void **state)
{
    static const uint8_t expected[HETCCL_CALL_TAG_WIRE_BYTES] = {
        8,    7,    6,    5,    4, 3, 2, 1, 0x18, 0x17, 0x16, 0x15,
        0x14, 0x13, 0x12, 0x11, 0, 7, 0, 1, 0x24, 0x23, 0x22, 0x21};
    uint8_t wire[HETCCL_CALL_TAG_WIRE_BYTES];
    struct hetccl_call_tag back;

    hetccl_call_tag_encode(&sample, wire);
    assert_memory_equal(wire, expected, sizeof(wire));
    hetccl_call_tag_decode(wire, &back);
    assert_true(hetccl_call_tag_equal(&sample, &back));
}

static void test_every_field_counts_in_equality(void **state)
{
    uint8_t wire[HETCCL_CALL_TAG_WIRE_BYTES];

    for (size_t i = 0; i < sizeof(wire); i++) {
        struct hetccl_call_tag other;

        hetccl_call_tag_encode(&sample, wire);
        wire[i] ^= 0x40;
        hetccl_call_tag_decode(wire, &other);
        assert_false(hetccl_call_tag_equal(&sample, &other));
    }
}

static void check_text(struct hetccl_call_tag tag, const char *expected)
{
    char text[HETCCL_CALL_TAG_TEXT_BYTES];

    hetccl_call_tag_print(&tag, text);
    assert_string_equal(text, expected);
}

static void test_texts(void **state)
{
    check_text(
        (struct hetccl_call_tag){
            .sequence = 7, .count = 1024, .coll = 0, .type = 7, .red = 0, .root = UINT32_MAX},
        "call 7 allreduce count 1024 float32 sum");
    check_text(
        (struct hetccl_call_tag){
            .sequence = 8, .count = 1, .coll = 4, .type = 9, .red = 0, .flags = 1, .root = 3},
        "call 8 reduce count 1 bfloat16 scaled sum root 3");
    check_text((struct hetccl_call_tag){.count = 99, .coll = 9, .type = 1, .red = 255, .root = UINT32_MAX},
               "send/recv count 99 uint8");
    check_text(
        (struct hetccl_call_tag){.sequence = 1, .coll = 200, .type = 201, .red = 202, .root = UINT32_MAX},
        "call 1 coll 200 count 0 type 201 red 202");
}

static void test_text_of_any_bytes_fits(void **state)
{
    uint8_t wire[HETCCL_CALL_TAG_WIRE_BYTES];

    for (unsigned value = 0; value < 256; value++) {
        struct hetccl_call_tag tag;
        char text[HETCCL_CALL_TAG_TEXT_BYTES + 1];

        memset(wire, (int)value, sizeof(wire));
        memset(text, 'x', sizeof(text));
        hetccl_call_tag_decode(wire, &tag);
        hetccl_call_tag_print(&tag, text);
        assert_in_range(strlen(text), 10, HETCCL_CALL_TAG_TEXT_BYTES - 1);
        assert_int_equal(text[HETCCL_CALL_TAG_TEXT_BYTES], 'x');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wire_bytes_are_little_endian),
        cmocka_unit_test(test_every_field_counts_in_equality),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_text_of_any_bytes_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
