/* SPDX-License-Identifier: Apache-2.0 */
/* What a communicator says of itself. */
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

bool hetccl_comm_is_asynchronous(const struct hetccl_comm *comm)
{
    return comm->device != NULL && !comm->device->ops->is_synchronous;
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
