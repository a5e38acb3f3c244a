/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/variants.h"
#include "reference.h"

/*
 * Nothing outside the given elements is touched: every array ends where a page without access begins, and in
 * a second run begins where one ends. A byte too many is a SIGSEGV.
 */

enum { N_SRCS = 3, N_ARRAYS = N_SRCS + 1, MAX_BYTES = 2 * 8 * 1100 };

struct guarded {
    unsigned char *map;
    size_t page_bytes, room_bytes;
};

static void guarded_init(struct guarded *guarded)
{
    guarded->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    guarded->room_bytes = (MAX_BYTES + guarded->page_bytes - 1) / guarded->page_bytes * guarded->page_bytes;
    guarded->map = mmap(NULL, guarded->room_bytes + 2 * guarded->page_bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(guarded->map != MAP_FAILED);
    assert_int_equal(
        mprotect(guarded->map + guarded->page_bytes, guarded->room_bytes, PROT_READ | PROT_WRITE), 0);
}

static void guarded_fini(struct guarded *guarded)
{
    assert_int_equal(munmap(guarded->map, guarded->room_bytes + 2 * guarded->page_bytes), 0);
}

/* Room for the bytes at the end or at the beginning of what may be accessed. */
static unsigned char *guarded_place(const struct guarded *guarded, size_t bytes, bool at_end)
{
    unsigned char *begin = guarded->map + guarded->page_bytes;

    return at_end ? begin + guarded->room_bytes - bytes : begin;
}

static const size_t counts[] = {1,  2,  3,  5,  7,  8,   9,    15,   16,   17,  31,
                                33, 63, 64, 65, 67, 127, 1000, 1023, 1024, 1025};

enum { N_COUNTS = sizeof(counts) / sizeof(counts[0]) };

static void check_reduce(struct guarded arrays[N_ARRAYS], enum hetccl_type type, size_t count, bool at_end)
{
    size_t bytes = count * reference_type_bits(type) / 8;
    unsigned char *dst = guarded_place(&arrays[N_SRCS], bytes, at_end);
    struct hetccl_scale scales[N_SRCS];
    const void *srcs[N_SRCS];
    uint64_t inputs[N_SRCS], seed = count;

    for (size_t k = 0; k < N_SRCS; k++) {
        unsigned char *src = guarded_place(&arrays[k], bytes, at_end);

        for (size_t i = 0; i < count; i++)
            element_set(src, i, type, random_element(type, &seed));
        srcs[k] = src;
        scales[k] = hetccl_scale_of_average(type, 2);
        inputs[k] = element_get(src, count - 1, type);
    }
    hetccl_kernel_reduce(dst, srcs, NULL, 1, count, type, HETCCL_SUM);
    hetccl_kernel_reduce(dst, srcs, scales, 1, count, type, HETCCL_SUM);
    hetccl_kernel_reduce(dst, srcs, scales, N_SRCS, count, type, HETCCL_SUM);
    for (int red = 0; red < HETCCL_REDS; red++) {
        hetccl_kernel_reduce(dst, srcs, NULL, 2, count, type, (enum hetccl_red)red);
        hetccl_kernel_reduce(dst, srcs, NULL, N_SRCS, count, type, (enum hetccl_red)red);
        assert_true(element_get(dst, count - 1, type) ==
                    reference_reduce(type, (enum hetccl_red)red, inputs, NULL, N_SRCS));
    }
}

static void check_average(struct guarded arrays[N_ARRAYS], enum hetccl_type type, size_t count, bool at_end)
{
    size_t bytes = count * reference_type_bits(type) / 8;
    size_t wide_bytes =
        count * hetccl_average_wide_factor(type) * hetccl_type_bytes(hetccl_average_wide_type(type));
    unsigned char *src = guarded_place(&arrays[0], bytes, at_end),
                  *dst = guarded_place(&arrays[1], bytes, at_end);
    unsigned char *wide = guarded_place(&arrays[2], wide_bytes, at_end);
    uint64_t seed = count;

    for (size_t i = 0; i < count; i++)
        element_set(src, i, type, random_element(type, &seed));
    hetccl_kernel_average_widen(wide, src, count, type, 1);
    hetccl_kernel_average_narrow(dst, wide, count, type, 1);
    assert_memory_equal(dst, src, bytes);
}

static void check_type(struct guarded arrays[N_ARRAYS], enum hetccl_type type)
{
    for (size_t c = 0; c < N_COUNTS; c++) {
        for (int at_end = 0; at_end < 2; at_end++) {
            check_reduce(arrays, type, counts[c], at_end);
            if (!reference_is_float(type))
                check_average(arrays, type, counts[c], at_end);
        }
    }
}

static void test_ranges(void **state)
{
    struct guarded arrays[N_ARRAYS];

    for (size_t i = 0; i < N_ARRAYS; i++)
        guarded_init(&arrays[i]);
    for (size_t v = 0; hetccl_kernel_variant_at(v) != NULL; v++) {
        if (!hetccl_kernel_variant_at(v)->is_supported())
            continue;
        hetccl_kernel_variant_force(hetccl_kernel_variant_at(v));
        for (int type = 0; type < HETCCL_TYPES; type++)
            check_type(arrays, (enum hetccl_type)type);
    }
    for (size_t i = 0; i < N_ARRAYS; i++)
        guarded_fini(&arrays[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ranges)};

    return cmocka_run_group_tests_name("kernels/range", tests, NULL, NULL);
}
