/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device.h"

#include "base/log.h"
#include "device/cuda/cuda.h"
#include "device/host/host.h"

static enum hetccl_status open_best(const struct hetccl_config *config, int ordinal,
                                    struct hetccl_device **out)
{
    char why[256];

    if (hetccl_device_cuda_is_there(config, why, sizeof(why)))
        return hetccl_device_cuda_open(config, ordinal, out);
    hetccl_log(HETCCL_LOG_INFO, "device", "computing on the host: %s", why);
    return hetccl_device_host_open(out);
}

enum hetccl_status hetccl_device_open(const struct hetccl_config *config, int ordinal,
                                      struct hetccl_device **out)
{
    switch (config->device) {
    case HETCCL_DEVICE_CUDA:
        return hetccl_device_cuda_open(config, ordinal, out);
    case HETCCL_DEVICE_HIP:
        return hetccl_fail(HETCCL_ERR_USAGE, "HETCCL_DEVICE=hip: collectives on hip are not built yet; set "
                                             "HETCCL_DEVICE=host or leave it unset");
    case HETCCL_DEVICE_AUTO:
        return open_best(config, ordinal, out);
    case HETCCL_DEVICE_HOST:
        break;
    }
    return hetccl_device_host_open(out);
}
