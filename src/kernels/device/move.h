/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_KERNELS_DEVICE_MOVE_H
#define HETCCL_KERNELS_DEVICE_MOVE_H

/* A copy by a team of blocks: in vectors of 16 bytes, or words of 4, as far as dst and src are equally far
 * from a multiple of them, and in bytes before, behind and otherwise. */
#include "kernels/device/args.h"
#include "kernels/device/grid.h"
#include "kernels/device/memory.h"

enum { TILE_VECTORS = 4, TILE_BYTES = HETCCL_BLOCK_THREADS * TILE_VECTORS * VECTOR_BYTES };

/* The bytes before the first multiple of unit_bytes; all of them if dst and src have none in common. */
HETCCL_KERNEL_INLINE uint64_t head_bytes(const struct hetccl_copy_args *args, uint32_t unit_bytes)
{
    uint64_t head = (unit_bytes - misalignment(args->dst, unit_bytes)) % unit_bytes;

    if (misalignment(args->src, unit_bytes) != misalignment(args->dst, unit_bytes) || head > args->bytes)
        return args->bytes;
    return head;
}

/* Tiles of vectors, from first_byte on; returns the bytes copied by all threads together. */
HETCCL_KERNEL_INLINE uint64_t copy_tiles(const struct hetccl_copy_args *args, struct team team,
                                         uint64_t first_byte)
{
    vector *dst = (vector *)(void *)((unsigned char *)args->dst + first_byte);
    const vector *src = (const vector *)(const void *)((const unsigned char *)args->src + first_byte);
    uint64_t n_tiles = (args->bytes - first_byte) / TILE_BYTES;

    HETCCL_KERNEL_ROLLED
    for (uint64_t tile = team.block; tile < n_tiles; tile += team.n_blocks) {
        uint64_t first = tile * HETCCL_BLOCK_THREADS * TILE_VECTORS + grid_thread();
        vector values[TILE_VECTORS];

        HETCCL_KERNEL_UNROLL
        for (uint32_t v = 0; v < TILE_VECTORS; v++)
            values[v] = src[first + (uint64_t)v * HETCCL_BLOCK_THREADS];
        HETCCL_KERNEL_UNROLL
        for (uint32_t v = 0; v < TILE_VECTORS; v++)
            dst[first + (uint64_t)v * HETCCL_BLOCK_THREADS] = values[v];
    }
    return n_tiles * TILE_BYTES;
}

HETCCL_KERNEL_INLINE uint64_t copy_words(const struct hetccl_copy_args *args, struct team team,
                                         uint64_t first_byte)
{
    aligned_u32 *dst = (aligned_u32 *)(void *)((unsigned char *)args->dst + first_byte);
    const aligned_u32 *src =
        (const aligned_u32 *)(const void *)((const unsigned char *)args->src + first_byte);
    uint64_t n_words = (args->bytes - first_byte) / sizeof(*src);

    HETCCL_KERNEL_ROLLED
    for (uint64_t i = team_thread(team); i < n_words; i += team_threads(team))
        dst[i] = src[i];
    return n_words * sizeof(*src);
}

HETCCL_KERNEL_INLINE void move(const struct hetccl_copy_args *args, struct team team)
{
    uint64_t head = head_bytes(args, sizeof(aligned_u32)), body = 0;
    uint64_t vector_head = head_bytes(args, VECTOR_BYTES);
    unsigned char *dst = args->dst;
    const unsigned char *src = args->src;

    if (vector_head < args->bytes) {
        head = vector_head;
        body = copy_tiles(args, team, head);
    }
    body += copy_words(args, team, head + body);
    HETCCL_KERNEL_ROLLED
    for (uint64_t i = team_thread(team); i < args->bytes - body; i += team_threads(team)) {
        uint64_t at = i < head ? i : i + body;

        dst[at] = src[at];
    }
}

#endif
