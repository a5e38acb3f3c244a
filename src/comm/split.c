/* SPDX-License-Identifier: Apache-2.0 */
/* Children of a communicator. A child talks through the processes' connections from the start and needs no
 * root. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/time.h"
#include "comm/internal.h"

/* FNV-1a step over a number: makes the label of a child out of what its members all know. */
static uint64_t mix(uint64_t hash, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        hash = (hash ^ ((value >> (8 * i)) & 0xff)) * 0x100000001b3ull;
    return hash;
}

struct member {
    int32_t color, key;
    uint32_t parent_rank;
};

static int compare_members(const void *a, const void *b)
{
    const struct member *x = a;
    const struct member *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->parent_rank < y->parent_rank ? -1 : x->parent_rank > y->parent_rank;
}

/* Whatever the calling thread's device is now. */
static enum hetccl_status use_device_of(const struct hetccl_comm *parent, struct hetccl_comm *child)
{
    if (parent->device == NULL ||
        (child->device != NULL && child->device->ordinal == parent->device->ordinal))
        return HETCCL_OK;
    if (child->device != NULL)
        child->device->ops->close(child->device);
    child->device = NULL;
    return hetccl_device_open(&child->config, parent->device->ordinal, &child->device);
}

/* Joins `child` to the others of the list; parent_ranks is by child rank. */
static enum hetccl_status join_child(struct hetccl_comm *parent, struct hetccl_comm *child,
                                     const uint32_t *parent_ranks, uint32_t n_ranks, uint64_t label)
{
    struct hetccl_mesh_child_args args = {.parent = parent->mesh,
                                          .parent_ranks = parent_ranks,
                                          .n_ranks = n_ranks,
                                          .label = label,
                                          .timeout_s = child->config.init_timeout_s,
                                          .is_cancelled = &child->is_cancelled,
                                          .events = hetccl_comm_events(child)};
    struct hetccl_mesh *mesh = NULL;
    enum hetccl_status status;

    child->n_ranks = n_ranks;
    /* A child of which nothing is said is like its parent. */
    if (child->options.vendor.bytes == 0)
        child->options.vendor = parent->options.vendor;
    for (uint32_t i = 0; i < n_ranks; i++)
        if (parent_ranks[i] == parent->rank)
            child->rank = i;
    atomic_fetch_add(&child->n_inside, 1);
    status = hetccl_mesh_create_child(&args, &mesh);
    child->mesh = mesh;
    if (status == HETCCL_OK)
        status = use_device_of(parent, child);
    if (status == HETCCL_OK)
        status = hetccl_comm_join(child);
    if (status != HETCCL_OK)
        status = hetccl_comm_fail(child, status, hetccl_last_error_thread());
    atomic_fetch_sub(&child->n_inside, 1);
    return status;
}

/* The members of my colour in child order, into ranks (room for all); returns how many. */
static uint32_t select_members(struct member *members, uint32_t n_ranks, int color, uint32_t *ranks)
{
    uint32_t n = 0;

    for (uint32_t rank = 0; rank < n_ranks; rank++)
        if (members[rank].color == color)
            members[n++] = (struct member){.color = color, .key = members[rank].key, .parent_rank = rank};
    qsort(members, n, sizeof(*members), compare_members);
    for (uint32_t i = 0; i < n; i++)
        ranks[i] = members[i].parent_rank;
    return n;
}

static enum hetccl_status split(struct hetccl_comm *parent, int color, int key, struct hetccl_comm *child)
{
    struct member own = {.color = color, .key = key, .parent_rank = parent->rank};
    struct member *members = NULL;
    uint32_t *ranks = NULL;
    uint64_t label = mix(mix(0xcbf29ce484222325ull, ++parent->n_children), (uint64_t)(uint32_t)color);
    enum hetccl_status status;

    status = hetccl_alloc(parent->n_ranks, sizeof(*members), &members);
    if (status == HETCCL_OK)
        status = hetccl_alloc(parent->n_ranks, sizeof(*ranks), &ranks);
    if (status == HETCCL_OK)
        status =
            hetccl_mesh_all_gather(parent->mesh, &own, sizeof(own), members, parent->config.init_timeout_s);
    if (status == HETCCL_OK && child != NULL)
        status =
            join_child(parent, child, ranks, select_members(members, parent->n_ranks, color, ranks), label);
    hetccl_free(members);
    hetccl_free(ranks);
    return status;
}

enum hetccl_status hetccl_comm_split(struct hetccl_comm *parent, int color, int key,
                                     struct hetccl_comm *child)
{
    enum hetccl_status status = (enum hetccl_status)atomic_load(&parent->state);

    /* A revoked parent may still be split; one that failed has to be shrunk. */
    if (status != HETCCL_OK)
        return hetccl_comm_check_usable(parent);
    if (color < 0 && color != HETCCL_SPLIT_NO_COLOR)
        return hetccl_fail(HETCCL_ERR_ARG, "rank %u: colour %d is negative and not NCCL_SPLIT_NOCOLOR",
                           parent->rank, color);
    atomic_fetch_add(&parent->n_inside, 1);
    status = split(parent, color, key, color == HETCCL_SPLIT_NO_COLOR ? NULL : child);
    atomic_fetch_sub(&parent->n_inside, 1);
    return status;
}

/* ---- shrink ---- */

/* Marks the excluded ranks; the marks are a set, whatever the order of the list. */
static enum hetccl_status mark_excluded(const struct hetccl_comm *parent, const int *exclude,
                                        size_t n_exclude, uint8_t *marks)
{
    for (size_t i = 0; i < n_exclude; i++) {
        if (exclude[i] < 0 || (uint32_t)exclude[i] >= parent->n_ranks)
            return hetccl_fail(HETCCL_ERR_ARG, "rank %u: excluded rank %d is not in 0 to %u", parent->rank,
                               exclude[i], parent->n_ranks - 1);
        marks[exclude[i]] = 1;
    }
    if (marks[parent->rank])
        return hetccl_fail(HETCCL_ERR_ARG, "rank %u excludes itself: only ranks that stay call shrink",
                           parent->rank);
    return HETCCL_OK;
}

static enum hetccl_status shrink(struct hetccl_comm *parent, const int *exclude, size_t n_exclude,
                                 struct hetccl_comm *child)
{
    uint64_t label = mix(0x84222325cbf29ce4ull, ++parent->n_children);
    uint8_t *marks = NULL;
    uint32_t *ranks = NULL;
    uint32_t n = 0;
    enum hetccl_status status;

    status = hetccl_alloc(parent->n_ranks, 1, &marks);
    if (status == HETCCL_OK)
        status = hetccl_alloc(parent->n_ranks, sizeof(*ranks), &ranks);
    if (status == HETCCL_OK)
        status = mark_excluded(parent, exclude, n_exclude, marks);
    for (uint32_t rank = 0; status == HETCCL_OK && rank < parent->n_ranks; rank++) {
        label = mix(label, marks[rank]);
        if (!marks[rank])
            ranks[n++] = rank;
    }
    if (status == HETCCL_OK)
        status = join_child(parent, child, ranks, n, label);
    hetccl_free(marks);
    hetccl_free(ranks);
    return status;
}

enum hetccl_status hetccl_comm_shrink(struct hetccl_comm *parent, const int *exclude, size_t n_exclude,
                                      bool is_abort, struct hetccl_comm *child)
{
    enum hetccl_status status = (enum hetccl_status)atomic_load(&parent->state);

    if (status == HETCCL_AGAIN || parent->mesh == NULL)
        return hetccl_fail(HETCCL_ERR_ARG, "the communicator was never set up: nothing to shrink");
    if (!is_abort && hetccl_is_error(status))
        return hetccl_comm_check_usable(parent);
    if (is_abort) {
        status = hetccl_comm_revoke(parent);
        if (status != HETCCL_OK)
            return status;
    }
    atomic_fetch_add(&parent->n_inside, 1);
    status = shrink(parent, exclude, n_exclude, child);
    atomic_fetch_sub(&parent->n_inside, 1);
    return status;
}
