/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TEST_ENGINE_CASES_H
#define HETCCL_TEST_ENGINE_CASES_H

/* One operation with known inputs, run on an island and compared byte for byte with what it means. */

#include "island.h"

enum case_cut {
    CUT_EVEN,    /* one piece an owner, equal counts (also for all-to-all) */
    CUT_UNEVEN,  /* one piece an owner, from nothing up to 2 * count */
    CUT_SEVERAL, /* three pieces an owner, owners interleaved, some empty */
    CUT_ONE,     /* all belongs to the last rank */
};

struct case_spec {
    enum hetccl_engine_op_kind kind;
    enum hetccl_type type;
    enum hetccl_red red;
    size_t count; /* about this many elements a piece */
    enum case_cut cut;
    uint32_t root;
    bool is_in_place;
    bool is_raw;    /* every rank scales by a factor of its own */
    bool is_skewed; /* every rank starts after a random delay */
    uint64_t sequence;
};

/* 0, or 1 with the failure noted. */
int case_run(struct island_rank *self, const struct case_spec *spec);

#endif
