/* SPDX-License-Identifier: Apache-2.0 */

/* NVIDIA's parameter interface over an empty set of parameters: no name is known, no handle is valid. */

#include "api/api.h"
#include "base/log.h"

static ncclResult_t refuse_key(const char *function, const char *key)
{
    return hetccl_result_of(hetccl_fail(
        HETCCL_ERR_ARG, "%s: no parameter '%s'; this library is set up by HETCCL_* environment variables",
        function, key != NULL ? key : "(null)"));
}

static ncclResult_t refuse_handle(const char *function)
{
    return hetccl_result_of(hetccl_fail(HETCCL_ERR_ARG, "%s: no parameter has this handle", function));
}

ncclResult_t pncclParamBind(ncclParamHandle_t *out, const char *key)
{
    return refuse_key("ncclParamBind", key);
}

ncclResult_t pncclParamGetI8(ncclParamHandle_t h, int8_t *out)
{
    return refuse_handle("ncclParamGetI8");
}

ncclResult_t pncclParamGetI16(ncclParamHandle_t h, int16_t *out)
{
    return refuse_handle("ncclParamGetI16");
}

ncclResult_t pncclParamGetI32(ncclParamHandle_t h, int32_t *out)
{
    return refuse_handle("ncclParamGetI32");
}

ncclResult_t pncclParamGetI64(ncclParamHandle_t h, int64_t *out)
{
    return refuse_handle("ncclParamGetI64");
}

ncclResult_t pncclParamGetU8(ncclParamHandle_t h, uint8_t *out)
{
    return refuse_handle("ncclParamGetU8");
}

ncclResult_t pncclParamGetU16(ncclParamHandle_t h, uint16_t *out)
{
    return refuse_handle("ncclParamGetU16");
}

ncclResult_t pncclParamGetU32(ncclParamHandle_t h, uint32_t *out)
{
    return refuse_handle("ncclParamGetU32");
}

ncclResult_t pncclParamGetU64(ncclParamHandle_t h, uint64_t *out)
{
    return refuse_handle("ncclParamGetU64");
}

ncclResult_t pncclParamGetStr(ncclParamHandle_t h, const char **out)
{
    return refuse_handle("ncclParamGetStr");
}

ncclResult_t pncclParamGet(ncclParamHandle_t h, void *out, int maxLen, int *len)
{
    return refuse_handle("ncclParamGet");
}

ncclResult_t pncclParamGetParameter(const char *key, const char **value, int *valueLen)
{
    return refuse_key("ncclParamGetParameter", key);
}

ncclResult_t pncclParamGetAllParameterKeys(const char ***table, int *tableLen)
{
    static const char *no_keys[1];
    enum hetccl_status status = hetccl_pointer_check(table, "ncclParamGetAllParameterKeys", "table");

    if (status == HETCCL_OK)
        status = hetccl_pointer_check(tableLen, "ncclParamGetAllParameterKeys", "tableLen");
    if (status == HETCCL_OK) {
        *table = no_keys;
        *tableLen = 0;
    }
    return hetccl_result_of(status);
}

void pncclParamDumpAll(void)
{
    hetccl_log(HETCCL_LOG_INFO, "api",
               "no NCCL parameters; `hetccl info --config` lists the settings of this library");
}

extern __typeof__(pncclParamBind) ncclParamBind HETCCL_ALIAS("pncclParamBind");
extern __typeof__(pncclParamGetI8) ncclParamGetI8 HETCCL_ALIAS("pncclParamGetI8");
extern __typeof__(pncclParamGetI16) ncclParamGetI16 HETCCL_ALIAS("pncclParamGetI16");
extern __typeof__(pncclParamGetI32) ncclParamGetI32 HETCCL_ALIAS("pncclParamGetI32");
extern __typeof__(pncclParamGetI64) ncclParamGetI64 HETCCL_ALIAS("pncclParamGetI64");
extern __typeof__(pncclParamGetU8) ncclParamGetU8 HETCCL_ALIAS("pncclParamGetU8");
extern __typeof__(pncclParamGetU16) ncclParamGetU16 HETCCL_ALIAS("pncclParamGetU16");
extern __typeof__(pncclParamGetU32) ncclParamGetU32 HETCCL_ALIAS("pncclParamGetU32");
extern __typeof__(pncclParamGetU64) ncclParamGetU64 HETCCL_ALIAS("pncclParamGetU64");
extern __typeof__(pncclParamGetStr) ncclParamGetStr HETCCL_ALIAS("pncclParamGetStr");
extern __typeof__(pncclParamGet) ncclParamGet HETCCL_ALIAS("pncclParamGet");
extern __typeof__(pncclParamGetParameter) ncclParamGetParameter HETCCL_ALIAS("pncclParamGetParameter");
extern __typeof__(pncclParamGetAllParameterKeys)
    ncclParamGetAllParameterKeys HETCCL_ALIAS("pncclParamGetAllParameterKeys");
extern __typeof__(pncclParamDumpAll) ncclParamDumpAll HETCCL_ALIAS("pncclParamDumpAll");
