/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/bridge.h"

#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"
#include "base/time.h"
#include "exec/copier.h"

enum {
    UNITS_A_BLOCK = 2, /* see max_blocks() */
    LEAST_BLOCKS = 4,
    STOP_WAIT_MS = 1500,
    LEAST_BLOB_BYTES = 4096,
};

/* ---- life ---- */

/* Runs a stream of our own to its end: nothing that the caller has enqueued is waited for. */
static enum hetccl_status finish(struct hetccl_bridge *bridge, struct hetccl_stream stream,
                                 enum hetccl_status status)
{
    while (status == HETCCL_OK) {
        status = bridge->device->ops->stream_query(bridge->device, stream);
        if (status != HETCCL_AGAIN)
            break;
        status = HETCCL_OK;
    }
    bridge->device->ops->stream_destroy(bridge->device, stream);
    return status;
}

static enum hetccl_status clear(struct hetccl_bridge *bridge, void *memory, size_t bytes)
{
    struct hetccl_device *device = bridge->device;
    struct hetccl_stream stream;
    enum hetccl_status status = device->ops->stream_create(device, HETCCL_STREAM_NORMAL, &stream);

    if (status != HETCCL_OK)
        return status;
    return finish(bridge, stream, device->ops->fill(device, stream, memory, 0, bytes));
}

static enum hetccl_status make_control(struct hetccl_bridge *bridge)
{
    struct hetccl_device *device = bridge->device;
    void *memory = NULL, *address = NULL;
    enum hetccl_status status =
        device->ops->mem_alloc(device, sizeof(*bridge->control), HETCCL_MEMORY_PINNED, &memory);

    if (status != HETCCL_OK)
        return status;
    bridge->control = memory;
    memset(memory, 0, sizeof(*bridge->control));
    status = device->ops->device_address(device, memory, &address);
    bridge->control_address = address;
    if (status == HETCCL_OK)
        status = device->ops->mem_alloc(device, sizeof(*bridge->memory), HETCCL_MEMORY_DEVICE, &memory);
    if (status != HETCCL_OK)
        return status;
    bridge->memory = memory;
    return clear(bridge, memory, sizeof(*bridge->memory));
}

static void give_back(struct hetccl_bridge *bridge)
{
    struct hetccl_device *device = bridge->device;

    while (bridge->blobs != NULL) {
        struct hetccl_blob *blob = bridge->blobs;

        bridge->blobs = blob->next;
        device->ops->mem_free(device, blob->memory, HETCCL_MEMORY_DEVICE);
        hetccl_free(blob);
    }
    hetccl_copier_destroy(bridge->copier);
    device->ops->stream_destroy(device, bridge->engine_stream);
    device->ops->stream_destroy(device, bridge->release_stream);
    device->ops->event_destroy(device, bridge->event);
    device->ops->event_destroy(device, bridge->capture_event);
    device->ops->event_destroy(device, bridge->join_event);
    device->ops->mem_free(device, bridge->memory, HETCCL_MEMORY_DEVICE);
    device->ops->mem_free(device, bridge->control, HETCCL_MEMORY_PINNED);
    hetccl_free(bridge);
}

/* Processes whose kernels take turns by the time slice must not wait in kernels for each other. */
static enum hetccl_status choose_mover(struct hetccl_bridge *bridge,
                                       const struct hetccl_bridge_options *options)
{
    struct hetccl_device *device = bridge->device;
    bool takes_turns = options->n_sharing > 1 && !device->is_shared;

    bridge->copy_bytes = options->copy_bytes;
    if (options->mover == HETCCL_MOVER_KERNEL)
        return HETCCL_OK;
    if (options->mover == HETCCL_MOVER_COPY && !device->has_stream_values)
        return hetccl_fail(HETCCL_ERR_USAGE,
                           "HETCCL_MOVER=copy needs stream memory operations, which device %s %d doesn't "
                           "have: update its driver, or set HETCCL_MOVER=kernel",
                           device->ops->name, device->ordinal);
    if (!device->has_stream_values)
        return HETCCL_OK;
    if (options->mover == HETCCL_MOVER_COPY || takes_turns)
        bridge->copy_bytes = 0;
    return hetccl_copier_create(device, &bridge->copier);
}

static enum hetccl_status make_events(struct hetccl_bridge *bridge)
{
    struct hetccl_device *device = bridge->device;
    enum hetccl_status status = device->ops->event_create(device, &bridge->event);

    if (status == HETCCL_OK)
        status = device->ops->event_create(device, &bridge->capture_event);
    if (status == HETCCL_OK)
        status = device->ops->event_create(device, &bridge->join_event);
    return status;
}

/*
 * A block that waits keeps its multiprocessor's registers and shared memory, and a large matrix product may
 * need all of them: with blocks of ours on every multiprocessor, a rank that is still computing would never
 * get to the collective for which the others wait. So half of them stay free of us, however many ranks share
 * the GPU.
 */
static uint32_t max_blocks(const struct hetccl_device *device, uint32_t n_sharing)
{
    return (uint32_t)hetccl_max_size(device->n_units / UNITS_A_BLOCK / n_sharing, LEAST_BLOCKS);
}

enum hetccl_status hetccl_bridge_create(struct hetccl_device *device,
                                        const struct hetccl_bridge_options *options,
                                        struct hetccl_bridge **out)
{
    struct hetccl_bridge *bridge;
    enum hetccl_status status = hetccl_alloc(1, sizeof(*bridge), &bridge);

    if (status != HETCCL_OK)
        return status;
    bridge->device = device;
    bridge->slot_bytes = options->slot_bytes;
    bridge->max_blocks = max_blocks(device, options->n_sharing);
    status = make_control(bridge);
    if (status == HETCCL_OK)
        status = device->ops->image_kernel(device, "hetccl_bridge", &bridge->kernel);
    if (status == HETCCL_OK)
        status = make_events(bridge);
    if (status == HETCCL_OK)
        status = choose_mover(bridge, options);
    if (status != HETCCL_OK) {
        give_back(bridge);
        return status;
    }
    *out = bridge;
    return HETCCL_OK;
}

bool hetccl_bridge_destroy(struct hetccl_bridge *bridge)
{
    enum hetccl_status status = HETCCL_AGAIN;
    uint64_t until_ns = hetccl_now_ns() + STOP_WAIT_MS * HETCCL_NS_PER_MS;

    if (bridge == NULL)
        return true;
    while (hetccl_now_ns() < until_ns) {
        status = hetccl_bridge_query(bridge);
        if (status != HETCCL_AGAIN)
            break;
        hetccl_bridge_stop(bridge);
        hetccl_bridge_release(bridge);
        hetccl_sleep_ns(HETCCL_NS_PER_MS);
    }
    /* After a device error nothing runs any more, and nothing can be asked. */
    if (status == HETCCL_AGAIN)
        return false;
    give_back(bridge);
    return true;
}

/* ---- ending launches ---- */

static uint32_t load_word(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

void hetccl_bridge_stop(struct hetccl_bridge *bridge)
{
    __atomic_store_n(&bridge->control->stop, 1, __ATOMIC_RELEASE);
}

bool hetccl_bridge_has_mismatch(const struct hetccl_bridge *bridge)
{
    return load_word(&bridge->control->error) != 0;
}

uint32_t hetccl_bridge_mismatch_number(const struct hetccl_bridge *bridge)
{
    return hetccl_bridge_has_mismatch(bridge) ? load_word(&bridge->control->number) : 0;
}

bool hetccl_bridge_has_ended(const struct hetccl_bridge *bridge, uint32_t number)
{
    return number == 0 || (int32_t)(load_word(&bridge->control->last_ended) - number) >= 0;
}

/* The event is asked in any case: it is how a broken device is noticed, whose launches never end. */
enum hetccl_status hetccl_bridge_query(struct hetccl_bridge *bridge)
{
    enum hetccl_status status = bridge->device->ops->event_query(bridge->device, bridge->event);

    if (status != HETCCL_OK)
        return status;
    if (!hetccl_bridge_has_ended(bridge, atomic_load(&bridge->last_number)) ||
        load_word(&bridge->control->is_copying) != 0 ||
        (int32_t)(load_word(&bridge->control->n_waiting) - load_word(&bridge->control->n_ended)) > 0)
        return HETCCL_AGAIN;
    return HETCCL_OK;
}

/* The device is asked last: it takes its time. One that fails is somebody else's to report. */
bool hetccl_bridge_may_run(struct hetccl_bridge *bridge)
{
    return atomic_load(&bridge->has_captured) ||
           !hetccl_bridge_has_ended(bridge, atomic_load(&bridge->last_number)) ||
           hetccl_bridge_query(bridge) != HETCCL_OK;
}

uint64_t hetccl_bridge_count(struct hetccl_bridge *bridge)
{
    bridge->n_begun += __atomic_exchange_n(&bridge->control->has_begun, 0, __ATOMIC_ACQ_REL) != 0;
    return (uint64_t)(load_word(&bridge->control->n_ended) + bridge->n_begun) << 32 |
           atomic_load(&bridge->last_number);
}

uint32_t hetccl_bridge_last_ended(const struct hetccl_bridge *bridge)
{
    return load_word(&bridge->control->last_ended);
}

/* Values larger than any that a stream waits for, until whoever waits has seen them. The kernel has stopped.
 */
static void release_blobs(struct hetccl_bridge *bridge)
{
    struct hetccl_device *device = bridge->device;

    if (bridge->release_stream.handle == NULL)
        return;
    for (struct hetccl_blob *blob = bridge->blobs; blob != NULL; blob = blob->next)
        if (blob->waited_bytes > 0)
            (void)!device->ops->fill(device, bridge->release_stream,
                                     (char *)blob->memory + blob->waited_offset, 0x7f, blob->waited_bytes);
}

void hetccl_bridge_release(struct hetccl_bridge *bridge)
{
    release_blobs(bridge);
    if (bridge->copier != NULL)
        hetccl_copier_release(bridge->copier, bridge->control);
}

/* ---- the order of streams ---- */

static enum hetccl_status read_capture(struct hetccl_bridge *bridge, struct hetccl_stream stream,
                                       struct hetccl_capture *out)
{
    enum hetccl_status status = bridge->device->ops->stream_capture(bridge->device, stream, out);

    if (status == HETCCL_OK && out->is_invalidated)
        status = hetccl_fail(HETCCL_ERR_USAGE,
                             "the stream's graph capture has failed before this call; end it first");
    return status;
}

/*
 * After the last call outside of captures. Recording an event after every launch would cost the GPU more than
 * a microsecond a call, so where the device can wait for a word it waits for what the last kernel writes.
 */
static enum hetccl_status wait_for_last(struct hetccl_bridge *bridge, struct hetccl_stream stream)
{
    struct hetccl_device *device = bridge->device;
    uint32_t number = atomic_load(&bridge->last_number);

    if (bridge->is_event_last)
        return device->ops->stream_wait_event(device, stream, bridge->event);
    if (number == 0)
        return HETCCL_OK;
    return device->ops->stream_wait_value(device, stream, &bridge->control_address->last_ended, number);
}

/* 0 says that there is none. */
static uint32_t next_number(const struct hetccl_bridge *bridge)
{
    uint32_t number = atomic_load(&bridge->last_number) + 1;

    return number + (number == 0);
}

enum hetccl_status hetccl_bridge_enter(struct hetccl_bridge *bridge, struct hetccl_stream stream)
{
    struct hetccl_capture capture;
    enum hetccl_status status = read_capture(bridge, stream, &capture);
    bool is_same;

    if (status != HETCCL_OK)
        return status;
    bridge->is_capturing = capture.is_capturing;
    bridge->number = capture.is_capturing ? 0 : next_number(bridge);
    is_same = !bridge->has_entered || bridge->last_stream.handle == stream.handle;
    if (!capture.is_capturing)
        return is_same && bridge->last_capture == 0 ? HETCCL_OK : wait_for_last(bridge, stream);
    /* What is captured is ordered by the graph's launches, against which events outside say nothing. */
    if (is_same || bridge->last_capture != capture.id)
        return HETCCL_OK;
    return bridge->device->ops->stream_wait_event(bridge->device, stream, bridge->capture_event);
}

/* Recorded events of a capture cost nothing when the graph runs. */
static enum hetccl_status leave_capture(struct hetccl_bridge *bridge, struct hetccl_stream stream)
{
    struct hetccl_capture capture;
    enum hetccl_status status = read_capture(bridge, stream, &capture);

    if (status == HETCCL_OK)
        status = bridge->device->ops->event_record(bridge->device, bridge->capture_event, stream);
    if (status == HETCCL_OK)
        bridge->last_capture = capture.id;
    atomic_store(&bridge->has_captured, true);
    return status;
}

enum hetccl_status hetccl_bridge_leave(struct hetccl_bridge *bridge, struct hetccl_stream stream,
                                       bool has_tail)
{
    enum hetccl_status status = HETCCL_OK;

    if (bridge->is_capturing) {
        status = leave_capture(bridge, stream);
    } else {
        bridge->is_event_last = has_tail || !bridge->device->has_stream_values;
        bridge->last_capture = 0;
        if (bridge->is_event_last)
            status = bridge->device->ops->event_record(bridge->device, bridge->event, stream);
    }
    bridge->last_stream = stream;
    bridge->has_entered = true;
    return status;
}

uint32_t hetccl_bridge_number(struct hetccl_bridge *bridge)
{
    if (!bridge->is_capturing)
        atomic_store(&bridge->last_number, bridge->number);
    return bridge->number;
}

enum hetccl_status hetccl_bridge_join(struct hetccl_bridge *bridge, struct hetccl_stream from,
                                      struct hetccl_stream to)
{
    struct hetccl_device *device = bridge->device;
    enum hetccl_status status = device->ops->event_record(device, bridge->join_event, from);

    return status == HETCCL_OK ? device->ops->stream_wait_event(device, to, bridge->join_event) : status;
}

enum hetccl_status hetccl_bridge_engine_stream(struct hetccl_bridge *bridge, struct hetccl_stream *out)
{
    struct hetccl_device *device = bridge->device;
    enum hetccl_status status = HETCCL_OK;

    if (bridge->engine_stream.handle == NULL)
        status = device->ops->stream_create(device, HETCCL_STREAM_HIGH, &bridge->engine_stream);
    if (status == HETCCL_OK && bridge->release_stream.handle == NULL)
        status = device->ops->stream_create(device, HETCCL_STREAM_HIGH, &bridge->release_stream);
    if (status == HETCCL_OK)
        *out = bridge->engine_stream;
    return status;
}

/* ---- memory ---- */

static bool is_reusable(const struct hetccl_bridge *bridge, const struct hetccl_blob *blob, size_t bytes)
{
    if (blob->is_used || blob->is_kept || blob->bytes < bytes ||
        !hetccl_bridge_has_ended(bridge, blob->last_launch))
        return false;
    /* What came behind that launch may work on it too. */
    return !bridge->is_event_last ||
           bridge->device->ops->event_query(bridge->device, bridge->event) == HETCCL_OK;
}

static enum hetccl_status make_blob(struct hetccl_bridge *bridge, size_t bytes, struct hetccl_blob **out)
{
    struct hetccl_device *device = bridge->device;
    struct hetccl_blob *blob;
    enum hetccl_status status = hetccl_alloc(1, sizeof(*blob), &blob);

    if (status != HETCCL_OK)
        return status;
    blob->bytes = LEAST_BLOB_BYTES;
    while (blob->bytes < bytes)
        blob->bytes *= 2;
    status = device->ops->mem_alloc(device, blob->bytes, HETCCL_MEMORY_DEVICE, &blob->memory);
    if (status != HETCCL_OK) {
        hetccl_free(blob);
        return status;
    }
    blob->next = bridge->blobs;
    bridge->blobs = blob;
    *out = blob;
    return HETCCL_OK;
}

enum hetccl_status hetccl_bridge_take(struct hetccl_bridge *bridge, size_t bytes, struct hetccl_blob **out)
{
    struct hetccl_blob *blob = bridge->blobs;
    enum hetccl_status status = HETCCL_OK;

    while (blob != NULL && !is_reusable(bridge, blob, bytes))
        blob = blob->next;
    if (blob == NULL)
        status = make_blob(bridge, bytes, &blob);
    if (status != HETCCL_OK)
        return status;
    blob->is_used = true;
    blob->waited_bytes = 0;
    *out = blob;
    return HETCCL_OK;
}

void hetccl_bridge_drop(struct hetccl_blob *blob)
{
    if (blob != NULL)
        blob->is_used = false;
}

void hetccl_bridge_use(struct hetccl_bridge *bridge, struct hetccl_blob *blob)
{
    blob->last_launch = bridge->number;
    blob->is_kept |= bridge->is_capturing;
}

enum hetccl_status hetccl_bridge_fill(struct hetccl_bridge *bridge, struct hetccl_blob *blob,
                                      const void *memory, size_t bytes)
{
    struct hetccl_device *device = bridge->device;
    struct hetccl_stream stream;
    enum hetccl_status status = device->ops->stream_create(device, HETCCL_STREAM_NORMAL, &stream);

    if (status != HETCCL_OK)
        return status;
    return finish(bridge, stream, device->ops->copy(device, stream, blob->memory, memory, bytes));
}
