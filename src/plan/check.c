/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/check.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "plan/check_state.h"

enum { MAX_RANKS = 64 };

/* ---- the buffers of a call, as NCCL defines them ---- */

static bool is_reduction(enum hetccl_coll coll)
{
    return coll == HETCCL_ALLREDUCE || coll == HETCCL_REDUCE_SCATTER || coll == HETCCL_REDUCE;
}

static size_t extent(const size_t *offsets, const size_t *counts, uint32_t n_ranks)
{
    size_t end = 0;

    for (uint32_t i = 0; i < n_ranks; i++)
        if (counts[i] > 0)
            end = hetccl_max_size(end, offsets[i] + counts[i]);
    return end;
}

static size_t send_count(const struct hetccl_topo *topo, const struct hetccl_plan_request *r)
{
    bool is_root = r->rank == r->root;

    switch (r->coll) {
    case HETCCL_REDUCE_SCATTER:
    case HETCCL_ALLTOALL:
        return topo->n_ranks * r->count;
    case HETCCL_BROADCAST:
        return is_root ? r->count : 0;
    case HETCCL_SCATTER:
        return is_root ? topo->n_ranks * r->count : 0;
    case HETCCL_ALLTOALLV:
        return extent(r->send_offsets, r->send_counts, topo->n_ranks);
    default:
        return r->count;
    }
}

static size_t recv_count(const struct hetccl_topo *topo, const struct hetccl_plan_request *r)
{
    bool is_root = r->rank == r->root;

    switch (r->coll) {
    case HETCCL_ALLGATHER:
    case HETCCL_ALLTOALL:
        return topo->n_ranks * r->count;
    case HETCCL_REDUCE:
        return is_root ? r->count : 0;
    case HETCCL_GATHER:
        return is_root ? topo->n_ranks * r->count : 0;
    case HETCCL_ALLTOALLV:
        return extent(r->recv_offsets, r->recv_counts, topo->n_ranks);
    default:
        return r->count;
    }
}

/* Where SEND starts inside RECV (allgather, gather) or RECV inside SEND (reduce-scatter, scatter) in place.
 */
static size_t own_block(const struct hetccl_plan_request *r, bool is_of_send)
{
    bool is_send_inside = r->coll == HETCCL_ALLGATHER || r->coll == HETCCL_GATHER;
    bool is_recv_inside = r->coll == HETCCL_REDUCE_SCATTER || r->coll == HETCCL_SCATTER;

    if (!r->is_in_place || !(is_of_send ? is_send_inside : is_recv_inside))
        return 0;
    return r->rank * r->count;
}

/* ---- what must be in the result ---- */

static struct hetccl_cell cell_of(uint32_t rank, size_t element)
{
    return (struct hetccl_cell){.ranks = UINT64_C(1) << rank, .id = element};
}

static void expect_alltoallv(struct hetccl_check *c, const struct hetccl_plan_request *r,
                             struct hetccl_cell *recv)
{
    for (uint32_t from = 0; from < c->topo->n_ranks; from++)
        for (size_t i = 0; i < r->recv_counts[from]; i++)
            recv[r->recv_offsets[from] + i] = cell_of(from, c->requests[from].send_offsets[r->rank] + i);
}

static struct hetccl_cell expected_cell(const struct hetccl_check *c, const struct hetccl_plan_request *r,
                                        size_t i)
{
    struct hetccl_cell everybody = {.ranks = UINT64_MAX >> (MAX_RANKS - c->topo->n_ranks), .id = i};

    switch (r->coll) {
    case HETCCL_ALLGATHER:
    case HETCCL_GATHER:
        return cell_of((uint32_t)(i / r->count), i % r->count);
    case HETCCL_REDUCE_SCATTER:
        everybody.id += r->rank * r->count;
        return everybody;
    case HETCCL_BROADCAST:
        return cell_of(r->root, i);
    case HETCCL_ALLTOALL:
        return cell_of((uint32_t)(i / r->count), r->rank * r->count + i % r->count);
    case HETCCL_SCATTER:
        return cell_of(r->root, r->rank * r->count + i);
    default:
        return everybody;
    }
}

/* ---- making and comparing ---- */

static enum hetccl_status make_buffers(struct hetccl_check *c, const struct hetccl_plan_request *r)
{
    size_t n_send = send_count(c->topo, r), n_recv = recv_count(c->topo, r), n_scratch;
    size_t send_start = own_block(r, true), recv_start = own_block(r, false);
    struct hetccl_cells *memory = &c->memories[r->rank], *buffers = c->buffers[r->rank];
    enum hetccl_status status;

    if (!r->is_in_place)
        recv_start = n_send;
    memory->count = hetccl_max_size(send_start + n_send, recv_start + n_recv);
    status = hetccl_alloc(memory->count, sizeof(struct hetccl_cell), &memory->cells);
    if (status != HETCCL_OK)
        return status;
    n_scratch = c->plans[r->rank]->scratch_count;
    status = hetccl_alloc(n_scratch, sizeof(struct hetccl_cell), &buffers[HETCCL_BUF_SCRATCH].cells);
    if (status != HETCCL_OK)
        return status;
    buffers[HETCCL_BUF_SCRATCH].count = n_scratch;
    buffers[HETCCL_BUF_SEND] = (struct hetccl_cells){memory->cells + send_start, n_send};
    buffers[HETCCL_BUF_RECV] = (struct hetccl_cells){memory->cells + recv_start, n_recv};
    c->recv_starts[r->rank] = recv_start;
    for (size_t i = 0; i < n_send; i++) {
        buffers[HETCCL_BUF_SEND].cells[i] = cell_of(r->rank, i);
        if (c->is_reduction && c->has_scale)
            buffers[HETCCL_BUF_SEND].cells[i].id |= HETCCL_CELL_RAW;
    }
    return HETCCL_OK;
}

/* The memory as it must be in the end: as it is now, but for the result. */
static enum hetccl_status make_expected(struct hetccl_check *c, const struct hetccl_plan_request *r)
{
    struct hetccl_cells *expected = &c->expected[r->rank];
    const struct hetccl_cells *memory = &c->memories[r->rank];
    struct hetccl_cell *recv;
    enum hetccl_status status = hetccl_alloc(memory->count, sizeof(struct hetccl_cell), &expected->cells);

    if (status != HETCCL_OK)
        return status;
    expected->count = memory->count;
    if (memory->count > 0)
        memcpy(expected->cells, memory->cells, memory->count * sizeof(struct hetccl_cell));
    recv = expected->cells + c->recv_starts[r->rank];
    if (r->coll == HETCCL_ALLTOALLV)
        expect_alltoallv(c, r, recv);
    else
        for (size_t i = 0; i < recv_count(c->topo, r); i++)
            recv[i] = expected_cell(c, r, i);
    return HETCCL_OK;
}

static enum hetccl_status make_memory(struct hetccl_check *c)
{
    uint32_t n_ranks = c->topo->n_ranks;
    enum hetccl_status status = hetccl_alloc(n_ranks, sizeof(*c->buffers), &c->buffers);

    if (status == HETCCL_OK)
        status = hetccl_alloc(n_ranks, sizeof(*c->memories), &c->memories);
    if (status == HETCCL_OK)
        status = hetccl_alloc(n_ranks, sizeof(*c->expected), &c->expected);
    if (status == HETCCL_OK)
        status = hetccl_alloc(n_ranks, sizeof(*c->recv_starts), &c->recv_starts);
    for (uint32_t rank = 0; rank < n_ranks && status == HETCCL_OK; rank++) {
        status = make_buffers(c, &c->requests[rank]);
        if (status == HETCCL_OK)
            status = make_expected(c, &c->requests[rank]);
    }
    return status;
}

static void free_memory(struct hetccl_check *c)
{
    for (uint32_t rank = 0; rank < c->topo->n_ranks; rank++) {
        if (c->memories != NULL)
            hetccl_free(c->memories[rank].cells);
        if (c->expected != NULL)
            hetccl_free(c->expected[rank].cells);
        if (c->buffers != NULL)
            hetccl_free(c->buffers[rank][HETCCL_BUF_SCRATCH].cells);
    }
    hetccl_free(c->memories);
    hetccl_free(c->expected);
    hetccl_free(c->buffers);
    hetccl_free(c->recv_starts);
}

static enum hetccl_status compare_memory(const struct hetccl_check *c, uint32_t rank)
{
    const struct hetccl_cells *expected = &c->expected[rank], *memory = &c->memories[rank];

    for (size_t i = 0; i < memory->count; i++) {
        const struct hetccl_cell *want = &expected->cells[i], *have = &memory->cells[i];

        if (want->ranks != have->ranks || want->id != have->id)
            return hetccl_fail_quietly(
                HETCCL_ERR_INTERNAL,
                "rank %u: memory element %zu (RECV starts at %zu) is element %" PRIx64 " of ranks %#" PRIx64
                " in the end, not element %" PRIx64 " of ranks %#" PRIx64,
                rank, i, c->recv_starts[rank], have->id, have->ranks, want->id, want->ranks);
    }
    return HETCCL_OK;
}

/* ---- bytes across islands, and what all ranks must have decided alike ---- */

static enum hetccl_status check_cross_bytes(const struct hetccl_check *c)
{
    const struct hetccl_plan_request *r = &c->requests[0];
    uint64_t bound = hetccl_plan_bound_bytes(c->topo, r->coll, r->count, r->elem_bytes, r->root), total = 0;

    for (uint32_t rank = 0; rank < c->topo->n_ranks; rank++) {
        const struct hetccl_plan *plan = c->plans[rank];
        uint64_t sent = 0;

        for (uint32_t i = 0; i < plan->n_steps; i++)
            if (plan->steps[i].kind == HETCCL_STEP_SEND &&
                c->topo->island_of[plan->steps[i].peer] != c->topo->island_of[rank])
                sent += plan->steps[i].src.count;
        if (sent != plan->cross_count)
            return hetccl_fail_quietly(HETCCL_ERR_INTERNAL,
                                       "rank %u sends %" PRIu64 " elements across, not %" PRIu64, rank, sent,
                                       plan->cross_count);
        total += sent * r->elem_bytes;
    }
    if (r->coll != HETCCL_ALLTOALLV && !c->plans[0]->is_small && total != bound)
        return hetccl_fail_quietly(HETCCL_ERR_INTERNAL,
                                   "%" PRIu64 " bytes cross between islands, the bound is %" PRIu64, total,
                                   bound);
    return HETCCL_OK;
}

static enum hetccl_status check_agreement(const struct hetccl_check *c)
{
    const struct hetccl_plan *first = c->plans[0];

    for (uint32_t rank = 0; rank < c->topo->n_ranks; rank++) {
        const struct hetccl_plan *plan = c->plans[rank];

        if (plan->rank != rank || plan->coll != c->requests[0].coll)
            return hetccl_fail_quietly(HETCCL_ERR_INTERNAL, "rank %u: plan of rank %u, %s", rank, plan->rank,
                                       hetccl_coll_name(plan->coll));
        if (plan->decision_hash != first->decision_hash || strcmp(plan->name, first->name) != 0 ||
            plan->is_small != first->is_small || plan->n_chunks != first->n_chunks ||
            memcmp(&plan->predicted_us, &first->predicted_us, sizeof(double)) != 0)
            return hetccl_fail_quietly(HETCCL_ERR_INTERNAL,
                                       "rank %u decided for %s in %u chunks, rank 0 for %s in %u", rank,
                                       plan->name, plan->n_chunks, first->name, first->n_chunks);
    }
    return HETCCL_OK;
}

enum hetccl_status hetccl_plan_check(const struct hetccl_topo *topo,
                                     const struct hetccl_plan_request *requests,
                                     const struct hetccl_plan *const *plans, enum hetccl_check_mode mode,
                                     uint64_t seed)
{
    struct hetccl_check c = {
        .topo = topo, .requests = requests, .plans = plans, .mode = mode, .random = seed};
    enum hetccl_status status;

    if (topo->n_ranks > MAX_RANKS)
        return hetccl_fail_quietly(HETCCL_ERR_INTERNAL, "%u ranks; symbolic execution takes at most %d",
                                   topo->n_ranks, MAX_RANKS);
    c.is_reduction = is_reduction(requests[0].coll);
    c.has_scale = requests[0].has_scale;
    status = check_agreement(&c);
    if (status == HETCCL_OK)
        status = check_cross_bytes(&c);
    if (status != HETCCL_OK)
        return status;
    status = make_memory(&c);
    if (status == HETCCL_OK)
        status = hetccl_check_run(&c);
    if (status == HETCCL_OK && mode == HETCCL_CHECK_STRICT)
        status = hetccl_check_times(&c);
    for (uint32_t rank = 0; rank < topo->n_ranks && status == HETCCL_OK; rank++)
        status = compare_memory(&c, rank);
    hetccl_check_run_fini(&c);
    free_memory(&c);
    return status;
}
