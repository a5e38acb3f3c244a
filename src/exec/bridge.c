/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/bridge.h"

#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"
#include "base/time.h"

enum {
    BLOCKS_A_UNIT = 2, /* that surely run at once on one multiprocessor */
    LEAST_BLOCKS = 4,
    STOP_WAIT_MS = 2000,
    LEAST_BLOB_BYTES = 4096,
};

/* ---- life ---- */

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
    return status;
}

static void give_back(struct hetccl_bridge *bridge)
{
    struct hetccl_device *device = bridge->device;

    while (bridge->blobs != NULL) {
        struct hetccl_blob *blob = bridge->blobs;

        bridge->blobs = blob->next;
        device->ops->mem_free(device, blob->memory, blob->kind);
        hetccl_free(blob);
    }
    device->ops->event_destroy(device, bridge->event);
    device->ops->event_destroy(device, bridge->capture_event);
    device->ops->event_destroy(device, bridge->join_event);
    device->ops->mem_free(device, bridge->control, HETCCL_MEMORY_PINNED);
    hetccl_free(bridge);
}

enum hetccl_status hetccl_bridge_create(struct hetccl_device *device, uint32_t n_sharing, size_t slot_bytes,
                                        struct hetccl_bridge **out)
{
    struct hetccl_bridge *bridge;
    enum hetccl_status status = hetccl_alloc(1, sizeof(*bridge), &bridge);

    if (status != HETCCL_OK)
        return status;
    bridge->device = device;
    bridge->slot_bytes = slot_bytes;
    bridge->max_blocks = (uint32_t)hetccl_max_size(device->n_units * BLOCKS_A_UNIT / n_sharing, LEAST_BLOCKS);
    status = make_control(bridge);
    if (status == HETCCL_OK)
        status = device->ops->image_kernel(device, "hetccl_bridge", &bridge->kernel);
    if (status == HETCCL_OK)
        status = device->ops->event_create(device, &bridge->event);
    if (status == HETCCL_OK)
        status = device->ops->event_create(device, &bridge->capture_event);
    if (status == HETCCL_OK)
        status = device->ops->event_create(device, &bridge->join_event);
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

    if (bridge == NULL)
        return true;
    for (unsigned i = 0; i < STOP_WAIT_MS; i++) {
        status = hetccl_bridge_query(bridge);
        if (status != HETCCL_AGAIN)
            break;
        hetccl_bridge_stop(bridge);
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

/* The count is read first: whatever is recorded after that only makes the event come later. */
enum hetccl_status hetccl_bridge_query(struct hetccl_bridge *bridge)
{
    uint64_t n_recorded = atomic_load(&bridge->n_recorded);
    enum hetccl_status status = HETCCL_OK;

    if (n_recorded > atomic_load(&bridge->n_done))
        status = bridge->device->ops->event_query(bridge->device, bridge->event);
    if (status == HETCCL_OK)
        atomic_store(&bridge->n_done, n_recorded);
    return status;
}

uint64_t hetccl_bridge_count(const struct hetccl_bridge *bridge)
{
    return atomic_load(&bridge->n_recorded);
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

enum hetccl_status hetccl_bridge_enter(struct hetccl_bridge *bridge, struct hetccl_stream stream)
{
    struct hetccl_capture capture;
    enum hetccl_status status = read_capture(bridge, stream, &capture);

    if (status != HETCCL_OK)
        return status;
    bridge->n_launches++;
    bridge->is_capturing = capture.is_capturing;
    /* What is captured is ordered by the graph's launches, against which events outside say nothing. */
    if (!bridge->has_launched || bridge->last_stream.handle == stream.handle ||
        bridge->last_capture != capture.id)
        return HETCCL_OK;
    return bridge->device->ops->stream_wait_event(bridge->device, stream,
                                                  capture.id != 0 ? bridge->capture_event : bridge->event);
}

enum hetccl_status hetccl_bridge_leave(struct hetccl_bridge *bridge, struct hetccl_stream stream)
{
    struct hetccl_capture capture;
    enum hetccl_status status = read_capture(bridge, stream, &capture);

    if (status == HETCCL_OK)
        status = bridge->device->ops->event_record(
            bridge->device, capture.id != 0 ? bridge->capture_event : bridge->event, stream);
    if (status != HETCCL_OK)
        return status;
    bridge->last_stream = stream;
    bridge->last_capture = capture.id;
    bridge->has_launched = true;
    if (capture.id == 0)
        atomic_store(&bridge->n_recorded, bridge->n_launches);
    return HETCCL_OK;
}

enum hetccl_status hetccl_bridge_join(struct hetccl_bridge *bridge, struct hetccl_stream from,
                                      struct hetccl_stream to)
{
    struct hetccl_device *device = bridge->device;
    enum hetccl_status status = device->ops->event_record(device, bridge->join_event, from);

    return status == HETCCL_OK ? device->ops->stream_wait_event(device, to, bridge->join_event) : status;
}

/* ---- memory ---- */

static bool is_reusable(struct hetccl_bridge *bridge, const struct hetccl_blob *blob,
                        enum hetccl_memory_kind kind, size_t bytes)
{
    if (blob->is_used || blob->is_kept || blob->kind != kind || blob->bytes < bytes)
        return false;
    if (blob->last_launch > atomic_load(&bridge->n_done))
        (void)!hetccl_bridge_query(bridge);
    return blob->last_launch <= atomic_load(&bridge->n_done);
}

static enum hetccl_status make_blob(struct hetccl_bridge *bridge, enum hetccl_memory_kind kind, size_t bytes,
                                    struct hetccl_blob **out)
{
    struct hetccl_device *device = bridge->device;
    struct hetccl_blob *blob;
    enum hetccl_status status = hetccl_alloc(1, sizeof(*blob), &blob);

    if (status != HETCCL_OK)
        return status;
    blob->kind = kind;
    blob->bytes = LEAST_BLOB_BYTES;
    while (blob->bytes < bytes)
        blob->bytes *= 2;
    status = device->ops->mem_alloc(device, blob->bytes, kind, &blob->memory);
    if (status != HETCCL_OK)
        goto undo_alloc;
    blob->address = blob->memory;
    if (kind == HETCCL_MEMORY_PINNED)
        status = device->ops->device_address(device, blob->memory, &blob->address);
    if (status != HETCCL_OK)
        goto undo_memory;
    blob->next = bridge->blobs;
    bridge->blobs = blob;
    *out = blob;
    return HETCCL_OK;

undo_memory:
    device->ops->mem_free(device, blob->memory, kind);
undo_alloc:
    hetccl_free(blob);
    return status;
}

enum hetccl_status hetccl_bridge_take(struct hetccl_bridge *bridge, enum hetccl_memory_kind kind,
                                      size_t bytes, struct hetccl_blob **out)
{
    struct hetccl_blob *blob = bridge->blobs;
    enum hetccl_status status = HETCCL_OK;

    while (blob != NULL && !is_reusable(bridge, blob, kind, bytes))
        blob = blob->next;
    if (blob == NULL)
        status = make_blob(bridge, kind, bytes, &blob);
    if (status != HETCCL_OK)
        return status;
    blob->is_used = true;
    *out = blob;
    return HETCCL_OK;
}

void hetccl_bridge_drop(struct hetccl_bridge *bridge, struct hetccl_blob *blob)
{
    (void)bridge;
    if (blob != NULL)
        blob->is_used = false;
}

void hetccl_bridge_use(struct hetccl_bridge *bridge, struct hetccl_blob *blob)
{
    blob->last_launch = bridge->n_launches;
    blob->is_kept |= bridge->is_capturing;
}

enum hetccl_status hetccl_bridge_fill(struct hetccl_bridge *bridge, struct hetccl_blob *blob,
                                      const void *memory, size_t bytes)
{
    struct hetccl_device *device = bridge->device;
    struct hetccl_stream stream = {0};
    enum hetccl_status status;

    if (blob->kind == HETCCL_MEMORY_PINNED) {
        memcpy(blob->memory, memory, bytes);
        return HETCCL_OK;
    }
    status = device->ops->stream_create(device, HETCCL_STREAM_NORMAL, &stream);
    if (status == HETCCL_OK)
        status = device->ops->copy(device, stream, blob->memory, memory, bytes);
    while (status == HETCCL_OK) {
        status = device->ops->stream_query(device, stream);
        if (status != HETCCL_AGAIN)
            break;
        status = HETCCL_OK;
    }
    device->ops->stream_destroy(device, stream);
    return status;
}
