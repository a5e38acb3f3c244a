/* SPDX-License-Identifier: Apache-2.0 */
/* Plans and their workspaces, kept so that a repeated call neither plans nor allocates. */
#include <inttypes.h>

#include "base/memory.h"
#include "comm/internal.h"

static bool matches(const struct hetccl_cached_plan *entry, const struct hetccl_plan_request *request)
{
    return entry->plan != NULL && entry->coll == request->coll && entry->count == request->count &&
           entry->elem_bytes == request->elem_bytes && entry->root == request->root &&
           entry->is_in_place == request->is_in_place && entry->has_scale == request->has_scale;
}

static void drop(struct hetccl_cached_plan *entry)
{
    hetccl_run_destroy(entry->run);
    hetccl_plan_destroy(entry->plan);
    *entry = (struct hetccl_cached_plan){0};
}

static enum hetccl_status fill(struct hetccl_comm *comm, const struct hetccl_plan_request *request,
                               struct hetccl_cached_plan *entry)
{
    enum hetccl_status status = hetccl_plan_build(&comm->topo, request, &entry->plan);

    if (status == HETCCL_OK)
        status = hetccl_run_create(&comm->env, entry->plan, &entry->run);
    if (status != HETCCL_OK) {
        drop(entry);
        return status;
    }
    hetccl_log(HETCCL_LOG_DEBUG, "plan",
               "rank %u: plan %s for %s, count %zu of %zu bytes: %u steps, hash %016" PRIx64, comm->rank,
               entry->plan->name, hetccl_coll_name(request->coll), request->count, request->elem_bytes,
               entry->plan->n_steps, entry->plan->decision_hash);
    entry->coll = request->coll;
    entry->count = request->count;
    entry->elem_bytes = request->elem_bytes;
    entry->root = request->root;
    entry->is_in_place = request->is_in_place;
    entry->has_scale = request->has_scale;
    return HETCCL_OK;
}

enum hetccl_status hetccl_comm_find_plan(struct hetccl_comm *comm, const struct hetccl_plan_request *request,
                                         struct hetccl_cached_plan **out)
{
    struct hetccl_cached_plan *oldest = &comm->cache[0];
    enum hetccl_status status = HETCCL_OK;

    for (size_t i = 0; i < HETCCL_PLAN_CACHE_ENTRIES; i++) {
        struct hetccl_cached_plan *entry = &comm->cache[i];

        if (request->coll != HETCCL_ALLTOALLV && matches(entry, request)) {
            oldest = entry;
            goto found;
        }
        if (entry->last_use < oldest->last_use)
            oldest = entry;
    }
    drop(oldest);
    status = fill(comm, request, oldest);
    if (status != HETCCL_OK)
        return status;
found:
    oldest->last_use = ++comm->cache_clock;
    *out = oldest;
    return HETCCL_OK;
}

void hetccl_comm_release_plan(struct hetccl_cached_plan *cached)
{
    if (cached->coll == HETCCL_ALLTOALLV)
        drop(cached);
}

void hetccl_comm_drop_plans(struct hetccl_comm *comm)
{
    for (size_t i = 0; i < HETCCL_PLAN_CACHE_ENTRIES; i++)
        drop(&comm->cache[i]);
}

/* What runs may still work on the old memory: the bridge keeps that until it is done. */
static enum hetccl_status reserve_blob(struct hetccl_comm *comm, struct hetccl_scratch *scratch, size_t bytes)
{
    struct hetccl_blob *blob;
    enum hetccl_status status = hetccl_bridge_take(comm->bridge, bytes, &blob);

    if (status != HETCCL_OK)
        return status;
    hetccl_bridge_drop(scratch->blob);
    *scratch = (struct hetccl_scratch){.memory = blob->memory, .bytes = blob->bytes, .blob = blob};
    return HETCCL_OK;
}

enum hetccl_status hetccl_scratch_reserve(struct hetccl_comm *comm, struct hetccl_scratch *scratch,
                                          size_t bytes)
{
    struct hetccl_device *device = comm->device;
    void *memory;
    enum hetccl_status status;

    if (bytes <= scratch->bytes)
        return HETCCL_OK;
    if (comm->bridge != NULL)
        return reserve_blob(comm, scratch, bytes);
    status = device->ops->mem_alloc(device, bytes, HETCCL_MEMORY_DEVICE, &memory);
    if (status != HETCCL_OK)
        return status;
    device->ops->mem_free(device, scratch->memory, HETCCL_MEMORY_DEVICE);
    scratch->memory = memory;
    scratch->bytes = bytes;
    return HETCCL_OK;
}

void hetccl_scratch_use(struct hetccl_comm *comm, const struct hetccl_scratch *scratch)
{
    if (scratch->blob != NULL)
        hetccl_bridge_use(comm->bridge, scratch->blob);
}
