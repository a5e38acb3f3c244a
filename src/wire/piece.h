/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_WIRE_PIECE_H
#define HETCCL_WIRE_PIECE_H

/*
 * The frame in front of every piece that is forwarded between two ranks' rings (exec/forward.h). Fixed size:
 * a receiver knows nothing of what comes next. Little endian: mark, bytes, freed slots, then the data of a
 * short piece.
 */

#include <stdint.h>

#include "base/status.h"

enum {
    HETCCL_PIECE_INLINE_BYTES = 240, /* pieces up to this travel inside their frame */
    HETCCL_PIECE_FRAME_BYTES = 16 + HETCCL_PIECE_INLINE_BYTES,
};

struct hetccl_piece_head {
    uint32_t mark;        /* hetccl_ring_mark(); 0: no piece, only freed slots */
    uint32_t bytes;       /* of the piece; 0 without one */
    uint64_t freed_slots; /* a bit a slot that the other direction's sender may fill again */
};

/* Writes the head; the inline data behind it is left alone. */
void hetccl_piece_head_encode(const struct hetccl_piece_head *head, uint8_t out[HETCCL_PIECE_FRAME_BYTES]);

/* False, and nothing written, for a mark that is none, or bytes that don't fit to it. */
HETCCL_NODISCARD bool hetccl_piece_head_decode(const uint8_t in[HETCCL_PIECE_FRAME_BYTES],
                                               struct hetccl_piece_head *out);

static inline uint8_t *hetccl_piece_inline(uint8_t *frame)
{
    return frame + 16;
}

#endif
