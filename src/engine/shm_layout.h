/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_ENGINE_SHM_LAYOUT_H
#define HETCCL_ENGINE_SHM_LAYOUT_H

/*
 * What lies where in the shared memory of engine shm.
 *
 *   first segment   top | controls, one a rank | texts, one a rank | small slots, HETCCL_SHM_SLOTS a rank
 *   second segment  large slots, HETCCL_SHM_SLOTS a rank; made at the first operation that needs it
 *
 * Each small slot begins with a header that is one cache line. A tick of an operation always uses the header
 * of small slot (tick mod HETCCL_SHM_SLOTS); its payload follows the header or lies in the large slot of the
 * same number. Everything is zero at the start. Numbers read from here may be anything and are checked before
 * use.
 */

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/segment.h"
#include "wire/call_tag.h"

enum {
    HETCCL_SHM_LOOKAHEAD = 2, /* a rank publishes at most so many ticks that it hasn't consumed */
    HETCCL_SHM_SLOTS = 2 * HETCCL_SHM_LOOKAHEAD, /* why: shm_peer.c */
    HETCCL_SHM_HEADER_BYTES = 64,
    HETCCL_SHM_TEXT_BYTES = 448,
    HETCCL_SHM_PAGE_BYTES = 4096,
    HETCCL_SHM_SMALL_BYTES = 8192, /* least size of a small slot */
    HETCCL_SHM_LEAST_LARGE_BYTES = 16384,
    HETCCL_SHM_MAX_RANKS = 4096,
};

/* What the ranks of an operation must agree on. */
struct hetccl_shm_shape {
    uint8_t tag[HETCCL_CALL_TAG_WIRE_BYTES];
    uint64_t total;  /* elements of all pieces */
    uint32_t layout; /* hash over root and (owner, count) of all pieces */
    uint8_t kind, type, red, is_raw;
};

struct hetccl_shm_header {
    _Atomic uint64_t tick; /* stored last, with release: all the rest of this tick is there */
    struct hetccl_shm_shape shape;
    uint64_t scale_bits;
    uint8_t tiny[8]; /* a payload that fits travels in the same cache line */
};
_Static_assert(sizeof(struct hetccl_shm_header) == HETCCL_SHM_HEADER_BYTES, "one cache line");

enum hetccl_shm_state { HETCCL_SHM_GOOD = 0, HETCCL_SHM_LEFT, HETCCL_SHM_FAILED };

struct hetccl_shm_control {
    _Alignas(64) _Atomic uint32_t state; /* enum hetccl_shm_state; released after status and the text */
    _Atomic uint32_t status;             /* enum hetccl_status of a failed rank */
    _Atomic uint32_t waits_for; /* 1 + the island rank whose next tick this rank waits for; 0: nobody */
};
_Static_assert(sizeof(struct hetccl_shm_control) == 64, "one cache line");

/* How island rank 0 tells about the second segment; plain fields, released by its tick of the map stage. */
struct hetccl_shm_top {
    _Atomic uint64_t magic; /* the first rank that comes sets it; says how many ranks there are */
    uint64_t large_bytes;
    uint64_t large_slot_bytes; /* 0: there is no second segment */
    char large_name[HETCCL_SEGMENT_NAME_BYTES];
};

#define HETCCL_SHM_MAGIC 0x4865744343ull /* above 24 bits of rank count */

/* Where things are for a given number of ranks. Offsets in bytes from the start of the first segment. */
struct hetccl_shm_layout {
    size_t controls, texts, small_slots;
    size_t small_slot_bytes;
    size_t bytes;
};

void hetccl_shm_layout_compute(uint32_t n_ranks, struct hetccl_shm_layout *out);

#endif
