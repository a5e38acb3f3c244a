/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_PLAN_HAZARDS_H
#define HETCCL_PLAN_HAZARDS_H

/*
 * Which earlier steps touched a stretch of one buffer: for every stretch the last step that wrote it and the
 * steps that have read it since. Telling it of each access in program order yields exactly the steps that the
 * access must wait for.
 *
 * A sorted list of disjoint segments, kept in small blocks so that an insertion moves little; an access costs
 * a binary search and the segments it covers.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { HETCCL_NO_STEP = UINT32_MAX };

struct hetccl_hazard_block;

struct hetccl_hazards {
    struct hetccl_hazard_block **blocks;
    uint32_t n_blocks, capacity;
    uint32_t hint; /* block of the last access */
};

/* The readers of all segments, shared by the maps of a plan: lists that grow at the head, so segments can
 * share tails. */
struct hetccl_reader {
    uint32_t step, next;
};
struct hetccl_readers {
    struct hetccl_reader *items;
    uint32_t n_items, capacity;
};

/* Steps to wait for; the same step may be told more than once. */
struct hetccl_found_steps {
    uint32_t *steps;
    uint32_t n_steps, capacity;
};

/* Notes that `step` reads or writes [start, end), start < end, and appends to *found whom it must wait for.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_hazards_read(struct hetccl_hazards *map,
                                                        struct hetccl_readers *readers, size_t start,
                                                        size_t end, uint32_t step,
                                                        struct hetccl_found_steps *found);
HETCCL_NODISCARD enum hetccl_status hetccl_hazards_write(struct hetccl_hazards *map,
                                                         struct hetccl_readers *readers, size_t start,
                                                         size_t end, uint32_t step,
                                                         struct hetccl_found_steps *found);
void hetccl_hazards_fini(struct hetccl_hazards *map);

#endif
