/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TESTS_PLAN_EXCHANGE_H
#define HETCCL_TESTS_PLAN_EXCHANGE_H

/* A group of sends and receives on all ranks: up to EXCHANGE_MAX messages from each rank to each, itself
 * included, which every rank lists in an order of its own. */

#include "memory.h"

enum {
    EXCHANGE_MAX = 3,
    EXCHANGE_MAX_RANKS = 16,
    EXCHANGE_MAX_ITEMS = 2 * EXCHANGE_MAX * EXCHANGE_MAX_RANKS
};

struct exchange {
    uint32_t n_ranks;
    uint32_t n_messages[EXCHANGE_MAX_RANKS][EXCHANGE_MAX_RANKS]; /* [from][to] */
    size_t counts[EXCHANGE_MAX_RANKS][EXCHANGE_MAX_RANKS][EXCHANGE_MAX];
    struct hetccl_p2p items[EXCHANGE_MAX_RANKS][EXCHANGE_MAX_ITEMS]; /* by rank */
    uint32_t n_items[EXCHANGE_MAX_RANKS];
};

/* Messages of up to `most` elements, drawn from the shape's numbers. */
void exchange_draw(struct exchange *exchange, struct shape *shape, uint32_t most);

/* As memory_init(). */
HETCCL_NODISCARD enum hetccl_status exchange_init_memory(const struct exchange *exchange, uint32_t rank,
                                                         struct memory *memory);

#endif
