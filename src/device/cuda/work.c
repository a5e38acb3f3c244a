/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "device/check.h"
#include "device/cuda/internal.h"
#include "kernels/device/args.h"

/* Blocks of HETCCL_BLOCK_THREADS that a multiprocessor has to have at once for the memory's full speed;
 * docs/results/h200.md. */
enum { BLOCKS_PER_UNIT = 4 };

static uint32_t count_blocks(const struct hetccl_device *device, size_t count)
{
    return hetccl_launch_blocks(count, device->n_units * BLOCKS_PER_UNIT);
}

static enum hetccl_status launch(struct hetccl_device *device, struct hetccl_stream stream, const char *name,
                                 uint32_t n_blocks, void *args)
{
    struct hetccl_launch one = {.n_blocks = n_blocks, .block_threads = HETCCL_BLOCK_THREADS, .params = &args};
    enum hetccl_status status = hetccl_cuda_image_kernel(device, name, &one.kernel);

    return status == HETCCL_OK ? hetccl_cuda_kernel_launch(device, stream, &one) : status;
}

enum hetccl_status hetccl_cuda_reduce(struct hetccl_device *device, struct hetccl_stream stream,
                                      const struct hetccl_reduce *reduce)
{
    struct hetccl_reduce_args args = {.dst = reduce->dst,
                                      .count = reduce->count,
                                      .n_srcs = (uint32_t)reduce->n_srcs,
                                      .red = (uint32_t)reduce->red,
                                      .is_scaled = reduce->scales != NULL,
                                      .n_blocks = count_blocks(device, reduce->count)};
    enum hetccl_status status = hetccl_device_check_reduce(device, reduce);
    char name[64];

    if (status != HETCCL_OK || reduce->count == 0)
        return status;
    if (reduce->n_srcs == 1 && reduce->scales == NULL)
        return reduce->dst == reduce->srcs[0]
                   ? HETCCL_OK
                   : hetccl_cuda_copy(device, stream, reduce->dst, reduce->srcs[0],
                                      reduce->count * hetccl_type_bytes(reduce->type));
    memcpy(args.srcs, reduce->srcs, reduce->n_srcs * sizeof(args.srcs[0]));
    if (reduce->scales != NULL)
        memcpy(args.scales, reduce->scales, reduce->n_srcs * sizeof(args.scales[0]));
    (void)snprintf(name, sizeof(name), "hetccl_reduce_%s", hetccl_type_name(reduce->type));
    return launch(device, stream, name, args.n_blocks, &args);
}

static enum hetccl_status average(struct hetccl_device *device, struct hetccl_stream stream, const char *name,
                                  struct hetccl_average_args *args)
{
    enum hetccl_status status =
        hetccl_device_check_average(device, (enum hetccl_type)args->type, args->n_ranks);

    if (status != HETCCL_OK || args->count == 0)
        return status;
    args->n_blocks = count_blocks(device, args->count);
    return launch(device, stream, name, args->n_blocks, args);
}

enum hetccl_status hetccl_cuda_average_widen(struct hetccl_device *device, struct hetccl_stream stream,
                                             void *dst_wide, const void *src, size_t count,
                                             enum hetccl_type type, size_t n_ranks)
{
    struct hetccl_average_args args = {
        .dst = dst_wide, .src = src, .count = count, .n_ranks = n_ranks, .type = (uint32_t)type};

    return average(device, stream, "hetccl_average_widen", &args);
}

enum hetccl_status hetccl_cuda_average_narrow(struct hetccl_device *device, struct hetccl_stream stream,
                                              void *dst, const void *src_wide, size_t count,
                                              enum hetccl_type type, size_t n_ranks)
{
    struct hetccl_average_args args = {
        .dst = dst, .src = src_wide, .count = count, .n_ranks = n_ranks, .type = (uint32_t)type};

    return average(device, stream, "hetccl_average_narrow", &args);
}
