/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-reduce in CUDA memory, one process a rank. Ranks may share a GPU, which NCCL alone refuses.
 *
 *   cuda_allreduce [ranks [MiB]]                             2 ranks, 16 MiB
 *   HETCCL_ISLAND_SPLIT=2 cuda_allreduce 4                   as two islands of 2 ranks
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <nccl.h>

#include "cuda_memory.h"

enum { MAX_RANKS = 64, N_CALLS = 10 };

/* Memory that the ranks share: how rank 0 tells the others the unique id. */
struct board {
    atomic_int is_id_ready;
    ncclUniqueId id;
};

static void check(int rank, ncclResult_t result, const char *call)
{
    if (result == ncclSuccess)
        return;
    (void)fprintf(stderr, "rank %d: %s: %s: %s\n", rank, call, ncclGetErrorString(result),
                  ncclGetLastError(NULL));
    exit(1);
}

static ncclComm_t join(struct board *board, int rank, int n_ranks)
{
    ncclComm_t comm;

    if (rank == 0) {
        check(rank, ncclGetUniqueId(&board->id), "ncclGetUniqueId");
        atomic_store(&board->is_id_ready, 1);
    }
    while (atomic_load(&board->is_id_ready) == 0)
        (void)usleep(1000);
    check(rank, ncclCommInitRank(&comm, n_ranks, board->id, rank), "ncclCommInitRank");
    return comm;
}

/* Small integers: their sums are exact in any order. */
static float input(int rank, size_t i)
{
    return (float)((int)(i % 1013) - 500 + rank);
}

static size_t count_wrong(const float *got, size_t count, int n_ranks)
{
    size_t n_wrong = 0;

    for (size_t i = 0; i < count; i++)
        n_wrong += got[i] != (float)n_ranks * input(0, i) + (float)(n_ranks * (n_ranks - 1) / 2);
    return n_wrong;
}

static double now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Everything one rank does. Returns the number of wrong elements. */
static size_t run_rank(struct board *board, int rank, int n_ranks, size_t count)
{
    struct cuda_memory *cuda = cuda_memory_open(rank);
    void *stream = cuda_memory_stream(cuda);
    float *host = malloc(count * sizeof(*host));
    float *send = cuda_memory_alloc(cuda, count * sizeof(*send));
    float *recv = cuda_memory_alloc(cuda, count * sizeof(*recv));
    ncclComm_t comm = join(board, rank, n_ranks);
    size_t n_wrong;
    double start = 0;

    if (host == NULL)
        abort();
    for (size_t i = 0; i < count; i++)
        host[i] = input(rank, i);
    cuda_memory_copy(cuda, send, host, count * sizeof(*host));
    /* The first call sets up what the others use; a call returns before the GPU has done it. */
    for (int call = 0; call <= N_CALLS; call++) {
        check(rank, ncclAllReduce(send, recv, count, ncclFloat, ncclSum, comm, stream), "ncclAllReduce");
        if (call == 0)
            cuda_memory_wait(cuda);
        if (call == 0)
            start = now_s();
    }
    cuda_memory_wait(cuda);
    if (rank == 0)
        printf("%d ranks, %zu floats each: %.1f us a call\n", n_ranks, count,
               (now_s() - start) / N_CALLS * 1e6);
    cuda_memory_copy(cuda, host, recv, count * sizeof(*host));
    cuda_memory_wait(cuda);
    n_wrong = count_wrong(host, count, n_ranks);
    check(rank, ncclCommDestroy(comm), "ncclCommDestroy");
    cuda_memory_free(cuda, send);
    cuda_memory_free(cuda, recv);
    free(host);
    printf("rank %d: %zu wrong\n", rank, n_wrong);
    return n_wrong;
}

/* True when all ranks ended well; with the first that didn't, the others are ended too. */
static int wait_for_all(const pid_t *pids, int n_ranks)
{
    int is_good = 1;
    int status;

    while (wait(&status) > 0) {
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            continue;
        for (int rank = 0; rank < n_ranks && is_good; rank++)
            (void)kill(pids[rank], SIGTERM);
        is_good = 0;
    }
    printf("%s\n", is_good ? "all right" : "WRONG");
    return is_good;
}

int main(int argc, char **argv)
{
    int n_ranks = argc > 1 ? atoi(argv[1]) : 2;
    size_t n_mib = argc > 2 ? (size_t)atoi(argv[2]) : 16;
    struct board *board =
        mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[MAX_RANKS];

    if (n_ranks < 1 || n_ranks > MAX_RANKS || n_mib < 1 || n_mib > 4096 || board == MAP_FAILED) {
        (void)fprintf(stderr, "usage: cuda_allreduce [ranks [MiB]]\n");
        return 2;
    }
    /* Before any of them has touched CUDA or the library: neither survives a fork. */
    for (int rank = 0; rank < n_ranks; rank++) {
        pids[rank] = fork();
        if (pids[rank] < 0)
            return 1;
        if (pids[rank] == 0)
            exit(run_rank(board, rank, n_ranks, n_mib * (1 << 20) / sizeof(float)) == 0 ? 0 : 1);
    }
    return wait_for_all(pids, n_ranks) ? 0 : 1;
}
