/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_DEVICE_CHECK_H
#define HETCCL_DEVICE_CHECK_H

/* What can't be asked of any device. HETCCL_ERR_ARG with a text that names the device. */

#include "device/device.h"

HETCCL_NODISCARD enum hetccl_status hetccl_device_check_reduce(const struct hetccl_device *device,
                                                               const struct hetccl_reduce *reduce);
HETCCL_NODISCARD enum hetccl_status hetccl_device_check_average(const struct hetccl_device *device,
                                                                enum hetccl_type type, size_t n_ranks);

#endif
