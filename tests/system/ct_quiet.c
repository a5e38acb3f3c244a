/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ct.h"

/*
 * What a call costs once the communicator knows its shape: launches and questions. Any other call of the
 * driver is wrong, and so is any allocation by the library.
 */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS_MALLOC 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define COUNTS_MALLOC 0
#endif
#endif
#ifndef COUNTS_MALLOC
#define COUNTS_MALLOC 1
#endif

static const void *library; /* whose allocations are counted; NULL: nobody's */
static atomic_uint n_allocations;

#if COUNTS_MALLOC

#pragma GCC visibility push(default)
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
void *malloc(size_t bytes);
void *calloc(size_t n, size_t bytes);
void *realloc(void *memory, size_t bytes);
void *aligned_alloc(size_t alignment, size_t bytes);
#pragma GCC visibility pop

/* The driver allocates too, as the real one may. */
static void count(const void *caller)
{
    Dl_info info;

    if (library != NULL && dladdr(caller, &info) != 0 && info.dli_fbase == library)
        atomic_fetch_add(&n_allocations, 1);
}

void *malloc(size_t bytes)
{
    count(__builtin_return_address(0));
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    count(__builtin_return_address(0));
    return __libc_calloc(n, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    count(__builtin_return_address(0));
    return __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    count(__builtin_return_address(0));
    return __libc_memalign(alignment, bytes);
}

#endif

static void watch_library(bool is_on)
{
    Dl_info info;
    void *function = dlsym(RTLD_DEFAULT, "ncclAllReduce");

    library = is_on && dladdr(function, &info) != 0 ? info.dli_fbase : NULL;
}

/* cuEventQuery is the watching thread's. */
static const char *const allowed[] = {
    "cuLaunchKernel",     "cuStreamGetCaptureInfo_v2",         "cuCtxGetCurrent", "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2", "cuThreadExchangeStreamCaptureMode", "cuEventQuery",
};

enum { N_ALLOWED = sizeof(allowed) / sizeof(allowed[0]) };

/* All calls of the driver but the allowed ones. The counts are taken one by one, so that a call between two
 * of them could be missed or counted twice: it is only the watching thread's, every 50 ms. */
static unsigned other_calls(const struct ct *ct)
{
    unsigned n = ct->cuda->calls("*");

    for (int i = 0; i < N_ALLOWED; i++)
        n -= ct->cuda->calls(allowed[i]);
    return n;
}

/* Averages of integers end with a kernel that isn't the bridge's, behind which an event is recorded. */
static unsigned expected_calls(const struct hetccl_trial *trial)
{
    return trial->reference.op == HETCCL_REFERENCE_AVG && trial->reference.type == ncclInt32 ? 1 : 0;
}

/* Groups of sends and receives are planned anew every time, in host memory only. */
static bool may_allocate(const struct hetccl_trial *trial)
{
    return trial->kind == HETCCL_TRIAL_SENDRECV;
}

static int check_quiet(struct ct *ct, const struct hetccl_trial *trial, const struct ct_memory memory[2])
{
    unsigned wanted = expected_calls(trial), n_calls, before;
    int code;

    /* Once more if the watching thread came between. */
    for (int tries = 0; tries < 3; tries++) {
        code = ct_fill_trial(ct, trial, memory);
        if (code != CT_OK)
            return code;
        atomic_store(&n_allocations, 0);
        before = other_calls(ct);
        watch_library(true);
        code = ct_enqueue_trial(ct, trial, memory);
        watch_library(false);
        n_calls = other_calls(ct) - before;
        if (code == CT_OK)
            code = ct_check_trial(ct, trial, memory);
        if (code != CT_OK || (n_calls == wanted && (may_allocate(trial) || atomic_load(&n_allocations) == 0)))
            return code;
    }
    return ct_fail(ct, CT_WRONG, "%s, %s: %u driver calls too many, %u allocations",
                   hetccl_trial_name(trial->kind), hetccl_reference_op_name(trial->reference.op),
                   n_calls - wanted, atomic_load(&n_allocations));
}

static int try_kind(struct ct *ct, enum hetccl_trial_kind kind, ncclDataType_t type,
                    enum hetccl_reference_op op, size_t count)
{
    struct hetccl_trial trial = ct_trial(ct, kind, type, op, count);
    struct ct_memory memory[2] = {{NULL}};
    int code = ct_trial_memory(ct, &trial, memory);

    if (code == CT_OK)
        code = ct_fill_trial(ct, &trial, memory);
    if (code == CT_OK)
        code = ct_enqueue_trial(ct, &trial, memory);
    if (code == CT_OK)
        code = ct_check_trial(ct, &trial, memory);
    if (code == CT_OK)
        code = check_quiet(ct, &trial, memory);
    ct_memory_close(ct, &memory[0]);
    ct_memory_close(ct, &memory[1]);
    return code;
}

int ct_scenario_quiet(struct ct *ct)
{
    static const size_t counts[] = {11, 20011};
    int code = CT_OK;

    for (int kind = 0; kind < HETCCL_TRIAL_KINDS; kind++)
        for (size_t i = 0; code == CT_OK && i < sizeof(counts) / sizeof(counts[0]); i++) {
            enum hetccl_trial_kind k = (enum hetccl_trial_kind)kind;

            code = try_kind(ct, k, ncclFloat32, HETCCL_REFERENCE_SUM, counts[i]);
            if (code == CT_OK && hetccl_trial_has_op(k))
                code = try_kind(ct, k, ncclInt32, HETCCL_REFERENCE_AVG, counts[i]);
        }
    return code;
}
