/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The NCCL API as HetCCL exports it: source and binary compatible with release 2.30.7 of NVIDIA's library,
 * written anew. The include guard is NVIDIA's, so that whichever of the two headers comes first wins.
 *
 * Rules for all functions, unless one says otherwise
 *   Result   ncclSuccess, or an error whose cause and remedy ncclGetLastError() tells. ncclInProgress
 * (non-blocking communicators only) means: poll ncclCommGetAsyncError(). ncclTimeout is never returned; a
 * deadline that passes is ncclRemoteError. Memory   buffers are memory of the communicator's device (plain
 * memory for CPU ranks), the caller's, borrowed until the stream has run the call; CPU ranks: until the call
 * returns. Counts are elements, not bytes, and may be 0. Streams  GPU ranks: the call returns when its work
 * is queued. CPU ranks: it returns when its work is done and the stream is ignored. Threads  one thread a
 * communicator at a time, but for ncclCommGetAsyncError(), ncclCommAbort(), ncclCommRevoke() and the getters,
 * which any thread may call at any moment. Order    every rank makes the same collective calls of a
 * communicator in the same order. Groups   between ncclGroupStart() and ncclGroupEnd() calls are only checked
 * and queued. Native   where all ranks of a communicator are NVIDIA GPUs with NCCL, that gets its calls as
 * they come, and offers what is said below not to be offered: docs/semantics.md, "Native communicators".
 */
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The stream type, without any vendor's headers. Where those were included before this file, the names are
 * theirs and the declarations below repeat them.
 */
#if defined(HETCCL_USE_HIP) || defined(__HIP_PLATFORM_AMD__)
typedef struct ihipStream_t *hipStream_t;
typedef hipStream_t hetcclStream_t;
#else
#if !defined(__DRIVER_TYPES_H__)
typedef struct CUstream_st *cudaStream_t;
#endif
typedef cudaStream_t hetcclStream_t;
#endif

#define NCCL_MAJOR  2
#define NCCL_MINOR  30
#define NCCL_PATCH  7
#define NCCL_SUFFIX ""

#define NCCL_VERSION(X, Y, Z) (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))
#define NCCL_VERSION_CODE     23007

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Handles ---- */

typedef struct ncclComm *ncclComm_t;
#define NCCL_COMM_NULL NULL

/* A memory window. This library gives none out: registration succeeds with a NULL window, which NCCL allows.
 */
typedef struct ncclWindow_vidmem *ncclWindow_t;

/* 128 opaque bytes that name a communicator to be; passed by value. */
#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

/* ---- Numbers ---- */

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1, /* a device runtime failed */
    ncclSystemError = 2,        /* a system call or resource failed */
    ncclInternalError = 3,      /* a fault of the library, or the communicator was aborted */
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5, /* calls, settings or ranks don't fit together */
    ncclRemoteError = 6,  /* a rank died, closed or never came */
    ncclInProgress = 7,
    ncclTimeout = 8, /* never returned: programs built before 2.30 don't know it */
    ncclNumResults = 9
} ncclResult_t;

/* Values from ncclNumOps on are made by ncclRedOpCreatePreMulSum(). */
typedef enum {
    ncclSum = 0,
    ncclProd = 1,
    ncclMax = 2,
    ncclMin = 3,
    ncclAvg =
        4, /* floats: inputs scaled by 1/n, then added; integers: the exact mean, truncated toward zero */
    ncclNumOps = 5,
    ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef enum {
    ncclInt8 = 0,
    ncclChar = 0,
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclInt = 2,
    ncclUint32 = 3,
    ncclInt64 = 4,
    ncclUint64 = 5,
    ncclFloat16 = 6,
    ncclHalf = 6,
    ncclFloat32 = 7,
    ncclFloat = 7,
    ncclFloat64 = 8,
    ncclDouble = 8,
    ncclBfloat16 = 9,
    ncclFloat8e4m3 = 10,
    ncclFloat8e5m2 = 11,
    ncclNumTypes = 12
} ncclDataType_t;

/* Where the factor of ncclRedOpCreatePreMulSum() lies, and so when it is read. */
typedef enum {
    ncclScalarDevice = 0,       /* device memory, read when a call that uses the operator is made or runs */
    ncclScalarHostImmediate = 1 /* host memory, read during the creation */
} ncclScalarResidence_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT      -1.0f
#define NCCL_SPLIT_NOCOLOR    -1
#define NCCL_API_MAGIC        0xcafebeef

#define NCCL_WIN_DEFAULT            0x00
#define NCCL_WIN_COLL_SYMMETRIC     0x01
#define NCCL_WIN_STRICT_ORDERING    0x02
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

#define NCCL_CTA_POLICY_DEFAULT    0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO       0x02

#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT   0x01 /* end the parent's running calls first */
#define NCCL_REVOKE_DEFAULT 0x00
#define NCCL_SUSPEND_MEM    0x01

/* ---- Structs that carry their size, magic and version ---- */

/*
 * What a communicator shall be like. Initialise it with NCCL_CONFIG_INITIALIZER. Honoured: blocking,
 * commName. The other members tune NVIDIA's GPUs: their ranges are checked, nothing more. The library reads
 * by size and version, so structs of every release from 2.14 on, newer ones included, are understood.
 */
typedef struct ncclConfig_v23000 {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int blocking; /* 0: calls that would wait for other ranks return ncclInProgress */
    int cgaClusterSize;
    int minCTAs;
    int maxCTAs;
    const char *netName;
    int splitShare;
    int trafficClass;
    const char *commName; /* for logs; copied */
    int collnetEnable;
    int CTAPolicy;
    int shrinkShare;
    int nvlsCTAs;
    int nChannelsPerNetPeer;
    int nvlinkCentricSched;
    int graphUsageMode;
    int numRmaCtx;
    int maxP2pPeers;
    int graphStreamOrdering;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                              \
    {                                                                                                        \
        sizeof(ncclConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_INT,                      \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR,      \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT,      \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,      \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,      \
            NCCL_CONFIG_UNDEF_INT                                                                            \
    }

/* What ncclGroupSimulateEnd() tells. */
typedef struct ncclSimInfo_v22200 {
    size_t size;
    unsigned int magic; /* 0x74685283 */
    unsigned int version;
    float estimatedTime; /* microseconds; NCCL_UNDEF_FLOAT when unknown */
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER                                                                            \
    {                                                                                                        \
        sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION_CODE, NCCL_UNDEF_FLOAT                               \
    }

/* An option of one call meant for a library other than NVIDIA's; a list ended by NULL. Release 2.31. */
typedef struct ncclConfigExt {
    struct ncclConfigExt *next;
    struct {
        int vendorId; /* below 2^24, not 0 */
        int optionId;
    } key;
    union {
        int i;
        const char *s;
        void *raw;
    } val;
} ncclConfigExt_t;

/*
 * Wishes for one collective call, release 2.31. This library checks the struct and fulfils none of the
 * wishes; a forced algSelection is therefore ncclInvalidArgument.
 */
typedef struct ncclCollConfig_v23100 {
    size_t size;
    unsigned int magic;
    unsigned int version;
    ncclConfigExt_t *ext;
    int minCTAs;
    int maxCTAs;
    int nvlsCTAs;
    int cgaClusterSize;
    const char *algSelection;
    int forceAlgSelection; /* 0: algSelection is advice */
    int CTAPolicy;
    uint64_t userProfilerTag;
} ncclCollConfig_t;

#define NCCL_COLLCONFIG_INITIALIZER                                                                          \
    {                                                                                                        \
        sizeof(ncclCollConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_PTR,                  \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,      \
            NCCL_CONFIG_UNDEF_PTR, 1, NCCL_CONFIG_UNDEF_INT, 0                                               \
    }

/* ---- Library ---- */

/* The version of the NCCL API spoken here, in NCCL_VERSION_CODE's coding. */
ncclResult_t ncclGetVersion(int *version);

/* A few words for a result; static storage, never NULL. */
const char *ncclGetErrorString(ncclResult_t result);

/*
 * Cause, peer and remedy of the process's last failure; "" when there was none. comm is ignored and may be
 * NULL. The text lies in storage of the calling thread and stays until its next call of this function.
 */
const char *ncclGetLastError(ncclComm_t comm);

/* Does nothing; kept for programs of older releases. */
void ncclResetDebugInit(void);

/* ---- Making communicators ---- */

/* A fresh id. The calling process serves it and has to live until the communicator stands. */
ncclResult_t ncclGetUniqueId(ncclUniqueId *uniqueId);

/*
 * Join as rank (0 .. nranks-1) of nranks; blocks until all have come (HETCCL_INIT_TIMEOUT_S). A thread that
 * holds several ranks groups these calls. *comm is set before the wait, so that another thread can abort it;
 * NULL after a failure.
 */
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank);

/* The same with wishes; config NULL: the defaults. Non-blocking: returns ncclInProgress, *comm is set at
 * once. */
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank,
                                    ncclConfig_t *config);

/* The same with nId (1 .. nranks) ids made by as many processes, the same ones in the same order on all
 * ranks. */
ncclResult_t ncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int myrank, int nId,
                                      ncclUniqueId *commIds, ncclConfig_t *config);

/*
 * A communicator of ndev ranks inside this process, one a device; comm [out] ndev handles. devlist NULL:
 * devices 0 .. ndev-1. A device named twice is ncclInvalidUsage, unless ranks compute on the CPU.
 */
ncclResult_t ncclCommInitAll(ncclComm_t *comm, int ndev, const int *devlist);

/*
 * Collective over comm: ranks of equal color (>= 0) form a new communicator, ordered by (key, rank).
 * NCCL_SPLIT_NOCOLOR: *newcomm is NULL. config NULL: as the parent.
 */
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config);

/*
 * A new communicator without the excludeRanksCount (> 0) ranks listed; called by the ranks that stay, with
 * the same set. The parent may have failed. shrinkFlags: NCCL_SHRINK_DEFAULT or NCCL_SHRINK_ABORT.
 */
ncclResult_t ncclCommShrink(ncclComm_t comm, int *excludeRanksList, int excludeRanksCount,
                            ncclComm_t *newcomm, ncclConfig_t *config, int shrinkFlags);

/* Growing isn't offered: ncclInvalidUsage. */
ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *uniqueId);
ncclResult_t ncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId *uniqueId, int rank,
                          ncclComm_t *newcomm, ncclConfig_t *config);

/* ---- Ending communicators; NULL is ncclSuccess ---- */

/* Wait until all ranks have made and done all their calls. Twice: ncclInvalidArgument. */
ncclResult_t ncclCommFinalize(ncclComm_t comm);

/* Free the handle; finalizes first, waiting a bounded time. In a group: done by ncclGroupEnd(), after the
 * group's calls. */
ncclResult_t ncclCommDestroy(ncclComm_t comm);

/*
 * End everything at once, without the other ranks, and free the handle; calls running in other threads return
 * an error. At most 2 s. In a group: done first thing by ncclGroupEnd(), even after an error; queued calls of
 * comm are dropped.
 */
ncclResult_t ncclCommAbort(ncclComm_t comm);

/* End running calls; later ones are ncclInvalidUsage. Split, shrink, destroy stay allowed. revokeFlags must
 * be 0. */
ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags);

/* ---- Asking communicators ---- */

/* *asyncError: ncclSuccess, ncclInProgress, or the failure that has befallen comm. Never blocks. */
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError);
ncclResult_t ncclCommCount(const ncclComm_t comm, int *count);
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank);

/* ---- Memory ---- */

/* Page-aligned memory of the device kind that the configuration asks for; size 0 gives NULL. Freed by
 * ncclMemFree(). */
ncclResult_t ncclMemAlloc(void **ptr, size_t size);
ncclResult_t ncclMemFree(void *ptr);

/* Announce a buffer that calls will use often. *handle is given back to ncclCommDeregister(), which takes
 * NULL. */
ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buff, size_t size, void **handle);
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle);

/* ncclSuccess with *win NULL: no window is made, calls work as without. Deregistering NULL is ncclSuccess. */
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win,
                                    int winFlags);
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win);
ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void **outUserPtr);

/* Suspending isn't offered: ncclInvalidUsage. */
ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags);
ncclResult_t ncclCommResume(ncclComm_t comm);

typedef enum {
    ncclStatGpuMemSuspend = 0,
    ncclStatGpuMemSuspended = 1,
    ncclStatGpuMemPersist = 2,
    ncclStatGpuMemTotal = 3
} ncclCommMemStat_t;

/* *value is 0: there is no GPU memory that could be suspended. */
ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value);

/* ---- Operators ---- */

/*
 * An operator that multiplies every input by *scalar (one element of datatype) and adds. Valid for comm and
 * datatype only. It may be destroyed as soon as the calls that use it have been made, inside the same group
 * too.
 */
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm);
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);

/* ---- Collectives; n is the number of ranks ---- */

/* recvbuff [count] at root = op over all sendbuff [count]. In place: sendbuff == recvbuff. recvbuff
 * elsewhere: unused. */
ncclResult_t ncclReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, hetcclStream_t stream);

/* buff [count] of root to everybody's buff. */
ncclResult_t ncclBcast(void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       hetcclStream_t stream);

/* sendbuff [count] of root to all recvbuff [count]. In place: sendbuff == recvbuff. sendbuff elsewhere:
 * unused. */
ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                           int root, ncclComm_t comm, hetcclStream_t stream);

/* recvbuff [count] = op over all sendbuff [count], the same bits on all ranks. In place: sendbuff ==
 * recvbuff. */
ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                           ncclRedOp_t op, ncclComm_t comm, hetcclStream_t stream);

/* recvbuff [recvcount] = block `rank` of op over all sendbuff [n recvcount]. In place: recvbuff is that block
 * of sendbuff. */
ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               hetcclStream_t stream);

/* recvbuff [n sendcount] = all sendbuff [sendcount] by rank. In place: sendbuff is block `rank` of recvbuff.
 */
ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype,
                           ncclComm_t comm, hetcclStream_t stream);

/* Block j of sendbuff [n count] becomes block `rank` of rank j's recvbuff [n count]. Not in place. */
ncclResult_t ncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                          ncclComm_t comm, hetcclStream_t stream);

/* recvbuff [n count] at root = all sendbuff [count] by rank. In place at root: sendbuff is block `root` of
 * recvbuff. */
ncclResult_t ncclGather(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
                        ncclComm_t comm, hetcclStream_t stream);

/* recvbuff [count] = block `rank` of root's sendbuff [n count]. In place at root: recvbuff is block `root` of
 * sendbuff. */
ncclResult_t ncclScatter(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                         int root, ncclComm_t comm, hetcclStream_t stream);

/* ---- Collectives with wishes, release 2.31; config NULL: as without ---- */

ncclResult_t ncclAllReduceConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                 ncclRedOp_t op, ncclComm_t comm, hetcclStream_t stream,
                                 const ncclCollConfig_t *config);
ncclResult_t ncclBroadcastConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                 int root, ncclComm_t comm, hetcclStream_t stream,
                                 const ncclCollConfig_t *config);
ncclResult_t ncclReduceConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                              ncclRedOp_t op, int root, ncclComm_t comm, hetcclStream_t stream,
                              const ncclCollConfig_t *config);
ncclResult_t ncclAllGatherConfig(const void *sendbuff, void *recvbuff, size_t sendcount,
                                 ncclDataType_t datatype, ncclComm_t comm, hetcclStream_t stream,
                                 const ncclCollConfig_t *config);
ncclResult_t ncclReduceScatterConfig(const void *sendbuff, void *recvbuff, size_t recvcount,
                                     ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                     hetcclStream_t stream, const ncclCollConfig_t *config);
ncclResult_t ncclAlltoAllConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                ncclComm_t comm, hetcclStream_t stream, const ncclCollConfig_t *config);
ncclResult_t ncclGatherConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                              int root, ncclComm_t comm, hetcclStream_t stream,
                              const ncclCollConfig_t *config);
ncclResult_t ncclScatterConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                               int root, ncclComm_t comm, hetcclStream_t stream,
                               const ncclCollConfig_t *config);

/* ---- Point to point ---- */

/*
 * One message to or from peer; the other side makes the opposite call with equal count and datatype. Messages
 * between two ranks match in order. Outside a group a call may wait for its peer; calls that must progress
 * together form a group. An empty message is a message. A send to oneself needs the receive in the same
 * group.
 */
ncclResult_t ncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      hetcclStream_t stream);
ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      hetcclStream_t stream);

/* ---- One-sided; not offered: ncclInvalidUsage ---- */

ncclResult_t ncclPutSignal(const void *localbuff, size_t count, ncclDataType_t datatype, int peer,
                           ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
                           unsigned int flags, ncclComm_t comm, hetcclStream_t stream);
ncclResult_t ncclSignal(int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                        hetcclStream_t stream);

typedef struct {
    int opCnt;
    int peer;
    int sigIdx;
    int ctx;
} ncclWaitSignalDesc_t;

ncclResult_t ncclWaitSignal(int nDesc, ncclWaitSignalDesc_t *signalDescs, ncclComm_t comm,
                            hetcclStream_t stream);

/* ---- Groups ---- */

/*
 * Calls up to the matching outermost ncclGroupEnd() are checked, queued, and then run as one. Groups nest;
 * the state is the thread's. A group may hold calls of several communicators and of several ranks of one, or
 * calls that make communicators, not both; nor blocking and non-blocking communicators together.
 */
ncclResult_t ncclGroupStart(void);

/*
 * The first error of the group's calls (then nothing has run but aborts and destroys), else that of running
 * them. Without a start: ncclInvalidUsage. An inner end only counts and is ncclSuccess.
 */
ncclResult_t ncclGroupEnd(void);

/*
 * Ends a group without running it: estimatedTime is what its collectives would take at least by the cost
 * model. Ends the group in any case; ncclInvalidArgument for a struct that wasn't initialised.
 */
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *simInfo);

/* ---- Parameters of NVIDIA's library, release 2.30. This one has none of them: HETCCL_* settings are in the
 * manual. ---- */

typedef struct ncclParamHandle *ncclParamHandle_t;

/* ncclInvalidArgument: no parameter has that name, no handle is valid. */
ncclResult_t ncclParamBind(ncclParamHandle_t *out, const char *key);
ncclResult_t ncclParamGetI8(ncclParamHandle_t h, int8_t *out);
ncclResult_t ncclParamGetI16(ncclParamHandle_t h, int16_t *out);
ncclResult_t ncclParamGetI32(ncclParamHandle_t h, int32_t *out);
ncclResult_t ncclParamGetI64(ncclParamHandle_t h, int64_t *out);
ncclResult_t ncclParamGetU8(ncclParamHandle_t h, uint8_t *out);
ncclResult_t ncclParamGetU16(ncclParamHandle_t h, uint16_t *out);
ncclResult_t ncclParamGetU32(ncclParamHandle_t h, uint32_t *out);
ncclResult_t ncclParamGetU64(ncclParamHandle_t h, uint64_t *out);
ncclResult_t ncclParamGetStr(ncclParamHandle_t h, const char **out);
ncclResult_t ncclParamGet(ncclParamHandle_t h, void *out, int maxLen, int *len);
ncclResult_t ncclParamGetParameter(const char *key, const char **value, int *valueLen);

/* ncclSuccess with an empty table, static storage. */
ncclResult_t ncclParamGetAllParameterKeys(const char ***table, int *tableLen);

/* Logs one line that says so, at level info. */
void ncclParamDumpAll(void);

/* ---- The second name of every function: a profiler that interposes ncclX() reaches the library by pncclX()
 * ---- */

ncclResult_t pncclGetVersion(int *version);
const char *pncclGetErrorString(ncclResult_t result);
const char *pncclGetLastError(ncclComm_t comm);
void pncclResetDebugInit(void);
ncclResult_t pncclGetUniqueId(ncclUniqueId *uniqueId);
ncclResult_t pncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank);
ncclResult_t pncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank,
                                     ncclConfig_t *config);
ncclResult_t pncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int myrank, int nId,
                                       ncclUniqueId *commIds, ncclConfig_t *config);
ncclResult_t pncclCommInitAll(ncclComm_t *comm, int ndev, const int *devlist);
ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config);
ncclResult_t pncclCommShrink(ncclComm_t comm, int *excludeRanksList, int excludeRanksCount,
                             ncclComm_t *newcomm, ncclConfig_t *config, int shrinkFlags);
ncclResult_t pncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *uniqueId);
ncclResult_t pncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId *uniqueId, int rank,
                           ncclComm_t *newcomm, ncclConfig_t *config);
ncclResult_t pncclCommFinalize(ncclComm_t comm);
ncclResult_t pncclCommDestroy(ncclComm_t comm);
ncclResult_t pncclCommAbort(ncclComm_t comm);
ncclResult_t pncclCommRevoke(ncclComm_t comm, int revokeFlags);
ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError);
ncclResult_t pncclCommCount(const ncclComm_t comm, int *count);
ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int *device);
ncclResult_t pncclCommUserRank(const ncclComm_t comm, int *rank);
ncclResult_t pncclMemAlloc(void **ptr, size_t size);
ncclResult_t pncclMemFree(void *ptr);
ncclResult_t pncclCommRegister(const ncclComm_t comm, void *buff, size_t size, void **handle);
ncclResult_t pncclCommDeregister(const ncclComm_t comm, void *handle);
ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win,
                                     int winFlags);
ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win);
ncclResult_t pncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void **outUserPtr);
ncclResult_t pncclCommSuspend(ncclComm_t comm, int flags);
ncclResult_t pncclCommResume(ncclComm_t comm);
ncclResult_t pncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value);
ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
                                       ncclScalarResidence_t residence, ncclComm_t comm);
ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);
ncclResult_t pncclReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                         ncclRedOp_t op, int root, ncclComm_t comm, hetcclStream_t stream);
ncclResult_t pncclBcast(void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                        hetcclStream_t stream);
ncclResult_t pncclBroadcast(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                            int root, ncclComm_t comm, hetcclStream_t stream);
ncclResult_t pncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                            ncclRedOp_t op, ncclComm_t comm, hetcclStream_t stream);
ncclResult_t pncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
                                ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                hetcclStream_t stream);
ncclResult_t pncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype,
                            ncclComm_t comm, hetcclStream_t stream);
ncclResult_t pncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                           ncclComm_t comm, hetcclStream_t stream);
ncclResult_t pncclGather(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                         int root, ncclComm_t comm, hetcclStream_t stream);
ncclResult_t pncclScatter(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                          int root, ncclComm_t comm, hetcclStream_t stream);
ncclResult_t pncclAllReduceConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                  ncclRedOp_t op, ncclComm_t comm, hetcclStream_t stream,
                                  const ncclCollConfig_t *config);
ncclResult_t pncclBroadcastConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                  int root, ncclComm_t comm, hetcclStream_t stream,
                                  const ncclCollConfig_t *config);
ncclResult_t pncclReduceConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                               ncclRedOp_t op, int root, ncclComm_t comm, hetcclStream_t stream,
                               const ncclCollConfig_t *config);
ncclResult_t pncclAllGatherConfig(const void *sendbuff, void *recvbuff, size_t sendcount,
                                  ncclDataType_t datatype, ncclComm_t comm, hetcclStream_t stream,
                                  const ncclCollConfig_t *config);
ncclResult_t pncclReduceScatterConfig(const void *sendbuff, void *recvbuff, size_t recvcount,
                                      ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                      hetcclStream_t stream, const ncclCollConfig_t *config);
ncclResult_t pncclAlltoAllConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                 ncclComm_t comm, hetcclStream_t stream, const ncclCollConfig_t *config);
ncclResult_t pncclGatherConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                               int root, ncclComm_t comm, hetcclStream_t stream,
                               const ncclCollConfig_t *config);
ncclResult_t pncclScatterConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                int root, ncclComm_t comm, hetcclStream_t stream,
                                const ncclCollConfig_t *config);
ncclResult_t pncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                       hetcclStream_t stream);
ncclResult_t pncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                       hetcclStream_t stream);
ncclResult_t pncclPutSignal(const void *localbuff, size_t count, ncclDataType_t datatype, int peer,
                            ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
                            unsigned int flags, ncclComm_t comm, hetcclStream_t stream);
ncclResult_t pncclSignal(int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                         hetcclStream_t stream);
ncclResult_t pncclWaitSignal(int nDesc, ncclWaitSignalDesc_t *signalDescs, ncclComm_t comm,
                             hetcclStream_t stream);
ncclResult_t pncclGroupStart(void);
ncclResult_t pncclGroupEnd(void);
ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t *simInfo);
ncclResult_t pncclParamBind(ncclParamHandle_t *out, const char *key);
ncclResult_t pncclParamGetI8(ncclParamHandle_t h, int8_t *out);
ncclResult_t pncclParamGetI16(ncclParamHandle_t h, int16_t *out);
ncclResult_t pncclParamGetI32(ncclParamHandle_t h, int32_t *out);
ncclResult_t pncclParamGetI64(ncclParamHandle_t h, int64_t *out);
ncclResult_t pncclParamGetU8(ncclParamHandle_t h, uint8_t *out);
ncclResult_t pncclParamGetU16(ncclParamHandle_t h, uint16_t *out);
ncclResult_t pncclParamGetU32(ncclParamHandle_t h, uint32_t *out);
ncclResult_t pncclParamGetU64(ncclParamHandle_t h, uint64_t *out);
ncclResult_t pncclParamGetStr(ncclParamHandle_t h, const char **out);
ncclResult_t pncclParamGet(ncclParamHandle_t h, void *out, int maxLen, int *len);
ncclResult_t pncclParamGetParameter(const char *key, const char **value, int *valueLen);
ncclResult_t pncclParamGetAllParameterKeys(const char ***table, int *tableLen);
void pncclParamDumpAll(void);

#ifdef __cplusplus
}
#endif

#endif
