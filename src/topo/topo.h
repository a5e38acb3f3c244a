/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TOPO_TOPO_H
#define HETCCL_TOPO_TOPO_H

/*
 * Who is where: a pure function of the figures that all ranks exchanged, so that every rank has the same one.
 *
 *   island   ranks that share one engine; ordered by their lowest rank, ranks inside ascending
 *   host     ranks that proved to share memory (numbered by lowest rank)
 *   domain   the islands that lie on one host; an island that spans hosts is a domain of its own. Data that
 * crosses domains is combined inside the domain first, so a network never carries what shared memory could
 * merge.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum hetccl_vendor { HETCCL_VENDOR_CPU = 0, HETCCL_VENDOR_NVIDIA, HETCCL_VENDOR_AMD, HETCCL_VENDORS };
enum hetccl_engine_kind {
    HETCCL_ENGINE_NONE = 0,
    HETCCL_ENGINE_SHM,
    HETCCL_ENGINE_P2P,
    HETCCL_ENGINE_CCL,
    HETCCL_ENGINE_KINDS
};
enum hetccl_link_kind { HETCCL_LINK_SHM = 0, HETCCL_LINK_VERBS, HETCCL_LINK_TCP, HETCCL_LINK_KINDS };

const char *hetccl_vendor_name(enum hetccl_vendor vendor);
int hetccl_vendor_find(const char *name); /* -1: unknown */
const char *hetccl_engine_name(enum hetccl_engine_kind kind);
const char *hetccl_link_name(enum hetccl_link_kind kind);
int hetccl_link_find(const char *name); /* -1: unknown */

/* What one rank said of itself, as far as it shapes the topology. */
struct hetccl_rank_facts {
    uint64_t host_key;    /* equal on ranks that proved to share memory; made unique where the trial failed */
    uint64_t library_key; /* version of the vendor's library; islands of `ccl` are split by it */
    enum hetccl_vendor vendor;
    enum hetccl_engine_kind engine; /* best engine the rank can use */
    bool has_p2p;                   /* engine ccl: p2p will do where ccl can't be */
    uint64_t gpu_key;               /* equal on ranks that share a GPU; 0: none */
    uint32_t link_kinds;            /* bit per hetccl_link_kind the rank can use across islands */
};

/* Costs for the choice of plans, exchanged or defaults: one message costs latency_ns + bytes /
 * (bytes_per_us). */
struct hetccl_cost {
    double latency_us;
    double bytes_per_us;
};

struct hetccl_topo_args {
    size_t n_ranks;
    const struct hetccl_rank_facts *facts; /* n_ranks; borrowed during the call */
    const size_t *split_sizes;             /* HETCCL_ISLAND_SPLIT parsed; NULL when n_split_sizes is 0 */
    size_t n_split_sizes;
    bool must_use_ccl; /* fail rather than put another engine in its place */
    struct hetccl_cost link_cost[HETCCL_LINK_KINDS];
    struct hetccl_cost engine_cost[HETCCL_ENGINE_KINDS];
};

struct hetccl_island {
    enum hetccl_vendor vendor;
    enum hetccl_engine_kind engine; /* HETCCL_ENGINE_NONE for one rank, unless the topology is native */
    uint32_t domain;
    uint32_t host; /* UINT32_MAX when it spans hosts */
    uint32_t n_ranks;
    uint32_t *ranks; /* ascending */
};

struct hetccl_domain {
    uint32_t n_islands;
    uint32_t *islands; /* ascending */
};

struct hetccl_topo {
    uint32_t n_ranks, n_islands, n_hosts, n_domains;
    struct hetccl_island *islands;
    struct hetccl_domain *domains;
    uint32_t *island_of;      /* by rank */
    uint32_t *island_rank_of; /* by rank: index inside the island */
    uint32_t *host_of;        /* by rank */
    uint32_t *link_kinds_of;  /* by rank */
    struct hetccl_cost link_cost[HETCCL_LINK_KINDS];
    struct hetccl_cost engine_cost[HETCCL_ENGINE_KINDS];
    uint64_t hash; /* over all of the above: compared at init */
    void *storage;
};

/*
 * hetccl_topo_build -- islands, hosts and domains out of all ranks' facts.
 *
 * Same vendor and, for ccl, same library_key make an island; for p2p and shm also the same host. Then
 * split_sizes cuts each island further (left-over ranks form a last one). A ccl island in which two ranks
 * share a GPU, which vendors' libraries refuse, falls apart into p2p islands, one a host, or into single
 * ranks where p2p can't be either. Ownership: *out's arrays are freed by hetccl_topo_fini(). Errors:
 * HETCCL_ERR_SYSTEM; HETCCL_ERR_USAGE for shared GPUs with must_use_ccl.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_topo_build(const struct hetccl_topo_args *args,
                                                      struct hetccl_topo *out);
void hetccl_topo_fini(struct hetccl_topo *topo);

/* One island whose engine is ccl, of however many ranks: the communicator is the vendor library's own. */
bool hetccl_topo_is_native(const struct hetccl_topo *topo);

/*
 * The link kind between two ranks: shm on one host if both can, else the first of verbs, tcp that both can.
 * Errors: HETCCL_ERR_USAGE naming both ranks when there is none.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_topo_link_kind(const struct hetccl_topo *topo, uint32_t a_rank,
                                                          uint32_t b_rank, enum hetccl_link_kind *out);

/* Default costs of a link or engine kind, for callers that have measured nothing. */
struct hetccl_cost hetccl_topo_default_link_cost(enum hetccl_link_kind kind);
struct hetccl_cost hetccl_topo_default_engine_cost(enum hetccl_engine_kind kind);

#endif
