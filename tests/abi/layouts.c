/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Prints sizes, offsets and numbers of whichever <nccl.h> is on the include path, one "name value" a line.
 * Built once with NVIDIA's header and once with ours; compare_layouts.py holds them against each other.
 */
#include <nccl.h>
#include <stddef.h>
#include <stdio.h>

/* A line each; what a release lacks isn't asked of it. */
#define SHOW(what)            show(#what, (long long)(what))
#define OFFSET(type, member)  show(#type "." #member, (long long)offsetof(type, member))
#define SIGNATURE(type, name) (void)(type)(name)

static void show(const char *name, long long value)
{
    printf("%s %lld\n", name, value);
}

static void show_results(void)
{
    SHOW(ncclSuccess);
    SHOW(ncclUnhandledCudaError);
    SHOW(ncclSystemError);
    SHOW(ncclInternalError);
    SHOW(ncclInvalidArgument);
    SHOW(ncclInvalidUsage);
    SHOW(ncclRemoteError);
    SHOW(ncclInProgress);
    SHOW(sizeof(ncclResult_t));
}

static void show_types(void)
{
    SHOW(ncclInt8);
    SHOW(ncclChar);
    SHOW(ncclUint8);
    SHOW(ncclInt32);
    SHOW(ncclInt);
    SHOW(ncclUint32);
    SHOW(ncclInt64);
    SHOW(ncclUint64);
    SHOW(ncclFloat16);
    SHOW(ncclHalf);
    SHOW(ncclFloat32);
    SHOW(ncclFloat);
    SHOW(ncclFloat64);
    SHOW(ncclDouble);
    SHOW(ncclBfloat16);
    SHOW(ncclFloat8e4m3);
    SHOW(ncclFloat8e5m2);
    SHOW(ncclNumTypes);
    SHOW(sizeof(ncclDataType_t));
}

static void show_operators(void)
{
    SHOW(ncclSum);
    SHOW(ncclProd);
    SHOW(ncclMax);
    SHOW(ncclMin);
    SHOW(ncclAvg);
    SHOW(ncclNumOps);
    SHOW(ncclMaxRedOp);
    SHOW(sizeof(ncclRedOp_t));
    SHOW(ncclScalarDevice);
    SHOW(ncclScalarHostImmediate);
    SHOW(sizeof(ncclScalarResidence_t));
}

static void show_macros(void)
{
    SHOW(NCCL_UNIQUE_ID_BYTES);
    SHOW(NCCL_CONFIG_UNDEF_INT);
    SHOW(NCCL_SPLIT_NOCOLOR);
    SHOW(NCCL_UNDEF_FLOAT);
    SHOW(NCCL_WIN_DEFAULT);
    SHOW(NCCL_WIN_COLL_SYMMETRIC);
    SHOW(NCCL_WIN_REQUIRED_ALIGNMENT);
    SHOW(NCCL_CTA_POLICY_DEFAULT);
    SHOW(NCCL_CTA_POLICY_EFFICIENCY);
    SHOW(NCCL_CTA_POLICY_ZERO);
    SHOW(NCCL_SHRINK_DEFAULT);
    SHOW(NCCL_SHRINK_ABORT);
    SHOW(NCCL_VERSION(2, 8, 4));
    SHOW(NCCL_VERSION(2, 30, 7));
    SHOW(NCCL_COMM_NULL == NULL);
    SHOW(NCCL_CONFIG_UNDEF_PTR == NULL);
}

static void show_structs(void)
{
    const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    const ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;

    SHOW(sizeof(ncclUniqueId));
    SHOW(sizeof(ncclComm_t));
    SHOW(sizeof(ncclWindow_t));
    SHOW(sizeof(ncclSimInfo_t));
    SHOW(info.size);
    SHOW(info.magic);
    SHOW(info.estimatedTime);
    OFFSET(ncclSimInfo_t, magic);
    OFFSET(ncclSimInfo_t, version);
    OFFSET(ncclSimInfo_t, estimatedTime);
    SHOW(config.size == sizeof(config));
    SHOW(config.magic);
    SHOW(config.version == NCCL_VERSION_CODE);
    SHOW(config.blocking);
    SHOW(config.commName == NULL);
    SHOW(config.nvlinkCentricSched);
    OFFSET(ncclConfig_t, magic);
    OFFSET(ncclConfig_t, version);
    OFFSET(ncclConfig_t, blocking);
    OFFSET(ncclConfig_t, cgaClusterSize);
    OFFSET(ncclConfig_t, minCTAs);
    OFFSET(ncclConfig_t, maxCTAs);
    OFFSET(ncclConfig_t, netName);
    OFFSET(ncclConfig_t, splitShare);
    OFFSET(ncclConfig_t, trafficClass);
    OFFSET(ncclConfig_t, commName);
    OFFSET(ncclConfig_t, collnetEnable);
    OFFSET(ncclConfig_t, CTAPolicy);
    OFFSET(ncclConfig_t, shrinkShare);
    OFFSET(ncclConfig_t, nvlsCTAs);
    OFFSET(ncclConfig_t, nChannelsPerNetPeer);
    OFFSET(ncclConfig_t, nvlinkCentricSched);
}

/* The compiler warns of a cast to an unlike function type, so each of these is a check of a prototype. */
static void check_signatures(void)
{
    typedef ncclResult_t reduction(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                                   cudaStream_t);
    typedef ncclResult_t rooted(const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
    typedef ncclResult_t plain(const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t);
    typedef ncclResult_t init(ncclComm_t *, int, ncclUniqueId, int);
    typedef ncclResult_t init_config(ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *);
    typedef ncclResult_t scalable(ncclComm_t *, int, int, int, ncclUniqueId *, ncclConfig_t *);
    typedef ncclResult_t split(ncclComm_t, int, int, ncclComm_t *, ncclConfig_t *);
    typedef ncclResult_t shrink(ncclComm_t, int *, int, ncclComm_t *, ncclConfig_t *, int);
    typedef ncclResult_t make_op(ncclRedOp_t *, void *, ncclDataType_t, ncclScalarResidence_t, ncclComm_t);
    typedef ncclResult_t window(ncclComm_t, void *, size_t, ncclWindow_t *, int);

    SIGNATURE(reduction *, ncclAllReduce);
    SIGNATURE(reduction *, pncclReduceScatter);
    SIGNATURE(rooted *, ncclBroadcast);
    SIGNATURE(rooted *, pncclGather);
    SIGNATURE(rooted *, ncclScatter);
    SIGNATURE(plain *, ncclAllGather);
    SIGNATURE(plain *, pncclAlltoAll);
    SIGNATURE(init *, ncclCommInitRank);
    SIGNATURE(init_config *, ncclCommInitRankConfig);
    SIGNATURE(scalable *, ncclCommInitRankScalable);
    SIGNATURE(split *, ncclCommSplit);
    SIGNATURE(shrink *, ncclCommShrink);
    SIGNATURE(make_op *, ncclRedOpCreatePreMulSum);
    SIGNATURE(window *, ncclCommWindowRegister);
}

int main(void)
{
    show_results();
    show_types();
    show_operators();
    show_macros();
    show_structs();
    check_signatures();
    return 0;
}
