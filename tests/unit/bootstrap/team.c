/* SPDX-License-Identifier: Apache-2.0 */
#include "team.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "bootstrap/endpoint.h"
#include "bootstrap/root.h"

static atomic_int n_failures;

void expect(bool holds, const char *what)
{
    if (holds)
        return;
    atomic_fetch_add(&n_failures, 1);
    fprintf(stderr, "[%d] doesn't hold: %s (last error: %s)\n", (int)getpid(), what,
            hetccl_last_error_thread());
}

void expect_status(enum hetccl_status got, enum hetccl_status wanted, const char *what)
{
    char text[256];

    snprintf(text, sizeof(text), "%s: got '%s', wanted '%s'", what, hetccl_status_text(got),
             hetccl_status_text(wanted));
    expect(got == wanted, text);
}

void expect_text(const char *text, const char *part)
{
    char message[2200];

    snprintf(message, sizeof(message), "'%.1000s' contains '%.1000s'", text, part);
    expect(strstr(text, part) != NULL, message);
}

int team_failures(void)
{
    return atomic_load(&n_failures);
}

void team_config(struct hetccl_config *out, uint64_t init_timeout_s)
{
    if (hetccl_config_parse(out) != HETCCL_OK)
        abort();
    out->init_timeout_s = init_timeout_s;
}

static void on_failed(void *context, enum hetccl_status status, uint32_t culprit_rank, const char *text)
{
    struct team_rank *rank = context;

    rank->failed_status = status;
    rank->failed_culprit = culprit_rank;
    snprintf(rank->failed_text, sizeof(rank->failed_text), "%s", text);
    atomic_fetch_add(&rank->n_failed, 1);
}

static void on_arrived(void *context)
{
    struct team_rank *rank = context;

    atomic_fetch_add(&rank->n_arrived, 1);
}

static void take_id(struct team_rank *rank)
{
    struct team_shared *shared = rank->shared;

    if (rank->rank == 0 && !atomic_load(&shared->has_id)) {
        expect_status(hetccl_unique_id_create(&rank->config, shared->id), HETCCL_OK, "unique id");
        atomic_store(&shared->has_id, true);
    }
    while (!atomic_load(&shared->has_id))
        hetccl_sleep_ns(HETCCL_NS_PER_MS);
    memcpy(rank->id, shared->id, sizeof(rank->id));
}

void team_create(struct team_rank *rank)
{
    const uint8_t(*ids)[HETCCL_UNIQUE_ID_BYTES] = (const uint8_t(*)[HETCCL_UNIQUE_ID_BYTES])rank->id;
    struct hetccl_mesh_args args = {.config = &rank->config,
                                    .ids = ids,
                                    .n_ids = 1,
                                    .n_ranks = rank->n_ranks,
                                    .rank = rank->rank,
                                    .is_cancelled = &rank->is_cancelled,
                                    .events = {.context = rank, .failed = on_failed, .arrived = on_arrived}};
    uint64_t start_ns = hetccl_now_ns();

    if (rank->shared != NULL)
        take_id(rank);
    rank->create_status = hetccl_mesh_create(&args, &rank->mesh);
    rank->create_ns = hetccl_now_ns() - start_ns;
    if (rank->shared != NULL && rank->create_status == HETCCL_OK)
        atomic_fetch_add(&rank->shared->n_standing, 1);
}

bool team_wait_failed(struct team_rank *rank, unsigned ms)
{
    for (unsigned waited = 0; waited < ms && atomic_load(&rank->n_failed) == 0; waited += 5)
        hetccl_sleep_ns(5 * HETCCL_NS_PER_MS);
    return atomic_load(&rank->n_failed) == 1;
}

static void init_rank(struct team_rank *rank, uint32_t number, uint32_t n_ranks,
                      const struct hetccl_config *config)
{
    memset(rank, 0, sizeof(*rank));
    rank->rank = number;
    rank->n_ranks = n_ranks;
    rank->config = *config;
}

struct thread_arg {
    struct team_rank rank;
    team_body *body;
};

static void *thread_main(void *arg)
{
    struct thread_arg *thread = arg;

    thread->body(&thread->rank);
    return NULL;
}

/* A root that has failed stays for those that come late; here nobody comes any more. */
static void forget_root(const uint8_t *id)
{
    struct hetccl_endpoint *endpoint = hetccl_endpoint_find();
    struct hetccl_wire_unique_id decoded;

    hetccl_endpoint_lock(endpoint);
    if (endpoint->state == HETCCL_ENDPOINT_RUNNING && hetccl_wire_unique_id_decode(id, &decoded))
        hetccl_root_forget(endpoint, decoded.job_id);
    hetccl_endpoint_unlock(endpoint);
}

int team_run_threads(uint32_t n_ranks, const struct hetccl_config *config, team_body *body, void *arg)
{
    static struct thread_arg threads[TEAM_MAX_RANKS];
    pthread_t handles[TEAM_MAX_RANKS];
    int before = team_failures();
    uint8_t id[HETCCL_UNIQUE_ID_BYTES];

    expect_status(hetccl_unique_id_create(config, id), HETCCL_OK, "unique id");
    for (uint32_t i = 0; i < n_ranks; i++) {
        init_rank(&threads[i].rank, i, n_ranks, config);
        memcpy(threads[i].rank.id, id, sizeof(id));
        threads[i].rank.arg = arg;
        threads[i].body = body;
        if (pthread_create(&handles[i], NULL, thread_main, &threads[i]) != 0)
            abort();
    }
    for (uint32_t i = 0; i < n_ranks; i++)
        pthread_join(handles[i], NULL);
    forget_root(id);
    return team_failures() - before;
}

static pid_t fork_rank(struct team_rank *rank, team_body *body)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    atomic_store(&n_failures, 0);
    body(rank);
    _exit(team_failures() == 0 ? 0 : 1);
}

bool team_wait_count(atomic_uint *counter, unsigned number, unsigned ms)
{
    for (unsigned waited = 0; waited < ms && atomic_load(counter) < number; waited++)
        hetccl_sleep_ns(HETCCL_NS_PER_MS);
    return atomic_load(counter) >= number;
}

static bool is_endpoint_running(void)
{
    struct hetccl_endpoint *endpoint = hetccl_endpoint_find();
    bool is_running;

    hetccl_endpoint_lock(endpoint);
    is_running = endpoint->state != HETCCL_ENDPOINT_STOPPED;
    hetccl_endpoint_unlock(endpoint);
    return is_running;
}

/*
 * Forked while this process has no other thread (an endpoint of an earlier test may be ending): the thread
 * sanitizer can't follow anything else, and it is how launchers do it.
 */
struct team_shared *team_start_processes(uint32_t n_ranks, const struct hetccl_config *config,
                                         team_body *body, void *arg, pid_t *pids_out)
{
    struct team_shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    static struct team_rank rank;

    if (shared == MAP_FAILED)
        abort();
    for (int i = 0; i < 1000 && is_endpoint_running(); i++)
        hetccl_sleep_ns(HETCCL_NS_PER_MS);
    for (uint32_t i = 0; i < n_ranks; i++) {
        init_rank(&rank, i, n_ranks, config);
        rank.shared = shared;
        rank.arg = arg;
        pids_out[i] = fork_rank(&rank, body);
    }
    return shared;
}

bool team_reap(pid_t pid, unsigned ms)
{
    int status = 0;

    for (unsigned waited = 0; waited < ms; waited += 5) {
        if (waitpid(pid, &status, WNOHANG) == pid)
            return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        hetccl_sleep_ns(5 * HETCCL_NS_PER_MS);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return false;
}

int team_run_processes(uint32_t n_ranks, const struct hetccl_config *config, team_body *body, void *arg)
{
    pid_t pids[TEAM_MAX_RANKS];
    int before = team_failures();

    (void)team_start_processes(n_ranks, config, body, arg, pids);
    for (uint32_t i = 0; i < n_ranks; i++)
        expect(team_reap(pids[i], 20000), "a rank's process ends well and in time");
    return team_failures() - before;
}

static unsigned count_entries(const char *path)
{
    DIR *dir = opendir(path);
    unsigned n = 0;

    while (dir != NULL && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n;
}

unsigned team_count_threads(void)
{
    return count_entries("/proc/self/task");
}

unsigned team_count_fds(void)
{
    return count_entries("/proc/self/fd");
}
