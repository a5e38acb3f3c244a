/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations with pieces as calls of the vendor's library. Where the pieces are what one of its collectives
 * does (one a rank, of one size, one behind the other) it is that collective; else a group of calls, one a
 * piece.
 *
 * All ranks must come to the same choice. Owners and counts of pieces are equal on all ranks, and so are, in
 * every plan, the distances between the pieces' whole_offsets: the whole is the same stretch of the call's
 * data on every rank. own_offset may differ and decides nothing.
 */
#include "engine/ccl/engine.h"

#include "base/memory.h"
#include "engine/ccl/calls.h"

enum { N_FACTORS = 16, END_MS = 2000 };

/* An operator "multiply by the factor, then add", kept for the next call with this factor. */
struct factor {
    enum hetccl_type type;
    const void *pointer; /* to the factor in device memory; NULL: bits */
    uint64_t bits;
    unsigned op;
};

struct ccl_engine {
    struct hetccl_engine base; /* first */
    const struct hetccl_ccl_api *api;
    struct ncclComm *vendor;
    struct factor factors[N_FACTORS];
    size_t n_factors, next_factor; /* to be replaced when all are taken */
};

static struct ccl_engine *ccl_of(struct hetccl_engine *engine)
{
    return (struct ccl_engine *)(void *)engine;
}

/* One operation under way. */
struct job {
    struct ccl_engine *engine;
    const struct hetccl_engine_op *op;
    size_t elem_bytes;
    unsigned type, red; /* the vendor's numbers */
    void *stream;
};

static const char *source(const struct job *job, size_t offset)
{
    return (const char *)job->op->src + offset * job->elem_bytes;
}

static char *target(const struct job *job, size_t offset)
{
    return (char *)job->op->dst + offset * job->elem_bytes;
}

static enum hetccl_status check(const struct job *job, unsigned code, const char *function)
{
    return hetccl_ccl_check(job->engine->api, code, function);
}

/* ---- operators ---- */

static const struct factor *find_factor(const struct ccl_engine *engine, const struct factor *wanted)
{
    for (size_t i = 0; i < engine->n_factors; i++) {
        const struct factor *factor = &engine->factors[i];

        if (factor->type == wanted->type && factor->pointer == wanted->pointer &&
            factor->bits == wanted->bits)
            return factor;
    }
    return NULL;
}

/* An operator is read when a call is made, so an old one may go while its calls still run. */
static void keep_factor(struct ccl_engine *engine, const struct factor *made)
{
    if (engine->n_factors < N_FACTORS) {
        engine->factors[engine->n_factors++] = *made;
        return;
    }
    (void)engine->api->ncclRedOpDestroy(engine->factors[engine->next_factor].op, engine->vendor);
    engine->factors[engine->next_factor] = *made;
    engine->next_factor = (engine->next_factor + 1) % N_FACTORS;
}

static enum hetccl_status make_factor(struct job *job, const struct factor *wanted, unsigned *op_out)
{
    struct ccl_engine *engine = job->engine;
    struct factor made = *wanted;
    uint64_t bits = wanted->bits;
    bool is_on_device = wanted->pointer != NULL;
    void *scalar = is_on_device ? (void *)(uintptr_t)wanted->pointer : &bits;
    unsigned code = engine->api->ncclRedOpCreatePreMulSum(
        &made.op, scalar, job->type, is_on_device ? HETCCL_CCL_ON_DEVICE : HETCCL_CCL_HOST_IMMEDIATE,
        engine->vendor);
    enum hetccl_status status = check(job, code, "ncclRedOpCreatePreMulSum");

    if (status != HETCCL_OK)
        return status;
    keep_factor(engine, &made);
    *op_out = made.op;
    return HETCCL_OK;
}

static enum hetccl_status choose_operator(struct job *job)
{
    static const unsigned plain[HETCCL_REDS] = {
        [HETCCL_SUM] = 0, [HETCCL_PROD] = 1, [HETCCL_MAX] = 2, [HETCCL_MIN] = 3};
    const struct hetccl_engine_op *op = job->op;
    struct factor wanted = {.type = op->type,
                            .pointer = op->scale_pointer,
                            .bits = op->scale_pointer == NULL ? op->scale.bits : 0};
    const struct factor *factor;

    job->red = plain[op->red];
    if (!op->is_raw)
        return HETCCL_OK;
    if (op->red != HETCCL_SUM)
        return hetccl_fail(HETCCL_ERR_INTERNAL, "a factor with an operator other than sum");
    factor = find_factor(job->engine, &wanted);
    if (factor == NULL)
        return make_factor(job, &wanted, &job->red);
    job->red = factor->op;
    return HETCCL_OK;
}

/* ---- pieces ---- */

/* One piece a rank, in their order, all of one size, one behind the other. */
static bool is_regular(const struct job *job)
{
    const struct hetccl_engine_piece *pieces = job->op->pieces;

    if (job->op->n_pieces != job->engine->base.n_ranks)
        return false;
    for (size_t i = 0; i < job->op->n_pieces; i++)
        if (pieces[i].owner != i || pieces[i].count != pieces[0].count ||
            pieces[i].whole_offset != pieces[0].whole_offset + i * pieces[0].count)
            return false;
    return true;
}

typedef enum hetccl_status piece_function(const struct job *job, const struct hetccl_engine_piece *piece);

/* A call a piece, all of them as one group. The group is closed after a failure too. */
static enum hetccl_status run_pieces(const struct job *job, piece_function *run)
{
    const struct hetccl_ccl_api *api = job->engine->api;
    enum hetccl_status status = check(job, api->ncclGroupStart(), "ncclGroupStart");
    unsigned code;

    if (status != HETCCL_OK)
        return status;
    for (size_t i = 0; i < job->op->n_pieces && status == HETCCL_OK; i++)
        if (job->op->pieces[i].count > 0)
            status = run(job, &job->op->pieces[i]);
    code = api->ncclGroupEnd();
    return status == HETCCL_OK ? check(job, code, "ncclGroupEnd") : status;
}

static enum hetccl_status all_reduce(const struct job *job, const struct hetccl_engine_piece *piece)
{
    struct ccl_engine *engine = job->engine;

    return check(job,
                 engine->api->ncclAllReduce(source(job, piece->own_offset), target(job, piece->whole_offset),
                                            piece->count, job->type, job->red, engine->vendor, job->stream),
                 "ncclAllReduce");
}

static enum hetccl_status reduce(const struct job *job, const struct hetccl_engine_piece *piece)
{
    struct ccl_engine *engine = job->engine;
    void *dst = piece->owner == engine->base.island_rank ? target(job, piece->own_offset) : NULL;

    return check(job,
                 engine->api->ncclReduce(source(job, piece->whole_offset), dst, piece->count, job->type,
                                         job->red, (int)piece->owner, engine->vendor, job->stream),
                 "ncclReduce");
}

static enum hetccl_status reduce_scatter(const struct job *job)
{
    struct ccl_engine *engine = job->engine;
    const struct hetccl_engine_piece *pieces = job->op->pieces;

    if (!is_regular(job))
        return run_pieces(job, reduce);
    return check(job,
                 engine->api->ncclReduceScatter(source(job, pieces[0].whole_offset),
                                                target(job, pieces[engine->base.island_rank].own_offset),
                                                pieces[0].count, job->type, job->red, engine->vendor,
                                                job->stream),
                 "ncclReduceScatter");
}

static enum hetccl_status broadcast(const struct job *job, const struct hetccl_engine_piece *piece)
{
    struct ccl_engine *engine = job->engine;
    const void *src = piece->owner == engine->base.island_rank ? source(job, piece->own_offset) : NULL;

    return check(job,
                 engine->api->ncclBroadcast(src, target(job, piece->whole_offset), piece->count, job->type,
                                            (int)piece->owner, engine->vendor, job->stream),
                 "ncclBroadcast");
}

static enum hetccl_status all_gather(const struct job *job)
{
    struct ccl_engine *engine = job->engine;
    const struct hetccl_engine_piece *pieces = job->op->pieces;

    if (!is_regular(job))
        return run_pieces(job, broadcast);
    return check(job,
                 engine->api->ncclAllGather(source(job, pieces[engine->base.island_rank].own_offset),
                                            target(job, pieces[0].whole_offset), pieces[0].count, job->type,
                                            engine->vendor, job->stream),
                 "ncclAllGather");
}

/*
 * What one rank sends and receives for a piece. Both at once is a rank's message to itself, which is needless
 * where it lies there already.
 */
static enum hetccl_status exchange(const struct job *job, const struct hetccl_engine_piece *piece,
                                   bool is_sender, uint32_t to, bool is_receiver, uint32_t from,
                                   const size_t offsets[2])
{
    struct ccl_engine *engine = job->engine;
    const void *src = source(job, offsets[0]);
    void *dst = target(job, offsets[1]);
    enum hetccl_status status = HETCCL_OK;

    if (is_sender && is_receiver && to == engine->base.island_rank && src == dst)
        return HETCCL_OK;
    if (is_sender)
        status = check(
            job, engine->api->ncclSend(src, piece->count, job->type, (int)to, engine->vendor, job->stream),
            "ncclSend");
    if (status == HETCCL_OK && is_receiver)
        status = check(
            job, engine->api->ncclRecv(dst, piece->count, job->type, (int)from, engine->vendor, job->stream),
            "ncclRecv");
    return status;
}

static enum hetccl_status gather(const struct job *job, const struct hetccl_engine_piece *piece)
{
    uint32_t own = job->engine->base.island_rank, root = job->op->root;

    return exchange(job, piece, own == piece->owner, root, own == root, piece->owner,
                    (const size_t[]){piece->own_offset, piece->whole_offset});
}

static enum hetccl_status scatter(const struct job *job, const struct hetccl_engine_piece *piece)
{
    uint32_t own = job->engine->base.island_rank, root = job->op->root;

    return exchange(job, piece, own == root, piece->owner, own == piece->owner, root,
                    (const size_t[]){piece->whole_offset, piece->own_offset});
}

static enum hetccl_status all_to_all(const struct job *job, const struct hetccl_engine_piece *piece)
{
    return exchange(job, piece, true, piece->owner, true, piece->owner,
                    (const size_t[]){piece->own_offset, piece->whole_offset});
}

/* ---- the engine ---- */

static enum hetccl_status run(struct job *job)
{
    enum hetccl_status status;

    switch (job->op->kind) {
    case HETCCL_ENGINE_ALLREDUCE:
        status = choose_operator(job);
        return status == HETCCL_OK ? run_pieces(job, all_reduce) : status;
    case HETCCL_ENGINE_REDUCE_SCATTER:
        status = choose_operator(job);
        return status == HETCCL_OK ? reduce_scatter(job) : status;
    case HETCCL_ENGINE_ALLGATHER:
        return all_gather(job);
    case HETCCL_ENGINE_GATHER:
        return run_pieces(job, gather);
    case HETCCL_ENGINE_SCATTER:
        return run_pieces(job, scatter);
    case HETCCL_ENGINE_ALLTOALL:
        return run_pieces(job, all_to_all);
    }
    return hetccl_fail(HETCCL_ERR_INTERNAL, "island operation %d is unknown", (int)job->op->kind);
}

static enum hetccl_status ccl_enqueue(struct hetccl_engine *engine, const struct hetccl_engine_op *op,
                                      struct hetccl_stream stream)
{
    struct job job = {.engine = ccl_of(engine),
                      .op = op,
                      .elem_bytes = hetccl_type_bytes(op->type),
                      .type = (unsigned)op->type,
                      .stream = stream.handle};

    if ((unsigned)op->type >= HETCCL_API_TYPES)
        return hetccl_fail(HETCCL_ERR_USAGE, "%s has no type %s", job.engine->api->name,
                           hetccl_type_name(op->type));
    engine->counters.operations++;
    return op->n_pieces > 0 ? run(&job) : HETCCL_OK;
}

static enum hetccl_status refuse_start(struct hetccl_engine *engine, const struct hetccl_engine_op *op)
{
    return hetccl_fail(HETCCL_ERR_INTERNAL, "engine ccl was started; its operations are enqueued");
}

static enum hetccl_status refuse_progress(struct hetccl_engine *engine, bool *moved_out)
{
    return hetccl_fail(HETCCL_ERR_INTERNAL, "engine ccl was driven; its operations are enqueued");
}

static void ccl_destroy(struct hetccl_engine *engine)
{
    struct ccl_engine *ccl = ccl_of(engine);

    if (engine == NULL)
        return;
    (void)hetccl_ccl_end(ccl->api, ccl->vendor, engine->must_abort, END_MS);
    hetccl_free(ccl);
}

static const struct hetccl_engine_ops ccl_ops = {.name = "ccl",
                                                 .start = refuse_start,
                                                 .progress = refuse_progress,
                                                 .enqueue = ccl_enqueue,
                                                 .destroy = ccl_destroy};

enum hetccl_status hetccl_engine_ccl_create(const struct hetccl_ccl_api *api, struct ncclComm *vendor,
                                            uint32_t island_rank, uint32_t n_ranks,
                                            struct hetccl_engine **out)
{
    struct ccl_engine *engine;
    enum hetccl_status status = hetccl_alloc(1, sizeof(*engine), &engine);

    if (status != HETCCL_OK) {
        (void)hetccl_ccl_end(api, vendor, true, END_MS);
        return status;
    }
    engine->base = (struct hetccl_engine){.ops = &ccl_ops, .island_rank = island_rank, .n_ranks = n_ranks};
    engine->api = api;
    engine->vendor = vendor;
    *out = &engine->base;
    return HETCCL_OK;
}
