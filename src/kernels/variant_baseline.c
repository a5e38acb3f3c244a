/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/variants.h"

#include "kernels/loops.h"

static bool is_supported(void)
{
    return true;
}

const struct hetccl_kernel_variant hetccl_variant_baseline = {"baseline", is_supported, reduce};
