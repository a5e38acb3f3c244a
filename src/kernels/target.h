/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_KERNELS_TARGET_H
#define HETCCL_KERNELS_TARGET_H

/*
 * What differs between the targets that the element functions are compiled for: the host's gcc or clang, and
 * clang for PTX and AMD code objects. Element functions (element.h, narrow.h) call nothing of libc, use no
 * table and no instruction of one target; they are bit manipulations and plain IEEE arithmetic, so that every
 * target gives the same bits. Compile them with -ffp-contract=off.
 */

#define HETCCL_KERNEL_INLINE static inline __attribute__((always_inline, unused))

/* Before a short loop of constant length over words that live in registers; before one that is to stay one.
 */
#if defined(__clang__)
#define HETCCL_KERNEL_UNROLL _Pragma("clang loop unroll(full)")
#define HETCCL_KERNEL_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define HETCCL_KERNEL_UNROLL _Pragma("GCC unroll 16")
#define HETCCL_KERNEL_ROLLED _Pragma("GCC unroll 1")
#endif

/*
 * Before a loop whose iterations don't depend on each other: the output may be identical to an input, which a
 * compiler that has to guard against every overlap takes as a reason to run the loop element by element.
 * Instrumented builds leave the loops as they are, and clang would complain.
 */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#define HETCCL_KERNEL_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define HETCCL_KERNEL_INDEPENDENT _Pragma("GCC ivdep")
#endif

#endif
