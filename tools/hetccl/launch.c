/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "perf.h"

/*
 * One process a rank, each this very program with two more options. The parent makes the unique id, serves as
 * its root, and waits. The first rank that fails is the one to report: the others' failures follow from it,
 * so they get GRACE_S to end by themselves and are then killed.
 */

enum { GRACE_S = 12, TICK_MS = 200 };

struct launch {
    const struct hetccl_perf_options *options;
    struct hetccl_board *board;
    pid_t *pids;   /* 0: has ended */
    int *statuses; /* as waitpid() gave them */
    uint32_t n_ranks, n_running;
    uint32_t culprit; /* UINT32_MAX: nobody failed so far */
    time_t failed_at;
    unsigned long beats; /* of all ranks at moved_at */
    time_t moved_at;
    bool has_hung, has_wrong;
};

static time_t now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static bool set_variables(const struct hetccl_perf_options *options, uint32_t rank)
{
    const char *vendor = hetccl_cluster_vendor(&options->cluster, rank);
    char host[32];

    (void)snprintf(host, sizeof(host), "pretend-%u", options->cluster.host_of[rank]);
    if (vendor != NULL && setenv("HETCCL_VENDOR", vendor, 1) != 0)
        return false;
    if (options->cluster.n_hosts > 0 && setenv("HETCCL_HOST_ID", host, 1) != 0)
        return false;
    return true;
}

static void become_rank(const struct launch *launch, uint32_t rank, int board_fd, int argc, char **argv)
{
    char **args = calloc((size_t)argc + 7, sizeof(*args));
    char rank_text[16];
    char fd_text[16];
    sigset_t none;
    int n = 0;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (args == NULL || !set_variables(launch->options, rank))
        _exit(HETCCL_EXIT_FAILED);
    (void)snprintf(rank_text, sizeof(rank_text), "%u", rank);
    (void)snprintf(fd_text, sizeof(fd_text), "%d", board_fd);
    args[n++] = (char[]){"hetccl"};
    args[n++] = argv[0];
    args[n++] = (char[]){"--as-rank"};
    args[n++] = rank_text;
    args[n++] = (char[]){"--board"};
    args[n++] = fd_text;
    for (int i = 1; i < argc; i++)
        args[n++] = argv[i];
    execv("/proc/self/exe", args);
    hetccl_board_fail(&launch->board->slots[rank], "could not be started: %s", strerror(errno));
    _exit(HETCCL_EXIT_FAILED);
}

static bool start_ranks(struct launch *launch, int board_fd, int argc, char **argv)
{
    pid_t parent = getpid();

    for (uint32_t rank = 0; rank < launch->n_ranks; rank++) {
        pid_t pid = fork();

        if (pid < 0) {
            (void)fprintf(stderr, "hetccl perf: can't start rank %u: %s\n", rank, strerror(errno));
            return false;
        }
        if (pid == 0) {
            /* No rank outlives the parent, even one killed by SIGKILL. */
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent)
                _exit(HETCCL_EXIT_FAILED);
            become_rank(launch, rank, board_fd, argc, argv);
        }
        launch->pids[rank] = pid;
        launch->n_running++;
    }
    return true;
}

static void kill_ranks(struct launch *launch)
{
    for (uint32_t rank = 0; rank < launch->n_ranks; rank++)
        if (launch->pids[rank] > 0)
            kill(launch->pids[rank], SIGKILL);
    for (uint32_t rank = 0; rank < launch->n_ranks; rank++)
        if (launch->pids[rank] > 0)
            (void)waitpid(launch->pids[rank], NULL, 0);
}

/* A rank that died tells more than one that was left in the lurch and says so; of those that say why, the
 * first. */
static bool is_better_culprit(const struct launch *launch, uint32_t rank)
{
    const struct hetccl_board_slot *slots = launch->board->slots;
    unsigned long then;
    unsigned long now;

    if (launch->culprit == UINT32_MAX || WIFSIGNALED(launch->statuses[rank]))
        return launch->culprit == UINT32_MAX || !WIFSIGNALED(launch->statuses[launch->culprit]);
    then = atomic_load_explicit(&slots[launch->culprit].failed_at_ns, memory_order_acquire);
    now = atomic_load_explicit(&slots[rank].failed_at_ns, memory_order_acquire);
    return !WIFSIGNALED(launch->statuses[launch->culprit]) && now != 0 && (then == 0 || now < then);
}

static void collect_ended(struct launch *launch)
{
    for (uint32_t rank = 0; rank < launch->n_ranks; rank++) {
        int status;

        if (launch->pids[rank] == 0 || waitpid(launch->pids[rank], &status, WNOHANG) <= 0)
            continue;
        launch->pids[rank] = 0;
        launch->n_running--;
        launch->statuses[rank] = status;
        if (WIFEXITED(status) && WEXITSTATUS(status) == HETCCL_EXIT_OK)
            continue;
        if (WIFEXITED(status) && WEXITSTATUS(status) == HETCCL_EXIT_WRONG) {
            launch->has_wrong = true;
            continue;
        }
        if (launch->culprit == UINT32_MAX)
            launch->failed_at = now_s();
        if (is_better_culprit(launch, rank))
            launch->culprit = rank;
    }
}

static void watch_progress(struct launch *launch)
{
    unsigned long beats = 0;

    for (uint32_t rank = 0; rank < launch->n_ranks; rank++)
        beats += atomic_load_explicit(&launch->board->slots[rank].beats, memory_order_acquire);
    if (beats != launch->beats) {
        launch->beats = beats;
        launch->moved_at = now_s();
    }
    launch->has_hung = now_s() - launch->moved_at > (time_t)launch->options->timeout_s;
}

static void wait_for_ranks(struct launch *launch)
{
    struct timespec tick = {.tv_nsec = TICK_MS * 1000000L};
    sigset_t child;

    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    launch->moved_at = now_s();
    while (launch->n_running > 0 && !launch->has_hung) {
        (void)sigtimedwait(&child, NULL, &tick);
        collect_ended(launch);
        watch_progress(launch);
        if (launch->culprit != UINT32_MAX && now_s() - launch->failed_at > GRACE_S)
            break;
    }
}

static void report_hang(const struct launch *launch)
{
    unsigned long least = ULONG_MAX;

    for (uint32_t rank = 0; rank < launch->n_ranks; rank++) {
        unsigned long beats = atomic_load(&launch->board->slots[rank].beats);

        if (launch->pids[rank] > 0 && beats < least)
            least = beats;
    }
    (void)fprintf(stderr, "hetccl perf: no progress for %u s:", launch->options->timeout_s);
    for (uint32_t rank = 0; rank < launch->n_ranks; rank++)
        if (launch->pids[rank] > 0 && atomic_load(&launch->board->slots[rank].beats) == least)
            (void)fprintf(stderr, " rank %u is in %s;", rank, launch->board->slots[rank].doing);
    (void)fprintf(stderr, " all ranks were killed\n");
}

static void report_culprit(const struct launch *launch)
{
    const struct hetccl_board_slot *slot = &launch->board->slots[launch->culprit];
    int status = launch->statuses[launch->culprit];

    if (WIFSIGNALED(status))
        (void)fprintf(stderr, "hetccl perf: rank %u was killed by signal %d (%s) in %s\n", launch->culprit,
                      WTERMSIG(status), strsignal(WTERMSIG(status)), slot->doing);
    else
        (void)fprintf(stderr, "hetccl perf: rank %u failed in %s: %s\n", launch->culprit, slot->doing,
                      slot->error[0] != '\0' ? slot->error : "it ended without saying why");
    if (launch->n_running > 0)
        (void)fprintf(stderr, "hetccl perf: %u ranks did not end within %d s after that and were killed\n",
                      launch->n_running, GRACE_S);
}

static int finish(struct launch *launch)
{
    if (launch->culprit != UINT32_MAX)
        report_culprit(launch);
    else if (launch->has_hung)
        report_hang(launch);
    kill_ranks(launch);
    return launch->culprit != UINT32_MAX || launch->has_hung || launch->has_wrong ? HETCCL_EXIT_FAILED
                                                                                  : HETCCL_EXIT_OK;
}

/* Settings of all ranks and of the root in this process; a user's own HETCCL_DEVICE wins. */
static bool set_common_variables(const struct hetccl_perf_options *options)
{
    if (!hetccl_perf_set_device(options))
        return false;
    return options->link == NULL || setenv("HETCCL_LINK", options->link, 1) == 0;
}

/* The ranks are forked first: while this process still has one thread. */
static bool start(struct launch *launch, int argc, char **argv)
{
    ncclUniqueId id;
    sigset_t child;
    int board_fd;

    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    launch->board = hetccl_board_create(launch->n_ranks, &board_fd);
    if (launch->board == NULL || !set_common_variables(launch->options)) {
        (void)fprintf(stderr, "hetccl perf: no shared memory for the ranks' reports: %s\n", strerror(errno));
        return false;
    }
    if (!start_ranks(launch, board_fd, argc, argv))
        return false;
    close(board_fd);
    if (ncclGetUniqueId(&id) != ncclSuccess) {
        (void)fprintf(stderr, "hetccl perf: no unique id: %s\n", ncclGetLastError(NULL));
        return false;
    }
    launch->board->id = id;
    atomic_store_explicit(&launch->board->is_id_ready, true, memory_order_release);
    return true;
}

int hetccl_launch_run(const struct hetccl_perf_options *options, int argc, char **argv)
{
    struct launch launch = {.options = options, .n_ranks = options->cluster.n_ranks, .culprit = UINT32_MAX};
    int status = HETCCL_EXIT_FAILED;

    launch.pids = calloc(launch.n_ranks, sizeof(*launch.pids));
    launch.statuses = calloc(launch.n_ranks, sizeof(*launch.statuses));
    if (launch.pids == NULL || launch.statuses == NULL) {
        (void)fprintf(stderr, "hetccl perf: no memory for %u ranks\n", launch.n_ranks);
    } else if (start(&launch, argc, argv)) {
        wait_for_ranks(&launch);
        status = finish(&launch);
    } else {
        kill_ranks(&launch);
    }
    free(launch.pids);
    free(launch.statuses);
    return status;
}
