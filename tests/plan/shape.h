/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TESTS_PLAN_SHAPE_H
#define HETCCL_TESTS_PLAN_SHAPE_H

/*
 * One shape of the sweep: islands, hosts and rank order, a call, its limits. Shape i of a seed is always the
 * same: the first ones enumerate all small communicators with every collective, root and form; the others are
 * drawn.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "plan/plan.h"

enum { SHAPE_MAX_RANKS = 40, SHAPE_MAX_ISLANDS = 5 };

struct shape {
    uint64_t number, random;
    uint32_t n_ranks, n_islands;
    uint32_t sizes[SHAPE_MAX_ISLANDS], hosts[SHAPE_MAX_ISLANDS];
    bool is_spread; /* every second rank of the first island is on another host */
    uint32_t island_of[SHAPE_MAX_RANKS];
    enum hetccl_coll coll;
    uint32_t root;
    size_t count, elem_bytes, chunk_bytes, small_bytes;
    bool has_scale;
    bool in_place[SHAPE_MAX_RANKS];
    const char *algo;
    size_t pair_counts[SHAPE_MAX_RANKS][SHAPE_MAX_RANKS]; /* alltoallv: [from][to] */
    size_t send_offsets[SHAPE_MAX_RANKS][SHAPE_MAX_RANKS], recv_offsets[SHAPE_MAX_RANKS][SHAPE_MAX_RANKS];
    size_t recv_counts[SHAPE_MAX_RANKS][SHAPE_MAX_RANKS];
};

void shape_make(struct shape *shape, uint64_t seed, uint64_t number);

/* For shapes of other sweeps: an empty one, then its parts. Blocks of alltoallv have up to `most` elements,
 * some pairs exchange nothing, and there are gaps between blocks. */
void shape_clear(struct shape *shape, uint64_t seed, uint64_t number);
void shape_draw_layout(struct shape *shape, uint32_t most_islands, uint32_t most_island_ranks);
void shape_draw_pairs(struct shape *shape, uint32_t most);

void shape_print(const struct shape *shape, FILE *file);
HETCCL_NODISCARD enum hetccl_status shape_topo(const struct shape *shape, struct hetccl_topo *out);
void shape_request(const struct shape *shape, uint32_t rank, struct hetccl_plan_request *out);

uint64_t shape_random(struct shape *shape);
/* 0 .. n - 1 */
uint32_t shape_pick(struct shape *shape, uint32_t n);

#endif
