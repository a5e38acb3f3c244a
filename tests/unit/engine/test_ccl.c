/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Engine ccl on the fake NCCL: every operation, with pieces that are one collective of the vendor's and with
 * pieces that are not. Ranks are threads with a GPU each. Arguments: the fake NCCL, the fake driver.
 */

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/time.h"
#include "device/cuda/cuda.h"
#include "engine/ccl/calls.h"
#include "engine/ccl/engine.h"
#include "fake_nccl.h"
#include "plan/plan.h"

enum { MAX_RANKS = 4, ELEMENTS = 4096, MAX_PIECES = 8 };

static const char *fake, *driver;
/*
 * Linked, beside being opened: the thread-local variables of a library that is there from the start need no
 * memory of their own, whose end the thread sanitizer mistakes for a race.
 */
extern fake_nccl_calls_function fake_nccl_calls;
extern fake_nccl_fail_function fake_nccl_fail;

static struct hetccl_ccl_api api;

/* What all ranks do. */
static struct {
    uint32_t n_ranks;
    enum hetccl_engine_op_kind kind;
    struct hetccl_engine_piece pieces[MAX_PIECES];
    size_t n_pieces;
    uint32_t root;
    bool is_raw;
    float scale;
    bool has_pointer; /* the scale is read from the end of src when the operation runs */
    int n_times;
    enum hetccl_status expected;
} job;

struct rank {
    uint32_t number;
    pthread_t thread;
    struct hetccl_ccl_id id;
    struct hetccl_device *device;
    struct hetccl_engine *engine;
    struct hetccl_stream stream;
    float *src, *dst;
    char failure[256];
};

static bool never(void *context)
{
    return false;
}

static bool check(struct rank *rank, enum hetccl_status status, enum hetccl_status expected, const char *what)
{
    if (status == expected)
        return true;
    (void)snprintf(rank->failure, sizeof(rank->failure), "%s: status %d: %.180s", what, (int)status,
                   hetccl_last_error_thread());
    return false;
}

static bool open_rank(struct rank *rank)
{
    struct hetccl_config config = {.device = HETCCL_DEVICE_CUDA};
    static const struct hetccl_ccl_config no_config;
    struct hetccl_ccl_init_args args = {.api = &api,
                                        .n_ranks = (int)job.n_ranks,
                                        .rank = (int)rank->number,
                                        .id = rank->id,
                                        .config = &no_config,
                                        .timeout_s = 20,
                                        .must_stop = never};
    struct ncclComm *vendor = NULL;

    (void)snprintf(config.cuda_lib, sizeof(config.cuda_lib), "%s", driver);
    if (!check(rank, hetccl_device_open(&config, (int)rank->number, &rank->device), HETCCL_OK, "device"))
        return false;
    args.device = rank->device;
    return check(rank, hetccl_ccl_init(&args, &vendor), HETCCL_OK, "init") &&
           check(rank, hetccl_engine_ccl_create(&api, vendor, rank->number, job.n_ranks, &rank->engine),
                 HETCCL_OK, "engine") &&
           check(rank, rank->device->ops->stream_create(rank->device, HETCCL_STREAM_NORMAL, &rank->stream),
                 HETCCL_OK, "stream") &&
           check(rank,
                 rank->device->ops->mem_alloc(rank->device, ELEMENTS * sizeof(float), HETCCL_MEMORY_DEVICE,
                                              (void **)&rank->src),
                 HETCCL_OK, "memory") &&
           check(rank,
                 rank->device->ops->mem_alloc(rank->device, ELEMENTS * sizeof(float), HETCCL_MEMORY_DEVICE,
                                              (void **)&rank->dst),
                 HETCCL_OK, "memory");
}

static void close_rank(struct rank *rank)
{
    if (rank->engine != NULL)
        rank->engine->ops->destroy(rank->engine);
    if (rank->device == NULL)
        return;
    rank->device->ops->mem_free(rank->device, rank->src, HETCCL_MEMORY_DEVICE);
    rank->device->ops->mem_free(rank->device, rank->dst, HETCCL_MEMORY_DEVICE);
    if (rank->stream.handle != NULL)
        rank->device->ops->stream_destroy(rank->device, rank->stream);
    rank->device->ops->close(rank->device);
}

/* Element i of a rank's input. */
static float input(uint32_t rank, size_t i)
{
    return (float)(rank * 1000 + i % 512);
}

static float sum(size_t i)
{
    float value = 0;

    for (uint32_t rank = 0; rank < job.n_ranks; rank++)
        value += input(rank, i) * (job.is_raw ? job.scale : 1.0f);
    return value;
}

static void expect_range(struct rank *rank, size_t first, size_t count,
                         float (*wanted)(const struct rank *, size_t, size_t), size_t argument)
{
    for (size_t i = 0; i < count && rank->failure[0] == '\0'; i++)
        if (rank->dst[first + i] != wanted(rank, argument, i))
            (void)snprintf(rank->failure, sizeof(rank->failure), "element %zu is %g, not %g", first + i,
                           (double)rank->dst[first + i], (double)wanted(rank, argument, i));
}

static float reduced(const struct rank *rank, size_t offset, size_t i)
{
    return sum(offset + i);
}

static float from_piece(const struct rank *rank, size_t piece, size_t i)
{
    const struct hetccl_engine_piece *p = &job.pieces[piece];

    return input(p->owner, p->own_offset + i);
}

static float from_root(const struct rank *rank, size_t piece, size_t i)
{
    return input(job.root, job.pieces[piece].whole_offset + i);
}

/* What rank `owner` sent to me lies, in its source, where its own list has the piece for me. */
static float exchanged(const struct rank *rank, size_t piece, size_t i)
{
    return input(job.pieces[piece].owner, job.pieces[rank->number].own_offset + i);
}

static void check_results(struct rank *rank)
{
    for (size_t i = 0; i < job.n_pieces; i++) {
        const struct hetccl_engine_piece *piece = &job.pieces[i];
        bool is_owner = piece->owner == rank->number, is_root = job.root == rank->number;

        if (job.kind == HETCCL_ENGINE_ALLREDUCE)
            expect_range(rank, piece->whole_offset, piece->count, reduced, piece->own_offset);
        if (job.kind == HETCCL_ENGINE_REDUCE_SCATTER && is_owner)
            expect_range(rank, piece->own_offset, piece->count, reduced, piece->whole_offset);
        if (job.kind == HETCCL_ENGINE_ALLGATHER || (job.kind == HETCCL_ENGINE_GATHER && is_root))
            expect_range(rank, piece->whole_offset, piece->count, from_piece, i);
        if (job.kind == HETCCL_ENGINE_SCATTER && is_owner)
            expect_range(rank, piece->own_offset, piece->count, from_root, i);
        if (job.kind == HETCCL_ENGINE_ALLTOALL)
            expect_range(rank, piece->whole_offset, piece->count, exchanged, i);
    }
}

static void run_once(struct rank *rank)
{
    struct hetccl_engine_op op = {.kind = job.kind,
                                  .src = rank->src,
                                  .dst = rank->dst,
                                  .pieces = job.pieces,
                                  .n_pieces = job.n_pieces,
                                  .root = job.root,
                                  .type = HETCCL_FLOAT32,
                                  .red = HETCCL_SUM,
                                  .is_raw = job.is_raw};
    enum hetccl_status status;

    if (!job.has_pointer)
        memcpy(&op.scale.bits, &job.scale, sizeof(job.scale));
    for (size_t i = 0; i < ELEMENTS; i++) {
        rank->src[i] = input(rank->number, i);
        rank->dst[i] = -1.0f;
    }
    rank->src[ELEMENTS - 1] = job.scale;
    op.scale_pointer = job.has_pointer ? &rank->src[ELEMENTS - 1] : NULL;
    status = rank->engine->ops->enqueue(rank->engine, &op, rank->stream);
    if (!check(rank, status, job.expected, "enqueue") || status != HETCCL_OK)
        return;
    while (rank->device->ops->stream_query(rank->device, rank->stream) == HETCCL_AGAIN)
        hetccl_sleep_ns(10000);
    check_results(rank);
}

static void *run_rank(void *arg)
{
    struct rank *rank = arg;

    if (open_rank(rank))
        for (int i = 0; i < job.n_times && rank->failure[0] == '\0'; i++)
            run_once(rank);
    close_rank(rank);
    return NULL;
}

static void run_job(void)
{
    struct rank ranks[MAX_RANKS];
    struct hetccl_ccl_id id;

    memset(ranks, 0, sizeof(ranks));
    job.n_times = job.n_times == 0 ? 1 : job.n_times;
    assert_int_equal(api.ncclGetUniqueId(&id), 0);
    for (uint32_t i = 0; i < job.n_ranks; i++) {
        ranks[i].number = i;
        ranks[i].id = id;
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]), 0);
    }
    for (uint32_t i = 0; i < job.n_ranks; i++)
        assert_int_equal(pthread_join(ranks[i].thread, NULL), 0);
    for (uint32_t i = 0; i < job.n_ranks; i++)
        if (ranks[i].failure[0] != '\0')
            fail_msg("operation %d, rank %u: %s", (int)job.kind, i, ranks[i].failure);
}

static void clear_job(uint32_t n_ranks, enum hetccl_engine_op_kind kind)
{
    memset(&job, 0, sizeof(job));
    job.n_ranks = n_ranks;
    job.kind = kind;
    job.root = n_ranks - 1;
}

/* A piece a rank, of one size, one behind the other. */
static void set_regular(size_t count)
{
    job.n_pieces = job.n_ranks;
    for (uint32_t i = 0; i < job.n_ranks; i++)
        job.pieces[i] = (struct hetccl_engine_piece){
            .owner = i, .whole_offset = 16 + i * count, .own_offset = 8 + i * count, .count = count};
}

/* Sizes that differ, one of them 0, a gap, two pieces of one rank; whatever the operation allows. */
static void set_irregular(void)
{
    set_regular(100);
    for (uint32_t i = 0; i < job.n_ranks; i++) {
        job.pieces[i].whole_offset = 300 * i;
        job.pieces[i].own_offset = 250 * i + 3;
        job.pieces[i].count = 40 * i;
    }
    job.pieces[job.n_pieces++] =
        (struct hetccl_engine_piece){.owner = 0, .whole_offset = 1500, .own_offset = 1600, .count = 77};
}

static void expect_calls(const char *function, unsigned before, unsigned n)
{
    if (fake_nccl_calls(function) - before != n)
        fail_msg("%u calls of %s, not %u", fake_nccl_calls(function) - before, function, n);
}

static void regular_pieces_are_the_vendors_collectives(void **state)
{
    unsigned before;

    for (uint32_t n = 1; n <= MAX_RANKS; n++) {
        clear_job(n, HETCCL_ENGINE_REDUCE_SCATTER);
        set_regular(123);
        before = fake_nccl_calls("ncclReduceScatter");
        run_job();
        expect_calls("ncclReduceScatter", before, n);
        clear_job(n, HETCCL_ENGINE_ALLGATHER);
        set_regular(123);
        before = fake_nccl_calls("ncclAllGather");
        run_job();
        expect_calls("ncclAllGather", before, n);
        clear_job(n, HETCCL_ENGINE_ALLREDUCE);
        job.pieces[0] = (struct hetccl_engine_piece){.own_offset = 5, .whole_offset = 9, .count = 1000};
        job.n_pieces = 1;
        run_job();
    }
}

static void other_pieces_are_groups(void **state)
{
    static const enum hetccl_engine_op_kind kinds[] = {HETCCL_ENGINE_REDUCE_SCATTER, HETCCL_ENGINE_ALLGATHER,
                                                       HETCCL_ENGINE_GATHER, HETCCL_ENGINE_SCATTER};
    unsigned n_reduce_scatters = fake_nccl_calls("ncclReduceScatter"),
             n_groups = fake_nccl_calls("ncclGroupEnd");

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        clear_job(3, kinds[i]);
        set_irregular();
        run_job();
    }
    expect_calls("ncclReduceScatter", n_reduce_scatters, 0);
    expect_calls("ncclGroupEnd", n_groups, 4 * 3);
}

static void roots_and_exchanges(void **state)
{
    for (uint32_t root = 0; root < 3; root++) {
        clear_job(3, HETCCL_ENGINE_GATHER);
        job.root = root;
        set_regular(50);
        run_job();
        clear_job(3, HETCCL_ENGINE_SCATTER);
        job.root = root;
        set_regular(50);
        run_job();
    }
    clear_job(4, HETCCL_ENGINE_ALLTOALL);
    set_regular(60);
    run_job();
}

static void factors_are_made_once(void **state)
{
    unsigned before = fake_nccl_calls("ncclRedOpCreatePreMulSum");

    clear_job(2, HETCCL_ENGINE_REDUCE_SCATTER);
    set_regular(64);
    job.is_raw = true;
    job.scale = 0.25f;
    job.n_times = 5;
    run_job();
    expect_calls("ncclRedOpCreatePreMulSum", before, 2);
    clear_job(2, HETCCL_ENGINE_ALLREDUCE);
    job.pieces[0] = (struct hetccl_engine_piece){.count = 100};
    job.n_pieces = 1;
    job.is_raw = true;
    job.scale = 3.0f;
    run_job();
    job.has_pointer = true;
    job.scale = 0.5f;
    job.n_times = 3;
    before = fake_nccl_calls("ncclRedOpCreatePreMulSum");
    run_job();
    expect_calls("ncclRedOpCreatePreMulSum", before, 2);
}

static void failures_are_told(void **state)
{
    clear_job(1, HETCCL_ENGINE_ALLGATHER);
    set_regular(64);
    job.expected = HETCCL_ERR_REMOTE;
    fake_nccl_fail("ncclAllGather:1:6");
    run_job();
    clear_job(1, HETCCL_ENGINE_SCATTER);
    set_regular(64);
    job.pieces[0].whole_offset = 99;
    job.expected = HETCCL_ERR_SYSTEM;
    fake_nccl_fail("ncclSend:1:2");
    run_job();
    /* The group was closed all the same. */
    assert_int_equal(api.ncclGroupEnd(), 5);
}

/* ---- plans ---- */

/*
 * What the engine counts on: the pieces of one step have the same owners, counts and distances of
 * whole_offsets on all ranks of an island.
 */
static void compare_steps(const struct hetccl_plan *a, const struct hetccl_step *x,
                          const struct hetccl_plan *b, const struct hetccl_step *y)
{
    assert_int_equal(x->op, y->op);
    assert_int_equal(x->n_pieces, y->n_pieces);
    for (uint32_t i = 0; i < x->n_pieces; i++) {
        const struct hetccl_piece *p = &a->pieces[x->first_piece], *q = &b->pieces[y->first_piece];

        assert_int_equal(p[i].owner, q[i].owner);
        assert_int_equal(p[i].count, q[i].count);
        if (x->op == HETCCL_ISLAND_REDUCE_SCATTER || x->op == HETCCL_ISLAND_ALLGATHER)
            assert_int_equal(p[i].whole_offset - p[0].whole_offset, q[i].whole_offset - q[0].whole_offset);
    }
}

static const struct hetccl_step *next_island_step(const struct hetccl_plan *plan, uint32_t *step)
{
    while (*step < plan->n_steps) {
        const struct hetccl_step *found = &plan->steps[(*step)++];

        if (found->kind == HETCCL_STEP_ISLAND)
            return found;
    }
    return NULL;
}

static size_t compare_plans(const struct hetccl_plan *a, const struct hetccl_plan *b)
{
    uint32_t i = 0, k = 0;
    const struct hetccl_step *x = next_island_step(a, &i), *y = next_island_step(b, &k);
    size_t n = 0;

    while (x != NULL && y != NULL) {
        compare_steps(a, x, b, y);
        x = next_island_step(a, &i);
        y = next_island_step(b, &k);
        n++;
    }
    assert_true(x == NULL && y == NULL);
    return n;
}

static void build_topo(uint32_t n_first, uint32_t n_second, struct hetccl_topo *out)
{
    struct hetccl_rank_facts facts[8];
    struct hetccl_topo_args args = {.n_ranks = n_first + n_second, .facts = facts};

    memset(facts, 0, sizeof(facts));
    for (uint32_t i = 0; i < args.n_ranks; i++) {
        facts[i].vendor = i < n_first ? HETCCL_VENDOR_NVIDIA : HETCCL_VENDOR_AMD;
        facts[i].engine = HETCCL_ENGINE_CCL;
        facts[i].link_kinds = 1u << HETCCL_LINK_SHM | 1u << HETCCL_LINK_TCP;
    }
    for (int kind = 0; kind < HETCCL_LINK_KINDS; kind++)
        args.link_cost[kind] = hetccl_topo_default_link_cost((enum hetccl_link_kind)kind);
    for (int kind = 0; kind < HETCCL_ENGINE_KINDS; kind++)
        args.engine_cost[kind] = hetccl_topo_default_engine_cost((enum hetccl_engine_kind)kind);
    assert_int_equal(hetccl_topo_build(&args, out), HETCCL_OK);
}

static size_t compare_call(const struct hetccl_topo *topo, enum hetccl_coll coll, size_t count,
                           bool is_in_place)
{
    struct hetccl_plan_request request = {.coll = coll,
                                          .count = count,
                                          .elem_bytes = 4,
                                          .is_in_place = is_in_place,
                                          .chunk_bytes = 65536,
                                          .small_bytes = 1024,
                                          .algo = ""};
    struct hetccl_plan *first = NULL, *other = NULL;
    size_t n = 0;

    for (uint32_t rank = 0; rank < topo->n_ranks; rank++) {
        request.rank = rank;
        assert_int_equal(hetccl_plan_build(topo, &request, &other), HETCCL_OK);
        if (topo->island_rank_of[rank] == 0) {
            hetccl_plan_destroy(first);
            first = other;
            continue;
        }
        n += compare_plans(first, other);
        hetccl_plan_destroy(other);
    }
    hetccl_plan_destroy(first);
    return n;
}

static void plans_keep_what_the_engine_counts_on(void **state)
{
    static const size_t counts[] = {1, 7, 1000, 100003, 1 << 20};
    static const uint32_t shapes[][2] = {{2, 2}, {3, 2}, {4, 4}, {5, 3}, {4, 1}};
    size_t n = 0;

    for (size_t s = 0; s < 5; s++) {
        struct hetccl_topo topo;

        build_topo(shapes[s][0], shapes[s][1], &topo);
        for (int coll = 0; coll < HETCCL_P2P; coll++)
            for (size_t c = 0; c < 5 && coll != HETCCL_ALLTOALLV; c++)
                n += compare_call(&topo, (enum hetccl_coll)coll, counts[c], false) +
                     (coll != HETCCL_ALLTOALL ? compare_call(&topo, (enum hetccl_coll)coll, counts[c], true)
                                              : 0);
        hetccl_topo_fini(&topo);
    }
    assert_true(n > 500);
}

static int set_up(void **state)
{
    assert_int_equal(hetccl_ccl_open(HETCCL_CCL_NCCL, fake, &api), HETCCL_OK);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regular_pieces_are_the_vendors_collectives),
        cmocka_unit_test(other_pieces_are_groups),
        cmocka_unit_test(roots_and_exchanges),
        cmocka_unit_test(factors_are_made_once),
        cmocka_unit_test(failures_are_told),
        cmocka_unit_test(plans_keep_what_the_engine_counts_on),
    };

    if (argc != 3)
        return 2;
    fake = argv[1], driver = argv[2];
    return cmocka_run_group_tests(tests, set_up, NULL);
}
