/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_GPU_KERNELS_PROBE_H
#define TESTS_GPU_KERNELS_PROBE_H

#include <stdint.h>

#include "kernels/device/grid.h"

enum { PROBE_WORDS = 4096 };

/* What the kernel and the host of the flag test share: a cache line a flag, then the data. */
struct probe {
    uint32_t to_kernel, unused_1[31];
    uint32_t to_host, unused_2[31];
    uint32_t is_aborted, unused_3[31];
    uint32_t words[PROBE_WORDS];
};

struct probe_args {
    struct probe *probe;
    uint32_t n_rounds;
    uint32_t unused;
};

/* One block. Round r: waits until to_kernel is r, adds one to all words, raises to_host to r. Ends early when
 * aborted. */
HETCCL_KERNEL_ENTRY void hetccl_test_probe(struct probe_args args);

#endif
