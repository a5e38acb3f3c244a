/* SPDX-License-Identifier: Apache-2.0 */
/* Integers to the type that their average is summed in, and back. One element a thread and turn: averages of
 * integers are rare, and the division costs more than the memory. */
#include "kernels/average_element.h"
#include "kernels/device/entries.h"
#include "kernels/device/memory.h"

HETCCL_KERNEL_INLINE void widen_element(const struct hetccl_average_args *args, uint64_t i)
{
    uint64_t quotient, remainder;

    switch (args->type) {
    case HETCCL_INT8:
        store_32(args->dst, i, (uint32_t)(int32_t)(int8_t)element_load(args->src, i, 1));
        break;
    case HETCCL_UINT8:
        store_32(args->dst, i, (uint32_t)element_load(args->src, i, 1));
        break;
    case HETCCL_INT32:
        store_64(args->dst, i, (uint64_t)(int64_t)(int32_t)element_load(args->src, i, 4));
        break;
    case HETCCL_UINT32:
        store_64(args->dst, i, element_load(args->src, i, 4));
        break;
    default:
        average_split(element_load(args->src, i, 8), args->n_ranks, args->type == HETCCL_INT64, &quotient,
                      &remainder);
        store_64(args->dst, 2 * i, quotient);
        store_64(args->dst, 2 * i + 1, remainder);
    }
}

HETCCL_KERNEL_INLINE void narrow_element(const struct hetccl_average_args *args, uint64_t i)
{
    uint64_t first, second;

    switch (args->type) {
    case HETCCL_INT8:
    case HETCCL_UINT8:
        first = element_load(args->src, i, 4);
        element_store(args->dst, i, 1, average_mean_8((int32_t)first, (int32_t)args->n_ranks));
        break;
    case HETCCL_INT32:
    case HETCCL_UINT32:
        first = element_load(args->src, i, 8);
        store_32(args->dst, i, average_mean_32((int64_t)first, (int64_t)args->n_ranks));
        break;
    case HETCCL_INT64:
        first = element_load(args->src, 2 * i, 8);
        second = element_load(args->src, 2 * i + 1, 8);
        store_64(args->dst, i,
                 (uint64_t)average_mean_i64((int64_t)first, (int64_t)second, (int64_t)args->n_ranks));
        break;
    default:
        first = element_load(args->src, 2 * i, 8);
        second = element_load(args->src, 2 * i + 1, 8);
        store_64(args->dst, i, average_mean_u64(first, second, args->n_ranks));
    }
}

HETCCL_KERNEL_ENTRY void hetccl_average_widen(struct hetccl_average_args args)
{
    struct team team = team_of_grid(args.n_blocks);

    HETCCL_KERNEL_ROLLED
    for (uint64_t i = team_thread(team); i < args.count; i += team_threads(team))
        widen_element(&args, i);
}

HETCCL_KERNEL_ENTRY void hetccl_average_narrow(struct hetccl_average_args args)
{
    struct team team = team_of_grid(args.n_blocks);

    HETCCL_KERNEL_ROLLED
    for (uint64_t i = team_thread(team); i < args.count; i += team_threads(team))
        narrow_element(&args, i);
}
