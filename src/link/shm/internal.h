/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_LINK_SHM_INTERNAL_H
#define HETCCL_LINK_SHM_INTERNAL_H

#include <stdatomic.h>

#include "base/memory.h"
#include "link/common.h"

struct hetccl_doorbell;

/*
 * A link through memory: one ring of slots for each direction, one producer and one consumer a ring.
 *
 * A slot is published by storing its position + 1 (positions count from 0 and never wrap) with release order;
 * the consumer, which knows the position it waits for, loads it with acquire order. So a message of up to
 * HETCCL_SHM_SMALL_BYTES is one cache line that moves once. The way back is a counter of freed slots, in a
 * line of its own, that the consumer stores once every `grant_batch` slots; the producer looks at it only
 * when it has used up what it was granted.
 *
 * Batched grants can't block: a producer without credit has published n_slots beyond the last grant, of which
 * the consumer has taken fewer than grant_batch <= n_slots / 2, so the consumer reaches the next grant inside
 * what is published.
 *
 * All that is read from the segment is used once, from a local copy, and bounded before: a peer gone mad can
 * spoil the data, not this process.
 */

enum {
    HETCCL_SHM_LAYOUT_MAGIC = 0x48434c31, /* "HCL1": changes with every change of the structs below */
    HETCCL_SHM_SMALL_BYTES = 16,
    HETCCL_SHM_STREAMED_BYTES = 2048, /* fragments from here on are stored past the caches */
    HETCCL_SHM_MIN_SLOTS = 2,
    HETCCL_SHM_MAX_SLOT_BYTES = 1 << 30,
};

/* Written by one side, read by the other. */
struct hetccl_shm_side {
    _Alignas(HETCCL_CACHE_LINE) atomic_uint magic; /* set last, with release order */
    atomic_uint is_closed;
    uint64_t slot_bytes, n_slots;
    _Alignas(HETCCL_CACHE_LINE) atomic_uint_fast64_t n_freed; /* slots of the ring this side receives from */
};

struct hetccl_shm_slot {
    _Alignas(HETCCL_CACHE_LINE) atomic_uint_fast64_t published; /* position + 1 */
    struct hetccl_call_tag tag;
    uint64_t bytes_total;
    atomic_uint fragment_bytes; /* read exactly once, so that what is checked is what is used */
    uint32_t unused;
    unsigned char small[HETCCL_SHM_SMALL_BYTES]; /* fragments that fit lie here, larger ones in payload */
    unsigned char payload[];
};

_Static_assert(sizeof(struct hetccl_shm_slot) == HETCCL_CACHE_LINE, "a small message must be one cache line");
_Static_assert(sizeof(atomic_uint_fast64_t) == sizeof(uint64_t), "positions are 64 bit");

struct hetccl_shm_outgoing {
    unsigned char *slots;
    struct hetccl_shm_slot *next; /* slot at position */
    uint64_t position;
    uint64_t limit; /* the first position not granted yet */
};

struct hetccl_shm_incoming {
    unsigned char *slots;
    struct hetccl_shm_slot *next;
    uint64_t position;
    uint64_t granted;      /* what own->n_freed says */
    size_t fragment_bytes; /* of the slot at position, once accepted; 0 before */
    size_t fragment_done;  /* of it, given back by consume */
};

struct hetccl_shm_link {
    struct hetccl_link_core core;
    struct hetccl_shm_side *own, *peer;
    struct hetccl_doorbell *peer_doorbell;
    size_t slot_bytes, stride_bytes;
    uint64_t n_slots, grant_batch;
    bool is_peer_checked;
    struct hetccl_shm_outgoing out;
    struct hetccl_shm_incoming in;
};

static inline struct hetccl_shm_link *hetccl_shm_of(struct hetccl_link *link)
{
    return (struct hetccl_shm_link *)link;
}

static inline struct hetccl_shm_slot *
hetccl_shm_slot_after(const struct hetccl_shm_link *shm, unsigned char *slots, struct hetccl_shm_slot *slot)
{
    unsigned char *next = (unsigned char *)slot + shm->stride_bytes;

    return (struct hetccl_shm_slot *)(next == slots + shm->n_slots * shm->stride_bytes ? slots : next);
}

static inline unsigned char *hetccl_shm_fragment_of(struct hetccl_shm_slot *slot, size_t bytes)
{
    return bytes <= HETCCL_SHM_SMALL_BYTES ? slot->small : slot->payload;
}

/* Acquire: with the number comes everything the producer wrote into the slot. */
static inline bool hetccl_shm_has_arrived(const struct hetccl_shm_link *shm)
{
    return atomic_load_explicit(&shm->in.next->published, memory_order_acquire) == shm->in.position + 1;
}

/* Copies a fragment into a slot (copy.c); ordered before a release store that follows. */
void hetccl_shm_copy_to_slot(unsigned char *slot, const unsigned char *memory, size_t bytes);

/* Fails the link: a value read from shared memory can't be. */
enum hetccl_status hetccl_shm_fail_damaged(struct hetccl_shm_link *shm, const char *what, uint64_t value);

/* Compares the layouts; only once the peer has certainly written its own (its magic is there, or a slot is
 * published). */
enum hetccl_status hetccl_shm_check_peer(struct hetccl_shm_link *shm);

/* Moves what can be moved; *moved_out becomes true when something did. HETCCL_AGAIN when the rest must wait.
 */
enum hetccl_status hetccl_shm_send_queued(struct hetccl_shm_link *shm, bool *moved_out);
enum hetccl_status hetccl_shm_receive_queued(struct hetccl_shm_link *shm, bool *moved_out);

/* The operations of struct hetccl_link_ops. */
enum hetccl_status hetccl_shm_post_send(struct hetccl_link *link, struct hetccl_link_request *request);
enum hetccl_status hetccl_shm_post_recv(struct hetccl_link *link, struct hetccl_link_request *request);
enum hetccl_status hetccl_shm_peek(struct hetccl_link *link, const struct hetccl_link_request *request,
                                   const void **memory_out, size_t *bytes_out);
void hetccl_shm_consume(struct hetccl_link *link, struct hetccl_link_request *request, size_t bytes);

#endif
