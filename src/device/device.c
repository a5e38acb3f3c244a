/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device.h"

#include "device/host/host.h"

static enum hetccl_status refuse(const char *kind)
{
    return hetccl_fail(
        HETCCL_ERR_USAGE,
        "HETCCL_DEVICE=%s: collectives on %s are not built yet; set HETCCL_DEVICE=host or leave it unset",
        kind, kind);
}

enum hetccl_status hetccl_device_open(const struct hetccl_config *config, struct hetccl_device **out)
{
    switch (config->device) {
    case HETCCL_DEVICE_CUDA:
        return refuse("cuda");
    case HETCCL_DEVICE_HIP:
        return refuse("hip");
    case HETCCL_DEVICE_AUTO:
    case HETCCL_DEVICE_HOST:
        break;
    }
    return hetccl_device_host_open(out);
}
