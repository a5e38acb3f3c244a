/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_BASE_STATUS_H
#define HETCCL_BASE_STATUS_H

/*
 * What a fallible function returns, and where the text of a failure is kept.
 *
 * Whoever first detects a failure calls hetccl_fail() with cause, rank, host or address, errno text and a
 * remedy. Callers only pass the status on.
 */

#include <stdbool.h>

enum hetccl_status {
    HETCCL_OK = 0,
    HETCCL_AGAIN,        /* not a failure: nothing could be done now, progress and call again */
    HETCCL_ERR_ARG,      /* an argument is wrong */
    HETCCL_ERR_USAGE,    /* calls, settings or ranks don't fit together */
    HETCCL_ERR_SYSTEM,   /* a system call or a resource failed */
    HETCCL_ERR_DEVICE,   /* a device runtime (CUDA, HIP) failed */
    HETCCL_ERR_REMOTE,   /* a peer died, closed, or reported a failure */
    HETCCL_ERR_TIMEOUT,  /* a deadline passed */
    HETCCL_ERR_ABORTED,  /* the communicator was aborted or revoked by this process */
    HETCCL_ERR_INTERNAL, /* an invariant of ours does not hold */
};

#define HETCCL_NODISCARD                     __attribute__((warn_unused_result))
#define HETCCL_PRINTF(fmt_index, args_index) __attribute__((format(printf, fmt_index, args_index)))

enum { HETCCL_ERROR_TEXT_BYTES = 1024 };

/*
 * hetccl_fail -- record a failure: format the text, log it once at level warn, keep it as the last error.
 *
 * Returns status, so that a detector can write `return hetccl_fail(HETCCL_ERR_ARG, "...")`.
 * Threads: any; the text is kept for the calling thread and as the process's last error.
 */
enum hetccl_status hetccl_fail(enum hetccl_status status, const char *format, ...) HETCCL_PRINTF(2, 3);

/* As hetccl_fail() without the log line: for a text that somebody else has logged (a remote rank's, a
 * parent's). */
enum hetccl_status hetccl_fail_quietly(enum hetccl_status status, const char *format, ...)
    HETCCL_PRINTF(2, 3);

/* The calling thread's last failure text; "" when there was none. Valid until the thread's next failure. */
const char *hetccl_last_error_thread(void);

/*
 * The process's last failure text, copied into storage of the calling thread; "" when there was none.
 * Valid until the thread calls this again. NCCL keeps one buffer for the process too.
 */
const char *hetccl_last_error_process(void);

/* A lower-case word for a status ("peer failed"); never NULL. */
const char *hetccl_status_text(enum hetccl_status status);

static inline bool hetccl_is_error(enum hetccl_status status)
{
    return status > HETCCL_AGAIN;
}

#endif
