/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong between ranks, and sleeping. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/time.h"
#include "cases.h"

enum { SLOT = 64 << 10, BIG = 40000, PINGS = 10000 };

static struct hetccl_engine_op allreduce_op(float *src, float *dst, struct hetccl_engine_piece *piece,
                                            size_t count, uint64_t sequence)
{
    *piece = (struct hetccl_engine_piece){.count = count};
    return (struct hetccl_engine_op){
        .kind = HETCCL_ENGINE_ALLREDUCE,
        .src = src,
        .dst = dst,
        .pieces = piece,
        .n_pieces = 1,
        .type = HETCCL_FLOAT32,
        .tag = {.sequence = sequence, .count = count, .type = HETCCL_FLOAT32, .root = UINT32_MAX}};
}

static float source[BIG];

static int expect_failure(struct island_rank *self, enum hetccl_status status, enum hetccl_status wanted,
                          const char *const *words, size_t n_words)
{
    const char *text = hetccl_last_error_thread();

    if (status != wanted)
        return island_fail(self, "status %s, not %s: %s", hetccl_status_text(status),
                           hetccl_status_text(wanted), text);
    for (size_t i = 0; i < n_words; i++)
        if (strstr(text, words[i]) == NULL)
            return island_fail(self, "no '%s' in: %s", words[i], text);
    return 0;
}

/* After a failure every call gives the same failure. */
static int expect_sticky(struct island_rank *self, enum hetccl_status wanted,
                         const struct hetccl_engine_op *op)
{
    char text[ISLAND_TEXT_BYTES];
    bool moved = true;

    snprintf(text, sizeof(text), "%s", hetccl_last_error_thread());
    if (self->engine->ops->progress(self->engine, &moved) != wanted || moved)
        return island_fail(self, "progress isn't sticky");
    if (self->engine->ops->start(self->engine, op) != wanted)
        return island_fail(self, "start isn't sticky");
    if (strcmp(text, hetccl_last_error_thread()) != 0)
        return island_fail(self, "text changed from '%s' to '%s'", text, hetccl_last_error_thread());
    return 0;
}

enum difference {
    DIFFERENT_COUNT = 0,
    DIFFERENT_TYPE,
    DIFFERENT_OP,
    DIFFERENT_KIND,
    DIFFERENT_RAW,
    DIFFERENT_SIZE_CLASS,
    DIFFERENT_CALL,
    DIFFERENT_LAYOUT,
    DIFFERENCES
};

/* The last rank does something else than the others. */
static void make_different(enum difference difference, struct hetccl_engine_op *op,
                           struct hetccl_engine_piece *pieces)
{
    switch (difference) {
    case DIFFERENT_COUNT:
        pieces[0].count--;
        op->tag.count--;
        break;
    case DIFFERENT_TYPE:
        op->type = op->tag.type = HETCCL_INT32;
        break;
    case DIFFERENT_OP:
        op->red = op->tag.red = HETCCL_MAX;
        break;
    case DIFFERENT_KIND:
        op->kind = HETCCL_ENGINE_ALLGATHER;
        break;
    case DIFFERENT_RAW:
        op->is_raw = true;
        op->scale = hetccl_scale_one(HETCCL_FLOAT32);
        break;
    case DIFFERENT_SIZE_CLASS:
        pieces[0].count = op->tag.count = BIG;
        break;
    case DIFFERENT_CALL:
        op->tag.sequence += 1;
        break;
    case DIFFERENT_LAYOUT:
        pieces[0].owner = 1;
        break;
    case DIFFERENCES:
        break;
    }
}

static int body_mismatch(struct island_rank *self)
{
    enum difference difference = *(const enum difference *)self->body_arg;
    static const char *const words[] = {"ranks disagree", "count 100", "rank 1"};
    char odd[32], me[32];
    const char *const names[] = {odd, me};
    struct hetccl_engine_piece piece;
    float dst[100] = {0};
    float *big = self->rank + 1 == self->n_ranks
                     ? mmap(NULL, sizeof(source), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                     : dst;
    struct hetccl_engine_op op = allreduce_op(source, dst, &piece, 100, 1);
    enum hetccl_status status;

    status = island_do(self, &op);
    if (status != HETCCL_OK)
        return island_fail(self, "the agreed call: %s", hetccl_last_error_thread());
    memset(dst, 0, sizeof(dst));
    op = allreduce_op(source, big, &piece, 100, 2);
    if (difference == DIFFERENT_LAYOUT)
        op.kind = HETCCL_ENGINE_ALLGATHER;
    if (self->rank + 1 == self->n_ranks)
        make_different(difference, &op, &piece);
    status = island_do(self, &op);
    snprintf(odd, sizeof(odd), "rank %u calls", island_global_rank(self->n_ranks - 1));
    snprintf(me, sizeof(me), "rank %u calls", island_global_rank(self->rank));
    if (expect_failure(self, status, HETCCL_ERR_USAGE, names, 2) != 0 ||
        expect_failure(self, status, HETCCL_ERR_USAGE, words, 1) != 0)
        return 1;
    for (int i = 0; i < 100; i++)
        if (big[i] != 0)
            return island_fail(self, "dst was written before the ranks were compared");
    return expect_sticky(self, HETCCL_ERR_USAGE, &op);
}

static void run(uint32_t n_ranks, bool has_processes, island_body body, const void *arg)
{
    struct island_spec spec = {.n_ranks = n_ranks,
                               .slot_bytes = SLOT,
                               .has_processes = has_processes,
                               .body = body,
                               .body_arg = arg};

    assert_int_equal(island_run(&spec), 0);
}

static void test_ranks_that_disagree_are_told(void **state)
{
    for (enum difference difference = 0; difference < DIFFERENCES; difference++) {
        run(2, false, body_mismatch, &difference);
        run(4, false, body_mismatch, &difference);
        run(3, true, body_mismatch, &difference);
    }
}

static void leave(struct island_rank *self)
{
    self->engine->ops->destroy(self->engine);
    self->engine = NULL;
}

/* Rank 1 leaves after the first call while the others wait for it in the second, spinning or asleep. */
static int body_leaver(struct island_rank *self)
{
    size_t count = *(const size_t *)self->body_arg;
    struct hetccl_engine_piece piece;
    static const char *const words[] = {"rank 1003 left"};
    float *dst = mmap(NULL, sizeof(source), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct hetccl_engine_op op = allreduce_op(source, dst, &piece, count, 1);
    enum hetccl_status status = island_do(self, &op);

    if (status != HETCCL_OK)
        return island_fail(self, "the call before: %s", hetccl_last_error_thread());
    if (self->rank == 1) {
        hetccl_sleep_ns(30 * HETCCL_NS_PER_MS);
        leave(self);
        return 0;
    }
    op.tag.sequence = 2;
    status = island_do(self, &op);
    munmap(dst, sizeof(source));
    return expect_failure(self, status, HETCCL_ERR_REMOTE, words, 1) ||
           expect_sticky(self, HETCCL_ERR_REMOTE, &op);
}

static void test_a_rank_that_leaves(void **state)
{
    static const size_t counts[] = {2, BIG};

    for (size_t i = 0; i < 2; i++) {
        run(2, false, body_leaver, &counts[i]);
        run(5, false, body_leaver, &counts[i]);
        run(3, true, body_leaver, &counts[i]);
    }
}

/* What a rank published before it left is still good for those that are late. */
static int body_early_leaver(struct island_rank *self)
{
    struct hetccl_engine_piece pieces[3];
    float mine = 7.0f, all[3] = {0};
    struct hetccl_engine_op op = allreduce_op(&mine, all, pieces, 1, 1);

    for (uint32_t i = 0; i < 3; i++)
        pieces[i] = (struct hetccl_engine_piece){.owner = i, .whole_offset = i, .count = 1};
    op.kind = HETCCL_ENGINE_ALLGATHER;
    op.n_pieces = 3;
    if (self->rank == 2)
        hetccl_sleep_ns(1 * HETCCL_NS_PER_MS);
    if (island_do(self, &op) != HETCCL_OK)
        return island_fail(self, "%s", hetccl_last_error_thread());
    leave(self);
    return all[0] == 7 && all[1] == 7 && all[2] == 7 ? 0 : island_fail(self, "wrong values");
}

static void test_leaving_early_harms_nobody(void **state)
{
    for (int i = 0; i < 200; i++)
        run(3, false, body_early_leaver, NULL);
}

/* A rank whose call can't even start tells the others. */
static int body_bad_start(struct island_rank *self)
{
    static const char *const their_words[] = {"rank 1000 reported", "root 9"};
    static const char *const my_words[] = {"root 9 of 3"};
    struct hetccl_engine_piece piece;
    float dst[4];
    struct hetccl_engine_op op = allreduce_op(source, dst, &piece, 4, 1);

    op.kind = HETCCL_ENGINE_GATHER;
    op.root = self->rank == 0 ? 9 : 0;
    if (self->rank == 0)
        return expect_failure(self, island_do(self, &op), HETCCL_ERR_ARG, my_words, 1);
    return expect_failure(self, island_do(self, &op), HETCCL_ERR_REMOTE, their_words, 2);
}

static void test_a_failed_start_is_told(void **state)
{
    run(3, false, body_bad_start, NULL);
    run(3, true, body_bad_start, NULL);
}

struct fault_plan {
    enum hetccl_fault kind;
    unsigned n;    /* which point fails; UINT32_MAX: every one */
    uint32_t rank; /* where */
};

static enum hetccl_status do_big(struct island_rank *self, uint64_t sequence)
{
    struct hetccl_engine_piece piece;
    float *dst = mmap(NULL, sizeof(source), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct hetccl_engine_op op = allreduce_op(source, dst, &piece, BIG, sequence);
    enum hetccl_status status = island_do(self, &op);

    for (size_t i = 0; status == HETCCL_OK && i < BIG; i++)
        if (dst[i] != source[i] * (float)self->n_ranks)
            status = HETCCL_ERR_INTERNAL;
    munmap(dst, sizeof(source));
    return status;
}

/* The maker of the large slots meets a fault: whatever it is, the result is right on all ranks. */
static int body_maker_fault(struct island_rank *self)
{
    const struct fault_plan *plan = self->body_arg;

    if (self->rank == plan->rank)
        hetccl_fault_arm(plan->kind, plan->n);
    for (uint64_t sequence = 1; sequence <= 3; sequence++)
        if (do_big(self, sequence) != HETCCL_OK)
            return island_fail(self, "call %d: %s", (int)sequence, hetccl_last_error_thread());
    return 0;
}

static void test_large_slots_with_a_fault_at_the_maker(void **state)
{
    static const enum hetccl_fault kinds[] = {HETCCL_FAULT_FILE, HETCCL_FAULT_MMAP};

    for (size_t kind = 0; kind < 2; kind++)
        for (unsigned n = 1; n <= 4; n++) {
            struct fault_plan plan = {kinds[kind], n, 0};

            run(3, true, body_maker_fault, &plan);
        }
}

/* A rank that can't map them: it says why, the others say that it said so, nobody hangs. */
static int body_opener_fault(struct island_rank *self)
{
    const struct fault_plan *plan = self->body_arg;
    static const char *const words[] = {"rank 1006 reported", "/hetccl-"};
    enum hetccl_status status;

    if (self->rank == plan->rank)
        hetccl_fault_arm(plan->kind, plan->n);
    status = do_big(self, 1);
    if (self->rank == plan->rank)
        return expect_failure(self, status, HETCCL_ERR_SYSTEM, words + 1, 1);
    return expect_failure(self, status, HETCCL_ERR_REMOTE, words, 2);
}

static void test_large_slots_that_a_rank_cannot_map(void **state)
{
    struct fault_plan file = {HETCCL_FAULT_FILE, 1, 2}, map = {HETCCL_FAULT_MMAP, 1, 2};

    run(3, true, body_opener_fault, &file);
    run(4, true, body_opener_fault, &map);
}

/* Small calls with ranks that sleep at once: a lost ring shows as a whole wait of ISLAND_WAIT_S. */
static int body_pings(struct island_rank *self)
{
    for (uint64_t i = 1; i <= PINGS; i++) {
        struct hetccl_engine_piece piece;
        float mine = (float)(self->rank + i % 100), sum = 0;
        struct hetccl_engine_op op = allreduce_op(&mine, &sum, &piece, 1, i);
        uint64_t before = hetccl_now_ns();

        if (island_do(self, &op) != HETCCL_OK)
            return island_fail(self, "ping %d: %s", (int)i, hetccl_last_error_thread());
        if (sum != (float)(self->n_ranks * (self->n_ranks - 1) / 2 + self->n_ranks * (i % 100)))
            return island_fail(self, "ping %d: wrong sum", (int)i);
        if (hetccl_now_ns() - before >= (uint64_t)ISLAND_WAIT_S * HETCCL_NS_PER_S)
            return island_fail(self, "ping %d took %d s: a ring was lost", (int)i, ISLAND_WAIT_S);
    }
    return 0;
}

static void test_sleepers_are_always_woken(void **state)
{
    struct island_spec spec = {.n_ranks = 2, .slot_bytes = SLOT, .body = body_pings};

    assert_int_equal(island_run(&spec), 0);
    spec.has_processes = true;
    spec.n_ranks = 3;
    assert_int_equal(island_run(&spec), 0);
}

static void test_ranks_that_mean_different_islands(void **state)
{
    static _Alignas(64) uint8_t segment[256 << 10];
    uint32_t ranks[] = {5, 6, 7};
    struct hetccl_device_ops ops = {.name = "fake", .is_synchronous = true};
    struct hetccl_device device = {.ops = &ops};
    static struct hetccl_doorbell bells[3];
    struct hetccl_doorbell *doorbells[] = {&bells[0], &bells[1], &bells[2]};
    struct hetccl_engine_shm_args args = {.device = &device,
                                          .doorbells = doorbells,
                                          .segment = segment,
                                          .segment_bytes = sizeof(segment),
                                          .n_ranks = 2,
                                          .ranks = ranks,
                                          .slot_bytes = SLOT};
    struct hetccl_engine *first, *other;
    void (*destroy)(struct hetccl_engine *);

    assert_int_equal(hetccl_engine_shm_create(&args, &first), HETCCL_OK);
    args.n_ranks = 3;
    args.island_rank = 2;
    assert_int_equal(hetccl_engine_shm_create(&args, &other), HETCCL_ERR_INTERNAL);
    assert_non_null(strstr(hetccl_last_error_thread(), "rank 7"));
    args.segment_bytes = 100;
    assert_int_equal(hetccl_engine_shm_create(&args, &other), HETCCL_ERR_ARG);
    args.segment_bytes = sizeof(segment);
    ops.is_synchronous = false;
    assert_int_equal(hetccl_engine_shm_create(&args, &other), HETCCL_ERR_ARG);
    destroy = first->ops->destroy;
    destroy(first);
    destroy(NULL);
}

/* Every allocation of create may fail. */
static void test_create_without_memory(void **state)
{
    static _Alignas(64) uint8_t segment[256 << 10];
    uint32_t ranks[] = {5, 6};
    struct hetccl_device_ops ops = {.name = "fake", .is_synchronous = true};
    struct hetccl_device device = {.ops = &ops};
    static struct hetccl_doorbell bells[2];
    struct hetccl_doorbell *doorbells[] = {&bells[0], &bells[1]};
    struct hetccl_engine_shm_args args = {&device, segment, sizeof(segment), doorbells, 0, 2, ranks, SLOT};
    struct hetccl_engine *engine;
    unsigned n = 1;

    for (;; n++) {
        enum hetccl_status status;

        hetccl_fault_arm(HETCCL_FAULT_ALLOC, n);
        status = hetccl_engine_shm_create(&args, &engine);
        hetccl_fault_arm(HETCCL_FAULT_ALLOC, 0);
        if (status == HETCCL_OK)
            break;
        assert_int_equal(status, HETCCL_ERR_SYSTEM);
    }
    assert_in_range(n, 5, 20);
    engine->ops->destroy(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_that_disagree_are_told),
        cmocka_unit_test(test_a_rank_that_leaves),
        cmocka_unit_test(test_leaving_early_harms_nobody),
        cmocka_unit_test(test_a_failed_start_is_told),
        cmocka_unit_test(test_large_slots_with_a_fault_at_the_maker),
        cmocka_unit_test(test_large_slots_that_a_rank_cannot_map),
        cmocka_unit_test(test_sleepers_are_always_woken),
        cmocka_unit_test(test_ranks_that_mean_different_islands),
        cmocka_unit_test(test_create_without_memory),
    };

    for (size_t i = 0; i < BIG; i++)
        source[i] = (float)(i % 1000);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
