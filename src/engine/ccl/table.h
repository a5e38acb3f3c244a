/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_ENGINE_CCL_TABLE_H
#define HETCCL_ENGINE_CCL_TABLE_H

/*
 * A vendor's collective library, NVIDIA's libnccl.so.2 or AMD's librccl.so.1, as a table of its functions.
 * The two have one ABI, so they are two instances of one struct.
 *
 * Members have the exact names of the symbols. Codes, types and operators are numbers of that ABI (nccl.h's
 * enumerators), streams and configurations plain pointers. Releases 2.18 to 2.31 fit; members that not all of
 * them have are NULL where the function is missing (is_required in table.c).
 */

#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/status.h"

struct ncclComm;          /* the vendor's */
struct ncclWindow_vidmem; /* the vendor's */
struct ncclParamHandle;   /* the vendor's */

/* Passed by value. */
struct hetccl_ccl_id {
    char internal[128];
};
struct hetccl_ccl_team {
    int n_ranks, rank, stride;
};
struct hetccl_ccl_multimem {
    void *base;
};

enum hetccl_ccl_code {
    HETCCL_CCL_SUCCESS = 0,
    HETCCL_CCL_INVALID_ARGUMENT = 4,
    HETCCL_CCL_INVALID_USAGE = 5,
    HETCCL_CCL_REMOTE_ERROR = 6,
    HETCCL_CCL_IN_PROGRESS = 7,
};

/* Where a factor lies. */
enum { HETCCL_CCL_ON_DEVICE = 0, HETCCL_CCL_HOST_IMMEDIATE = 1 };

enum hetccl_ccl_kind { HETCCL_CCL_NCCL = 0, HETCCL_CCL_RCCL, HETCCL_CCL_KINDS };

struct hetccl_ccl_api {
    const char *name; /* "NCCL" */
    char path[256];   /* of the file */
    int version;      /* as ncclGetVersion() gives it: 22807 */

    /* library */
    unsigned (*ncclGetVersion)(int *version);
    unsigned (*ncclGetUniqueId)(struct hetccl_ccl_id *id_out);
    const char *(*ncclGetErrorString)(unsigned code);
    const char *(*ncclGetLastError)(struct ncclComm *comm);
    void (*ncclResetDebugInit)(void);

    /* life of communicators */
    unsigned (*ncclCommInitRankConfig)(struct ncclComm **comm_out, int n_ranks, struct hetccl_ccl_id id,
                                       int rank, void *config);
    unsigned (*ncclCommSplit)(struct ncclComm *comm, int color, int key, struct ncclComm **child_out,
                              void *config);
    unsigned (*ncclCommShrink)(struct ncclComm *comm, int *excluded, int n_excluded,
                               struct ncclComm **child_out, void *config, int flags);
    unsigned (*ncclCommGetUniqueId)(struct ncclComm *comm, void *id_out);
    unsigned (*ncclCommGrow)(struct ncclComm *comm, int n_ranks, const void *id, int rank,
                             struct ncclComm **child_out, void *config);
    unsigned (*ncclCommFinalize)(struct ncclComm *comm);
    unsigned (*ncclCommDestroy)(struct ncclComm *comm);
    unsigned (*ncclCommAbort)(struct ncclComm *comm);
    unsigned (*ncclCommRevoke)(struct ncclComm *comm, int flags);
    unsigned (*ncclCommGetAsyncError)(struct ncclComm *comm, unsigned *code_out);
    unsigned (*ncclCommCount)(struct ncclComm *comm, int *out);
    unsigned (*ncclCommCuDevice)(struct ncclComm *comm, int *out);
    unsigned (*ncclCommUserRank)(struct ncclComm *comm, int *out);
    unsigned (*ncclCommSuspend)(struct ncclComm *comm, int flags);
    unsigned (*ncclCommResume)(struct ncclComm *comm);
    unsigned (*ncclCommMemStats)(struct ncclComm *comm, unsigned stat, uint64_t *value_out);

    /* memory */
    unsigned (*ncclMemAlloc)(void **memory_out, size_t bytes);
    unsigned (*ncclMemFree)(void *memory);
    unsigned (*ncclCommRegister)(struct ncclComm *comm, void *buffer, size_t bytes, void **handle_out);
    unsigned (*ncclCommDeregister)(struct ncclComm *comm, void *handle);
    unsigned (*ncclCommWindowRegister)(struct ncclComm *comm, void *buffer, size_t bytes,
                                       struct ncclWindow_vidmem **window_out, int flags);
    unsigned (*ncclCommWindowDeregister)(struct ncclComm *comm, struct ncclWindow_vidmem *window);
    unsigned (*ncclWinGetUserPtr)(struct ncclComm *comm, struct ncclWindow_vidmem *window, void **out);

    /* calls and groups */
    unsigned (*ncclRedOpCreatePreMulSum)(unsigned *op_out, void *scalar, unsigned type, unsigned residence,
                                         struct ncclComm *comm);
    unsigned (*ncclRedOpDestroy)(unsigned op, struct ncclComm *comm);
    unsigned (*ncclGroupStart)(void);
    unsigned (*ncclGroupEnd)(void);
    unsigned (*ncclGroupSimulateEnd)(void *info);
    unsigned (*ncclSend)(const void *send, size_t count, unsigned type, int peer, struct ncclComm *comm,
                         void *stream);
    unsigned (*ncclRecv)(void *recv, size_t count, unsigned type, int peer, struct ncclComm *comm,
                         void *stream);
    unsigned (*ncclBcast)(void *buffer, size_t count, unsigned type, int root, struct ncclComm *comm,
                          void *stream);
    unsigned (*ncclAllReduce)(const void *send, void *recv, size_t count, unsigned type, unsigned op,
                              struct ncclComm *comm, void *stream);
    unsigned (*ncclBroadcast)(const void *send, void *recv, size_t count, unsigned type, int root,
                              struct ncclComm *comm, void *stream);
    unsigned (*ncclReduce)(const void *send, void *recv, size_t count, unsigned type, unsigned op, int root,
                           struct ncclComm *comm, void *stream);
    unsigned (*ncclAllGather)(const void *send, void *recv, size_t count, unsigned type,
                              struct ncclComm *comm, void *stream);
    unsigned (*ncclReduceScatter)(const void *send, void *recv, size_t count, unsigned type, unsigned op,
                                  struct ncclComm *comm, void *stream);
    unsigned (*ncclAlltoAll)(const void *send, void *recv, size_t count, unsigned type, struct ncclComm *comm,
                             void *stream);
    unsigned (*ncclGather)(const void *send, void *recv, size_t count, unsigned type, int root,
                           struct ncclComm *comm, void *stream);
    unsigned (*ncclScatter)(const void *send, void *recv, size_t count, unsigned type, int root,
                            struct ncclComm *comm, void *stream);

    /* calls with wishes */
    unsigned (*ncclAllReduceConfig)(const void *send, void *recv, size_t count, unsigned type, unsigned op,
                                    struct ncclComm *comm, void *stream, const void *config);
    unsigned (*ncclBroadcastConfig)(const void *send, void *recv, size_t count, unsigned type, int root,
                                    struct ncclComm *comm, void *stream, const void *config);
    unsigned (*ncclReduceConfig)(const void *send, void *recv, size_t count, unsigned type, unsigned op,
                                 int root, struct ncclComm *comm, void *stream, const void *config);
    unsigned (*ncclAllGatherConfig)(const void *send, void *recv, size_t count, unsigned type,
                                    struct ncclComm *comm, void *stream, const void *config);
    unsigned (*ncclReduceScatterConfig)(const void *send, void *recv, size_t count, unsigned type,
                                        unsigned op, struct ncclComm *comm, void *stream, const void *config);
    unsigned (*ncclAlltoAllConfig)(const void *send, void *recv, size_t count, unsigned type,
                                   struct ncclComm *comm, void *stream, const void *config);
    unsigned (*ncclGatherConfig)(const void *send, void *recv, size_t count, unsigned type, int root,
                                 struct ncclComm *comm, void *stream, const void *config);
    unsigned (*ncclScatterConfig)(const void *send, void *recv, size_t count, unsigned type, int root,
                                  struct ncclComm *comm, void *stream, const void *config);

    /* one-sided */
    unsigned (*ncclPutSignal)(const void *local, size_t count, unsigned type, int peer,
                              struct ncclWindow_vidmem *window, size_t offset, int signal, int context,
                              unsigned flags, struct ncclComm *comm, void *stream);
    unsigned (*ncclSignal)(int peer, int signal, int context, unsigned flags, struct ncclComm *comm,
                           void *stream);
    unsigned (*ncclWaitSignal)(int n, void *descriptions, struct ncclComm *comm, void *stream);

    /* device API, host half */
    unsigned (*ncclCommQueryProperties)(struct ncclComm *comm, void *properties);
    unsigned (*ncclDevCommCreate)(struct ncclComm *comm, const void *requirements, void *out);
    unsigned (*ncclDevCommDestroy)(struct ncclComm *comm, const void *device_comm);
    unsigned (*ncclGetLsaMultimemDevicePointer)(struct ncclWindow_vidmem *window, size_t offset, void **out);
    unsigned (*ncclGetMultimemDevicePointer)(struct ncclWindow_vidmem *window, size_t offset,
                                             struct hetccl_ccl_multimem multimem, void **out);
    unsigned (*ncclGetLsaDevicePointer)(struct ncclWindow_vidmem *window, size_t offset, int lsa_rank,
                                        void **out);
    unsigned (*ncclGetPeerDevicePointer)(struct ncclWindow_vidmem *window, size_t offset, int peer,
                                         void **out);
    unsigned (*ncclGetMultimemDeviceLeInfo)(struct ncclWindow_vidmem *window, size_t offset, void *id_out,
                                            size_t *offset_out);
    unsigned (*ncclGetCftDeviceLeInfo)(struct ncclWindow_vidmem *window, size_t offset, int peer,
                                       struct hetccl_ccl_team team, void *id_out, size_t *offset_out);
    unsigned (*ncclGetPeerDeviceLeInfo)(struct ncclWindow_vidmem *window, size_t offset, int peer,
                                        void *id_out, size_t *offset_out);
    unsigned (*ncclLLA2ACreateRequirement)(int n_blocks, int n_slots, void *handle_out,
                                           void *requirement_out);
    unsigned (*ncclLsaBarrierCreateRequirement)(struct hetccl_ccl_team team, int n_barriers, void *handle_out,
                                                void *requirement_out);
    unsigned (*ncclGinBarrierCreateRequirement)(struct ncclComm *comm, struct hetccl_ccl_team team,
                                                int n_barriers, void *handle_out, void *requirement_out);
    unsigned (*ncclGinInboxA2ACreateRequirement)(struct hetccl_ccl_team peers, int n_blocks, int size_log2,
                                                 void *handle_out, void *requirement_out);
    unsigned (*ncclGinOutboxCreateRequirement)(int n_blocks, int size_log2, void *handle_out,
                                               void *requirement_out);
    int (*ncclLLA2ACalcSlots)(int max_elements, int max_element_bytes);
    struct hetccl_ccl_team (*ncclTeamWorld)(struct ncclComm *comm);
    struct hetccl_ccl_team (*ncclTeamLsa)(struct ncclComm *comm);
    struct hetccl_ccl_team (*ncclTeamRail)(struct ncclComm *comm);
    struct hetccl_ccl_team (*ncclTeamCft)(struct ncclComm *comm, int mode);
    struct hetccl_ccl_team (*ncclTeamCftMultimem)(struct ncclComm *comm);
    int (*ncclTeamRankToWorld)(struct ncclComm *comm, struct hetccl_ccl_team team, int rank);
    int (*ncclTeamRankToLsa)(struct ncclComm *comm, struct hetccl_ccl_team team, int rank);

    /* parameters */
    unsigned (*ncclParamBind)(struct ncclParamHandle **out, const char *key);
    unsigned (*ncclParamGetI8)(struct ncclParamHandle *handle, int8_t *out);
    unsigned (*ncclParamGetI16)(struct ncclParamHandle *handle, int16_t *out);
    unsigned (*ncclParamGetI32)(struct ncclParamHandle *handle, int32_t *out);
    unsigned (*ncclParamGetI64)(struct ncclParamHandle *handle, int64_t *out);
    unsigned (*ncclParamGetU8)(struct ncclParamHandle *handle, uint8_t *out);
    unsigned (*ncclParamGetU16)(struct ncclParamHandle *handle, uint16_t *out);
    unsigned (*ncclParamGetU32)(struct ncclParamHandle *handle, uint32_t *out);
    unsigned (*ncclParamGetU64)(struct ncclParamHandle *handle, uint64_t *out);
    unsigned (*ncclParamGetStr)(struct ncclParamHandle *handle, const char **out);
    unsigned (*ncclParamGet)(struct ncclParamHandle *handle, void *out, int max_bytes, int *bytes_out);
    unsigned (*ncclParamGetParameter)(const char *key, const char **value_out, int *bytes_out);
    unsigned (*ncclParamGetAllParameterKeys)(const char ***keys_out, int *n_out);
    void (*ncclParamDumpAll)(void);
};

/*
 * hetccl_ccl_get -- the vendor's library, found and opened by the first caller and never closed.
 *
 * It is opened by absolute path, apart from everything else in the process: its symbols serve nobody but us,
 * and its own calls of its public functions, which carry the same names as ours, stay inside. Places, in this
 * order: HETCCL_NCCL_LIB (then nowhere else); beside the PyTorch of this process; beside our own file, as
 * libnccl.so.2.*; LD_LIBRARY_PATH; the system's. Never a file that is this library.
 *
 * config [in] of the first call; later ones get what that one found
 * Errors: HETCCL_ERR_USAGE, with all places that were tried; the same for every later call, not logged again.
 * Threads: any. May block for the time of loading some 200 MiB.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_ccl_get(enum hetccl_ccl_kind kind,
                                                   const struct hetccl_config *config,
                                                   const struct hetccl_ccl_api **out);

/* What hetccl_ccl_get() has opened already, or NULL. Never blocks. */
const struct hetccl_ccl_api *hetccl_ccl_loaded(enum hetccl_ccl_kind kind);

/*
 * hetccl_ccl_open -- one file, not remembered: for hetccl_ccl_get(), and for tests.
 *
 * Errors: HETCCL_ERR_USAGE: it can't be loaded, is this library, lacks a required function or is older than
 * 2.18. The text (quiet) says which.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_ccl_open(enum hetccl_ccl_kind kind, const char *path,
                                                    struct hetccl_ccl_api *out);

/* The status that comes nearest to a code of the vendor's. */
enum hetccl_status hetccl_ccl_status(unsigned code);

/*
 * hetccl_ccl_check -- HETCCL_OK for success, HETCCL_AGAIN for "in progress", else a failure whose text is the
 * library's own last error behind its name and the function's. For calls of our own, not of users.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_ccl_check(const struct hetccl_ccl_api *api, unsigned code,
                                                     const char *function);

#endif
