/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/ccl/table.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "engine/ccl/find.h"

enum { OLDEST_VERSION = 21800, OLDEST_MINOR = 18 };

/* Required is what release 2.18 has. */
static const struct {
    const char *name;
    size_t offset;
    bool is_required;
} symbols[] = {
    {"ncclGetVersion", offsetof(struct hetccl_ccl_api, ncclGetVersion), true},
    {"ncclGetUniqueId", offsetof(struct hetccl_ccl_api, ncclGetUniqueId), true},
    {"ncclGetErrorString", offsetof(struct hetccl_ccl_api, ncclGetErrorString), true},
    {"ncclGetLastError", offsetof(struct hetccl_ccl_api, ncclGetLastError), true},
    {"ncclResetDebugInit", offsetof(struct hetccl_ccl_api, ncclResetDebugInit), false},
    {"ncclCommInitRankConfig", offsetof(struct hetccl_ccl_api, ncclCommInitRankConfig), true},
    {"ncclCommSplit", offsetof(struct hetccl_ccl_api, ncclCommSplit), true},
    {"ncclCommShrink", offsetof(struct hetccl_ccl_api, ncclCommShrink), false},
    {"ncclCommGetUniqueId", offsetof(struct hetccl_ccl_api, ncclCommGetUniqueId), false},
    {"ncclCommGrow", offsetof(struct hetccl_ccl_api, ncclCommGrow), false},
    {"ncclCommFinalize", offsetof(struct hetccl_ccl_api, ncclCommFinalize), true},
    {"ncclCommDestroy", offsetof(struct hetccl_ccl_api, ncclCommDestroy), true},
    {"ncclCommAbort", offsetof(struct hetccl_ccl_api, ncclCommAbort), true},
    {"ncclCommRevoke", offsetof(struct hetccl_ccl_api, ncclCommRevoke), false},
    {"ncclCommGetAsyncError", offsetof(struct hetccl_ccl_api, ncclCommGetAsyncError), true},
    {"ncclCommCount", offsetof(struct hetccl_ccl_api, ncclCommCount), true},
    {"ncclCommCuDevice", offsetof(struct hetccl_ccl_api, ncclCommCuDevice), true},
    {"ncclCommUserRank", offsetof(struct hetccl_ccl_api, ncclCommUserRank), true},
    {"ncclCommSuspend", offsetof(struct hetccl_ccl_api, ncclCommSuspend), false},
    {"ncclCommResume", offsetof(struct hetccl_ccl_api, ncclCommResume), false},
    {"ncclCommMemStats", offsetof(struct hetccl_ccl_api, ncclCommMemStats), false},
    {"ncclMemAlloc", offsetof(struct hetccl_ccl_api, ncclMemAlloc), false},
    {"ncclMemFree", offsetof(struct hetccl_ccl_api, ncclMemFree), false},
    {"ncclCommRegister", offsetof(struct hetccl_ccl_api, ncclCommRegister), false},
    {"ncclCommDeregister", offsetof(struct hetccl_ccl_api, ncclCommDeregister), false},
    {"ncclCommWindowRegister", offsetof(struct hetccl_ccl_api, ncclCommWindowRegister), false},
    {"ncclCommWindowDeregister", offsetof(struct hetccl_ccl_api, ncclCommWindowDeregister), false},
    {"ncclWinGetUserPtr", offsetof(struct hetccl_ccl_api, ncclWinGetUserPtr), false},
    {"ncclRedOpCreatePreMulSum", offsetof(struct hetccl_ccl_api, ncclRedOpCreatePreMulSum), true},
    {"ncclRedOpDestroy", offsetof(struct hetccl_ccl_api, ncclRedOpDestroy), true},
    {"ncclGroupStart", offsetof(struct hetccl_ccl_api, ncclGroupStart), true},
    {"ncclGroupEnd", offsetof(struct hetccl_ccl_api, ncclGroupEnd), true},
    {"ncclGroupSimulateEnd", offsetof(struct hetccl_ccl_api, ncclGroupSimulateEnd), false},
    {"ncclSend", offsetof(struct hetccl_ccl_api, ncclSend), true},
    {"ncclRecv", offsetof(struct hetccl_ccl_api, ncclRecv), true},
    {"ncclBcast", offsetof(struct hetccl_ccl_api, ncclBcast), true},
    {"ncclAllReduce", offsetof(struct hetccl_ccl_api, ncclAllReduce), true},
    {"ncclBroadcast", offsetof(struct hetccl_ccl_api, ncclBroadcast), true},
    {"ncclReduce", offsetof(struct hetccl_ccl_api, ncclReduce), true},
    {"ncclAllGather", offsetof(struct hetccl_ccl_api, ncclAllGather), true},
    {"ncclReduceScatter", offsetof(struct hetccl_ccl_api, ncclReduceScatter), true},
    {"ncclAlltoAll", offsetof(struct hetccl_ccl_api, ncclAlltoAll), false},
    {"ncclGather", offsetof(struct hetccl_ccl_api, ncclGather), false},
    {"ncclScatter", offsetof(struct hetccl_ccl_api, ncclScatter), false},
    {"ncclAllReduceConfig", offsetof(struct hetccl_ccl_api, ncclAllReduceConfig), false},
    {"ncclBroadcastConfig", offsetof(struct hetccl_ccl_api, ncclBroadcastConfig), false},
    {"ncclReduceConfig", offsetof(struct hetccl_ccl_api, ncclReduceConfig), false},
    {"ncclAllGatherConfig", offsetof(struct hetccl_ccl_api, ncclAllGatherConfig), false},
    {"ncclReduceScatterConfig", offsetof(struct hetccl_ccl_api, ncclReduceScatterConfig), false},
    {"ncclAlltoAllConfig", offsetof(struct hetccl_ccl_api, ncclAlltoAllConfig), false},
    {"ncclGatherConfig", offsetof(struct hetccl_ccl_api, ncclGatherConfig), false},
    {"ncclScatterConfig", offsetof(struct hetccl_ccl_api, ncclScatterConfig), false},
    {"ncclPutSignal", offsetof(struct hetccl_ccl_api, ncclPutSignal), false},
    {"ncclSignal", offsetof(struct hetccl_ccl_api, ncclSignal), false},
    {"ncclWaitSignal", offsetof(struct hetccl_ccl_api, ncclWaitSignal), false},
    {"ncclCommQueryProperties", offsetof(struct hetccl_ccl_api, ncclCommQueryProperties), false},
    {"ncclDevCommCreate", offsetof(struct hetccl_ccl_api, ncclDevCommCreate), false},
    {"ncclDevCommDestroy", offsetof(struct hetccl_ccl_api, ncclDevCommDestroy), false},
    {"ncclGetLsaMultimemDevicePointer", offsetof(struct hetccl_ccl_api, ncclGetLsaMultimemDevicePointer),
     false},
    {"ncclGetMultimemDevicePointer", offsetof(struct hetccl_ccl_api, ncclGetMultimemDevicePointer), false},
    {"ncclGetLsaDevicePointer", offsetof(struct hetccl_ccl_api, ncclGetLsaDevicePointer), false},
    {"ncclGetPeerDevicePointer", offsetof(struct hetccl_ccl_api, ncclGetPeerDevicePointer), false},
    {"ncclGetMultimemDeviceLeInfo", offsetof(struct hetccl_ccl_api, ncclGetMultimemDeviceLeInfo), false},
    {"ncclGetCftDeviceLeInfo", offsetof(struct hetccl_ccl_api, ncclGetCftDeviceLeInfo), false},
    {"ncclGetPeerDeviceLeInfo", offsetof(struct hetccl_ccl_api, ncclGetPeerDeviceLeInfo), false},
    {"ncclLLA2ACreateRequirement", offsetof(struct hetccl_ccl_api, ncclLLA2ACreateRequirement), false},
    {"ncclLsaBarrierCreateRequirement", offsetof(struct hetccl_ccl_api, ncclLsaBarrierCreateRequirement),
     false},
    {"ncclGinBarrierCreateRequirement", offsetof(struct hetccl_ccl_api, ncclGinBarrierCreateRequirement),
     false},
    {"ncclGinInboxA2ACreateRequirement", offsetof(struct hetccl_ccl_api, ncclGinInboxA2ACreateRequirement),
     false},
    {"ncclGinOutboxCreateRequirement", offsetof(struct hetccl_ccl_api, ncclGinOutboxCreateRequirement),
     false},
    {"ncclLLA2ACalcSlots", offsetof(struct hetccl_ccl_api, ncclLLA2ACalcSlots), false},
    {"ncclTeamWorld", offsetof(struct hetccl_ccl_api, ncclTeamWorld), false},
    {"ncclTeamLsa", offsetof(struct hetccl_ccl_api, ncclTeamLsa), false},
    {"ncclTeamRail", offsetof(struct hetccl_ccl_api, ncclTeamRail), false},
    {"ncclTeamCft", offsetof(struct hetccl_ccl_api, ncclTeamCft), false},
    {"ncclTeamCftMultimem", offsetof(struct hetccl_ccl_api, ncclTeamCftMultimem), false},
    {"ncclTeamRankToWorld", offsetof(struct hetccl_ccl_api, ncclTeamRankToWorld), false},
    {"ncclTeamRankToLsa", offsetof(struct hetccl_ccl_api, ncclTeamRankToLsa), false},
    {"ncclParamBind", offsetof(struct hetccl_ccl_api, ncclParamBind), false},
    {"ncclParamGetI8", offsetof(struct hetccl_ccl_api, ncclParamGetI8), false},
    {"ncclParamGetI16", offsetof(struct hetccl_ccl_api, ncclParamGetI16), false},
    {"ncclParamGetI32", offsetof(struct hetccl_ccl_api, ncclParamGetI32), false},
    {"ncclParamGetI64", offsetof(struct hetccl_ccl_api, ncclParamGetI64), false},
    {"ncclParamGetU8", offsetof(struct hetccl_ccl_api, ncclParamGetU8), false},
    {"ncclParamGetU16", offsetof(struct hetccl_ccl_api, ncclParamGetU16), false},
    {"ncclParamGetU32", offsetof(struct hetccl_ccl_api, ncclParamGetU32), false},
    {"ncclParamGetU64", offsetof(struct hetccl_ccl_api, ncclParamGetU64), false},
    {"ncclParamGetStr", offsetof(struct hetccl_ccl_api, ncclParamGetStr), false},
    {"ncclParamGet", offsetof(struct hetccl_ccl_api, ncclParamGet), false},
    {"ncclParamGetParameter", offsetof(struct hetccl_ccl_api, ncclParamGetParameter), false},
    {"ncclParamGetAllParameterKeys", offsetof(struct hetccl_ccl_api, ncclParamGetAllParameterKeys), false},
    {"ncclParamDumpAll", offsetof(struct hetccl_ccl_api, ncclParamDumpAll), false},
};

/*
 * DEEPBIND makes the library find its own public functions before ours, which have the same names. The
 * sanitizers must see all memory functions, and can't then.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { OPEN_FLAGS = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
enum { OPEN_FLAGS = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE };
#else
enum { OPEN_FLAGS = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | RTLD_DEEPBIND };
#endif
#else
enum { OPEN_FLAGS = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | RTLD_DEEPBIND };
#endif

static const char *const names[HETCCL_CCL_KINDS] = {"NCCL", "RCCL"};

/* ISO C has no conversion from an object's pointer to a function's; POSIX promises that the bytes are the
 * same. */
static void set_function(struct hetccl_ccl_api *api, size_t offset, void *address)
{
    memcpy((char *)api + offset, &address, sizeof(address));
}

static enum hetccl_status find_functions(void *library, struct hetccl_ccl_api *api)
{
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *address = dlsym(library, symbols[i].name);

        if (address == NULL && symbols[i].is_required)
            return hetccl_fail_quietly(HETCCL_ERR_USAGE, "%s: has no %s, which all releases since 2.18 have",
                                       api->path, symbols[i].name);
        set_function(api, symbols[i].offset, address);
    }
    return HETCCL_OK;
}

static enum hetccl_status read_version(struct hetccl_ccl_api *api)
{
    unsigned code = api->ncclGetVersion(&api->version);

    if (code != HETCCL_CCL_SUCCESS)
        return hetccl_fail_quietly(HETCCL_ERR_USAGE, "%s: ncclGetVersion gives error %u", api->path, code);
    if (api->version < OLDEST_VERSION)
        return hetccl_fail_quietly(HETCCL_ERR_USAGE, "%s: is version code %d, 2.%d or newer is needed",
                                   api->path, api->version, OLDEST_MINOR);
    return HETCCL_OK;
}

enum hetccl_status hetccl_ccl_open(enum hetccl_ccl_kind kind, const char *path, struct hetccl_ccl_api *out)
{
    struct hetccl_ccl_api api = {.name = names[kind]};
    enum hetccl_status status;
    void *library;

    (void)snprintf(api.path, sizeof(api.path), "%s", path);
    if (hetccl_ccl_is_own_file(path))
        return hetccl_fail_quietly(HETCCL_ERR_USAGE, "%s: is this library itself", path);
    library = dlopen(path, OPEN_FLAGS);
    if (library == NULL)
        return hetccl_fail_quietly(HETCCL_ERR_USAGE, "%s", dlerror());
    if (dlsym(library, "hetcclVersion") != NULL)
        return hetccl_fail_quietly(HETCCL_ERR_USAGE, "%s: is a copy of HetCCL", path);
    status = find_functions(library, &api);
    if (status == HETCCL_OK)
        status = read_version(&api);
    if (status == HETCCL_OK)
        *out = api;
    return status;
}

/* ---- once a process ---- */

static struct instance {
    pthread_mutex_t lock;
    struct hetccl_ccl_api api;
    enum hetccl_status status;
    bool is_tried;
    atomic_bool is_loaded;
    char text[HETCCL_ERROR_TEXT_BYTES];
} instances[HETCCL_CCL_KINDS] = {{.lock = PTHREAD_MUTEX_INITIALIZER}, {.lock = PTHREAD_MUTEX_INITIALIZER}};

/* With the lock held. */
static void load(struct instance *instance, enum hetccl_ccl_kind kind, const struct hetccl_config *config)
{
    instance->status = hetccl_ccl_find(kind, config, &instance->api);
    instance->is_tried = true;
    if (instance->status != HETCCL_OK) {
        (void)snprintf(instance->text, sizeof(instance->text), "%s", hetccl_last_error_thread());
        return;
    }
    atomic_store(&instance->is_loaded, true);
    hetccl_log(HETCCL_LOG_INFO, "engine", "%s %d from %s", instance->api.name, instance->api.version,
               instance->api.path);
}

enum hetccl_status hetccl_ccl_get(enum hetccl_ccl_kind kind, const struct hetccl_config *config,
                                  const struct hetccl_ccl_api **out)
{
    struct instance *instance = &instances[kind];
    enum hetccl_status status;

    pthread_mutex_lock(&instance->lock);
    if (!instance->is_tried)
        load(instance, kind, config);
    status = instance->status;
    pthread_mutex_unlock(&instance->lock);
    if (status != HETCCL_OK)
        return hetccl_fail_quietly(status, "%s", instance->text);
    *out = &instance->api;
    return HETCCL_OK;
}

const struct hetccl_ccl_api *hetccl_ccl_loaded(enum hetccl_ccl_kind kind)
{
    return atomic_load_explicit(&instances[kind].is_loaded, memory_order_acquire) ? &instances[kind].api
                                                                                  : NULL;
}

/* ---- codes ---- */

enum hetccl_status hetccl_ccl_status(unsigned code)
{
    static const enum hetccl_status statuses[] = {
        HETCCL_OK,        HETCCL_ERR_DEVICE, HETCCL_ERR_SYSTEM, HETCCL_ERR_INTERNAL, HETCCL_ERR_ARG,
        HETCCL_ERR_USAGE, HETCCL_ERR_REMOTE, HETCCL_AGAIN,      HETCCL_ERR_TIMEOUT,
    };

    return code < sizeof(statuses) / sizeof(statuses[0]) ? statuses[code] : HETCCL_ERR_INTERNAL;
}

enum hetccl_status hetccl_ccl_check(const struct hetccl_ccl_api *api, unsigned code, const char *function)
{
    enum hetccl_status status = hetccl_ccl_status(code);
    const char *text;

    if (!hetccl_is_error(status))
        return status;
    text = api->ncclGetLastError(NULL);
    return hetccl_fail(status, "%s %s: error %u (%s)%s%s", api->name, function, code,
                       api->ncclGetErrorString(code), text != NULL && text[0] != '\0' ? ": " : "",
                       text != NULL ? text : "");
}
