/* SPDX-License-Identifier: Apache-2.0 */
#include <sodium.h>
#include <string.h>

#include "base/time.h"
#include "bootstrap/mesh_internal.h"

/*
 * Meshes over some ranks of another one. Everybody knows everybody's contact from the parent, so no root is
 * needed: the members derive the same key from the parent's, the label and the list of ranks, and meet.
 */

static uint64_t derive_key(const struct hetccl_mesh_child_args *args)
{
    crypto_generichash_state state;
    uint8_t digest[32];
    uint64_t key;

    crypto_generichash_init(&state, args->parent->job_key, sizeof(args->parent->job_key), sizeof(digest));
    crypto_generichash_update(&state, (const uint8_t *)&args->parent->key, sizeof(args->parent->key));
    crypto_generichash_update(&state, (const uint8_t *)&args->label, sizeof(args->label));
    crypto_generichash_update(&state, (const uint8_t *)args->parent_ranks,
                              args->n_ranks * sizeof(args->parent_ranks[0]));
    crypto_generichash_final(&state, digest, sizeof(digest));
    memcpy(&key, digest, sizeof(key));
    return key;
}

static enum hetccl_status check_args(const struct hetccl_mesh_child_args *args, uint32_t *own_out)
{
    const struct hetccl_mesh *parent = args->parent;
    uint32_t own = UINT32_MAX;

    if (hetccl_mesh_is_foreign(parent))
        return hetccl_fail(HETCCL_ERR_USAGE, "the communicator belongs to the parent process");
    if (args->n_ranks == 0 || args->n_ranks > parent->n_ranks)
        return hetccl_fail(HETCCL_ERR_ARG, "a child of %u ranks of a communicator of %u", args->n_ranks,
                           parent->n_ranks);
    for (uint32_t i = 0; i < args->n_ranks; i++) {
        if (args->parent_ranks[i] >= parent->n_ranks)
            return hetccl_fail(HETCCL_ERR_ARG, "a child communicator names rank %u of %u",
                               args->parent_ranks[i], parent->n_ranks);
        if (args->parent_ranks[i] == parent->rank)
            own = i;
    }
    if (own == UINT32_MAX)
        return hetccl_fail(HETCCL_ERR_ARG, "rank %u creates a child communicator that it isn't a member of",
                           parent->rank);
    *own_out = own;
    return HETCCL_OK;
}

/* One more use of an endpoint that the parent keeps running. */
static struct hetccl_endpoint *share_endpoint(const struct hetccl_mesh *parent)
{
    hetccl_endpoint_lock(parent->endpoint);
    parent->endpoint->n_users++;
    hetccl_endpoint_unlock(parent->endpoint);
    return parent->endpoint;
}

static void inherit(struct hetccl_mesh *mesh, const struct hetccl_mesh_child_args *args)
{
    const struct hetccl_mesh *parent = args->parent;

    hetccl_endpoint_lock(mesh->endpoint);
    mesh->job_id = parent->job_id;
    memcpy(mesh->job_key, parent->job_key, sizeof(mesh->job_key));
    for (uint32_t i = 0; i < args->n_ranks; i++) {
        mesh->peers[i].contact = parent->peers[args->parent_ranks[i]].contact;
        mesh->peers[i].is_known = true;
    }
    hetccl_mesh_meet(mesh, derive_key(args));
    hetccl_endpoint_unlock(mesh->endpoint);
}

enum hetccl_status hetccl_mesh_create_child(const struct hetccl_mesh_child_args *args,
                                            struct hetccl_mesh **out)
{
    struct hetccl_mesh_setup setup = {
        .n_ranks = args->n_ranks, .is_cancelled = args->is_cancelled, .events = args->events};
    struct hetccl_mesh *mesh = NULL;
    enum hetccl_status status = check_args(args, &setup.rank);

    if (status != HETCCL_OK)
        return status;
    setup.endpoint = share_endpoint(args->parent);
    status = hetccl_mesh_setup(&setup, &mesh);
    if (status != HETCCL_OK)
        goto undo_endpoint;
    inherit(mesh, args);
    status = hetccl_mesh_stand(mesh, hetccl_deadline_ns(args->timeout_s));
    if (status == HETCCL_OK)
        *out = mesh;
    return status;
undo_endpoint:
    hetccl_endpoint_put(setup.endpoint);
    return status;
}
