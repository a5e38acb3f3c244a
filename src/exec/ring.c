/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/ring.h"

#include <string.h>
#include <unistd.h>

#include "base/memory.h"

enum {
    WORDS_BYTES = HETCCL_RING_SLOTS * HETCCL_RING_WORD_STRIDE * (int)sizeof(uint32_t),
    DATA_ALIGNMENT = 4096,
};

/* One direction in host memory, and a p2p rank's memory: `full` words, `free` words, slots. */
static size_t block_bytes(size_t slot_bytes)
{
    return hetccl_round_up(2 * (size_t)WORDS_BYTES, DATA_ALIGNMENT) +
           hetccl_round_up(HETCCL_RING_SLOTS * slot_bytes, DATA_ALIGNMENT);
}

static uint32_t *full_words(char *block)
{
    return (uint32_t *)(void *)block;
}

static uint32_t *free_words(char *block)
{
    return (uint32_t *)(void *)(block + WORDS_BYTES);
}

static unsigned char *slots(char *block)
{
    return (unsigned char *)block + hetccl_round_up(2 * (size_t)WORDS_BYTES, DATA_ALIGNMENT);
}

/* Host memory only. */
static void mark_free(char *block)
{
    for (uint32_t slot = 0; slot < HETCCL_RING_SLOTS; slot++)
        free_words(block)[slot * HETCCL_RING_WORD_STRIDE] = 1;
}

static struct hetccl_ring_view view_of(char *block, size_t slot_bytes)
{
    return (struct hetccl_ring_view){
        .full = full_words(block), .free = free_words(block), .data = slots(block), .slot_bytes = slot_bytes};
}

size_t hetccl_ring_shm_bytes(size_t slot_bytes)
{
    return 2 * block_bytes(slot_bytes);
}

enum hetccl_status hetccl_ring_shm_open(struct hetccl_device *device, void *segment, size_t slot_bytes,
                                        bool is_first, struct hetccl_ring *out)
{
    size_t bytes = hetccl_ring_shm_bytes(slot_bytes);
    char *host = segment, *first;
    void *address;
    enum hetccl_status status = device->ops->host_register(device, segment, bytes);

    if (status != HETCCL_OK)
        return status;
    status = device->ops->device_address(device, segment, &address);
    if (status != HETCCL_OK) {
        device->ops->host_unregister(device, segment);
        return status;
    }
    if (is_first) {
        mark_free(host);
        mark_free(host + block_bytes(slot_bytes));
    }
    first = address;
    *out = (struct hetccl_ring){.device = device, .registered = segment};
    out->send = view_of(is_first ? first : first + block_bytes(slot_bytes), slot_bytes);
    out->recv = view_of(is_first ? first + block_bytes(slot_bytes) : first, slot_bytes);
    return HETCCL_OK;
}

/* `full` words 0, `free` words 1, before anybody can see them. */
static enum hetccl_status prepare_words(struct hetccl_device *device, char *block)
{
    struct hetccl_stream stream = {0};
    enum hetccl_status status;
    char *words;

    status = hetccl_alloc(2, WORDS_BYTES, &words);
    if (status != HETCCL_OK)
        return status;
    mark_free(words);
    status = device->ops->stream_create(device, HETCCL_STREAM_NORMAL, &stream);
    if (status == HETCCL_OK)
        status = device->ops->copy(device, stream, block, words, 2 * (size_t)WORDS_BYTES);
    while (status == HETCCL_OK && (status = device->ops->stream_query(device, stream)) == HETCCL_AGAIN)
        status = HETCCL_OK;
    device->ops->stream_destroy(device, stream);
    hetccl_free(words);
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
    status = prepare_words(device, own);
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
    char *own = ring->own;

    if (offer->pid != (uint64_t)getpid()) {
        enum hetccl_status status = ring->device->ops->ipc_import(ring->device, &offer->handle, &mapping);

        if (status != HETCCL_OK)
            return status;
        peer = mapping.address;
    }
    ring->peer = mapping;
    ring->recv = view_of(own, slot_bytes);
    ring->recv.free = free_words(peer);
    ring->send = view_of(peer, slot_bytes);
    ring->send.free = free_words(own);
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
    *ring = (struct hetccl_ring){.device = NULL};
}
