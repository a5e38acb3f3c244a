/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_WIRE_FRAME_H
#define HETCCL_WIRE_FRAME_H

/* What follows the hello on registration and control connections: frames of a fixed header and a bounded
 * payload. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HETCCL_WIRE_FRAME_BYTES = 32, /* the header */
    HETCCL_WIRE_SMALL_BYTES = 4096,
    HETCCL_WIRE_LARGE_BYTES = 64 << 20,
    HETCCL_WIRE_MAX_RANKS = 1 << 20,
};

enum hetccl_frame_kind {
    /* 1 .. 999: messages of the mesh's user, at most HETCCL_WIRE_SMALL_BYTES */
    HETCCL_FRAME_USER_FIRST = 1,
    HETCCL_FRAME_USER_LAST = 999,
    /* between ranks */
    HETCCL_FRAME_GATHER = 1000,  /* one round of an all-gather; at most HETCCL_WIRE_LARGE_BYTES */
    HETCCL_FRAME_FAILURE = 1001, /* a failure record, passed on to all */
    HETCCL_FRAME_LEAVE = 1002,   /* the source rank is gone on purpose; no payload */
    /* between a rank and the root */
    HETCCL_FRAME_REGISTER = 1010, /* rank to root */
    HETCCL_FRAME_GIVE_UP = 1011,  /* rank to root: a failure record */
    HETCCL_FRAME_STATUS = 1020,   /* root to rank: who is missing */
    HETCCL_FRAME_WELCOME = 1021,  /* root to rank: mesh key and neighbours */
    HETCCL_FRAME_REJECT = 1022,   /* root to rank: a failure record */
};

struct hetccl_wire_frame {
    uint32_t payload_bytes;
    uint16_t kind;
    uint16_t round; /* gather */
    uint64_t mesh_key;
    uint32_t src_rank, dst_rank;
    uint32_t sequence; /* gather: number of the all-gather on the mesh */
};

/* The most a payload of the kind may have; 0 for kinds without one. False when there is no such kind. */
bool hetccl_wire_frame_limit(uint16_t kind, size_t *max_bytes_out);

void hetccl_wire_frame_encode(const struct hetccl_wire_frame *frame, uint8_t out[HETCCL_WIRE_FRAME_BYTES]);

/* False for an unknown kind, a payload above its limit, or ranks out of any range. */
bool hetccl_wire_frame_decode(const uint8_t in[HETCCL_WIRE_FRAME_BYTES], struct hetccl_wire_frame *out);

#endif
