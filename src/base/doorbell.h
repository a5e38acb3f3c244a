/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_BASE_DOORBELL_H
#define HETCCL_BASE_DOORBELL_H

/*
 * A word in shared memory on which one rank sleeps and others ring. Ringing costs a system call only when
 * somebody sleeps.
 *
 * The sleeper: value = hetccl_doorbell_prepare(); look at everything once more; hetccl_doorbell_wait(value,
 * timeout); The ringer: publish the data (release); hetccl_doorbell_ring().
 */

#include <stdatomic.h>
#include <stdint.h>

struct hetccl_doorbell {
    _Alignas(64) atomic_uint rings;
    atomic_uint n_sleepers;
    char padding[56];
};

void hetccl_doorbell_ring(struct hetccl_doorbell *doorbell);

/* Announces a sleeper and returns the value to wait on. Pairs with exactly one hetccl_doorbell_wait(). */
unsigned hetccl_doorbell_prepare(struct hetccl_doorbell *doorbell);

/* Sleeps until a ring after prepare, at most timeout_ns (0: doesn't sleep); then the announcement is taken
 * back. */
void hetccl_doorbell_wait(struct hetccl_doorbell *doorbell, unsigned prepared, uint64_t timeout_ns);

#endif
