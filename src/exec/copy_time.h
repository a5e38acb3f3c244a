/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_EXEC_COPY_TIME_H
#define HETCCL_EXEC_COPY_TIME_H

/* When the groups of pieces of a program come; the first half of copy_order.c. */

#include "exec/copy_order.h"

enum hetccl_copy_role { HETCCL_COPY_ALONE, HETCCL_COPY_SENDS, HETCCL_COPY_TAKES };

/* Compared member by member, in this order. */
struct hetccl_copy_time {
    struct hetccl_step_time step;
    uint32_t block; /* of HETCCL_COPY_MERGE pieces, counted from the lane's first piece of this step time */
    uint32_t role;  /* enum hetccl_copy_role */
};

/* Where an operation begins: its piece i has block (start + i) / HETCCL_COPY_MERGE. Of an operation without
 * messages all pieces are in one block. */
struct hetccl_copy_start {
    struct hetccl_step_time step;
    uint32_t start, role;
};

/* By operation; n_late as in hetccl_copy_order. Errors: HETCCL_ERR_SYSTEM. Freed by hetccl_free(). */
HETCCL_NODISCARD enum hetccl_status hetccl_copy_starts(const struct hetccl_program *program,
                                                       struct hetccl_copy_start **out, uint32_t *n_late_out);

struct hetccl_copy_time hetccl_copy_time_of(const struct hetccl_copy_start *start, uint32_t piece);

/* Less than 0, 0, or greater, as a is before, at or after b. */
int hetccl_copy_compare(const struct hetccl_copy_time *a, const struct hetccl_copy_time *b);

#endif
