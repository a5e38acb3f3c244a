/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ERROR_BYTES = 160 };

static bool read_island(struct hetccl_cluster_island *island, const char *text, size_t length)
{
    static const char *const vendors[] = {"nvidia", "amd", "cpu"};
    const char *colon = memchr(text, ':', length);
    unsigned long count = 0;
    size_t name_length = colon != NULL ? (size_t)(colon - text) : length;
    char *end;

    if (colon == NULL || name_length == 0 || name_length >= sizeof(island->vendor) || colon[1] < '0' ||
        colon[1] > '9')
        return false;
    count = strtoul(colon + 1, &end, 10);
    if (end != text + length || count < 1 || count > HETCCL_CLUSTER_MAX_RANKS)
        return false;
    memcpy(island->vendor, text, name_length);
    island->vendor[name_length] = '\0';
    island->n_ranks = (uint32_t)count;
    for (size_t i = 0; i < sizeof(vendors) / sizeof(vendors[0]); i++)
        if (strcmp(vendors[i], island->vendor) == 0)
            return true;
    return false;
}

bool hetccl_cluster_read_islands(struct hetccl_cluster *cluster, const char *text, char error_out[160])
{
    const char *at = text;

    cluster->n_islands = 0;
    for (;;) {
        size_t length = strcspn(at, ",");

        if (cluster->n_islands == HETCCL_CLUSTER_MAX_ISLANDS ||
            !read_island(&cluster->islands[cluster->n_islands], at, length)) {
            (void)snprintf(
                error_out, ERROR_BYTES,
                "--islands %.60s: takes vendor:ranks,... with vendor nvidia, amd or cpu (nvidia:2,amd:3)",
                text);
            return false;
        }
        cluster->n_islands++;
        at += length;
        if (*at == '\0')
            return true;
        at++;
    }
}

bool hetccl_cluster_read_order(struct hetccl_cluster *cluster, const char *text, char error_out[160])
{
    cluster->is_interleaved = strcmp(text, "interleaved") == 0;
    if (cluster->is_interleaved || strcmp(text, "block") == 0)
        return true;
    (void)snprintf(error_out, ERROR_BYTES, "--order %.60s: takes block or interleaved", text);
    return false;
}

/* Rank after rank gets the next island that still has room; place_of is its position in block order. */
static void deal_ranks(struct hetccl_cluster *cluster, uint32_t *place_of)
{
    uint32_t used[HETCCL_CLUSTER_MAX_ISLANDS] = {0};
    uint32_t first[HETCCL_CLUSTER_MAX_ISLANDS] = {0};
    uint32_t island = 0;

    for (uint32_t i = 1; i < cluster->n_islands; i++)
        first[i] = first[i - 1] + cluster->islands[i - 1].n_ranks;
    for (uint32_t rank = 0; rank < cluster->n_ranks; rank++) {
        while (used[island] == cluster->islands[island].n_ranks)
            island = (island + 1) % cluster->n_islands;
        cluster->island_of[rank] = island;
        place_of[rank] = first[island] + used[island]++;
        if (cluster->is_interleaved)
            island = (island + 1) % cluster->n_islands;
    }
}

static bool check_sizes(struct hetccl_cluster *cluster, uint32_t default_ranks, char error_out[160])
{
    uint32_t total = 0;

    for (uint32_t i = 0; i < cluster->n_islands; i++)
        total += cluster->islands[i].n_ranks;
    if (cluster->n_ranks == 0)
        cluster->n_ranks = cluster->n_islands > 0 ? total : default_ranks;
    if (cluster->n_islands > 0 && cluster->n_ranks != total) {
        (void)snprintf(error_out, ERROR_BYTES, "-n %u: but the islands have %u ranks in all",
                       cluster->n_ranks, total);
        return false;
    }
    if (cluster->n_ranks > HETCCL_CLUSTER_MAX_RANKS) {
        (void)snprintf(error_out, ERROR_BYTES, "-n %u: at most %d ranks", cluster->n_ranks,
                       HETCCL_CLUSTER_MAX_RANKS);
        return false;
    }
    if (cluster->n_hosts > cluster->n_ranks) {
        (void)snprintf(error_out, ERROR_BYTES, "--hosts %u: but there are only %u ranks", cluster->n_hosts,
                       cluster->n_ranks);
        return false;
    }
    return true;
}

bool hetccl_cluster_place(struct hetccl_cluster *cluster, uint32_t default_ranks, char error_out[160])
{
    uint32_t *place_of;

    if (!check_sizes(cluster, default_ranks, error_out))
        return false;
    place_of = calloc(cluster->n_ranks, sizeof(*place_of));
    cluster->island_of = calloc(cluster->n_ranks, sizeof(*cluster->island_of));
    cluster->host_of = calloc(cluster->n_ranks, sizeof(*cluster->host_of));
    if (place_of == NULL || cluster->island_of == NULL || cluster->host_of == NULL) {
        (void)snprintf(error_out, ERROR_BYTES, "no memory for %u ranks: %s", cluster->n_ranks,
                       strerror(errno));
        free(place_of);
        return false;
    }
    if (cluster->n_islands > 0)
        deal_ranks(cluster, place_of);
    else
        for (uint32_t rank = 0; rank < cluster->n_ranks; rank++)
            place_of[rank] = rank;
    for (uint32_t rank = 0; rank < cluster->n_ranks; rank++)
        cluster->host_of[rank] =
            cluster->n_hosts > 0 ? (uint32_t)((uint64_t)place_of[rank] * cluster->n_hosts / cluster->n_ranks)
                                 : 0;
    free(place_of);
    return true;
}

void hetccl_cluster_fini(struct hetccl_cluster *cluster)
{
    free(cluster->island_of);
    free(cluster->host_of);
    cluster->island_of = NULL;
    cluster->host_of = NULL;
}

const char *hetccl_cluster_vendor(const struct hetccl_cluster *cluster, uint32_t rank)
{
    return cluster->n_islands > 0 ? cluster->islands[cluster->island_of[rank]].vendor : NULL;
}
