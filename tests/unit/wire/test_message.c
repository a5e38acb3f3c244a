/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/message.h"

static const struct hetccl_message_header sample = {
    .tag = {.sequence = 1, .count = 2, .coll = 3, .type = 4, .red = 5, .flags = 6, .root = 7},
    .bytes_total = 0x0102030405060708,
};

static void test_wire_bytes(void **state)
{
    static const uint8_t expected[HETCCL_MESSAGE_HEADER_BYTES] = {
        'H', 'C', 'M', '1', 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0,
        0,   0,   0,   0,   3, 4, 5, 6, 7, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1};
    uint8_t wire[HETCCL_MESSAGE_HEADER_BYTES];
    struct hetccl_message_header back;

    hetccl_message_header_encode(&sample, wire);
    assert_memory_equal(wire, expected, sizeof(wire));
    assert_true(hetccl_message_header_decode(wire, &back));
    assert_true(hetccl_call_tag_equal(&back.tag, &sample.tag));
    assert_int_equal(back.bytes_total, sample.bytes_total);
}

static void test_other_bytes_are_refused(void **state)
{
    struct hetccl_message_header back = {.bytes_total = 99};
    uint8_t wire[HETCCL_MESSAGE_HEADER_BYTES];

    for (size_t i = 0; i < 8; i++) {
        hetccl_message_header_encode(&sample, wire);
        wire[i] ^= 0x20;
        assert_false(hetccl_message_header_decode(wire, &back));
        assert_int_equal(back.bytes_total, 99);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wire_bytes),
        cmocka_unit_test(test_other_bytes_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
