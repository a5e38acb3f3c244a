/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TESTS_API_CHECK_H
#define HETCCL_TESTS_API_CHECK_H

/* What the tests of the API share. Include first. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <string.h>

#include "fake_comm.h"
#include "hetccl/nccl.h"

static inline ncclComm_t handle_of(struct hetccl_comm *comm)
{
    return (ncclComm_t)(void *)comm;
}

/* The last failure's text has this in it. */
static inline void assert_error_says(const char *words)
{
    const char *text = ncclGetLastError(NULL);

    if (strstr(text, words) == NULL)
        fail_msg("the text \"%s\" doesn't say \"%s\"", text, words);
}

/* Polls until the communicator is no longer in progress; its state. */
static inline ncclResult_t wait_ready(ncclComm_t comm)
{
    ncclResult_t state = ncclInProgress;

    while (state == ncclInProgress)
        assert_int_equal(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    return state;
}

static inline int reset_fake(void **state)
{
    (void)state;
    fake_reset();
    return 0;
}

#endif
