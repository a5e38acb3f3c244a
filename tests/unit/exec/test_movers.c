/* SPDX-License-Identifier: Apache-2.0 */

/*
 * test_movers SCENARIO N_RANKS MOVERS: ranks as processes, rank r with entry r mod length of a list of movers
 * ("copy,kernel"). The runner sets the fake driver in the environment.
 */

#include "movers.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/config.h"

enum { COUNT = 400009, COUNT_OF_KERNELS = 40009 }; /* the fake runs kernels slowly */

void movers_check(struct movers_rank *r, bool is_good, const char *what, int line)
{
    if (is_good || r->n_failures++ > 5)
        return;
    fprintf(stderr, "rank %d line %d: %s does not hold (last error: %s)\n", r->rank, line, what,
            ncclGetLastError(r->comm));
}

double movers_now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void sleep_ms(long ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    (void)nanosleep(&time, NULL);
}

void *movers_memory(struct movers_rank *r, size_t bytes)
{
    void *memory = NULL;

    MOVERS_CHECK(r, ncclMemAlloc(&memory, bytes) == ncclSuccess);
    return memory;
}

bool movers_wait(struct movers_rank *r, double seconds)
{
    double until_s = movers_now_s() + seconds;
    const struct timespec a_little = {.tv_nsec = 50000};
    unsigned code;

    while ((code = r->driver.cuStreamQuery(r->stream)) == HETCCL_CUDA_ERROR_NOT_READY &&
           movers_now_s() < until_s)
        (void)nanosleep(&a_little, NULL);
    return code == 0;
}

/* ---- graphs ---- */

struct exchange {
    float *in, *sum, *all;
};

static void make_calls(struct movers_rank *r, const struct exchange *e)
{
    MOVERS_CHECK(r, ncclAllReduce(e->in, e->sum, r->count, ncclFloat, ncclSum, r->comm, r->stream) ==
                        ncclSuccess);
    MOVERS_CHECK(r, ncclAllReduce(e->sum, e->sum, r->count, ncclFloat, ncclMax, r->comm, r->stream) ==
                        ncclSuccess);
    MOVERS_CHECK(r, ncclAllGather(e->in, e->all, r->count, ncclFloat, r->comm, r->stream) == ncclSuccess);
    MOVERS_CHECK(r, ncclAllReduce(e->sum, e->sum, 3, ncclFloat, ncclMin, r->comm, r->stream) == ncclSuccess);
}

static void check_calls(struct movers_rank *r, const struct exchange *e, float round)
{
    float sum = 0;

    for (int rank = 0; rank < r->n_ranks; rank++)
        sum += round + (float)rank;
    for (size_t i = 0; i < r->count && r->n_failures < 5; i++)
        MOVERS_CHECK(r, e->sum[i] == sum + (float)r->n_ranks * (float)(i % 11));
    for (size_t i = 0; i < r->count * (size_t)r->n_ranks && r->n_failures < 5; i++)
        MOVERS_CHECK(r, e->all[i] == round + (float)(i / r->count) + (float)(i % r->count % 11));
}

static void fill(struct movers_rank *r, const struct exchange *e, float round)
{
    for (size_t i = 0; i < r->count; i++)
        e->in[i] = round + (float)r->rank + (float)(i % 11);
}

/* Captured before anything ran, launched with other inputs, and mixed with calls outside of the graph. */
static void scenario_graph(struct movers_rank *r)
{
    struct exchange e = {movers_memory(r, r->count * sizeof(float)),
                         movers_memory(r, r->count * sizeof(float)),
                         movers_memory(r, r->count * sizeof(float) * (size_t)r->n_ranks)};
    struct CUgraph_st *graph = NULL;
    struct CUgraphExec_st *exec = NULL;

    MOVERS_CHECK(r, r->driver.cuStreamBeginCapture_v2(r->stream, 0) == 0);
    make_calls(r, &e);
    MOVERS_CHECK(r, r->driver.cuStreamEndCapture(r->stream, &graph) == 0);
    MOVERS_CHECK(r, r->driver.cuGraphInstantiateWithFlags(&exec, graph, 0) == 0);
    for (int round = 0; round < 5 && r->n_failures == 0; round++) {
        fill(r, &e, (float)round);
        MOVERS_CHECK(r, r->driver.cuGraphLaunch(exec, r->stream) == 0);
        MOVERS_CHECK(r, movers_wait(r, 20));
        check_calls(r, &e, (float)round);
        if (round % 2 == 0)
            continue;
        fill(r, &e, 100);
        make_calls(r, &e);
        MOVERS_CHECK(r, movers_wait(r, 20));
        check_calls(r, &e, 100);
    }
    MOVERS_CHECK(r, r->driver.cuGraphExecDestroy(exec) == 0);
    MOVERS_CHECK(r, r->driver.cuGraphDestroy(graph) == 0);
}

/* ---- ends ---- */

/* Calls that the last rank doesn't make; the first ones run, so that everything is connected. */
static void make_stuck_calls(struct movers_rank *r, bool is_captured)
{
    float *data = movers_memory(r, r->count * sizeof(float));
    struct CUgraph_st *graph = NULL;
    struct CUgraphExec_st *exec = NULL;

    MOVERS_CHECK(r,
                 ncclAllReduce(data, data, r->count, ncclFloat, ncclSum, r->comm, r->stream) == ncclSuccess);
    MOVERS_CHECK(r, movers_wait(r, 20));
    if (r->rank == r->n_ranks - 1)
        return;
    if (is_captured)
        MOVERS_CHECK(r, r->driver.cuStreamBeginCapture_v2(r->stream, 0) == 0);
    for (int i = 0; i < 3; i++)
        MOVERS_CHECK(r, ncclAllReduce(data, data, r->count, ncclFloat, ncclSum, r->comm, r->stream) ==
                            ncclSuccess);
    MOVERS_CHECK(r, ncclAllReduce(data, data, 5, ncclFloat, ncclSum, r->comm, r->stream) == ncclSuccess);
    if (is_captured) {
        MOVERS_CHECK(r, r->driver.cuStreamEndCapture(r->stream, &graph) == 0);
        MOVERS_CHECK(r, r->driver.cuGraphInstantiateWithFlags(&exec, graph, 0) == 0);
        MOVERS_CHECK(r, r->driver.cuGraphLaunch(exec, r->stream) == 0);
    }
}

/* All ranks have come here. */
static void meet(struct movers_rank *r)
{
    int last = r->n_ranks - 1;
    char byte = 0;

    if (r->rank < last) {
        MOVERS_CHECK(r, write(r->pipes[last][1], &byte, 1) == 1);
        MOVERS_CHECK(r, read(r->pipes[r->rank][0], &byte, 1) == 1);
        return;
    }
    for (int i = 0; i < last; i++)
        MOVERS_CHECK(r, read(r->pipes[last][0], &byte, 1) == 1);
    for (int i = 0; i < last; i++)
        MOVERS_CHECK(r, write(r->pipes[i][1], &byte, 1) == 1);
}

static void see_that_it_is_stuck(struct movers_rank *r)
{
    if (r->rank < r->n_ranks - 1) {
        sleep_ms(100);
        MOVERS_CHECK(r, r->driver.cuStreamQuery(r->stream) == HETCCL_CUDA_ERROR_NOT_READY);
    }
    meet(r);
}

static void abort_and_wait(struct movers_rank *r)
{
    double start_s = movers_now_s();

    MOVERS_CHECK(r, ncclCommAbort(r->comm) == ncclSuccess);
    r->comm = NULL;
    MOVERS_CHECK(r, movers_now_s() - start_s < 2.0);
    MOVERS_CHECK(r, movers_wait(r, 2));
}

static void scenario_abort(struct movers_rank *r)
{
    make_stuck_calls(r, false);
    see_that_it_is_stuck(r);
    abort_and_wait(r);
}

static void scenario_abort_graph(struct movers_rank *r)
{
    make_stuck_calls(r, true);
    see_that_it_is_stuck(r);
    abort_and_wait(r);
}

/* The streams of the others come free by themselves, and their communicators say why. */
static void scenario_killed(struct movers_rank *r)
{
    ncclResult_t result = ncclSuccess;
    double until_s;

    make_stuck_calls(r, false);
    if (r->rank == r->n_ranks - 1) {
        meet(r);
        (void)raise(SIGKILL);
    }
    meet(r);
    MOVERS_CHECK(r, movers_wait(r, 5));
    until_s = movers_now_s() + 2;
    while (ncclCommGetAsyncError(r->comm, &result) == ncclSuccess &&
           (result == ncclSuccess || result == ncclInProgress) && movers_now_s() < until_s)
        sleep_ms(1);
    MOVERS_CHECK(r, result == ncclRemoteError);
    abort_and_wait(r);
}

/* Unlike calls end in words on all ranks, long before any deadline. */
static void scenario_mismatch(struct movers_rank *r)
{
    float *data = movers_memory(r, r->count * sizeof(float));
    double until_s = movers_now_s() + 8;
    ncclResult_t result = ncclSuccess;

    if (r->rank == 0)
        MOVERS_CHECK(r, ncclAllReduce(data, data, r->count, ncclFloat, ncclSum, r->comm, r->stream) ==
                            ncclSuccess);
    else
        MOVERS_CHECK(r, ncclAllReduce(data, data, r->count, ncclFloat, ncclMax, r->comm, r->stream) ==
                            ncclSuccess);
    while (ncclCommGetAsyncError(r->comm, &result) == ncclSuccess &&
           (result == ncclSuccess || result == ncclInProgress) && movers_now_s() < until_s)
        sleep_ms(1);
    MOVERS_CHECK(r, result == ncclInvalidUsage || result == ncclRemoteError);
    MOVERS_CHECK(r, strstr(ncclGetLastError(r->comm), "call") != NULL);
    MOVERS_CHECK(r, movers_wait(r, 1));
    abort_and_wait(r);
}

/* ---- the runner ---- */

const struct movers_scenario movers_scenarios[] = {
    {"values", movers_values, 0},
    {"graph", scenario_graph, 0},
    {"abort", scenario_abort, 0},
    {"abort-graph", scenario_abort_graph, 0},
    {"killed", scenario_killed, 1},
    {"mismatch", scenario_mismatch, 0},
    {NULL, NULL, 0},
};

static const struct movers_scenario *find(const char *name)
{
    const struct movers_scenario *scenario = movers_scenarios;

    while (scenario->name != NULL && strcmp(scenario->name, name) != 0)
        scenario++;
    return scenario;
}

static void start(struct movers_rank *r)
{
    struct CUctx_st *context = NULL;
    ncclUniqueId id;

    MOVERS_CHECK(r, hetccl_cuda_api_load(getenv("HETCCL_CUDA_LIB"), &r->driver) == HETCCL_OK);
    MOVERS_CHECK(r, r->driver.cuInit(0) == 0);
    MOVERS_CHECK(r, r->driver.cuDevicePrimaryCtxRetain(&context, 0) == 0);
    MOVERS_CHECK(r, r->driver.cuCtxPushCurrent_v2(context) == 0);
    MOVERS_CHECK(r, r->driver.cuStreamCreateWithPriority(&r->stream, 1, 0) == 0);
    if (r->rank == 0) {
        MOVERS_CHECK(r, ncclGetUniqueId(&id) == ncclSuccess);
        for (int i = 1; i < r->n_ranks; i++)
            MOVERS_CHECK(r, write(r->pipes[i][1], &id, sizeof(id)) == (ssize_t)sizeof(id));
    } else {
        MOVERS_CHECK(r, read(r->pipes[r->rank][0], &id, sizeof(id)) == (ssize_t)sizeof(id));
    }
    if (r->n_failures == 0)
        MOVERS_CHECK(r, ncclCommInitRank(&r->comm, r->n_ranks, id, r->rank) == ncclSuccess);
}

static int run_rank(int rank, int n_ranks, int (*pipes)[2], const struct movers_scenario *scenario,
                    const char *movers)
{
    struct movers_rank r = {.rank = rank,
                            .n_ranks = n_ranks,
                            .pipes = pipes,
                            .count = strstr(movers, "kernel") != NULL ? COUNT_OF_KERNELS : COUNT};
    char mover[HETCCL_CONFIG_TEXT_BYTES];

    hetccl_config_list_entry(movers, (size_t)rank, mover);
    (void)setenv("HETCCL_MOVER", mover, 1);
    start(&r);
    if (r.n_failures == 0)
        scenario->run(&r);
    if (r.comm != NULL)
        MOVERS_CHECK(&r, ncclCommDestroy(r.comm) == ncclSuccess);
    return r.n_failures > 0;
}

int main(int argc, char **argv)
{
    const struct movers_scenario *scenario = find(argc == 4 ? argv[1] : "");
    int n_ranks = argc == 4 ? atoi(argv[2]) : 0, n_lost = 0, n_failed = 0, status;
    int pipes[MOVERS_MAX_RANKS][2];

    if (scenario->name == NULL || n_ranks < 2 || n_ranks > MOVERS_MAX_RANKS) {
        fprintf(stderr, "usage: test_movers SCENARIO N_RANKS MOVERS\n");
        return 2;
    }
    for (int rank = 0; rank < n_ranks; rank++)
        if (pipe(pipes[rank]) != 0)
            return 2;
    for (int rank = 0; rank < n_ranks; rank++) {
        pid_t child = fork();

        if (child < 0)
            return 2;
        if (child == 0)
            exit(run_rank(rank, n_ranks, pipes, scenario, argv[3]));
    }
    while (wait(&status) > 0) {
        n_lost += WIFSIGNALED(status);
        n_failed += WIFEXITED(status) && WEXITSTATUS(status) != 0;
    }
    if (n_lost != scenario->n_lost)
        fprintf(stderr, "%d ranks ended by a signal, not %d\n", n_lost, scenario->n_lost);
    return n_failed > 0 || n_lost != scenario->n_lost;
}
