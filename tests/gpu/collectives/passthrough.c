/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a call costs through this library when a communicator is NCCL's own, against NCCL directly:
 *
 *   passthrough NCCL       NCCL: the vendor's libnccl.so.2; 10^6 calls each way on communicators of one rank
 *
 * Both are measured in turn, in blocks, so that clocks and temperature hit both; medians over the blocks.
 * Fails when a call takes more than 50 ns or more than 1 % longer, or doesn't go to NCCL.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl.h>

#include <hetccl/hetccl.h>

#include "team.h"

enum { N_BLOCKS = 200, N_CALLS = 5000, N_WAIT = 1000, MAX_ADDED_NS = 50 };

struct nccl {
    const char *name;
    ncclResult_t (*get_unique_id)(ncclUniqueId *id);
    ncclResult_t (*init_rank)(ncclComm_t *comm, int n_ranks, ncclUniqueId id, int rank, ncclConfig_t *config);
    ncclResult_t (*all_reduce)(const void *send, void *recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
    ncclResult_t (*destroy)(ncclComm_t comm);
    ncclComm_t comm;
    double samples[N_BLOCKS];
};

static void check(const struct nccl *nccl, ncclResult_t result, const char *call)
{
    if (result == ncclSuccess)
        return;
    (void)fprintf(stderr, "%s: %s gave error %d\n", nccl->name, call, (int)result);
    exit(1);
}

static void *find(void *library, const char *name)
{
    void *symbol = dlsym(library, name);

    if (symbol != NULL)
        return symbol;
    (void)fprintf(stderr, "%s\n", dlerror());
    exit(1);
}

static void load(struct nccl *nccl, const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);

    if (library == NULL) {
        (void)fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    nccl->name = "NCCL";
    *(void **)&nccl->get_unique_id = find(library, "ncclGetUniqueId");
    *(void **)&nccl->init_rank = find(library, "ncclCommInitRankConfig");
    *(void **)&nccl->all_reduce = find(library, "ncclAllReduce");
    *(void **)&nccl->destroy = find(library, "ncclCommDestroy");
}

static void join(struct nccl *nccl)
{
    ncclUniqueId id;

    check(nccl, nccl->get_unique_id(&id), "ncclGetUniqueId");
    check(nccl, nccl->init_rank(&nccl->comm, 1, id, 0, NULL), "ncclCommInitRankConfig");
}

/* Nanoseconds a call, its work on the GPU (there is hardly any) waited for outside of the clock. */
static double measure(const struct nccl *nccl, struct cuda_memory *cuda, float *memory)
{
    void *stream = cuda_memory_stream(cuda);
    double us = 0;

    for (int i = 0; i < N_CALLS; i += N_WAIT) {
        double start = team_now_us();

        for (int k = 0; k < N_WAIT; k++)
            check(nccl, nccl->all_reduce(memory, memory, 256, ncclFloat, ncclSum, nccl->comm, stream),
                  "ncclAllReduce");
        us += team_now_us() - start;
        cuda_memory_wait(cuda);
    }
    return us * 1e3 / N_CALLS;
}

/* The communicator is one island of NCCL's. */
static bool is_nccls(const struct nccl *nccl)
{
    hetcclCommInfo_t info = {.size = sizeof(info)};

    check(nccl, hetcclCommInfo(nccl->comm, &info), "hetcclCommInfo");
    printf("# device %s, engine %s, %d islands\n", info.device, info.engine, info.nIslands);
    return info.nIslands == 1 && strcmp(info.engine, "ccl") == 0;
}

int main(int argc, char **argv)
{
    struct nccl direct = {0};
    struct nccl through = {
        "HetCCL", ncclGetUniqueId, ncclCommInitRankConfig, ncclAllReduce, ncclCommDestroy, NULL, {0}};
    struct cuda_memory *cuda;
    double direct_ns, through_ns, added_ns;
    float *memory;
    bool is_good;

    if (argc != 2) {
        (void)fprintf(stderr, "usage: passthrough path-of-NCCL\n");
        return 2;
    }
    load(&direct, argv[1]);
    cuda = cuda_memory_open(0);
    memory = cuda_memory_alloc(cuda, 4096);
    join(&direct);
    join(&through);
    for (int block = -1; block < N_BLOCKS; block++) {
        double a = measure(&direct, cuda, memory);
        double b = measure(&through, cuda, memory);

        /* The first is for warming up. */
        if (block >= 0)
            direct.samples[block] = a, through.samples[block] = b;
    }
    direct_ns = team_median(direct.samples, N_BLOCKS);
    through_ns = team_median(through.samples, N_BLOCKS);
    added_ns = through_ns - direct_ns;
    is_good = added_ns <= MAX_ADDED_NS && added_ns <= direct_ns / 100 && is_nccls(&through);
    printf("%d calls each: NCCL %.1f ns, HetCCL %.1f ns a call: %+.1f ns, %+.2f %%\n", N_BLOCKS * N_CALLS,
           direct_ns, through_ns, added_ns, added_ns / direct_ns * 100);
    check(&direct, direct.destroy(direct.comm), "ncclCommDestroy");
    check(&through, through.destroy(through.comm), "ncclCommDestroy");
    printf("%d passed, %d failed\n", is_good, !is_good);
    return is_good ? 0 : 1;
}
