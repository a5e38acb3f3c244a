/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TOOLS_WORDS_H
#define HETCCL_TOOLS_WORDS_H

/* Reading of what stands on command lines. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "8", "16K", "8M", "1G" (powers of 1024). */
bool hetccl_words_read_size(const char *text, size_t *out);

/* A whole number from min to max. */
bool hetccl_words_read_number(const char *text, long min, long max, long *out);

/* A collective's name as hetccl_trial_find() knows it, whatever way it is written: "all_reduce", "AllReduce",
 * "all-reduce". */
int hetccl_words_find_collective(const char *text);

/* Prints "hetccl <command>: <text>" on one line to stderr and returns HETCCL_EXIT_USAGE. */
int hetccl_words_refuse(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
