/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/variants.h"

#if defined(__x86_64__)

/* After this, every function is compiled for the instruction set: nothing but loops.h may follow. */
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif

#include "kernels/loops.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

static bool is_supported(void)
{
    return __builtin_cpu_supports("avx2");
}

const struct hetccl_kernel_variant hetccl_variant_avx2 = {"avx2", is_supported, reduce};

#endif
