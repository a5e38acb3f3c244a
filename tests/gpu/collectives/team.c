/* SPDX-License-Identifier: Apache-2.0 */
#include "team.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <hetccl/hetccl.h>

struct team_board {
    ncclUniqueId id;
    atomic_uint n_arrived;               /* over all barriers so far */
    unsigned n_barriers[TEAM_MAX_RANKS]; /* each rank's own */
    double figures[TEAM_MAX_RANKS];
    atomic_int n_doomed; /* 1 + the rank that may die */
};

double team_now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

void team_check(const struct team *team, ncclResult_t result, const char *call)
{
    if (result == ncclSuccess)
        return;
    (void)fprintf(stderr, "rank %d: %s: %s: %s\n", team->rank, call, ncclGetErrorString(result),
                  ncclGetLastError(team->comm));
    exit(1);
}

void team_barrier(struct team *team)
{
    struct team_board *board = team->board;
    unsigned wanted = ++board->n_barriers[team->rank] * (unsigned)team->n_ranks;

    atomic_fetch_add(&board->n_arrived, 1);
    while (atomic_load(&board->n_arrived) < wanted)
        (void)sched_yield();
}

static double combine(struct team *team, double value, bool is_sum)
{
    double result = is_sum ? 0 : value;

    team->board->figures[team->rank] = value;
    team_barrier(team);
    for (int rank = 0; rank < team->n_ranks; rank++) {
        double other = team->board->figures[rank];

        if (is_sum)
            result += other;
        else if (other > result)
            result = other;
    }
    /* Nobody writes the next figure while somebody reads this one. */
    team_barrier(team);
    return result;
}

double team_max(struct team *team, double value)
{
    return combine(team, value, false);
}

double team_sum(struct team *team, double value)
{
    return combine(team, value, true);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

double team_median(double *values, size_t n_values)
{
    qsort(values, n_values, sizeof(*values), compare);
    return values[n_values / 2];
}

void team_die(struct team *team)
{
    atomic_store(&team->board->n_doomed, team->rank + 1);
    for (;;)
        (void)raise(SIGKILL);
}

void team_abort(struct team *team)
{
    team_check(team, ncclCommAbort(team->comm), "ncclCommAbort");
    team->comm = NULL;
}

void *team_alloc(struct team *team, size_t bytes)
{
    void *memory = team->is_host ? malloc(bytes) : cuda_memory_alloc(team->cuda, bytes);

    if (memory == NULL)
        abort();
    return memory;
}

void team_free(struct team *team, void *memory)
{
    if (team->is_host)
        free(memory);
    else
        cuda_memory_free(team->cuda, memory);
}

/* The entry of a comma list that is the rank's; the list starts over at its end. */
static bool is_host_rank(const char *list, int rank)
{
    const char *entry = list;

    for (int i = 0; i < rank; i++) {
        entry += strcspn(entry, ",");
        entry = *entry == ',' ? entry + 1 : list;
    }
    return strncmp(entry, "host", 4) == 0;
}

static void choose_device(struct team *team)
{
    const char *list = getenv("TEAM_DEVICES");

    if (list == NULL)
        return;
    team->is_host = is_host_rank(list, team->rank);
    (void)setenv("HETCCL_DEVICE", team->is_host ? "host" : "cuda", 1);
}

static void join(struct team *team)
{
    hetcclCommInfo_t info = {.size = sizeof(info)};

    choose_device(team);
    team->cuda = cuda_memory_open(team->rank);
    cuda_memory_use_default_stream(team->cuda);
    if (team->rank == 0)
        team_check(team, ncclGetUniqueId(&team->board->id), "ncclGetUniqueId");
    team_barrier(team);
    team_check(team, ncclCommInitRank(&team->comm, team->n_ranks, team->board->id, team->rank),
               "ncclCommInitRank");
    team_check(team, hetcclCommInfo(team->comm, &info), "hetcclCommInfo");
    if (team->rank == 0)
        printf("# %d ranks, %d islands, device %s, engine %s\n", info.nRanks, info.nIslands, info.device,
               info.engine);
}

static unsigned run_rank(struct team *team, unsigned (*work)(struct team *team, void *argument),
                         void *argument)
{
    unsigned n_wrong;

    join(team);
    n_wrong = work(team, argument);
    if (team->comm == NULL)
        return n_wrong;
    cuda_memory_wait(team->cuda);
    team_check(team, ncclCommDestroy(team->comm), "ncclCommDestroy");
    return n_wrong;
}

/* Ended ranks until none is left; the first bad one, or the alarm, ends the rest. */
static int wait_for_all(const struct team_board *board, const pid_t *pids, int n_ranks)
{
    int exit_status = 0;
    int status;
    pid_t pid;

    while ((pid = wait(&status)) > 0) {
        int n_doomed = atomic_load(&board->n_doomed);

        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            continue;
        if (n_doomed > 0 && pid == pids[n_doomed - 1])
            continue;
        for (int rank = 0; rank < n_ranks && exit_status == 0; rank++) {
            if (pids[rank] == pid && WIFSIGNALED(status))
                (void)fprintf(stderr, "rank %d was ended by signal %d%s\n", rank, WTERMSIG(status),
                              WTERMSIG(status) == SIGALRM ? ", the time limit" : "");
            (void)kill(pids[rank], SIGTERM);
        }
        exit_status = 1;
    }
    return exit_status;
}

int team_run(int n_ranks, unsigned limit_s, unsigned (*work)(struct team *team, void *argument),
             void *argument)
{
    struct team team = {.n_ranks = n_ranks};
    pid_t pids[TEAM_MAX_RANKS];

    team.board = mmap(NULL, sizeof(*team.board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (team.board == MAP_FAILED || n_ranks < 1 || n_ranks > TEAM_MAX_RANKS)
        return 2;
    /* Ranks must not print again what waits here, and a log shall end where the program did. */
    (void)fflush(stdout);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    for (team.rank = 0; team.rank < n_ranks; team.rank++) {
        pids[team.rank] = fork();
        if (pids[team.rank] < 0)
            return 1;
        if (pids[team.rank] == 0) {
            (void)alarm(limit_s);
            exit(run_rank(&team, work, argument) == 0 ? 0 : 1);
        }
    }
    return wait_for_all(team.board, pids, n_ranks);
}
