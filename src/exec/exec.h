/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_EXEC_EXEC_H
#define HETCCL_EXEC_EXEC_H

/*
 * Runs plans. A run is one execution of one plan by one rank; it never blocks: somebody calls progress until
 * it is done, or, on an asynchronous device, until everything is enqueued on the call's stream. Island steps
 * go to the engine in their order, messages to links in the order of the plan for each peer, arithmetic to
 * the device. Steps whose dependencies are done run at once, whatever their place in the plan.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "device/device.h"
#include "engine/engine.h"
#include "exec/bridge.h"
#include "exec/ring.h"
#include "link/link.h"
#include "plan/plan.h"

/*
 * What a rank of a communicator executes with; owned by the communicator, which outlives its runs.
 *
 * find_link  the link to a rank for a channel: HETCCL_OK, HETCCL_AGAIN while it is being connected, or an
 * error. Called again with the same arguments until it is there; never blocks.
 * find_ring  the same on an asynchronous device, which has no links.
 */
struct hetccl_exec_env {
    uint32_t rank;
    const uint32_t *island_of; /* by rank; to tell messages between islands from others */
    struct hetccl_device *device;
    struct hetccl_engine *engine; /* NULL: no island steps */
    void *link_context;
    enum hetccl_status (*find_link)(void *context, uint32_t peer, uint32_t channel, struct hetccl_link **out);
    enum hetccl_status (*find_ring)(void *context, uint32_t peer, uint32_t channel,
                                    const struct hetccl_ring **out);
    struct hetccl_bridge *bridge; /* NULL on a synchronous device */
    const uint32_t *island_ranks; /* of a p2p island: rank by island rank */
    uint32_t n_island_ranks, island_rank;
};

/* Links of one pair keep collectives and groups of sends and receives apart. */
enum { HETCCL_CHANNEL_COLLECTIVE = 0, HETCCL_CHANNEL_P2P = 1, HETCCL_CHANNELS = 2 };

/* What one execution works on. Buffers are device memory; borrowed until the run is done. */
struct hetccl_run_args {
    const void *send;
    void *recv;
    void *scratch;
    size_t elem_bytes;
    enum hetccl_type type;
    enum hetccl_red red;
    struct hetccl_scale scale; /* of raw inputs; ignored by plans made without has_scale */
    const void *scale_pointer; /* where the scale lies when the call runs, in device memory; NULL: in scale */
    struct hetccl_stream stream;
    struct hetccl_call_tag tag;
    uint32_t channel;
};

struct hetccl_run;

struct hetccl_run_counters {
    uint64_t steps;
    uint64_t cross_sent_bytes, cross_received_bytes, cross_messages;
    uint64_t island_operations;
};

/*
 * hetccl_run_create -- the workspace for runs of one plan: all the memory that they will need.
 *
 * plan, env [in] borrowed until destroy
 * Errors: HETCCL_ERR_SYSTEM; HETCCL_ERR_INTERNAL for a plan with island steps and no engine.
 */
HETCCL_NODISCARD enum hetccl_status
hetccl_run_create(const struct hetccl_exec_env *env, const struct hetccl_plan *plan, struct hetccl_run **out);
void hetccl_run_destroy(struct hetccl_run *run);

/* Begins an execution. The previous one of this workspace is done or was given up. */
void hetccl_run_start(struct hetccl_run *run, const struct hetccl_run_args *args);

/*
 * hetccl_run_progress -- HETCCL_OK when the execution is done (enqueued), HETCCL_AGAIN while it goes on, else
 * its first error (then links and engine are in no defined state: the communicator has failed). *moved_out:
 * whether anything happened.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_run_progress(struct hetccl_run *run, bool *moved_out);

/*
 * hetccl_run_connect -- asynchronous devices: whether an execution could be enqueued at once (HETCCL_OK), or
 * has to wait for connections (HETCCL_AGAIN), which are moved on.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_run_connect(struct hetccl_run *run, size_t elem_bytes,
                                                       uint32_t channel);

/* Of the last execution. */
const struct hetccl_run_counters *hetccl_run_read_counters(const struct hetccl_run *run);

/* What an unfinished run waits for, in words: "step 4 send 1024 bytes to rank 3". For deadlines and status.
 */
void hetccl_run_describe(const struct hetccl_run *run, char *out, size_t bytes);

/*
 * What a thread that waits for some runs may sleep on: links that poll (descriptors) and links or engines
 * that ring doorbells. Filled by hetccl_run_collect_waits() for each run, then used by hetccl_wait().
 */
enum { HETCCL_WAIT_MAX_FDS = 64, HETCCL_WAIT_MAX_DOORBELLS = 16 };

struct hetccl_wait_set {
    struct hetccl_doorbell *doorbells[HETCCL_WAIT_MAX_DOORBELLS];
    unsigned prepared[HETCCL_WAIT_MAX_DOORBELLS];
    size_t n_doorbells;
    int fds[HETCCL_WAIT_MAX_FDS];
    short events[HETCCL_WAIT_MAX_FDS];
    size_t n_fds;
    bool is_truncated; /* more descriptors than fit, or links still connecting: sleep only briefly */
    bool has_shared;   /* something rings instead of polling */
};

/* Adds a doorbell and announces the sleeper (hetccl_doorbell_prepare). A doorbell already in the set is not
 * added twice. */
void hetccl_wait_set_add_doorbell(struct hetccl_wait_set *set, struct hetccl_doorbell *doorbell);

/* Adds what the run waits for, except doorbells. */
void hetccl_run_collect_waits(const struct hetccl_run *run, struct hetccl_wait_set *set);

/*
 * Sleeps until something in the set may have happened, at most timeout_ns, and takes the announcements back.
 * The caller has made one more progress pass after the doorbells were added. timeout_ns 0 only takes the
 * announcements back.
 */
void hetccl_wait(struct hetccl_wait_set *set, uint64_t timeout_ns);

#endif
