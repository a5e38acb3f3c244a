/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/kernels.h"
#include "trial.h"

/* The checker checked: the reference agrees with the kernels in any order, and every planted error is seen.
 */

enum { COUNT = 613, MAX_RANKS = 20 };

static struct hetccl_reference make_reference(int type, int op, uint32_t n_ranks)
{
    return (struct hetccl_reference){
        .type = (ncclDataType_t)type, .op = (enum hetccl_reference_op)op, .n_ranks = n_ranks, .seed = 7};
}

static enum hetccl_red red_of(int op)
{
    switch (op) {
    case HETCCL_REFERENCE_PROD:
        return HETCCL_PROD;
    case HETCCL_REFERENCE_MAX:
        return HETCCL_MAX;
    case HETCCL_REFERENCE_MIN:
        return HETCCL_MIN;
    default:
        return HETCCL_SUM;
    }
}

/* Adds one rank after the other, from `first` on around, rounding to the type each time. */
static void reduce_by_kernel(const struct hetccl_reference *reference, uint32_t first, char *out)
{
    size_t bytes = COUNT * hetccl_reference_type_bytes(reference->type);
    enum hetccl_type type = (enum hetccl_type)reference->type;
    struct hetccl_scale one = hetccl_scale_one(type);
    char *input = malloc(bytes);

    for (uint32_t i = 0; i < reference->n_ranks; i++) {
        uint32_t rank = (first + i) % reference->n_ranks;
        struct hetccl_scale scales[2] = {one, one};
        const void *sources[2] = {out, input};
        bool is_scaled = true;

        hetccl_reference_fill(reference, rank, 0, COUNT, input);
        if (reference->op == HETCCL_REFERENCE_PREMULSUM) {
            scales[1].bits = 0;
            hetccl_reference_scalar(reference, rank, &scales[1].bits);
        } else if (reference->op == HETCCL_REFERENCE_AVG) {
            scales[1] = hetccl_scale_of_average(type, reference->n_ranks);
        } else {
            is_scaled = false;
        }
        if (i == 0)
            hetccl_kernel_reduce(out, sources + 1, is_scaled ? scales + 1 : NULL, 1, COUNT, type,
                                 red_of(reference->op));
        else
            hetccl_kernel_reduce(out, sources, is_scaled ? scales : NULL, 2, COUNT, type,
                                 red_of(reference->op));
    }
    free(input);
}

static void reference_agrees_with_kernels(void **state)
{
    static const uint32_t sizes[] = {1, 2, 3, 5, 16, MAX_RANKS};
    char got[COUNT * 8];
    char expected[COUNT * 8];

    (void)state;
    for (int type = 0; type < HETCCL_REFERENCE_TYPES; type++)
        for (int op = HETCCL_REFERENCE_SUM; op < HETCCL_REFERENCE_OPS; op++)
            for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                struct hetccl_reference reference = make_reference(type, op, sizes[i]);

                /* Integer averages go another way in the library, and long chains of averages round more
                 * often. */
                if (op == HETCCL_REFERENCE_AVG &&
                    (!hetccl_reference_type_is_float(reference.type) || sizes[i] > 3))
                    continue;
                hetccl_reference_reduce(&reference, 0, COUNT, expected);
                for (uint32_t first = 0; first < sizes[i]; first += 2) {
                    reduce_by_kernel(&reference, first, got);
                    assert_int_equal(hetccl_reference_compare(&reference, expected, got, COUNT), 0);
                }
            }
}

/* Integer averages against the kernels' exact path. */
static void reference_agrees_with_integer_averages(void **state)
{
    (void)state;
    for (int type = ncclInt8; type <= ncclUint64; type++) {
        struct hetccl_reference reference = make_reference(type, HETCCL_REFERENCE_AVG, 5);
        enum hetccl_type wide = hetccl_average_wide_type((enum hetccl_type)type);
        size_t wide_count = COUNT * hetccl_average_wide_factor((enum hetccl_type)type);
        uint64_t sum[2 * COUNT] = {0};
        uint64_t widened[2 * COUNT];
        char input[COUNT * 8];
        char expected[COUNT * 8];

        for (uint32_t rank = 0; rank < 5; rank++) {
            const void *sources[2] = {sum, widened};

            hetccl_reference_fill(&reference, rank, 0, COUNT, input);
            hetccl_kernel_average_widen(widened, input, COUNT, (enum hetccl_type)type, 5);
            hetccl_kernel_reduce(sum, sources, NULL, 2, wide_count, wide, HETCCL_SUM);
        }
        hetccl_kernel_average_narrow(input, sum, COUNT, (enum hetccl_type)type, 5);
        hetccl_reference_reduce(&reference, 0, COUNT, expected);
        assert_memory_equal(input, expected, COUNT * hetccl_reference_type_bytes(reference.type));
    }
}

/* Inputs of neighbours, of other ranks and of shifted indices must differ nearly everywhere, or errors would
 * hide. */
static void inputs_tell_ranks_and_places_apart(void **state)
{
    (void)state;
    for (int type = 0; type < HETCCL_REFERENCE_TYPES; type++)
        for (int op = HETCCL_REFERENCE_COPY; op < HETCCL_REFERENCE_OPS; op++) {
            struct hetccl_reference reference = make_reference(type, op, 3);
            size_t bytes = hetccl_reference_type_bytes(reference.type);
            char a[(COUNT + 1) * 8];
            char b[COUNT * 8];
            uint64_t n_shifted = 0;

            hetccl_reference_fill(&reference, 0, 0, COUNT + 1, a);
            hetccl_reference_fill(&reference, 1, 0, COUNT, b);
            for (size_t i = 0; i < COUNT; i++)
                n_shifted += memcmp(a + i * bytes, a + (i + 1) * bytes, bytes) != 0;
            assert_true(n_shifted > COUNT / 2);
            reference.op = HETCCL_REFERENCE_COPY; /* compare bits */
            assert_true(hetccl_reference_compare(&reference, a, b, COUNT) > COUNT / 2);
            hetccl_reference_fill(
                &(struct hetccl_reference){reference.type, (enum hetccl_reference_op)op, 3, 7}, 0, 5, 10, b);
            assert_memory_equal(a + 5 * bytes, b, 10 * bytes);
        }
}

/* A world in one process: what the call would do, done by hand for one rank. */
static void planted_errors_are_seen(void **state)
{
    (void)state;
    for (int kind = 0; kind < HETCCL_TRIAL_KINDS; kind++) {
        struct hetccl_trial trial = {.kind = (enum hetccl_trial_kind)kind,
                                     .rank = 1,
                                     .root = 2,
                                     .count = 50,
                                     .is_in_place = kind == HETCCL_TRIAL_BCAST};
        size_t bytes;
        char a[8 * 50 * 4];
        char b[8 * 50 * 4];
        void *send;
        void *recv;

        trial.reference = make_reference(
            ncclInt32, hetccl_trial_has_op(trial.kind) ? HETCCL_REFERENCE_SUM : HETCCL_REFERENCE_COPY, 4);
        bytes = hetccl_trial_buffer_count(&trial) * 4;
        assert_true(bytes <= sizeof(a));
        hetccl_trial_place(&trial, a, b, &send, &recv);
        hetccl_trial_fill(&trial, send, recv);
        /* Nothing was received: everything that has to come is wrong, and nothing else. */
        assert_int_equal(hetccl_trial_check(&trial, send, recv), hetccl_trial_recv_count(&trial));
        if (bytes / 4 > hetccl_trial_recv_count(&trial)) {
            ((char *)recv)[bytes - 1] ^= 1;
            assert_int_equal(hetccl_trial_check(&trial, send, recv), hetccl_trial_recv_count(&trial) + 1);
        }
    }
}

static void guards_are_seen(void **state)
{
    char memory[256 + 2 * HETCCL_TRIAL_GUARD_BYTES];
    char *region = memory + HETCCL_TRIAL_GUARD_BYTES;

    (void)state;
    hetccl_trial_guard_paint(region, 256);
    memset(region, 1, 256);
    assert_int_equal(hetccl_trial_guard_check(region, 256), 0);
    region[-1] = 0;
    region[256 + HETCCL_TRIAL_GUARD_BYTES - 1] = 0;
    assert_int_equal(hetccl_trial_guard_check(region, 256), 2);
}

static void averages_allow_two_units_only(void **state)
{
    struct hetccl_reference reference = make_reference(ncclFloat32, HETCCL_REFERENCE_AVG, 3);
    float expected = 1.0f;
    uint32_t bits;
    float got;

    (void)state;
    memcpy(&bits, &expected, sizeof(bits));
    for (uint32_t ulps = 0; ulps < 5; ulps++) {
        uint32_t other = bits + ulps;

        memcpy(&got, &other, sizeof(got));
        assert_int_equal(hetccl_reference_compare(&reference, &expected, &got, 1),
                         ulps > HETCCL_REFERENCE_AVG_ULPS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_agrees_with_kernels),
        cmocka_unit_test(reference_agrees_with_integer_averages),
        cmocka_unit_test(inputs_tell_ranks_and_places_apart),
        cmocka_unit_test(planted_errors_are_seen),
        cmocka_unit_test(guards_are_seen),
        cmocka_unit_test(averages_allow_two_units_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
