/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engine shm: life cycle and the walk through the ticks. See shm_engine.h for the idea, shm_peer.c for the
 * protocol.
 */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "engine/shm_engine.h"

enum { CACHED_SLOT_BYTES = 128 << 10 };

static struct hetccl_shm_engine *shm_of(struct hetccl_engine *engine)
{
    return (struct hetccl_shm_engine *)engine;
}

static enum hetccl_status fail_again(const struct hetccl_shm_engine *shm)
{
    return hetccl_fail_quietly(shm->status, "%s", shm->text);
}

/* Begins a stage at the next tick. */
static void enter(struct hetccl_shm_engine *shm, enum hetccl_shm_stage stage)
{
    shm->run.stage = stage;
    shm->run.first_tick = shm->consumed + 1;
    if (stage == HETCCL_SHM_RUN) {
        hetccl_shm_run_cut(shm);
        return;
    }
    shm->run.n_ticks = 1;
    shm->run.lookahead = 1;
}

static enum hetccl_status shm_start(struct hetccl_engine *engine, const struct hetccl_engine_op *op)
{
    struct hetccl_shm_engine *shm = shm_of(engine);
    enum hetccl_status status;

    if (shm->status != HETCCL_OK)
        return fail_again(shm);
    if (shm->run.stage != HETCCL_SHM_IDLE)
        return hetccl_shm_break(
            shm, hetccl_fail(HETCCL_ERR_INTERNAL, "an island step was started while another is in progress"));
    status = hetccl_shm_run_init(shm, op);
    if (status != HETCCL_OK)
        return hetccl_shm_break(shm, status);
    shm->base.counters.operations++;
    enter(shm, HETCCL_SHM_RUN);
    if (shm->large_state == HETCCL_SHM_LARGE_UNTRIED && hetccl_shm_run_wants_large(shm))
        enter(shm, HETCCL_SHM_HELLO);
    return HETCCL_OK;
}

static bool can_publish(const struct hetccl_shm_engine *shm)
{
    const struct hetccl_shm_run *run = &shm->run;

    return shm->published + 1 < run->first_tick + run->n_ticks &&
           shm->published - shm->consumed < run->lookahead;
}

static enum hetccl_status publish_next(struct hetccl_shm_engine *shm)
{
    uint64_t tick = shm->published + 1;
    enum hetccl_status status = HETCCL_OK;

    if (shm->run.stage == HETCCL_SHM_RUN)
        status = shm->run.method->write(shm, tick - shm->run.first_tick,
                                        hetccl_shm_payload(shm, shm->base.island_rank, tick));
    else if (shm->run.stage == HETCCL_SHM_MAP)
        status = hetccl_shm_large_prepare(shm);
    if (status == HETCCL_OK)
        hetccl_shm_publish(shm);
    return status;
}

/*
 * Takes what the peers have published of tick consumed+1, each from its right neighbour on, so that not all
 * read the same slot at once. HETCCL_OK when all are through, HETCCL_AGAIN when one hasn't published yet.
 */
static enum hetccl_status read_arrived(struct hetccl_shm_engine *shm, bool *moved)
{
    uint64_t tick = shm->consumed + 1, k = tick - shm->run.first_tick;
    enum hetccl_status status = HETCCL_OK;

    while (shm->n_arrived + 1 < shm->base.n_ranks) {
        uint32_t peer = (shm->base.island_rank + 1 + shm->n_arrived) % shm->base.n_ranks;

        status = hetccl_shm_await(shm, peer, tick);
        if (status == HETCCL_OK && shm->run.stage == HETCCL_SHM_RUN && shm->run.method->read != NULL)
            status = shm->run.method->read(shm, k, peer, hetccl_shm_payload(shm, peer, tick));
        if (status != HETCCL_OK)
            return status;
        shm->n_arrived++;
        *moved = true;
    }
    return HETCCL_OK;
}

static enum hetccl_status consume_next(struct hetccl_shm_engine *shm, bool *moved)
{
    enum hetccl_status status = read_arrived(shm, moved);

    if (status == HETCCL_OK && shm->run.stage == HETCCL_SHM_RUN)
        status = shm->run.method->finish(shm, shm->consumed + 1 - shm->run.first_tick);
    if (status != HETCCL_OK)
        return status;
    shm->consumed++;
    shm->n_arrived = 0;
    *moved = true;
    return HETCCL_OK;
}

static void leave_stage(struct hetccl_shm_engine *shm)
{
    switch (shm->run.stage) {
    case HETCCL_SHM_HELLO:
        enter(shm, HETCCL_SHM_MAP);
        break;
    case HETCCL_SHM_MAP:
        hetccl_shm_large_settle(shm);
        enter(shm, HETCCL_SHM_RUN);
        break;
    case HETCCL_SHM_RUN:
    case HETCCL_SHM_IDLE:
        shm->run.stage = HETCCL_SHM_IDLE;
        break;
    }
}

/* One call publishes what it may and consumes at most one tick, so that the caller's other work gets its
 * turn. */
static enum hetccl_status walk(struct hetccl_shm_engine *shm, bool *moved)
{
    enum hetccl_status status = HETCCL_OK;

    while (status == HETCCL_OK && can_publish(shm)) {
        status = publish_next(shm);
        *moved = *moved || status == HETCCL_OK;
    }
    if (hetccl_is_error(status) || shm->published == shm->consumed)
        return status;
    status = consume_next(shm, moved);
    if (status == HETCCL_OK && shm->consumed + 1 == shm->run.first_tick + shm->run.n_ticks)
        leave_stage(shm);
    return status;
}

static enum hetccl_status shm_progress(struct hetccl_engine *engine, bool *moved_out)
{
    struct hetccl_shm_engine *shm = shm_of(engine);
    enum hetccl_status status;

    *moved_out = false;
    if (shm->status != HETCCL_OK)
        return fail_again(shm);
    if (shm->run.stage == HETCCL_SHM_IDLE)
        return HETCCL_OK;
    status = walk(shm, moved_out);
    if (hetccl_is_error(status))
        return hetccl_shm_break(shm, status);
    return shm->run.stage == HETCCL_SHM_IDLE ? HETCCL_OK : HETCCL_AGAIN;
}

static void free_engine(struct hetccl_shm_engine *shm)
{
    hetccl_free(shm->ranks);
    hetccl_free(shm->doorbells);
    hetccl_free(shm->block);
    hetccl_free(shm->srcs);
    hetccl_free(shm->scales);
    hetccl_free(shm->first_piece);
    hetccl_free(shm->totals);
    hetccl_free(shm->section);
    hetccl_free(shm->write_at);
    hetccl_free(shm->read_at);
    hetccl_free(shm->next_piece);
    hetccl_free(shm);
}

static void shm_destroy(struct hetccl_engine *engine)
{
    struct hetccl_shm_engine *shm;

    if (engine == NULL)
        return;
    shm = shm_of(engine);
    if (getpid() == shm->pid)
        hetccl_shm_leave(shm);
    hetccl_segment_fini(&shm->large);
    free_engine(shm);
}

static const struct hetccl_engine_ops shm_ops = {
    .name = "shm", .start = shm_start, .progress = shm_progress, .destroy = shm_destroy};

size_t hetccl_engine_shm_bytes(uint32_t n_ranks)
{
    struct hetccl_shm_layout layout;

    hetccl_shm_layout_compute(n_ranks, &layout);
    return layout.bytes;
}

static enum hetccl_status check_args(const struct hetccl_engine_shm_args *args)
{
    if (args->n_ranks == 0 || args->n_ranks > HETCCL_SHM_MAX_RANKS || args->island_rank >= args->n_ranks)
        return hetccl_fail(HETCCL_ERR_ARG, "engine shm: island rank %u of %u ranks; at most %d are possible",
                           args->island_rank, args->n_ranks, HETCCL_SHM_MAX_RANKS);
    if (!args->device->ops->is_synchronous)
        return hetccl_fail(HETCCL_ERR_ARG, "engine shm works on host memory only, not on device %s",
                           args->device->ops->name);
    if (args->segment_bytes < hetccl_engine_shm_bytes(args->n_ranks) ||
        (uintptr_t)args->segment % HETCCL_CACHE_LINE != 0)
        return hetccl_fail(HETCCL_ERR_ARG, "engine shm: a segment of %zu bytes for %u ranks; %zu are needed",
                           args->segment_bytes, args->n_ranks, hetccl_engine_shm_bytes(args->n_ranks));
    return HETCCL_OK;
}

static enum hetccl_status alloc_tables(struct hetccl_shm_engine *shm)
{
    uint32_t n = shm->base.n_ranks;
    enum hetccl_status status = hetccl_alloc(n, sizeof(*shm->ranks), &shm->ranks);

    if (status == HETCCL_OK)
        status = hetccl_alloc(n, sizeof(struct hetccl_doorbell *), &shm->doorbells);
    if (status == HETCCL_OK)
        status = hetccl_alloc_aligned(1, HETCCL_SHM_BLOCK_BYTES, &shm->block);
    if (status == HETCCL_OK)
        status = hetccl_alloc(n, sizeof(*shm->srcs), &shm->srcs);
    if (status == HETCCL_OK)
        status = hetccl_alloc(n, sizeof(*shm->scales), &shm->scales);
    if (status == HETCCL_OK)
        status = hetccl_alloc(n, sizeof(*shm->first_piece), &shm->first_piece);
    if (status == HETCCL_OK)
        status = hetccl_alloc(n, sizeof(*shm->totals), &shm->totals);
    if (status == HETCCL_OK)
        status = hetccl_alloc(n, sizeof(*shm->section), &shm->section);
    if (status == HETCCL_OK)
        status = hetccl_alloc(n, sizeof(*shm->write_at), &shm->write_at);
    if (status == HETCCL_OK)
        status = hetccl_alloc(n, sizeof(*shm->read_at), &shm->read_at);
    return status;
}

/*
 * All of a rank's slots should fit its second-level cache; here 4 * 128 KiB in 512 KiB. Measured on a busy
 * machine, 128 and 256 KiB couldn't be told apart and 512 KiB was mostly, not always, slower; the least that
 * does as well takes the least memory. To be measured again on a quiet one. With many ranks a slot holds a
 * section for each.
 */
static size_t most_slot_bytes(uint32_t n_ranks)
{
    return hetccl_max_size(CACHED_SLOT_BYTES, (size_t)n_ranks * HETCCL_SHM_PAGE_BYTES);
}

/* The first rank that comes marks the segment, whoever it is; the others must mean the same island. */
static enum hetccl_status claim_segment(struct hetccl_shm_engine *shm)
{
    uint64_t magic = HETCCL_SHM_MAGIC << 24 | shm->base.n_ranks, found = 0;

    if (atomic_compare_exchange_strong(&hetccl_shm_top(shm)->magic, &found, magic) || found == magic)
        return HETCCL_OK;
    return hetccl_fail(HETCCL_ERR_INTERNAL,
                       "rank %u: the island's shared memory is marked %016" PRIx64 ", not %016" PRIx64
                       ": ranks disagree about their island or library version",
                       shm->ranks[shm->base.island_rank], found, magic);
}

enum hetccl_status hetccl_engine_shm_create(const struct hetccl_engine_shm_args *args,
                                            struct hetccl_engine **out)
{
    struct hetccl_shm_engine *shm;
    enum hetccl_status status = check_args(args);

    if (status != HETCCL_OK)
        return status;
    status = hetccl_alloc(1, sizeof(*shm), &shm);
    if (status != HETCCL_OK)
        return status;
    shm->base.ops = &shm_ops;
    shm->base.island_rank = args->island_rank;
    shm->base.n_ranks = args->n_ranks;
    shm->device = args->device;
    shm->segment = args->segment;
    shm->wanted_slot_bytes = hetccl_round_up(
        hetccl_min_size(args->slot_bytes, most_slot_bytes(args->n_ranks)), HETCCL_SHM_PAGE_BYTES);
    shm->pid = getpid();
    hetccl_shm_layout_compute(args->n_ranks, &shm->layout);
    status = alloc_tables(shm);
    if (status != HETCCL_OK)
        goto undo_alloc;
    memcpy(shm->ranks, args->ranks, args->n_ranks * sizeof(*shm->ranks));
    memcpy(shm->doorbells, args->doorbells, args->n_ranks * sizeof(struct hetccl_doorbell *));
    status = claim_segment(shm);
    if (status != HETCCL_OK)
        goto undo_alloc;
    *out = &shm->base;
    return HETCCL_OK;

undo_alloc:
    free_engine(shm);
    return status;
}
