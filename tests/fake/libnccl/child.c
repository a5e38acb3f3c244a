/* SPDX-License-Identifier: Apache-2.0 */

/* Communicators made from others. */

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "internal.h"

struct member {
    int color, key, rank;
    struct parcel parcel; /* new memory, should this rank turn out to be its first */
};

static bool goes_before(const struct member *a, const struct member *b)
{
    return a->key != b->key ? a->key < b->key : a->rank < b->rank;
}

static unsigned make_parcel(struct parcel *out)
{
    struct shared *shared = fake_share(out);

    if (shared == NULL)
        return fake_fail(SYSTEM_ERROR, "no shared memory");
    (void)munmap(shared, sizeof(*shared));
    return OK;
}

unsigned ncclCommSplit(struct ncclComm *comm, int color, int key, struct ncclComm **child_out, void *config)
{
    unsigned code = fake_call("ncclCommSplit", comm, "%s, %d, %d, %p", fake_name(comm), color, key, config);
    struct member own = {.color = color, .key = key}, all[MAX_RANKS];
    const struct member *first = &own;
    int n = 0, rank = 0;

    if (code != OK)
        return code;
    own.rank = comm->rank;
    code = make_parcel(&own.parcel);
    if (code == OK)
        code = fake_exchange(comm, &own, sizeof(own), all);
    if (code != OK || color < 0)
        return code;
    for (int i = 0; i < comm->n_ranks; i++) {
        n += all[i].color == color;
        rank += all[i].color == color && goes_before(&all[i], &own);
        if (all[i].color == color && goes_before(&all[i], first))
            first = &all[i];
    }
    return fake_make_comm(&first->parcel, n, rank, config, child_out);
}

static bool is_excluded(const int *excluded, int n_excluded, int rank)
{
    for (int i = 0; i < n_excluded; i++)
        if (excluded[i] == rank)
            return true;
    return false;
}

/* The ranks that stay can't count on the others, so the first of them leaves the new memory in the parent's.
 */
unsigned ncclCommShrink(struct ncclComm *comm, int *excluded, int n_excluded, struct ncclComm **child_out,
                        void *config, int flags)
{
    unsigned code = fake_call("ncclCommShrink", comm, "%s, %p, %d, %p, %d", fake_name(comm), (void *)excluded,
                              n_excluded, config, flags);
    unsigned slot;
    int n = 0, rank = 0, first = -1;

    if (code != OK)
        return code;
    slot = comm->n_children++ % MAX_CHILDREN;
    for (int i = 0; i < comm->n_ranks; i++) {
        if (is_excluded(excluded, n_excluded, i))
            continue;
        first = first < 0 ? i : first;
        rank += i < comm->rank;
        n++;
    }
    if (first == comm->rank) {
        code = make_parcel(&comm->shared->children[slot].parcel);
        atomic_store(&comm->shared->children[slot].is_set, 1);
    }
    while (code == OK && !atomic_load(&comm->shared->children[slot].is_set))
        fake_nap();
    return code != OK ? code
                      : fake_make_comm(&comm->shared->children[slot].parcel, n, rank, config, child_out);
}
