/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every collective on GPU memory, every element compared with a serial reference, and that nothing was
 * written beside the result:
 *
 *   collectives_values [--ranks N] [--quick]       --quick: a sample, for a slow driver
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "team.h"
#include "trial.h"

enum { MAX_COUNT = 1 << 20, LIMIT_S = 240, MAX_COMPLAINTS = 4 };

static const size_t small_counts[] = {0, 1, 1021};
static const size_t large_counts[] = {300007, MAX_COUNT - 1};

struct options {
    int n_ranks;
    bool is_quick;
};

struct bench {
    struct team *team;
    const struct options *options;
    size_t max_bytes;          /* of each buffer */
    char *device[2], *host[2]; /* the host's mirror of what is there */
    unsigned n_calls, n_wrong;
};

/* Guards lie right before and after what the call may touch. */
static void copy_regions(struct bench *bench, size_t region_bytes, bool is_to_device)
{
    size_t bytes = region_bytes + 2 * HETCCL_TRIAL_GUARD_BYTES;

    for (int i = 0; i < 2; i++)
        cuda_memory_copy(bench->team->cuda, is_to_device ? bench->device[i] : bench->host[i],
                         is_to_device ? bench->host[i] : bench->device[i], bytes);
    cuda_memory_wait(bench->team->cuda);
}

static void complain(struct bench *bench, const struct hetccl_trial *trial, uint64_t n_wrong)
{
    if (bench->n_wrong++ >= MAX_COMPLAINTS)
        return;
    printf("rank %u: %s of %zu %s, %s, root %u%s: %llu wrong\n", trial->rank, hetccl_trial_name(trial->kind),
           trial->count, hetccl_reference_type_name(trial->reference.type),
           hetccl_reference_op_name(trial->reference.op), trial->root, trial->is_in_place ? ", in place" : "",
           (unsigned long long)n_wrong);
}

static void run_trial(struct bench *bench, const struct hetccl_trial *trial)
{
    size_t bytes = hetccl_trial_buffer_count(trial) * hetccl_reference_type_bytes(trial->reference.type);
    void *host_send, *host_recv, *send, *recv;
    uint64_t n_wrong;
    char *inside[2];
    ncclRedOp_t op;

    for (int i = 0; i < 2; i++)
        inside[i] = bench->host[i] + HETCCL_TRIAL_GUARD_BYTES;
    hetccl_trial_place(trial, inside[0], inside[1], &host_send, &host_recv);
    hetccl_trial_place(trial, bench->device[0] + HETCCL_TRIAL_GUARD_BYTES,
                       bench->device[1] + HETCCL_TRIAL_GUARD_BYTES, &send, &recv);
    hetccl_trial_fill(trial, host_send, host_recv);
    for (int i = 0; i < 2; i++)
        hetccl_trial_guard_paint(inside[i], bytes);
    copy_regions(bench, bytes, true);
    team_check(bench->team, hetccl_trial_op_begin(trial, bench->team->comm, &op), "hetccl_trial_op_begin");
    team_check(bench->team, hetccl_trial_run(trial, send, recv, op, bench->team->comm),
               hetccl_trial_name(trial->kind));
    hetccl_trial_op_end(trial, bench->team->comm, op);
    copy_regions(bench, bytes, false);
    n_wrong = hetccl_trial_check(trial, host_send, host_recv);
    for (int i = 0; i < 2; i++)
        n_wrong += hetccl_trial_guard_check(inside[i], bytes);
    bench->n_calls++;
    if (n_wrong > 0)
        complain(bench, trial, n_wrong);
}

static void run_places(struct bench *bench, struct hetccl_trial *trial)
{
    uint32_t last_root = hetccl_trial_has_root(trial->kind) ? trial->reference.n_ranks - 1 : 0;
    bool has_in_place = hetccl_trial_has_in_place(trial->kind);

    for (uint32_t root = 0;; root = last_root) {
        trial->root = root;
        trial->is_in_place = false;
        if (trial->kind != HETCCL_TRIAL_BCAST)
            run_trial(bench, trial);
        trial->is_in_place = true;
        if (has_in_place)
            run_trial(bench, trial);
        if (root == last_root || bench->options->is_quick)
            return;
    }
}

/* The large ones for a few types and operators only: the reference is what takes time. */
static bool is_tried_large(const struct hetccl_trial *trial)
{
    enum hetccl_reference_op op = trial->reference.op;
    ncclDataType_t type = trial->reference.type;

    return (type == ncclFloat || type == ncclBfloat16 || type == ncclInt8) &&
           (op == HETCCL_REFERENCE_COPY || op == HETCCL_REFERENCE_SUM || op == HETCCL_REFERENCE_AVG);
}

static void run_counts(struct bench *bench, struct hetccl_trial *trial)
{
    for (size_t i = 0; i < sizeof(small_counts) / sizeof(small_counts[0]); i++) {
        trial->count = small_counts[i];
        run_places(bench, trial);
    }
    for (size_t i = 0; i < sizeof(large_counts) / sizeof(large_counts[0]); i++) {
        /* Shared ones have that many over all ranks. */
        trial->count = large_counts[i] / (hetccl_trial_is_shared(trial->kind) ? trial->reference.n_ranks : 1);
        if (is_tried_large(trial) && !bench->options->is_quick)
            run_places(bench, trial);
    }
}

static void run_kind(struct bench *bench, enum hetccl_trial_kind kind)
{
    struct hetccl_trial trial = {.kind = kind, .rank = (uint32_t)bench->team->rank};

    trial.reference.n_ranks = (uint32_t)bench->team->n_ranks;
    for (int type = 0; type < HETCCL_REFERENCE_TYPES; type++) {
        if (bench->options->is_quick && type != ncclFloat && type != ncclBfloat16)
            continue;
        for (int op = 0; op < HETCCL_REFERENCE_OPS; op++) {
            if ((op == HETCCL_REFERENCE_COPY) == hetccl_trial_has_op(kind))
                continue;
            trial.reference.type = (ncclDataType_t)type;
            trial.reference.op = (enum hetccl_reference_op)op;
            trial.reference.seed++;
            run_counts(bench, &trial);
        }
    }
}

static unsigned run_all(struct team *team, void *argument)
{
    struct bench bench = {.team = team, .options = argument};
    unsigned n_calls = 0;

    bench.max_bytes = (size_t)MAX_COUNT * 8 + 2 * HETCCL_TRIAL_GUARD_BYTES;
    for (int i = 0; i < 2; i++) {
        bench.device[i] = team_alloc(team, bench.max_bytes);
        bench.host[i] = malloc(bench.max_bytes);
        if (bench.host[i] == NULL)
            abort();
    }
    for (int kind = 0; kind < HETCCL_TRIAL_KINDS; kind++) {
        double n_wrong, before = bench.n_wrong;

        run_kind(&bench, (enum hetccl_trial_kind)kind);
        n_wrong = team_sum(team, bench.n_wrong - before);
        if (team->rank == 0)
            printf("%s %s: %u calls, %.0f wrong\n", n_wrong > 0 ? "FAIL" : "ok  ",
                   hetccl_trial_name((enum hetccl_trial_kind)kind), bench.n_calls - n_calls, n_wrong);
        n_calls = bench.n_calls;
    }
    bench.n_wrong = (unsigned)team_sum(team, bench.n_wrong);
    if (team->rank == 0)
        printf("%u passed, %u failed\n", bench.n_calls * (unsigned)team->n_ranks - bench.n_wrong,
               bench.n_wrong);
    for (int i = 0; i < 2; i++) {
        team_free(team, bench.device[i]);
        free(bench.host[i]);
    }
    return bench.n_wrong;
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
