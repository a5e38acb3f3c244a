/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_BASE_THREAD_H
#define HETCCL_BASE_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/status.h"

/*
 * hetccl_thread_start -- start a joinable thread with all signals blocked and a name of at most 15
 * characters.
 *
 * Errors: HETCCL_ERR_SYSTEM. The caller joins it.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_thread_start(const char *name, void *(*body)(void *), void *arg,
                                                        pthread_t *out);

/*
 * hetccl_futex_wait -- sleep while *word == expected, at most timeout_ns; works between processes (shared
 * mapping).
 *
 * Returns on a wake-up, a changed word, a signal or the timeout; the caller looks again in any case.
 */
void hetccl_futex_wait(atomic_uint *word, unsigned expected, uint64_t timeout_ns);

/* Wake all threads of all processes that sleep on the word. One system call. */
void hetccl_futex_wake(atomic_uint *word);

/* Tell the processor that this is a spin loop. */
static inline void hetccl_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#endif
}

#endif
