/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_WIRE_HELLO_H
#define HETCCL_WIRE_HELLO_H

/*
 * The first messages of every connection. Their layout never changes, whatever the wire revision, so that two
 * revisions can authenticate each other and say by name why they don't fit.
 *
 *   connecting side            listening side
 *   hello               ->
 *                       <-     answer (its mac proves that it knows the key that job_id names)
 *   proof (mac)         ->
 *
 * Each mac is a keyed BLAKE2b over a label for the side, the whole hello, and the answer up to its mac; both
 * nonces are in there, so nothing can be replayed or reflected.
 */

#include <stdbool.h>
#include <stdint.h>

#include "wire/contact.h"

enum {
    HETCCL_WIRE_NONCE_BYTES = 32,
    HETCCL_WIRE_MAC_BYTES = 32,
    HETCCL_WIRE_HELLO_BYTES = 56 + HETCCL_WIRE_HOST_BYTES + HETCCL_WIRE_NONCE_BYTES,
    HETCCL_WIRE_ANSWER_SIGNED_BYTES = 24 + HETCCL_WIRE_HOST_BYTES + HETCCL_WIRE_NONCE_BYTES,
    HETCCL_WIRE_ANSWER_BYTES = HETCCL_WIRE_ANSWER_SIGNED_BYTES + HETCCL_WIRE_MAC_BYTES,
};

enum hetccl_wire_role {
    HETCCL_ROLE_REGISTER = 1, /* a rank to the root */
    HETCCL_ROLE_CONTROL = 2,  /* frames between two processes */
    HETCCL_ROLE_STREAM = 3,   /* becomes a data socket between two ranks */
};

struct hetccl_wire_hello {
    uint16_t revision;
    uint16_t role;
    uint32_t library_version;
    uint64_t job_id; /* names the key; never secret */
    uint64_t process_key;
    uint64_t mesh_key; /* stream */
    uint32_t src_rank, dst_rank;
    uint32_t stream_id;
    char host_name[HETCCL_WIRE_HOST_BYTES];
    uint8_t nonce[HETCCL_WIRE_NONCE_BYTES];
};

enum hetccl_wire_verdict {
    HETCCL_VERDICT_GO = 0,
    HETCCL_VERDICT_UNKNOWN_JOB = 1, /* the job_id is none of the listener's; mac is zero */
};

struct hetccl_wire_answer {
    uint16_t revision;
    uint16_t verdict;
    uint32_t library_version;
    uint64_t process_key;
    char host_name[HETCCL_WIRE_HOST_BYTES];
    uint8_t nonce[HETCCL_WIRE_NONCE_BYTES];
    uint8_t mac[HETCCL_WIRE_MAC_BYTES];
};

void hetccl_wire_hello_encode(const struct hetccl_wire_hello *hello, uint8_t out[HETCCL_WIRE_HELLO_BYTES]);

/* False unless magic and role are right. Any revision is accepted. */
bool hetccl_wire_hello_decode(const uint8_t in[HETCCL_WIRE_HELLO_BYTES], struct hetccl_wire_hello *out);

void hetccl_wire_answer_encode(const struct hetccl_wire_answer *answer,
                               uint8_t out[HETCCL_WIRE_ANSWER_BYTES]);
bool hetccl_wire_answer_decode(const uint8_t in[HETCCL_WIRE_ANSWER_BYTES], struct hetccl_wire_answer *out);

enum { HETCCL_WIRE_VERSION_TEXT_BYTES = 48 };

/* "0.1.0 (wire revision 1)" */
void hetccl_wire_version_print(uint32_t library_version, uint16_t revision,
                               char out[HETCCL_WIRE_VERSION_TEXT_BYTES]);

#endif
