/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TEST_ENGINE_ISLAND_H
#define HETCCL_TEST_ENGINE_ISLAND_H

/*
 * An island of ranks for tests of engine shm: threads or forked processes of this test, each with an engine
 * of its own over one shared segment. Ranks don't use cmocka (it isn't for several threads); they return 0 or
 * note a failure's text, and the test asserts afterwards.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"

enum { ISLAND_MAX_RANKS = 192, ISLAND_TEXT_BYTES = 1400, ISLAND_WAIT_S = 4 };

struct island_rank {
    uint32_t rank, n_ranks;
    struct hetccl_device *device;
    struct hetccl_engine *engine;
    struct hetccl_doorbell *doorbell;
    uint32_t n_spins; /* idle turns before it sleeps */
    uint64_t random;  /* state of island_random() */
    char *failure;    /* ISLAND_TEXT_BYTES; shared with the test */
    const void *body_arg;
};

/* What one rank does: 0 or island_fail(). The engine is destroyed afterwards if it still stands. */
typedef int (*island_body)(struct island_rank *self);

struct island_spec {
    uint32_t n_ranks;
    size_t slot_bytes;
    bool has_processes; /* forked processes, else threads */
    uint32_t n_spins;   /* idle turns before a rank sleeps */
    island_body body;
    const void *body_arg;
};

/* Runs the body on all ranks; returns the number of ranks that failed, texts on stderr. */
int island_run(const struct island_spec *spec);

/* Notes the failure of this rank; returns 1. */
int island_fail(struct island_rank *self, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Starts the operation and drives it to its end, sleeping on the doorbell; gives up after 20 s. */
enum hetccl_status island_do(struct island_rank *self, const struct hetccl_engine_op *op);

/* Uniform below n. */
uint32_t island_random(uint64_t *state, uint32_t n);

/* Global rank of an island rank in these tests: unlike the island rank, so that texts are checked for the
 * right one. */
static inline uint32_t island_global_rank(uint32_t rank)
{
    return 1000 + 3 * rank;
}

#endif
