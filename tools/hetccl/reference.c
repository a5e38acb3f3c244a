/* SPDX-License-Identifier: Apache-2.0 */
#include "reference.h"

#include <math.h>
#include <string.h>

struct type_facts {
    const char *name;
    const char *aliases; /* each between blanks */
    unsigned bytes;
    bool is_float, is_signed;
    int exponent_bits, mantissa_bits; /* of the types that the compiler lacks */
    double exact_limit;               /* integers up to this are exact in the type */
};

static const struct type_facts types[HETCCL_REFERENCE_TYPES] = {
    [ncclInt8] = {"int8", " char i8 ", 1, false, true, 0, 0, 0},
    [ncclUint8] = {"uint8", " u8 ", 1, false, false, 0, 0, 0},
    [ncclInt32] = {"int32", " int i32 ", 4, false, true, 0, 0, 0},
    [ncclUint32] = {"uint32", " u32 ", 4, false, false, 0, 0, 0},
    [ncclInt64] = {"int64", " i64 ", 8, false, true, 0, 0, 0},
    [ncclUint64] = {"uint64", " u64 ", 8, false, false, 0, 0, 0},
    [ncclFloat16] = {"half", " float16 f16 fp16 ", 2, true, true, 5, 10, 2048},
    [ncclFloat32] = {"float", " float32 f32 fp32 ", 4, true, true, 8, 23, 16777216},
    [ncclFloat64] = {"double", " float64 f64 fp64 ", 8, true, true, 11, 52, 1073741824},
    [ncclBfloat16] = {"bfloat16", " bf16 ", 2, true, true, 8, 7, 256},
    [ncclFloat8e4m3] = {"f8e4m3", " float8e4m3 fp8e4m3 e4m3 ", 1, true, true, 4, 3, 16},
    [ncclFloat8e5m2] = {"f8e5m2", " float8e5m2 fp8e5m2 e5m2 ", 1, true, true, 5, 2, 8},
};

static const char *const op_names[HETCCL_REFERENCE_OPS] = {"none", "sum", "prod",     "max",
                                                           "min",  "avg", "premulsum"};

/* Products stay exact when few ranks contribute a power of two: 2^4 and 2^-4 are exact in every float type.
 */
enum { PRODUCT_RANKS = 4 };

size_t hetccl_reference_type_bytes(ncclDataType_t type)
{
    return types[type].bytes;
}

const char *hetccl_reference_type_name(ncclDataType_t type)
{
    return types[type].name;
}

bool hetccl_reference_type_is_float(ncclDataType_t type)
{
    return types[type].is_float;
}

static bool is_word_of(const char *list, const char *word)
{
    const char *found = strstr(list, word);
    size_t length = strlen(word);

    return length > 0 && found != NULL && found > list && found[-1] == ' ' && found[length] == ' ';
}

int hetccl_reference_type_find(const char *name)
{
    for (int i = 0; i < HETCCL_REFERENCE_TYPES; i++)
        if (strcmp(types[i].name, name) == 0 || is_word_of(types[i].aliases, name))
            return i;
    return -1;
}

const char *hetccl_reference_op_name(enum hetccl_reference_op op)
{
    return op_names[op];
}

int hetccl_reference_op_find(const char *name)
{
    if (strcmp(name, "mulsum") == 0)
        return HETCCL_REFERENCE_PREMULSUM;
    for (int i = HETCCL_REFERENCE_SUM; i < HETCCL_REFERENCE_OPS; i++)
        if (strcmp(op_names[i], name) == 0)
            return i;
    return -1;
}

/* The finaliser of splitmix64: neighbouring inputs give unrelated outputs. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

static uint64_t hash_of(const struct hetccl_reference *reference, uint32_t rank, uint64_t index)
{
    return mix(mix(reference->seed + 0x9e3779b97f4a7c15ull * (rank + 1)) +
               0x9e3779b97f4a7c15ull * (index + 1));
}

/* Spreads few contributions over many ranks, other ones for each index. */
static bool is_contributor(const struct hetccl_reference *reference, uint32_t rank, uint64_t index,
                           uint32_t limit)
{
    if (limit >= reference->n_ranks)
        return true;
    return (hash_of(reference, UINT32_MAX - 1, index) % reference->n_ranks + rank) % reference->n_ranks <
           limit;
}

static double product_value(const struct hetccl_reference *reference, uint32_t rank, uint64_t index,
                            uint64_t hash)
{
    static const double factors[4] = {0.5, 1.0, 2.0, 2.0};
    double sign = (hash & 4) != 0 ? -1.0 : 1.0;

    return is_contributor(reference, rank, index, PRODUCT_RANKS) ? sign * factors[hash & 3] : sign;
}

static double float_value(const struct hetccl_reference *reference, uint32_t rank, uint64_t index)
{
    uint64_t hash = hash_of(reference, rank, index);
    enum hetccl_reference_op op = reference->op;
    double limit = types[reference->type].exact_limit;
    bool is_sum =
        op == HETCCL_REFERENCE_SUM || op == HETCCL_REFERENCE_AVG || op == HETCCL_REFERENCE_PREMULSUM;
    uint64_t span;

    if (op == HETCCL_REFERENCE_PROD)
        return product_value(reference, rank, index, hash);
    if (op == HETCCL_REFERENCE_PREMULSUM)
        limit /= 2; /* the scalars are 1 and 2 */
    span = (uint64_t)(is_sum ? limit / reference->n_ranks : limit);
    if (span == 0) {
        span = 1;
        if (!is_contributor(reference, rank, index, (uint32_t)limit))
            return 0.0;
    }
    /* Averages stay positive: their rounding errors are then relative to the result, not to something
     * cancelled. */
    if (op == HETCCL_REFERENCE_AVG)
        return (double)(((hash >> 33) * (span + 1)) >> 31);
    return (double)(((hash >> 33) * (2 * span + 1)) >> 31) - (double)span;
}

static uint64_t int_bits(const struct hetccl_reference *reference, uint32_t rank, uint64_t index)
{
    uint64_t hash = hash_of(reference, rank, index);

    /* Odd factors only: the product of even ones soon is 0 and would hide an error. */
    return reference->op == HETCCL_REFERENCE_PROD ? hash | 1 : hash;
}

/* An integer of the type, from bits of which the upper ones mean nothing. */
static __int128 int_of_bits(const struct type_facts *type, uint64_t bits)
{
    unsigned shift = 64 - 8 * type->bytes;

    return type->is_signed ? (__int128)((int64_t)(bits << shift) >> shift)
                           : (__int128)((bits << shift) >> shift);
}

/*
 * The bits of a value in a small float format, rounded to nearest even. Only for values that neither overflow
 * nor are NaN, which is all that the reference makes.
 */
static uint32_t small_float_bits(const struct type_facts *type, double value)
{
    int bias = (1 << (type->exponent_bits - 1)) - 1;
    int mantissa_bits = type->mantissa_bits;
    uint32_t sign = signbit(value) ? 1u << (type->exponent_bits + mantissa_bits) : 0;
    int exponent;
    double scaled;

    value = fabs(value);
    if (value == 0.0)
        return sign;
    (void)frexp(value, &exponent);
    exponent -= 1; /* value = 1.f * 2^exponent */
    if (exponent < 1 - bias)
        exponent = 1 - bias;
    scaled = nearbyint(ldexp(value, mantissa_bits - exponent));
    /* Adding instead of composing lets a carry run into the exponent, and a subnormal have exponent field 0.
     */
    return sign + (((uint32_t)(exponent + bias - 1) << mantissa_bits) + (uint32_t)scaled);
}

static void store_bits(void *out, size_t at, unsigned bytes, uint64_t bits)
{
    memcpy((char *)out + at * bytes, &bits, bytes);
}

void hetccl_reference_store(void *out, size_t at, ncclDataType_t type, double value)
{
    float single = (float)value;

    if (type == ncclFloat64)
        memcpy((char *)out + at * sizeof(value), &value, sizeof(value));
    else if (type == ncclFloat32)
        memcpy((char *)out + at * sizeof(single), &single, sizeof(single));
    else
        store_bits(out, at, types[type].bytes, small_float_bits(&types[type], value));
}

void hetccl_reference_fill(const struct hetccl_reference *reference, uint32_t rank, size_t first_index,
                           size_t count, void *out)
{
    const struct type_facts *type = &types[reference->type];
    bool is_float = type->is_float && reference->op != HETCCL_REFERENCE_COPY;

    for (size_t i = 0; i < count; i++)
        if (is_float)
            hetccl_reference_store(out, i, reference->type, float_value(reference, rank, first_index + i));
        else
            store_bits(out, i, type->bytes, int_bits(reference, rank, first_index + i));
}

static uint32_t scalar_of(const struct hetccl_reference *reference, uint32_t rank)
{
    return types[reference->type].is_float ? 1 + rank % 2 : 2 + rank % 5;
}

void hetccl_reference_scalar(const struct hetccl_reference *reference, uint32_t rank, void *out)
{
    if (types[reference->type].is_float)
        hetccl_reference_store(out, 0, reference->type, scalar_of(reference, rank));
    else
        store_bits(out, 0, types[reference->type].bytes, scalar_of(reference, rank));
}

static double reduce_float(const struct hetccl_reference *reference, uint64_t index)
{
    double total = 0.0;

    for (uint32_t rank = 0; rank < reference->n_ranks; rank++) {
        double value = float_value(reference, rank, index);

        if (reference->op == HETCCL_REFERENCE_PREMULSUM)
            value *= scalar_of(reference, rank);
        if (rank == 0)
            total = value;
        else if (reference->op == HETCCL_REFERENCE_PROD)
            total *= value;
        else if (reference->op == HETCCL_REFERENCE_MAX)
            total = value > total ? value : total;
        else if (reference->op == HETCCL_REFERENCE_MIN)
            total = value < total ? value : total;
        else
            total += value;
    }
    return reference->op == HETCCL_REFERENCE_AVG ? total / reference->n_ranks : total;
}

static uint64_t reduce_int(const struct hetccl_reference *reference, uint64_t index)
{
    const struct type_facts *type = &types[reference->type];
    unsigned __int128 wrapping = 0; /* its low bits are right for every order */
    __int128 total = 0;

    for (uint32_t rank = 0; rank < reference->n_ranks; rank++) {
        __int128 value = int_of_bits(type, int_bits(reference, rank, index));

        if (reference->op == HETCCL_REFERENCE_PREMULSUM)
            value *= scalar_of(reference, rank);
        if (reference->op == HETCCL_REFERENCE_PROD) {
            wrapping = rank == 0 ? (unsigned __int128)value : wrapping * (unsigned __int128)value;
            total = (__int128)wrapping;
        } else if (rank == 0 || (reference->op == HETCCL_REFERENCE_MAX && value > total) ||
                   (reference->op == HETCCL_REFERENCE_MIN && value < total)) {
            total = value;
        } else if (reference->op != HETCCL_REFERENCE_MAX && reference->op != HETCCL_REFERENCE_MIN) {
            total += value;
        }
    }
    if (reference->op == HETCCL_REFERENCE_AVG)
        total /= reference->n_ranks; /* toward zero, as the library says */
    return (uint64_t)total;
}

void hetccl_reference_reduce(const struct hetccl_reference *reference, size_t first_index, size_t count,
                             void *out)
{
    const struct type_facts *type = &types[reference->type];

    for (size_t i = 0; i < count; i++)
        if (type->is_float)
            hetccl_reference_store(out, i, reference->type, reduce_float(reference, first_index + i));
        else
            store_bits(out, i, type->bytes, reduce_int(reference, first_index + i));
}

static int64_t ordered_bits(const void *element, unsigned bytes)
{
    uint64_t bits = 0;
    uint64_t sign = 1ull << (8 * bytes - 1);

    memcpy(&bits, element, bytes);
    return (bits & sign) != 0 ? -(int64_t)(bits & (sign - 1)) : (int64_t)bits;
}

uint64_t hetccl_reference_compare(const struct hetccl_reference *reference, const void *expected,
                                  const void *got, size_t count)
{
    unsigned bytes = types[reference->type].bytes;
    bool is_rounded = types[reference->type].is_float && reference->op == HETCCL_REFERENCE_AVG;
    uint64_t n_wrong = 0;

    if (memcmp(expected, got, count * bytes) == 0)
        return 0;
    for (size_t i = 0; i < count; i++) {
        const char *a = (const char *)expected + i * bytes;
        const char *b = (const char *)got + i * bytes;
        __int128 difference = (__int128)ordered_bits(a, bytes) - ordered_bits(b, bytes);

        if (is_rounded)
            n_wrong += difference > HETCCL_REFERENCE_AVG_ULPS || difference < -HETCCL_REFERENCE_AVG_ULPS;
        else
            n_wrong += memcmp(a, b, bytes) != 0;
    }
    return n_wrong;
}
