/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_WIRE_RECORDS_H
#define HETCCL_WIRE_RECORDS_H

/*
 * Payloads of the root's frames, and the failure record. Decoders take any bytes and say false unless they
 * are exactly one record; sizes read from the wire are bounded before they are used.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "wire/contact.h"
#include "wire/frame.h"

/* Rank to root: here I am. */
struct hetccl_wire_register {
    uint32_t n_ranks, rank;
    struct hetccl_wire_contact contact;
};
enum { HETCCL_WIRE_REGISTER_BYTES = 8 + HETCCL_WIRE_CONTACT_BYTES };
void hetccl_wire_register_encode(const struct hetccl_wire_register *record,
                                 uint8_t out[HETCCL_WIRE_REGISTER_BYTES]);
bool hetccl_wire_register_decode(const uint8_t *in, size_t bytes, struct hetccl_wire_register *out);

/* Root to rank: the communicator stands; these are your neighbours, rank +- 2^k mod n without repetitions. */
enum { HETCCL_WIRE_MAX_NEIGHBOURS = 40 };
struct hetccl_wire_neighbour {
    uint32_t rank;
    struct hetccl_wire_contact contact;
};
struct hetccl_wire_welcome {
    uint64_t mesh_key;
    uint32_t n_neighbours;
    struct hetccl_wire_neighbour neighbours[HETCCL_WIRE_MAX_NEIGHBOURS];
};
enum { HETCCL_WIRE_WELCOME_MAX_BYTES = 12 + HETCCL_WIRE_MAX_NEIGHBOURS * (4 + HETCCL_WIRE_CONTACT_BYTES) };
size_t hetccl_wire_welcome_encode(const struct hetccl_wire_welcome *record,
                                  uint8_t out[HETCCL_WIRE_WELCOME_MAX_BYTES]);
bool hetccl_wire_welcome_decode(const uint8_t *in, size_t bytes, struct hetccl_wire_welcome *out);

/* Root to rank, now and then: who is missing. */
enum { HETCCL_WIRE_MAX_MISSING = 64 };
struct hetccl_wire_missing {
    uint32_t n_missing; /* may exceed what is listed */
    uint32_t n_listed;
    uint32_t ranks[HETCCL_WIRE_MAX_MISSING];
};
enum { HETCCL_WIRE_MISSING_BYTES = 8 + 4 * HETCCL_WIRE_MAX_MISSING };
void hetccl_wire_missing_encode(const struct hetccl_wire_missing *record,
                                uint8_t out[HETCCL_WIRE_MISSING_BYTES]);
bool hetccl_wire_missing_decode(const uint8_t *in, size_t bytes, struct hetccl_wire_missing *out);

/* A failure, with the culprit (UINT32_MAX: none) and the text for the user. */
enum { HETCCL_WIRE_FAILURE_TEXT_BYTES = 768 };
struct hetccl_wire_failure {
    enum hetccl_status status; /* an error */
    uint32_t culprit_rank;
    char text[HETCCL_WIRE_FAILURE_TEXT_BYTES];
};
enum { HETCCL_WIRE_FAILURE_BYTES = 8 + HETCCL_WIRE_FAILURE_TEXT_BYTES };
void hetccl_wire_failure_encode(const struct hetccl_wire_failure *record,
                                uint8_t out[HETCCL_WIRE_FAILURE_BYTES]);
bool hetccl_wire_failure_decode(const uint8_t *in, size_t bytes, struct hetccl_wire_failure *out);

#endif
