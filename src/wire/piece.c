/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/piece.h"

#include "wire/cursor.h"

enum { HEAD_BYTES = HETCCL_PIECE_FRAME_BYTES - HETCCL_PIECE_INLINE_BYTES };

void hetccl_piece_head_encode(const struct hetccl_piece_head *head, uint8_t out[HETCCL_PIECE_FRAME_BYTES])
{
    struct hetccl_wire_writer writer = hetccl_wire_writer(out, HEAD_BYTES);

    hetccl_wire_put_u32(&writer, head->mark);
    hetccl_wire_put_u32(&writer, head->bytes);
    hetccl_wire_put_u64(&writer, head->freed_slots);
}

bool hetccl_piece_head_decode(const uint8_t in[HETCCL_PIECE_FRAME_BYTES], struct hetccl_piece_head *out)
{
    struct hetccl_wire_reader reader = hetccl_wire_reader(in, HEAD_BYTES);
    struct hetccl_piece_head head;

    head.mark = hetccl_wire_get_u32(&reader);
    head.bytes = hetccl_wire_get_u32(&reader);
    head.freed_slots = hetccl_wire_get_u64(&reader);
    /* The upper two bits of a mark are 0 and 1. */
    if ((head.mark != 0 && head.mark >> 30 != 1) || (head.mark == 0) != (head.bytes == 0))
        return false;
    *out = head;
    return true;
}
