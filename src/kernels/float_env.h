/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_KERNELS_FLOAT_ENV_H
#define HETCCL_KERNELS_FLOAT_ENV_H

/*
 * The calling thread may flush denormals, round another way or trap on NaNs: its floating-point control
 * register is the application's. Reductions have to give the same bits on every rank, so they run with the
 * standard one.
 */

#include <stdint.h>

#if defined(__x86_64__)

/* Control bits: all exceptions masked, nearest, no flushing. The low six are sticky flags and say nothing. */
enum { FLOAT_ENV_STANDARD = 0x1f80, FLOAT_ENV_FLAGS = 0x3f };

static inline uint64_t float_env_read(void)
{
    return __builtin_ia32_stmxcsr() & ~(unsigned)FLOAT_ENV_FLAGS;
}

static inline void float_env_write(uint64_t control)
{
    __builtin_ia32_ldmxcsr((unsigned)control);
}

#elif defined(__aarch64__)

enum { FLOAT_ENV_STANDARD = 0 };

static inline uint64_t float_env_read(void)
{
    uint64_t control;

    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return control;
}

static inline void float_env_write(uint64_t control)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(control));
}

#else

enum { FLOAT_ENV_STANDARD = 0 };

static inline uint64_t float_env_read(void)
{
    return FLOAT_ENV_STANDARD;
}

static inline void float_env_write(uint64_t control)
{
    (void)control;
}

#endif

#endif
