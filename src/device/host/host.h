/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_DEVICE_HOST_HOST_H
#define HETCCL_DEVICE_HOST_HOST_H

/*
 * The host device: CPU memory, and the host target of the kernels. Synchronous; streams are ignored; both
 * kinds of memory are ordinary memory.
 */

#include "device/device.h"

/* Errors: HETCCL_ERR_SYSTEM without memory. The caller closes it by ops->close. Threads: any. */
HETCCL_NODISCARD enum hetccl_status hetccl_device_host_open(struct hetccl_device **out);

#endif
