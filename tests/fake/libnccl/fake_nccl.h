/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FAKE_NCCL_H
#define TESTS_FAKE_NCCL_H

/*
 * An NCCL for the fake libcuda.so.1: what a test may do with it beyond the NCCL API. Found by dlsym on
 * the library, or set in the environment:
 *
 *   FAKE_NCCL_VERSION=22807   what ncclGetVersion() says, and what all ranks must have in common
 *   FAKE_NCCL_FAIL=f:k:what,… the k-th call (from 1) of function f: what is a number, which it returns; hang,
 * then it never returns; or async, then it succeeds and its communicator has ncclRemoteError from there on
 * FAKE_NCCL_SAME_GPU=1 ranks may share a GPU, which is refused otherwise, as by NVIDIA's library
 *
 * What is true to life: processes (and threads) meet by the unique id; work runs in the order of its stream,
 * apart from the caller; groups, non-blocking communicators, split and shrink, operators, all types, aborts
 * that end running work. What isn't: up to 16 ranks of one host; every collective waits for all ranks;
 * functions beyond these do nothing but say ncclInvalidUsage. All calls are recorded, those included.
 */

#include <stddef.h>

/* The last call, its arguments included: "ncclSend(0x7f.., 16, 7, 1, 0/2, 0x55..)"; a communicator is
 * "rank/ranks". */
typedef const char *fake_nccl_last_call_function(void);

/* Calls of a function so far; "*" for all. */
typedef unsigned fake_nccl_calls_function(const char *function);

/* As FAKE_NCCL_FAIL, counted from now on. */
typedef void fake_nccl_fail_function(const char *script);

/* Communicators there are in this process. */
typedef size_t fake_nccl_live_comms_function(void);

#endif
