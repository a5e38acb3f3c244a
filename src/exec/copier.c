/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/copier.h"

#include <string.h>

#include "base/memory.h"
#include "base/time.h"

enum {
    WORDS = HETCCL_RING_SLOTS * HETCCL_RING_WORD_STRIDE, /* of a ring */
    LEAST_DWELL_NS = 50 * HETCCL_NS_PER_US,              /* for which one piece of a slot is shown */
    N_DWELLS = 8,
    COPY_NS = 2 * HETCCL_NS_PER_MS,
};

/* ---- life ---- */

static enum hetccl_status fill(struct hetccl_copier *copier)
{
    struct hetccl_device *device = copier->device;
    void *image = NULL;
    enum hetccl_status status = device->ops->image_kernel(device, "hetccl_copy", &copier->copy_kernel);

    if (status == HETCCL_OK)
        status = device->ops->stream_create(device, HETCCL_STREAM_NORMAL, &copier->release_stream);
    if (status == HETCCL_OK)
        status = device->ops->mem_alloc(device, WORDS * sizeof(uint32_t), HETCCL_MEMORY_PINNED, &image);
    copier->image = image;
    return status;
}

enum hetccl_status hetccl_copier_create(struct hetccl_device *device, struct hetccl_copier **out)
{
    struct hetccl_copier *copier;
    enum hetccl_status status = hetccl_alloc(1, sizeof(*copier), &copier);

    if (status != HETCCL_OK)
        return status;
    copier->device = device;
    pthread_mutex_init(&copier->lock, NULL);
    status = fill(copier);
    if (status != HETCCL_OK) {
        hetccl_copier_destroy(copier);
        return status;
    }
    *out = copier;
    return HETCCL_OK;
}

static void free_trace(struct hetccl_copy_trace *trace)
{
    hetccl_free(trace->rings);
    hetccl_free(trace->tags);
    hetccl_free(trace);
}

void hetccl_copier_destroy(struct hetccl_copier *copier)
{
    struct hetccl_device *device;

    if (copier == NULL)
        return;
    device = copier->device;
    while (copier->traces != NULL) {
        struct hetccl_copy_trace *trace = copier->traces;

        copier->traces = trace->next;
        free_trace(trace);
    }
    for (uint32_t i = 0; i < copier->n_events; i++)
        device->ops->event_destroy(device, copier->events[i]);
    for (uint32_t i = 0; i < HETCCL_COPY_STREAMS; i++)
        device->ops->stream_destroy(device, copier->streams[i]);
    device->ops->stream_destroy(device, copier->release_stream);
    device->ops->mem_free(device, copier->image, HETCCL_MEMORY_PINNED);
    pthread_mutex_destroy(&copier->lock);
    hetccl_free(copier->events);
    hetccl_free(copier);
}

static enum hetccl_status add_event(struct hetccl_copier *copier)
{
    struct hetccl_device *device = copier->device;
    enum hetccl_status status = HETCCL_OK;

    if (copier->n_events == copier->cap_events) {
        uint32_t wanted = copier->cap_events == 0 ? 16 : 2 * copier->cap_events;

        status = hetccl_resize(&copier->events, wanted, sizeof(*copier->events));
        if (status != HETCCL_OK)
            return status;
        copier->cap_events = wanted;
    }
    status = device->ops->event_create(device, &copier->events[copier->n_events]);
    copier->n_events += status == HETCCL_OK;
    return status;
}

enum hetccl_status hetccl_copier_reserve(struct hetccl_copier *copier, const struct hetccl_copy_order *order)
{
    struct hetccl_device *device = copier->device;
    enum hetccl_status status = HETCCL_OK;

    for (uint32_t i = 0; i < order->n_items && status == HETCCL_OK; i++) {
        uint32_t stream = order->items[i].stream;

        if (stream != 0 && copier->streams[stream].handle == NULL)
            status = device->ops->stream_create(device, HETCCL_STREAM_HIGH, &copier->streams[stream]);
    }
    while (copier->n_events < order->n_events && status == HETCCL_OK)
        status = add_event(copier);
    return status;
}

/* ---- traces ---- */

static bool has_ended(const struct hetccl_copy_trace *trace, uint32_t last_ended)
{
    return !trace->is_kept && (trace->last_number == 0 || (int32_t)(last_ended - trace->last_number) >= 0);
}

static void sweep_traces(struct hetccl_copier *copier, uint32_t last_ended)
{
    struct hetccl_copy_trace **link = &copier->traces;

    while (*link != NULL) {
        struct hetccl_copy_trace *trace = *link;

        if (trace->is_used || !has_ended(trace, last_ended)) {
            link = &trace->next;
            continue;
        }
        *link = trace->next;
        free_trace(trace);
    }
}

enum hetccl_status hetccl_copier_trace(struct hetccl_copier *copier, const struct hetccl_copy_words *rings,
                                       uint32_t n_rings, uint32_t last_ended, struct hetccl_copy_trace **out)
{
    struct hetccl_copy_trace *trace;
    enum hetccl_status status = hetccl_alloc(1, sizeof(*trace), &trace);

    if (status != HETCCL_OK)
        return status;
    status = hetccl_alloc(n_rings, sizeof(*trace->rings), &trace->rings);
    if (status != HETCCL_OK) {
        free_trace(trace);
        return status;
    }
    memcpy(trace->rings, rings, n_rings * sizeof(*rings));
    trace->n_rings = n_rings;
    trace->is_used = true;
    pthread_mutex_lock(&copier->lock);
    sweep_traces(copier, last_ended);
    trace->next = copier->traces;
    copier->traces = trace;
    pthread_mutex_unlock(&copier->lock);
    *out = trace;
    return HETCCL_OK;
}

void hetccl_copier_untrace(struct hetccl_copier *copier, struct hetccl_copy_trace *trace)
{
    pthread_mutex_lock(&copier->lock);
    trace->is_used = false;
    pthread_mutex_unlock(&copier->lock);
}

static bool has_tag(const struct hetccl_copy_trace *trace, uint32_t tag)
{
    for (uint32_t i = 0; i < trace->n_tags; i++)
        if (trace->tags[i] == tag)
            return true;
    return false;
}

static enum hetccl_status add_tag(struct hetccl_copy_trace *trace, uint32_t tag)
{
    enum hetccl_status status = HETCCL_OK;

    if (trace->n_tags == trace->cap_tags) {
        status = hetccl_resize(&trace->tags, 2 * trace->cap_tags + 2, sizeof(*trace->tags));
        if (status != HETCCL_OK)
            return status;
        trace->cap_tags = 2 * trace->cap_tags + 2;
    }
    trace->tags[trace->n_tags++] = tag;
    return HETCCL_OK;
}

enum hetccl_status hetccl_copier_note(struct hetccl_copier *copier, struct hetccl_copy_trace *trace,
                                      uint32_t tag, uint32_t number)
{
    enum hetccl_status status = HETCCL_OK;

    pthread_mutex_lock(&copier->lock);
    if (!has_tag(trace, tag))
        status = add_tag(trace, tag);
    if (number == 0)
        trace->is_kept = true;
    else
        trace->last_number = number;
    pthread_mutex_unlock(&copier->lock);
    return status;
}

/* ---- the end of calls ---- */

/* What a slot's word is to hold so that nobody waits for it, in turn `turn` of the ring. */
static uint32_t wanted_word(const struct hetccl_copy_words *ring, uint32_t tag, uint32_t turn, uint32_t slot)
{
    uint32_t piece = turn * HETCCL_RING_SLOTS + slot;

    return ring->is_send || piece >= ring->n_pieces ? 0 : hetccl_ring_mark(tag, piece);
}

/* By a copy on a stream of its own. One that doesn't get through, as the streams that wait are in its way,
 * must not hold up the others: it is then left to itself. */
static void write_device_words(struct hetccl_copier *copier, const struct hetccl_copy_words *ring,
                               uint32_t tag, uint32_t turn)
{
    struct hetccl_device *device = copier->device;
    uint64_t until_ns = hetccl_now_ns() + COPY_NS;

    if (device->ops->stream_query(device, copier->release_stream) != HETCCL_OK)
        return;
    memset(copier->image, 0, WORDS * sizeof(uint32_t));
    for (uint32_t slot = 0; slot < HETCCL_RING_SLOTS; slot++)
        copier->image[slot * HETCCL_RING_WORD_STRIDE] = wanted_word(ring, tag, turn, slot);
    if (device->ops->copy(device, copier->release_stream, ring->words, copier->image,
                          WORDS * sizeof(uint32_t)) != HETCCL_OK)
        return;
    while (device->ops->stream_query(device, copier->release_stream) == HETCCL_AGAIN &&
           hetccl_now_ns() < until_ns)
        hetccl_sleep_ns(LEAST_DWELL_NS / 10);
}

static void write_words(struct hetccl_copier *copier, const struct hetccl_copy_words *ring, uint32_t tag,
                        uint32_t turn)
{
    if (ring->host_words == NULL) {
        write_device_words(copier, ring, tag, turn);
        return;
    }
    for (uint32_t slot = 0; slot < HETCCL_RING_SLOTS; slot++)
        __atomic_store_n(&ring->host_words[slot * HETCCL_RING_WORD_STRIDE],
                         wanted_word(ring, tag, turn, slot), __ATOMIC_RELEASE);
}

static uint32_t turns_of(const struct hetccl_copy_trace *trace)
{
    uint32_t most = 1;

    for (uint32_t i = 0; i < trace->n_rings; i++) {
        uint32_t turns = (trace->rings[i].n_pieces + HETCCL_RING_SLOTS - 1) / HETCCL_RING_SLOTS;

        if (!trace->rings[i].is_send && turns > most)
            most = turns;
    }
    return most;
}

static bool is_over(const struct hetccl_copy_trace *trace, const struct hetccl_bridge_control *control)
{
    uint32_t last_ended = __atomic_load_n(&control->last_ended, __ATOMIC_ACQUIRE);

    if (trace->last_number != 0 && (int32_t)(last_ended - trace->last_number) < 0)
        return false;
    return !trace->is_kept || __atomic_load_n(&control->is_copying, __ATOMIC_ACQUIRE) == 0;
}

static void release_trace(struct hetccl_copier *copier, const struct hetccl_copy_trace *trace,
                          const struct hetccl_bridge_control *control)
{
    uint64_t dwell_ns = (uint64_t)LEAST_DWELL_NS << copier->n_releases % N_DWELLS;
    uint32_t turns = turns_of(trace);

    for (uint32_t i = 0; i < trace->n_tags; i++)
        for (uint32_t turn = 0; turn < turns && !is_over(trace, control); turn++) {
            for (uint32_t k = 0; k < trace->n_rings; k++)
                write_words(copier, &trace->rings[k], trace->tags[i], turn);
            hetccl_sleep_ns(dwell_ns);
        }
}

/* Streams see a word within microseconds and take the pieces of a turn within a millisecond, but nobody knows
 * how busy a machine is: so turns are shown for longer and longer, and then again shortly. */
void hetccl_copier_release(struct hetccl_copier *copier, const struct hetccl_bridge_control *control)
{
    pthread_mutex_lock(&copier->lock);
    for (struct hetccl_copy_trace *trace = copier->traces; trace != NULL; trace = trace->next)
        release_trace(copier, trace, control);
    copier->n_releases++;
    pthread_mutex_unlock(&copier->lock);
}
