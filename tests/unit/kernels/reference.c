/* SPDX-License-Identifier: Apache-2.0 */
#include "reference.h"

#include <math.h>
#include <string.h>

struct shape {
    unsigned bits, exponent_bits, mantissa_bits;
    int bias;
    enum { STYLE_IEEE, STYLE_FN, STYLE_FNUZ } style;
    uint64_t nan;
};

const enum hetccl_type narrow_types[N_NARROW_TYPES] = {
    HETCCL_FLOAT16,     HETCCL_BFLOAT16,         HETCCL_FLOAT8_E4M3,
    HETCCL_FLOAT8_E5M2, HETCCL_FLOAT8_E4M3_FNUZ, HETCCL_FLOAT8_E5M2_FNUZ,
};

static const struct shape shapes[HETCCL_TYPES] = {
    [HETCCL_INT8] = {.bits = 8},
    [HETCCL_UINT8] = {.bits = 8},
    [HETCCL_INT32] = {.bits = 32},
    [HETCCL_UINT32] = {.bits = 32},
    [HETCCL_INT64] = {.bits = 64},
    [HETCCL_UINT64] = {.bits = 64},
    [HETCCL_FLOAT16] = {16, 5, 10, 15, STYLE_IEEE, 0x7e00},
    [HETCCL_BFLOAT16] = {16, 8, 7, 127, STYLE_IEEE, 0x7fc0},
    [HETCCL_FLOAT32] = {32, 8, 23, 127, STYLE_IEEE, 0x7fc00000},
    [HETCCL_FLOAT64] = {64, 11, 52, 1023, STYLE_IEEE, 0x7ff8000000000000},
    [HETCCL_FLOAT8_E4M3] = {8, 4, 3, 7, STYLE_FN, 0x7f},
    [HETCCL_FLOAT8_E5M2] = {8, 5, 2, 15, STYLE_IEEE, 0x7e},
    [HETCCL_FLOAT8_E4M3_FNUZ] = {8, 4, 3, 8, STYLE_FNUZ, 0x80},
    [HETCCL_FLOAT8_E5M2_FNUZ] = {8, 5, 2, 16, STYLE_FNUZ, 0x80},
};

unsigned reference_type_bits(enum hetccl_type type)
{
    return shapes[type].bits;
}

bool reference_is_float(enum hetccl_type type)
{
    return shapes[type].exponent_bits > 0;
}

uint64_t reference_canonical_nan(enum hetccl_type type)
{
    return shapes[type].nan;
}

/* The number of a magnitude if no exponent were special. */
static double plain_number(const struct shape *shape, uint64_t magnitude)
{
    uint64_t mantissa = magnitude & ((1ull << shape->mantissa_bits) - 1);
    int exponent = (int)(magnitude >> shape->mantissa_bits);

    if (exponent == 0)
        return ldexp((double)mantissa, 1 - shape->bias - (int)shape->mantissa_bits);
    mantissa += 1ull << shape->mantissa_bits;
    return ldexp((double)mantissa, exponent - shape->bias - (int)shape->mantissa_bits);
}

static uint64_t largest_magnitude(const struct shape *shape)
{
    uint64_t all = (1ull << (shape->bits - 1)) - 1;

    if (shape->style == STYLE_FNUZ)
        return all;
    if (shape->style == STYLE_FN)
        return all - 1;
    return all - (1ull << shape->mantissa_bits);
}

double reference_decode(enum hetccl_type type, uint64_t bits)
{
    const struct shape *shape = &shapes[type];
    uint64_t sign = bits >> (shape->bits - 1) & 1;
    uint64_t magnitude = bits & ((1ull << (shape->bits - 1)) - 1);
    uint64_t largest = largest_magnitude(shape);
    double value;

    if (type == HETCCL_FLOAT64) {
        memcpy(&value, &bits, sizeof(value));
        return value;
    }
    if (shape->style == STYLE_FNUZ && sign == 1 && magnitude == 0)
        return NAN;
    if (magnitude <= largest)
        value = plain_number(shape, magnitude);
    else
        value = shape->style == STYLE_IEEE && magnitude == largest + 1 ? INFINITY : NAN;
    return sign != 0 ? -value : value;
}

/* The magnitude nearest to value >= 0 if exponents went on for ever; ties go to the even one. */
static uint64_t nearest_magnitude(const struct shape *shape, double value)
{
    uint64_t low = 0, high = largest_magnitude(shape) + 2; /* number(low) <= value < number(high) */
    double below, above;

    if (value >= plain_number(shape, high))
        return high;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;

        if (plain_number(shape, middle) <= value)
            low = middle;
        else
            high = middle;
    }
    below = value - plain_number(shape, low);
    above = plain_number(shape, high) - value;
    if (below == above)
        return low % 2 == 0 ? low : high;
    return below < above ? low : high;
}

uint64_t reference_encode(enum hetccl_type type, double value)
{
    const struct shape *shape = &shapes[type];
    uint64_t sign = signbit(value) ? 1ull << (shape->bits - 1) : 0;
    uint64_t largest = largest_magnitude(shape), magnitude, bits;

    if (isnan(value))
        return shape->nan;
    if (type == HETCCL_FLOAT64) {
        memcpy(&bits, &value, sizeof(bits));
        return bits;
    }
    magnitude = nearest_magnitude(shape, fabs(value));
    if (magnitude > largest)
        magnitude = shape->style == STYLE_IEEE ? largest + 1 : largest;
    if (shape->style == STYLE_FNUZ && magnitude == 0)
        return 0;
    return sign | magnitude;
}

static __int128 integer_of(enum hetccl_type type, uint64_t bits)
{
    switch (type) {
    case HETCCL_INT8:
        return (int8_t)bits;
    case HETCCL_INT32:
        return (int32_t)bits;
    case HETCCL_INT64:
        return (int64_t)bits;
    default:
        return bits;
    }
}

static uint64_t reduce_integers(enum hetccl_type type, enum hetccl_red red, const uint64_t *inputs,
                                const struct hetccl_scale *scales, size_t n_inputs)
{
    unsigned __int128 wrap_mask = ((unsigned __int128)1 << shapes[type].bits) - 1;
    __int128 total = 0;

    for (size_t k = 0; k < n_inputs; k++) {
        __int128 input = integer_of(type, inputs[k]);

        if (scales != NULL)
            input = integer_of(type, (uint64_t)((unsigned __int128)input * scales[k].bits & wrap_mask));
        if (k == 0)
            total = input;
        else if (red == HETCCL_SUM)
            total += input;
        else if (red == HETCCL_PROD)
            total =
                integer_of(type, (uint64_t)((unsigned __int128)total * (unsigned __int128)input & wrap_mask));
        else if ((red == HETCCL_MAX && input > total) || (red == HETCCL_MIN && input < total))
            total = input;
    }
    return (uint64_t)((unsigned __int128)total & wrap_mask);
}

static bool is_less(double a, double b)
{
    return a < b || (a == b && signbit(a) && !signbit(b));
}

static double combine_floats(enum hetccl_red red, double a, double b)
{
    if (isnan(a) || isnan(b))
        return NAN;
    switch (red) {
    case HETCCL_SUM:
        return a + b;
    case HETCCL_PROD:
        return a * b;
    case HETCCL_MIN:
        return is_less(a, b) ? a : b;
    default:
        return is_less(a, b) ? b : a;
    }
}

/*
 * Sums and products of two floats are rounded to double and then to float: for these two widths that is the
 * same as rounding once.
 */
static double accumulation_round(enum hetccl_type type, double value)
{
    return type == HETCCL_FLOAT64 ? value : (double)(float)value;
}

uint64_t reference_reduce(enum hetccl_type type, enum hetccl_red red, const uint64_t *inputs,
                          const struct hetccl_scale *scales, size_t n_inputs)
{
    double total = 0;

    if (n_inputs == 1 && scales == NULL)
        return inputs[0];
    if (!reference_is_float(type))
        return reduce_integers(type, red, inputs, scales, n_inputs);
    for (size_t k = 0; k < n_inputs; k++) {
        double input = reference_decode(type, inputs[k]);

        if (scales != NULL)
            input = accumulation_round(type, reference_decode(type, scales[k].bits) * input);
        total = k == 0 ? input : accumulation_round(type, combine_floats(red, total, input));
    }
    return reference_encode(type, total);
}

uint64_t element_get(const void *array, size_t i, enum hetccl_type type)
{
    size_t bytes = shapes[type].bits / 8;
    uint64_t bits = 0;

    memcpy(&bits, (const unsigned char *)array + i * bytes, bytes);
    return bits;
}

void element_set(void *array, size_t i, enum hetccl_type type, uint64_t bits)
{
    size_t bytes = shapes[type].bits / 8;

    memcpy((unsigned char *)array + i * bytes, &bits, bytes);
}

uint64_t random_bits(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

uint64_t random_element(enum hetccl_type type, uint64_t *state)
{
    const struct shape *shape = &shapes[type];
    uint64_t mask = shape->bits == 64 ? UINT64_MAX : (1ull << shape->bits) - 1;
    uint64_t sign = 1ull << (shape->bits - 1), choice = random_bits(state), bits = random_bits(state) & mask;

    if (choice % 4 != 0)
        return bits;
    switch (choice / 4 % 8) {
    case 0:
        return 0;
    case 1:
        return sign;
    case 2:
        return sign - 1;
    case 3:
        return shape->nan;
    case 4: /* the largest finite number, or what is next to it */
        return ((reference_is_float(type) ? largest_magnitude(shape) : sign - 1) + choice / 32 % 2) & mask;
    case 5: /* subnormal */
        return bits & (sign | ((1ull << shape->mantissa_bits) - 1));
    case 6: /* minus the infinity, or the least integer's neighbour */
        return sign | (reference_is_float(type) ? largest_magnitude(shape) + 1 : 1);
    default:
        return reference_is_float(type) ? reference_encode(type, (double)(int)(bits % 17) - 8) : bits % 17;
    }
}
