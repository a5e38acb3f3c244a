/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_BASE_FAULT_H
#define HETCCL_BASE_FAULT_H

/*
 * Counted fault points. HETCCL_FAULT=kind:n makes the n-th (from 1) point of that kind fail, once; kind is
 * one of alloc, file, socket, mmap, thread. Tests loop over n until a scenario passes untouched. Never on a
 * per-byte path.
 */

#include <stdbool.h>

enum hetccl_fault {
    HETCCL_FAULT_ALLOC = 0,
    HETCCL_FAULT_FILE,
    HETCCL_FAULT_SOCKET,
    HETCCL_FAULT_MMAP,
    HETCCL_FAULT_THREAD,
    HETCCL_FAULT_KINDS,
};

/* True when this point must fail. The first call reads HETCCL_FAULT. */
bool hetccl_fault_hit(enum hetccl_fault kind);

/* Sets the fault for unit tests: the n-th coming point of the kind fails; n 0 switches faults off. */
void hetccl_fault_arm(enum hetccl_fault kind, unsigned n);

#endif
