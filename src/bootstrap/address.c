/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

void hetccl_address_to_wire(const struct hetccl_address *address, struct hetccl_wire_address *out)
{
    memset(out, 0, sizeof(*out));
    if (address->socket.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&address->socket;

        out->family = HETCCL_WIRE_IPV4;
        out->port = ntohs(in->sin_port);
        memcpy(out->bytes, &in->sin_addr, sizeof(in->sin_addr));
    } else {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&address->socket;

        out->family = HETCCL_WIRE_IPV6;
        out->port = ntohs(in6->sin6_port);
        memcpy(out->bytes, &in6->sin6_addr, sizeof(in6->sin6_addr));
    }
}

void hetccl_address_from_wire(const struct hetccl_wire_address *wire, unsigned scope_id,
                              struct hetccl_address *out)
{
    memset(out, 0, sizeof(*out));
    if (wire->family == HETCCL_WIRE_IPV4) {
        struct sockaddr_in *in = (struct sockaddr_in *)&out->socket;

        in->sin_family = AF_INET;
        in->sin_port = htons(wire->port);
        memcpy(&in->sin_addr, wire->bytes, sizeof(in->sin_addr));
        out->socket_bytes = sizeof(*in);
    } else {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&out->socket;

        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(wire->port);
        memcpy(&in6->sin6_addr, wire->bytes, sizeof(in6->sin6_addr));
        if (hetccl_address_is_link_local(wire))
            in6->sin6_scope_id = scope_id;
        out->socket_bytes = sizeof(*in6);
    }
}

uint16_t hetccl_address_port(const struct hetccl_address *address)
{
    struct hetccl_wire_address wire;

    hetccl_address_to_wire(address, &wire);
    return wire.port;
}

void hetccl_address_set_port(struct hetccl_address *address, uint16_t port)
{
    if (address->socket.ss_family == AF_INET)
        ((struct sockaddr_in *)&address->socket)->sin_port = htons(port);
    else
        ((struct sockaddr_in6 *)&address->socket)->sin6_port = htons(port);
}

bool hetccl_address_is_loopback(const struct hetccl_wire_address *wire)
{
    if (wire->family == HETCCL_WIRE_IPV4)
        return wire->bytes[0] == 127;
    return memcmp(wire->bytes, &in6addr_loopback, sizeof(wire->bytes)) == 0;
}

bool hetccl_address_is_link_local(const struct hetccl_wire_address *wire)
{
    if (wire->family == HETCCL_WIRE_IPV4)
        return wire->bytes[0] == 169 && wire->bytes[1] == 254;
    return wire->bytes[0] == 0xfe && (wire->bytes[1] & 0xc0) == 0x80;
}

void hetccl_address_print(const struct hetccl_wire_address *wire, char out[HETCCL_ADDRESS_TEXT_BYTES])
{
    bool is_ipv4 = wire->family == HETCCL_WIRE_IPV4;
    char host[INET6_ADDRSTRLEN] = "?";

    (void)inet_ntop(is_ipv4 ? AF_INET : AF_INET6, wire->bytes, host, sizeof(host));
    (void)snprintf(out, HETCCL_ADDRESS_TEXT_BYTES, is_ipv4 ? "%s:%u" : "[%s]:%u", host, wire->port);
}
