/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_BOOTSTRAP_ADDRESS_H
#define HETCCL_BOOTSTRAP_ADDRESS_H

/* Between socket addresses, wire addresses and text. */

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "wire/contact.h"

struct hetccl_address {
    struct sockaddr_storage socket;
    socklen_t socket_bytes;
};

/* IPv4 and IPv6 only. The scope of a link-local address means nothing to others and is left out. */
void hetccl_address_to_wire(const struct hetccl_address *address, struct hetccl_wire_address *out);

/* scope_id [in] interface index for a link-local address, not used for others. */
void hetccl_address_from_wire(const struct hetccl_wire_address *wire, unsigned scope_id,
                              struct hetccl_address *out);

uint16_t hetccl_address_port(const struct hetccl_address *address);
void hetccl_address_set_port(struct hetccl_address *address, uint16_t port);
bool hetccl_address_is_loopback(const struct hetccl_wire_address *wire);
bool hetccl_address_is_link_local(const struct hetccl_wire_address *wire);

enum { HETCCL_ADDRESS_TEXT_BYTES = 64 };

/* "10.0.0.1:4711", "[fd00::2]:4711" */
void hetccl_address_print(const struct hetccl_wire_address *wire, char out[HETCCL_ADDRESS_TEXT_BYTES]);

#endif
