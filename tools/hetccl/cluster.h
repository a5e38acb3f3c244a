/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TOOLS_CLUSTER_H
#define HETCCL_TOOLS_CLUSTER_H

/*
 * A pretend cluster as the command line describes it: --islands nvidia:2,amd:3 --order interleaved --hosts 2.
 *
 * Block order numbers the ranks island by island; interleaved takes one of each island in turn. Hosts cut the
 * block order into equal runs, so that an island stays on as few hosts as can be, whatever the rank order.
 */

#include <stdbool.h>
#include <stdint.h>

enum { HETCCL_CLUSTER_MAX_RANKS = 4096, HETCCL_CLUSTER_MAX_ISLANDS = 64, HETCCL_CLUSTER_WORD_BYTES = 16 };

struct hetccl_cluster_island {
    char vendor[HETCCL_CLUSTER_WORD_BYTES];
    uint32_t n_ranks;
};

struct hetccl_cluster {
    uint32_t n_ranks;
    uint32_t n_islands; /* 0: --islands was not given */
    struct hetccl_cluster_island islands[HETCCL_CLUSTER_MAX_ISLANDS];
    bool is_interleaved;
    uint32_t n_hosts;              /* 0: --hosts was not given */
    uint32_t *island_of, *host_of; /* by rank; after hetccl_cluster_place() */
};

/* Reads "nvidia:2,amd:3". False: one line of why is in error_out (size 160). */
bool hetccl_cluster_read_islands(struct hetccl_cluster *cluster, const char *text, char error_out[160]);
bool hetccl_cluster_read_order(struct hetccl_cluster *cluster, const char *text, char error_out[160]);

/*
 * Checks that ranks, islands and hosts fit together (n_ranks 0: as many as the islands have, default_ranks
 * without islands) and gives every rank its island and host. False as above.
 */
bool hetccl_cluster_place(struct hetccl_cluster *cluster, uint32_t default_ranks, char error_out[160]);
void hetccl_cluster_fini(struct hetccl_cluster *cluster);

/* The vendor a rank pretends to be; NULL when --islands was not given. */
const char *hetccl_cluster_vendor(const struct hetccl_cluster *cluster, uint32_t rank);

#endif
