/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_PLAN_SPREAD_H
#define HETCCL_PLAN_SPREAD_H

/*
 * How a stretch of elements is spread over the ranks of a group, so that each holds a share.
 *
 *   space     the stretch, in the coordinates of the caller (elements of the vector, or of all ranks' blocks
 * one after the other) island    cuts a space into as many contiguous shares as it has ranks, in the order of
 * its ranks domain    refines its islands' cuts to common boundaries; each elementary interval is then cut
 * into one part an island, part j held by the rank of island j whose own share covers the interval sweep
 * walks the elementary intervals that several groups' spreads have in common, inside a window
 *
 * Everything is computed from (topology, space) alone: all ranks see the same holders.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "topo/topo.h"

struct hetccl_span {
    size_t start, end;
};

struct hetccl_space {
    size_t start, end;
    size_t granule; /* shares start at multiples of it from the start, where they are large enough for that */
    size_t block;   /* elementary intervals don't cross multiples of this coordinate; 0: no such limit */
};

/* The i-th boundary (0 .. n) of a stretch cut into n balanced shares. */
size_t hetccl_cut(size_t start, size_t end, size_t n, size_t i, size_t granule);

/* Share `index` of n. */
struct hetccl_span hetccl_cut_span(const struct hetccl_space *space, size_t n, size_t index);

/* The common part of two spans; empty (start == end) when there is none. */
struct hetccl_span hetccl_span_meet(struct hetccl_span a, struct hetccl_span b);

struct hetccl_holding {
    size_t end; /* starts where the one before ends */
    uint32_t rank;
};

struct hetccl_member {
    uint32_t first, n_holdings, cursor; /* into the sweep's holdings */
};

/*
 * A sweep: begin, add the groups, then next until it returns false. start, end, and holders[i] (the rank of
 * the i-th group added) describe the present interval. Memory is kept for the next sweep until fini; a failed
 * allocation ends the sweep early and stays in `status`.
 */
struct hetccl_sweep {
    size_t start, end;
    uint32_t *holders;
    uint32_t n_members;
    enum hetccl_status status;

    const struct hetccl_topo *topo;
    struct hetccl_sweep *inner; /* for the islands of a domain; NULL in an inner sweep */
    struct hetccl_span window;
    size_t block;
    struct hetccl_member *members;
    struct hetccl_holding *holdings;
    uint32_t n_holdings, member_capacity, holding_capacity;
};

void hetccl_sweep_init(struct hetccl_sweep *sweep, const struct hetccl_topo *topo,
                       struct hetccl_sweep *inner);
void hetccl_sweep_fini(struct hetccl_sweep *sweep);
void hetccl_sweep_begin(struct hetccl_sweep *sweep, struct hetccl_span window, size_t block);

/* The window must lie inside the space. */
void hetccl_sweep_add_island(struct hetccl_sweep *sweep, uint32_t island, const struct hetccl_space *space);
void hetccl_sweep_add_domain(struct hetccl_sweep *sweep, uint32_t domain, const struct hetccl_space *space);
bool hetccl_sweep_next(struct hetccl_sweep *sweep);

#endif
