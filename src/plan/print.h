/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_PLAN_PRINT_H
#define HETCCL_PLAN_PRINT_H

#include <stdio.h>

#include "plan/plan.h"

/*
 * hetccl_plan_print -- a plan for people: a summary, one line a step, and the bytes to and from each peer.
 *
 * A step line: index, chunk, what it does, "after" the steps it waits for. Regions are buffer[start..end) in
 * elements. Errors: HETCCL_ERR_SYSTEM (memory; the file).
 */
HETCCL_NODISCARD enum hetccl_status hetccl_plan_print(const struct hetccl_topo *topo,
                                                      const struct hetccl_plan *plan, size_t elem_bytes,
                                                      FILE *file);

#endif
