/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_EXEC_FORWARD_PAIR_H
#define TESTS_UNIT_EXEC_FORWARD_PAIR_H

/*
 * Two sides of a forward over stream sockets, and what would work on their rings: a sender whose blocks have
 * their shares of the pieces, and a receiver that takes pieces in order, both as the bridge kernel does. All
 * of it in steps that never wait, so that a test chooses who goes next.
 */

#include <stdbool.h>
#include <stdint.h>

#include "exec/forward.h"

enum { PAIR_SLOT_BYTES = 32768, /* several fill a socket */ PAIR_MAX_BLOCKS = 8 };

/* Calls [0, n_calls): call c has n_pieces[c] pieces. */
struct traffic {
    const uint32_t *n_pieces;
    uint32_t n_calls;
    uint32_t n_blocks; /* of the sender; divides the number of slots */
    uint32_t seed;     /* of sizes and contents */
};

/* Of a call; blocks of the next call begin when all blocks are through. */
struct sender {
    const struct traffic *traffic;
    uint32_t call;
    uint32_t next[PAIR_MAX_BLOCKS]; /* piece of each block */
};

struct receiver {
    const struct traffic *traffic;
    uint32_t call, piece;
    const char *problem; /* what was wrong; NULL: nothing */
};

struct forward_side {
    struct hetccl_ring_view send, recv;
    struct hetccl_link *link;
    struct hetccl_forward *forward;
    void *memory;
    struct sender sender;
    struct receiver receiver;
};

struct forward_pair {
    struct forward_side sides[2];
};

/* Ranks 3 and 4. has_forward: side 1 may be left to the test, which then speaks for itself on the link. */
void forward_pair_open(struct forward_pair *pair, size_t n_sockets, bool has_second_forward);
void forward_pair_close(struct forward_pair *pair);

/* `from` sends to the other side. */
void traffic_begin(struct forward_pair *pair, unsigned from, const struct traffic *traffic);

/* One piece of a block if it can go now: true when it went. */
bool sender_step(struct forward_side *side, uint32_t block);
bool sender_is_done(const struct sender *sender);

/* The next piece if it is there. */
bool receiver_step(struct forward_side *side);
bool receiver_is_done(const struct receiver *receiver);

uint32_t piece_bytes(const struct traffic *traffic, uint32_t call, uint32_t piece);
uint32_t piece_mark(uint32_t call, uint32_t piece);
void piece_fill(unsigned char *out, const struct traffic *traffic, uint32_t call, uint32_t piece);

/* A small generator: the same everywhere. */
uint32_t forward_random(uint64_t *state);

#endif
