/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/cursor.h"

#include <string.h>

struct hetccl_wire_writer hetccl_wire_writer(uint8_t *memory, size_t bytes)
{
    return (struct hetccl_wire_writer){.next = memory, .end = memory + bytes};
}

struct hetccl_wire_reader hetccl_wire_reader(const uint8_t *memory, size_t bytes)
{
    return (struct hetccl_wire_reader){.next = memory, .end = memory + bytes};
}

static void put_little_endian(struct hetccl_wire_writer *writer, uint64_t value, size_t bytes)
{
    uint8_t image[8];

    for (size_t i = 0; i < bytes; i++)
        image[i] = (uint8_t)(value >> (8 * i));
    hetccl_wire_put_bytes(writer, image, bytes);
}

void hetccl_wire_put_u8(struct hetccl_wire_writer *writer, uint8_t value)
{
    put_little_endian(writer, value, 1);
}

void hetccl_wire_put_u16(struct hetccl_wire_writer *writer, uint16_t value)
{
    put_little_endian(writer, value, 2);
}

void hetccl_wire_put_u32(struct hetccl_wire_writer *writer, uint32_t value)
{
    put_little_endian(writer, value, 4);
}

void hetccl_wire_put_u64(struct hetccl_wire_writer *writer, uint64_t value)
{
    put_little_endian(writer, value, 8);
}

void hetccl_wire_put_bytes(struct hetccl_wire_writer *writer, const void *src, size_t bytes)
{
    if (writer->is_short || bytes > (size_t)(writer->end - writer->next)) {
        writer->is_short = true;
        return;
    }
    if (bytes > 0)
        memcpy(writer->next, src, bytes);
    writer->next += bytes;
}

void hetccl_wire_put_text(struct hetccl_wire_writer *writer, const char *text, size_t field_bytes)
{
    size_t length = strnlen(text, field_bytes - 1);

    hetccl_wire_put_bytes(writer, text, length);
    for (; length < field_bytes; length++)
        hetccl_wire_put_u8(writer, 0);
}

void hetccl_wire_get_bytes(struct hetccl_wire_reader *reader, void *dst, size_t bytes)
{
    if (reader->is_short || bytes > (size_t)(reader->end - reader->next)) {
        reader->is_short = true;
        memset(dst, 0, bytes);
        return;
    }
    if (bytes > 0)
        memcpy(dst, reader->next, bytes);
    reader->next += bytes;
}

static uint64_t get_little_endian(struct hetccl_wire_reader *reader, size_t bytes)
{
    uint8_t image[8];
    uint64_t value = 0;

    hetccl_wire_get_bytes(reader, image, bytes);
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)image[i] << (8 * i);
    return value;
}

uint8_t hetccl_wire_get_u8(struct hetccl_wire_reader *reader)
{
    return (uint8_t)get_little_endian(reader, 1);
}

uint16_t hetccl_wire_get_u16(struct hetccl_wire_reader *reader)
{
    return (uint16_t)get_little_endian(reader, 2);
}

uint32_t hetccl_wire_get_u32(struct hetccl_wire_reader *reader)
{
    return (uint32_t)get_little_endian(reader, 4);
}

uint64_t hetccl_wire_get_u64(struct hetccl_wire_reader *reader)
{
    return get_little_endian(reader, 8);
}

void hetccl_wire_get_text(struct hetccl_wire_reader *reader, char *out, size_t field_bytes)
{
    hetccl_wire_get_bytes(reader, out, field_bytes);
    out[field_bytes - 1] = '\0';
    for (char *c = out; *c != '\0'; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
}

bool hetccl_wire_reader_is_done(const struct hetccl_wire_reader *reader)
{
    return !reader->is_short && reader->next == reader->end;
}
