/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The library's kernels as the fake driver runs them, and what their host target needs of whoever runs it
 * (kernels/device/grid.h, sync.h). A kernel that is added to src/kernels/device gets a line in the list.
 */

#include "fake_cuda.h"
#include "kernels/device/entries.h"
#include "kernels/device/sync.h"

_Thread_local struct hetccl_grid_position hetccl_grid_position;

/* The GPU thread that this CPU thread is just now. */
static _Thread_local const struct fake_cuda_thread *current;

static void become(const struct fake_cuda_thread *thread)
{
    current = thread;
    hetccl_grid_position =
        (struct hetccl_grid_position){.thread = thread->thread_index[0], .block = thread->block_index[0]};
}

/* Others have run when barrier and yield return. */
void hetccl_block_barrier(void)
{
    const struct fake_cuda_thread *own = current;

    own->barrier(own);
    become(own);
}

void hetccl_kernel_yield(void)
{
    const struct fake_cuda_thread *own = current;

    own->yield(own);
    become(own);
}

uint32_t hetccl_block_broadcast(uint32_t value)
{
    uint32_t *word = current->block_word;

    if (current->thread_index[0] == 0)
        *word = value;
    hetccl_block_barrier();
    value = *word;
    hetccl_block_barrier();
    return value;
}

typedef void reduce_kernel(struct hetccl_reduce_args args);
typedef void average_kernel(struct hetccl_average_args args);
typedef void copy_kernel(struct hetccl_copy_args args);

static void run_reduce(void *const *params, const struct fake_cuda_thread *thread)
{
    become(thread);
    ((reduce_kernel *)thread->kernel->entry)(*(const struct hetccl_reduce_args *)params[0]);
}

static void run_average(void *const *params, const struct fake_cuda_thread *thread)
{
    become(thread);
    ((average_kernel *)thread->kernel->entry)(*(const struct hetccl_average_args *)params[0]);
}

static void run_copy(void *const *params, const struct fake_cuda_thread *thread)
{
    become(thread);
    ((copy_kernel *)thread->kernel->entry)(*(const struct hetccl_copy_args *)params[0]);
}

static void run_bridge(void *const *params, const struct fake_cuda_thread *thread)
{
    become(thread);
    hetccl_bridge(*(const struct hetccl_bridge_args *)params[0]);
}

#define KERNEL(wrapper, function_name, args, is_alone)                                                       \
    {                                                                                                        \
        .name = #function_name, .function = (wrapper), .n_params = 1, .param_bytes = {sizeof(args)},         \
        .is_independent = (is_alone), .entry = (fake_cuda_entry *)(function_name)                            \
    }

#pragma GCC visibility push(default)
const struct fake_cuda_kernel fake_cuda_kernels[] = {
    KERNEL(run_reduce, hetccl_reduce_int8, struct hetccl_reduce_args, true),
    KERNEL(run_reduce, hetccl_reduce_uint8, struct hetccl_reduce_args, true),
    KERNEL(run_reduce, hetccl_reduce_int32, struct hetccl_reduce_args, true),
    KERNEL(run_reduce, hetccl_reduce_uint32, struct hetccl_reduce_args, true),
    KERNEL(run_reduce, hetccl_reduce_int64, struct hetccl_reduce_args, true),
    KERNEL(run_reduce, hetccl_reduce_uint64, struct hetccl_reduce_args, true),
    KERNEL(run_reduce, hetccl_reduce_float16, struct hetccl_reduce_args, true),
    KERNEL(run_reduce, hetccl_reduce_float32, struct hetccl_reduce_args, true),
    KERNEL(run_reduce, hetccl_reduce_float64, struct hetccl_reduce_args, true),
    KERNEL(run_reduce, hetccl_reduce_bfloat16, struct hetccl_reduce_args, true),
    KERNEL(run_reduce, hetccl_reduce_float8_e4m3, struct hetccl_reduce_args, true),
    KERNEL(run_reduce, hetccl_reduce_float8_e5m2, struct hetccl_reduce_args, true),
    KERNEL(run_reduce, hetccl_reduce_float8_e4m3_fnuz, struct hetccl_reduce_args, true),
    KERNEL(run_reduce, hetccl_reduce_float8_e5m2_fnuz, struct hetccl_reduce_args, true),
    KERNEL(run_average, hetccl_average_widen, struct hetccl_average_args, true),
    KERNEL(run_average, hetccl_average_narrow, struct hetccl_average_args, true),
    KERNEL(run_copy, hetccl_copy, struct hetccl_copy_args, true),
    KERNEL(run_bridge, hetccl_bridge, struct hetccl_bridge_args, false),
    {.name = NULL},
};
#pragma GCC visibility pop
