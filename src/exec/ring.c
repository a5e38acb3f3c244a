/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/ring.h"

#include <string.h>
#include <unistd.h>

#include "base/memory.h"

enum {
    WORDS_BYTES = HETCCL_RING_SLOTS * HETCCL_RING_WORD_STRIDE * (int)sizeof(uint32_t),
    DATA_ALIGNMENT = 4096,
};

/* One direction: words, all 0 in the beginning, then slots. */
static size_t block_bytes(size_t slot_bytes)
{
    return hetccl_round_up(WORDS_BYTES, DATA_ALIGNMENT) +
           hetccl_round_up(HETCCL_RING_SLOTS * slot_bytes, DATA_ALIGNMENT);
}

static struct hetccl_ring_view view_of(char *block, size_t slot_bytes)
{
    return (struct hetccl_ring_view){.words = (uint32_t *)(void *)block,
                                     .data = (unsigned char *)block +
                                             hetccl_round_up(WORDS_BYTES, DATA_ALIGNMENT),
                                     .slot_bytes = slot_bytes};
}

size_t hetccl_ring_shm_bytes(size_t slot_bytes)
{
    return 2 * block_bytes(slot_bytes);
}

enum hetccl_status hetccl_ring_shm_open(struct hetccl_device *device, void *segment, size_t slot_bytes,
                                        bool is_first, struct hetccl_ring *out)
{
    size_t bytes = hetccl_ring_shm_bytes(slot_bytes), second_bytes;
    char *first;
    void *address;
    enum hetccl_status status = device->ops->host_register(device, segment, bytes);

    if (status != HETCCL_OK)
        return status;
    status = device->ops->device_address(device, segment, &address);
    if (status != HETCCL_OK) {
        device->ops->host_unregister(device, segment);
        return status;
    }
    first = address;
    *out = (struct hetccl_ring){.device = device, .registered = segment};
    second_bytes = block_bytes(slot_bytes);
    out->send = view_of(is_first ? first : first + second_bytes, slot_bytes);
    out->recv = view_of(is_first ? first + second_bytes : first, slot_bytes);
    out->host_send_words = (uint32_t *)segment + (is_first ? 0 : second_bytes / sizeof(uint32_t));
    out->host_recv_words = (uint32_t *)segment + (is_first ? second_bytes / sizeof(uint32_t) : 0);
    return HETCCL_OK;
}

/* Before anybody can see them. */
static enum hetccl_status clear_words(struct hetccl_device *device, char *block)
{
    struct hetccl_stream stream = {0};
    enum hetccl_status status = device->ops->stream_create(device, HETCCL_STREAM_NORMAL, &stream);

    if (status != HETCCL_OK)
        return status;
    status = device->ops->fill(device, stream, block, 0, WORDS_BYTES);
    if (status == HETCCL_OK)
        do
            status = device->ops->stream_query(device, stream);
        while (status == HETCCL_AGAIN);
    device->ops->stream_destroy(device, stream);
    return status;
}

enum hetccl_status hetccl_ring_p2p_open(struct hetccl_device *device, size_t slot_bytes,
                                        struct hetccl_ring *out, struct hetccl_ring_offer *offer_out)
{
    struct hetccl_ring_offer offer;
    void *own;
    enum hetccl_status status =
        device->ops->mem_alloc(device, block_bytes(slot_bytes), HETCCL_MEMORY_DEVICE, &own);

    if (status != HETCCL_OK)
        return status;
    memset(&offer, 0, sizeof(offer));
    offer.address = (uintptr_t)own;
    offer.pid = (uint64_t)getpid();
    status = clear_words(device, own);
    if (status == HETCCL_OK)
        status = device->ops->ipc_export(device, own, &offer.handle);
    if (status != HETCCL_OK) {
        device->ops->mem_free(device, own, HETCCL_MEMORY_DEVICE);
        return status;
    }
    *out = (struct hetccl_ring){.device = device, .own = own};
    *offer_out = offer;
    return HETCCL_OK;
}

enum hetccl_status hetccl_ring_p2p_connect(struct hetccl_ring *ring, size_t slot_bytes,
                                           const struct hetccl_ring_offer *offer)
{
    struct hetccl_ipc_mapping mapping = {.address = NULL};
    char *peer = (char *)(uintptr_t)offer->address;

    if (offer->pid != (uint64_t)getpid()) {
        enum hetccl_status status = ring->device->ops->ipc_import(ring->device, &offer->handle, &mapping);

        if (status != HETCCL_OK)
            return status;
        peer = mapping.address;
    }
    ring->peer = mapping;
    ring->recv = view_of(ring->own, slot_bytes);
    ring->send = view_of(peer, slot_bytes);
    return HETCCL_OK;
}

enum hetccl_status hetccl_ring_own_open(struct hetccl_device *device, size_t slot_bytes,
                                        struct hetccl_ring *out, struct hetccl_ring_view *host_send_out,
                                        struct hetccl_ring_view *host_recv_out)
{
    size_t half_bytes = block_bytes(slot_bytes);
    void *memory, *address;
    enum hetccl_status status = device->ops->mem_alloc(device, 2 * half_bytes, HETCCL_MEMORY_PINNED, &memory);

    if (status != HETCCL_OK)
        return status;
    status = device->ops->device_address(device, memory, &address);
    if (status != HETCCL_OK) {
        device->ops->mem_free(device, memory, HETCCL_MEMORY_PINNED);
        return status;
    }
    memset(memory, 0, WORDS_BYTES);
    memset((char *)memory + half_bytes, 0, WORDS_BYTES);
    *out = (struct hetccl_ring){.device = device, .pinned = memory};
    out->send = view_of(address, slot_bytes);
    out->recv = view_of((char *)address + half_bytes, slot_bytes);
    *host_send_out = view_of(memory, slot_bytes);
    *host_recv_out = view_of((char *)memory + half_bytes, slot_bytes);
    out->host_send_words = host_send_out->words;
    out->host_recv_words = host_recv_out->words;
    return HETCCL_OK;
}

void hetccl_ring_close(struct hetccl_ring *ring)
{
    struct hetccl_device *device = ring->device;

    if (device == NULL)
        return;
    if (ring->registered != NULL)
        device->ops->host_unregister(device, ring->registered);
    if (ring->peer.base != NULL)
        device->ops->ipc_close(device, &ring->peer);
    device->ops->mem_free(device, ring->own, HETCCL_MEMORY_DEVICE);
    device->ops->mem_free(device, ring->pinned, HETCCL_MEMORY_PINNED);
    *ring = (struct hetccl_ring){.device = NULL};
}
