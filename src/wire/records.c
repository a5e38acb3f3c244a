/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/records.h"

#include <string.h>

void hetccl_wire_register_encode(const struct hetccl_wire_register *record,
                                 uint8_t out[HETCCL_WIRE_REGISTER_BYTES])
{
    struct hetccl_wire_writer writer = hetccl_wire_writer(out, HETCCL_WIRE_REGISTER_BYTES);

    hetccl_wire_put_u32(&writer, record->n_ranks);
    hetccl_wire_put_u32(&writer, record->rank);
    hetccl_wire_put_contact(&writer, &record->contact);
}

bool hetccl_wire_register_decode(const uint8_t *in, size_t bytes, struct hetccl_wire_register *out)
{
    struct hetccl_wire_reader reader = hetccl_wire_reader(in, bytes);
    struct hetccl_wire_register record;

    memset(&record, 0, sizeof(record));
    record.n_ranks = hetccl_wire_get_u32(&reader);
    record.rank = hetccl_wire_get_u32(&reader);
    if (!hetccl_wire_get_contact(&reader, &record.contact) || !hetccl_wire_reader_is_done(&reader))
        return false;
    if (record.n_ranks == 0 || record.n_ranks > HETCCL_WIRE_MAX_RANKS || record.rank >= record.n_ranks)
        return false;
    *out = record;
    return true;
}

size_t hetccl_wire_welcome_encode(const struct hetccl_wire_welcome *record,
                                  uint8_t out[HETCCL_WIRE_WELCOME_MAX_BYTES])
{
    struct hetccl_wire_writer writer = hetccl_wire_writer(out, HETCCL_WIRE_WELCOME_MAX_BYTES);

    hetccl_wire_put_u64(&writer, record->mesh_key);
    hetccl_wire_put_u32(&writer, record->n_neighbours);
    for (uint32_t i = 0; i < record->n_neighbours; i++) {
        hetccl_wire_put_u32(&writer, record->neighbours[i].rank);
        hetccl_wire_put_contact(&writer, &record->neighbours[i].contact);
    }
    return (size_t)(writer.next - out);
}

bool hetccl_wire_welcome_decode(const uint8_t *in, size_t bytes, struct hetccl_wire_welcome *out)
{
    struct hetccl_wire_reader reader = hetccl_wire_reader(in, bytes);
    uint64_t mesh_key = hetccl_wire_get_u64(&reader);
    uint32_t n_neighbours = hetccl_wire_get_u32(&reader);

    if (reader.is_short || n_neighbours > HETCCL_WIRE_MAX_NEIGHBOURS)
        return false;
    memset(out, 0, sizeof(*out));
    out->mesh_key = mesh_key;
    out->n_neighbours = n_neighbours;
    for (uint32_t i = 0; i < n_neighbours; i++) {
        out->neighbours[i].rank = hetccl_wire_get_u32(&reader);
        if (!hetccl_wire_get_contact(&reader, &out->neighbours[i].contact))
            return false;
    }
    return hetccl_wire_reader_is_done(&reader);
}

void hetccl_wire_missing_encode(const struct hetccl_wire_missing *record,
                                uint8_t out[HETCCL_WIRE_MISSING_BYTES])
{
    struct hetccl_wire_writer writer = hetccl_wire_writer(out, HETCCL_WIRE_MISSING_BYTES);

    hetccl_wire_put_u32(&writer, record->n_missing);
    hetccl_wire_put_u32(&writer, record->n_listed);
    for (uint32_t i = 0; i < HETCCL_WIRE_MAX_MISSING; i++)
        hetccl_wire_put_u32(&writer, i < record->n_listed ? record->ranks[i] : 0);
}

bool hetccl_wire_missing_decode(const uint8_t *in, size_t bytes, struct hetccl_wire_missing *out)
{
    struct hetccl_wire_reader reader = hetccl_wire_reader(in, bytes);
    struct hetccl_wire_missing record;

    record.n_missing = hetccl_wire_get_u32(&reader);
    record.n_listed = hetccl_wire_get_u32(&reader);
    for (uint32_t i = 0; i < HETCCL_WIRE_MAX_MISSING; i++)
        record.ranks[i] = hetccl_wire_get_u32(&reader);
    if (!hetccl_wire_reader_is_done(&reader))
        return false;
    if (record.n_listed > HETCCL_WIRE_MAX_MISSING || record.n_listed > record.n_missing)
        return false;
    *out = record;
    return true;
}

void hetccl_wire_failure_encode(const struct hetccl_wire_failure *record,
                                uint8_t out[HETCCL_WIRE_FAILURE_BYTES])
{
    struct hetccl_wire_writer writer = hetccl_wire_writer(out, HETCCL_WIRE_FAILURE_BYTES);

    hetccl_wire_put_u32(&writer, (uint32_t)record->status);
    hetccl_wire_put_u32(&writer, record->culprit_rank);
    hetccl_wire_put_text(&writer, record->text, sizeof(record->text));
}

bool hetccl_wire_failure_decode(const uint8_t *in, size_t bytes, struct hetccl_wire_failure *out)
{
    struct hetccl_wire_reader reader = hetccl_wire_reader(in, bytes);
    struct hetccl_wire_failure record;
    uint32_t status = hetccl_wire_get_u32(&reader);

    record.culprit_rank = hetccl_wire_get_u32(&reader);
    hetccl_wire_get_text(&reader, record.text, sizeof(record.text));
    if (!hetccl_wire_reader_is_done(&reader) || status < HETCCL_ERR_ARG || status > HETCCL_ERR_INTERNAL)
        return false;
    if (record.culprit_rank >= HETCCL_WIRE_MAX_RANKS && record.culprit_rank != UINT32_MAX)
        return false;
    record.status = (enum hetccl_status)status;
    *out = record;
    return true;
}
