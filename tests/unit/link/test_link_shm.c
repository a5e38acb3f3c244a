/* SPDX-License-Identifier: Apache-2.0 */
/* What only shm links have: layouts that must agree, memory that may be damaged, slots in place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "link/shm/internal.h"
#include "pair.h"

enum { KIND = 1 /* of pair_kinds: 16 slots of 4 KiB */ };

struct duo {
    struct pair pair;
    struct side sides[2];
};

static void duo_init(struct duo *duo)
{
    pair_init(&duo->pair, &pair_kinds[KIND]);
    assert_true(side_open(&duo->sides[0], &duo->pair, 0));
    assert_true(side_open(&duo->sides[1], &duo->pair, 1));
}

static void duo_fini(struct duo *duo)
{
    side_close(&duo->sides[0]);
    side_close(&duo->sides[1]);
    pair_fini(&duo->pair);
}

static enum hetccl_status progress(struct side *side)
{
    return side->link->ops->progress(side->link);
}

static void test_size_of_the_segment(void **state)
{
    size_t one = hetccl_link_shm_bytes(4096, 1), two = hetccl_link_shm_bytes(4096, 2);

    assert_true(two - one >= 2 * 4096);
    assert_int_equal(hetccl_link_shm_bytes(4096, 3) - two, two - one);
    assert_int_equal(hetccl_link_shm_bytes(SIZE_MAX, 2), 0);
    assert_int_equal(hetccl_link_shm_bytes(4096, SIZE_MAX / 4096), 0);
}

static void test_wrong_arguments(void **state)
{
    struct hetccl_doorbell doorbell = {0};
    struct hetccl_link_shm_args good, args;
    struct hetccl_link *link = NULL;
    size_t bytes = hetccl_link_shm_bytes(4096, 2);
    unsigned char *memory = aligned_alloc(4096, 32768);

    assert_non_null(memory);
    memset(memory, 0, 32768);
    assert_in_range(bytes, 1, 32768);
    good = (struct hetccl_link_shm_args){
        .segment = memory, .segment_bytes = bytes, .slot_bytes = 4096, .peer_doorbell = &doorbell};
    args = good;
    args.segment_bytes = bytes - 1;
    assert_int_equal(hetccl_link_shm_create(&args, &link), HETCCL_ERR_ARG);
    args = good;
    args.segment = memory + 8;
    assert_int_equal(hetccl_link_shm_create(&args, &link), HETCCL_ERR_ARG);
    args = good;
    args.slot_bytes = 4095;
    assert_int_equal(hetccl_link_shm_create(&args, &link), HETCCL_ERR_ARG);
    args = good;
    args.peer_doorbell = NULL;
    assert_int_equal(hetccl_link_shm_create(&args, &link), HETCCL_ERR_ARG);
    assert_null(link);
    assert_int_equal(hetccl_link_shm_create(&good, &link), HETCCL_OK);
    link->ops->close(link);
    free(memory);
}

/* Peers that cut the same memory differently are told so, not fed garbage. */
static void test_layouts_must_agree(void **state)
{
    static const struct pair_kind other = {"shm, other slots", 0, 8192, 8};
    struct hetccl_link_request recv = {.memory = NULL, .bytes_total = 100};
    struct duo duo;

    pair_init(&duo.pair, &pair_kinds[KIND]);
    assert_true(side_open(&duo.sides[0], &duo.pair, 0));
    duo.pair.kind = &other;
    assert_true(side_open(&duo.sides[1], &duo.pair, 1));
    assert_int_equal(duo.sides[1].link->ops->post_recv(duo.sides[1].link, &recv), HETCCL_OK);
    assert_int_equal(progress(&duo.sides[1]), HETCCL_ERR_USAGE);
    assert_non_null(strstr(hetccl_last_error_thread(), "slots of 8192 bytes"));
    assert_non_null(strstr(hetccl_last_error_thread(), "of 4096"));
    assert_non_null(strstr(hetccl_last_error_thread(), "HETCCL_SLOT_BYTES"));
    duo_fini(&duo);
}

static void test_damaged_magic(void **state)
{
    struct hetccl_link_request recv = {.memory = NULL, .bytes_total = 100};
    struct duo duo;

    duo_init(&duo);
    atomic_store(&hetccl_shm_of(duo.sides[0].link)->own->magic, 0x12345678);
    assert_int_equal(duo.sides[1].link->ops->post_recv(duo.sides[1].link, &recv), HETCCL_OK);
    assert_int_equal(progress(&duo.sides[1]), HETCCL_ERR_USAGE);
    assert_non_null(strstr(hetccl_last_error_thread(), "12345678"));
    duo_fini(&duo);
}

static void check_damaged_fragment(unsigned fragment_bytes, size_t bytes_total)
{
    unsigned char sent[3000] = {0}, received[3000 + 64];
    struct hetccl_link_request send = {.memory = sent, .bytes_total = bytes_total};
    struct hetccl_link_request recv = {.memory = received, .bytes_total = bytes_total};
    struct duo duo;

    duo_init(&duo);
    memset(received, 0xee, sizeof(received));
    assert_int_equal(duo.sides[0].link->ops->post_send(duo.sides[0].link, &send), HETCCL_OK);
    atomic_store(&((struct hetccl_shm_slot *)hetccl_shm_of(duo.sides[1].link)->in.slots)->fragment_bytes,
                 fragment_bytes);
    assert_int_equal(duo.sides[1].link->ops->post_recv(duo.sides[1].link, &recv), HETCCL_OK);
    assert_int_equal(progress(&duo.sides[1]), HETCCL_ERR_INTERNAL);
    assert_non_null(strstr(hetccl_last_error_thread(), "damaged: fragment bytes"));
    for (size_t i = 0; i < sizeof(received); i++)
        assert_int_equal(received[i], 0xee);
    duo_fini(&duo);
}

/* Lengths in the memory are checked before they are used. */
static void test_damaged_fragments(void **state)
{
    check_damaged_fragment(0, 3000);
    check_damaged_fragment(3001, 3000);
    check_damaged_fragment(4097, 3000);
    check_damaged_fragment(UINT32_MAX, 3000);
    check_damaged_fragment(17, 3000);
    check_damaged_fragment(1, 0);
}

static void check_damaged_credit(uint64_t n_freed)
{
    static unsigned char sent[20 * 4096];
    struct hetccl_link_request send = {.memory = sent, .bytes_total = sizeof(sent)};
    struct duo duo;

    duo_init(&duo);
    atomic_store(&hetccl_shm_of(duo.sides[1].link)->own->n_freed, n_freed);
    assert_int_equal(duo.sides[0].link->ops->post_send(duo.sides[0].link, &send), HETCCL_ERR_INTERNAL);
    assert_non_null(strstr(hetccl_last_error_thread(), "damaged: slots freed"));
    duo_fini(&duo);
}

static void test_damaged_credit(void **state)
{
    check_damaged_credit(17);
    check_damaged_credit(UINT64_MAX);
}

/* peek shows the slot's own memory, aligned, and each slot at most once. */
static void test_peek_shows_slots(void **state)
{
    unsigned char sent[3 * 4096 + 5];
    struct hetccl_link_request send = {.memory = sent, .bytes_total = sizeof(sent)};
    struct hetccl_link_request recv = {.memory = NULL, .bytes_total = sizeof(sent)};
    struct duo duo;

    duo_init(&duo);
    pattern_fill(sent, sizeof(sent), 0, 3);
    assert_int_equal(duo.sides[0].link->ops->post_send(duo.sides[0].link, &send), HETCCL_OK);
    assert_int_equal(duo.sides[1].link->ops->post_recv(duo.sides[1].link, &recv), HETCCL_OK);
    for (size_t i = 0; i < 4; i++) {
        const unsigned char *memory = duo.pair.segment.memory;
        const void *shown = NULL;
        size_t bytes = 0;

        assert_int_equal(duo.sides[1].link->ops->peek(duo.sides[1].link, &recv, &shown, &bytes), HETCCL_OK);
        assert_int_equal(bytes, i < 3 ? 4096 : 5);
        assert_true(pattern_holds(shown, bytes, i * 4096, 3));
        assert_true((const unsigned char *)shown > memory &&
                    (const unsigned char *)shown < memory + duo.pair.segment.bytes);
        assert_true(i == 3 || (uintptr_t)shown % 64 == 0);
        duo.sides[1].link->ops->consume(duo.sides[1].link, &recv, bytes);
    }
    assert_int_equal(recv.state, HETCCL_REQUEST_DONE);
    assert_int_equal(duo.sides[1].link->counters.copies_bytes, 0);
    assert_int_equal(duo.sides[0].link->counters.copies_bytes, sizeof(sent));
    assert_int_equal(duo.sides[0].link->counters.system_calls, 0);
    duo_fini(&duo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_size_of_the_segment), cmocka_unit_test(test_wrong_arguments),
        cmocka_unit_test(test_layouts_must_agree),  cmocka_unit_test(test_damaged_magic),
        cmocka_unit_test(test_damaged_fragments),   cmocka_unit_test(test_damaged_credit),
        cmocka_unit_test(test_peek_shows_slots),
    };

    pattern_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
