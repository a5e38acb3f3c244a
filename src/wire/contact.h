/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_WIRE_CONTACT_H
#define HETCCL_WIRE_CONTACT_H

/* How a process is reached: its addresses, best first, and what tells it from others. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/cursor.h"

enum {
    HETCCL_WIRE_ADDRESS_BYTES = 20,
    HETCCL_WIRE_MAX_ADDRESSES = 3,
    HETCCL_WIRE_HOST_BYTES = 64,
    HETCCL_WIRE_CONTACT_BYTES =
        24 + HETCCL_WIRE_MAX_ADDRESSES * HETCCL_WIRE_ADDRESS_BYTES + HETCCL_WIRE_HOST_BYTES,
};

enum hetccl_wire_family { HETCCL_WIRE_NO_FAMILY = 0, HETCCL_WIRE_IPV4 = 4, HETCCL_WIRE_IPV6 = 6 };

struct hetccl_wire_address {
    uint8_t family;    /* enum hetccl_wire_family */
    uint16_t port;     /* host order, not 0 */
    uint8_t bytes[16]; /* network order; the first 4 for IPv4, the rest zero */
};

struct hetccl_wire_contact {
    uint64_t process_key; /* random, one a life of an endpoint */
    uint64_t place;       /* equal for processes of one host and network namespace */
    uint32_t pid;         /* for texts only */
    uint32_t n_addresses; /* 1 .. HETCCL_WIRE_MAX_ADDRESSES */
    struct hetccl_wire_address addresses[HETCCL_WIRE_MAX_ADDRESSES];
    char host_name[HETCCL_WIRE_HOST_BYTES];
};

void hetccl_wire_put_address(struct hetccl_wire_writer *writer, const struct hetccl_wire_address *address);

/* False when the bytes are no address (family, port 0). */
bool hetccl_wire_get_address(struct hetccl_wire_reader *reader, struct hetccl_wire_address *out);

void hetccl_wire_put_contact(struct hetccl_wire_writer *writer, const struct hetccl_wire_contact *contact);
bool hetccl_wire_get_contact(struct hetccl_wire_reader *reader, struct hetccl_wire_contact *out);

#endif
