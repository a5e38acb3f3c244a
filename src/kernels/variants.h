/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_KERNELS_VARIANTS_H
#define HETCCL_KERNELS_VARIANTS_H

/*
 * The same loops (loops.h) compiled for several instruction sets. One is chosen at the first reduction by
 * what the CPU has; an explicit table rather than compiler-made indirect functions, so that sanitizers work
 * and a test can take each in turn. Internal to kernels/ and its tests.
 */

#include <stdbool.h>
#include <stddef.h>

#include "kernels/kernels.h"

/* srcs and the rest as hetccl_kernel_reduce(), with count > 0, and n_srcs > 1 or scales given. */
typedef void hetccl_variant_reduce(void *dst, const void *const *srcs, const struct hetccl_scale *scales,
                                   size_t n_srcs, size_t count, enum hetccl_type type, enum hetccl_red red);

struct hetccl_kernel_variant {
    const char *name;
    bool (*is_supported)(void); /* by this CPU and kernel */
    hetccl_variant_reduce *reduce;
};

extern const struct hetccl_kernel_variant
    hetccl_variant_baseline; /* what the library as a whole is compiled for */
#if defined(__x86_64__)
extern const struct hetccl_kernel_variant hetccl_variant_avx2;
extern const struct hetccl_kernel_variant hetccl_variant_avx512;
#endif

/* The variants of this architecture, worst first; NULL after the last. */
const struct hetccl_kernel_variant *hetccl_kernel_variant_at(size_t index);

/* Later reductions of the process take this one; NULL: the best supported again. For tests. Threads: any. */
void hetccl_kernel_variant_force(const struct hetccl_kernel_variant *variant);

/* The factor as f32 bits, for the types that accumulate in f32. */
uint32_t hetccl_scale_to_f32(struct hetccl_scale scale, enum hetccl_type type);

#endif
