/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/variants.h"

#if defined(__x86_64__)

/* After this, every function is compiled for the instruction set: nothing but loops.h may follow. */
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))),                  \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
#endif

#include "kernels/loops.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

static bool is_supported(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

const struct hetccl_kernel_variant hetccl_variant_avx512 = {"avx512", is_supported, reduce};

#endif
