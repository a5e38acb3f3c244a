/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_BOOTSTRAP_ROOT_H
#define HETCCL_BOOTSTRAP_ROOT_H

/*
 * The meeting point of one communicator's ranks. Collects n registrations, says every second who is missing,
 * and gives everybody the mesh key and the contacts of their neighbours when all are there. A rank that dies,
 * gives up or doesn't fit fails all; a failed root stays until its deadline to tell those that come late.
 * Everything here is locked.
 */

#include "bootstrap/conn.h"
#include "wire/records.h"
#include "wire/unique_id.h"

struct hetccl_root_args {
    uint64_t job_id;
    const uint8_t *key;  /* HETCCL_WIRE_KEY_BYTES; copied */
    uint64_t lifetime_s; /* without any rank having come */
    int listener_fd;     /* a listener of its own (NCCL_COMM_ID), owned from success on; -1: the endpoint's */
};

/* Takes one use of the endpoint, which the caller got, and gives it back when it ends. */
HETCCL_NODISCARD enum hetccl_status hetccl_root_create(struct hetccl_endpoint *endpoint,
                                                       const struct hetccl_root_args *args);

/* The key of the job, if a root here still collects (or has failed); NULL otherwise. */
const uint8_t *hetccl_root_key(struct hetccl_endpoint *endpoint, uint64_t job_id);

/* Takes up an authenticated registration connection. */
void hetccl_root_adopt(struct hetccl_conn *conn);

/*
 * A rank of this process gives up. If its root lives here too, the others are told before this returns: the
 * process may be about to end. False: the root is elsewhere.
 */
bool hetccl_root_give_up(struct hetccl_endpoint *endpoint, uint64_t job_id,
                         const struct hetccl_wire_failure *record);

/* True when a root of the job has failed here and not all of n_ranks have heard of it yet. */
bool hetccl_root_has_news(struct hetccl_endpoint *endpoint, uint64_t job_id, uint32_t n_ranks);

/* Ends a root that nobody will come to. */
void hetccl_root_forget(struct hetccl_endpoint *endpoint, uint64_t job_id);

/* Switches the roots' own listeners on (EPOLLIN) or off (0). */
void hetccl_roots_rewatch(struct hetccl_endpoint *endpoint, uint32_t events);

void hetccl_roots_tick(struct hetccl_endpoint *endpoint, uint64_t now_ns);

#endif
