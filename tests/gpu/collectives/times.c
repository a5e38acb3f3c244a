/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times of collectives on GPU memory, float32, sum:
 *
 *   collectives_times [--ranks N] [--quick]
 *
 *   call     what the call itself costs the CPU: it only enqueues
 *   alone    call and wait, one at a time
 *   in a row time of a call when many are enqueued at once
 *   algbw    bytes over the time in a row; bytes as nccl-tests counts them
 *   share    algbw over the ceiling: what two equal islands that exchange through host memory could reach,
 *            measured here with copies in both directions by all ranks at once
 *
 * Medians over calls, then the slowest rank's.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "team.h"
#include "trial.h"

enum { LIMIT_S = 300, MAX_SAMPLES = 101, CEILING_BYTES = 64 << 20, MIN_SAMPLES = 9 };

static const enum hetccl_trial_kind kinds[] = {
    HETCCL_TRIAL_ALLREDUCE, HETCCL_TRIAL_ALLGATHER, HETCCL_TRIAL_REDUCE_SCATTER,
    HETCCL_TRIAL_BROADCAST, HETCCL_TRIAL_ALLTOALL,  HETCCL_TRIAL_SENDRECV,
};
static const size_t sizes[] = {1 << 10, 64 << 10, 1 << 20, 16 << 20, 128 << 20};

struct options {
    int n_ranks;
    bool is_quick;
};

struct bench {
    struct team *team;
    struct hetccl_trial trial;
    void *send, *recv;
    double ceiling; /* GB/s */
};

/* Bytes a microsecond that a rank moves each way between its GPU and host memory while all ranks do. */
static double measure_copies(struct team *team)
{
    struct cuda_memory *ways[2];
    void *device[2], *host[2];
    double samples[MIN_SAMPLES];

    for (int way = 0; way < 2; way++) {
        ways[way] = cuda_memory_open(team->rank);
        device[way] = cuda_memory_alloc(ways[way], CEILING_BYTES);
        host[way] = cuda_memory_alloc_host(ways[way], CEILING_BYTES);
    }
    for (int i = 0; i < MIN_SAMPLES; i++) {
        double start;

        team_barrier(team);
        start = team_now_us();
        for (int turn = 0; turn < 4; turn++) {
            cuda_memory_copy(ways[0], host[0], device[0], CEILING_BYTES);
            cuda_memory_copy(ways[1], device[1], host[1], CEILING_BYTES);
        }
        cuda_memory_wait(ways[0]);
        cuda_memory_wait(ways[1]);
        samples[i] = (team_now_us() - start) / 4;
    }
    for (int way = 0; way < 2; way++)
        cuda_memory_free(ways[way], device[way]);
    return CEILING_BYTES / team_median(samples, MIN_SAMPLES);
}

static void call(struct bench *bench)
{
    team_check(bench->team,
               hetccl_trial_run(&bench->trial, bench->send, bench->recv, ncclSum, bench->team->comm),
               hetccl_trial_name(bench->trial.kind));
}

/* Two figures over n_calls calls: the CPU's time of a call, and of a call and its end. */
static void measure_alone(struct bench *bench, int n_calls, double *call_us_out, double *alone_us_out)
{
    double calls[MAX_SAMPLES], whole[MAX_SAMPLES];

    for (int i = 0; i < n_calls; i++) {
        double start = team_now_us();

        call(bench);
        calls[i] = team_now_us() - start;
        cuda_memory_wait(bench->team->cuda);
        whole[i] = team_now_us() - start;
    }
    *call_us_out = team_max(bench->team, team_median(calls, (size_t)n_calls));
    *alone_us_out = team_max(bench->team, team_median(whole, (size_t)n_calls));
}

static double measure_row(struct bench *bench, int n_calls)
{
    double samples[MIN_SAMPLES];

    for (int i = 0; i < MIN_SAMPLES; i++) {
        double start;

        team_barrier(bench->team);
        start = team_now_us();
        for (int k = 0; k < n_calls; k++)
            call(bench);
        cuda_memory_wait(bench->team->cuda);
        samples[i] = (team_now_us() - start) / n_calls;
    }
    return team_max(bench->team, team_median(samples, MIN_SAMPLES));
}

static void run_size(struct bench *bench, size_t size)
{
    int is_shared = hetccl_trial_is_shared(bench->trial.kind);
    double call_us, alone_us, row_us, algbw;

    bench->trial.count = size / sizeof(float) / (is_shared ? (size_t)bench->team->n_ranks : 1);
    for (int i = 0; i < 3; i++)
        call(bench);
    cuda_memory_wait(bench->team->cuda);
    team_barrier(bench->team);
    measure_alone(bench, size >= 16 << 20 ? 15 : MAX_SAMPLES, &call_us, &alone_us);
    row_us = measure_row(bench, size >= 16 << 20 ? 3 : 50);
    algbw = (double)size / row_us / 1e3;
    if (bench->team->rank == 0)
        printf("| %s | %zu | %.1f | %.1f | %.1f | %.3f | %.0f %% |\n", hetccl_trial_name(bench->trial.kind),
               size, call_us, alone_us, row_us, algbw, algbw / bench->ceiling * 100);
}

static unsigned run_all(struct team *team, void *argument)
{
    const struct options *options = argument;
    size_t n_sizes = sizeof(sizes) / sizeof(sizes[0]) - (options->is_quick ? 3 : 0);
    size_t max_bytes = sizes[n_sizes - 1];
    struct bench bench = {.team = team, .trial = {.rank = (uint32_t)team->rank}};

    bench.trial.reference = (struct hetccl_reference){.type = ncclFloat, .n_ranks = (uint32_t)team->n_ranks};
    bench.ceiling = team_sum(team, measure_copies(team)) / 2 / 1e3;
    bench.send = team_alloc(team, max_bytes);
    bench.recv = team_alloc(team, max_bytes);
    if (team->rank == 0)
        printf("# ceiling %.1f GB/s\n| collective | bytes | call us | alone us | in a row us | algbw GB/s | "
               "share "
               "|\n|---|---|---|---|---|---|---|\n",
               bench.ceiling);
    for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++)
        for (size_t i = 0; i < n_sizes; i++) {
            bench.trial.kind = kinds[kind];
            run_size(&bench, sizes[i]);
        }
    team_free(team, bench.send);
    team_free(team, bench.recv);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"ranks", required_argument, NULL, 'r'}, {"quick", no_argument, NULL, 'q'}, {NULL, 0, NULL, 0}};
    struct options options = {.n_ranks = 2};
    int option;

    while ((option = getopt_long(argc, argv, "r:q", long_options, NULL)) != -1) {
        if (option == 'r')
            options.n_ranks = atoi(optarg);
        else if (option == 'q')
            options.is_quick = true;
        else
            return 2;
    }
    return team_run(options.n_ranks, LIMIT_S, run_all, &options);
}
