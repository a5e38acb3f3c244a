/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ct.h"

/* A28 many communicators after and beside each other, A12 a loop to be killed in, A29 latency, A30 fork. */

int ct_small_allreduce(struct ct *ct, ncclComm_t comm)
{
    int32_t value[2] = {ct->options.rank + 1, -ct->options.rank};
    int32_t n = ct->options.size;
    struct ct_memory memory;
    ncclResult_t result = ncclSuccess;
    int code = ct_memory_open(ct, sizeof(value), &memory);

    if (code != CT_OK)
        return code;
    memcpy(memory.host, value, sizeof(value));
    code = ct_memory_push(ct, &memory);
    if (code == CT_OK)
        result = ncclAllReduce(memory.device, memory.device, 2, ncclInt32, ncclSum, comm, ct->stream);
    if (result == ncclSuccess)
        result = ct_settle_on(ct, comm, ct->stream);
    if (result != ncclSuccess)
        code = ct_fail_call(ct, "ncclAllReduce", result);
    if (code == CT_OK)
        code = ct_memory_pull(ct, &memory);
    memcpy(value, memory.host, sizeof(value));
    ct_memory_close(ct, &memory);
    if (code == CT_OK && (value[0] != n * (n + 1) / 2 || value[1] != -n * (n - 1) / 2))
        code = ct_fail(ct, CT_WRONG, "a sum is %d, %d", value[0], value[1]);
    return code;
}

/* Each communicator has an id, and a file for it, of its own. */
static int one_life(struct ct *ct, long number)
{
    const char *base = ct->options.idfile;
    char path[512];
    char old[512];
    ncclResult_t result;
    int code;

    (void)snprintf(path, sizeof(path), "%s.%ld", base, number);
    (void)snprintf(old, sizeof(old), "%s.%ld", base, number - 2);
    ct->options.idfile = path;
    ct->notes[0] = '\0';
    code = ct_find_id(ct);
    if (code == CT_OK)
        code = ct_join(ct);
    ct->options.idfile = base;
    if (code == CT_OK)
        code = ct_small_allreduce(ct, ct->comm);
    if (code != CT_OK)
        return code;
    if (ct->options.rank == 0)
        (void)unlink(old);
    result = ncclCommDestroy(ct->comm);
    ct->comm = NULL;
    return result == ncclSuccess ? CT_OK : ct_fail_call(ct, "ncclCommDestroy", result);
}

/* What is held after cycle 10 and after the last. */
int ct_scenario_cycle(struct ct *ct)
{
    long fds = 0;
    long threads = 0;
    long rss = 0;

    for (long i = 1; i <= ct->options.iters; i++) {
        int code = one_life(ct, i);

        if (code != CT_OK)
            return code;
        if (i == 10) {
            ct_sleep_ms(200);
            fds = ct_count_fds();
            threads = ct_count_threads();
            rss = ct_rss_bytes();
        }
    }
    ct_sleep_ms(200);
    ct_note(ct, " fds_more=%ld threads_more=%ld rss_more=%ld", ct_count_fds() - fds,
            ct_count_threads() - threads, ct_rss_bytes() - rss);
    return CT_OK;
}

/* Until it is killed. */
int ct_scenario_loop(struct ct *ct)
{
    for (long i = 1; i <= ct->options.iters; i++) {
        int code = one_life(ct, i);

        if (code != CT_OK)
            return code;
    }
    return CT_OK;
}

static int make_direct(struct ct *ct, ncclComm_t *out)
{
    ncclUniqueId id;
    ncclResult_t result = ncclSuccess;

    memset(&id, 0, sizeof(id));
    if (ct->options.rank == 0)
        result = ncclGetUniqueId(&id);
    if (result == ncclSuccess)
        result = ncclBroadcast(&id, &id, sizeof(id), ncclInt8, 0, ct->comm, NULL);
    if (result == ncclSuccess)
        result = ncclCommInitRank(out, ct->options.size, id, ct->options.rank);
    return result == ncclSuccess ? CT_OK : ct_fail_call(ct, "a direct communicator", result);
}

static int make_split(struct ct *ct, ncclComm_t *out)
{
    ncclResult_t result = ncclCommSplit(ct->comm, 0, ct->options.rank, out, NULL);

    return result == ncclSuccess ? CT_OK : ct_fail_call(ct, "ncclCommSplit", result);
}

/* --limit communicators at a time, every second one by split, then one allreduce in each. */
int ct_scenario_many(struct ct *ct)
{
    long n = ct->options.limit;
    ncclComm_t *comms = calloc((size_t)n, sizeof(*comms));
    long fds = ct_count_fds();
    int code = comms != NULL ? CT_OK : ct_fail(ct, CT_SETUP, "no memory");

    for (long i = 0; code == CT_OK && i < n; i++)
        code = i % 2 == 0 ? make_direct(ct, &comms[i]) : make_split(ct, &comms[i]);
    for (long i = 0; code == CT_OK && i < n; i++)
        code = ct_small_allreduce(ct, comms[i]);
    ct_note(ct, " threads_held=%ld fds_held=%ld rss_held=%ld", ct_count_threads(), ct_count_fds(),
            ct_rss_bytes());
    for (long i = 0; code == CT_OK && i < n; i++)
        if (ncclCommDestroy(comms[i]) != ncclSuccess)
            code = ct_fail(ct, CT_WRONG, "communicator %ld can't be destroyed", i);
    free(comms);
    ct_sleep_ms(200);
    ct_note(ct, " fds_more=%ld", ct_count_fds() - fds);
    return code;
}

int ct_scenario_latency(struct ct *ct)
{
    cpu_set_t before;
    cpu_set_t after;
    double start;
    int code = ct_small_allreduce(ct, ct->comm);

    CPU_ZERO(&before);
    CPU_ZERO(&after);
    (void)sched_getaffinity(0, sizeof(before), &before);
    start = ct_now_s();
    for (long i = 0; code == CT_OK && i < ct->options.iters; i++)
        code = ct_small_allreduce(ct, ct->comm);
    (void)sched_getaffinity(0, sizeof(after), &after);
    ct_note(ct, " mean_ms=%.3f", (ct_now_s() - start) * 1000 / (double)ct->options.iters);
    if (code == CT_OK && !CPU_EQUAL(&before, &after))
        code = ct_fail(ct, CT_WRONG, "the affinity of the calling thread was changed");
    return code;
}

/* What a data loader's child may do. Each child ends with status 0, and the parent must not notice. */
static void be_child(int which, char *heap, size_t heap_bytes)
{
    if (which == 0)
        _exit(0);
    if (which == 1)
        exit(0);
    if (which == 2) {
        execlp("true", "true", (char *)NULL);
        _exit(1);
    }
    memset(heap, 0xff, heap_bytes);
    exit(0);
}

int ct_scenario_fork(struct ct *ct)
{
    enum { CHILDREN = 4, HEAP_BYTES = 8 << 20 };
    char *heap = calloc(1, HEAP_BYTES);
    long threads = ct_count_threads();
    pid_t children[CHILDREN];
    int code = heap != NULL ? CT_OK : ct_fail(ct, CT_SETUP, "no memory");
    int status;

    for (int i = 0; code == CT_OK && i < CHILDREN; i++) {
        children[i] = fork();
        if (children[i] == 0)
            be_child(i, heap, HEAP_BYTES);
        code = ct_small_allreduce(ct, ct->comm);
    }
    for (long i = 0; code == CT_OK && i < ct->options.iters; i++)
        code = ct_small_allreduce(ct, ct->comm);
    for (int i = 0; code == CT_OK && i < CHILDREN; i++)
        if (waitpid(children[i], &status, 0) != children[i] || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
            code = ct_fail(ct, CT_WRONG, "child %d ended with status %#x", i, (unsigned)status);
    for (size_t i = 0; code == CT_OK && i < HEAP_BYTES; i++)
        if (heap[i] != 0)
            code = ct_fail(ct, CT_WRONG, "the parent's heap was written");
    if (code == CT_OK && ct_count_threads() != threads)
        code = ct_fail(ct, CT_WRONG, "%ld threads where there were %ld", ct_count_threads(), threads);
    free(heap);
    return code;
}
