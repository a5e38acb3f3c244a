/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_WIRE_CALL_TAG_H
#define HETCCL_WIRE_CALL_TAG_H

/*
 * The identity of a call, carried by every message and every engine slot, so that ranks that disagree are
 * told so instead of adding unlike data.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hetccl_call_tag {
    uint64_t sequence; /* number of the call on this communicator, from 1; 0 for send and recv */
    uint64_t count;    /* elements as in the call; bytes for send and recv */
    uint8_t coll;      /* enum hetccl_coll */
    uint8_t type;      /* enum hetccl_type */
    uint8_t red;       /* enum hetccl_red; 255 when the call doesn't reduce */
    uint8_t flags;     /* bit 0: scaled */
    uint32_t root;     /* UINT32_MAX when the call has none */
};

enum { HETCCL_CALL_TAG_WIRE_BYTES = 24 };

bool hetccl_call_tag_equal(const struct hetccl_call_tag *a, const struct hetccl_call_tag *b);
void hetccl_call_tag_encode(const struct hetccl_call_tag *tag, uint8_t out[HETCCL_CALL_TAG_WIRE_BYTES]);
void hetccl_call_tag_decode(const uint8_t in[HETCCL_CALL_TAG_WIRE_BYTES], struct hetccl_call_tag *out);

/* 14 bits that are the same on all ranks of a call and most likely others in another call. Captured calls are
 * repeated, so the sequence number has no part in it. */
uint32_t hetccl_call_tag_short(const struct hetccl_call_tag *tag);

enum { HETCCL_CALL_TAG_TEXT_BYTES = 128 };

/* "call 7 allreduce count 1024 float32 sum", for error texts; total: any bytes give some text. */
void hetccl_call_tag_print(const struct hetccl_call_tag *tag, char out[HETCCL_CALL_TAG_TEXT_BYTES]);

#endif
