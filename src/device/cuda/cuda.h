/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_DEVICE_CUDA_CUDA_H
#define HETCCL_DEVICE_CUDA_CUDA_H

/* NVIDIA GPUs by the CUDA driver API, opened at run time (libcuda.so.1). Asynchronous; streams are the
 * caller's cudaStream_t. */

#include "device/device.h"

/*
 * hetccl_device_cuda_open -- a GPU.
 *
 * ordinal  [in]  HETCCL_DEVICE_OF_THREAD or the driver's number
 *
 * The calling thread's is the device of its current context, which is used as it is; or, where the thread has
 * none, device 0. Everywhere else the primary context is used (the one that the CUDA runtime and PyTorch
 * use), retained until close. The context is made current around each operation only.
 *
 * Errors: HETCCL_ERR_USAGE without a driver, a function of it or a GPU; HETCCL_ERR_DEVICE when the driver
 * fails; HETCCL_ERR_SYSTEM without memory. Blocks for up to seconds the first time in a process (the driver
 * starts). Threads: any. Not in a child forked after the driver had started.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_device_cuda_open(const struct hetccl_config *config, int ordinal,
                                                            struct hetccl_device **out);

/*
 * hetccl_device_cuda_is_there -- is there a driver with a GPU, and has this library kernels for it?
 *
 * why_out  [out] when not: a line that says why, cut to why_bytes
 *
 * Says true also where only opening the device can tell what is wrong. Logs nothing. Starts the driver.
 */
bool hetccl_device_cuda_is_there(const struct hetccl_config *config, char *why_out, size_t why_bytes);

#endif
