/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_BOOTSTRAP_FRAME_H
#define HETCCL_BOOTSTRAP_FRAME_H

/* A frame in memory, and queues of them. A frame has one owner and is in one queue at most. */

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "wire/frame.h"

struct hetccl_frame {
    struct hetccl_frame *next;
    struct hetccl_wire_frame head;
    uint8_t wire_head[HETCCL_WIRE_FRAME_BYTES]; /* head encoded, for sending */
    size_t capacity;                            /* of payload; a frame being received grows */
    uint8_t payload[];
};

struct hetccl_frame_queue {
    struct hetccl_frame *first, *last;
    size_t n_frames, payload_bytes;
};

/* A frame with a copy of the payload, ready to send. HETCCL_ERR_SYSTEM without memory. */
HETCCL_NODISCARD enum hetccl_status hetccl_frame_create(const struct hetccl_wire_frame *head,
                                                        const void *payload, struct hetccl_frame **out);

/* An empty frame for receiving; memory for the payload comes with the bytes, not with the length that a peer
 * claims. */
HETCCL_NODISCARD enum hetccl_status hetccl_frame_create_empty(const struct hetccl_wire_frame *head,
                                                              struct hetccl_frame **out);

/* Makes room for more payload; *frame may move. */
HETCCL_NODISCARD enum hetccl_status hetccl_frame_grow(struct hetccl_frame **frame);

void hetccl_frame_destroy(struct hetccl_frame *frame);

void hetccl_frame_queue_push(struct hetccl_frame_queue *queue, struct hetccl_frame *frame);

/* The first frame, taken out; NULL when there is none. */
struct hetccl_frame *hetccl_frame_queue_pop(struct hetccl_frame_queue *queue);

/* Takes out the frame after `previous` (NULL: the first). It must be there. */
struct hetccl_frame *hetccl_frame_queue_take(struct hetccl_frame_queue *queue, struct hetccl_frame *previous);

void hetccl_frame_queue_clear(struct hetccl_frame_queue *queue);

#endif
