/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/device/entries.h"
#include "kernels/device/move.h"

HETCCL_KERNEL_ENTRY void hetccl_copy(struct hetccl_copy_args args)
{
    move(&args, team_of_grid((uint32_t)args.n_blocks));
}
