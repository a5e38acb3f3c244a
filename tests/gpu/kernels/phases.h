/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_GPU_KERNELS_PHASES_H
#define TESTS_GPU_KERNELS_PHASES_H

#include <stdint.h>

#include "bench.h"

/* One set of checks: run() is called for every type of a bit mask and every index below n_indices, by many
 * threads. */
struct phase {
    const char *name;
    void (*run)(struct bench *bench, enum hetccl_type type, uint64_t index);
    uint32_t type_mask;
    uint64_t n_indices;
};

extern const struct phase phases[];
extern const size_t n_phases;

#endif
