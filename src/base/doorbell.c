/* SPDX-License-Identifier: Apache-2.0 */
#include "base/doorbell.h"

#include "base/thread.h"

/*
 * Store-buffer pattern: the sleeper announces itself and then looks at the data, the ringer publishes the
 * data and then looks for sleepers. Both sides need sequential consistency, otherwise each may miss the
 * other.
 */
void hetccl_doorbell_ring(struct hetccl_doorbell *doorbell)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&doorbell->n_sleepers, memory_order_relaxed) == 0)
        return;
    atomic_fetch_add_explicit(&doorbell->rings, 1, memory_order_seq_cst);
    hetccl_futex_wake(&doorbell->rings);
}

unsigned hetccl_doorbell_prepare(struct hetccl_doorbell *doorbell)
{
    unsigned value = atomic_load_explicit(&doorbell->rings, memory_order_relaxed);

    atomic_fetch_add_explicit(&doorbell->n_sleepers, 1, memory_order_seq_cst);
    atomic_thread_fence(memory_order_seq_cst);
    return value;
}

void hetccl_doorbell_wait(struct hetccl_doorbell *doorbell, unsigned prepared, uint64_t timeout_ns)
{
    if (timeout_ns > 0)
        hetccl_futex_wait(&doorbell->rings, prepared, timeout_ns);
    atomic_fetch_sub_explicit(&doorbell->n_sleepers, 1, memory_order_relaxed);
}
