/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_BOOTSTRAP_DIAL_H
#define HETCCL_BOOTSTRAP_DIAL_H

/*
 * Getting a connection to a process that may have several addresses, may not listen yet, or may be stopped:
 * address after address, each on a new socket, with back-off between the rounds. Everything here is locked.
 *
 * Gives up at once when the listener doesn't know the job (unless told to be patient) or has another wire
 * revision, and after give_up_ns of nothing but failed connects. A process that accepts and doesn't answer is
 * waited for without limit: it may be stopped.
 */

#include "bootstrap/conn.h"

struct hetccl_dial;

struct hetccl_dial_ops {
    /* The dial is gone, the connection in state READY is the owner's, who sets its ops at once. Service
     * thread. */
    void (*connected)(void *owner, struct hetccl_conn *conn);
    /* The dial is gone. Service thread. */
    void (*failed)(void *owner, enum hetccl_status status, const char *text);
};

struct hetccl_dial_args {
    const struct hetccl_wire_address *addresses; /* n_addresses; copied */
    uint32_t n_addresses;
    uint64_t expected_process_key;  /* 0: whoever knows the key */
    struct hetccl_wire_hello hello; /* role, job_id, ranks, stream */
    const uint8_t *key;             /* HETCCL_WIRE_KEY_BYTES; copied */
    uint64_t give_up_ns;            /* UINT64_MAX: never for want of a connection */
    bool is_patient;                /* go on when the listener doesn't know the job */
    const struct hetccl_dial_ops *ops;
    void *owner;
};

HETCCL_NODISCARD enum hetccl_status hetccl_dial_start(struct hetccl_endpoint *endpoint,
                                                      const struct hetccl_dial_args *args,
                                                      struct hetccl_dial **out);

/* Stops and frees it; calls nothing. Takes NULL. */
void hetccl_dial_cancel(struct hetccl_dial *dial);

/* "10.0.0.1:4711: Connection refused", the state of the last attempt. */
const char *hetccl_dial_text(const struct hetccl_dial *dial);

void hetccl_dials_tick(struct hetccl_endpoint *endpoint, uint64_t now_ns);

#endif
