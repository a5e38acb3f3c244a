/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TESTS_LINK_PAIR_H
#define HETCCL_TESTS_LINK_PAIR_H

/* Two connected links of any kind, for the tests of what all kinds promise. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/doorbell.h"
#include "base/segment.h"
#include "link/link.h"

struct pair_kind {
    const char *name;
    size_t n_sockets;           /* 0: shm */
    size_t slot_bytes, n_slots; /* of shm */
};

enum { N_PAIR_KINDS = 7 };
extern const struct pair_kind pair_kinds[N_PAIR_KINDS];

struct pair {
    const struct pair_kind *kind;
    struct hetccl_segment segment; /* doorbells, then the rings */
    int sockets[2][HETCCL_LINK_TCP_MAX_SOCKETS];
    uint64_t death_s;
};

/* What one thread or process has of a pair. Rank is 3 or 4, the hosts are "host-3" and "host-4". */
struct side {
    struct pair *pair;
    unsigned index; /* 0 or 1 */
    struct hetccl_link *link;
    struct hetccl_doorbell *own_doorbell;
    unsigned n_timeouts; /* waits that nothing ended: lost wake-ups */
    uint64_t n_waits;
};

/* Sockets of 127.0.0.1, or a segment. Fails the test when it can't. */
void pair_init(struct pair *pair, const struct pair_kind *kind);

/* After all sides are closed. */
void pair_fini(struct pair *pair);

/* Makes the link of a side; asserts nothing, so that it works in threads and children. */
bool side_open(struct side *side, struct pair *pair, unsigned index);
void side_close(struct side *side);

/* Closes what only the other side needs: for a process of its own. */
void side_drop_other(struct pair *pair, unsigned index);

/*
 * Sleeps until the link may have something to do; look() is asked once more after the announcement on a
 * doorbell and says whether something moved.
 */
void side_wait(struct side *side, bool (*look)(void *), void *arg);

/*
 * Runs body(side 0) here and body(side 1) in a thread or a child; both must return true.
 */
bool pair_run(struct pair *pair, bool has_processes, bool (*body)(struct side *side, void *arg), void *arg);

/* True when ok; else says where on stderr. For bodies, in which the test's assertions can't be used. */
bool expect_at(bool ok, const struct side *side, const char *what, const char *file, int line);
#define EXPECT(side, ok) expect_at((ok), (side), #ok, __FILE__, __LINE__)

/* Contents that depend on message and position, up to 4 MiB; pattern_init() once before, in main(). */
void pattern_init(void);
void pattern_fill(unsigned char *memory, size_t bytes, size_t offset, unsigned message);
bool pattern_holds(const unsigned char *memory, size_t bytes, size_t offset, unsigned message);

uint32_t random_next(uint64_t *state);

#endif
