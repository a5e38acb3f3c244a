/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "topo/topo.h"

static const char *const vendor_names[HETCCL_VENDORS] = {"cpu", "nvidia", "amd"};
static const char *const engine_names[HETCCL_ENGINE_KINDS] = {"none", "shm", "p2p", "ccl"};
static const char *const link_names[HETCCL_LINK_KINDS] = {"shm", "verbs", "tcp"};

/*
 * Starting figures, one message or one collective at a time: what a current server does without tuning. They
 * only have to rank plans; measured figures replace them when the caller has any.
 */
static const struct hetccl_cost link_costs[HETCCL_LINK_KINDS] = {
    [HETCCL_LINK_SHM] = {.latency_us = 1.5, .bytes_per_us = 6000.0},
    [HETCCL_LINK_VERBS] = {.latency_us = 4.0, .bytes_per_us = 24000.0},
    [HETCCL_LINK_TCP] = {.latency_us = 25.0, .bytes_per_us = 2500.0},
};
static const struct hetccl_cost engine_costs[HETCCL_ENGINE_KINDS] = {
    [HETCCL_ENGINE_NONE] = {.latency_us = 0.5, .bytes_per_us = 10000.0},
    [HETCCL_ENGINE_SHM] = {.latency_us = 2.0, .bytes_per_us = 5000.0},
    [HETCCL_ENGINE_P2P] = {.latency_us = 15.0, .bytes_per_us = 100000.0},
    [HETCCL_ENGINE_CCL] = {.latency_us = 15.0, .bytes_per_us = 200000.0},
};

static int find_name(const char *const *names, int n_names, const char *name)
{
    for (int i = 0; i < n_names; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

const char *hetccl_vendor_name(enum hetccl_vendor vendor)
{
    return (unsigned)vendor < HETCCL_VENDORS ? vendor_names[vendor] : "unknown";
}

int hetccl_vendor_find(const char *name)
{
    return find_name(vendor_names, HETCCL_VENDORS, name);
}

const char *hetccl_engine_name(enum hetccl_engine_kind kind)
{
    return (unsigned)kind < HETCCL_ENGINE_KINDS ? engine_names[kind] : "unknown";
}

const char *hetccl_link_name(enum hetccl_link_kind kind)
{
    return (unsigned)kind < HETCCL_LINK_KINDS ? link_names[kind] : "unknown";
}

int hetccl_link_find(const char *name)
{
    return find_name(link_names, HETCCL_LINK_KINDS, name);
}

struct hetccl_cost hetccl_topo_default_link_cost(enum hetccl_link_kind kind)
{
    return link_costs[(unsigned)kind < HETCCL_LINK_KINDS ? kind : HETCCL_LINK_TCP];
}

struct hetccl_cost hetccl_topo_default_engine_cost(enum hetccl_engine_kind kind)
{
    return engine_costs[(unsigned)kind < HETCCL_ENGINE_KINDS ? kind : HETCCL_ENGINE_NONE];
}
