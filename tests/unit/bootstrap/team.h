/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TEST_BOOTSTRAP_TEAM_H
#define HETCCL_TEST_BOOTSTRAP_TEAM_H

/* Several ranks in one test: as threads of this process or as forked processes, all running the same body. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/config.h"
#include "bootstrap/mesh.h"

enum { TEAM_MAX_RANKS = 32 };

/* Between the test and the processes it forks. */
struct team_shared {
    atomic_bool has_id;
    uint8_t id[HETCCL_UNIQUE_ID_BYTES];
    atomic_uint n_standing; /* ranks whose create has succeeded */
    atomic_uint n_ready;    /* for the test's own use */
};

struct team_rank {
    struct team_shared *shared; /* NULL: the id is there already; else rank 0 makes it and shares it */
    uint32_t rank, n_ranks;
    struct hetccl_config config;
    uint8_t id[HETCCL_UNIQUE_ID_BYTES];
    atomic_bool is_cancelled;
    struct hetccl_mesh *mesh;
    enum hetccl_status create_status;
    uint64_t create_ns;
    /* what the failed and arrived events have said */
    atomic_int n_failed, n_arrived;
    enum hetccl_status failed_status;
    uint32_t failed_culprit;
    char failed_text[HETCCL_ERROR_TEXT_BYTES];
    void *arg;
};

typedef void team_body(struct team_rank *rank);

/* Counts and prints what doesn't hold; any thread. */
void expect(bool holds, const char *what);
void expect_status(enum hetccl_status got, enum hetccl_status wanted, const char *what);
void expect_text(const char *text, const char *part);
int team_failures(void);

void team_config(struct hetccl_config *out, uint64_t init_timeout_s);

/* Joins: rank->create_status, and rank->mesh on success. */
void team_create(struct team_rank *rank);

/* Waits until the failed event has run, at most this long; false when it hasn't. */
bool team_wait_failed(struct team_rank *rank, unsigned ms);

/* Runs the body on n ranks with one fresh unique id; the number of failed expectations since the call. */
int team_run_threads(uint32_t n_ranks, const struct hetccl_config *config, team_body *body, void *arg);
int team_run_processes(uint32_t n_ranks, const struct hetccl_config *config, team_body *body, void *arg);

/* The same in pieces: processes that the test wants to stop or kill. pids_out has n_ranks entries. */
struct team_shared *team_start_processes(uint32_t n_ranks, const struct hetccl_config *config,
                                         team_body *body, void *arg, pid_t *pids_out);

/* True once the counter has reached the number, before the deadline. */
bool team_wait_count(atomic_uint *counter, unsigned number, unsigned ms);

/* Exit status 0 before the deadline, else false (and the process is killed). */
bool team_reap(pid_t pid, unsigned ms);

unsigned team_count_threads(void);
unsigned team_count_fds(void);

#endif
