/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A program compiled with somebody else's <nccl.h> (NVIDIA's where it is installed) and linked to our
 * library. One rank, so that it needs nobody: version, texts, a communicator with a config of that header, a
 * collective, refusals.
 */
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect(int is_good, const char *what)
{
    if (is_good)
        return;
    printf("failed: %s (last error: %s)\n", what, ncclGetLastError(NULL));
    exit(1);
}

static void check_library(void)
{
    int version = 0;

    expect(ncclGetVersion(&version) == ncclSuccess && version == 23007, "version");
    expect(strlen(ncclGetErrorString(ncclInvalidUsage)) > 5, "text of a result");
    expect(ncclCommDestroy(NULL) == ncclSuccess, "destroying nothing");
}

static void check_config(void)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    ncclComm_t comm = NULL;

    expect(ncclGetUniqueId(&id) == ncclSuccess, "unique id");
    config.blocking = 5;
    expect(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclInvalidArgument && comm == NULL,
           "bad config");
    expect(strstr(ncclGetLastError(NULL), "blocking is 5") != NULL, "text of the bad config");
    config.blocking = 1;
    config.commName = "abi";
    expect(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclSuccess, "init");
    expect(ncclCommFinalize(comm) == ncclSuccess, "finalize");
    expect(ncclCommDestroy(comm) == ncclSuccess, "destroy");
}

static void check_collectives(void)
{
    float values[3] = {1, 2, 3};
    float factor = 2;
    float sums[3] = {0, 0, 0};
    int count = 0;
    ncclRedOp_t twice;
    ncclUniqueId id;
    ncclComm_t comm = NULL;

    expect(ncclGetUniqueId(&id) == ncclSuccess, "unique id");
    expect(ncclCommInitRank(&comm, 1, id, 0) == ncclSuccess, "init");
    expect(ncclCommCount(comm, &count) == ncclSuccess && count == 1, "count");
    expect(ncclAllReduce(values, sums, 3, ncclFloat, ncclSum, comm, NULL) == ncclSuccess && sums[2] == 3,
           "sum");
    expect(ncclRedOpCreatePreMulSum(&twice, &factor, ncclFloat, ncclScalarHostImmediate, comm) == ncclSuccess,
           "operator");
    expect(ncclGroupStart() == ncclSuccess, "group");
    expect(pncclAllReduce(values, sums, 3, ncclFloat, twice, comm, NULL) == ncclSuccess, "twice");
    expect(ncclRedOpDestroy(twice, comm) == ncclSuccess, "operator's end");
    expect(ncclGroupEnd() == ncclSuccess && sums[2] == 6, "twice the sum");
    expect(ncclBroadcast(values, sums, 3, ncclFloat, 1, comm, NULL) == ncclInvalidArgument, "root");
    expect(ncclCommDestroy(comm) == ncclSuccess, "destroy");
}

int main(void)
{
    check_library();
    check_config();
    check_collectives();
    return 0;
}
