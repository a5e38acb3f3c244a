/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/contact.h"

#include <string.h>

void hetccl_wire_put_address(struct hetccl_wire_writer *writer, const struct hetccl_wire_address *address)
{
    hetccl_wire_put_u8(writer, address->family);
    hetccl_wire_put_u8(writer, 0);
    hetccl_wire_put_u16(writer, address->port);
    hetccl_wire_put_bytes(writer, address->bytes, sizeof(address->bytes));
}

bool hetccl_wire_get_address(struct hetccl_wire_reader *reader, struct hetccl_wire_address *out)
{
    struct hetccl_wire_address address = {.family = hetccl_wire_get_u8(reader)};
    uint8_t padding = hetccl_wire_get_u8(reader);

    address.port = hetccl_wire_get_u16(reader);
    hetccl_wire_get_bytes(reader, address.bytes, sizeof(address.bytes));
    if (reader->is_short || padding != 0 || address.port == 0)
        return false;
    if (address.family != HETCCL_WIRE_IPV4 && address.family != HETCCL_WIRE_IPV6)
        return false;
    if (address.family == HETCCL_WIRE_IPV4)
        memset(address.bytes + 4, 0, sizeof(address.bytes) - 4);
    *out = address;
    return true;
}

void hetccl_wire_put_contact(struct hetccl_wire_writer *writer, const struct hetccl_wire_contact *contact)
{
    static const struct hetccl_wire_address none;

    hetccl_wire_put_u64(writer, contact->process_key);
    hetccl_wire_put_u64(writer, contact->place);
    hetccl_wire_put_u32(writer, contact->pid);
    hetccl_wire_put_u32(writer, contact->n_addresses);
    for (uint32_t i = 0; i < HETCCL_WIRE_MAX_ADDRESSES; i++)
        hetccl_wire_put_address(writer, i < contact->n_addresses ? &contact->addresses[i] : &none);
    hetccl_wire_put_text(writer, contact->host_name, sizeof(contact->host_name));
}

bool hetccl_wire_get_contact(struct hetccl_wire_reader *reader, struct hetccl_wire_contact *out)
{
    struct hetccl_wire_contact contact;
    uint8_t unused[HETCCL_WIRE_ADDRESS_BYTES];

    memset(&contact, 0, sizeof(contact));
    contact.process_key = hetccl_wire_get_u64(reader);
    contact.place = hetccl_wire_get_u64(reader);
    contact.pid = hetccl_wire_get_u32(reader);
    contact.n_addresses = hetccl_wire_get_u32(reader);
    if (reader->is_short || contact.n_addresses == 0 || contact.n_addresses > HETCCL_WIRE_MAX_ADDRESSES)
        return false;
    for (uint32_t i = 0; i < contact.n_addresses; i++)
        if (!hetccl_wire_get_address(reader, &contact.addresses[i]))
            return false;
    for (uint32_t i = contact.n_addresses; i < HETCCL_WIRE_MAX_ADDRESSES; i++)
        hetccl_wire_get_bytes(reader, unused, sizeof(unused));
    hetccl_wire_get_text(reader, contact.host_name, sizeof(contact.host_name));
    if (reader->is_short)
        return false;
    *out = contact;
    return true;
}
