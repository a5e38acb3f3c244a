/* SPDX-License-Identifier: Apache-2.0 */
/* What a communicator says of itself, and memory that belongs to no call. */
#include "base/memory.h"
#include "comm/internal.h"

int hetccl_comm_rank(const struct hetccl_comm *comm)
{
    return (int)comm->rank;
}

int hetccl_comm_n_ranks(const struct hetccl_comm *comm)
{
    return (int)comm->n_ranks;
}

int hetccl_comm_device(const struct hetccl_comm *comm)
{
    return comm->device != NULL ? comm->device->ordinal : 0;
}

const char *hetccl_comm_device_name(const struct hetccl_comm *comm)
{
    return comm->device != NULL ? comm->device->ops->name : "";
}

bool hetccl_comm_is_blocking(const struct hetccl_comm *comm)
{
    return comm->options.is_blocking;
}

void hetccl_comm_read_counters(const struct hetccl_comm *comm, struct hetccl_comm_counters *out)
{
    struct hetccl_comm_counters counters = {
        .calls = atomic_load(&comm->n_calls),
        .steps = atomic_load(&comm->n_steps),
        .cross_sent_bytes = atomic_load(&comm->n_cross_sent_bytes),
        .cross_received_bytes = atomic_load(&comm->n_cross_received_bytes),
        .cross_messages = atomic_load(&comm->n_cross_messages),
        .island_operations = atomic_load(&comm->n_island_operations),
    };

    if (comm->engine != NULL)
        counters.copied_bytes += comm->engine->counters.copied_bytes;
    for (size_t i = 0; comm->links != NULL && i < (size_t)comm->n_ranks * HETCCL_CHANNELS; i++)
        if (comm->links[i].link != NULL)
            counters.copied_bytes += comm->links[i].link->counters.copies_bytes;
    *out = counters;
}

const struct hetccl_topo *hetccl_comm_topo(const struct hetccl_comm *comm)
{
    return comm->has_topo ? &comm->topo : NULL;
}

const char *hetccl_comm_last_plan(const struct hetccl_comm *comm, bool *is_small_out)
{
    *is_small_out = comm->last_plan_is_small;
    return comm->last_plan;
}

const char *hetccl_comm_link_in_use(const struct hetccl_comm *comm, int peer)
{
    if (!comm->has_topo || peer < 0 || (uint32_t)peer >= comm->n_ranks)
        return "";
    if ((uint32_t)peer == comm->rank)
        return "self";
    if (comm->topo.island_of[peer] == comm->topo.island_of[comm->rank])
        return "engine";
    for (size_t channel = 0; channel < HETCCL_CHANNELS; channel++) {
        const struct hetccl_link *link = comm->links[(size_t)peer * HETCCL_CHANNELS + channel].link;

        if (link != NULL)
            return link->ops->name;
    }
    return "";
}

const char *hetccl_comm_host_name(const struct hetccl_comm *comm, int rank)
{
    if (comm->peers == NULL || rank < 0 || (uint32_t)rank >= comm->n_ranks)
        return "";
    return comm->peers[rank].host_name;
}

/* ---- memory ---- */

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

static enum hetccl_status with_device(struct hetccl_device **out)
{
    struct hetccl_config config;
    enum hetccl_status status = hetccl_config_parse(&config);

    return status == HETCCL_OK ? hetccl_device_open(&config, HETCCL_DEVICE_OF_THREAD, out) : status;
}

enum hetccl_status hetccl_comm_mem_alloc(size_t bytes, void **out)
{
    struct hetccl_device *device;
    enum hetccl_status status = with_device(&device);

    if (status != HETCCL_OK)
        return status;
    status = device->ops->mem_alloc(device, bytes > 0 ? bytes : 1, HETCCL_MEMORY_DEVICE, out);
    device->ops->close(device);
    return status;
}

enum hetccl_status hetccl_comm_mem_free(void *memory)
{
    struct hetccl_device *device;
    enum hetccl_status status = with_device(&device);

    if (status != HETCCL_OK)
        return status;
    device->ops->mem_free(device, memory, HETCCL_MEMORY_DEVICE);
    device->ops->close(device);
    return HETCCL_OK;
}
