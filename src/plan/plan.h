/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_PLAN_PLAN_H
#define HETCCL_PLAN_PLAN_H

/*
 * Pure planning: (topology, call, rank) -> the steps that this rank executes. No I/O, no clock, no device or
 * link.
 *
 * A plan is a straight-line program over three buffers. Its meaning is that of executing the steps one after
 * the other; `deps` says which earlier steps a step must really wait for (derived from overlapping regions by
 * the builder), so that an executor may overlap the rest. Between two ranks, messages match in the order in
 * which both plans list them.
 *
 * Units: offsets and counts are elements, everywhere.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "topo/topo.h"

enum hetccl_coll {
    HETCCL_ALLREDUCE = 0,
    HETCCL_ALLGATHER,
    HETCCL_REDUCE_SCATTER,
    HETCCL_BROADCAST,
    HETCCL_REDUCE,
    HETCCL_ALLTOALL,
    HETCCL_ALLTOALLV,
    HETCCL_GATHER,
    HETCCL_SCATTER,
    HETCCL_P2P, /* one group of sends and receives; planned by hetccl_plan_build_p2p() */
    HETCCL_COLLS,
};

const char *hetccl_coll_name(enum hetccl_coll coll); /* "allreduce" */
int hetccl_coll_find(const char *name);              /* -1: unknown */

/* The user's buffers as NCCL defines them for the call, and scratch of plan.scratch_count elements. */
enum hetccl_buffer { HETCCL_BUF_SEND = 0, HETCCL_BUF_RECV, HETCCL_BUF_SCRATCH, HETCCL_BUFS };

struct hetccl_region {
    enum hetccl_buffer buffer;
    size_t offset;
    size_t count;
};

enum hetccl_step_kind {
    HETCCL_STEP_COPY,    /* dst = src; with is_raw, dst = scale * src */
    HETCCL_STEP_ISLAND,  /* an engine's collective over my island; every island rank has the same step */
    HETCCL_STEP_SEND,    /* src to rank peer */
    HETCCL_STEP_COMBINE, /* dst = reduction over inputs in their order; one input: a plain receive or copy */
};

enum hetccl_island_op {
    HETCCL_ISLAND_ALLREDUCE,      /* full -> full */
    HETCCL_ISLAND_REDUCE_SCATTER, /* piece i of everybody's src, reduced, ends at its owner */
    HETCCL_ISLAND_ALLGATHER,      /* each piece goes from its owner to everybody */
    HETCCL_ISLAND_GATHER,         /* each piece goes from its owner to root */
    HETCCL_ISLAND_SCATTER,        /* each piece goes from root to its owner */
    HETCCL_ISLAND_ALLTOALL,       /* piece i: to and from island rank `owner`, one piece an island rank (mine
                                     included) */
};

/*
 * One piece of an island step. All island ranks list the same pieces in the same order with the same owner
 * and count; offsets may differ between ranks.
 *
 *   REDUCE_SCATTER  whole_offset: in src (input of everybody), own_offset: in dst (result, at the owner only)
 *   ALLGATHER       own_offset: in src (at the owner only), whole_offset: in dst (of everybody)
 *   GATHER          own_offset: in src (at the owner), whole_offset: in dst (at root)
 *   SCATTER         whole_offset: in src (at root), own_offset: in dst (at the owner)
 *   ALLTOALL        own_offset: in src, what goes to `owner`; whole_offset: in dst, what comes from `owner`
 *   ALLREDUCE       one piece: own_offset in src, whole_offset in dst; owner unused
 * The source and the destination of one piece may be the same memory (in place), and don't overlap otherwise.
 */
struct hetccl_piece {
    uint32_t owner; /* island rank */
    size_t whole_offset, own_offset, count;
};

/* One input of a combine step: a local region, or the next message from a rank. */
struct hetccl_input {
    bool is_message;
    bool is_raw;                 /* local, and not yet scaled: apply the call's scale */
    uint32_t peer;               /* is_message: global rank */
    struct hetccl_region region; /* local; for a message only count is meaningful */
};

/*
 * When a step comes, on a clock that all ranks share: both ends of a message give it the same time, and steps
 * that wait for each other have different ones, the later step the greater. Compared by round, then by place.
 * So executors that put steps one after the other on a rank, in the order of their times, can't wait in a
 * circle.
 */
struct hetccl_step_time {
    uint32_t round;
    size_t place; /* where in the space of the round: apart for messages that are combined apart */
};

struct hetccl_step {
    enum hetccl_step_kind kind;
    enum hetccl_island_op op;       /* ISLAND */
    uint32_t peer;                  /* SEND: global rank */
    uint32_t root;                  /* ISLAND GATHER, SCATTER: island rank */
    bool is_raw;                    /* COPY, ISLAND reductions: src has not been scaled yet */
    struct hetccl_region src;       /* COPY, SEND; ISLAND: only .buffer */
    struct hetccl_region dst;       /* COPY, COMBINE; ISLAND: only .buffer */
    uint32_t first_piece, n_pieces; /* ISLAND: into plan.pieces */
    uint32_t first_input, n_inputs; /* COMBINE: into plan.inputs, at most HETCCL_REDUCE_MAX_INPUTS */
    uint32_t first_dep, n_deps;     /* into plan.deps: indices of earlier steps */
    uint32_t chunk;                 /* which chunk of the pipeline; for traces */
    struct hetccl_step_time time;
};

struct hetccl_plan {
    enum hetccl_coll coll;
    const char *name; /* algorithm: "hier", "flat", ... static storage */
    bool is_small;    /* may send more than the bound */
    uint32_t rank;
    struct hetccl_step *steps;
    struct hetccl_piece *pieces;
    struct hetccl_input *inputs;
    uint32_t *deps;
    uint32_t n_steps, n_pieces, n_inputs, n_deps, n_chunks;
    size_t scratch_count;
    uint64_t cross_count;   /* elements this rank sends to other islands */
    double predicted_us;    /* by the cost model; 0 for p2p */
    uint64_t decision_hash; /* equal on all ranks of the call when they decided alike */
};

/* A collective call as far as planning needs it. */
struct hetccl_plan_request {
    enum hetccl_coll coll;
    uint32_t rank;
    uint32_t root;
    size_t count; /* as in the NCCL call (sendcount, recvcount, block ...) */
    size_t elem_bytes;
    bool is_in_place; /* NCCL's meaning of the call */
    bool has_scale;   /* average of floats, PreMulSum */
    /* ALLTOALLV only, by global rank: this rank's four arrays; borrowed during the call */
    const size_t *send_counts, *send_offsets, *recv_counts, *recv_offsets;
    /* limits, equal on all ranks */
    size_t chunk_bytes, small_bytes;
    const char *algo; /* forced algorithm, or "" */
};

/*
 * hetccl_plan_build -- plan one collective for one rank.
 *
 * Errors: HETCCL_ERR_USAGE (forced algorithm unknown or unfit for the call; the text lists those that fit),
 *         HETCCL_ERR_ARG (root out of range), HETCCL_ERR_SYSTEM.
 * Ownership: *out is freed by hetccl_plan_destroy(). Threads: any; pure.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_plan_build(const struct hetccl_topo *topo,
                                                      const struct hetccl_plan_request *request,
                                                      struct hetccl_plan **out);

/* One send or receive of a group. Offsets are relative to the buffers given to the executor: SEND for sends,
 * RECV for receives. */
struct hetccl_p2p {
    bool is_send;
    uint32_t peer;
    size_t offset, count; /* bytes: p2p groups are planned with elem_bytes 1 */
};

/*
 * hetccl_plan_build_p2p -- sends and receives that all progress at once; those with one peer keep their
 * order. A send to oneself pairs with a receive from oneself in order. Errors: HETCCL_ERR_USAGE when those
 * don't match.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_plan_build_p2p(const struct hetccl_topo *topo, uint32_t rank,
                                                          const struct hetccl_p2p *items, size_t n_items,
                                                          struct hetccl_plan **out);

void hetccl_plan_destroy(struct hetccl_plan *plan);

/* Names of the algorithms that fit a collective, NULL-terminated, best-known first; static storage. */
const char *const *hetccl_plan_algorithms(enum hetccl_coll coll);

/*
 * hetccl_plan_bound_bytes -- what must cross between islands, in all (DESIGN section 2): sum over all ranks
 * of cross bytes of any plan that is not is_small equals this. 0 for ALLTOALLV and P2P (only the caller
 * knows).
 */
uint64_t hetccl_plan_bound_bytes(const struct hetccl_topo *topo, enum hetccl_coll coll, size_t count,
                                 size_t elem_bytes, uint32_t root);

#endif
