/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_WIRE_MESSAGE_H
#define HETCCL_WIRE_MESSAGE_H

/* The header in front of every message on a stream connection: magic, tag, size; little endian. */

#include "base/status.h"
#include "wire/call_tag.h"

struct hetccl_message_header {
    struct hetccl_call_tag tag;
    uint64_t bytes_total; /* of the payload that follows */
};

enum { HETCCL_MESSAGE_HEADER_BYTES = 4 + 4 + HETCCL_CALL_TAG_WIRE_BYTES + 8 };

void hetccl_message_header_encode(const struct hetccl_message_header *header,
                                  uint8_t out[HETCCL_MESSAGE_HEADER_BYTES]);

/* False, and nothing written, when the bytes are no header of this revision. */
HETCCL_NODISCARD bool hetccl_message_header_decode(const uint8_t in[HETCCL_MESSAGE_HEADER_BYTES],
                                                   struct hetccl_message_header *out);

#endif
