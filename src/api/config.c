/* SPDX-License-Identifier: Apache-2.0 */

/*
 * ncclConfig_t, as callers of any release hand it over. Neither its size nor its version is enough to know
 * which members exist: new members have been put into the padding at the end of an old struct (the size
 * stays, and old callers' padding is rubbish), and a version may be newer than the struct (AMD's header
 * says 2.30.7 but lacks that release's last member). So a member is read when it lies inside the caller's
 * size and the caller's header, by version, has it; one column a vendor.
 */

#include <stdio.h>
#include <string.h>

#include "api/api.h"

/* The layout up to release 2.31, whatever our own public header says. */
struct config_layout {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int blocking;
    int cga_cluster_size;
    int min_ctas;
    int max_ctas;
    const char *net_name;
    int split_share;
    int traffic_class;
    const char *comm_name;
    int collnet_enable;
    int cta_policy;
    int shrink_share;
    int nvls_ctas;
    int n_channels_per_net_peer;
    int nvlink_centric_sched;
    int graph_usage_mode;
    int num_rma_ctx;
    int max_p2p_peers;
    int graph_stream_ordering;
    int launch_order_implicit;
    int num_rma_sig;
    int rma_eager_init;
    int host_cft_mode;
    int nvls_host_mode;
};

#define AT(member) offsetof(struct config_layout, member)

_Static_assert(AT(blocking) == 16 && AT(net_name) == 32 && AT(split_share) == 40 && AT(traffic_class) == 44,
               "2.26");
_Static_assert(AT(comm_name) == 48 && AT(nvls_ctas) == 68 && AT(nvlink_centric_sched) == 76, "2.28");
_Static_assert(AT(num_rma_ctx) == 84 && AT(max_p2p_peers) == 88 && AT(graph_stream_ordering) == 92, "2.30");
_Static_assert(AT(launch_order_implicit) == 96 && sizeof(struct config_layout) == 120, "2.31");
_Static_assert(offsetof(ncclConfig_t, graphStreamOrdering) == AT(graph_stream_ordering), "our own header");

struct member {
    const char *name;
    size_t offset;
    unsigned since[2]; /* by enum hetccl_dialect: first header version that has it */
    int min, max;      /* of a defined value */
};

static const struct member members[] = {
    {"blocking", AT(blocking), {21400, 21400}, 0, 1},
    {"cgaClusterSize", AT(cga_cluster_size), {21700, 21700}, 0, INT_MAX},
    {"minCTAs", AT(min_ctas), {21700, 21700}, 1, INT_MAX},
    {"maxCTAs", AT(max_ctas), {21700, 21700}, 1, INT_MAX},
    {"splitShare", AT(split_share), {21800, 21800}, 0, 1},
    /* any value: NVIDIA's library hands it to the network */
    {"trafficClass", AT(traffic_class), {22602, 22602}, INT_MIN, INT_MAX},
    {"collnetEnable", AT(collnet_enable), {22700, 22700}, 0, 1},
    {"CTAPolicy", AT(cta_policy), {22700, 22700}, 0, NCCL_CTA_POLICY_ZERO | NCCL_CTA_POLICY_EFFICIENCY},
    {"shrinkShare", AT(shrink_share), {22700, 22700}, 0, 1},
    {"nvlsCTAs", AT(nvls_ctas), {22700, 22700}, 1, INT_MAX},
    {"nChannelsPerNetPeer", AT(n_channels_per_net_peer), {22800, 22800}, 1, INT_MAX},
    {"nvlinkCentricSched", AT(nvlink_centric_sched), {22800, 22800}, 0, 1},
    {"graphUsageMode", AT(graph_usage_mode), {22900, 22900}, 0, 2},
    {"numRmaCtx", AT(num_rma_ctx), {22900, 22900}, 0, INT_MAX},
    {"maxP2pPeers", AT(max_p2p_peers), {23000, 23000}, 1, INT_MAX},
    {"graphStreamOrdering", AT(graph_stream_ordering), {23005, 23100}, 0, 1},
    {"numRmaSig", AT(num_rma_sig), {23100, 23100}, 0, INT_MAX},
    {"hostCftMode", AT(host_cft_mode), {23100, 23100}, 1, 3},
};

/* A caller's struct, copied; members that its header lacks, by size, are zero and never looked at. */
struct config_copy {
    size_t size;
    unsigned version;
    enum hetccl_dialect dialect;
    struct config_layout layout;
};

static bool has_member(const struct config_copy *config, size_t offset, size_t bytes, unsigned since)
{
    return offset + bytes <= config->size && config->version >= since;
}

/* False when the member isn't there or was left undefined. */
static bool find_value(const struct config_copy *config, const struct member *member, int *out)
{
    int value;

    if (!has_member(config, member->offset, sizeof(value), member->since[config->dialect]))
        return false;
    memcpy(&value, (const char *)&config->layout + member->offset, sizeof(value));
    if (value == NCCL_CONFIG_UNDEF_INT)
        return false;
    *out = value;
    return true;
}

static const struct member *find_member(size_t offset)
{
    size_t i = 0;

    while (members[i].offset != offset)
        i++;
    return &members[i];
}

static enum hetccl_status check_members(const struct config_copy *config)
{
    int min_ctas;
    int max_ctas;

    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        const struct member *member = &members[i];
        int value;

        if (!find_value(config, member, &value) || (value >= member->min && value <= member->max))
            continue;
        if (member->max == INT_MAX)
            return hetccl_fail(HETCCL_ERR_ARG, "ncclConfig_t.%s is %d: it takes %d or more", member->name,
                               value, member->min);
        return hetccl_fail(HETCCL_ERR_ARG, "ncclConfig_t.%s is %d: it takes %d to %d", member->name, value,
                           member->min, member->max);
    }
    if (find_value(config, find_member(AT(min_ctas)), &min_ctas) &&
        find_value(config, find_member(AT(max_ctas)), &max_ctas) && min_ctas > max_ctas)
        return hetccl_fail(HETCCL_ERR_ARG, "ncclConfig_t.minCTAs is %d: it takes 1 to maxCTAs, which is %d",
                           min_ctas, max_ctas);
    return HETCCL_OK;
}

static enum hetccl_status copy_config(const void *config, enum hetccl_dialect dialect,
                                      struct config_copy *out)
{
    struct config_copy copy = {.dialect = dialect};

    memcpy(&copy.size, config, sizeof(copy.size));
    if (copy.size < AT(blocking))
        return hetccl_fail(HETCCL_ERR_ARG,
                           "ncclConfig_t.size is %zu: initialise the struct with NCCL_CONFIG_INITIALIZER",
                           copy.size);
    if (copy.size > sizeof(copy.layout))
        copy.size = sizeof(copy.layout);
    memcpy(&copy.layout, config, copy.size);
    if (copy.layout.magic != NCCL_API_MAGIC)
        return hetccl_fail(
            HETCCL_ERR_ARG,
            "ncclConfig_t.magic is 0x%x, not 0x%x: initialise the struct with NCCL_CONFIG_INITIALIZER",
            copy.layout.magic, NCCL_API_MAGIC);
    copy.version = copy.layout.version;
    *out = copy;
    return HETCCL_OK;
}

enum hetccl_status hetccl_options_read(const void *config, enum hetccl_dialect dialect,
                                       struct hetccl_comm_options *out)
{
    struct hetccl_comm_options options;
    struct config_copy copy;
    int blocking;
    enum hetccl_status status = hetccl_comm_default_options(&options);

    if (status != HETCCL_OK || config == NULL) {
        if (status == HETCCL_OK)
            *out = options;
        return status;
    }
    /* For the vendor's library, should the communicator become one of its own: that reads it by its own
     * rules. */
    hetccl_ccl_config_copy(config, &options.vendor);
    status = copy_config(config, dialect, &copy);
    if (status == HETCCL_OK)
        status = check_members(&copy);
    if (status != HETCCL_OK)
        return status;
    if (find_value(&copy, find_member(AT(blocking)), &blocking))
        options.is_blocking = blocking != 0;
    if (has_member(&copy, AT(comm_name), sizeof(copy.layout.comm_name), 22700) &&
        copy.layout.comm_name != NULL)
        (void)snprintf(options.name, sizeof(options.name), "%s", copy.layout.comm_name);
    *out = options;
    return HETCCL_OK;
}
