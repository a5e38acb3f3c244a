/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TESTS_EXEC_QUEUES_H
#define HETCCL_TESTS_EXEC_QUEUES_H

/*
 * Executes the copy orders of all ranks of a call without data: rings of slots, streams, events, and hardware
 * queues in which whatever waits holds up the rest.
 */

#include <stdint.h>

#include "exec/copy_order.h"

enum { QUEUES_MAX_RANKS = 40 };

enum queues_mode {
    QUEUES_ONE,     /* a queue a rank, filled in the order in which items are enqueued */
    QUEUES_STREAMS, /* a queue a stream */
    QUEUES_EDGES,   /* a queue a rank, filled in any order that streams and events allow */
};

struct queues_rank {
    struct hetccl_program program;
    struct hetccl_copy_order order;
};

/* NULL when everything was executed and every item had what it depends on; else what went wrong. */
const char *queues_run(const struct queues_rank *ranks, uint32_t n_ranks, enum queues_mode mode,
                       uint64_t seed);

#endif
