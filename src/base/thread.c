/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/time.h"

enum hetccl_status hetccl_thread_start(const char *name, void *(*body)(void *), void *arg, pthread_t *out)
{
    sigset_t all;
    sigset_t previous;
    pthread_t thread;
    int error;

    /* The host program's signal handlers run on its own threads only. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous);
    error = hetccl_fault_hit(HETCCL_FAULT_THREAD) ? EAGAIN : pthread_create(&thread, NULL, body, arg);
    pthread_sigmask(SIG_SETMASK, &previous, NULL);
    if (error != 0)
        return hetccl_fail(HETCCL_ERR_SYSTEM,
                           "thread '%s' could not be started: %s; raise the limit of processes (ulimit -u)",
                           name, strerror(error));
    (void)pthread_setname_np(thread, name);
    *out = thread;
    return HETCCL_OK;
}

void hetccl_futex_wait(atomic_uint *word, unsigned expected, uint64_t timeout_ns)
{
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / HETCCL_NS_PER_S),
                               .tv_nsec = (long)(timeout_ns % HETCCL_NS_PER_S)};

    (void)syscall(SYS_futex, (unsigned *)word, FUTEX_WAIT, expected, &timeout, NULL, 0);
}

void hetccl_futex_wake(atomic_uint *word)
{
    (void)syscall(SYS_futex, (unsigned *)word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
