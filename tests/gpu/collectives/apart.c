/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUs whose ranks share no memory (HETCCL_HOST_ID or HETCCL_LINK make them so), beyond single calls:
 *
 *   apart [--ranks N] MODE
 *
 *   large      messages of many times a ring's slots, several calls enqueued at once
 *   graph      replays of a captured graph, with calls in between
 *   kill       a rank dies: the others are told so, by name and in time
 *   mismatch   ranks make different calls
 *   idle       a communicator that has nothing to do takes no processor time
 */
#include <dlfcn.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "team.h"

enum { LIMIT_S = 100, COUNT = 150001, GRAPH_COUNT = 3001, N_REPLAYS = 6, DEATH_LIMIT_S = 10 };

/* ---- data: sums of whole numbers, exact in any order ---- */

static float input_of(int rank, size_t index, unsigned round)
{
    return (float)((index * 7 + (size_t)rank * 3 + round) % 101);
}

static float *host_memory(size_t count)
{
    float *memory = calloc(count, sizeof(*memory));

    if (memory == NULL)
        abort();
    return memory;
}

static void write_input(struct team *team, float *device, float *host, size_t count, unsigned round)
{
    for (size_t i = 0; i < count; i++)
        host[i] = input_of(team->rank, i, round);
    cuda_memory_copy(team->cuda, device, host, count * sizeof(*host));
    cuda_memory_wait(team->cuda);
}

static unsigned check_sum(struct team *team, const float *device, float *host, size_t count, unsigned round,
                          const char *what)
{
    cuda_memory_copy(team->cuda, host, device, count * sizeof(*host));
    cuda_memory_wait(team->cuda);
    for (size_t i = 0; i < count; i++) {
        float expected = 0;

        for (int rank = 0; rank < team->n_ranks; rank++)
            expected += input_of(rank, i, round);
        if (host[i] == expected)
            continue;
        printf("rank %d: %s, round %u: element %zu is %g and not %g\n", team->rank, what, round, i, host[i],
               expected);
        return 1;
    }
    return 0;
}

static unsigned check_of(struct team *team, const float *device, float *host, size_t count, int source,
                         unsigned round, const char *what)
{
    cuda_memory_copy(team->cuda, host, device, count * sizeof(*host));
    cuda_memory_wait(team->cuda);
    for (size_t i = 0; i < count; i++)
        if (host[i] != input_of(source, i, round)) {
            printf("rank %d: %s, round %u: element %zu is %g and not %g\n", team->rank, what, round, i,
                   host[i], input_of(source, i, round));
            return 1;
        }
    return 0;
}

static void free_all(struct team *team, float *const *buffers, size_t n_buffers)
{
    for (size_t i = 0; i < n_buffers; i++)
        team_free(team, buffers[i]);
}

/* ---- idleness ---- */

static double processor_ms(void)
{
    struct rusage usage;

    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

static unsigned check_idle(const struct team *team, double most_ms)
{
    enum { IDLE_MS = 1000 };
    double used_ms;

    (void)usleep(100000);
    used_ms = processor_ms();
    (void)usleep(IDLE_MS * 1000);
    used_ms = processor_ms() - used_ms;
    if (used_ms > most_ms)
        printf("rank %d: took %.1f ms of processor time in %d ms of idleness\n", team->rank, used_ms,
               IDLE_MS);
    return used_ms > most_ms;
}

/* ---- large ---- */

/* Seven calls are under way before anything is waited for. */
static void enqueue_all(struct team *team, float *in, float *sum, float *from_last, float *to_all,
                        float *ring)
{
    int n = team->n_ranks, next = (team->rank + 1) % n, previous = (team->rank + n - 1) % n;
    ncclComm_t comm = team->comm;

    team_check(team, ncclAllReduce(in, sum, COUNT, ncclFloat, ncclSum, comm, NULL), "ncclAllReduce");
    team_check(team, ncclBroadcast(in, from_last, COUNT, ncclFloat, n - 1, comm, NULL), "ncclBroadcast");
    team_check(team, ncclAllGather(in, to_all, COUNT, ncclFloat, comm, NULL), "ncclAllGather");
    team_check(team, ncclGroupStart(), "ncclGroupStart");
    team_check(team, ncclSend(in, COUNT, ncclFloat, next, comm, NULL), "ncclSend");
    team_check(team, ncclRecv(ring, COUNT, ncclFloat, previous, comm, NULL), "ncclRecv");
    team_check(team, ncclGroupEnd(), "ncclGroupEnd");
    team_check(team, ncclAllReduce(in, sum, 5, ncclFloat, ncclMax, comm, NULL), "ncclAllReduce");
    team_check(team, ncclAllReduce(in, sum, COUNT, ncclFloat, ncclSum, comm, NULL), "ncclAllReduce");
}

static unsigned run_large(struct team *team)
{
    size_t n = (size_t)team->n_ranks;
    size_t bytes = COUNT * sizeof(float);
    float *in = team_alloc(team, bytes), *sum = team_alloc(team, bytes);
    float *from_last = team_alloc(team, bytes), *ring = team_alloc(team, bytes);
    float *to_all = team_alloc(team, n * bytes), *host = host_memory(COUNT);
    int previous = (team->rank + team->n_ranks - 1) % team->n_ranks;
    unsigned n_wrong = 0;

    for (unsigned round = 0; round < 2; round++) {
        write_input(team, in, host, COUNT, round);
        enqueue_all(team, in, sum, from_last, to_all, ring);
        n_wrong += check_sum(team, sum, host, COUNT, round, "allreduce");
        n_wrong += check_of(team, from_last, host, COUNT, team->n_ranks - 1, round, "broadcast");
        n_wrong += check_of(team, ring, host, COUNT, previous, round, "send and receive");
        for (int rank = 0; rank < team->n_ranks; rank++)
            n_wrong += check_of(team, to_all + (size_t)rank * COUNT, host, COUNT, rank, round, "allgather");
    }
    free_all(team, (float *const[]){in, sum, from_last, ring, to_all}, 5);
    free(host);
    return n_wrong;
}

/* ---- graph ---- */

struct graph_calls {
    unsigned (*begin)(void *stream, int mode);
    unsigned (*end)(void *stream, void **graph);
    unsigned (*instantiate)(void **exec, void *graph, unsigned long long flags);
    unsigned (*launch)(void *exec, void *stream);
    unsigned (*stream_create)(void **stream, unsigned flags);
    unsigned (*stream_query)(void *stream);
};

static void *find(void *library, const char *name)
{
    void *function = dlsym(library, name);

    if (function == NULL) {
        (void)fprintf(stderr, "no %s in libcuda.so.1\n", name);
        exit(1);
    }
    return function;
}

static struct graph_calls find_graph_calls(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    struct graph_calls calls;

    if (library == NULL)
        exit(1);
    *(void **)&calls.begin = find(library, "cuStreamBeginCapture_v2");
    *(void **)&calls.end = find(library, "cuStreamEndCapture");
    *(void **)&calls.instantiate = find(library, "cuGraphInstantiateWithFlags");
    *(void **)&calls.launch = find(library, "cuGraphLaunch");
    *(void **)&calls.stream_create = find(library, "cuStreamCreate");
    *(void **)&calls.stream_query = find(library, "cuStreamQuery");
    return calls;
}

static void must(unsigned code, const char *call)
{
    if (code == 0)
        return;
    (void)fprintf(stderr, "%s gave %u\n", call, code);
    exit(1);
}

static void wait_for(const struct graph_calls *calls, void *stream)
{
    enum { NOT_READY = 600 };
    unsigned code;

    while ((code = calls->stream_query(stream)) == NOT_READY)
        (void)usleep(50);
    must(code, "cuStreamQuery");
}

/* in -> mid by allreduce, mid of the last rank -> out by broadcast: the second needs the first. */
static void *capture(struct team *team, const struct graph_calls *calls, void *stream, float *in, float *mid,
                     float *out)
{
    void *graph, *exec;

    must(calls->begin(stream, 2), "cuStreamBeginCapture");
    team_check(team, ncclAllReduce(in, mid, GRAPH_COUNT, ncclFloat, ncclSum, team->comm, stream),
               "ncclAllReduce");
    team_check(team, ncclBroadcast(mid, out, GRAPH_COUNT, ncclFloat, team->n_ranks - 1, team->comm, stream),
               "ncclBroadcast");
    must(calls->end(stream, &graph), "cuStreamEndCapture");
    must(calls->instantiate(&exec, graph, 0), "cuGraphInstantiate");
    return exec;
}

static unsigned run_graph(struct team *team)
{
    const struct graph_calls calls = find_graph_calls();
    size_t bytes = GRAPH_COUNT * sizeof(float);
    float *in = team_alloc(team, bytes), *mid = team_alloc(team, bytes);
    float *out = team_alloc(team, bytes), *host = host_memory(GRAPH_COUNT);
    unsigned n_wrong = 0;
    void *stream, *exec;

    must(calls.stream_create(&stream, 1), "cuStreamCreate");
    exec = capture(team, &calls, stream, in, mid, out);
    for (unsigned round = 0; round < N_REPLAYS; round++) {
        write_input(team, in, host, GRAPH_COUNT, round);
        /* Long enough for a thread that forwards to have gone to sleep, and different on each rank. */
        if (round % 3 == 1)
            (void)usleep(120000 + 30000 * (unsigned)team->rank);
        must(calls.launch(exec, stream), "cuGraphLaunch");
        wait_for(&calls, stream);
        n_wrong += check_sum(team, out, host, GRAPH_COUNT, round, "replay");
        if (round % 2 == 0)
            continue;
        team_check(team, ncclAllReduce(in, out, GRAPH_COUNT - 7, ncclFloat, ncclSum, team->comm, NULL),
                   "ncclAllReduce");
        n_wrong += check_sum(team, out, host, GRAPH_COUNT - 7, round, "call between replays");
    }
    /* A replay may come at any time, without a word to the library. */
    n_wrong += check_idle(team, 150);
    free_all(team, (float *const[]){in, mid, out}, 3);
    free(host);
    return n_wrong;
}

/* ---- kill and mismatch ---- */

/* Calls until one fails, or the communicator has: its state. */
static ncclResult_t call_until_failure(struct team *team, float *in, float *out, double limit_s)
{
    double start_us = team_now_us();
    ncclResult_t result = ncclSuccess;

    while (result == ncclSuccess && team_now_us() - start_us < limit_s * 1e6) {
        result = ncclAllReduce(in, out, COUNT, ncclFloat, ncclSum, team->comm, NULL);
        if (result == ncclSuccess)
            cuda_memory_wait(team->cuda);
        if (result == ncclSuccess)
            (void)ncclCommGetAsyncError(team->comm, &result);
        /* What went wrong is being found out. */
        while (result == ncclInProgress && team_now_us() - start_us < limit_s * 1e6)
            (void)ncclCommGetAsyncError(team->comm, &result);
    }
    return result;
}

static unsigned expect_failure(struct team *team, ncclResult_t result, ncclResult_t expected,
                               const char *text)
{
    const char *said = ncclGetLastError(team->comm);
    bool is_right = result == expected && strstr(said, text) != NULL;

    if (!is_right)
        printf("rank %d: result %d, \"%s\"; expected %d and \"%s\"\n", team->rank, (int)result, said,
               (int)expected, text);
    team_abort(team);
    return !is_right;
}

static unsigned run_kill(struct team *team)
{
    size_t bytes = COUNT * sizeof(float);
    float *in = team_alloc(team, bytes), *out = team_alloc(team, bytes);
    int victim = team->n_ranks - 1;
    char text[32];
    double start_us, took_s;
    ncclResult_t result;

    for (int i = 0; i < 3; i++) {
        team_check(team, ncclAllReduce(in, out, COUNT, ncclFloat, ncclSum, team->comm, NULL),
                   "ncclAllReduce");
        cuda_memory_wait(team->cuda);
    }
    team_barrier(team);
    if (team->rank == victim)
        team_die(team);
    start_us = team_now_us();
    result = call_until_failure(team, in, out, 2 * DEATH_LIMIT_S);
    took_s = (team_now_us() - start_us) / 1e6;
    if (took_s > DEATH_LIMIT_S)
        printf("rank %d: was told after %.1f s\n", team->rank, took_s);
    free_all(team, (float *const[]){in, out}, 2);
    (void)snprintf(text, sizeof(text), "rank %d", victim);
    return expect_failure(team, result, ncclRemoteError, text) + (took_s > DEATH_LIMIT_S);
}

/* The last rank reduces less than the others. */
static unsigned run_mismatch(struct team *team)
{
    size_t bytes = COUNT * sizeof(float);
    float *in = team_alloc(team, bytes), *out = team_alloc(team, bytes);
    size_t count = team->rank == team->n_ranks - 1 ? COUNT / 2 : COUNT;
    ncclResult_t result;

    /* A call may fail before another rank has joined. */
    team_barrier(team);
    result = ncclAllReduce(in, out, count, ncclFloat, ncclSum, team->comm, NULL);
    cuda_memory_wait(team->cuda);
    for (int i = 0; i < 100 && (result == ncclSuccess || result == ncclInProgress); i++) {
        team_check(team, ncclCommGetAsyncError(team->comm, &result), "ncclCommGetAsyncError");
        (void)usleep(100000);
    }
    free_all(team, (float *const[]){in, out}, 2);
    return expect_failure(team, result, ncclInvalidUsage, "calls");
}

/* ---- idle ---- */

static unsigned run_idle(struct team *team)
{
    size_t bytes = COUNT * sizeof(float);
    float *in = team_alloc(team, bytes), *out = team_alloc(team, bytes);
    unsigned n_wrong;

    team_check(team, ncclAllReduce(in, out, COUNT, ncclFloat, ncclSum, team->comm, NULL), "ncclAllReduce");
    cuda_memory_wait(team->cuda);
    n_wrong = check_idle(team, 40);
    free_all(team, (float *const[]){in, out}, 2);
    return n_wrong;
}

/* ---- all ---- */

static const struct mode {
    const char *name;
    unsigned (*run)(struct team *team);
} modes[] = {{"large", run_large},
             {"graph", run_graph},
             {"kill", run_kill},
             {"mismatch", run_mismatch},
             {"idle", run_idle}};

static unsigned run_mode(struct team *team, void *argument)
{
    const struct mode *mode = argument;

    return mode->run(team);
}

int main(int argc, char **argv)
{
    static const struct option long_options[] = {{"ranks", required_argument, NULL, 'r'}, {NULL, 0, NULL, 0}};
    int n_ranks = 2, option;

    while ((option = getopt_long(argc, argv, "r:", long_options, NULL)) != -1) {
        if (option != 'r')
            return 2;
        n_ranks = atoi(optarg);
    }
    for (size_t i = 0; optind < argc && i < sizeof(modes) / sizeof(modes[0]); i++)
        if (strcmp(modes[i].name, argv[optind]) == 0) {
            int status = team_run(n_ranks, LIMIT_S, run_mode, (void *)(uintptr_t)&modes[i]);

            printf("%s: %s\n", modes[i].name, status == 0 ? "passed" : "failed");
            return status;
        }
    return 2;
}
