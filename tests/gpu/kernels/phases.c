/* SPDX-License-Identifier: Apache-2.0 */
#include "phases.h"

#include <string.h>

#include "reference.h"

/* Which data are compared. */

enum {
    MASK_16 = 1 << HETCCL_FLOAT16 | 1 << HETCCL_BFLOAT16,
    MASK_FP8 = 1 << HETCCL_FLOAT8_E4M3 | 1 << HETCCL_FLOAT8_E5M2 | 1 << HETCCL_FLOAT8_E4M3_FNUZ |
               1 << HETCCL_FLOAT8_E5M2_FNUZ,
    MASK_8 = MASK_FP8 | 1 << HETCCL_INT8 | 1 << HETCCL_UINT8,
    MASK_INTEGER = 0x3f,
    MASK_ALL = (1 << HETCCL_TYPES) - 1,
    CHUNK_LEFT = 64, /* left values in a chunk of 16-bit pairs */
    SAMPLE_COUNT = 1 << 20,
};

static const struct layout aligned = {0};

static void check_all_reds(struct bench *bench, struct hetccl_reduce_args *args, enum hetccl_type type,
                           const struct layout *layout)
{
    for (args->red = 0; args->red < HETCCL_REDS; args->red++)
        bench_check_reduce(bench, args, type, layout);
}

/* CHUNK_LEFT left values with all 65,536 right ones; index counts the chunks. */
static void all_pairs_16(struct bench *bench, enum hetccl_type type, uint64_t index)
{
    struct hetccl_reduce_args args = {.count = CHUNK_LEFT << 16, .n_srcs = 2, .n_blocks = 264};
    uint16_t *left = (uint16_t *)(void *)bench->srcs[0], *right = (uint16_t *)(void *)bench->srcs[1];

    for (uint32_t i = 0; i < CHUNK_LEFT << 16; i++) {
        left[i] = (uint16_t)(index * CHUNK_LEFT + (i >> 16));
        right[i] = (uint16_t)i;
    }
    bench_upload(bench, 0, args.count * 2);
    bench_upload(bench, 1, args.count * 2);
    check_all_reds(bench, &args, type, &aligned);
}

static void all_pairs_8(struct bench *bench, enum hetccl_type type, uint64_t index)
{
    struct hetccl_reduce_args args = {.count = 65536, .n_srcs = 2, .n_blocks = 5};

    for (uint32_t i = 0; i < 65536; i++) {
        bench->srcs[0][i] = (unsigned char)(i >> 8);
        bench->srcs[1][i] = (unsigned char)i;
    }
    bench_upload(bench, 0, 65536);
    bench_upload(bench, 1, 65536);
    check_all_reds(bench, &args, type, &aligned);
}

/* Every value through decoding, a scale and encoding; the first scale is one. */
static void all_values_scaled(struct bench *bench, enum hetccl_type type, uint64_t index)
{
    struct hetccl_reduce_args args = {.count = 65536, .n_srcs = 1, .n_blocks = 4, .is_scaled = 1};
    uint64_t seed = 900 + index;

    for (uint32_t i = 0; i < 65536; i++)
        element_set(bench->srcs[0], i, type, i);
    bench_upload(bench, 0, 65536 * hetccl_type_bytes(type));
    args.scales[0] = hetccl_scale_one(type);
    for (int i = 0; i < 32; i++) {
        bench_check_reduce(bench, &args, type, &aligned);
        args.scales[0].bits = random_element(type, &seed);
    }
}

static void sampled_pairs(struct bench *bench, enum hetccl_type type, uint64_t index)
{
    struct hetccl_reduce_args args = {.count = SAMPLE_COUNT, .n_srcs = 2, .n_blocks = 132};

    bench_fill(bench, 0, args.count, type, 1000 + 2 * index);
    bench_fill(bench, 1, args.count, type, 1001 + 2 * index);
    check_all_reds(bench, &args, type, &aligned);
}

static void random_scales(struct hetccl_reduce_args *args, enum hetccl_type type, uint64_t seed)
{
    for (size_t k = 0; k < BENCH_SRCS; k++)
        args->scales[k].bits = random_element(type, &seed);
    args->scales[1] = hetccl_scale_one(type);
    args->scales[2] = hetccl_scale_of_average(reference_is_float(type) ? type : HETCCL_FLOAT32, 3);
    if (!reference_is_float(type))
        args->scales[2].bits = 3;
}

/* One to eight sources, with and without scales. */
static void many_sources(struct bench *bench, enum hetccl_type type, uint64_t index)
{
    struct hetccl_reduce_args args = {.count = 40000 + index, .n_blocks = (uint32_t)(3 + index)};

    for (size_t k = 0; k < BENCH_SRCS; k++)
        bench_fill(bench, k, args.count, type, 3000 + 10 * index + k);
    random_scales(&args, type, 5000 + index);
    for (args.n_srcs = 1; args.n_srcs <= BENCH_SRCS; args.n_srcs++) {
        args.is_scaled = 1;
        args.red = HETCCL_SUM;
        bench_check_reduce(bench, &args, type, &aligned);
        args.is_scaled = 0;
        if (args.n_srcs > 1)
            check_all_reds(bench, &args, type, &aligned);
    }
}

static const struct layout layouts[] = {
    {8, 8, 0, false}, {8, 8, 0, true},  {4, 4, 16, false}, {3, 3, 0, false}, {3, 3, 0, true},
    {0, 2, 1, false}, {5, 11, 4, true}, {16, 8, 0, true},  {0, 0, 8, true},  {1, 0, 0, false},
};

enum { N_LAYOUTS = sizeof(layouts) / sizeof(layouts[0]) };

static void counts_and_alignments(struct bench *bench, enum hetccl_type type, uint64_t index)
{
    static const size_t counts[] = {0, 1, 7, 255, 1024, 4096, 4097, 3 * 4096 + 777, 70001};
    static const uint32_t blocks[] = {1, 2, 29};
    struct hetccl_reduce_args args = {.n_srcs = 3, .red = HETCCL_SUM};

    for (size_t k = 0; k < 3; k++)
        bench_fill(bench, k, 70001 + 64, type, 7000 + k);
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        for (size_t b = 0; b < sizeof(blocks) / sizeof(blocks[0]); b++) {
            args.count = counts[c];
            args.n_blocks = blocks[b];
            bench_check_reduce(bench, &args, type, &layouts[index]);
        }
    }
}

static void averages(struct bench *bench, enum hetccl_type type, uint64_t index)
{
    static const size_t n_ranks[] = {1, 2, 3, 7, 1000, HETCCL_AVERAGE_MAX_RANKS};

    for (size_t r = 0; r < sizeof(n_ranks) / sizeof(n_ranks[0]); r++) {
        bench_fill(bench, 0, 100000 + 16, type, 8000 + index);
        bench_check_average(bench, type, 100000, n_ranks[r], index);
    }
}

static void copies(struct bench *bench, enum hetccl_type type, uint64_t index)
{
    static const size_t sizes[] = {0, 1, 15, 16, 4096, 16384, 16384 * 2 + 16, 50001, 5000003};
    static const size_t shifts[][2] = {{0, 0}, {3, 3}, {4, 8}, {9, 1}, {1, 0}, {16, 0}, {6, 2}};

    bench_fill(bench, 0, 5000003 + 16, type, 4);
    for (size_t b = 0; b < sizeof(sizes) / sizeof(sizes[0]); b++)
        bench_check_copy(bench, sizes[b], shifts[index][0], shifts[index][1], 1 + (uint32_t)b * 16);
}

const struct phase phases[] = {
    {"all pairs of f16 and bf16, all reductions", all_pairs_16, MASK_16, 65536 / CHUNK_LEFT},
    {"all pairs of 8-bit types, all reductions", all_pairs_8, MASK_8, 1},
    {"all values of narrow floats, 32 scales", all_values_scaled, MASK_16 | MASK_FP8, 1},
    {"sampled pairs, all types, all reductions", sampled_pairs, MASK_ALL, 16},
    {"1 to 8 sources, scales, all reductions", many_sources, MASK_ALL, 4},
    {"counts, alignments, in place", counts_and_alignments, MASK_ALL, N_LAYOUTS},
    {"averages of integers", averages, MASK_INTEGER, 9},
    {"copies", copies, 1 << HETCCL_UINT8, 7},
};
const size_t n_phases = sizeof(phases) / sizeof(phases[0]);
