/* SPDX-License-Identifier: Apache-2.0 */
/* One call: what may be wrong with it, and how it becomes the execution of a plan. */
#include <inttypes.h>

#include "base/memory.h"
#include "comm/internal.h"

static bool is_reduction(enum hetccl_coll coll)
{
    return coll == HETCCL_ALLREDUCE || coll == HETCCL_REDUCE || coll == HETCCL_REDUCE_SCATTER;
}

static bool has_root(enum hetccl_coll coll)
{
    return coll == HETCCL_BROADCAST || coll == HETCCL_REDUCE || coll == HETCCL_GATHER ||
           coll == HETCCL_SCATTER || coll == HETCCL_P2P;
}

static bool is_integer(enum hetccl_type type)
{
    return type <= HETCCL_UINT64;
}

/* ---- checks ---- */

/* Which of the two buffers this rank's call uses. */
static void needed_buffers(const struct hetccl_comm *comm, const struct hetccl_call *call, bool *send_out,
                           bool *recv_out)
{
    bool is_root = (uint32_t)call->root == comm->rank;

    *send_out = *recv_out = true;
    switch (call->coll) {
    case HETCCL_P2P:
        *send_out = call->is_send;
        *recv_out = !call->is_send;
        break;
    case HETCCL_BROADCAST:
    case HETCCL_SCATTER:
        *send_out = is_root;
        break;
    case HETCCL_REDUCE:
    case HETCCL_GATHER:
        *recv_out = is_root;
        break;
    default:
        break;
    }
}

static enum hetccl_status check_buffers(const struct hetccl_comm *comm, const struct hetccl_call *call)
{
    bool needs_send;
    bool needs_recv;

    if (call->coll == HETCCL_ALLTOALLV) {
        if (call->send_counts == NULL || call->send_offsets == NULL || call->recv_counts == NULL ||
            call->recv_offsets == NULL)
            return hetccl_fail(HETCCL_ERR_ARG, "rank %u: alltoallv needs four arrays of counts and offsets",
                               comm->rank);
        return HETCCL_OK;
    }
    if (call->count == 0)
        return HETCCL_OK;
    needed_buffers(comm, call, &needs_send, &needs_recv);
    if ((needs_send && call->send == NULL) || (needs_recv && call->recv == NULL))
        return hetccl_fail(HETCCL_ERR_ARG, "rank %u: %s of %zu elements has a NULL %s buffer", comm->rank,
                           hetccl_coll_name(call->coll), call->count,
                           needs_send && call->send == NULL ? "send" : "receive");
    return HETCCL_OK;
}

static enum hetccl_status check_size(const struct hetccl_comm *comm, const struct hetccl_call *call)
{
    size_t bytes;

    if (!hetccl_mul_size(call->count, hetccl_type_bytes(call->type), &bytes) ||
        !hetccl_mul_size(bytes, comm->n_ranks, &bytes) || bytes > SIZE_MAX / 4)
        return hetccl_fail(HETCCL_ERR_ARG, "rank %u: %zu elements of %s are more than an address space holds",
                           comm->rank, call->count, hetccl_type_name(call->type));
    return HETCCL_OK;
}

enum hetccl_status hetccl_comm_check_call(struct hetccl_comm *comm, const struct hetccl_call *call)
{
    enum hetccl_status status = hetccl_comm_check_usable(comm);

    if (status != HETCCL_OK)
        return status;
    if (comm->is_finalized)
        return hetccl_fail(HETCCL_ERR_USAGE, "rank %u: %s after ncclCommFinalize", comm->rank,
                           hetccl_coll_name(call->coll));
    if ((unsigned)call->type >= HETCCL_API_TYPES)
        return hetccl_fail(HETCCL_ERR_ARG, "rank %u: data type %d is not one of 0 to %d", comm->rank,
                           (int)call->type, HETCCL_API_TYPES - 1);
    if (is_reduction(call->coll) && (unsigned)call->op.red >= HETCCL_REDS)
        return hetccl_fail(HETCCL_ERR_ARG, "rank %u: reduction %d is not known", comm->rank,
                           (int)call->op.red);
    if (has_root(call->coll) && (call->root < 0 || (uint32_t)call->root >= comm->n_ranks))
        return hetccl_fail(HETCCL_ERR_ARG, "rank %u: %s %d is not in 0 to %u", comm->rank,
                           call->coll == HETCCL_P2P ? "peer" : "root", call->root, comm->n_ranks - 1);
    status = check_size(comm, call);
    return status == HETCCL_OK ? check_buffers(comm, call) : status;
}

/* ---- averages of integers ---- */

/* Elements of the send and of the receive buffer of a reduction. */
static size_t send_count(const struct hetccl_comm *comm, const struct hetccl_call *call)
{
    return call->coll == HETCCL_REDUCE_SCATTER ? call->count * comm->n_ranks : call->count;
}

/* Replaces the call by the same one on widened copies, summed. */
static enum hetccl_status widen(struct hetccl_comm *comm, struct hetccl_call *call)
{
    size_t factor = hetccl_average_wide_factor(call->type);
    enum hetccl_type wide = hetccl_average_wide_type(call->type);
    size_t n_sent = send_count(comm, call);
    struct hetccl_stream stream = {call->stream};
    enum hetccl_status status;

    status = hetccl_scratch_reserve(comm, &comm->wide_send, n_sent * factor * hetccl_type_bytes(wide));
    if (status == HETCCL_OK)
        status =
            hetccl_scratch_reserve(comm, &comm->wide_recv, call->count * factor * hetccl_type_bytes(wide));
    if (status == HETCCL_OK)
        status = comm->device->ops->average_widen(comm->device, stream, comm->wide_send.memory, call->send,
                                                  n_sent, call->type, comm->n_ranks);
    if (status != HETCCL_OK)
        return status;
    hetccl_scratch_use(comm, &comm->wide_send);
    hetccl_scratch_use(comm, &comm->wide_recv);
    call->send = comm->wide_send.memory;
    call->recv = comm->wide_recv.memory;
    call->count *= factor;
    call->type = wide;
    call->op = (struct hetccl_comm_op){.red = HETCCL_SUM};
    return HETCCL_OK;
}

static enum hetccl_status narrow(struct hetccl_comm *comm, const struct hetccl_call *original)
{
    struct hetccl_stream stream = {original->stream};

    if (original->coll == HETCCL_REDUCE && (uint32_t)original->root != comm->rank)
        return HETCCL_OK;
    return comm->device->ops->average_narrow(comm->device, stream, original->recv, comm->wide_recv.memory,
                                             original->count, original->type, comm->n_ranks);
}

static bool needs_widening(const struct hetccl_call *call)
{
    return is_reduction(call->coll) && call->op.is_average && is_integer(call->type);
}

/* ---- execution ---- */

/* NCCL's meaning of "in place". Where a rank doesn't use one of the buffers the answer changes nothing. */
static bool is_in_place(const struct hetccl_comm *comm, const struct hetccl_call *call)
{
    const char *send = call->send;
    const char *recv = call->recv;
    size_t own_offset = (size_t)comm->rank * call->count * hetccl_type_bytes(call->type);

    switch (call->coll) {
    case HETCCL_ALLREDUCE:
    case HETCCL_REDUCE:
    case HETCCL_BROADCAST:
        return send == recv;
    case HETCCL_ALLGATHER:
    case HETCCL_GATHER:
        return recv != NULL && send == recv + own_offset;
    case HETCCL_REDUCE_SCATTER:
    case HETCCL_SCATTER:
        return send != NULL && recv == send + own_offset;
    default:
        return false;
    }
}

static struct hetccl_plan_request make_request(const struct hetccl_comm *comm, const struct hetccl_call *call)
{
    return (struct hetccl_plan_request){
        .coll = call->coll,
        .rank = comm->rank,
        .root = has_root(call->coll) ? (uint32_t)call->root : 0,
        .count = call->count,
        .elem_bytes = hetccl_type_bytes(call->type),
        .is_in_place = is_in_place(comm, call),
        .has_scale = is_reduction(call->coll) && (call->op.has_scale || call->op.is_average),
        .send_counts = call->send_counts,
        .send_offsets = call->send_offsets,
        .recv_counts = call->recv_counts,
        .recv_offsets = call->recv_offsets,
        .chunk_bytes = comm->has_async_ranks ? comm->config.gpu_chunk_bytes : comm->config.chunk_bytes,
        .small_bytes = comm->config.small_bytes,
        .algo = comm->config.algo,
    };
}

static struct hetccl_call_tag make_tag(const struct hetccl_comm *comm, const struct hetccl_call *call)
{
    return (struct hetccl_call_tag){
        .sequence = comm->sequence,
        .count = call->coll == HETCCL_ALLTOALLV ? 0 : call->count,
        .coll = (uint8_t)call->coll,
        .type = (uint8_t)call->type,
        .red = is_reduction(call->coll) ? (uint8_t)call->op.red : 255,
        .flags = (uint8_t)((call->op.has_scale ? 1 : 0) | (call->op.is_average ? 2 : 0)),
        .root = has_root(call->coll) ? (uint32_t)call->root : UINT32_MAX,
    };
}

static enum hetccl_status start_plan(struct hetccl_comm *comm)
{
    struct hetccl_collective *active = &comm->session.active;
    struct hetccl_plan_request request = make_request(comm, &active->call);
    enum hetccl_status status = hetccl_comm_find_plan(comm, &request, &active->cached);
    struct hetccl_run_args args;

    if (status == HETCCL_OK)
        status = hetccl_scratch_reserve(comm, &comm->scratch,
                                        active->cached->plan->scratch_count * request.elem_bytes);
    if (status != HETCCL_OK)
        return status;
    hetccl_scratch_use(comm, &comm->scratch);
    args = (struct hetccl_run_args){
        .send = active->call.send,
        .recv = active->call.recv,
        .scratch = comm->scratch.memory,
        .elem_bytes = request.elem_bytes,
        .type = active->call.type,
        .red = active->call.op.red,
        .scale = active->call.op.is_average ? hetccl_scale_of_average(active->call.type, comm->n_ranks)
                                            : active->call.op.scale,
        .scale_pointer = active->call.op.scale_pointer,
        .stream = {active->call.stream},
        .tag = comm->recent_tags[comm->sequence % HETCCL_RECENT_TAGS],
        .channel = HETCCL_CHANNEL_COLLECTIVE,
    };
    comm->last_plan = active->cached->plan->name;
    comm->last_plan_is_small = active->cached->plan->is_small;
    hetccl_run_start(active->cached->run, &args);
    return HETCCL_OK;
}

static void remember_call(struct hetccl_comm *comm, const struct hetccl_call *call)
{
    pthread_mutex_lock(&comm->calls_lock);
    comm->sequence++;
    comm->recent_tags[comm->sequence % HETCCL_RECENT_TAGS] = make_tag(comm, call);
    pthread_mutex_unlock(&comm->calls_lock);
}

enum hetccl_status hetccl_collective_start(struct hetccl_comm *comm, const struct hetccl_call *call)
{
    struct hetccl_collective *active = &comm->session.active;
    enum hetccl_status status = HETCCL_OK;

    remember_call(comm, call);
    active->original = NULL;
    if (call->count == 0 && call->coll != HETCCL_ALLTOALLV)
        return HETCCL_OK;
    active->call = *call;
    if (comm->bridge != NULL)
        status = hetccl_bridge_enter(comm->bridge, (struct hetccl_stream){call->stream});
    if (status == HETCCL_OK && needs_widening(call))
        status = widen(comm, &active->call);
    if (status == HETCCL_OK)
        status = start_plan(comm);
    if (status == HETCCL_OK)
        active->original = call;
    return status;
}

static enum hetccl_status is_connected(struct hetccl_comm *comm, const struct hetccl_call *call)
{
    struct hetccl_cached_plan *cached;
    struct hetccl_plan_request request;
    const struct hetccl_ring *ring;
    enum hetccl_status status;

    if (comm->bridge == NULL || needs_widening(call) || call->coll == HETCCL_ALLTOALLV)
        return HETCCL_AGAIN;
    if (call->coll == HETCCL_P2P)
        return (uint32_t)call->root == comm->rank
                   ? HETCCL_OK
                   : hetccl_comm_find_ring(comm, (uint32_t)call->root, HETCCL_CHANNEL_P2P, &ring);
    if (call->count == 0)
        return HETCCL_OK;
    request = make_request(comm, call);
    status = hetccl_comm_find_plan(comm, &request, &cached);
    return status == HETCCL_OK
               ? hetccl_run_connect(cached->run, request.elem_bytes, HETCCL_CHANNEL_COLLECTIVE)
               : status;
}

bool hetccl_comm_are_connected(const struct hetccl_comm_item *items, size_t n_items)
{
    bool are_connected = true;

    for (size_t i = 0; i < n_items && are_connected; i++) {
        struct hetccl_comm *comm = items[i].comm;

        atomic_fetch_add(&comm->n_inside, 1);
        are_connected = is_connected(comm, &items[i].call) == HETCCL_OK;
        atomic_fetch_sub(&comm->n_inside, 1);
    }
    return are_connected;
}

void hetccl_comm_count_run(struct hetccl_comm *comm, const struct hetccl_run *run)
{
    const struct hetccl_run_counters *counters = hetccl_run_read_counters(run);

    atomic_fetch_add_explicit(&comm->n_calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&comm->n_steps, counters->steps, memory_order_relaxed);
    atomic_fetch_add_explicit(&comm->n_cross_sent_bytes, counters->cross_sent_bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&comm->n_cross_received_bytes, counters->cross_received_bytes,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&comm->n_cross_messages, counters->cross_messages, memory_order_relaxed);
    atomic_fetch_add_explicit(&comm->n_island_operations, counters->island_operations, memory_order_relaxed);
}

enum hetccl_status hetccl_collective_finish(struct hetccl_comm *comm)
{
    struct hetccl_collective *active = &comm->session.active;
    const struct hetccl_call *original = active->original;
    enum hetccl_status status = HETCCL_OK;

    hetccl_comm_count_run(comm, active->cached->run);
    hetccl_comm_release_plan(active->cached);
    active->original = NULL;
    if (needs_widening(original))
        status = narrow(comm, original);
    if (status == HETCCL_OK && comm->bridge != NULL)
        status = hetccl_bridge_leave(comm->bridge, (struct hetccl_stream){original->stream},
                                     needs_widening(original));
    hetccl_comm_wake_progress(comm);
    return status;
}
