/* SPDX-License-Identifier: Apache-2.0 */
#include "base/status.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

static _Thread_local char thread_error[HETCCL_ERROR_TEXT_BYTES];
static _Thread_local char process_error_copy[HETCCL_ERROR_TEXT_BYTES];

static pthread_mutex_t process_error_lock = PTHREAD_MUTEX_INITIALIZER;
static char process_error[HETCCL_ERROR_TEXT_BYTES];

/* Truncation is wanted: the buffer's size is part of the interface. */
static void keep_text(const char *format, va_list args)
{
    /* Formatted aside first: an argument may be the last error itself. */
    char text[HETCCL_ERROR_TEXT_BYTES];

    (void)vsnprintf(text, sizeof(text), format, args);
    memcpy(thread_error, text, sizeof(text));
    pthread_mutex_lock(&process_error_lock);
    memcpy(process_error, text, sizeof(text));
    pthread_mutex_unlock(&process_error_lock);
}

enum hetccl_status hetccl_fail(enum hetccl_status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    keep_text(format, args);
    va_end(args);
    hetccl_log(HETCCL_LOG_WARN, "error", "%s: %s", hetccl_status_text(status), thread_error);
    return status;
}

enum hetccl_status hetccl_fail_quietly(enum hetccl_status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    keep_text(format, args);
    va_end(args);
    return status;
}

const char *hetccl_last_error_thread(void)
{
    return thread_error;
}

const char *hetccl_last_error_process(void)
{
    pthread_mutex_lock(&process_error_lock);
    memcpy(process_error_copy, process_error, sizeof(process_error));
    pthread_mutex_unlock(&process_error_lock);
    return process_error_copy;
}

const char *hetccl_status_text(enum hetccl_status status)
{
    switch (status) {
    case HETCCL_OK:
        return "success";
    case HETCCL_AGAIN:
        return "in progress";
    case HETCCL_ERR_ARG:
        return "wrong argument";
    case HETCCL_ERR_USAGE:
        return "wrong use";
    case HETCCL_ERR_SYSTEM:
        return "system failure";
    case HETCCL_ERR_DEVICE:
        return "device failure";
    case HETCCL_ERR_REMOTE:
        return "peer failed";
    case HETCCL_ERR_TIMEOUT:
        return "deadline passed";
    case HETCCL_ERR_ABORTED:
        return "aborted";
    case HETCCL_ERR_INTERNAL:
        return "internal failure";
    }
    return "unknown status";
}
