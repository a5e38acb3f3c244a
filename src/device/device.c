/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device.h"

#include "device/cuda/cuda.h"
#include "device/host/host.h"

enum hetccl_status hetccl_device_open(const struct hetccl_config *config, struct hetccl_device **out)
{
    switch (config->device) {
    case HETCCL_DEVICE_CUDA:
        return hetccl_device_cuda_open(config, out);
    case HETCCL_DEVICE_HIP:
        return hetccl_fail(HETCCL_ERR_USAGE, "HETCCL_DEVICE=hip: there is no such device yet; set "
                                             "HETCCL_DEVICE=host or leave it unset");
    case HETCCL_DEVICE_AUTO:
    case HETCCL_DEVICE_HOST:
        break;
    }
    return hetccl_device_host_open(out);
}
