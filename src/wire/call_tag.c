/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/call_tag.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* No padding: equality is equality of the bytes. */
_Static_assert(sizeof(struct hetccl_call_tag) == HETCCL_CALL_TAG_WIRE_BYTES, "call tag has padding");

/*
 * Texts for enum hetccl_coll (plan/plan.h), hetccl_type and hetccl_red (kernels/kernels.h). This folder may
 * not include those headers, so the words stand here once more; a number without a word is printed as a
 * number.
 */
static const char *const coll_texts[] = {"allreduce", "allgather", "reducescatter", "broadcast", "reduce",
                                         "alltoall",  "alltoallv", "gather",        "scatter",   "send/recv"};
static const char *const type_texts[] = {"int8",   "uint8",   "int32",       "uint32",     "int64",
                                         "uint64", "float16", "float32",     "float64",    "bfloat16",
                                         "f8e4m3", "f8e5m2",  "f8e4m3 fnuz", "f8e5m2 fnuz"};
static const char *const red_texts[] = {"sum", "prod", "max", "min"};

enum { RED_NONE = 255, FLAG_SCALED = 1, WORD_BYTES = 24 };

bool hetccl_call_tag_equal(const struct hetccl_call_tag *a, const struct hetccl_call_tag *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

static void put_le(uint8_t *out, uint64_t value, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get_le(const uint8_t *in, size_t n_bytes)
{
    uint64_t value = 0;

    for (size_t i = 0; i < n_bytes; i++)
        value |= (uint64_t)in[i] << (8 * i);
    return value;
}

void hetccl_call_tag_encode(const struct hetccl_call_tag *tag, uint8_t out[HETCCL_CALL_TAG_WIRE_BYTES])
{
    put_le(out, tag->sequence, 8);
    put_le(out + 8, tag->count, 8);
    out[16] = tag->coll;
    out[17] = tag->type;
    out[18] = tag->red;
    out[19] = tag->flags;
    put_le(out + 20, tag->root, 4);
}

void hetccl_call_tag_decode(const uint8_t in[HETCCL_CALL_TAG_WIRE_BYTES], struct hetccl_call_tag *out)
{
    out->sequence = get_le(in, 8);
    out->count = get_le(in + 8, 8);
    out->coll = in[16];
    out->type = in[17];
    out->red = in[18];
    out->flags = in[19];
    out->root = (uint32_t)get_le(in + 20, 4);
}

static const char *word_of(const char *const *texts, size_t n_texts, const char *what, unsigned value,
                           char buffer[WORD_BYTES])
{
    if (value < n_texts)
        return texts[value];
    (void)snprintf(buffer, WORD_BYTES, "%s %u", what, value);
    return buffer;
}

void hetccl_call_tag_print(const struct hetccl_call_tag *tag, char out[HETCCL_CALL_TAG_TEXT_BYTES])
{
    enum {
        N_COLLS = sizeof(coll_texts) / sizeof(coll_texts[0]),
        N_TYPES = sizeof(type_texts) / sizeof(type_texts[0])
    };
    enum { N_REDS = sizeof(red_texts) / sizeof(red_texts[0]) };
    char coll[WORD_BYTES], type[WORD_BYTES], red[WORD_BYTES];
    char call[40] = "", reduction[40] = "", root[24] = "";

    if (tag->sequence != 0)
        (void)snprintf(call, sizeof(call), "call %" PRIu64 " ", tag->sequence);
    if (tag->red != RED_NONE)
        (void)snprintf(reduction, sizeof(reduction), " %s%s",
                       (tag->flags & FLAG_SCALED) != 0 ? "scaled " : "",
                       word_of(red_texts, N_REDS, "red", tag->red, red));
    if (tag->root != UINT32_MAX)
        (void)snprintf(root, sizeof(root), " root %" PRIu32, tag->root);
    (void)snprintf(out, HETCCL_CALL_TAG_TEXT_BYTES, "%s%s count %" PRIu64 " %s%s%s", call,
                   word_of(coll_texts, N_COLLS, "coll", tag->coll, coll), tag->count,
                   word_of(type_texts, N_TYPES, "type", tag->type, type), reduction, root);
}

uint32_t hetccl_call_tag_short(const struct hetccl_call_tag *tag)
{
    uint64_t hash = tag->count * 0x9e3779b97f4a7c15u;

    hash ^= (uint64_t)tag->coll << 56 | (uint64_t)tag->type << 48 | (uint64_t)tag->red << 40 | tag->root;
    hash *= 0xff51afd7ed558ccdu;
    return (uint32_t)(hash >> 50);
}
