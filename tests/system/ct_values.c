/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ct.h"

/* A21 average of integers, A22 NaN in min and max, A23 low-precision sums, A24 the same bits on all ranks. */

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

static uint64_t hash_of(const struct ct *ct, uint64_t stream, int rank, size_t index)
{
    return mix(mix((uint64_t)ct->options.seed * 1000 + stream * 100 + (uint64_t)rank) +
               0x9e3779b97f4a7c15ull * (index + 1));
}

/* --- A21 --- */

enum { AVERAGE_COUNT = 240 };

struct int_range {
    unsigned bytes;
    bool is_signed;
    __int128 min, max;
};

static struct int_range range_of(ncclDataType_t type)
{
    bool is_signed = type == ncclInt8 || type == ncclInt32 || type == ncclInt64;
    unsigned bytes = (unsigned)hetccl_reference_type_bytes(type);
    unsigned bits = 8 * bytes;
    struct int_range range = {bytes, is_signed, 0, ((__int128)1 << bits) - 1};

    if (is_signed) {
        range.min = -((__int128)1 << (bits - 1));
        range.max = ((__int128)1 << (bits - 1)) - 1;
    }
    return range;
}

/* Limits, their neighbours, small numbers of both signs, and anything. */
static __int128 average_input(const struct ct *ct, const struct int_range *range, int rank, size_t index)
{
    uint64_t hash = hash_of(ct, 1, rank, index);
    __int128 span = range->max - range->min + 1;

    switch (hash % 6) {
    case 0:
        return range->max;
    case 1:
        return range->min;
    case 2:
        return range->max - (__int128)(hash >> 8) % 4;
    case 3:
        return range->min + (__int128)(hash >> 8) % 4;
    case 4:
        return range->is_signed ? (__int128)((hash >> 8) % 13) - 6 : (__int128)((hash >> 8) % 13);
    default:
        return range->min + (__int128)hash % span;
    }
}

static void store_int(char *out, size_t at, unsigned bytes, __int128 value)
{
    uint64_t bits = (uint64_t)value;

    memcpy(out + at * bytes, &bits, bytes);
}

static int average_type(struct ct *ct, ncclDataType_t type, int variant, const struct ct_memory *memory)
{
    struct int_range range = range_of(type);
    size_t n = (size_t)ct->options.size;
    size_t rank = (size_t)ct->options.rank;
    size_t share = AVERAGE_COUNT / n;
    size_t first = variant == 2 ? rank * share : 0;
    size_t count = variant == 2 ? share : share * n;
    char expected[AVERAGE_COUNT * 8];
    ncclResult_t result = ncclSuccess;
    char *send = memory->host;
    char *recv = memory->host + AVERAGE_COUNT * 8;
    void *send_at = ct_memory_at(memory, send);
    void *recv_at = ct_memory_at(memory, recv);
    int code;

    for (size_t i = 0; i < share * n; i++)
        store_int(send, i, range.bytes, average_input(ct, &range, (int)rank, i));
    for (size_t i = 0; i < count; i++) {
        __int128 sum = 0;

        for (size_t r = 0; r < n; r++)
            sum += average_input(ct, &range, (int)r, first + i);
        store_int(expected, i, range.bytes, sum / (__int128)n);
    }
    code = ct_memory_push(ct, memory);
    if (code != CT_OK)
        return code;
    if (variant == 0)
        result = ncclAllReduce(send_at, recv_at, count, type, ncclAvg, ct->comm, ct->stream);
    else if (variant == 1)
        result = ncclReduce(send_at, recv_at, count, type, ncclAvg, (int)n - 1, ct->comm, ct->stream);
    else
        result = ncclReduceScatter(send_at, recv_at, share, type, ncclAvg, ct->comm, ct->stream);
    if (result != ncclSuccess)
        return ct_fail_call(ct, "an average", result);
    code = ct_memory_pull(ct, memory);
    if (code != CT_OK)
        return code;
    if ((variant != 1 || rank == n - 1) && memcmp(expected, recv, count * range.bytes) != 0)
        return ct_fail(ct, CT_WRONG, "the average of %s is wrong, collective %d",
                       hetccl_reference_type_name(type), variant);
    return CT_OK;
}

int ct_scenario_average(struct ct *ct)
{
    struct ct_memory memory;
    int code = ct_memory_open(ct, 2 * AVERAGE_COUNT * 8, &memory);

    for (int type = ncclInt8; code == CT_OK && type <= ncclUint64; type++)
        for (int variant = 0; code == CT_OK && variant < 3; variant++)
            code = average_type(ct, (ncclDataType_t)type, variant, &memory);
    ct_memory_close(ct, &memory);
    return code;
}

/* --- A22 --- */

enum { NAN_SETS = 5, NAN_PERMUTATIONS = 24, NAN_COUNT = 16 * NAN_SETS * NAN_PERMUTATIONS };

static const double nan_sets[NAN_SETS][4] = {
    {1, 2, 3, 4}, {-0.0, 0.0, -0.0, 0.0}, {-1, -0.0, 0.0, 1}, {INFINITY, 1, -1, 2}, {-2, -3, -2, -8}};

/* Two NaNs of each float type that are not the canonical one, and the bits that make a NaN. */
static uint64_t nan_bits(ncclDataType_t type, size_t which)
{
    switch (type) {
    case ncclFloat16:
        return which % 2 == 0 ? 0x7e01 : 0xfd00;
    case ncclBfloat16:
        return which % 2 == 0 ? 0x7fc1 : 0xff81;
    case ncclFloat32:
        return which % 2 == 0 ? 0x7fc00123 : 0xffa00001;
    case ncclFloat64:
        return which % 2 == 0 ? 0x7ff8000000000123ull : 0xfff4000000000001ull;
    case ncclFloat8e4m3:
        return which % 2 == 0 ? 0x7f : 0xff;
    default:
        return which % 2 == 0 ? 0x7e : 0xfd;
    }
}

static bool is_nan_bits(ncclDataType_t type, uint64_t bits)
{
    switch (type) {
    case ncclFloat16:
        return (bits & 0x7fff) > 0x7c00;
    case ncclBfloat16:
        return (bits & 0x7fff) > 0x7f80;
    case ncclFloat32:
        return (bits & 0x7fffffff) > 0x7f800000;
    case ncclFloat64:
        return (bits & 0x7fffffffffffffffull) > 0x7ff0000000000000ull;
    case ncclFloat8e4m3:
        return (bits & 0x7f) == 0x7f;
    default:
        return (bits & 0x7f) > 0x7c;
    }
}

/* fp8 e4m3 has no infinity; its largest value stands in. */
static double nan_value(ncclDataType_t type, size_t set, size_t permutation, size_t rank)
{
    size_t order[4] = {0, 1, 2, 3};
    double value;

    for (size_t i = 0; i < 3; i++) { /* factorial number system */
        size_t base = i == 0 ? 1 : i == 1 ? 4 : 12;
        size_t pick = i + permutation / base % (4 - i);
        size_t other = order[pick];

        order[pick] = order[i];
        order[i] = other;
    }
    value = nan_sets[set][order[rank % 4]];
    if (isinf(value))
        return type == ncclFloat8e4m3 ? 448 : 4096;
    return value;
}

static bool is_less(double a, double b)
{
    return a < b || (a == b && signbit(a) != 0 && signbit(b) == 0);
}

static double extremum(ncclDataType_t type, size_t set, size_t permutation, size_t n, ncclRedOp_t op)
{
    double best = nan_value(type, set, permutation, 0);

    for (size_t rank = 1; rank < n; rank++) {
        double value = nan_value(type, set, permutation, rank);

        if (op == ncclMin ? is_less(value, best) : is_less(best, value))
            best = value;
    }
    return best;
}

static uint64_t element_bits(const char *array, size_t at, size_t bytes)
{
    uint64_t bits = 0;

    memcpy(&bits, array + at * bytes, bytes);
    return bits;
}

static int nan_check(struct ct *ct, ncclDataType_t type, ncclRedOp_t op, const char *got)
{
    size_t bytes = hetccl_reference_type_bytes(type);
    uint64_t first_nan = 0;

    for (size_t i = 0; i < NAN_COUNT; i++) {
        size_t mask = i / (NAN_SETS * NAN_PERMUTATIONS);
        uint64_t bits = element_bits(got, i, bytes);
        char expected[8];

        if (mask != 0) {
            first_nan = first_nan == 0 ? bits : first_nan;
            if (!is_nan_bits(type, bits) || bits != first_nan)
                return ct_fail(ct, CT_WRONG, "%s op %d element %zu: %#llx where NaN has to come out as %#llx",
                               hetccl_reference_type_name(type), (int)op, i, (unsigned long long)bits,
                               (unsigned long long)first_nan);
            continue;
        }
        hetccl_reference_store(expected, 0, type,
                               extremum(type, i / NAN_PERMUTATIONS % NAN_SETS, i % NAN_PERMUTATIONS,
                                        (size_t)ct->options.size, op));
        if (memcmp(expected, got + i * bytes, bytes) != 0)
            return ct_fail(ct, CT_WRONG, "%s op %d element %zu: %#llx is not the extremum",
                           hetccl_reference_type_name(type), (int)op, i, (unsigned long long)bits);
    }
    return CT_OK;
}

static int nan_type(struct ct *ct, ncclDataType_t type, ncclRedOp_t op)
{
    size_t bytes = hetccl_reference_type_bytes(type);
    size_t rank = (size_t)ct->options.rank;
    struct ct_memory memory;
    int code = ct_memory_open(ct, 2 * NAN_COUNT * bytes, &memory);
    char *send = memory.host;
    char *recv = memory.host + NAN_COUNT * bytes;
    ncclResult_t result;

    if (code != CT_OK)
        return code;
    for (size_t i = 0; i < NAN_COUNT; i++) {
        size_t mask = i / (NAN_SETS * NAN_PERMUTATIONS);
        uint64_t bits = nan_bits(type, rank + i);

        if ((mask >> rank & 1) != 0)
            memcpy(send + i * bytes, &bits, bytes);
        else
            hetccl_reference_store(
                send, i, type, nan_value(type, i / NAN_PERMUTATIONS % NAN_SETS, i % NAN_PERMUTATIONS, rank));
    }
    code = ct_memory_push(ct, &memory);
    if (code == CT_OK) {
        result = ncclAllReduce(ct_memory_at(&memory, send), ct_memory_at(&memory, recv), NAN_COUNT, type, op,
                               ct->comm, ct->stream);
        code =
            result == ncclSuccess ? ct_memory_pull(ct, &memory) : ct_fail_call(ct, "ncclAllReduce", result);
    }
    if (code == CT_OK)
        code = nan_check(ct, type, op, recv);
    ct_crc(ct, recv, NAN_COUNT * bytes);
    ct_memory_close(ct, &memory);
    return code;
}

int ct_scenario_nan(struct ct *ct)
{
    int code = CT_OK;

    for (int type = ncclFloat16; code == CT_OK && type <= ncclFloat8e5m2; type++) {
        code = nan_type(ct, (ncclDataType_t)type, ncclMin);
        if (code == CT_OK)
            code = nan_type(ct, (ncclDataType_t)type, ncclMax);
    }
    return code;
}

/* --- A23 --- */

/* 256 on one rank and 1 on all others: n + 255. --variant exact, or bound: one unit in the last place. */
int ct_scenario_lowsum(struct ct *ct)
{
    enum { COUNT = 7 * 401 };
    struct ct_memory memory;
    double right = ct->options.size + 255;
    double allowed = strcmp(ct->options.variant, "bound") == 0 ? 2 : 0;
    double worst = 0;
    ncclResult_t result;
    int code = ct_memory_open(ct, COUNT * sizeof(uint16_t), &memory);

    for (size_t i = 0; code == CT_OK && i < COUNT; i++)
        hetccl_reference_store(memory.host, i, ncclBfloat16,
                               i % (size_t)ct->options.size == (size_t)ct->options.rank ? 256 : 1);
    if (code == CT_OK)
        code = ct_memory_push(ct, &memory);
    if (code != CT_OK)
        return code;
    result = ncclAllReduce(memory.device, memory.device, COUNT, ncclBfloat16, ncclSum, ct->comm, ct->stream);
    if (result != ncclSuccess)
        return ct_fail_call(ct, "ncclAllReduce", result);
    code = ct_memory_pull(ct, &memory);
    if (code != CT_OK)
        return code;
    for (size_t i = 0; i < COUNT; i++) {
        uint32_t bits = (uint32_t)element_bits(memory.host, i, sizeof(uint16_t)) << 16;
        float value;

        memcpy(&value, &bits, sizeof(value));
        worst = fabs(value - right) > worst ? fabs(value - right) : worst;
    }
    ct_crc(ct, memory.host, COUNT * sizeof(uint16_t));
    ct_memory_close(ct, &memory);
    ct_note(ct, " error=%g", worst);
    return worst <= allowed ? CT_OK : ct_fail(ct, CT_WRONG, "a sum is %g off %g", worst, right);
}

/* --- A24 --- */

/* Any mantissa and sign, exponents over a range in which nothing overflows. */
static uint32_t mixed_bits(ncclDataType_t type, uint64_t hash)
{
    uint32_t sign = (uint32_t)(hash >> 40 & 1);

    if (type == ncclFloat32)
        return sign << 31 | (uint32_t)(117 + (hash >> 32) % 21) << 23 | (uint32_t)(hash & 0x7fffff);
    if (type == ncclBfloat16)
        return sign << 15 | (uint32_t)(117 + (hash >> 32) % 21) << 7 | (uint32_t)(hash & 0x7f);
    return sign << 15 | (uint32_t)(5 + (hash >> 32) % 18) << 10 | (uint32_t)(hash & 0x3ff);
}

static int bits_once(struct ct *ct, ncclDataType_t type, ncclRedOp_t op, size_t count)
{
    size_t bytes = hetccl_reference_type_bytes(type);
    struct ct_memory memory;
    ncclResult_t result;
    int code = ct_memory_open(ct, count * bytes, &memory);

    if (code != CT_OK)
        return code;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = mixed_bits(type, hash_of(ct, 4, ct->options.rank, i));

        memcpy(memory.host + i * bytes, &bits, bytes);
    }
    code = ct_memory_push(ct, &memory);
    if (code != CT_OK)
        return code;
    result = ncclAllReduce(memory.device, memory.device, count, type, op, ct->comm, ct->stream);
    code = result == ncclSuccess ? ct_memory_pull(ct, &memory) : ct_fail_call(ct, "ncclAllReduce", result);
    if (code == CT_OK)
        ct_crc(ct, memory.host, count * bytes);
    ct_memory_close(ct, &memory);
    return code;
}

/* The runner compares the checksums of all ranks. */
int ct_scenario_bits(struct ct *ct)
{
    static const ncclDataType_t types[3] = {ncclFloat32, ncclFloat16, ncclBfloat16};
    static const ncclRedOp_t ops[2] = {ncclSum, ncclAvg};
    size_t count;

    for (int c = 0; ct_list_entry(ct->options.counts, c, &count); c++)
        for (int t = 0; t < 3; t++)
            for (int o = 0; o < 2; o++) {
                int code = bits_once(ct, types[t], ops[o], count);

                if (code != CT_OK)
                    return code;
            }
    return CT_OK;
}
