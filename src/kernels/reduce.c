/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <string.h>

#include "kernels/float_env.h"
#include "kernels/kernels.h"
#include "kernels/variants.h"

static const struct hetccl_kernel_variant *const variants[] = {
    &hetccl_variant_baseline,
#if defined(__x86_64__)
    &hetccl_variant_avx2,
    &hetccl_variant_avx512,
#endif
};

enum { N_VARIANTS = sizeof(variants) / sizeof(variants[0]) };

/* NULL until the first reduction. Two threads may both choose: they choose the same. */
static const struct hetccl_kernel_variant *_Atomic chosen;

const struct hetccl_kernel_variant *hetccl_kernel_variant_at(size_t index)
{
    return index < N_VARIANTS ? variants[index] : NULL;
}

void hetccl_kernel_variant_force(const struct hetccl_kernel_variant *variant)
{
    atomic_store_explicit(&chosen, variant, memory_order_release);
}

static const struct hetccl_kernel_variant *choose(void)
{
    const struct hetccl_kernel_variant *best = atomic_load_explicit(&chosen, memory_order_acquire);

    if (best != NULL)
        return best;
    for (size_t i = 0; i < N_VARIANTS; i++) {
        if (variants[i]->is_supported())
            best = variants[i];
    }
    atomic_store_explicit(&chosen, best, memory_order_release);
    return best;
}

void hetccl_kernel_reduce(void *dst, const void *const *srcs, const struct hetccl_scale *scales,
                          size_t n_srcs, size_t count, enum hetccl_type type, enum hetccl_red red)
{
    uint64_t control;

    if (count == 0)
        return;
    if (n_srcs == 1 && scales == NULL) {
        if (dst != srcs[0])
            memcpy(dst, srcs[0], count * hetccl_type_bytes(type));
        return;
    }
    control = float_env_read();
    if (control != FLOAT_ENV_STANDARD)
        float_env_write(FLOAT_ENV_STANDARD);
    choose()->reduce(dst, srcs, scales, n_srcs, count, type, red);
    if (control != FLOAT_ENV_STANDARD)
        float_env_write(control);
}
