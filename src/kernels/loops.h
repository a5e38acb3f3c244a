/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of a reduction; included once by every variant_*.c, which compiles them for one instruction set.
 *
 * The vector is cut into blocks whose accumulators fit the first-level cache. In a block the sources are
 * taken in order: a source is fetched (decoded to f32, scaled) into a block of the accumulation type, or used
 * where it lies if neither is needed, and combined into the sum. The last combination of the direct types
 * writes the destination itself, when all other sources of the block have been read: that is what makes dst
 * identical to a source safe.
 */
#ifdef HETCCL_KERNELS_LOOPS_H
#error "one set of loops a file"
#endif
#define HETCCL_KERNELS_LOOPS_H

/* gcc vectorises these loops from this level on only; clang does at any. */
#if defined(__OPTIMIZE__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include "kernels/combine.h"
#include "kernels/convert.h"

enum { BLOCK_BYTES = 4096 };

/* Accumulators of one block, of any accumulation type. */
struct block {
    _Alignas(64) loose_u32 words[BLOCK_BYTES / sizeof(uint32_t)];
};

struct reduction {
    unsigned char *dst;
    const void *const *srcs;
    const struct hetccl_scale *scales;
    size_t n_srcs;
    enum hetccl_type type;
    enum hetccl_red red;
    size_t element_bytes;
    bool is_narrow; /* accumulates in another type, f32 */
    uint64_t one;   /* the factor that changes nothing */
};

/* A lone source is scaled by one too: that makes its NaNs canonical. */
static bool is_scaled(const struct reduction *job, size_t k)
{
    return job->scales != NULL && (job->n_srcs == 1 || job->scales[k].bits != job->one);
}

/* Source k of the block in the accumulation type: in *room, or where it lies if nothing is done to it. */
static const void *fetch(const struct reduction *job, size_t k, size_t first, size_t count,
                         struct block *room)
{
    const void *values = (const unsigned char *)job->srcs[k] + first * job->element_bytes;

    if (job->is_narrow) {
        unpack(room->words, values, count, job->type);
        decode_words(room->words, count, job->type);
        values = room->words;
    }
    if (is_scaled(job, k)) {
        scale_into(room->words, values, count, job->type, job->scales[k]);
        values = room->words;
    }
    return values;
}

static void reduce_block(const struct reduction *job, size_t first, size_t count)
{
    struct block sum, next;
    unsigned char *dst = job->dst + first * job->element_bytes;
    const void *result = fetch(job, 0, first, count, &sum);

    for (size_t k = 1; k < job->n_srcs; k++) {
        const void *input = fetch(job, k, first, count, &next);
        bool is_last = k + 1 == job->n_srcs;
        void *out = is_last && !job->is_narrow ? (void *)dst : sum.words;

        combine(out, result, input, count, job->type, job->red);
        result = out;
    }
    if (job->is_narrow) {
        encode_words(sum.words, count, job->type);
        pack(dst, sum.words, count, job->element_bytes);
    } else if (job->n_srcs == 1) {
        __builtin_memcpy(dst, result, count * job->element_bytes);
    }
}

static void reduce(void *dst, const void *const *srcs, const struct hetccl_scale *scales, size_t n_srcs,
                   size_t count, enum hetccl_type type, enum hetccl_red red)
{
    struct reduction job = {dst, srcs, scales, n_srcs, type, red};
    size_t block_count;

    job.element_bytes = hetccl_type_bytes(type);
    job.is_narrow = job.element_bytes == 2 || type >= HETCCL_FLOAT8_E4M3;
    job.one = hetccl_scale_one(type).bits;
    block_count = BLOCK_BYTES / (job.is_narrow ? sizeof(uint32_t) : job.element_bytes);
    for (size_t first = 0; first < count; first += block_count)
        reduce_block(&job, first, count - first < block_count ? count - first : block_count);
}
