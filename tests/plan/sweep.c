/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans every shape for all its ranks and executes the plans symbolically, in every mode of the checker.
 * Prints "N shapes, M wrong"; exits 1 when any is wrong.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "plan/check.h"
#include "shape.h"

struct options {
    uint64_t seed, n_shapes, first;
    int coll; /* -1: all */
};

struct totals {
    uint64_t n_shapes, n_wrong, n_steps;
};

static enum hetccl_status plan_all(const struct hetccl_topo *topo, const struct hetccl_plan_request *requests,
                                   struct hetccl_plan **plans)
{
    enum hetccl_status status = HETCCL_OK;

    for (uint32_t rank = 0; rank < topo->n_ranks && status == HETCCL_OK; rank++)
        status = hetccl_plan_build(topo, &requests[rank], &plans[rank]);
    return status;
}

static enum hetccl_status check_shape(const struct shape *shape, uint64_t seed, struct totals *totals)
{
    struct hetccl_plan_request requests[SHAPE_MAX_RANKS];
    struct hetccl_plan *plans[SHAPE_MAX_RANKS] = {0};
    struct hetccl_topo topo;
    enum hetccl_status status = shape_topo(shape, &topo);

    if (status != HETCCL_OK)
        return status;
    for (uint32_t rank = 0; rank < shape->n_ranks; rank++)
        shape_request(shape, rank, &requests[rank]);
    status = plan_all(&topo, requests, plans);
    for (int mode = HETCCL_CHECK_LOOSE; mode <= HETCCL_CHECK_SEQUENTIAL && status == HETCCL_OK; mode++)
        status = hetccl_plan_check(&topo, requests, (const struct hetccl_plan *const *)plans,
                                   (enum hetccl_check_mode)mode, seed + shape->number);
    for (uint32_t rank = 0; rank < shape->n_ranks; rank++) {
        totals->n_steps += plans[rank] != NULL ? plans[rank]->n_steps : 0;
        hetccl_plan_destroy(plans[rank]);
    }
    hetccl_topo_fini(&topo);
    return status;
}

static void sweep(const struct options *options, struct totals *totals)
{
    static struct shape shape;

    for (uint64_t i = 0; i < options->n_shapes; i++) {
        shape_make(&shape, options->seed, options->first + i);
        if (options->coll >= 0 && (int)shape.coll != options->coll)
            continue;
        totals->n_shapes++;
        if (check_shape(&shape, options->seed, totals) == HETCCL_OK)
            continue;
        if (totals->n_wrong++ >= 10)
            continue;
        shape_print(&shape, stdout);
        printf("    %s\n    repeat: sweep --seed %" PRIu64 " --shape %" PRIu64 "\n",
               hetccl_last_error_thread(), options->seed, shape.number);
    }
}

static uint64_t number_of(const char *text)
{
    char *end;
    uint64_t number = strtoull(text, &end, 0);

    if (*text == '\0' || *end != '\0') {
        fprintf(stderr, "sweep: '%s' is not a number\n", text);
        exit(2);
    }
    return number;
}

static void parse(int argc, char **argv, struct options *options)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0) {
            options->seed = number_of(argv[i + 1]);
        } else if (strcmp(argv[i], "--shapes") == 0) {
            options->n_shapes = number_of(argv[i + 1]);
        } else if (strcmp(argv[i], "--shape") == 0) {
            options->first = number_of(argv[i + 1]);
            options->n_shapes = 1;
        } else if (strcmp(argv[i], "--coll") == 0) {
            options->coll = hetccl_coll_find(argv[i + 1]);
        } else {
            fprintf(stderr, "usage: sweep [--seed N] [--shapes N] [--shape N] [--coll NAME]\n");
            exit(2);
        }
    }
}

int main(int argc, char **argv)
{
    struct options options = {.seed = 1, .n_shapes = 120000, .coll = -1};
    struct totals totals = {0};

    parse(argc, argv, &options);
    sweep(&options, &totals);
    printf("%" PRIu64 " shapes, %" PRIu64 " wrong (seed %" PRIu64 ", %" PRIu64 " steps)\n", totals.n_shapes,
           totals.n_wrong, options.seed, totals.n_steps);
    return totals.n_wrong > 0 || totals.n_shapes == 0;
}
