/* SPDX-License-Identifier: Apache-2.0 */

/*
 * NVIDIA's parameter interface: its own parameters where its library serves this process, else over an empty
 * set of parameters: no name is known, no handle is valid.
 */

#include "api/api.h"
#include "api/native.h"
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
    const struct hetccl_ccl_api *api = hetccl_vendor_api();

    if (api != NULL && api->ncclParamBind != NULL)
        return hetccl_native_result(api, api->ncclParamBind(out, key), "ncclParamBind");
    return refuse_key("ncclParamBind", key);
}

ncclResult_t pncclParamGetI8(ncclParamHandle_t h, int8_t *out)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api();

    if (api != NULL && api->ncclParamGetI8 != NULL)
        return hetccl_native_result(api, api->ncclParamGetI8(h, out), "ncclParamGetI8");
    return refuse_handle("ncclParamGetI8");
}

ncclResult_t pncclParamGetI16(ncclParamHandle_t h, int16_t *out)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api();

    if (api != NULL && api->ncclParamGetI16 != NULL)
        return hetccl_native_result(api, api->ncclParamGetI16(h, out), "ncclParamGetI16");
    return refuse_handle("ncclParamGetI16");
}

ncclResult_t pncclParamGetI32(ncclParamHandle_t h, int32_t *out)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api();

    if (api != NULL && api->ncclParamGetI32 != NULL)
        return hetccl_native_result(api, api->ncclParamGetI32(h, out), "ncclParamGetI32");
    return refuse_handle("ncclParamGetI32");
}

ncclResult_t pncclParamGetI64(ncclParamHandle_t h, int64_t *out)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api();

    if (api != NULL && api->ncclParamGetI64 != NULL)
        return hetccl_native_result(api, api->ncclParamGetI64(h, out), "ncclParamGetI64");
    return refuse_handle("ncclParamGetI64");
}

ncclResult_t pncclParamGetU8(ncclParamHandle_t h, uint8_t *out)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api();

    if (api != NULL && api->ncclParamGetU8 != NULL)
        return hetccl_native_result(api, api->ncclParamGetU8(h, out), "ncclParamGetU8");
    return refuse_handle("ncclParamGetU8");
}

ncclResult_t pncclParamGetU16(ncclParamHandle_t h, uint16_t *out)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api();

    if (api != NULL && api->ncclParamGetU16 != NULL)
        return hetccl_native_result(api, api->ncclParamGetU16(h, out), "ncclParamGetU16");
    return refuse_handle("ncclParamGetU16");
}

ncclResult_t pncclParamGetU32(ncclParamHandle_t h, uint32_t *out)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api();

    if (api != NULL && api->ncclParamGetU32 != NULL)
        return hetccl_native_result(api, api->ncclParamGetU32(h, out), "ncclParamGetU32");
    return refuse_handle("ncclParamGetU32");
}

ncclResult_t pncclParamGetU64(ncclParamHandle_t h, uint64_t *out)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api();

    if (api != NULL && api->ncclParamGetU64 != NULL)
        return hetccl_native_result(api, api->ncclParamGetU64(h, out), "ncclParamGetU64");
    return refuse_handle("ncclParamGetU64");
}

ncclResult_t pncclParamGetStr(ncclParamHandle_t h, const char **out)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api();

    if (api != NULL && api->ncclParamGetStr != NULL)
        return hetccl_native_result(api, api->ncclParamGetStr(h, out), "ncclParamGetStr");
    return refuse_handle("ncclParamGetStr");
}

ncclResult_t pncclParamGet(ncclParamHandle_t h, void *out, int maxLen, int *len)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api();

    if (api != NULL && api->ncclParamGet != NULL)
        return hetccl_native_result(api, api->ncclParamGet(h, out, maxLen, len), "ncclParamGet");
    return refuse_handle("ncclParamGet");
}

ncclResult_t pncclParamGetParameter(const char *key, const char **value, int *valueLen)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api();

    if (api != NULL && api->ncclParamGetParameter != NULL)
        return hetccl_native_result(api, api->ncclParamGetParameter(key, value, valueLen),
                                    "ncclParamGetParameter");
    return refuse_key("ncclParamGetParameter", key);
}

static enum hetccl_status list_nothing(const char ***table, int *n_out)
{
    static const char *no_keys[1];
    enum hetccl_status status = hetccl_pointer_check(table, "ncclParamGetAllParameterKeys", "table");

    if (status == HETCCL_OK)
        status = hetccl_pointer_check(n_out, "ncclParamGetAllParameterKeys", "tableLen");
    if (status == HETCCL_OK) {
        *table = no_keys;
        *n_out = 0;
    }
    return status;
}

ncclResult_t pncclParamGetAllParameterKeys(const char ***table, int *tableLen)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api();

    if (api != NULL && api->ncclParamGetAllParameterKeys != NULL)
        return hetccl_native_result(api, api->ncclParamGetAllParameterKeys(table, tableLen),
                                    "ncclParamGetAllParameterKeys");
    return hetccl_result_of(list_nothing(table, tableLen));
}

void pncclParamDumpAll(void)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api();

    if (api != NULL && api->ncclParamDumpAll != NULL)
        api->ncclParamDumpAll();
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
