/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/device/entries.h"
#include "kernels/device/sync.h"
#include "reference.h"

/* The sources of the GPU kernels, compiled for the host and run thread after thread, against the host's
 * kernels. */

_Thread_local struct hetccl_grid_position hetccl_grid_position;

/* One thread after the other can't meet: what needs that is run by the fake driver only. */
void hetccl_block_barrier(void)
{
    fail_msg("a barrier");
}

void hetccl_kernel_yield(void)
{
    fail_msg("a wait");
}

uint32_t hetccl_block_broadcast(uint32_t value)
{
    fail_msg("a broadcast");
    return value;
}

typedef void reduce_kernel(struct hetccl_reduce_args args);

static reduce_kernel *const reduce_kernels[HETCCL_TYPES] = {
    [HETCCL_INT8] = hetccl_reduce_int8,
    [HETCCL_UINT8] = hetccl_reduce_uint8,
    [HETCCL_INT32] = hetccl_reduce_int32,
    [HETCCL_UINT32] = hetccl_reduce_uint32,
    [HETCCL_INT64] = hetccl_reduce_int64,
    [HETCCL_UINT64] = hetccl_reduce_uint64,
    [HETCCL_FLOAT16] = hetccl_reduce_float16,
    [HETCCL_FLOAT32] = hetccl_reduce_float32,
    [HETCCL_FLOAT64] = hetccl_reduce_float64,
    [HETCCL_BFLOAT16] = hetccl_reduce_bfloat16,
    [HETCCL_FLOAT8_E4M3] = hetccl_reduce_float8_e4m3,
    [HETCCL_FLOAT8_E5M2] = hetccl_reduce_float8_e5m2,
    [HETCCL_FLOAT8_E4M3_FNUZ] = hetccl_reduce_float8_e4m3_fnuz,
    [HETCCL_FLOAT8_E5M2_FNUZ] = hetccl_reduce_float8_e5m2_fnuz,
};

enum {
    MAX_SRCS = 8,
    MAX_COUNT = 3 * 4096 + 777, /* tiles are of 4,096 elements, or 2,048 */
    EDGE = 64,
    ROOM_BYTES = MAX_COUNT * 8 + 2 * EDGE,
};

static _Alignas(64) unsigned char rooms[MAX_SRCS][ROOM_BYTES], got[2 * ROOM_BYTES], wanted[2 * ROOM_BYTES];

/* hetccl_grid_position steps through the grid; false behind its end. */
static bool grid_step(uint64_t n_blocks)
{
    if (++hetccl_grid_position.thread < HETCCL_BLOCK_THREADS)
        return true;
    hetccl_grid_position.thread = 0;
    if (++hetccl_grid_position.block < n_blocks)
        return true;
    hetccl_grid_position.block = 0;
    return false;
}

static void run_reduce(const struct hetccl_reduce_args *args, enum hetccl_type type)
{
    do
        reduce_kernels[type](*args);
    while (grid_step(args->n_blocks));
}

static void fill(enum hetccl_type type, size_t n_srcs, size_t count, uint64_t seed)
{
    for (size_t k = 0; k < n_srcs; k++) {
        for (size_t i = 0; i < count + EDGE / 8; i++)
            element_set(rooms[k], i, type, random_element(type, &seed));
    }
}

static void check_same(const char *what, enum hetccl_type type, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (got[i] != wanted[i])
            fail_msg("%s of %s: byte %zu is 0x%x, not 0x%x", what, hetccl_type_name(type), i, got[i],
                     wanted[i]);
    }
}

/* Source k lies shifts[k % 3] bytes into its room, dst shift of its own; in place: dst is the last source. */
struct layout {
    size_t dst_shift, src_shift, src_step;
    bool is_in_place;
};

static void check_reduce(struct hetccl_reduce_args args, enum hetccl_type type, const struct layout *layout)
{
    size_t element_bytes = hetccl_type_bytes(type), last = args.n_srcs - 1;

    for (size_t k = 0; k < args.n_srcs; k++)
        args.srcs[k] = rooms[k] + layout->src_shift + k * layout->src_step;
    memset(got, 0xa5, sizeof(got));
    memset(wanted, 0xa5, sizeof(wanted));
    hetccl_kernel_reduce(wanted + layout->dst_shift, args.srcs, args.is_scaled ? args.scales : NULL,
                         args.n_srcs, args.count, type, (enum hetccl_red)args.red);
    args.dst = got + layout->dst_shift;
    if (layout->is_in_place) {
        memcpy(args.dst, args.srcs[last], args.count * element_bytes);
        args.srcs[last] = args.dst;
    }
    run_reduce(&args, type);
    check_same(hetccl_red_name((enum hetccl_red)args.red), type, sizeof(got) / 2);
}

static const struct layout aligned = {0};

static void test_all_types_and_ops(void **state)
{
    struct hetccl_reduce_args args = {.count = 4096 + 333, .n_srcs = 2, .n_blocks = 2};

    for (int type = 0; type < HETCCL_TYPES; type++) {
        fill((enum hetccl_type)type, 2, args.count, 3 + (uint64_t)type);
        for (args.red = 0; args.red < HETCCL_REDS; args.red++)
            check_reduce(args, (enum hetccl_type)type, &aligned);
    }
}

static void test_numbers_of_sources_and_scales(void **state)
{
    struct hetccl_reduce_args args = {.count = 2048 + 21, .n_blocks = 1};
    uint64_t seed = 5;

    for (int type = 0; type < HETCCL_TYPES; type++) {
        fill((enum hetccl_type)type, MAX_SRCS, args.count, 50 + (uint64_t)type);
        for (size_t k = 0; k < MAX_SRCS; k++)
            args.scales[k].bits = random_element((enum hetccl_type)type, &seed);
        args.scales[1] = hetccl_scale_one((enum hetccl_type)type);
        for (args.n_srcs = 1; args.n_srcs <= MAX_SRCS; args.n_srcs++) {
            args.is_scaled = 1;
            args.red = HETCCL_SUM;
            check_reduce(args, (enum hetccl_type)type, &aligned);
            args.is_scaled = 0;
            args.red = args.n_srcs % HETCCL_REDS;
            if (args.n_srcs > 1)
                check_reduce(args, (enum hetccl_type)type, &aligned);
        }
    }
}

static void test_alignments_and_counts(void **state)
{
    static const size_t counts[] = {0, 1, 7, 255, 4096, 4097, MAX_COUNT};
    static const struct layout layouts[] = {
        {8, 8, 0, false}, {8, 8, 0, true},   {4, 4, 16, false}, {3, 3, 0, false},
        {0, 2, 1, false}, {5, 11, 4, false}, {16, 8, 0, true},  {0, 0, 8, true},
    };
    static const enum hetccl_type types[] = {HETCCL_UINT8, HETCCL_BFLOAT16, HETCCL_FLOAT32, HETCCL_FLOAT64};
    struct hetccl_reduce_args args = {.n_srcs = 3};

    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
        fill(types[t], 3, MAX_COUNT, 77 + t);
        for (size_t l = 0; l < sizeof(layouts) / sizeof(layouts[0]); l++) {
            for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
                args.count = counts[c];
                args.n_blocks = (uint32_t)(1 + (l + c) % 3);
                check_reduce(args, types[t], &layouts[l]);
            }
        }
    }
}

static void check_average(enum hetccl_type type, size_t n_ranks, size_t shift)
{
    size_t count = 1000, wide_bytes = count * hetccl_average_wide_factor(type) *
                                      hetccl_type_bytes(hetccl_average_wide_type(type));
    struct hetccl_average_args args = {rooms[1] + shift, rooms[0] + shift, count, n_ranks, (uint32_t)type, 2};

    memset(got, 0xa5, sizeof(got));
    memset(wanted, 0xa5, sizeof(wanted));
    hetccl_kernel_average_widen(wanted + shift, args.src, count, type, n_ranks);
    args.dst = got + shift;
    do
        hetccl_average_widen(args);
    while (grid_step(args.n_blocks));
    check_same("widen", type, wide_bytes + EDGE);

    /* Any sum of inputs that n_ranks ranks can have is right for the way back: here n_ranks times the first.
     */
    memcpy(rooms[1] + shift, wanted + shift, wide_bytes);
    memset(got, 0xa5, sizeof(got));
    memset(wanted, 0xa5, sizeof(wanted));
    hetccl_kernel_average_narrow(wanted + shift, rooms[1] + shift, count, type, n_ranks);
    args.src = rooms[1] + shift;
    do
        hetccl_average_narrow(args);
    while (grid_step(args.n_blocks));
    check_same("narrow", type, count * 8 + EDGE);
}

static void test_averages(void **state)
{
    for (int type = HETCCL_INT8; type <= HETCCL_UINT64; type++) {
        fill((enum hetccl_type)type, 1, 1000, 11 + (uint64_t)type);
        for (size_t shift = 0; shift < 9; shift += 4) {
            check_average((enum hetccl_type)type, 1, shift + 1);
            check_average((enum hetccl_type)type, 3, shift);
            check_average((enum hetccl_type)type, HETCCL_AVERAGE_MAX_RANKS, shift);
        }
    }
}

static void test_copy(void **state)
{
    static const size_t sizes[] = {0, 1, 15, 16, 4096, 16384, 16384 * 2 + 16, 50001};
    static const size_t shifts[][2] = {{0, 0}, {3, 3}, {4, 8}, {9, 1}, {1, 0}, {16, 0}, {6, 2}};

    fill(HETCCL_UINT8, 1, 50100, 1);
    for (size_t s = 0; s < sizeof(shifts) / sizeof(shifts[0]); s++) {
        for (size_t b = 0; b < sizeof(sizes) / sizeof(sizes[0]); b++) {
            struct hetccl_copy_args args = {got + shifts[s][0], rooms[0] + shifts[s][1], sizes[b], 1 + b % 3};

            memset(got, 0xa5, sizeof(got));
            memset(wanted, 0xa5, sizeof(wanted));
            memcpy(wanted + shifts[s][0], args.src, sizes[b]);
            do
                hetccl_copy(args);
            while (grid_step(args.n_blocks));
            check_same("copy", HETCCL_UINT8, 60000);
        }
    }
}

static void test_layout_of_arguments(void **state)
{
    assert_int_equal(sizeof(struct hetccl_reduce_args), 32 + 2 * 8 * HETCCL_REDUCE_MAX_INPUTS);
    assert_int_equal(offsetof(struct hetccl_reduce_args, srcs), 32);
    assert_int_equal(sizeof(struct hetccl_average_args), 40);
    assert_int_equal(sizeof(struct hetccl_copy_args), 32);
}

static void test_blocks(void **state)
{
    assert_int_equal(hetccl_launch_blocks(0, 100), 1);
    assert_int_equal(hetccl_launch_blocks(1024, 100), 1);
    assert_int_equal(hetccl_launch_blocks(1025, 100), 2);
    assert_int_equal(hetccl_launch_blocks(UINT64_C(1) << 40, 100), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_types_and_ops),
        cmocka_unit_test(test_numbers_of_sources_and_scales),
        cmocka_unit_test(test_alignments_and_counts),
        cmocka_unit_test(test_averages),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_layout_of_arguments),
        cmocka_unit_test(test_blocks),
    };

    return cmocka_run_group_tests_name("kernels/device", tests, NULL, NULL);
}
