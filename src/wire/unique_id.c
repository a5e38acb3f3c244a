/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/unique_id.h"

#include <string.h>

enum { MAGIC_BYTES = 8, CHECKSUM_BYTES = 4, FLAG_FIXED_ROOT = 1 };

static const uint8_t magic[MAGIC_BYTES] = {'H', 'e', 't', 'C', 'C', 'L', 'i', 'd'};

/* FNV-1a: finds ids that were cut or mixed up on their way, not ids that somebody forged. */
static uint32_t checksum(const uint8_t *bytes, size_t n_bytes)
{
    uint32_t hash = 0x811c9dc5u;

    for (size_t i = 0; i < n_bytes; i++)
        hash = (hash ^ bytes[i]) * 0x01000193u;
    return hash;
}

void hetccl_wire_unique_id_encode(const struct hetccl_wire_unique_id *id,
                                  uint8_t out[HETCCL_WIRE_UNIQUE_ID_BYTES])
{
    static const struct hetccl_wire_address none;
    struct hetccl_wire_writer writer = hetccl_wire_writer(out, HETCCL_WIRE_UNIQUE_ID_BYTES);

    hetccl_wire_put_bytes(&writer, magic, sizeof(magic));
    hetccl_wire_put_u16(&writer, id->revision);
    hetccl_wire_put_u8(&writer, id->is_fixed_root ? FLAG_FIXED_ROOT : 0);
    hetccl_wire_put_u8(&writer, (uint8_t)id->n_addresses);
    hetccl_wire_put_u32(&writer, id->library_version);
    hetccl_wire_put_u64(&writer, id->job_id);
    hetccl_wire_put_u64(&writer, id->place);
    hetccl_wire_put_bytes(&writer, id->key, sizeof(id->key));
    for (uint32_t i = 0; i < HETCCL_WIRE_MAX_ADDRESSES; i++)
        hetccl_wire_put_address(&writer, i < id->n_addresses ? &id->addresses[i] : &none);
    hetccl_wire_put_u32(&writer, checksum(out, HETCCL_WIRE_UNIQUE_ID_BYTES - CHECKSUM_BYTES));
}

bool hetccl_wire_unique_id_decode(const uint8_t in[HETCCL_WIRE_UNIQUE_ID_BYTES],
                                  struct hetccl_wire_unique_id *out)
{
    struct hetccl_wire_reader reader = hetccl_wire_reader(in, HETCCL_WIRE_UNIQUE_ID_BYTES);
    struct hetccl_wire_unique_id id;
    uint8_t start[MAGIC_BYTES];
    uint8_t unused[HETCCL_WIRE_ADDRESS_BYTES];
    uint8_t flags;

    memset(&id, 0, sizeof(id));
    hetccl_wire_get_bytes(&reader, start, sizeof(start));
    id.revision = hetccl_wire_get_u16(&reader);
    flags = hetccl_wire_get_u8(&reader);
    id.n_addresses = hetccl_wire_get_u8(&reader);
    id.library_version = hetccl_wire_get_u32(&reader);
    id.job_id = hetccl_wire_get_u64(&reader);
    id.place = hetccl_wire_get_u64(&reader);
    hetccl_wire_get_bytes(&reader, id.key, sizeof(id.key));
    if (memcmp(start, magic, sizeof(magic)) != 0 || flags > FLAG_FIXED_ROOT)
        return false;
    if (id.n_addresses == 0 || id.n_addresses > HETCCL_WIRE_MAX_ADDRESSES)
        return false;
    for (uint32_t i = 0; i < id.n_addresses; i++)
        if (!hetccl_wire_get_address(&reader, &id.addresses[i]))
            return false;
    for (uint32_t i = id.n_addresses; i < HETCCL_WIRE_MAX_ADDRESSES; i++)
        hetccl_wire_get_bytes(&reader, unused, sizeof(unused));
    if (hetccl_wire_get_u32(&reader) != checksum(in, HETCCL_WIRE_UNIQUE_ID_BYTES - CHECKSUM_BYTES))
        return false;
    id.is_fixed_root = flags == FLAG_FIXED_ROOT;
    *out = id;
    return hetccl_wire_reader_is_done(&reader);
}
