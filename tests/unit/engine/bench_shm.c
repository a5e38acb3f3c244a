/* SPDX-License-Identifier: Apache-2.0 */
/* Times of engine shm: `meson test --benchmark`. Median of the slowest rank's times, microseconds. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/time.h"
#include "island.h"

enum { MAX_TRIALS = 5001 };

struct bench {
    enum hetccl_engine_op_kind kind;
    size_t bytes; /* the whole vector */
    int n_trials;
    float *times_us; /* shared; n_trials a rank */
};

static void *map_memory(size_t bytes, int flags)
{
    void *memory =
        mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (memory == MAP_FAILED)
        abort();
    return memory;
}

/* Each rank on a processor of its own as far as they go: where the scheduler puts ranks is not what is
 * measured. */
static void pin(uint32_t rank)
{
    cpu_set_t allowed, mine;
    int n = 0, nth;

    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) == 0)
        return;
    nth = (int)rank % CPU_COUNT(&allowed);
    CPU_ZERO(&mine);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && n++ == nth)
            CPU_SET(cpu, &mine);
    (void)sched_setaffinity(0, sizeof(mine), &mine);
}

static int body(struct island_rank *self)
{
    const struct bench *bench = self->body_arg;
    struct hetccl_engine_piece pieces[ISLAND_MAX_RANKS];
    size_t count = bench->bytes / sizeof(float), share = count / self->n_ranks;
    float *src = map_memory(bench->bytes, MAP_PRIVATE), *dst = map_memory(bench->bytes, MAP_PRIVATE);
    struct hetccl_engine_op op = {.kind = bench->kind,
                                  .src = src,
                                  .dst = dst,
                                  .pieces = pieces,
                                  .n_pieces = bench->kind == HETCCL_ENGINE_ALLREDUCE ? 1 : self->n_ranks,
                                  .type = HETCCL_FLOAT32};

    for (uint32_t i = 0; i < self->n_ranks; i++)
        pieces[i] = (struct hetccl_engine_piece){.owner = i, .whole_offset = i * share, .count = share};
    if (bench->kind == HETCCL_ENGINE_ALLREDUCE)
        pieces[0].count = count;
    pin(self->rank);
    memset(src, 0, bench->bytes);
    memset(dst, 0, bench->bytes);
    for (int trial = 0; trial < bench->n_trials; trial++) {
        uint64_t before = hetccl_now_ns();

        op.tag.sequence = (uint64_t)trial;
        if (island_do(self, &op) != HETCCL_OK)
            return island_fail(self, "%s", hetccl_last_error_thread());
        bench->times_us[(size_t)self->rank * MAX_TRIALS + (size_t)trial] =
            (float)(hetccl_now_ns() - before) / (float)HETCCL_NS_PER_US;
    }
    munmap(src, bench->bytes + 4096);
    munmap(dst, bench->bytes + 4096);
    return 0;
}

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static void measure(enum hetccl_engine_op_kind kind, uint32_t n_ranks, size_t bytes, size_t slot_bytes,
                    bool has_processes)
{
    static const char *const names[] = {"allreduce", "reduce-scatter", "allgather",
                                        "gather",    "scatter",        "alltoall"};
    struct bench bench = {.kind = kind, .bytes = bytes, .n_trials = bytes <= 65536 ? MAX_TRIALS : 101};
    struct island_spec spec = {.n_ranks = n_ranks,
                               .slot_bytes = slot_bytes,
                               .n_spins = n_ranks > 2 ? 100 : 20000,
                               .has_processes = has_processes,
                               .body = body,
                               .body_arg = &bench};
    float median;

    bench.times_us = map_memory(sizeof(float) * MAX_TRIALS * n_ranks, MAP_SHARED);
    if (bytes >= 16 << 20)
        bench.n_trials = 31;
    if (n_ranks > 2 && bytes <= 65536)
        bench.n_trials = 1001;
    if (island_run(&spec) != 0)
        exit(1);
    for (int trial = 0; trial < bench.n_trials; trial++)
        for (uint32_t rank = 1; rank < n_ranks; rank++)
            if (bench.times_us[trial] < bench.times_us[(size_t)rank * MAX_TRIALS + (size_t)trial])
                bench.times_us[trial] = bench.times_us[(size_t)rank * MAX_TRIALS + (size_t)trial];
    qsort(bench.times_us, (size_t)bench.n_trials, sizeof(float), compare_floats);
    median = bench.times_us[bench.n_trials / 2];
    printf("%-14s %u %-9s %9zu bytes, slots of %7zu: %9.2f us (best %9.2f), %6.2f GB/s\n", names[kind],
           n_ranks, has_processes ? "processes" : "threads", bytes, slot_bytes, (double)median,
           (double)bench.times_us[0], (double)bytes / (double)median / 1e3);
    munmap(bench.times_us, sizeof(float) * MAX_TRIALS * n_ranks + 4096);
}

/* Arguments: slot sizes to try in KiB; none: the default of HETCCL_SLOT_BYTES. */
int main(int argc, char **argv)
{
    static const uint32_t sizes[] = {2, 4};

    measure(HETCCL_ENGINE_ALLREDUCE, 2, 8, 256 << 10, false);
    for (size_t i = 0; i < 2; i++)
        for (size_t bytes = 8; bytes <= 65536; bytes *= 16)
            measure(HETCCL_ENGINE_ALLREDUCE, sizes[i], bytes, 256 << 10, true);
    for (int arg = argc > 1 ? 1 : 0; arg < argc; arg++) {
        size_t slot_bytes = argc > 1 ? strtoul(argv[arg], NULL, 10) << 10 : 256 << 10;

        for (size_t i = 0; i < 2; i++)
            for (int kind = HETCCL_ENGINE_ALLREDUCE; kind <= HETCCL_ENGINE_ALLGATHER; kind++)
                for (size_t bytes = 1 << 20; bytes <= 16 << 20; bytes <<= 4)
                    measure(kind, sizes[i], bytes, slot_bytes, true);
    }
    return 0;
}
