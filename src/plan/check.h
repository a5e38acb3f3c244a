/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_PLAN_CHECK_H
#define HETCCL_PLAN_CHECK_H

/*
 * Symbolic execution of all ranks' plans of one call.
 *
 * A cell stands for an element: the set of ranks that contributed to it, which element of the call it is, and
 * whether the call's scale is still to be applied. Every step is carried out on cells; whatever can't happen
 * in a right plan is an error that names rank and step: reading what nobody wrote, combining the same
 * contribution twice or different elements, scaling twice or not at all, leaving a buffer, island steps that
 * differ between the ranks, messages that don't match, a standstill, a wrong or touched element in the end,
 * more bytes across islands than the bound.
 *
 * Communicators of at most 64 ranks. Pure; any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "plan/plan.h"

enum hetccl_check_mode {
    /* Only deps, the order of an island's steps and messages order anything; channels hold any number of
       messages. */
    HETCCL_CHECK_LOOSE,
    /*
     * Each engine, send and receive lane does one step at a time in plan order, and channels hold nothing: a
     * send ends when the step that takes the message does. No executor's channels have less room. The times
     * of steps are looked at too.
     */
    HETCCL_CHECK_STRICT,
    /* As strict, and each rank does its copies, combines and island steps one after the other in plan order,
       as the bridge kernel's local blocks do; only sends are asynchronous. */
    HETCCL_CHECK_SEQUENTIAL,
};

/*
 * requests  [in] by rank; they may differ in rank, is_in_place and, for alltoallv, in the four arrays
 * plans     [in] by rank
 * seed      [in] chooses among the legal orders
 * Errors:   HETCCL_ERR_INTERNAL with the text of the first fault found (hetccl_last_error_thread(); not
 * logged), HETCCL_ERR_SYSTEM.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_plan_check(const struct hetccl_topo *topo,
                                                      const struct hetccl_plan_request *requests,
                                                      const struct hetccl_plan *const *plans,
                                                      enum hetccl_check_mode mode, uint64_t seed);

#endif
