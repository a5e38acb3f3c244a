/* SPDX-License-Identifier: Apache-2.0 */
#include "island.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"
#include "base/time.h"
#include "device/host/host.h"

enum { GIVE_UP_S = 20 };

struct member {
    const struct island_spec *spec;
    uint32_t rank;
    void *segment;
    size_t segment_bytes;
    struct hetccl_doorbell *doorbells; /* by rank, shared */
    char *failure;
};

static void *map_shared(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        abort();
    return memory;
}

int island_fail(struct island_rank *self, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (self->failure[0] == '\0')
        vsnprintf(self->failure, ISLAND_TEXT_BYTES, format, args);
    va_end(args);
    return 1;
}

uint32_t island_random(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((*state >> 33) % n);
}

static void wait_asleep(struct island_rank *self, enum hetccl_status *status)
{
    unsigned value = hetccl_doorbell_prepare(self->doorbell);
    bool moved;

    *status = self->engine->ops->progress(self->engine, &moved);
    hetccl_doorbell_wait(self->doorbell, value,
                         *status != HETCCL_AGAIN || moved ? 0 : (uint64_t)ISLAND_WAIT_S * HETCCL_NS_PER_S);
}

enum hetccl_status island_do(struct island_rank *self, const struct hetccl_engine_op *op)
{
    enum hetccl_status status = self->engine->ops->start(self->engine, op);
    uint64_t deadline = hetccl_deadline_ns(GIVE_UP_S);
    uint32_t idle = 0;
    bool moved;

    if (status != HETCCL_OK)
        return status;
    while ((status = self->engine->ops->progress(self->engine, &moved)) == HETCCL_AGAIN) {
        idle = moved ? 0 : idle + 1;
        if (idle <= self->n_spins)
            continue;
        wait_asleep(self, &status);
        if (status != HETCCL_AGAIN)
            return status;
        if (hetccl_now_ns() > deadline)
            return HETCCL_ERR_TIMEOUT;
    }
    return status;
}

static int member_run(const struct member *member)
{
    const struct island_spec *spec = member->spec;
    struct island_rank self = {.rank = member->rank,
                               .n_ranks = spec->n_ranks,
                               .n_spins = spec->n_spins,
                               .random = member->rank + 1,
                               .failure = member->failure,
                               .body_arg = spec->body_arg};
    uint32_t ranks[ISLAND_MAX_RANKS];
    struct hetccl_doorbell *doorbells[ISLAND_MAX_RANKS];
    struct hetccl_engine_shm_args args = {.doorbells = doorbells,
                                          .segment = member->segment,
                                          .segment_bytes = member->segment_bytes,
                                          .island_rank = member->rank,
                                          .n_ranks = spec->n_ranks,
                                          .ranks = ranks,
                                          .slot_bytes = spec->slot_bytes};
    int result;

    for (uint32_t rank = 0; rank < spec->n_ranks; rank++) {
        ranks[rank] = island_global_rank(rank);
        doorbells[rank] = &member->doorbells[rank];
    }
    if (hetccl_device_host_open(&self.device) != HETCCL_OK)
        return island_fail(&self, "no device: %s", hetccl_last_error_thread());
    args.device = self.device;
    if (hetccl_engine_shm_create(&args, &self.engine) != HETCCL_OK)
        result = island_fail(&self, "no engine: %s", hetccl_last_error_thread());
    else {
        self.doorbell = doorbells[member->rank];
        result = spec->body(&self);
    }
    if (self.engine != NULL)
        self.engine->ops->destroy(self.engine);
    self.device->ops->close(self.device);
    return result;
}

static void *thread_body(void *arg)
{
    return (void *)(intptr_t)member_run(arg);
}

static int run_threads(struct member *members, uint32_t n)
{
    pthread_t threads[ISLAND_MAX_RANKS];
    int failures = 0;
    void *result;

    for (uint32_t rank = 0; rank < n; rank++)
        if (pthread_create(&threads[rank], NULL, thread_body, &members[rank]) != 0)
            abort();
    for (uint32_t rank = 0; rank < n; rank++) {
        pthread_join(threads[rank], &result);
        failures += result != NULL;
    }
    return failures;
}

static int run_processes(struct member *members, uint32_t n)
{
    pid_t pids[ISLAND_MAX_RANKS];
    int failures = 0, code;

    fflush(NULL);
    for (uint32_t rank = 0; rank < n; rank++) {
        pids[rank] = fork();
        if (pids[rank] < 0)
            abort();
        if (pids[rank] == 0)
            _exit(member_run(&members[rank]) != 0);
    }
    for (uint32_t rank = 0; rank < n; rank++) {
        waitpid(pids[rank], &code, 0);
        failures += code != 0;
        if (WIFSIGNALED(code))
            snprintf(members[rank].failure, ISLAND_TEXT_BYTES, "killed by signal %d", WTERMSIG(code));
    }
    return failures;
}

int island_run(const struct island_spec *spec)
{
    size_t segment_bytes = hetccl_engine_shm_bytes(spec->n_ranks);
    void *segment = map_shared(segment_bytes);
    struct hetccl_doorbell *doorbells = map_shared(spec->n_ranks * sizeof(*doorbells));
    char *failures = map_shared((size_t)spec->n_ranks * ISLAND_TEXT_BYTES);
    struct member members[ISLAND_MAX_RANKS];
    int n_failed;

    for (uint32_t rank = 0; rank < spec->n_ranks; rank++)
        members[rank] = (struct member){
            spec, rank, segment, segment_bytes, doorbells, failures + (size_t)rank * ISLAND_TEXT_BYTES};
    n_failed =
        spec->has_processes ? run_processes(members, spec->n_ranks) : run_threads(members, spec->n_ranks);
    for (uint32_t rank = 0; rank < spec->n_ranks; rank++)
        if (members[rank].failure[0] != '\0')
            fprintf(stderr, "island rank %u of %u: %s\n", rank, spec->n_ranks, members[rank].failure);
    munmap(failures, (size_t)spec->n_ranks * ISLAND_TEXT_BYTES);
    munmap(doorbells, spec->n_ranks * sizeof(*doorbells));
    munmap(segment, segment_bytes);
    return n_failed;
}
