/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the hand-over costs: an empty all-reduce of one rank through the library, against the same call by the
 * vendor's function pointer. With `stub` the vendor's function is one that returns at once, which shows the
 * cost most clearly; without, it is the one of the library that was found (the fake one, or NCCL). Prints
 * nanoseconds a call.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm/native.h"
#include "nccl.h"

enum { N_BLOCKS = 101, BLOCK_CALLS = 10000 };

static double now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static unsigned stub(const void *send, void *recv, size_t count, unsigned type, unsigned op,
                     struct ncclComm *comm, void *stream)
{
    return 0;
}

static double time_direct(const struct hetccl_comm_head *head)
{
    double start_ns = now_ns();

    for (int i = 0; i < BLOCK_CALLS; i++)
        if (head->api->ncclAllReduce(NULL, NULL, 0, ncclFloat, ncclSum, head->vendor, NULL) != 0)
            exit(1);
    return (now_ns() - start_ns) / BLOCK_CALLS;
}

static double time_through(ncclComm_t comm)
{
    double start_ns = now_ns();

    for (int i = 0; i < BLOCK_CALLS; i++)
        if (ncclAllReduce(NULL, NULL, 0, ncclFloat, ncclSum, comm, NULL) != ncclSuccess)
            exit(1);
    return (now_ns() - start_ns) / BLOCK_CALLS;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, N_BLOCKS, sizeof(*values), compare);
    return values[N_BLOCKS / 2];
}

static void measure(ncclComm_t comm, const struct hetccl_comm_head *head, const char *name)
{
    double direct[N_BLOCKS], through[N_BLOCKS], added[N_BLOCKS];

    /* In turns, so that the processor's moods strike both. */
    for (int i = 0; i < N_BLOCKS; i++) {
        direct[i] = time_direct(head);
        through[i] = time_through(comm);
        added[i] = through[i] - direct[i];
    }
    (void)printf("%s: direct %.1f ns, through the library %.1f ns, added %.1f ns\n", name, median(direct),
                 median(through), median(added));
}

int main(int argc, char **argv)
{
    ncclComm_t comm = NULL;
    struct hetccl_comm_head *head;
    struct hetccl_ccl_api api;
    ncclUniqueId id;

    if (ncclGetUniqueId(&id) != ncclSuccess || ncclCommInitRank(&comm, 1, id, 0) != ncclSuccess) {
        (void)fprintf(stderr, "%s\n", ncclGetLastError(NULL));
        return 1;
    }
    head = (struct hetccl_comm_head *)(void *)comm;
    if (head->magic != HETCCL_COMM_NATIVE) {
        (void)fprintf(stderr, "the communicator isn't native\n");
        return 1;
    }
    if (argc < 2 || strcmp(argv[1], "stub") != 0)
        measure(comm, head, head->api->path);
    api = *head->api;
    api.ncclAllReduce = stub;
    head->api = &api;
    measure(comm, head, "a function that returns at once");
    return 0;
}
