/* SPDX-License-Identifier: Apache-2.0 */
#include "api/registry.h"

#include <pthread.h>

#include "base/memory.h"

struct entry {
    struct entry *next;
    struct hetccl_comm *comm;
    bool is_finalized;
    struct hetccl_made_op *ops;
    size_t n_ops, cap_ops;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries;

/* Handles go round through all values above the built-in ones before one comes again. Guarded by the lock. */
static uint64_t n_handles;

/*
 * Neighbouring numbers are spread, so that a handle kept too long, or a small number that never was one, is
 * most unlikely to name a living operator. The modulus is prime, hence the map is one to one.
 */
static ncclRedOp_t make_handle(void)
{
    const uint64_t modulus = 2147483629; /* the largest prime below ncclMaxRedOp - ncclNumOps */
    const uint64_t spread = 1103515245;

    n_handles = (n_handles + 1) % modulus;
    return (ncclRedOp_t)(ncclNumOps + n_handles * spread % modulus);
}

static struct entry *find(const struct hetccl_comm *comm)
{
    struct entry *entry = entries;

    while (entry != NULL && entry->comm != comm)
        entry = entry->next;
    return entry;
}

static enum hetccl_status refuse_unknown(const struct hetccl_comm *comm)
{
    return hetccl_fail(HETCCL_ERR_ARG, "communicator %p is being destroyed by another thread",
                       (const void *)comm);
}

enum hetccl_status hetccl_registry_add(struct hetccl_comm *comm)
{
    struct entry *entry = NULL;
    enum hetccl_status status = hetccl_alloc(1, sizeof(*entry), &entry);

    if (status != HETCCL_OK)
        return status;
    entry->comm = comm;
    pthread_mutex_lock(&lock);
    entry->next = entries;
    entries = entry;
    pthread_mutex_unlock(&lock);
    return HETCCL_OK;
}

bool hetccl_registry_claim(const struct hetccl_comm *comm)
{
    struct entry *entry;

    pthread_mutex_lock(&lock);
    entry = find(comm);
    for (struct entry **link = &entries; entry != NULL && *link != NULL; link = &(*link)->next)
        if (*link == entry) {
            *link = entry->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (entry == NULL)
        return false;
    hetccl_free(entry->ops);
    hetccl_free(entry);
    return true;
}

static struct hetccl_made_op *find_op(struct hetccl_comm *comm, ncclRedOp_t handle, struct entry **entry_out)
{
    struct entry *entry = find(comm);

    for (size_t i = 0; entry != NULL && i < entry->n_ops; i++)
        if (entry->ops[i].handle == handle) {
            *entry_out = entry;
            return &entry->ops[i];
        }
    return NULL;
}

static enum hetccl_status add_op(struct hetccl_comm *comm, const struct hetccl_made_op *op,
                                 ncclRedOp_t *handle_out)
{
    struct entry *entry = find(comm);
    enum hetccl_status status;

    if (entry == NULL)
        return refuse_unknown(comm);
    if (entry->n_ops == entry->cap_ops) {
        status = hetccl_resize(&entry->ops, entry->cap_ops * 2 + 4, sizeof(*entry->ops));
        if (status != HETCCL_OK)
            return status;
        entry->cap_ops = entry->cap_ops * 2 + 4;
    }
    entry->ops[entry->n_ops] = *op;
    entry->ops[entry->n_ops].handle = make_handle();
    *handle_out = entry->ops[entry->n_ops++].handle;
    return HETCCL_OK;
}

enum hetccl_status hetccl_registry_add_op(struct hetccl_comm *comm, const struct hetccl_made_op *op,
                                          ncclRedOp_t *handle_out)
{
    enum hetccl_status status;

    pthread_mutex_lock(&lock);
    status = add_op(comm, op, handle_out);
    pthread_mutex_unlock(&lock);
    return status;
}

bool hetccl_registry_find_op(struct hetccl_comm *comm, ncclRedOp_t handle, struct hetccl_made_op *out)
{
    struct hetccl_made_op *op;
    struct entry *entry;

    pthread_mutex_lock(&lock);
    op = find_op(comm, handle, &entry);
    if (op != NULL)
        *out = *op;
    pthread_mutex_unlock(&lock);
    return op != NULL;
}

bool hetccl_registry_remove_op(struct hetccl_comm *comm, ncclRedOp_t handle)
{
    struct hetccl_made_op *op;
    struct entry *entry;

    pthread_mutex_lock(&lock);
    op = find_op(comm, handle, &entry);
    if (op != NULL)
        *op = entry->ops[--entry->n_ops];
    pthread_mutex_unlock(&lock);
    return op != NULL;
}

enum hetccl_status hetccl_registry_mark_finalized(struct hetccl_comm *comm)
{
    struct entry *entry;
    bool was_finalized = false;

    pthread_mutex_lock(&lock);
    entry = find(comm);
    if (entry != NULL) {
        was_finalized = entry->is_finalized;
        entry->is_finalized = true;
    }
    pthread_mutex_unlock(&lock);
    if (entry == NULL)
        return refuse_unknown(comm);
    if (was_finalized)
        return hetccl_fail(HETCCL_ERR_ARG, "ncclCommFinalize: communicator %p was finalized before",
                           (void *)comm);
    return HETCCL_OK;
}
