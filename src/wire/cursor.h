/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_WIRE_CURSOR_H
#define HETCCL_WIRE_CURSOR_H

/*
 * Bounds-checked little-endian writing and reading. An overrun sets a flag that stays set; nothing is written
 * or read beyond the end, and a reader then gives zeros. Callers look at the flag once, at the end.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hetccl_wire_writer {
    uint8_t *next, *end;
    bool is_short;
};

struct hetccl_wire_reader {
    const uint8_t *next, *end;
    bool is_short;
};

struct hetccl_wire_writer hetccl_wire_writer(uint8_t *memory, size_t bytes);
void hetccl_wire_put_u8(struct hetccl_wire_writer *writer, uint8_t value);
void hetccl_wire_put_u16(struct hetccl_wire_writer *writer, uint16_t value);
void hetccl_wire_put_u32(struct hetccl_wire_writer *writer, uint32_t value);
void hetccl_wire_put_u64(struct hetccl_wire_writer *writer, uint64_t value);
void hetccl_wire_put_bytes(struct hetccl_wire_writer *writer, const void *src, size_t bytes);

/* A text in a field of fixed size, cut to field_bytes - 1 characters and filled up with zeros. */
void hetccl_wire_put_text(struct hetccl_wire_writer *writer, const char *text, size_t field_bytes);

struct hetccl_wire_reader hetccl_wire_reader(const uint8_t *memory, size_t bytes);
uint8_t hetccl_wire_get_u8(struct hetccl_wire_reader *reader);
uint16_t hetccl_wire_get_u16(struct hetccl_wire_reader *reader);
uint32_t hetccl_wire_get_u32(struct hetccl_wire_reader *reader);
uint64_t hetccl_wire_get_u64(struct hetccl_wire_reader *reader);
void hetccl_wire_get_bytes(struct hetccl_wire_reader *reader, void *dst, size_t bytes);

/*
 * The reverse of put_text: out (field_bytes) always ends in a zero, and characters that aren't printable
 * ASCII become
 * '?', so that a text from the wire can go to a log or a terminal.
 */
void hetccl_wire_get_text(struct hetccl_wire_reader *reader, char *out, size_t field_bytes);

/* Everything was there and nothing is left over. */
bool hetccl_wire_reader_is_done(const struct hetccl_wire_reader *reader);

#endif
