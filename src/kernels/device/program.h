/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_KERNELS_DEVICE_PROGRAM_H
#define HETCCL_KERNELS_DEVICE_PROGRAM_H

/*
 * What the bridge kernel executes: one rank's part of a collective, as operations over rings. Filled by the
 * host (exec/program.c), read by the kernel (bridge.c). Fixed-width members, no padding: the same on the host
 * and on all targets.
 *
 * A ring carries pieces of messages one way, from one rank to another. Piece number n of a call lies in slot
 * n mod HETCCL_RING_SLOTS. One word a slot, HETCCL_RING_WORD_STRIDE words apart, says whose turn it is: 0 the
 * sender's, who writes the slot and then what hetccl_ring_mark() gives for the piece; the receiver reads and
 * writes 0 again. The word behind it holds the piece's bytes, for whoever forwards slots without a program.
 *
 * Nothing else is remembered from one call to the next: every call begins with piece 0 and leaves all slots
 * empty. So a captured launch can be replayed, and the two ends of a ring may be served by different kinds of
 * movers.
 */

#include <stdint.h>

#include "kernels/kernels.h"

enum {
    HETCCL_RING_SLOTS = 64,
    HETCCL_RING_WORD_STRIDE = 32, /* uint32_t from one slot's word to the next: lines of their own */
    HETCCL_BRIDGE_MAX_LANES_PER_BLOCK = 32,
    HETCCL_BRIDGE_INLINE_WORDS = 640, /* of a program that travels with its launch */
};

/* A ring by the addresses of the device that works on it. */
struct hetccl_ring_view {
    uint32_t *words;
    unsigned char *data;
    uint64_t slot_bytes;
};

/* What a slot's word holds for piece number `piece` of a call with this tag (14 bits count). */
static inline uint32_t hetccl_ring_mark(uint32_t tag, uint32_t piece)
{
    return UINT32_C(1) << 30 | (tag & 0x3fff) << 16 | (piece & 0xffff);
}

enum hetccl_bridge_kind {
    HETCCL_BRIDGE_COPY,
    HETCCL_BRIDGE_SEND,
    HETCCL_BRIDGE_COMBINE,
    HETCCL_BRIDGE_ISLAND, /* not the kernel's: only its counter is */
};

/* Which base address an offset counts from. */
enum { HETCCL_BRIDGE_BUFFERS = 3, HETCCL_BRIDGE_NO_LANE = UINT32_C(0xffffffff) };

/*
 * One operation. Its elements are taken in pieces: piece i has piece_count of them, the last one the rest.
 *
 *   COPY     dst = src, scaled if src is raw
 *   SEND     src, scaled if raw, into the ring of its lane, from ring piece first_piece on
 *   COMBINE  dst = reduction of its inputs in order
 */
struct hetccl_bridge_op {
    uint64_t src_offset, dst_offset; /* bytes */
    uint64_t count;                  /* elements */
    uint32_t piece_count;
    uint32_t n_pieces;
    uint32_t first_piece;
    uint32_t first_dep, n_deps;     /* into deps: operations that have to be done first */
    uint32_t first_input, n_inputs; /* COMBINE */
    uint8_t kind, src_buffer, dst_buffer, is_raw;
    uint32_t is_watched; /* some operation waits for this one */
    uint32_t reserved;
};

/* One input of a COMBINE: memory, or the pieces of the next message of a lane. */
struct hetccl_bridge_input {
    uint64_t offset; /* bytes; memory only */
    uint32_t lane;   /* into recv_lanes, or HETCCL_BRIDGE_NO_LANE */
    uint32_t first_piece;
    uint32_t buffer, is_raw;
};

/* Messages to one rank: operations [first_op, first_op + n_ops), in order. */
struct hetccl_bridge_send_lane {
    struct hetccl_ring_view ring;
    uint32_t first_op, n_ops;
};

/* Operation `op` is done when `n_blocks` blocks have said so. */
struct hetccl_bridge_dep {
    uint32_t op, n_blocks;
};

/* In host memory, for kernel and host. */
struct hetccl_bridge_control {
    uint32_t stop;  /* not 0: every kernel of the communicator ends as soon as it waits for something */
    uint32_t error; /* 1: a lane brought a piece of another call */
    uint32_t lane, seen, expected;
    uint32_t reserved[11];
    uint32_t n_ended;    /* launches, replayed ones too; wraps around */
    uint32_t n_waiting;  /* n_ended + 1 of the launch that was last seen waiting for long */
    uint32_t last_ended; /* the number of the last launch that ended and had one */
    uint32_t is_copying; /* not 0: a captured call of a copy mover runs */
    uint32_t has_begun;  /* not 0: one has begun since the host set it to 0 */
    uint32_t more_reserved[11];
};

/* In device memory, of one communicator: its launches come one after the other. All 0 in the beginning. */
struct hetccl_bridge_memory {
    uint32_t n_ended;      /* as in control, which is far away */
    uint32_t n_blocks_out; /* of the running launch */
    uint32_t reserved[2];
};

/* Where the parts of a program begin; bytes from its start. */
struct hetccl_bridge_layout {
    uint32_t ops, inputs, deps, send_lanes, recv_lanes, bytes;
};

/*
 * One launch. Operations [0, n_local) are COPY and COMBINE, executed in order by n_local_blocks blocks; those
 * behind them are SENDs by lane. Each send lane has lane_blocks blocks, or, where there are more lanes than
 * n_send_blocks, blocks take lanes in turn (lane_blocks is 1 then). lane_blocks divides HETCCL_RING_SLOTS.
 *
 * program   in device memory, or NULL: it is in inline_words
 * counters  [in,out] one word an operation, all 0 before and after; NULL where no operation waits for another
 * number    of the launch, for control->last_ended; 0: a captured launch has none
 */
struct hetccl_bridge_args {
    void *buffers[HETCCL_BRIDGE_BUFFERS];
    const void *program;
    uint32_t *counters;
    struct hetccl_bridge_control *control;
    struct hetccl_bridge_memory *memory;
    const void
        *scale_pointer; /* device memory that holds the scale's element when the kernel runs, or NULL */
    struct hetccl_scale scale, one;
    struct hetccl_bridge_layout layout;
    uint32_t n_ops, n_local, n_send_lanes;
    uint32_t n_local_blocks, n_send_blocks, lane_blocks;
    uint32_t tag;
    uint32_t red, type; /* enum hetccl_red, enum hetccl_type */
    uint32_t number;
    uint32_t inline_words[HETCCL_BRIDGE_INLINE_WORDS];
};

#endif
