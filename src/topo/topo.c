/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/topo.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/*
 * Groups are found by sorting (key, rank) pairs, so that thousands of ranks cost no more than the sort. After
 * the sort the ranks of a group lie together, ascending; groups are then numbered by their lowest rank.
 */
struct keyed_rank {
    uint64_t key[4];
    uint32_t rank;
};

struct group {
    uint32_t first, n_ranks;        /* into the sorted pairs; after cutting, a part of a group */
    enum hetccl_engine_kind engine; /* of an island: of all its ranks */
};

/* Working memory of one build. */
struct build {
    const struct hetccl_topo_args *args;
    uint32_t n_ranks;
    struct keyed_rank *sorted;
    struct group *groups;
    uint32_t n_groups;
    uint64_t *gpu_keys; /* of one island, sorted */
    uint32_t *next;     /* per host: the domain of that host, or none */
};

enum { NONE = UINT32_MAX };

static int compare_keyed_ranks(const void *a_, const void *b_)
{
    const struct keyed_rank *a = a_, *b = b_;

    for (size_t i = 0; i < 4; i++)
        if (a->key[i] != b->key[i])
            return a->key[i] < b->key[i] ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

/* Two ranks share an engine exactly when these keys are equal. */
static void set_island_key(struct keyed_rank *out, const struct hetccl_rank_facts *facts, uint32_t rank)
{
    *out = (struct keyed_rank){.rank = rank};
    out->key[0] = ((uint64_t)facts->vendor << 32) | (uint64_t)facts->engine;
    if (facts->engine == HETCCL_ENGINE_NONE)
        out->key[1] = rank;
    if (facts->engine == HETCCL_ENGINE_CCL)
        out->key[2] = facts->library_key;
    if (facts->engine == HETCCL_ENGINE_SHM || facts->engine == HETCCL_ENGINE_P2P)
        out->key[3] = facts->host_key;
}

static void add_group(struct build *b, uint32_t first, uint32_t n_ranks)
{
    enum hetccl_engine_kind engine = b->args->facts[b->sorted[first].rank].engine;

    b->groups[b->n_groups++] = (struct group){.first = first, .n_ranks = n_ranks, .engine = engine};
}

/* Cuts one engine's ranks by the split sizes; what is left over forms a last island. */
static void add_split_groups(struct build *b, uint32_t first, uint32_t n_ranks)
{
    for (size_t i = 0; i < b->args->n_split_sizes && n_ranks > 0; i++) {
        uint32_t size = (uint32_t)hetccl_min_size(b->args->split_sizes[i], n_ranks);

        if (size == 0)
            continue;
        add_group(b, first, size);
        first += size;
        n_ranks -= size;
    }
    if (n_ranks > 0)
        add_group(b, first, n_ranks);
}

static int compare_groups(const void *a_, const void *b_, void *sorted_)
{
    const struct group *a = a_, *b = b_;
    const struct keyed_rank *sorted = sorted_;
    uint32_t a_rank = sorted[a->first].rank, b_rank = sorted[b->first].rank;

    return a_rank < b_rank ? -1 : a_rank > b_rank;
}

static void find_groups(struct build *b, bool is_splitting)
{
    uint32_t first = 0;

    b->n_groups = 0;
    qsort(b->sorted, b->n_ranks, sizeof(*b->sorted), compare_keyed_ranks);
    for (uint32_t i = 1; i <= b->n_ranks; i++) {
        if (i < b->n_ranks && memcmp(b->sorted[i].key, b->sorted[first].key, sizeof(b->sorted[i].key)) == 0)
            continue;
        if (is_splitting)
            add_split_groups(b, first, i - first);
        else
            add_group(b, first, i - first);
        first = i;
    }
    qsort_r(b->groups, b->n_groups, sizeof(*b->groups), compare_groups, b->sorted);
}

/* ---- GPUs that ranks share ---- */

static int compare_keys(const void *a_, const void *b_)
{
    const uint64_t *a = a_, *b = b_;

    return *a < *b ? -1 : *a > *b;
}

/* The key of a GPU that two ranks of the group have, or 0. */
static uint64_t find_shared_gpu(struct build *b, const struct group *group)
{
    for (uint32_t i = 0; i < group->n_ranks; i++)
        b->gpu_keys[i] = b->args->facts[b->sorted[group->first + i].rank].gpu_key;
    qsort(b->gpu_keys, group->n_ranks, sizeof(*b->gpu_keys), compare_keys);
    for (uint32_t i = 1; i < group->n_ranks; i++)
        if (b->gpu_keys[i] != 0 && b->gpu_keys[i] == b->gpu_keys[i - 1])
            return b->gpu_keys[i];
    return 0;
}

static enum hetccl_status refuse_shared_gpu(const struct build *b, const struct group *group, uint64_t key)
{
    uint32_t ranks[2] = {0, 0}, n = 0;

    for (uint32_t i = 0; i < group->n_ranks && n < 2; i++)
        if (b->args->facts[b->sorted[group->first + i].rank].gpu_key == key)
            ranks[n++] = b->sorted[group->first + i].rank;
    return hetccl_fail(
        HETCCL_ERR_USAGE,
        "ranks %u and %u share one GPU, which the vendor's library refuses: give each rank its "
        "own, or unset HETCCL_ENGINE=ccl",
        ranks[0], ranks[1]);
}

/*
 * Replaces a group by smaller ones, appended to the list: the ranks that can use p2p by host, the others one
 * by one. The first of them takes its place; until then there may be a group more than ranks.
 */
static void break_up(struct build *b, uint32_t index)
{
    struct group whole = b->groups[index];
    uint32_t n_before = b->n_groups, first = whole.first, end = whole.first + whole.n_ranks;

    for (uint32_t i = first; i < end; i++) {
        const struct hetccl_rank_facts *facts = &b->args->facts[b->sorted[i].rank];

        b->sorted[i].key[0] = facts->has_p2p ? 1 : 0;
        b->sorted[i].key[1] = facts->has_p2p ? facts->host_key : b->sorted[i].rank;
        b->sorted[i].key[2] = b->sorted[i].key[3] = 0;
    }
    qsort(b->sorted + first, whole.n_ranks, sizeof(*b->sorted), compare_keyed_ranks);
    for (uint32_t i = first + 1; i <= end; i++) {
        if (i < end && memcmp(b->sorted[i].key, b->sorted[first].key, sizeof(b->sorted[i].key)) == 0)
            continue;
        add_group(b, first, i - first);
        b->groups[b->n_groups - 1].engine = b->sorted[first].key[0] ? HETCCL_ENGINE_P2P : HETCCL_ENGINE_NONE;
        first = i;
    }
    b->groups[index] = b->groups[n_before];
    memmove(&b->groups[n_before], &b->groups[n_before + 1],
            (b->n_groups - n_before - 1) * sizeof(*b->groups));
    b->n_groups--;
}

static enum hetccl_status break_up_shared(struct build *b)
{
    uint32_t n_whole = b->n_groups;

    for (uint32_t i = 0; i < n_whole; i++) {
        uint64_t key = b->groups[i].engine == HETCCL_ENGINE_CCL ? find_shared_gpu(b, &b->groups[i]) : 0;

        if (key == 0)
            continue;
        if (b->args->must_use_ccl)
            return refuse_shared_gpu(b, &b->groups[i], key);
        break_up(b, i);
    }
    qsort_r(b->groups, b->n_groups, sizeof(*b->groups), compare_groups, b->sorted);
    return HETCCL_OK;
}

static void find_hosts(struct build *b, struct hetccl_topo *topo)
{
    for (uint32_t rank = 0; rank < b->n_ranks; rank++)
        b->sorted[rank] = (struct keyed_rank){.key = {b->args->facts[rank].host_key}, .rank = rank};
    find_groups(b, false);
    topo->n_hosts = b->n_groups;
    for (uint32_t host = 0; host < b->n_groups; host++)
        for (uint32_t i = 0; i < b->groups[host].n_ranks; i++)
            topo->host_of[b->sorted[b->groups[host].first + i].rank] = host;
}

static void set_island(struct build *b, struct hetccl_topo *topo, uint32_t index)
{
    const struct group *group = &b->groups[index];
    struct hetccl_island *island = &topo->islands[index];
    const struct hetccl_rank_facts *facts = &b->args->facts[b->sorted[group->first].rank];

    island->vendor = facts->vendor;
    island->engine = group->n_ranks > 1 ? group->engine : HETCCL_ENGINE_NONE;
    if (topo->n_ranks == 1 && group->engine == HETCCL_ENGINE_CCL)
        island->engine = HETCCL_ENGINE_CCL;
    island->n_ranks = group->n_ranks;
    island->host = topo->host_of[b->sorted[group->first].rank];
    for (uint32_t i = 0; i < group->n_ranks; i++) {
        uint32_t rank = b->sorted[group->first + i].rank;

        island->ranks[i] = rank;
        topo->island_of[rank] = index;
        topo->island_rank_of[rank] = i;
        if (topo->host_of[rank] != island->host)
            island->host = NONE;
    }
}

static enum hetccl_status find_islands(struct build *b, struct hetccl_topo *topo, uint32_t *rank_storage)
{
    enum hetccl_status status;

    for (uint32_t rank = 0; rank < b->n_ranks; rank++)
        set_island_key(&b->sorted[rank], &b->args->facts[rank], rank);
    find_groups(b, true);
    status = break_up_shared(b);
    if (status != HETCCL_OK)
        return status;
    topo->n_islands = b->n_groups;
    for (uint32_t i = 0; i < b->n_groups; i++) {
        topo->islands[i].ranks = rank_storage;
        rank_storage += b->groups[i].n_ranks;
        set_island(b, topo, i);
    }
    return HETCCL_OK;
}

/* Islands come in ascending order, so each domain's list is ascending and domains are numbered by their first
 * island. */
static void find_domains(struct build *b, struct hetccl_topo *topo, uint32_t *island_storage)
{
    for (uint32_t host = 0; host < topo->n_hosts; host++)
        b->next[host] = NONE;
    for (uint32_t i = 0; i < topo->n_islands; i++) {
        uint32_t host = topo->islands[i].host, domain = host == NONE ? NONE : b->next[host];

        if (domain == NONE) {
            domain = topo->n_domains++;
            if (host != NONE)
                b->next[host] = domain;
        }
        topo->islands[i].domain = domain;
        topo->domains[domain].n_islands++;
    }
    for (uint32_t d = 0; d < topo->n_domains; d++) {
        topo->domains[d].islands = island_storage;
        island_storage += topo->domains[d].n_islands;
        topo->domains[d].n_islands = 0;
    }
    for (uint32_t i = 0; i < topo->n_islands; i++) {
        struct hetccl_domain *domain = &topo->domains[topo->islands[i].domain];

        domain->islands[domain->n_islands++] = i;
    }
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
    return hash ^ (hash >> 29);
}

static uint64_t mix_costs(uint64_t hash, const struct hetccl_cost *costs, size_t n_costs)
{
    for (size_t i = 0; i < n_costs; i++) {
        uint64_t bits[2];

        memcpy(&bits[0], &costs[i].latency_us, sizeof(bits[0]));
        memcpy(&bits[1], &costs[i].bytes_per_us, sizeof(bits[1]));
        hash = mix(mix(hash, bits[0]), bits[1]);
    }
    return hash;
}

static uint64_t topo_hash(const struct hetccl_topo *topo)
{
    uint64_t hash = mix(mix(mix(mix(1, topo->n_ranks), topo->n_islands), topo->n_hosts), topo->n_domains);

    for (uint32_t i = 0; i < topo->n_islands; i++) {
        const struct hetccl_island *island = &topo->islands[i];

        hash = mix(mix(mix(hash, (uint64_t)island->vendor), (uint64_t)island->engine), island->domain);
        hash = mix(mix(hash, island->host), island->n_ranks);
    }
    for (uint32_t rank = 0; rank < topo->n_ranks; rank++) {
        hash = mix(mix(hash, topo->island_of[rank]), topo->host_of[rank]);
        hash = mix(hash, topo->link_kinds_of[rank]);
    }
    hash = mix_costs(hash, topo->link_cost, HETCCL_LINK_KINDS);
    return mix_costs(hash, topo->engine_cost, HETCCL_ENGINE_KINDS);
}

/* One block for all arrays: islands, domains, then six arrays of n_ranks numbers. */
static enum hetccl_status allocate(struct hetccl_topo *topo, size_t n_ranks)
{
    size_t struct_bytes = sizeof(struct hetccl_island) + sizeof(struct hetccl_domain);
    enum hetccl_status status = hetccl_alloc(n_ranks, struct_bytes + 6 * sizeof(uint32_t), &topo->storage);
    uint32_t *numbers;

    if (status != HETCCL_OK)
        return status;
    topo->islands = topo->storage;
    topo->domains = (struct hetccl_domain *)(void *)(topo->islands + n_ranks);
    numbers = (uint32_t *)(void *)(topo->domains + n_ranks);
    topo->island_of = numbers;
    topo->island_rank_of = numbers + n_ranks;
    topo->host_of = numbers + 2 * n_ranks;
    topo->link_kinds_of = numbers + 3 * n_ranks;
    return HETCCL_OK;
}

static enum hetccl_status fill(struct build *b, struct hetccl_topo *topo)
{
    enum hetccl_status status;

    topo->n_ranks = b->n_ranks;
    memcpy(topo->link_cost, b->args->link_cost, sizeof(topo->link_cost));
    memcpy(topo->engine_cost, b->args->engine_cost, sizeof(topo->engine_cost));
    for (uint32_t rank = 0; rank < b->n_ranks; rank++)
        topo->link_kinds_of[rank] = b->args->facts[rank].link_kinds;
    find_hosts(b, topo);
    status = find_islands(b, topo, topo->island_of + 4 * (size_t)b->n_ranks);
    if (status != HETCCL_OK)
        return status;
    find_domains(b, topo, topo->island_of + 5 * (size_t)b->n_ranks);
    topo->hash = topo_hash(topo);
    return HETCCL_OK;
}

/* Storage and contents. */
static enum hetccl_status build(struct build *b, struct hetccl_topo *out)
{
    struct hetccl_topo topo = {0};
    enum hetccl_status status = allocate(&topo, b->n_ranks);

    if (status != HETCCL_OK)
        return status;
    status = fill(b, &topo);
    if (status == HETCCL_OK)
        *out = topo;
    else
        hetccl_topo_fini(&topo);
    return status;
}

enum hetccl_status hetccl_topo_build(const struct hetccl_topo_args *args, struct hetccl_topo *out)
{
    struct build b = {.args = args, .n_ranks = (uint32_t)args->n_ranks};
    enum hetccl_status status;

    if (args->n_ranks == 0 || args->n_ranks > INT32_MAX)
        return hetccl_fail(HETCCL_ERR_INTERNAL, "a topology of %zu ranks", args->n_ranks);
    status = hetccl_alloc(args->n_ranks, sizeof(*b.sorted), &b.sorted);
    if (status != HETCCL_OK)
        return status;
    status = hetccl_alloc(args->n_ranks + 1, sizeof(*b.groups), &b.groups); /* see break_up() */
    if (status != HETCCL_OK)
        goto undo_sorted;
    status = hetccl_alloc(args->n_ranks, sizeof(*b.next), &b.next);
    if (status != HETCCL_OK)
        goto undo_groups;
    status = hetccl_alloc(args->n_ranks, sizeof(*b.gpu_keys), &b.gpu_keys);
    if (status == HETCCL_OK)
        status = build(&b, out);
    hetccl_free(b.gpu_keys);
    hetccl_free(b.next);
undo_groups:
    hetccl_free(b.groups);
undo_sorted:
    hetccl_free(b.sorted);
    return status;
}

void hetccl_topo_fini(struct hetccl_topo *topo)
{
    hetccl_free(topo->storage);
    memset(topo, 0, sizeof(*topo));
}

bool hetccl_topo_is_native(const struct hetccl_topo *topo)
{
    return topo->n_islands == 1 && topo->islands[0].engine == HETCCL_ENGINE_CCL;
}

enum hetccl_status hetccl_topo_link_kind(const struct hetccl_topo *topo, uint32_t a_rank, uint32_t b_rank,
                                         enum hetccl_link_kind *out)
{
    uint32_t both = topo->link_kinds_of[a_rank] & topo->link_kinds_of[b_rank];
    bool is_same_host = topo->host_of[a_rank] == topo->host_of[b_rank];

    for (int kind = 0; kind < HETCCL_LINK_KINDS; kind++) {
        if (!(both & (1U << kind)) || (kind == HETCCL_LINK_SHM && !is_same_host))
            continue;
        *out = (enum hetccl_link_kind)kind;
        return HETCCL_OK;
    }
    return hetccl_fail(
        HETCCL_ERR_USAGE,
        "ranks %u and %u have no link kind in common (%s host; kinds of rank %u: %#x, of rank %u: %#x): "
        "allow tcp or verbs on both in HETCCL_LINK",
        a_rank, b_rank, is_same_host ? "one" : "not on one", a_rank, topo->link_kinds_of[a_rank], b_rank,
        topo->link_kinds_of[b_rank]);
}
