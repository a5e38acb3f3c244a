/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How ranks that can talk become a communicator, in four exchanges:
 *
 *   1  everybody's facts; ranks whose wire settings differ are refused by name
 *   2  the first rank of every candidate host offers a segment (name and token)
 *   3  who could open it and found the token; only those share memory, by proof and not by host name
 *   4  the hash of the topology that each rank built from 1 and 3: all agree, or the odd one is named
 */
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "comm/internal.h"
#include "engine/ccl/engine.h"

enum { TOKEN_BYTES = 16, MAX_SPLIT_SIZES = 64 };

#define HOST_MAGIC 0x4843434c686f7374ull

/* First bytes of a host segment; doorbells follow, one a rank of the candidate host, then the engines' areas.
 */
struct host_header {
    _Alignas(64) uint64_t magic;
    uint8_t token[TOKEN_BYTES];
};

/* What exchange 2 carries. */
struct offer {
    char name[HETCCL_SEGMENT_NAME_BYTES];
    uint64_t bytes; /* 0: no segment could be made */
    uint8_t token[TOKEN_BYTES];
};

/* ---- 2 and 3: the host trial ---- */

static bool is_candidate(const struct hetccl_comm *comm, uint32_t a, uint32_t b)
{
    const struct hetccl_wire_peer *x = &comm->peers[a];
    const struct hetccl_wire_peer *y = &comm->peers[b];

    return x->host_key == y->host_key && x->shm_place == y->shm_place &&
           (x->flags & y->flags & HETCCL_WIRE_PEER_SHARES_MEMORY) != 0;
}

/* Fills host_index_of with each rank's index among its candidates, and finds this rank's leader and their
 * number. */
static enum hetccl_status find_candidates(struct hetccl_comm *comm, uint32_t *n_candidates_out)
{
    enum hetccl_status status =
        hetccl_alloc(comm->n_ranks, sizeof(*comm->host_index_of), &comm->host_index_of);
    uint32_t n = 0;

    if (status != HETCCL_OK)
        return status;
    comm->host_leader = comm->rank;
    for (uint32_t rank = 0; rank < comm->n_ranks; rank++) {
        if (rank != comm->rank && !is_candidate(comm, rank, comm->rank))
            continue;
        if (n == 0)
            comm->host_leader = rank;
        comm->host_index_of[rank] = n++;
    }
    *n_candidates_out = n;
    return HETCCL_OK;
}

/* How many of this rank's candidates, itself included, use the engine shm. */
static uint32_t count_shm(const struct hetccl_comm *comm)
{
    uint32_t n = 0;

    for (uint32_t rank = 0; rank < comm->n_ranks; rank++)
        n += comm->peers[rank].engine == HETCCL_ENGINE_SHM &&
             (rank == comm->rank || is_candidate(comm, rank, comm->rank));
    return n;
}

/* Room for the engines of any way in which n_shm of the candidates may fall into islands. */
static size_t host_segment_bytes(uint32_t n_candidates, uint32_t n_shm)
{
    size_t engines = 0;

    /* Engine areas grow at most linearly with a constant: n islands of two ranks, or one of all, are the
     * extremes. */
    if (n_shm > 0)
        engines = hetccl_max_size(hetccl_engine_shm_bytes(n_shm),
                                  (n_shm / 2 + 1) * hetccl_round_up(hetccl_engine_shm_bytes(2), 4096)) +
                  hetccl_engine_shm_bytes(2) * (n_shm / 2 + 1);
    return sizeof(struct host_header) + n_candidates * sizeof(struct hetccl_doorbell) + engines + 4096;
}

static void make_offer(struct hetccl_comm *comm, uint32_t n_candidates, struct offer *offer)
{
    size_t bytes = host_segment_bytes(n_candidates, count_shm(comm));
    struct host_header *header;

    memset(offer, 0, sizeof(*offer));
    if (comm->host_leader != comm->rank || n_candidates < 2)
        return;
    if (hetccl_segment_create(bytes, bytes, &comm->host_segment) != HETCCL_OK)
        return;
    header = comm->host_segment.memory;
    randombytes_buf(header->token, sizeof(header->token));
    header->magic = HOST_MAGIC;
    memcpy(offer->token, header->token, sizeof(offer->token));
    memcpy(offer->name, comm->host_segment.name, sizeof(offer->name));
    offer->bytes = comm->host_segment.bytes;
}

/* True when this rank sees the leader's memory. */
static bool take_offer(struct hetccl_comm *comm, const struct offer *offer)
{
    const struct host_header *header;

    if (offer->bytes == 0 || memchr(offer->name, '\0', sizeof(offer->name)) == NULL)
        return false;
    if (comm->host_leader != comm->rank &&
        hetccl_segment_open(offer->name, offer->bytes, &comm->host_segment) != HETCCL_OK)
        return false;
    header = comm->host_segment.memory;
    return header->magic == HOST_MAGIC &&
           sodium_memcmp(header->token, offer->token, sizeof(offer->token)) == 0;
}

static struct hetccl_doorbell *host_doorbell(const struct hetccl_comm *comm, uint32_t rank)
{
    char *memory = comm->host_segment.memory;

    return (struct hetccl_doorbell *)(memory + sizeof(struct host_header)) + comm->host_index_of[rank];
}

static void log_trial(const struct hetccl_comm *comm, uint32_t n_candidates, bool is_shared)
{
    const struct hetccl_wire_peer *own = &comm->peers[comm->rank];

    for (uint32_t rank = 0; rank < comm->n_ranks; rank++)
        if (rank != comm->rank && own->host_key == comm->peers[rank].host_key &&
            !is_candidate(comm, rank, comm->rank))
            hetccl_log(HETCCL_LOG_INFO, "topo",
                       "rank %u and rank %u are on one host but don't share memory: %s", comm->rank, rank,
                       own->shm_place != comm->peers[rank].shm_place ? "their /dev/shm differ"
                                                                     : "HETCCL_SHM_DISABLE");
    if (n_candidates > 1)
        hetccl_log(HETCCL_LOG_INFO, "topo", "rank %u %s memory with the %u ranks of host %s: %s", comm->rank,
                   is_shared ? "shares" : "does not share", n_candidates, own->host_name,
                   is_shared ? "the token was found" : "the segment of the first one could not be opened");
}

/* results_out: one byte a rank, 1 when it shares memory with the leader of its candidates. */
static enum hetccl_status try_host(struct hetccl_comm *comm, uint8_t *results_out)
{
    struct offer own;
    struct offer *offers = NULL;
    uint32_t n_candidates;
    uint8_t is_shared = 0;
    enum hetccl_status status = find_candidates(comm, &n_candidates);

    if (status == HETCCL_OK)
        status = hetccl_alloc(comm->n_ranks, sizeof(*offers), &offers);
    if (status != HETCCL_OK)
        return status;
    make_offer(comm, n_candidates, &own);
    status = hetccl_mesh_all_gather(comm->mesh, &own, sizeof(own), offers, comm->config.init_timeout_s);
    if (status == HETCCL_OK) {
        is_shared = n_candidates > 1 && take_offer(comm, &offers[comm->host_leader]);
        log_trial(comm, n_candidates, is_shared);
        status = hetccl_mesh_all_gather(comm->mesh, &is_shared, 1, results_out, comm->config.init_timeout_s);
    }
    hetccl_free(offers);
    /* Everybody who could has it mapped: from here on no kill leaves a name behind. */
    hetccl_segment_unlink(&comm->host_segment);
    if (status == HETCCL_OK && is_shared)
        comm->own_doorbell = host_doorbell(comm, comm->rank);
    return status;
}

/* ---- 4: the topology ---- */

static enum hetccl_status parse_split(const char *list, size_t sizes[MAX_SPLIT_SIZES], size_t *n_out)
{
    size_t n = 0;

    for (const char *c = list; *c != '\0'; n++) {
        unsigned size;
        int used = 0;

        if (n == MAX_SPLIT_SIZES || sscanf(c, "%u%n", &size, &used) != 1 || size < 1 ||
            (c[used] != '\0' && c[used] != ','))
            return hetccl_fail(HETCCL_ERR_USAGE,
                               "HETCCL_ISLAND_SPLIT=%s is not usable: it takes up to %d sizes as \"1,3\"",
                               list, MAX_SPLIT_SIZES);
        sizes[n] = size;
        c += used + (c[used] == ',');
    }
    *n_out = n;
    return HETCCL_OK;
}

/* Equal on ranks that share a GPU: its address on the machine, whatever host the rank pretends to be on. */
static uint64_t gpu_key(const struct hetccl_wire_peer *peer)
{
    return peer->pci_key == 0 ? 0 : peer->machine_key ^ (peer->pci_key * 0x9e3779b97f4a7c15ull);
}

/* Without shared memory ranks are on hosts of their own, and only the vendor's library is left. */
static enum hetccl_engine_kind usable_engine(const struct hetccl_wire_peer *peer, bool is_shared)
{
    if (is_shared || peer->engine == HETCCL_ENGINE_CCL)
        return (enum hetccl_engine_kind)peer->engine;
    return HETCCL_ENGINE_NONE;
}

static void fill_facts(const struct hetccl_comm *comm, const uint8_t *results,
                       struct hetccl_rank_facts *facts)
{
    for (uint32_t rank = 0; rank < comm->n_ranks; rank++) {
        const struct hetccl_wire_peer *peer = &comm->peers[rank];
        bool is_shared = results[rank] != 0;

        /* A rank that shares memory with nobody is a host of its own; shm_place keeps containers of one host
         * apart. */
        facts[rank] = (struct hetccl_rank_facts){
            .host_key =
                is_shared ? peer->host_key ^ (peer->shm_place * 0x9e3779b97f4a7c15ull) : ~(uint64_t)rank,
            .library_key = peer->library_key,
            .vendor = (enum hetccl_vendor)peer->vendor,
            .engine = usable_engine(peer, is_shared),
            .has_p2p = is_shared && (peer->flags & HETCCL_WIRE_PEER_HAS_P2P) != 0,
            .gpu_key = gpu_key(peer),
            .link_kinds = is_shared ? peer->link_kinds : peer->link_kinds & ~(1u << HETCCL_LINK_SHM),
        };
    }
}

static enum hetccl_status build_topo(struct hetccl_comm *comm, const uint8_t *results)
{
    size_t sizes[MAX_SPLIT_SIZES];
    struct hetccl_topo_args args = {.n_ranks = comm->n_ranks, .split_sizes = sizes};
    struct hetccl_rank_facts *facts = NULL;
    enum hetccl_status status = parse_split(comm->config.island_split, sizes, &args.n_split_sizes);

    if (status == HETCCL_OK)
        status = hetccl_alloc(comm->n_ranks, sizeof(*facts), &facts);
    if (status != HETCCL_OK)
        return status;
    fill_facts(comm, results, facts);
    args.facts = facts;
    args.must_use_ccl = comm->config.engine == HETCCL_USE_CCL;
    for (int kind = 0; kind < HETCCL_LINK_KINDS; kind++)
        args.link_cost[kind] = hetccl_topo_default_link_cost((enum hetccl_link_kind)kind);
    for (int kind = 0; kind < HETCCL_ENGINE_KINDS; kind++)
        args.engine_cost[kind] = hetccl_topo_default_engine_cost((enum hetccl_engine_kind)kind);
    status = hetccl_topo_build(&args, &comm->topo);
    comm->has_topo = status == HETCCL_OK;
    hetccl_free(facts);
    return status;
}

static enum hetccl_status agree(struct hetccl_comm *comm)
{
    uint64_t *hashes;
    enum hetccl_status status = hetccl_alloc(comm->n_ranks, sizeof(*hashes), &hashes);

    if (status != HETCCL_OK)
        return status;
    status = hetccl_mesh_all_gather(comm->mesh, &comm->topo.hash, sizeof(comm->topo.hash), hashes,
                                    comm->config.init_timeout_s);
    for (uint32_t rank = 0; status == HETCCL_OK && rank < comm->n_ranks; rank++)
        if (hashes[rank] != hashes[0])
            status = hetccl_fail(HETCCL_ERR_INTERNAL,
                                 "rank %u on host %s built another topology than rank 0 on host %s out of "
                                 "the same facts: use the same build of the library everywhere",
                                 rank, comm->peers[rank].host_name, comm->peers[0].host_name);
    hetccl_free(hashes);
    return status;
}

/* ---- engine ---- */

/* Where this rank's island has its area: after those of the host's islands with lower numbers. */
static size_t engine_area_offset(const struct hetccl_comm *comm)
{
    const struct hetccl_topo *topo = &comm->topo;
    uint32_t own_island = topo->island_of[comm->rank];
    uint32_t n_candidates = 0;
    size_t offset;

    for (uint32_t rank = 0; rank < comm->n_ranks; rank++)
        n_candidates += rank == comm->rank || is_candidate(comm, rank, comm->rank);
    offset = sizeof(struct host_header) + n_candidates * sizeof(struct hetccl_doorbell);
    for (uint32_t island = 0; island < own_island; island++)
        if (topo->islands[island].host == topo->host_of[comm->rank] &&
            topo->islands[island].engine == HETCCL_ENGINE_SHM)
            offset +=
                hetccl_round_up(hetccl_engine_shm_bytes(topo->islands[island].n_ranks), HETCCL_CACHE_LINE);
    return offset;
}

static enum hetccl_status make_shm_engine(struct hetccl_comm *comm)
{
    const struct hetccl_island *island = &comm->topo.islands[comm->topo.island_of[comm->rank]];
    struct hetccl_doorbell **doorbells = NULL;
    struct hetccl_engine_shm_args args;
    enum hetccl_status status;
    size_t offset;

    offset = engine_area_offset(comm);
    if (offset + hetccl_engine_shm_bytes(island->n_ranks) > comm->host_segment.bytes)
        return hetccl_fail(HETCCL_ERR_INTERNAL,
                           "rank %u: the host segment has no room for an island of %u ranks", comm->rank,
                           island->n_ranks);
    status = hetccl_alloc(island->n_ranks, sizeof(*doorbells), &doorbells);
    if (status != HETCCL_OK)
        return status;
    for (uint32_t i = 0; i < island->n_ranks; i++)
        doorbells[i] = host_doorbell(comm, island->ranks[i]);
    args = (struct hetccl_engine_shm_args){.device = comm->device,
                                           .segment = (char *)comm->host_segment.memory + offset,
                                           .segment_bytes = hetccl_engine_shm_bytes(island->n_ranks),
                                           .doorbells = doorbells,
                                           .island_rank = comm->topo.island_rank_of[comm->rank],
                                           .n_ranks = island->n_ranks,
                                           .ranks = island->ranks,
                                           .slot_bytes = comm->config.slot_bytes};
    status = hetccl_engine_shm_create(&args, &comm->engine);
    hetccl_free(doorbells);
    return status;
}

static bool has_ccl_island(const struct hetccl_topo *topo)
{
    for (uint32_t i = 0; i < topo->n_islands; i++)
        if (topo->islands[i].engine == HETCCL_ENGINE_CCL)
            return true;
    return false;
}

/* All ranks of a communicator with such an island meet here; those of other islands only pass on what they
 * hear.
 */
static enum hetccl_status make_ccl_engine(struct hetccl_comm *comm)
{
    const struct hetccl_island *island = &comm->topo.islands[comm->topo.island_of[comm->rank]];
    const struct hetccl_ccl_api *api = hetccl_vendor_api_loaded();
    struct ncclComm *vendor = NULL;
    enum hetccl_status status = hetccl_comm_join_vendor(comm, island, &vendor);

    if (status != HETCCL_OK || vendor == NULL)
        return status;
    return hetccl_engine_ccl_create(api, vendor, comm->topo.island_rank_of[comm->rank], island->n_ranks,
                                    &comm->engine);
}

/* p2p needs no object: the executor lowers its steps to sends and combines. */
static enum hetccl_status make_engine(struct hetccl_comm *comm)
{
    const struct hetccl_topo *topo = &comm->topo;
    enum hetccl_status status = HETCCL_OK;

    if (hetccl_topo_is_native(topo))
        return HETCCL_OK;
    if (has_ccl_island(topo))
        status = make_ccl_engine(comm);
    if (status == HETCCL_OK && topo->islands[topo->island_of[comm->rank]].engine == HETCCL_ENGINE_SHM)
        status = make_shm_engine(comm);
    return status;
}

/* Ranks whose launches share this rank's device. */
static uint32_t n_sharing(const struct hetccl_comm *comm)
{
    const struct hetccl_wire_peer *own = &comm->peers[comm->rank];
    uint32_t n = 0;

    for (uint32_t rank = 0; rank < comm->n_ranks; rank++)
        n += comm->peers[rank].machine_key == own->machine_key && comm->peers[rank].pci_key == own->pci_key;
    return n;
}

static enum hetccl_status make_bridge(struct hetccl_comm *comm)
{
    struct hetccl_bridge_options options = {.n_sharing = n_sharing(comm),
                                            .slot_bytes = hetccl_comm_ring_slot_bytes(comm),
                                            .mover = comm->config.mover,
                                            .copy_bytes = comm->config.copy_bytes};
    struct hetccl_bridge *bridge;
    enum hetccl_status status;

    if (comm->device->ops->is_synchronous || hetccl_topo_is_native(&comm->topo))
        return HETCCL_OK;
    status = hetccl_bridge_create(comm->device, &options, &bridge);
    if (status != HETCCL_OK)
        return status;
    comm->bridge = bridge;
    return hetccl_comm_watch_start(comm);
}

static void log_result(const struct hetccl_comm *comm)
{
    const struct hetccl_topo *topo = &comm->topo;
    const struct hetccl_island *island = &topo->islands[topo->island_of[comm->rank]];

    hetccl_log(HETCCL_LOG_INFO, "comm",
               "%s rank %u of %u: %u islands on %u hosts; mine is island %u, vendor %s, engine %s, "
               "%u ranks; topology %016" PRIx64,
               comm->options.name[0] != '\0' ? comm->options.name : "communicator", comm->rank, comm->n_ranks,
               topo->n_islands, topo->n_hosts, topo->island_of[comm->rank],
               hetccl_vendor_name(island->vendor), hetccl_engine_name(island->engine), island->n_ranks,
               topo->hash);
}

enum hetccl_status hetccl_comm_join(struct hetccl_comm *comm)
{
    const struct hetccl_island *island;
    uint8_t *results = NULL;
    enum hetccl_status status = comm->device_status;

    if (status != HETCCL_OK)
        return hetccl_fail_quietly(status, "%s", comm->failure_text);
    status = hetccl_comm_exchange_facts(comm);
    if (status == HETCCL_OK)
        status = hetccl_alloc(comm->n_ranks, 1, &results);
    if (status == HETCCL_OK)
        status = try_host(comm, results);
    if (status == HETCCL_OK)
        status = build_topo(comm, results);
    hetccl_free(results);
    if (status == HETCCL_OK)
        status = agree(comm);
    if (status == HETCCL_OK)
        status = make_engine(comm);
    if (status == HETCCL_OK)
        status = hetccl_alloc((size_t)comm->n_ranks * HETCCL_CHANNELS, sizeof(*comm->links), &comm->links);
    if (status == HETCCL_OK)
        status = make_bridge(comm);
    if (status != HETCCL_OK)
        return status;
    island = &comm->topo.islands[comm->topo.island_of[comm->rank]];
    comm->env = (struct hetccl_exec_env){.rank = comm->rank,
                                         .island_of = comm->topo.island_of,
                                         .device = comm->device,
                                         .engine = comm->engine,
                                         .link_context = comm,
                                         .find_link = hetccl_comm_find_link,
                                         .find_ring = hetccl_comm_find_ring,
                                         .bridge = comm->bridge,
                                         .island_ranks = island->ranks,
                                         .n_island_ranks = island->n_ranks,
                                         .island_rank = comm->topo.island_rank_of[comm->rank]};
    comm->is_crowded = hetccl_comm_is_crowded(comm);
    if (hetccl_topo_is_native(&comm->topo))
        status = hetccl_comm_join_native(comm);
    if (status != HETCCL_OK)
        return status;
    log_result(comm);
    /* Only the first outcome counts: a failure that came in meanwhile stays. */
    int expected = (int)HETCCL_AGAIN;
    (void)atomic_compare_exchange_strong(&comm->state, &expected, (int)HETCCL_OK);
    if (expected != (int)HETCCL_AGAIN)
        return hetccl_comm_async_state(comm);
    hetccl_comm_become_native(comm);
    return HETCCL_OK;
}
