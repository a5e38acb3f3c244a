/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time.h"

#include <errno.h>
#include <time.h>

uint64_t hetccl_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * HETCCL_NS_PER_S + (uint64_t)now.tv_nsec;
}

void hetccl_sleep_ns(uint64_t duration_ns)
{
    struct timespec left = {.tv_sec = (time_t)(duration_ns / HETCCL_NS_PER_S),
                            .tv_nsec = (long)(duration_ns % HETCCL_NS_PER_S)};

    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

uint64_t hetccl_deadline_ns(uint64_t seconds)
{
    return seconds == 0 ? UINT64_MAX : hetccl_now_ns() + seconds * HETCCL_NS_PER_S;
}
