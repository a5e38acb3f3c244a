/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <time.h>

#include "base/memory.h"
#include "base/time.h"
#include "exec/exec.h"

/*
 * Sockets can be polled, doorbells are futexes, and one thread can't sleep on both. Where a wait needs both,
 * or several doorbells, it sleeps in short slices.
 */
enum { MIXED_SLICE_NS = 200 * HETCCL_NS_PER_US };

void hetccl_wait_set_add_doorbell(struct hetccl_wait_set *set, struct hetccl_doorbell *doorbell)
{
    for (size_t i = 0; i < set->n_doorbells; i++)
        if (set->doorbells[i] == doorbell)
            return;
    if (set->n_doorbells == HETCCL_WAIT_MAX_DOORBELLS) {
        set->is_truncated = true;
        return;
    }
    set->prepared[set->n_doorbells] = hetccl_doorbell_prepare(doorbell);
    set->doorbells[set->n_doorbells++] = doorbell;
}

static void sleep_on_fds(const struct hetccl_wait_set *set, uint64_t timeout_ns)
{
    struct pollfd polled[HETCCL_WAIT_MAX_FDS];
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / HETCCL_NS_PER_S),
                               .tv_nsec = (long)(timeout_ns % HETCCL_NS_PER_S)};

    for (size_t i = 0; i < set->n_fds; i++)
        polled[i] = (struct pollfd){.fd = set->fds[i], .events = set->events[i]};
    (void)ppoll(polled, set->n_fds, &timeout, NULL);
}

void hetccl_wait(struct hetccl_wait_set *set, uint64_t timeout_ns)
{
    uint64_t futex_timeout_ns = timeout_ns;
    bool is_mixed = set->n_fds > 0 && set->has_shared;

    if (timeout_ns > MIXED_SLICE_NS && (is_mixed || set->is_truncated || set->n_doorbells > 1))
        timeout_ns = futex_timeout_ns = MIXED_SLICE_NS;
    if (set->n_fds > 0 && timeout_ns > 0) {
        sleep_on_fds(set, timeout_ns);
        futex_timeout_ns = 0;
    }
    for (size_t i = 0; i < set->n_doorbells; i++)
        hetccl_doorbell_wait(set->doorbells[i], set->prepared[i], i == 0 ? futex_timeout_ns : 0);
    set->n_doorbells = set->n_fds = 0;
    set->is_truncated = set->has_shared = false;
}
