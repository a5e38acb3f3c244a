/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_KERNELS_DEVICE_REDUCTION_H
#define HETCCL_KERNELS_DEVICE_REDUCTION_H

/*
 * A reduction by a team of blocks: a whole grid, or one block of it. Where all pointers are equally far from
 * a multiple of 16 bytes, whole tiles of the vectors between are taken by the blocks in turn, LANE_WORDS
 * accumulators a thread; what lies before and behind the tiles, or everything, is taken element by element.
 *
 * A thread reads an element from all sources before it writes it, and no other thread touches it: that is
 * what makes dst identical to a source safe. The next source's loads are issued before the current one is
 * worked on.
 */
#include "kernels/device/args.h"
#include "kernels/device/grid.h"
#include "kernels/device/lanes.h"
#include "kernels/device/memory.h"

enum { SCATTERED = 4 }; /* elements that a thread takes at once where there are no vectors */

/* The elements that are taken one by one: all from [0, count), but [skip_first, skip_first + skip_count). */
struct rest {
    uint64_t skip_first, skip_count, count;
};

/* Where a thread's elements are. */
struct place {
    uint64_t first;  /* tile: of the thread's vectors; else of its elements, not counting those skipped */
    uint64_t stride; /* from one to the next, in the same unit */
    const struct rest *rest;
    int is_tile; /* known to the compiler */
};

/* What was read, before anything is done to it: vectors as they were, or an element a word (64 bits: in two).
 */
struct raw {
    uint32_t words[LANE_WORDS];
};

/* A thread's vectors in a tile: sixteen accumulators' worth. */
HETCCL_KERNEL_INLINE uint32_t tile_vectors(enum hetccl_type type)
{
    return type_bytes(type) >= 4 ? 4 : type_bytes(type);
}

HETCCL_KERNEL_INLINE uint32_t place_words(const struct place *place, enum hetccl_type type)
{
    if (place->is_tile)
        return LANE_WORDS;
    return type_bytes(type) == 8 ? 2 * SCATTERED : SCATTERED;
}

HETCCL_KERNEL_INLINE uint64_t rest_element(const struct rest *rest, uint64_t i)
{
    return i < rest->skip_first ? i : i + rest->skip_count;
}

/* base is what is at element rest->skip_first, a multiple of 16. */
HETCCL_KERNEL_INLINE void load_vectors(struct raw *raw, const void *base, const struct place *place,
                                       enum hetccl_type type)
{
    const unsigned char *start = (const unsigned char *)base + place->rest->skip_first * type_bytes(type);
    const vector *vectors = (const vector *)(const void *)start;

    HETCCL_KERNEL_UNROLL
    for (uint32_t v = 0; v < tile_vectors(type); v++) {
        vector value = vectors[place->first + v * place->stride];

        HETCCL_KERNEL_UNROLL
        for (uint32_t w = 0; w < VECTOR_WORDS; w++)
            raw->words[v * VECTOR_WORDS + w] = value[w];
    }
}

HETCCL_KERNEL_INLINE void load_scattered(struct raw *raw, const void *base, const struct place *place,
                                         enum hetccl_type type)
{
    HETCCL_KERNEL_UNROLL
    for (uint32_t e = 0; e < SCATTERED; e++) {
        uint64_t i = place->first + e * place->stride, bits = 0;

        if (i < place->rest->count)
            bits = element_load(base, rest_element(place->rest, i), type_bytes(type));
        if (type_bytes(type) == 8) {
            raw->words[2 * e] = (uint32_t)bits;
            raw->words[2 * e + 1] = (uint32_t)(bits >> 32);
        } else {
            raw->words[e] = (uint32_t)bits;
        }
    }
}

HETCCL_KERNEL_INLINE void load(struct raw *raw, const void *base, const struct place *place,
                               enum hetccl_type type)
{
    if (place->is_tile)
        load_vectors(raw, base, place, type);
    else
        load_scattered(raw, base, place, type);
}

HETCCL_KERNEL_INLINE void decode(struct lanes *lanes, const struct raw *raw, const struct place *place,
                                 enum hetccl_type type)
{
    uint32_t element_bits = 8 * type_bytes(type),
             in_word = element_bits < 32 && place->is_tile ? 32 / element_bits : 1;

    HETCCL_KERNEL_UNROLL
    for (uint32_t i = 0; i < place_words(place, type); i++)
        lanes->words[i] = word_decode(raw->words[i / in_word] >> i % in_word * element_bits, type);
}

HETCCL_KERNEL_INLINE void store_vectors(void *base, const struct lanes *lanes, const struct place *place,
                                        enum hetccl_type type)
{
    vector *vectors = (vector *)(void *)((unsigned char *)base + place->rest->skip_first * type_bytes(type));
    uint32_t element_bits = 8 * type_bytes(type), in_word = element_bits < 32 ? 32 / element_bits : 1;

    HETCCL_KERNEL_UNROLL
    for (uint32_t v = 0; v < tile_vectors(type); v++) {
        vector value = {0};

        HETCCL_KERNEL_UNROLL
        for (uint32_t i = 0; i < VECTOR_WORDS * in_word; i++) {
            uint32_t bits = word_encode(lanes->words[v * VECTOR_WORDS * in_word + i], type);

            if (element_bits < 32)
                bits &= (1u << element_bits) - 1;
            value[i / in_word] |= bits << i % in_word * element_bits;
        }
        vectors[place->first + v * place->stride] = value;
    }
}

HETCCL_KERNEL_INLINE void store_scattered(void *base, const struct lanes *lanes, const struct place *place,
                                          enum hetccl_type type)
{
    HETCCL_KERNEL_UNROLL
    for (uint32_t e = 0; e < SCATTERED; e++) {
        uint64_t i = place->first + e * place->stride;
        uint64_t bits = type_bytes(type) == 8 ? lanes_get_64(lanes, e) : word_encode(lanes->words[e], type);

        if (i < place->rest->count)
            element_store(base, rest_element(place->rest, i), type_bytes(type), bits);
    }
}

/* All sources' elements of one place into dst. */
HETCCL_KERNEL_INLINE void reduce_place(const struct hetccl_reduce_args *args, const struct place *place,
                                       enum hetccl_type type)
{
    uint32_t n_words = place_words(place, type);
    struct raw raw = {{0}};
    struct lanes sum = {{0}}, lanes;

    load(&raw, args->srcs[0], place, type);
    HETCCL_KERNEL_ROLLED
    for (uint32_t k = 0; k < args->n_srcs; k++) {
        struct raw next = raw;

        if (k + 1 < args->n_srcs)
            load(&next, args->srcs[k + 1], place, type);
        decode(&lanes, &raw, place, type);
        if (args->is_scaled)
            lanes_scale(&lanes, args->scales[k], n_words, type);
        if (k == 0)
            sum = lanes;
        else
            lanes_combine(&sum, &lanes, n_words, type, args->red);
        raw = next;
    }
    if (place->is_tile)
        store_vectors(args->dst, &sum, place, type);
    else
        store_scattered(args->dst, &sum, place, type);
}

/* The elements before the first multiple of 16 bytes; all of them if there is none that suits all pointers.
 */
HETCCL_KERNEL_INLINE uint64_t head_count(const struct hetccl_reduce_args *args, uint32_t element_bytes)
{
    uint32_t from_vector = misalignment(args->dst, VECTOR_BYTES);
    uint32_t head_bytes = (VECTOR_BYTES - from_vector) % VECTOR_BYTES;

    HETCCL_KERNEL_ROLLED
    for (uint32_t k = 0; k < args->n_srcs; k++) {
        if (misalignment(args->srcs[k], VECTOR_BYTES) != from_vector)
            return args->count;
    }
    if (head_bytes % element_bytes != 0 || head_bytes / element_bytes > args->count)
        return args->count;
    return head_bytes / element_bytes;
}

HETCCL_KERNEL_INLINE void reduce(const struct hetccl_reduce_args *args, struct team team,
                                 enum hetccl_type type)
{
    uint64_t head = head_count(args, type_bytes(type));
    uint64_t tile_count =
        (uint64_t)HETCCL_BLOCK_THREADS * tile_vectors(type) * (VECTOR_BYTES / type_bytes(type));
    uint64_t n_tiles = (args->count - head) / tile_count;
    struct rest rest = {head, n_tiles * tile_count, args->count - n_tiles * tile_count};
    struct place place = {0, HETCCL_BLOCK_THREADS, &rest, 1};

    HETCCL_KERNEL_ROLLED
    for (uint64_t tile = team.block; tile < n_tiles; tile += team.n_blocks) {
        place.first = tile * HETCCL_BLOCK_THREADS * tile_vectors(type) + grid_thread();
        reduce_place(args, &place, type);
    }
    place.stride = team_threads(team);
    place.is_tile = 0;
    HETCCL_KERNEL_ROLLED
    for (place.first = team_thread(team); place.first < rest.count; place.first += SCATTERED * place.stride)
        reduce_place(args, &place, type);
}

#endif
