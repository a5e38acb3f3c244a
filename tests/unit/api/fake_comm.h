/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TESTS_FAKE_COMM_H
#define HETCCL_TESTS_FAKE_COMM_H

/*
 * A stand-in for all of src/comm, linked instead of it: it records what the API asks for, answers as a test
 * wants, and moves no bytes (but a communicator's first send buffer to its receive buffer, as one rank alone
 * would).
 *
 * Initialisations wait for each other like the real ones: hetccl_comm_init() returns when all n_ranks of an
 * id have come, or after 5 s with HETCCL_ERR_TIMEOUT, so that a test which serialises them fails.
 */

#include <stdbool.h>

#include "comm/comm.h"

/* Forgets all records and rules. Communicators that still live are a leak: asserts that there are none. */
void fake_reset(void);

/* The next call of a function ("init", "split", "shrink", "finalize", "run", "check", "alloc", "revoke")
 * fails so. */
void fake_fail_next(const char *function, enum hetccl_status status);

/* While held, "run", "split", "shrink" and "finalize" wait; an abort of their communicator ends the wait. */
void fake_hold(bool is_held);

/* Default of is_blocking, as from the environment. */
void fake_set_default_blocking(bool is_blocking);

/* How many communicators live. */
int fake_n_live(void);

/* What happened, in order: "alloc", "init 1/4", "split 7 3", "run 2", "finalize", "destroy", "abort" ... NULL
 * at the end. */
const char *fake_event(int index);
int fake_count_events(const char *prefix);

/* The items of the run number `run` from 0, copied. NULL when there was no such run. */
const struct hetccl_comm_item *fake_run(int run, size_t *n_items_out);

/* The run's copies of ALLTOALLV arrays: taken when the run started. */
const size_t *fake_send_counts(int run);

/* How many initialisations ran at the same time, at most. */
int fake_max_inside(void);

/* Options and ids that a communicator was made with. */
const struct hetccl_comm_options *fake_options(const struct hetccl_comm *comm);
size_t fake_n_ids(const struct hetccl_comm *comm);

/* Sets what hetccl_comm_async_state() answers of an initialised communicator. */
void fake_set_state(struct hetccl_comm *comm, enum hetccl_status state);

/* Gives a communicator a topology (borrowed). */
/* The device works on streams. */
void fake_set_asynchronous(struct hetccl_comm *comm);
void fake_set_topo(struct hetccl_comm *comm, const struct hetccl_topo *topo);

/* A communicator of n_ranks as the API hands it out, without an init: rank is `rank`. */
struct hetccl_comm *fake_make(int n_ranks, int rank, bool is_blocking);

#endif
