/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SYSTEM_NATIVE_H
#define TESTS_SYSTEM_NATIVE_H

/*
 * Native communicators on the fake driver and the fake NCCL: two processes, a GPU each. `native CASE` starts
 * both ranks; they are told apart by the environment. Every case checks results, arguments and codes, and
 * exits 1 with words.
 */

#include <stdbool.h>
#include <stddef.h>

#include "fake_nccl.h"
#include "nccl.h"

#include "hetccl/hetccl.h"

enum { N_RANKS = 2, COUNT = 1000 };

extern int rank;

/* What the test uses of the fake driver and of the fake NCCL. */
struct fakes {
    unsigned (*cuInit)(unsigned flags);
    unsigned (*cuDevicePrimaryCtxRetain)(void **context, int device);
    unsigned (*cuCtxSetCurrent)(void *context);
    unsigned (*cuMemAlloc_v2)(unsigned long long *address, size_t bytes);
    unsigned (*cuStreamCreate)(void **stream, unsigned flags);
    unsigned (*cuStreamQuery)(void *stream);
    fake_nccl_last_call_function *last_call;
    fake_nccl_calls_function *n_calls;
    fake_nccl_fail_function *fail;
    fake_nccl_live_comms_function *n_live;
};
extern struct fakes fakes;

/* Ends the test unless it holds. The text says what should. */
void expect(bool holds, const char *format, ...) __attribute__((format(printf, 2, 3)));
void expect_result(ncclResult_t result, ncclResult_t wanted, const char *what);
void expect_error_text(const char *words);

/* The last call that the fake NCCL got, arguments as in fake_nccl.h. */
void expect_call(const char *format, ...) __attribute__((format(printf, 1, 2)));

void use_device(int device);
void *device_memory(size_t bytes);
hetcclStream_t new_stream(void);
void synchronize(hetcclStream_t stream);
double now_s(void);

/* A communicator of both ranks; name tells the meetings of a case apart. config may be NULL. */
ncclComm_t join_comm(const char *name, ncclConfig_t *config);
ncclResult_t try_join(const char *name, ncclConfig_t *config, ncclComm_t *out);
void make_id(const char *name, ncclUniqueId *out);
void wait_ready(ncclComm_t comm);
const char *engine_of(ncclComm_t comm);

/* calls.c: collectives, values and arguments. */
void case_values(void);
void case_arguments(void);
void case_group(void);
void case_errors(void);
/* life.c */
void case_init(void);
void case_children(void);
void case_non_blocking(void);
void case_endings(void);
void case_init_all(void);
void case_old_library(void);
void case_no_library(void);
void case_forced(void);
void case_mixed(void);
void case_one(void);

#endif
