/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "fake.h"

/* An event is the marker of its last record, or a point in a capture. */
struct CUevent_st {
    struct CUevent_st *next;
    struct fake_marker *marker; /* NULL: never recorded, or in a capture */
    uint64_t capture_id;        /* 0: not in a capture */
    struct fake_tail tail;
};

static struct CUevent_st *events;

static struct CUevent_st **find_link(const struct CUevent_st *event)
{
    struct CUevent_st **link = &events;

    while (*link != NULL && *link != event)
        link = &(*link)->next;
    return link;
}

size_t fake_event_count(void)
{
    size_t n = 0;

    pthread_mutex_lock(&fake_lock);
    for (const struct CUevent_st *event = events; event != NULL; event = event->next)
        n++;
    pthread_mutex_unlock(&fake_lock);
    return n;
}

unsigned cuEventCreate(struct CUevent_st **event, unsigned flags)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);
    struct CUevent_st *created;

    if (code != 0)
        return code;
    created = calloc(1, sizeof(*created));
    if (created == NULL)
        return HETCCL_CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&fake_lock);
    created->next = events;
    events = created;
    pthread_mutex_unlock(&fake_lock);
    *event = created;
    return 0;
}

unsigned cuEventDestroy_v2(struct CUevent_st *event)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);
    struct CUevent_st **link;

    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    link = find_link(event);
    if (*link == NULL) {
        code = HETCCL_CUDA_ERROR_INVALID_HANDLE;
    } else {
        *link = event->next;
        fake_marker_put(event->marker);
        fake_tail_clear(&event->tail);
        free(event);
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

static unsigned record_in_capture(struct CUevent_st *event, const struct CUstream_st *stream)
{
    unsigned code = fake_capture_record(stream, &event->tail, &event->capture_id);

    if (code == 0) {
        fake_marker_put(event->marker);
        event->marker = NULL;
    }
    return code;
}

static unsigned record(struct CUevent_st *event, struct CUstream_st *stream)
{
    struct fake_op op = {.kind = FAKE_MARK, .marker = fake_marker_new(2)};
    struct CUstream_st *found = fake_stream_find(stream);
    unsigned code = op.marker == NULL ? HETCCL_CUDA_ERROR_OUT_OF_MEMORY : 0;

    if (code == 0 && found != NULL && fake_capture_is_on(found)) {
        free(op.marker);
        return record_in_capture(event, found);
    }
    if (code == 0)
        code = fake_enqueue_locked(stream, &op);
    if (code != 0) {
        free(op.marker);
        return code;
    }
    fake_marker_put(event->marker);
    event->marker = op.marker;
    event->capture_id = 0;
    return 0;
}

unsigned cuEventRecord(struct CUevent_st *event, struct CUstream_st *stream)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);

    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    code = *find_link(event) == NULL ? HETCCL_CUDA_ERROR_INVALID_HANDLE : record(event, stream);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

unsigned cuEventQuery(struct CUevent_st *event)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);

    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    if (*find_link(event) == NULL)
        code = HETCCL_CUDA_ERROR_INVALID_HANDLE;
    else if (event->capture_id != 0)
        code = HETCCL_CUDA_ERROR_CAPTURED_EVENT;
    else if (event->marker != NULL && !event->marker->is_reached)
        code = HETCCL_CUDA_ERROR_NOT_READY;
    pthread_mutex_unlock(&fake_lock);
    return code;
}

static unsigned wait_for(struct CUstream_st *stream, struct CUevent_st *event)
{
    struct fake_op op = {.kind = FAKE_WAIT, .marker = event->marker};
    struct CUstream_st *found = fake_stream_find(stream);
    unsigned code;

    if (found == NULL)
        return HETCCL_CUDA_ERROR_INVALID_HANDLE;
    if (event->capture_id != 0)
        return fake_capture_wait(found, &event->tail, event->capture_id);
    if (event->marker == NULL)
        return 0;
    if (fake_capture_is_on(found))
        return fake_capture_wait(found, &event->tail, 0);
    code = fake_enqueue_locked(stream, &op);
    if (code == 0)
        event->marker->n_refs++;
    return code;
}

unsigned cuStreamWaitEvent(struct CUstream_st *stream, struct CUevent_st *event, unsigned flags)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);

    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    code = *find_link(event) == NULL ? HETCCL_CUDA_ERROR_INVALID_HANDLE : wait_for(stream, event);
    pthread_mutex_unlock(&fake_lock);
    return code;
}
