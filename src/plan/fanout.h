/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_PLAN_FANOUT_H
#define HETCCL_PLAN_FANOUT_H

/*
 * Broadcast and reduce: how the root's island shares a chunk out among the others, so that it sends (or
 * receives) about one vector and not one for each of them.
 *
 * There are two fan-outs: from the root's island to its siblings in the domain, and to the other domains.
 * With q targets, part j of the chunk (one of q) goes to target j only, spread over its ranks; the targets
 * exchange the parts among themselves. Either fan-out may have no target.
 */

#include "plan/planner.h"

enum { HETCCL_TO_SIBLINGS = 0, HETCCL_TO_DOMAINS, HETCCL_FANOUTS };

struct hetccl_fanout {
    enum hetccl_level level; /* of the targets */
    uint32_t n_targets;
    uint32_t own_target; /* the target that this rank belongs to, or HETCCL_NO_TARGET */
};

enum { HETCCL_NO_TARGET = UINT32_MAX };

struct hetccl_rooted {
    struct hetccl_fanout fanouts[HETCCL_FANOUTS];
    const struct hetccl_fanout *mine; /* where this rank is in a target; NULL in the root's island */
    bool is_forwarding;               /* some fan-out has two targets or more */
    uint32_t root_island, root_domain;
    uint32_t ring; /* reduce */
    size_t slot_count;
};

void hetccl_rooted_init(struct hetccl_rooted *a, const struct hetccl_planner *p);

struct hetccl_space hetccl_rooted_chunk(const struct hetccl_planner *p, uint32_t chunk);

/* Part j of the chunk. */
struct hetccl_space hetccl_fanout_part(const struct hetccl_fanout *fanout, const struct hetccl_space *chunk,
                                       uint32_t target);

/* Adds target j to p->sweep. */
void hetccl_fanout_add(struct hetccl_planner *p, const struct hetccl_rooted *a,
                       const struct hetccl_fanout *fanout, uint32_t target, const struct hetccl_space *part);

#endif
