/* SPDX-License-Identifier: Apache-2.0 */
/* The device's half of the flag test (kernels/device/sync.h), compiled as the library's kernels are. */
#include "kernels/device/sync.h"
#include "probe.h"

HETCCL_KERNEL_INLINE void wait_for(const struct probe *probe, uint32_t round)
{
    HETCCL_KERNEL_ROLLED
    while (flag_load_acquire(&probe->to_kernel) != round) {
        if (flag_load_relaxed(&probe->is_aborted))
            return;
    }
}

HETCCL_KERNEL_ENTRY void hetccl_test_probe(struct probe_args args)
{
    struct probe *probe = args.probe;

    HETCCL_KERNEL_ROLLED
    for (uint32_t round = 1; round <= args.n_rounds; round++) {
        if (grid_thread() == 0)
            wait_for(probe, round);
        block_barrier();
        HETCCL_KERNEL_ROLLED
        for (uint32_t i = grid_thread(); i < PROBE_WORDS; i += HETCCL_BLOCK_THREADS)
            probe->words[i]++;
        block_barrier();
        if (grid_thread() == 0)
            flag_store_release(&probe->to_host, round);
    }
}
