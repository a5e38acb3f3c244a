/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/images.h"

/* From the assembler file that embed.py makes. */
extern const char hetccl_image_ptx[], hetccl_image_ptx_end[];

const char *hetccl_kernel_image_ptx(size_t *bytes_out)
{
    *bytes_out = (size_t)(hetccl_image_ptx_end - hetccl_image_ptx);
    return *bytes_out == 0 ? NULL : hetccl_image_ptx;
}
