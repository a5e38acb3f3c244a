/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_KERNELS_IMAGES_H
#define HETCCL_KERNELS_IMAGES_H

/* The kernels of device/, compiled for GPUs and embedded. What is in them: device/args.h. */

#include <stddef.h>

/*
 * hetccl_kernel_image_ptx -- the kernels as PTX text, for cuModuleLoadData() on any NVIDIA GPU from sm_70 on.
 *
 * bytes_out  [out] length without the NUL that follows; 0 if there is none
 *
 * Returns read-only memory that is never given back, or NULL in a library that was built without clang-19.
 * Threads: any.
 */
const char *hetccl_kernel_image_ptx(size_t *bytes_out);

#endif
