/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/device/entries.h"
#include "kernels/device/reduction.h"

HETCCL_KERNEL_ENTRY void hetccl_reduce_int8(struct hetccl_reduce_args args)
{
    reduce(&args, team_of_grid(args.n_blocks), HETCCL_INT8);
}

HETCCL_KERNEL_ENTRY void hetccl_reduce_uint8(struct hetccl_reduce_args args)
{
    reduce(&args, team_of_grid(args.n_blocks), HETCCL_UINT8);
}

HETCCL_KERNEL_ENTRY void hetccl_reduce_int32(struct hetccl_reduce_args args)
{
    reduce(&args, team_of_grid(args.n_blocks), HETCCL_INT32);
}

HETCCL_KERNEL_ENTRY void hetccl_reduce_uint32(struct hetccl_reduce_args args)
{
    reduce(&args, team_of_grid(args.n_blocks), HETCCL_UINT32);
}

HETCCL_KERNEL_ENTRY void hetccl_reduce_int64(struct hetccl_reduce_args args)
{
    reduce(&args, team_of_grid(args.n_blocks), HETCCL_INT64);
}

HETCCL_KERNEL_ENTRY void hetccl_reduce_uint64(struct hetccl_reduce_args args)
{
    reduce(&args, team_of_grid(args.n_blocks), HETCCL_UINT64);
}

HETCCL_KERNEL_ENTRY void hetccl_reduce_float16(struct hetccl_reduce_args args)
{
    reduce(&args, team_of_grid(args.n_blocks), HETCCL_FLOAT16);
}

HETCCL_KERNEL_ENTRY void hetccl_reduce_float32(struct hetccl_reduce_args args)
{
    reduce(&args, team_of_grid(args.n_blocks), HETCCL_FLOAT32);
}

HETCCL_KERNEL_ENTRY void hetccl_reduce_float64(struct hetccl_reduce_args args)
{
    reduce(&args, team_of_grid(args.n_blocks), HETCCL_FLOAT64);
}

HETCCL_KERNEL_ENTRY void hetccl_reduce_bfloat16(struct hetccl_reduce_args args)
{
    reduce(&args, team_of_grid(args.n_blocks), HETCCL_BFLOAT16);
}

HETCCL_KERNEL_ENTRY void hetccl_reduce_float8_e4m3(struct hetccl_reduce_args args)
{
    reduce(&args, team_of_grid(args.n_blocks), HETCCL_FLOAT8_E4M3);
}

HETCCL_KERNEL_ENTRY void hetccl_reduce_float8_e5m2(struct hetccl_reduce_args args)
{
    reduce(&args, team_of_grid(args.n_blocks), HETCCL_FLOAT8_E5M2);
}

HETCCL_KERNEL_ENTRY void hetccl_reduce_float8_e4m3_fnuz(struct hetccl_reduce_args args)
{
    reduce(&args, team_of_grid(args.n_blocks), HETCCL_FLOAT8_E4M3_FNUZ);
}

HETCCL_KERNEL_ENTRY void hetccl_reduce_float8_e5m2_fnuz(struct hetccl_reduce_args args)
{
    reduce(&args, team_of_grid(args.n_blocks), HETCCL_FLOAT8_E5M2_FNUZ);
}
