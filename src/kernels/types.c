/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/kernels.h"

struct type_entry {
    const char *name, *alias;
    size_t bytes;
};

static const struct type_entry types[HETCCL_TYPES] = {
    [HETCCL_INT8] = {"int8", "char", 1},
    [HETCCL_UINT8] = {"uint8", NULL, 1},
    [HETCCL_INT32] = {"int32", "int", 4},
    [HETCCL_UINT32] = {"uint32", NULL, 4},
    [HETCCL_INT64] = {"int64", NULL, 8},
    [HETCCL_UINT64] = {"uint64", NULL, 8},
    [HETCCL_FLOAT16] = {"float16", "half", 2},
    [HETCCL_FLOAT32] = {"float32", "float", 4},
    [HETCCL_FLOAT64] = {"float64", "double", 8},
    [HETCCL_BFLOAT16] = {"bfloat16", NULL, 2},
    [HETCCL_FLOAT8_E4M3] = {"float8_e4m3", "f8e4m3", 1},
    [HETCCL_FLOAT8_E5M2] = {"float8_e5m2", "f8e5m2", 1},
    [HETCCL_FLOAT8_E4M3_FNUZ] = {"float8_e4m3_fnuz", NULL, 1},
    [HETCCL_FLOAT8_E5M2_FNUZ] = {"float8_e5m2_fnuz", NULL, 1},
};

static const char *const red_names[HETCCL_REDS] = {
    [HETCCL_SUM] = "sum", [HETCCL_PROD] = "prod", [HETCCL_MAX] = "max", [HETCCL_MIN] = "min"};

size_t hetccl_type_bytes(enum hetccl_type type)
{
    return (unsigned)type < HETCCL_TYPES ? types[type].bytes : 0;
}

const char *hetccl_type_name(enum hetccl_type type)
{
    return (unsigned)type < HETCCL_TYPES ? types[type].name : "unknown type";
}

int hetccl_type_find(const char *name)
{
    for (int type = 0; type < HETCCL_TYPES; type++) {
        if (strcmp(name, types[type].name) == 0)
            return type;
        if (types[type].alias != NULL && strcmp(name, types[type].alias) == 0)
            return type;
    }
    return -1;
}

const char *hetccl_red_name(enum hetccl_red red)
{
    return (unsigned)red < HETCCL_REDS ? red_names[red] : "unknown reduction";
}
