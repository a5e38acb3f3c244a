/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TESTS_PLAN_MACHINE_H
#define HETCCL_TESTS_PLAN_MACHINE_H

/*
 * Executes all ranks' programs of one call (kernels/device/program.h) as the bridge kernel does
 * (kernels/device/bridge.c), in one thread: every block is a machine that goes on by a piece whenever what it
 * waits for is there, and some order says who is asked next. Elements are 32-bit integers, sums wrap around.
 */

#include "exec/program.h"
#include "memory.h"

enum machine_order {
    MACHINE_IN_ORDER, /* every block by one piece, again and again */
    MACHINE_REVERSE,  /* the last block first, each as far as it gets */
    MACHINE_RANDOM,
    MACHINE_STARVING, /* one rank only does something when nobody else can */
    MACHINE_ORDERS,
};

struct machine_args {
    uint32_t n_ranks;
    const struct hetccl_program *programs; /* by rank */
    struct memory *memories;               /* by rank */
    size_t slot_bytes;
    enum machine_order order;
    uint64_t seed;
    bool must_find_races;
};

/*
 * Errors: HETCCL_ERR_INTERNAL for everything that must not happen: a standstill, a race, leaving a buffer or
 * a slot, the two ends of a ring that disagree, slots or counters that aren't as they should be in the end;
 * HETCCL_ERR_SYSTEM.
 */
HETCCL_NODISCARD enum hetccl_status machine_run(const struct machine_args *args);

#endif
