/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_BASE_TIME_H
#define HETCCL_BASE_TIME_H

#include <stdint.h>

enum { HETCCL_NS_PER_US = 1000, HETCCL_NS_PER_MS = 1000000, HETCCL_NS_PER_S = 1000000000 };

/* Monotonic time in nanoseconds. */
uint64_t hetccl_now_ns(void);

void hetccl_sleep_ns(uint64_t duration_ns);

/* now + seconds; seconds 0 means "no deadline" and gives UINT64_MAX. */
uint64_t hetccl_deadline_ns(uint64_t seconds);

#endif
