/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TOOLS_PLAN_PRINT_H
#define HETCCL_TOOLS_PLAN_PRINT_H

#include <stdio.h>

#include "plan/plan.h"

/* One line a step: index, chunk, what it does with which elements of which buffer, and the steps it waits
 * for. */
void hetccl_plan_print(const struct hetccl_plan *plan, FILE *stream);

#endif
