/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_BASE_LOG_H
#define HETCCL_BASE_LOG_H

/*
 * One line a message: time, host:pid:tid, subsystem, text. Silent unless HETCCL_DEBUG (or NCCL_DEBUG) asks.
 * The text is lower case and names its values (`link tcp, peer 3, address 10.0.0.2:4711`).
 */

#include <stdbool.h>

#include "base/status.h"

enum hetccl_log_level {
    HETCCL_LOG_NONE = 0,
    HETCCL_LOG_WARN,
    HETCCL_LOG_INFO,  /* once a communicator */
    HETCCL_LOG_DEBUG, /* once an object */
    HETCCL_LOG_TRACE, /* per message; only in builds with -Dbuildtype=debug */
};

/*
 * hetccl_log_configure -- set level and destination; called by whoever parsed the configuration.
 *
 * level     [in]  messages above it are dropped
 * file_path [in]  NULL or "" for stderr; %h becomes the host name, %p the process id. The first successful
 * open wins and stays open; a path that can't be opened leaves stderr. Threads: any.
 */
void hetccl_log_configure(enum hetccl_log_level level, const char *file_path);

/* True when a message of the level would be written: guards work done only for a message. */
bool hetccl_log_is_on(enum hetccl_log_level level);

/* Never fails, never writes to stdout, never changes errno. */
void hetccl_log(enum hetccl_log_level level, const char *subsystem, const char *format, ...)
    HETCCL_PRINTF(3, 4);

#endif
