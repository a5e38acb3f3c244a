/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans drawn calls for all ranks, lowers the plans to programs of the bridge kernel and executes those, in
 * two orders each. Slots are small, so that rings wrap around. Prints "N calls, M wrong"; exits 1 when any is
 * wrong.
 *
 * With --damage yes, one operation of each call loses one of its dependencies. Some of those were implied by
 * others; exits 1 when less than a third are noticed.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "exchange.h"
#include "machine.h"

enum { MAX_RANKS = EXCHANGE_MAX_RANKS };

struct call {
    struct shape shape;
    struct exchange exchange; /* coll is HETCCL_P2P */
    size_t slot_bytes;
    uint32_t max_blocks[MAX_RANKS];
};

struct options {
    uint64_t seed, n_calls, first;
    bool must_damage;
};

struct totals {
    uint64_t n_calls, n_wrong, n_damaged, n_ops, n_wrapped, n_turns;
};

/* ---- drawing ---- */

static void draw_blocks(struct call *call)
{
    static const uint32_t choices[] = {4, 5, 16, 66};
    uint32_t same = choices[shape_pick(&call->shape, 4)];
    bool is_same = shape_pick(&call->shape, 4) > 0;

    for (uint32_t rank = 0; rank < call->shape.n_ranks; rank++)
        call->max_blocks[rank] = is_same ? same : choices[shape_pick(&call->shape, 4)];
}

static void draw_algorithm(struct shape *shape)
{
    const char *const *algorithms = hetccl_plan_algorithms(shape->coll);
    uint32_t n_algorithms = 0;

    while (algorithms[n_algorithms] != NULL)
        n_algorithms++;
    if (shape_pick(shape, 2) == 0)
        shape->algo = algorithms[shape_pick(shape, n_algorithms)];
}

/* From nothing to several times what a ring holds; blocks of many ranks are kept short. */
static uint32_t draw_count(struct call *call)
{
    static const uint32_t small_counts[] = {0, 1, 2, 3, 7, 13, 31, 61, 127, 257};
    struct shape *shape = &call->shape;
    uint32_t ring = HETCCL_RING_SLOTS * (uint32_t)(call->slot_bytes / sizeof(uint32_t)), most;
    bool has_blocks =
        shape->coll != HETCCL_ALLREDUCE && shape->coll != HETCCL_REDUCE && shape->coll != HETCCL_BROADCAST;

    most = has_blocks ? 40000 / (shape->n_ranks * shape->n_ranks) : 40000 / shape->n_ranks;
    switch (shape_pick(shape, 4)) {
    case 0:
    case 1:
        return small_counts[shape_pick(shape, sizeof(small_counts) / sizeof(small_counts[0]))];
    case 2:
        return (uint32_t)hetccl_min_size(1 + shape_pick(shape, 2 * ring), most);
    default:
        return (uint32_t)hetccl_min_size(ring * (1 + shape_pick(shape, 5)) + shape_pick(shape, 3), most);
    }
}

static void draw_call(struct call *call, bool is_large)
{
    static const size_t slots[] = {1, 2, 4, 4, 16};
    struct shape *shape = &call->shape;
    uint32_t place = shape_pick(shape, 3);

    shape->coll = (enum hetccl_coll)shape_pick(shape, HETCCL_P2P + 1);
    shape->root = shape_pick(shape, shape->n_ranks);
    shape->elem_bytes = sizeof(uint32_t);
    call->slot_bytes = sizeof(uint32_t) * slots[shape_pick(shape, sizeof(slots) / sizeof(slots[0]))];
    shape->count = draw_count(call);
    if (is_large) {
        call->slot_bytes = 4096;
        shape->count = 60000 + shape_pick(shape, 60000);
    }
    shape->chunk_bytes = shape->elem_bytes * (1 + shape->count / (1 + shape_pick(shape, 8)));
    shape->small_bytes = shape_pick(shape, 3) == 0 ? 1 << 20 : 0;
    shape->has_scale = shape_pick(shape, 2);
    for (uint32_t rank = 0; rank < shape->n_ranks; rank++)
        shape->in_place[rank] = place == 2 ? shape_pick(shape, 2) : place;
    if (shape->coll == HETCCL_P2P)
        exchange_draw(&call->exchange, shape, (uint32_t)shape->count / 3);
    else
        draw_algorithm(shape);
    if (shape->coll == HETCCL_ALLTOALLV)
        shape_draw_pairs(shape, (uint32_t)shape->count);
}

static void draw(struct call *call, uint64_t seed, uint64_t number)
{
    bool is_large = number % 256 == 255;

    shape_clear(&call->shape, seed, number);
    shape_draw_layout(&call->shape, is_large ? 2 : 4, is_large ? 2 : 4);
    draw_call(call, is_large);
    draw_blocks(call);
}

static void print_call(const struct call *call)
{
    shape_print(&call->shape, stdout);
    printf("    slots of %zu bytes, blocks at most", call->slot_bytes);
    for (uint32_t rank = 0; rank < call->shape.n_ranks; rank++)
        printf(" %u", call->max_blocks[rank]);
    printf("\n");
}

/* ---- making ---- */

static enum hetccl_status plan_rank(const struct call *call, const struct hetccl_topo *topo, uint32_t rank,
                                    struct hetccl_plan **out)
{
    struct hetccl_plan_request request;

    if (call->shape.coll == HETCCL_P2P)
        return hetccl_plan_build_p2p(topo, rank, call->exchange.items[rank], call->exchange.n_items[rank],
                                     out);
    shape_request(&call->shape, rank, &request);
    return hetccl_plan_build(topo, &request, out);
}

static enum hetccl_status make_rank(const struct call *call, const struct hetccl_topo *topo, uint32_t rank,
                                    struct hetccl_program *program, struct memory *memory)
{
    const struct hetccl_island *island = &topo->islands[topo->island_of[rank]];
    struct hetccl_program_args args = {.elem_bytes = sizeof(uint32_t),
                                       .island_ranks = island->ranks,
                                       .n_island_ranks = island->n_ranks,
                                       .island_rank = topo->island_rank_of[rank],
                                       .slot_bytes = call->slot_bytes,
                                       .max_blocks = call->max_blocks[rank]};
    struct hetccl_plan *plan = NULL;
    enum hetccl_status status = plan_rank(call, topo, rank, &plan);

    args.plan = plan;
    if (status == HETCCL_OK)
        status = hetccl_program_build(&args, program);
    if (status == HETCCL_OK && call->shape.coll == HETCCL_P2P)
        status = exchange_init_memory(&call->exchange, rank, memory);
    else if (status == HETCCL_OK)
        status = memory_init_call(memory, &call->shape, rank, plan->scratch_count);
    hetccl_plan_destroy(plan);
    return status;
}

static enum hetccl_status check_blocks(const struct hetccl_program *program, uint32_t rank,
                                       uint32_t max_blocks)
{
    uint32_t n_blocks = program->n_local_blocks + program->n_send_blocks;

    if (n_blocks > max_blocks || (n_blocks == 0) != (program->n_ops == 0))
        return hetccl_fail_quietly(HETCCL_ERR_INTERNAL, "rank %u: %u blocks for %u operations, at most %u",
                                   rank, n_blocks, program->n_ops, max_blocks);
    return HETCCL_OK;
}

static void count(const struct hetccl_program *program, struct totals *totals)
{
    totals->n_ops += program->n_ops;
    totals->n_turns += program->n_send_lanes > program->n_send_blocks;
    for (uint32_t i = program->n_local; i < program->n_ops; i++)
        if (program->ops[i].first_piece + program->ops[i].n_pieces > HETCCL_RING_SLOTS) {
            totals->n_wrapped++;
            break;
        }
}

/* Takes one dependency from some operation; false: there is none. */
static bool damage(struct call *call, struct hetccl_program *programs)
{
    struct hetccl_program *program = &programs[shape_pick(&call->shape, call->shape.n_ranks)];
    uint32_t lost = program->n_deps > 0 ? shape_pick(&call->shape, program->n_deps) : 0;

    for (uint32_t i = 0; i < program->n_ops && program->n_deps > 0; i++) {
        struct hetccl_bridge_op *op = &program->ops[i];

        if (lost < op->first_dep || lost >= op->first_dep + op->n_deps)
            continue;
        op->n_deps--;
        program->deps[lost] = program->deps[op->first_dep + op->n_deps];
        return true;
    }
    return false;
}

/* ---- the sweep ---- */

static enum hetccl_status execute(const struct call *call, const struct hetccl_program *programs,
                                  struct memory *memories)
{
    struct machine_args args = {.n_ranks = call->shape.n_ranks,
                                .programs = programs,
                                .memories = memories,
                                .slot_bytes = call->slot_bytes,
                                .order = (enum machine_order)(call->shape.number % MACHINE_ORDERS),
                                .seed = call->shape.number,
                                .must_find_races = true};
    enum hetccl_status status = machine_run(&args);

    if (status != HETCCL_OK)
        return status;
    for (uint32_t rank = 0; rank < args.n_ranks; rank++)
        memory_reset(&memories[rank], rank);
    args.order = (enum machine_order)((args.order + 1 + call->shape.number / 4 % 3) % MACHINE_ORDERS);
    args.must_find_races = false;
    return machine_run(&args);
}

static enum hetccl_status check_call(struct call *call, bool must_damage, struct totals *totals)
{
    struct hetccl_program programs[MAX_RANKS] = {{0}};
    struct memory memories[MAX_RANKS] = {{0}};
    struct hetccl_topo topo;
    enum hetccl_status status = shape_topo(&call->shape, &topo);

    if (status != HETCCL_OK)
        return status;
    for (uint32_t rank = 0; rank < call->shape.n_ranks && status == HETCCL_OK; rank++) {
        status = make_rank(call, &topo, rank, &programs[rank], &memories[rank]);
        if (status == HETCCL_OK)
            status = check_blocks(&programs[rank], rank, call->max_blocks[rank]);
        count(&programs[rank], totals);
    }
    if (status == HETCCL_OK && must_damage)
        totals->n_damaged += damage(call, programs);
    if (status == HETCCL_OK)
        status = execute(call, programs, memories);
    for (uint32_t rank = 0; rank < call->shape.n_ranks; rank++) {
        hetccl_program_fini(&programs[rank]);
        memory_fini(&memories[rank]);
    }
    hetccl_topo_fini(&topo);
    return status;
}

static void sweep(const struct options *options, struct totals *totals)
{
    static struct call call;

    for (uint64_t i = 0; i < options->n_calls; i++) {
        draw(&call, options->seed, options->first + i);
        totals->n_calls++;
        if (check_call(&call, options->must_damage, totals) == HETCCL_OK)
            continue;
        if (totals->n_wrong++ >= 10 || options->must_damage)
            continue;
        print_call(&call);
        printf("    %s\n    repeat: programs --seed %" PRIu64 " --call %" PRIu64 "\n",
               hetccl_last_error_thread(), options->seed, call.shape.number);
    }
}

static uint64_t number_of(const char *text)
{
    char *end;
    uint64_t number = strtoull(text, &end, 0);

    if (*text == '\0' || *end != '\0') {
        fprintf(stderr, "programs: '%s' is not a number\n", text);
        exit(2);
    }
    return number;
}

static void parse(int argc, char **argv, struct options *options)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0) {
            options->seed = number_of(argv[i + 1]);
        } else if (strcmp(argv[i], "--calls") == 0) {
            options->n_calls = number_of(argv[i + 1]);
        } else if (strcmp(argv[i], "--call") == 0) {
            options->first = number_of(argv[i + 1]);
            options->n_calls = 1;
        } else if (strcmp(argv[i], "--damage") == 0) {
            options->must_damage = strcmp(argv[i + 1], "yes") == 0;
        } else {
            fprintf(stderr, "usage: programs [--seed N] [--calls N] [--call N] [--damage yes]\n");
            exit(2);
        }
    }
}

int main(int argc, char **argv)
{
    struct options options = {.seed = 1, .n_calls = 6000};
    struct totals totals = {0};

    parse(argc, argv, &options);
    sweep(&options, &totals);
    printf("%" PRIu64 " calls, %" PRIu64 " wrong (seed %" PRIu64 ", %" PRIu64
           " operations; programs whose rings "
           "wrap: %" PRIu64 ", with more lanes than blocks: %" PRIu64 ")\n",
           totals.n_calls, totals.n_wrong, options.seed, totals.n_ops, totals.n_wrapped, totals.n_turns);
    if (!options.must_damage)
        return totals.n_wrong > 0 || totals.n_calls == 0;
    printf("%" PRIu64 " of them lost a dependency\n", totals.n_damaged);
    return totals.n_damaged == 0 || totals.n_wrong > totals.n_damaged ||
           totals.n_wrong * 3 < totals.n_damaged;
}
