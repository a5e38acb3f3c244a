/* SPDX-License-Identifier: Apache-2.0 */
#include "api/enqueue.h"

#include <string.h>

#include "api/group.h"
#include "api/native.h"
#include "api/redop.h"
#include "base/memory.h"

/* Which collectives have a root, or a peer. */
static bool has_root(enum hetccl_coll coll)
{
    return coll == HETCCL_BROADCAST || coll == HETCCL_REDUCE || coll == HETCCL_GATHER ||
           coll == HETCCL_SCATTER || coll == HETCCL_P2P;
}

static enum hetccl_status check_root(const struct hetccl_request *request, const struct hetccl_comm *comm)
{
    int root = request->call.root;
    int n_ranks = hetccl_comm_n_ranks(comm);

    if (!has_root(request->call.coll) || (root >= 0 && root < n_ranks))
        return HETCCL_OK;
    return hetccl_fail(HETCCL_ERR_ARG, "%s: %s %d is not a rank of the communicator, which has 0 to %d",
                       request->function, request->call.coll == HETCCL_P2P ? "peer" : "root", root,
                       n_ranks - 1);
}

static enum hetccl_status check_type(const struct hetccl_request *request)
{
    if (request->type >= 0 && request->type < ncclNumTypes)
        return HETCCL_OK;
    return hetccl_fail(HETCCL_ERR_ARG, "%s: type %d is unknown: it takes 0 to %d", request->function,
                       request->type, ncclNumTypes - 1);
}

static bool needs_send(const struct hetccl_call *call, bool is_root)
{
    if (call->coll == HETCCL_P2P)
        return call->is_send;
    return is_root || (call->coll != HETCCL_BROADCAST && call->coll != HETCCL_SCATTER);
}

static bool needs_recv(const struct hetccl_call *call, bool is_root)
{
    if (call->coll == HETCCL_P2P)
        return !call->is_send;
    return is_root || (call->coll != HETCCL_REDUCE && call->coll != HETCCL_GATHER);
}

static enum hetccl_status check_vectors(const struct hetccl_request *request)
{
    const struct hetccl_call *call = &request->call;

    if (call->coll != HETCCL_ALLTOALLV || (call->send_counts != NULL && call->send_offsets != NULL &&
                                           call->recv_counts != NULL && call->recv_offsets != NULL))
        return HETCCL_OK;
    return hetccl_fail(HETCCL_ERR_ARG, "%s: an array of counts or displacements is NULL", request->function);
}

/* The largest buffer of a call, in bytes, must be a number. */
static enum hetccl_status check_extent(const struct hetccl_request *request, const struct hetccl_comm *comm)
{
    size_t bytes;

    if (hetccl_mul_size(request->call.count, hetccl_type_bytes(request->call.type), &bytes) &&
        hetccl_mul_size(bytes, (size_t)hetccl_comm_n_ranks(comm), &bytes))
        return HETCCL_OK;
    return hetccl_fail(HETCCL_ERR_ARG, "%s: a count of %zu is more than memory can hold", request->function,
                       request->call.count);
}

static enum hetccl_status check_buffers(const struct hetccl_request *request, const struct hetccl_comm *comm)
{
    const struct hetccl_call *call = &request->call;
    bool is_root = has_root(call->coll) && call->root == hetccl_comm_rank(comm);
    enum hetccl_status status = check_vectors(request);

    if (status == HETCCL_OK)
        status = check_extent(request, comm);
    if (status != HETCCL_OK || call->count == 0)
        return status;
    if (call->send == NULL && needs_send(call, is_root))
        return hetccl_fail(HETCCL_ERR_ARG, "%s: the send buffer is NULL and the count %zu", request->function,
                           call->count);
    if (call->recv == NULL && needs_recv(call, is_root))
        return hetccl_fail(HETCCL_ERR_ARG, "%s: the receive buffer is NULL and the count %zu",
                           request->function, call->count);
    return HETCCL_OK;
}

/* Read by size, as every struct that carries one; a member the caller's header lacks keeps its default. */
static enum hetccl_status check_config(const struct hetccl_request *request)
{
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
    size_t size;

    if (request->config == NULL)
        return HETCCL_OK;
    memcpy(&size, request->config, sizeof(size));
    if (size >= offsetof(ncclCollConfig_t, ext))
        memcpy(&config, request->config, hetccl_min_size(size, sizeof(config)));
    if (size < offsetof(ncclCollConfig_t, ext) || config.magic != NCCL_API_MAGIC)
        return hetccl_fail(HETCCL_ERR_ARG, "%s: initialise ncclCollConfig_t with NCCL_COLLCONFIG_INITIALIZER",
                           request->function);
    if (config.algSelection != NULL && config.algSelection[0] != '\0' && config.forceAlgSelection != 0)
        return hetccl_fail(
            HETCCL_ERR_ARG,
            "%s: algSelection \"%s\" can't be forced here; set forceAlgSelection to 0, or HETCCL_ALGO",
            request->function, config.algSelection);
    return HETCCL_OK;
}

static enum hetccl_status submit(struct hetccl_request *request)
{
    struct hetccl_bias bias = {.acc = request->bias};
    struct hetccl_comm *comm = NULL;
    enum hetccl_status status = hetccl_handle_check_ready(request->comm, request->function, &comm);

    if (status == HETCCL_OK)
        status = check_root(request, comm);
    if (status == HETCCL_OK)
        status = check_type(request);
    if (status != HETCCL_OK)
        return status;
    request->call.type = (enum hetccl_type)request->type;
    if (request->has_op)
        status =
            hetccl_op_resolve(request->function, comm, request->op, request->call.type, &request->call.op);
    if (status == HETCCL_OK)
        status = check_buffers(request, comm);
    if (status == HETCCL_OK)
        status = check_config(request);
    if (status == HETCCL_OK)
        status = hetccl_comm_check_call(comm, &request->call);
    if (status != HETCCL_OK)
        return status;
    bias.red = request->call.op.red;
    return hetccl_group_submit_call(comm, &request->call, &bias);
}

ncclResult_t hetccl_request_submit(struct hetccl_request *request)
{
    const struct hetccl_comm_head *native = hetccl_comm_native(request->comm);

    /* What the vendor's library has was handed over before. */
    if (native != NULL)
        return hetccl_native_lacks(native->api, request->function);
    return hetccl_group_result(submit(request));
}
