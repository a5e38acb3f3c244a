/* SPDX-License-Identifier: Apache-2.0 */
#include "device/check.h"

enum hetccl_status hetccl_device_check_reduce(const struct hetccl_device *device,
                                              const struct hetccl_reduce *reduce)
{
    if (reduce->n_srcs == 0 || reduce->n_srcs > HETCCL_REDUCE_MAX_INPUTS)
        return hetccl_fail(HETCCL_ERR_ARG, "device %s %d: a reduction of %zu inputs; it takes 1 to %d",
                           device->ops->name, device->ordinal, reduce->n_srcs, HETCCL_REDUCE_MAX_INPUTS);
    if ((unsigned)reduce->type >= HETCCL_TYPES || (unsigned)reduce->red >= HETCCL_REDS)
        return hetccl_fail(HETCCL_ERR_ARG, "device %s %d: no such reduction: type %d, operation %d",
                           device->ops->name, device->ordinal, (int)reduce->type, (int)reduce->red);
    if (reduce->scales != NULL && reduce->red != HETCCL_SUM)
        return hetccl_fail(HETCCL_ERR_ARG, "device %s %d: %s can't have scaled inputs, only sum can",
                           device->ops->name, device->ordinal, hetccl_red_name(reduce->red));
    return HETCCL_OK;
}

enum hetccl_status hetccl_device_check_average(const struct hetccl_device *device, enum hetccl_type type,
                                               size_t n_ranks)
{
    if ((unsigned)type > HETCCL_UINT64)
        return hetccl_fail(HETCCL_ERR_ARG, "device %s %d: an integer average of %s elements",
                           device->ops->name, device->ordinal, hetccl_type_name(type));
    if (n_ranks == 0 || n_ranks > HETCCL_AVERAGE_MAX_RANKS)
        return hetccl_fail(HETCCL_ERR_ARG, "device %s %d: an average over %zu ranks; it takes 1 to %d",
                           device->ops->name, device->ordinal, n_ranks, HETCCL_AVERAGE_MAX_RANKS);
    return HETCCL_OK;
}
