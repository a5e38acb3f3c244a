/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/frame.h"

#include <string.h>

#include "base/memory.h"

/* What is allocated before the first byte has come. Nearly all frames are smaller. */
enum { FIRST_CAPACITY_BYTES = 64 << 10 };

static enum hetccl_status create(const struct hetccl_wire_frame *head, size_t capacity,
                                 struct hetccl_frame **out)
{
    struct hetccl_frame *frame = NULL;
    enum hetccl_status status = hetccl_alloc(sizeof(*frame) + capacity, 1, &frame);

    if (status != HETCCL_OK)
        return status;
    frame->head = *head;
    frame->capacity = capacity;
    hetccl_wire_frame_encode(head, frame->wire_head);
    *out = frame;
    return HETCCL_OK;
}

enum hetccl_status hetccl_frame_create(const struct hetccl_wire_frame *head, const void *payload,
                                       struct hetccl_frame **out)
{
    enum hetccl_status status = create(head, head->payload_bytes, out);

    if (status == HETCCL_OK && head->payload_bytes > 0)
        memcpy((*out)->payload, payload, head->payload_bytes);
    return status;
}

enum hetccl_status hetccl_frame_create_empty(const struct hetccl_wire_frame *head, struct hetccl_frame **out)
{
    return create(head, hetccl_min_size(head->payload_bytes, FIRST_CAPACITY_BYTES), out);
}

enum hetccl_status hetccl_frame_grow(struct hetccl_frame **frame)
{
    size_t capacity = hetccl_min_size((*frame)->head.payload_bytes, 2 * (*frame)->capacity);
    enum hetccl_status status = hetccl_resize(frame, sizeof(**frame) + capacity, 1);

    if (status == HETCCL_OK)
        (*frame)->capacity = capacity;
    return status;
}

void hetccl_frame_destroy(struct hetccl_frame *frame)
{
    hetccl_free(frame);
}

void hetccl_frame_queue_push(struct hetccl_frame_queue *queue, struct hetccl_frame *frame)
{
    frame->next = NULL;
    if (queue->last != NULL)
        queue->last->next = frame;
    else
        queue->first = frame;
    queue->last = frame;
    queue->n_frames++;
    queue->payload_bytes += frame->head.payload_bytes;
}

struct hetccl_frame *hetccl_frame_queue_take(struct hetccl_frame_queue *queue, struct hetccl_frame *previous)
{
    struct hetccl_frame *frame = previous != NULL ? previous->next : queue->first;

    if (previous != NULL)
        previous->next = frame->next;
    else
        queue->first = frame->next;
    if (queue->last == frame)
        queue->last = previous;
    queue->n_frames--;
    queue->payload_bytes -= frame->head.payload_bytes;
    frame->next = NULL;
    return frame;
}

struct hetccl_frame *hetccl_frame_queue_pop(struct hetccl_frame_queue *queue)
{
    return queue->first != NULL ? hetccl_frame_queue_take(queue, NULL) : NULL;
}

void hetccl_frame_queue_clear(struct hetccl_frame_queue *queue)
{
    struct hetccl_frame *frame;

    while ((frame = hetccl_frame_queue_pop(queue)) != NULL)
        hetccl_frame_destroy(frame);
}
