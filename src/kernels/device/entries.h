/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_KERNELS_DEVICE_ENTRIES_H
#define HETCCL_KERNELS_DEVICE_ENTRIES_H

/* The kernels. In an image they are looked up by these names; on the host they are functions that do one
 * thread's part. */

#include "kernels/device/args.h"
#include "kernels/device/grid.h"
#include "kernels/device/program.h"

HETCCL_KERNEL_ENTRY void hetccl_reduce_int8(struct hetccl_reduce_args args);
HETCCL_KERNEL_ENTRY void hetccl_reduce_uint8(struct hetccl_reduce_args args);
HETCCL_KERNEL_ENTRY void hetccl_reduce_int32(struct hetccl_reduce_args args);
HETCCL_KERNEL_ENTRY void hetccl_reduce_uint32(struct hetccl_reduce_args args);
HETCCL_KERNEL_ENTRY void hetccl_reduce_int64(struct hetccl_reduce_args args);
HETCCL_KERNEL_ENTRY void hetccl_reduce_uint64(struct hetccl_reduce_args args);
HETCCL_KERNEL_ENTRY void hetccl_reduce_float16(struct hetccl_reduce_args args);
HETCCL_KERNEL_ENTRY void hetccl_reduce_float32(struct hetccl_reduce_args args);
HETCCL_KERNEL_ENTRY void hetccl_reduce_float64(struct hetccl_reduce_args args);
HETCCL_KERNEL_ENTRY void hetccl_reduce_bfloat16(struct hetccl_reduce_args args);
HETCCL_KERNEL_ENTRY void hetccl_reduce_float8_e4m3(struct hetccl_reduce_args args);
HETCCL_KERNEL_ENTRY void hetccl_reduce_float8_e5m2(struct hetccl_reduce_args args);
HETCCL_KERNEL_ENTRY void hetccl_reduce_float8_e4m3_fnuz(struct hetccl_reduce_args args);
HETCCL_KERNEL_ENTRY void hetccl_reduce_float8_e5m2_fnuz(struct hetccl_reduce_args args);

HETCCL_KERNEL_ENTRY void hetccl_average_widen(struct hetccl_average_args args);
HETCCL_KERNEL_ENTRY void hetccl_average_narrow(struct hetccl_average_args args);

HETCCL_KERNEL_ENTRY void hetccl_copy(struct hetccl_copy_args args);

HETCCL_KERNEL_ENTRY void hetccl_bridge(struct hetccl_bridge_args args);

#endif
