/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/message.h"

#include <string.h>

enum { TAG_AT = 8, BYTES_AT = TAG_AT + HETCCL_CALL_TAG_WIRE_BYTES };

/* "HCM1": changes with the layout. The four bytes after it are zero. */
static const uint8_t lead[TAG_AT] = {'H', 'C', 'M', '1', 0, 0, 0, 0};

void hetccl_message_header_encode(const struct hetccl_message_header *header,
                                  uint8_t out[HETCCL_MESSAGE_HEADER_BYTES])
{
    memcpy(out, lead, sizeof(lead));
    hetccl_call_tag_encode(&header->tag, out + TAG_AT);
    for (size_t i = 0; i < 8; i++)
        out[BYTES_AT + i] = (uint8_t)(header->bytes_total >> (8 * i));
}

bool hetccl_message_header_decode(const uint8_t in[HETCCL_MESSAGE_HEADER_BYTES],
                                  struct hetccl_message_header *out)
{
    uint64_t bytes_total = 0;

    if (memcmp(in, lead, sizeof(lead)) != 0)
        return false;
    hetccl_call_tag_decode(in + TAG_AT, &out->tag);
    for (size_t i = 0; i < 8; i++)
        bytes_total |= (uint64_t)in[BYTES_AT + i] << (8 * i);
    out->bytes_total = bytes_total;
    return true;
}
