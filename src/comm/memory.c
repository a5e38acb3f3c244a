/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that belongs to no call, and the bias that comes behind one. */
#include "base/memory.h"
#include "comm/internal.h"

struct registration {
    struct hetccl_comm *comm;
    void *buffer;
    size_t bytes;
};

enum hetccl_status hetccl_comm_register(struct hetccl_comm *comm, void *buffer, size_t bytes,
                                        void **handle_out)
{
    struct registration *registration = NULL;
    enum hetccl_status status;

    if (buffer == NULL || bytes == 0)
        return hetccl_fail(HETCCL_ERR_ARG, "rank %u: an empty buffer can't be registered", comm->rank);
    status = hetccl_alloc(1, sizeof(*registration), &registration);
    if (status != HETCCL_OK)
        return status;
    *registration = (struct registration){.comm = comm, .buffer = buffer, .bytes = bytes};
    *handle_out = registration;
    return HETCCL_OK;
}

enum hetccl_status hetccl_comm_deregister(struct hetccl_comm *comm, void *handle)
{
    struct registration *registration = handle;

    if (registration == NULL)
        return HETCCL_OK;
    if (registration->comm != comm)
        return hetccl_fail(HETCCL_ERR_ARG, "rank %u: the handle was not made by this communicator",
                           comm->rank);
    registration->comm = NULL;
    hetccl_free(registration);
    return HETCCL_OK;
}

enum hetccl_status hetccl_comm_apply_bias(struct hetccl_comm *comm, const struct hetccl_call *call,
                                          const void *bias, enum hetccl_red red)
{
    const void *srcs[2] = {call->recv, bias};
    const struct hetccl_reduce reduce = {
        .dst = call->recv, .srcs = srcs, .n_srcs = 2, .count = call->count, .type = call->type, .red = red};

    if (call->count == 0)
        return HETCCL_OK;
    return comm->device->ops->reduce(comm->device, (struct hetccl_stream){call->stream}, &reduce);
}

/*
 * A GPU's memory lives as long as its context, and that may be held by nobody but us: every allocation keeps
 * its device open.
 */
struct allocation {
    struct allocation *next;
    struct hetccl_device *device;
    void *memory;
};

static pthread_mutex_t allocations_lock = PTHREAD_MUTEX_INITIALIZER;
static struct allocation *allocations;

static enum hetccl_status open_device(struct hetccl_device **out)
{
    struct hetccl_config config;
    enum hetccl_status status = hetccl_config_parse(&config);

    return status == HETCCL_OK ? hetccl_device_open(&config, HETCCL_DEVICE_OF_THREAD, out) : status;
}

enum hetccl_status hetccl_comm_mem_alloc(size_t bytes, void **out)
{
    struct allocation *allocation = NULL;
    enum hetccl_status status = hetccl_alloc(1, sizeof(*allocation), &allocation);

    if (status != HETCCL_OK)
        return status;
    status = open_device(&allocation->device);
    if (status != HETCCL_OK)
        goto undo_alloc;
    status = allocation->device->ops->mem_alloc(allocation->device, bytes > 0 ? bytes : 1,
                                                HETCCL_MEMORY_DEVICE, &allocation->memory);
    if (status != HETCCL_OK)
        goto undo_open;
    pthread_mutex_lock(&allocations_lock);
    allocation->next = allocations;
    allocations = allocation;
    pthread_mutex_unlock(&allocations_lock);
    *out = allocation->memory;
    return HETCCL_OK;

undo_open:
    allocation->device->ops->close(allocation->device);
undo_alloc:
    hetccl_free(allocation);
    return status;
}

static struct allocation *take_allocation(const void *memory)
{
    struct allocation **link = &allocations;
    struct allocation *found;

    pthread_mutex_lock(&allocations_lock);
    while (*link != NULL && (*link)->memory != memory)
        link = &(*link)->next;
    found = *link;
    if (found != NULL)
        *link = found->next;
    pthread_mutex_unlock(&allocations_lock);
    return found;
}

enum hetccl_status hetccl_comm_mem_free(void *memory)
{
    struct allocation *allocation = take_allocation(memory);
    struct hetccl_device *device;
    enum hetccl_status status = HETCCL_OK;

    if (allocation != NULL)
        device = allocation->device;
    else
        status = open_device(&device);
    if (status != HETCCL_OK)
        return status;
    device->ops->mem_free(device, memory, HETCCL_MEMORY_DEVICE);
    device->ops->close(device);
    hetccl_free(allocation);
    return HETCCL_OK;
}
