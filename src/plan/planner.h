/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_PLAN_PLANNER_H
#define HETCCL_PLAN_PLANNER_H

/*
 * What the planners of all collectives share: who I am, where data lie, chunks, and the moves between a
 * domain's islands.
 *
 * A hierarchical plan is a list of phases. Chunk k goes through phase f in time slot k + f; inside a slot the
 * phases are written in ascending order, that is the newest chunk first. Steps only ever wait for earlier
 * (slot, phase) pairs, both ends of a message lie in the same (slot, phase) and are listed there in ascending
 * order of position: so an executor that starts the steps of each engine, send and receive lane in order
 * can't come to a standstill, however little its channels hold.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/builder.h"
#include "plan/plan.h"
#include "plan/spread.h"

enum { HETCCL_MAX_CHUNKS = 1024 };

/*
 * All ranks' blocks one after the other, in an order that makes every island's and every domain's blocks
 * contiguous: domain by domain, island by island. Coordinate v is element first + v % length of the block of
 * rank_at[v / length].
 */
struct hetccl_blocks {
    const uint32_t *rank_at, *position_of; /* n_ranks each */
    size_t stride;                         /* elements of a whole block in the user's buffer */
    size_t first, length;                  /* the chunk: this part of every block */
};

/* Where the elements of a space lie on this rank. Without blocks, coordinate v is element v - origin + base.
 */
struct hetccl_place {
    enum hetccl_buffer buffer;
    bool is_raw;
    size_t origin, base;
    const struct hetccl_blocks *blocks; /* v lies in its rank's block; a stretch must not leave the block */
};

/* Whose shares count: an island's, or a domain's parts. */
enum hetccl_level { HETCCL_LEVEL_ISLAND, HETCCL_LEVEL_DOMAIN };

struct hetccl_planner {
    const struct hetccl_topo *topo;
    const struct hetccl_plan_request *request;
    struct hetccl_builder b;
    struct hetccl_sweep sweep,
        domain_sweep;          /* the second is for the islands of a domain, and the first one's inner */
    struct hetccl_span *parts; /* see hetccl_planner_find_parts() */
    uint32_t n_parts, part_capacity;
    struct hetccl_input *inputs; /* room for one input a rank */
    uint32_t *order;             /* rank_at and position_of of blocks */

    uint32_t rank, island, island_rank, domain;
    uint32_t my_island_in_domain; /* index */
    enum hetccl_level top_level;  /* domains, or islands where there is one domain */
    uint32_t n_tops, my_top;      /* the groups of that level */
    bool has_domain_phases;       /* several domains, and one of them has several islands */
    size_t granule;
    uint32_t n_chunks;
};

typedef void hetccl_phase(struct hetccl_planner *p, uint32_t chunk, void *algorithm);

HETCCL_NODISCARD enum hetccl_status hetccl_planner_init(struct hetccl_planner *p,
                                                        const struct hetccl_topo *topo,
                                                        const struct hetccl_plan_request *request);
void hetccl_planner_fini(struct hetccl_planner *p);

/* How many chunks a call is cut into; the same on all ranks. */
uint32_t hetccl_plan_chunk_count(const struct hetccl_topo *topo, const struct hetccl_plan_request *request);

/* Chunk k of the call's count. */
struct hetccl_span hetccl_planner_chunk(const struct hetccl_planner *p, uint32_t chunk);

/* Runs the phases over all chunks in pipelined order. */
void hetccl_planner_run(struct hetccl_planner *p, hetccl_phase *const *phases, uint32_t n_phases,
                        void *algorithm);

/* Blocks of the chunk, with the ranks in domain order. */
struct hetccl_blocks hetccl_planner_blocks(struct hetccl_planner *p, uint32_t chunk);

/* The space of a vector's stretch; of the blocks of all ranks of an island or a domain. */
struct hetccl_space hetccl_planner_space(const struct hetccl_planner *p, size_t start, size_t end);
struct hetccl_space hetccl_planner_island_space(const struct hetccl_planner *p,
                                                const struct hetccl_blocks *blocks, uint32_t island);
struct hetccl_space hetccl_planner_domain_space(const struct hetccl_planner *p,
                                                const struct hetccl_blocks *blocks, uint32_t domain);

/* My share of a space inside my island. */
struct hetccl_span hetccl_planner_share(const struct hetccl_planner *p, const struct hetccl_space *space);

/* Fills p->parts with what I hold of a space at that level, ascending, none across a block's end. */
void hetccl_planner_find_parts(struct hetccl_planner *p, enum hetccl_level level,
                               const struct hetccl_space *space);

/*
 * The groups whose blocks my island must reduce or gather for others: every other domain, then every sibling
 * island. Number 0 .. hetccl_planner_foreign_count() - 1; what one of them covers, and the level at which my
 * side holds it.
 */
struct hetccl_foreign {
    enum hetccl_level level;
    struct hetccl_space space;
};
uint32_t hetccl_planner_foreign_count(const struct hetccl_planner *p);
struct hetccl_foreign hetccl_planner_foreign(const struct hetccl_planner *p,
                                             const struct hetccl_blocks *blocks, uint32_t number);

/* Lists the pieces of a space, cut among my island's ranks; whole and own say where each piece's two offsets
 * lie. */
void hetccl_planner_add_pieces(struct hetccl_planner *p, const struct hetccl_space *space,
                               const struct hetccl_place *whole, const struct hetccl_place *own);

struct hetccl_region hetccl_place_region(const struct hetccl_place *place, size_t start, size_t end);

/* Adds an island or a domain to the sweep. */
void hetccl_planner_add_group(struct hetccl_planner *p, enum hetccl_level level, uint32_t index,
                              const struct hetccl_space *space);

/*
 * Inside my domain, over my share of a space: from partial results of each island to one of the domain (up),
 * each part combined at its holder in the order of the islands; and from the parts to everybody's whole share
 * (down).
 */
void hetccl_domain_up(struct hetccl_planner *p, const struct hetccl_space *space,
                      const struct hetccl_place *partial, const struct hetccl_place *result);
void hetccl_domain_down(struct hetccl_planner *p, const struct hetccl_space *space,
                        const struct hetccl_place *place);

/* The planners: each writes all steps of one call into p->b. */
void hetccl_plan_single(struct hetccl_planner *p); /* one rank, or one island */
void hetccl_plan_hier_allreduce(struct hetccl_planner *p);
void hetccl_plan_hier_allgather(struct hetccl_planner *p);
void hetccl_plan_hier_reduce_scatter(struct hetccl_planner *p);
void hetccl_plan_hier_broadcast(struct hetccl_planner *p);
void hetccl_plan_hier_reduce(struct hetccl_planner *p);
void hetccl_plan_direct_alltoall(struct hetccl_planner *p);
void hetccl_plan_direct_alltoallv(struct hetccl_planner *p);
void hetccl_plan_direct_gather(struct hetccl_planner *p);
void hetccl_plan_direct_scatter(struct hetccl_planner *p);
void hetccl_plan_flat(struct hetccl_planner *p);   /* allreduce, reduce */
void hetccl_plan_leader(struct hetccl_planner *p); /* allreduce */

#endif
