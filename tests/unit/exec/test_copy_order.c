/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The orders of the copy mover, for calls of many shapes over rings that are much smaller than their
 * messages: nobody waits in a circle, whatever the streams share, and nothing comes before what it depends
 * on.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "queues.h"
#include "shape.h"

enum { N_SHAPES = 150, N_GROUPS = 20, MAX_MESSAGES = 100 };

static const struct {
    enum hetccl_copy_layout layout;
    enum queues_mode mode;
    const char *name;
} trials[] = {
    {HETCCL_COPY_IN_LINE, QUEUES_ONE, "in line"},
    {HETCCL_COPY_SPREAD, QUEUES_ONE, "spread, one queue"},
    {HETCCL_COPY_SPREAD, QUEUES_STREAMS, "spread, a queue a stream"},
    {HETCCL_COPY_CHAINED, QUEUES_ONE, "chained, one queue"},
    {HETCCL_COPY_CHAINED, QUEUES_EDGES, "chained, one queue in any order"},
    {HETCCL_COPY_CHAINED, QUEUES_STREAMS, "chained, a queue a stream"},
};

static struct queues_rank ranks[QUEUES_MAX_RANKS];
static uint64_t n_items, n_long; /* of all shapes; messages that no ring holds */

/* The lowering relies on a ring to hold the messages of small all-reduces inside islands: 32 KiB. */
static size_t slot_bytes(const struct hetccl_plan *plan, size_t elem_bytes)
{
    return plan->coll == HETCCL_ALLREDUCE ? 512 : elem_bytes;
}

static void build(const struct hetccl_topo *topo, const struct hetccl_plan *plan, uint32_t rank,
                  size_t elem_bytes)
{
    const struct hetccl_island *island = &topo->islands[topo->island_of[rank]];
    struct hetccl_program_args args = {.plan = plan,
                                       .elem_bytes = elem_bytes,
                                       .island_ranks = island->ranks,
                                       .n_island_ranks = island->n_ranks,
                                       .island_rank = topo->island_rank_of[rank],
                                       .slot_bytes = slot_bytes(plan, elem_bytes),
                                       .max_blocks = 64,
                                       .keeps_all_deps = true};

    assert_int_equal(hetccl_program_build(&args, &ranks[rank].program), HETCCL_OK);
    for (uint32_t i = 0; i < ranks[rank].program.n_ops; i++)
        n_long += ranks[rank].program.ops[i].kind == HETCCL_BRIDGE_SEND &&
                  ranks[rank].program.ops[i].n_pieces > HETCCL_RING_SLOTS;
}

static const char *try_all(uint32_t n_ranks, uint64_t seed, const char **trial_out)
{
    const char *fault = NULL;

    for (size_t t = 0; t < sizeof(trials) / sizeof(trials[0]) && fault == NULL; t++) {
        *trial_out = trials[t].name;
        for (uint32_t rank = 0; rank < n_ranks; rank++) {
            assert_int_equal(
                hetccl_copy_order_build(&ranks[rank].program, trials[t].layout, &ranks[rank].order),
                HETCCL_OK);
            n_items += ranks[rank].order.n_items;
            if (ranks[rank].order.n_late > 0)
                fault = "an item comes later than its time";
        }
        if (fault == NULL)
            fault = queues_run(ranks, n_ranks, trials[t].mode, seed);
        for (uint32_t rank = 0; rank < n_ranks; rank++)
            hetccl_copy_order_fini(&ranks[rank].order);
    }
    return fault;
}

static void drop(uint32_t n_ranks)
{
    for (uint32_t rank = 0; rank < n_ranks; rank++)
        hetccl_program_fini(&ranks[rank].program);
}

/* Half of the shapes are made longer, and some of them go in one chunk. */
static void make_shape(struct shape *shape, uint64_t number)
{
    shape_make(shape, 1, number * 521);
    if (shape->coll == HETCCL_ALLTOALLV || shape_pick(shape, 2) == 0)
        return;
    shape->count = 100 + shape_pick(shape, 400);
    shape->chunk_bytes = shape->elem_bytes * (8 + shape_pick(shape, 2000));
    if (shape->coll == HETCCL_ALLREDUCE) {
        shape->count *= 512 / shape->elem_bytes;
        shape->chunk_bytes *= 512 / shape->elem_bytes;
    }
}

static void test_collectives(void **state)
{
    static struct shape shape;

    (void)state;
    for (uint64_t number = 0; number < N_SHAPES; number++) {
        struct hetccl_topo topo;
        const char *fault, *trial = "";

        make_shape(&shape, number);
        assert_int_equal(shape_topo(&shape, &topo), HETCCL_OK);
        for (uint32_t rank = 0; rank < shape.n_ranks; rank++) {
            struct hetccl_plan_request request;
            struct hetccl_plan *plan = NULL;

            shape_request(&shape, rank, &request);
            assert_int_equal(hetccl_plan_build(&topo, &request, &plan), HETCCL_OK);
            build(&topo, plan, rank, shape.elem_bytes);
            hetccl_plan_destroy(plan);
        }
        fault = try_all(shape.n_ranks, number, &trial);
        drop(shape.n_ranks);
        hetccl_topo_fini(&topo);
        if (fault != NULL) {
            shape_print(&shape, stderr);
            fail_msg("shape %" PRIu64 ", %s: %s", number, trial, fault);
        }
    }
    assert_true(n_items > 100000);
    assert_true(n_long > 1000);
}

/* Messages from anybody to anybody; every rank lists its own in an order of its own, but for those that go
 * the same way. */
struct message {
    uint32_t from, to, count;
};

static size_t list_of(const struct message *messages, size_t n, uint32_t rank, struct shape *random,
                      struct hetccl_p2p *out)
{
    size_t n_out = 0, next[2 * SHAPE_MAX_RANKS] = {0};

    for (size_t i = 0; i < n; i++)
        n_out += (messages[i].from == rank) + (messages[i].to == rank);
    for (size_t k = 0; k < n_out;) {
        uint32_t lane = shape_pick(random, 2 * random->n_ranks), peer = lane / 2;
        bool is_send = lane % 2;
        size_t i = next[lane];

        while (i < n && !(is_send ? messages[i].from == rank && messages[i].to == peer
                                  : messages[i].to == rank && messages[i].from == peer))
            i++;
        next[lane] = i + (i < n);
        if (i < n)
            out[k++] = (struct hetccl_p2p){.is_send = is_send,
                                           .peer = peer,
                                           .offset = (is_send ? 1u << 20 : 0) + 1024 * i,
                                           .count = messages[i].count};
    }
    return n_out;
}

static void test_groups(void **state)
{
    static struct hetccl_p2p list[2 * MAX_MESSAGES];
    static struct message messages[MAX_MESSAGES];
    static struct shape shape;

    (void)state;
    for (uint64_t number = 0; number < N_GROUPS; number++) {
        struct hetccl_topo topo;
        const char *fault, *trial = "";
        size_t n;

        shape_make(&shape, 2, 100000 + number);
        assert_int_equal(shape_topo(&shape, &topo), HETCCL_OK);
        n = 1 + shape_pick(&shape, MAX_MESSAGES);
        for (size_t i = 0; i < n; i++)
            messages[i] =
                (struct message){shape_pick(&shape, shape.n_ranks), shape_pick(&shape, shape.n_ranks),
                                 shape_pick(&shape, 3) == 0 ? 1 + shape_pick(&shape, 1000) : 3};
        for (uint32_t rank = 0; rank < shape.n_ranks; rank++) {
            struct hetccl_plan *plan = NULL;
            size_t n_own = list_of(messages, n, rank, &shape, list);

            assert_int_equal(hetccl_plan_build_p2p(&topo, rank, list, n_own, &plan), HETCCL_OK);
            build(&topo, plan, rank, 1);
            hetccl_plan_destroy(plan);
        }
        fault = try_all(shape.n_ranks, number, &trial);
        drop(shape.n_ranks);
        hetccl_topo_fini(&topo);
        if (fault != NULL)
            fail_msg("group %" PRIu64 ", %s: %s", number, trial, fault);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_collectives),
        cmocka_unit_test(test_groups),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
