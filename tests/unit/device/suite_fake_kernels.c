/* SPDX-License-Identifier: Apache-2.0 */

/* The suite's kernels as the fake driver runs them; also built as a library for FAKE_CUDA_KERNELS. */

#include <stdint.h>

#include "fake_cuda.h"

static void fill(void *const *params, const struct fake_cuda_thread *thread)
{
    uint32_t *dst = *(uint32_t **)params[0];
    uint32_t i = thread->block_index[0] * thread->block[0] + thread->thread_index[0];

    if (i < *(uint32_t *)params[2])
        dst[i] = *(uint32_t *)params[1] + i;
}

static void rotate(void *const *params, const struct fake_cuda_thread *thread)
{
    uint32_t *dst = *(uint32_t **)params[0], *room = thread->shared;
    const uint32_t *src = *(uint32_t **)params[1];
    unsigned t = thread->thread_index[0];

    room[t] = src[t];
    thread->barrier(thread);
    dst[t] = room[(t + 1) % thread->block[0]];
}

static void hold(void *const *params, const struct fake_cuda_thread *thread)
{
    const uint32_t *gate = *(uint32_t **)params[0];
    uint32_t *dst = *(uint32_t **)params[1];

    while (__atomic_load_n(gate, __ATOMIC_ACQUIRE) == 0)
        thread->yield(thread);
    __atomic_store_n(dst, *(uint32_t *)params[2], __ATOMIC_RELEASE);
}

#pragma GCC visibility push(default)
const struct fake_cuda_kernel fake_cuda_kernels[] = {
    {.name = "suite_fill", .function = fill, .n_params = 3, .param_bytes = {8, 4, 4}, .is_independent = true},
    {.name = "suite_rotate", .function = rotate, .n_params = 2, .param_bytes = {8, 8}},
    {.name = "suite_hold", .function = hold, .n_params = 3, .param_bytes = {8, 8, 4}},
    {.name = NULL},
};
#pragma GCC visibility pop
