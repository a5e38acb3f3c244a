/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/frame.h"

#include <string.h>

#include "wire/cursor.h"
#include "wire/records.h"

bool hetccl_wire_frame_limit(uint16_t kind, size_t *max_bytes_out)
{
    if (kind >= HETCCL_FRAME_USER_FIRST && kind <= HETCCL_FRAME_USER_LAST) {
        *max_bytes_out = HETCCL_WIRE_SMALL_BYTES;
        return true;
    }
    switch (kind) {
    case HETCCL_FRAME_GATHER:
        *max_bytes_out = HETCCL_WIRE_LARGE_BYTES;
        return true;
    case HETCCL_FRAME_LEAVE:
        *max_bytes_out = 0;
        return true;
    case HETCCL_FRAME_FAILURE:
    case HETCCL_FRAME_GIVE_UP:
    case HETCCL_FRAME_REJECT:
        *max_bytes_out = HETCCL_WIRE_FAILURE_BYTES;
        return true;
    case HETCCL_FRAME_REGISTER:
        *max_bytes_out = HETCCL_WIRE_REGISTER_BYTES;
        return true;
    case HETCCL_FRAME_STATUS:
        *max_bytes_out = HETCCL_WIRE_MISSING_BYTES;
        return true;
    case HETCCL_FRAME_WELCOME:
        *max_bytes_out = HETCCL_WIRE_WELCOME_MAX_BYTES;
        return true;
    default:
        return false;
    }
}

void hetccl_wire_frame_encode(const struct hetccl_wire_frame *frame, uint8_t out[HETCCL_WIRE_FRAME_BYTES])
{
    struct hetccl_wire_writer writer = hetccl_wire_writer(out, HETCCL_WIRE_FRAME_BYTES);

    hetccl_wire_put_u32(&writer, frame->payload_bytes);
    hetccl_wire_put_u16(&writer, frame->kind);
    hetccl_wire_put_u16(&writer, frame->round);
    hetccl_wire_put_u64(&writer, frame->mesh_key);
    hetccl_wire_put_u32(&writer, frame->src_rank);
    hetccl_wire_put_u32(&writer, frame->dst_rank);
    hetccl_wire_put_u32(&writer, frame->sequence);
    hetccl_wire_put_u32(&writer, 0);
}

bool hetccl_wire_frame_decode(const uint8_t in[HETCCL_WIRE_FRAME_BYTES], struct hetccl_wire_frame *out)
{
    struct hetccl_wire_reader reader = hetccl_wire_reader(in, HETCCL_WIRE_FRAME_BYTES);
    struct hetccl_wire_frame frame;
    size_t max_bytes;

    memset(&frame, 0, sizeof(frame));
    frame.payload_bytes = hetccl_wire_get_u32(&reader);
    frame.kind = hetccl_wire_get_u16(&reader);
    frame.round = hetccl_wire_get_u16(&reader);
    frame.mesh_key = hetccl_wire_get_u64(&reader);
    frame.src_rank = hetccl_wire_get_u32(&reader);
    frame.dst_rank = hetccl_wire_get_u32(&reader);
    frame.sequence = hetccl_wire_get_u32(&reader);
    if (hetccl_wire_get_u32(&reader) != 0)
        return false;
    if (!hetccl_wire_frame_limit(frame.kind, &max_bytes) || frame.payload_bytes > max_bytes)
        return false;
    if (frame.src_rank >= HETCCL_WIRE_MAX_RANKS || frame.dst_rank >= HETCCL_WIRE_MAX_RANKS)
        return false;
    *out = frame;
    return true;
}
