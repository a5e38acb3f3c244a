/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_COMM_INTERNAL_H
#define HETCCL_COMM_INTERNAL_H

/*
 * The communicator's insides, shared by the files of this folder:
 *
 *   life.c       handle, state, failure, abort, destroy
 *   facts.c      what ranks tell each other of themselves
 *   join.c       host trial, topology, agreement on it, engine
 *   split.c      split and shrink
 *   links.c      links made at first use
<<<<<<< HEAD
=======
 *   native.c     communicators that are the vendor library's own
>>>>>>> ccl
 *   rings.c      the same for asynchronous devices
 *   mixed.c      links from synchronous devices to asynchronous ones
 *   progress.c   a thread that forwards rings over links
 *   watch.c      a thread that watches what runs on one
 *   cache.c      plans and their workspaces
 *   call.c       checks, one collective
 *   session.c    groups of calls, waiting
 *   agreement.c  do all ranks make the same calls?
 *   query.c      what it says of itself
 *   memory.c     registrations, memory that belongs to no call, biases
 *
 * Locking: `lock` guards the failure text only, `calls_lock` the identities of calls, which the watching
 * thread reads too. Everything else belongs to the one thread that is inside; `state`, the flags and the
 * counters that other threads read are atomic.
 */

#include <pthread.h>
#include <stdatomic.h>

#include "base/config.h"
#include "base/doorbell.h"
#include "base/segment.h"
#include "comm/comm.h"
#include "comm/native.h"
#include "device/device.h"
#include "engine/engine.h"
#include "exec/exec.h"
#include "link/link.h"
#include "topo/topo.h"
#include "wire/peer.h"

struct hetccl_cached_plan {
    struct hetccl_plan *plan;
    struct hetccl_run *run;
    uint64_t last_use; /* 0: empty entry */
    /* the key */
    enum hetccl_coll coll;
    size_t count, elem_bytes;
    uint32_t root;
    bool is_in_place, has_scale;
};

enum { HETCCL_PLAN_CACHE_ENTRIES = 32 };

enum hetccl_peer_link_state {
    HETCCL_PEER_LINK_NONE = 0,
    HETCCL_PEER_LINK_OFFERED, /* lower rank: segment offered, answer awaited */
    HETCCL_PEER_LINK_AWAITED, /* higher rank: offer awaited */
    HETCCL_PEER_LINK_STREAMS, /* sockets being connected */
    HETCCL_PEER_LINK_READY,
};

/* One pair and channel. */
struct hetccl_peer_link {
    enum hetccl_peer_link_state state;
    struct hetccl_link *link;
    struct hetccl_segment segment;
    struct hetccl_mesh_stream *streams[HETCCL_LINK_TCP_MAX_SOCKETS];
    int sockets[HETCCL_LINK_TCP_MAX_SOCKETS];
    struct hetccl_ring ring; /* on an asynchronous device; over `segment`, p2p, or forwarded over `link` */
    bool has_ring;           /* and it is connected */
    struct hetccl_forward *forward; /* of `ring`, on a synchronous device; `pieces` takes it over */
    struct hetccl_link *pieces;     /* to an asynchronous peer, from a synchronous one: works on `ring` */
};

/* A buffer that grows and stays. */
struct hetccl_scratch {
    void *memory;
    size_t bytes;
    struct hetccl_blob *blob; /* on an asynchronous device: where memory is */
};

/* A collective as it is executed: averages of integers run on widened copies (call.c). */
struct hetccl_collective {
    struct hetccl_call call;            /* what the plan runs on */
    const struct hetccl_call *original; /* what the user asked for; NULL while none runs */
    struct hetccl_cached_plan *cached;
};

/* Execution of one group's calls on this communicator. Items of other communicators are skipped over. */
struct hetccl_session {
    bool is_listed; /* in the group's list of communicators */
    enum hetccl_status start_status;
    struct hetccl_comm *next;
    size_t next_item; /* where to look for the next collective */
    struct hetccl_collective active;
    struct hetccl_plan *p2p_plan;
    struct hetccl_run *p2p_run;
    bool has_entered_p2p; /* asynchronous device: its streams are joined */
    uint64_t
        grace_until_ns; /* a peer is gone: the time until which its reason may still arrive; 0: none is */
};

enum { HETCCL_RECENT_TAGS = 8 };

/* The thread that forwards rings (progress.c). */
struct hetccl_progress {
    struct hetccl_doorbell doorbell; /* it sleeps on it when no launch is under way */
    struct hetccl_progress_entry *_Atomic first;
    pthread_t thread;
    atomic_bool has_thread, is_ending;
};

struct hetccl_comm {
    struct hetccl_comm_head head; /* first: what the API looks at */
    unsigned fork_generation;     /* a forked child must not use it */
    struct hetccl_comm_options options;
    struct hetccl_config config;

    atomic_int state;           /* enum hetccl_status: AGAIN until init is done, OK, or the sticky failure */
    atomic_bool is_cancelled;   /* abort: ends waits of the mesh too */
    atomic_bool is_interrupted; /* abort or revoke: ends running calls */
    atomic_bool is_revoked;
    atomic_int n_jobs;   /* non-blocking jobs of the api layer */
    atomic_int n_inside; /* threads in blocking functions */
    pthread_mutex_t lock;
    char failure_text[HETCCL_ERROR_TEXT_BYTES];
    bool is_finalized;

    struct hetccl_comm_child *child; /* pending: made by a native parent */

    uint32_t n_ranks, rank;
    struct hetccl_mesh *_Atomic mesh; /* set by the initialising thread, read by one that aborts */
    struct hetccl_wire_peer *peers;   /* by rank */
    bool has_async_ranks;             /* some rank has an asynchronous device; equal on all ranks */
    struct hetccl_topo topo;
    bool has_topo;
    struct hetccl_device *device;     /* NULL: it couldn't be opened, and failure_text says why */
    enum hetccl_status device_status; /* of opening it */
    struct hetccl_engine *engine;
    struct hetccl_bridge *_Atomic bridge; /* asynchronous device; set by the initialising thread */
    pthread_t watch_thread;
    bool has_watch_thread;
    atomic_bool is_watch_ending;
    struct hetccl_progress progress;
    struct hetccl_segment host_segment; /* doorbells of the host's ranks, then the engines' areas */
    uint32_t host_leader;
    uint32_t *host_index_of;              /* by rank: index among the ranks of its host */
    struct hetccl_doorbell *own_doorbell; /* in the host segment, or `private_doorbell` */
    struct hetccl_doorbell *private_doorbell;
    struct hetccl_exec_env env;
    struct hetccl_peer_link *links; /* [rank * HETCCL_CHANNELS + channel] */

    pthread_mutex_t calls_lock;
    uint64_t sequence;                                      /* of collectives, from 1 */
    struct hetccl_call_tag recent_tags[HETCCL_RECENT_TAGS]; /* [sequence mod HETCCL_RECENT_TAGS] */
    uint64_t stuck_note_sequence;                           /* the last call that the others were told of */
    uint64_t n_p2p_groups;                                  /* of sends and receives, on this rank */
    uint64_t n_children;
    struct hetccl_cached_plan cache[HETCCL_PLAN_CACHE_ENTRIES];
    uint64_t cache_clock;
    struct hetccl_scratch scratch, wide_send, wide_recv;
    struct hetccl_session session;
    char grace_text[HETCCL_ERROR_TEXT_BYTES]; /* what the session saw when it began to fail */
    bool is_crowded;
    const char *last_plan;
    bool last_plan_is_small;

    _Atomic uint64_t n_calls, n_steps, n_cross_sent_bytes, n_cross_received_bytes, n_cross_messages,
        n_island_operations;
};

/* life.c: makes a failure sticky, wakes waiters and tells the mesh; the first one wins. Returns what is
 * sticky now. */
enum hetccl_status hetccl_comm_fail(struct hetccl_comm *comm, enum hetccl_status status, const char *text);

/* life.c: frees the communicator once no thread is inside; one that can't be got out keeps the memory. */
void hetccl_comm_leave(struct hetccl_comm *comm);

/* native.c: what the vendor's library says of a native or pending communicator; its text is the last error.
 */
enum hetccl_status hetccl_comm_vendor_state(struct hetccl_comm *comm);

/* native.c: for a child whose vendor communicator never came. */
void hetccl_comm_drop_child(struct hetccl_comm *comm);

/* The sticky failure with its text as the thread's last error, USAGE after revoke, or HETCCL_OK. */
enum hetccl_status hetccl_comm_check_usable(struct hetccl_comm *comm);

/* Wakes whoever waits for this communicator. */
void hetccl_comm_ring(struct hetccl_comm *comm);

/* The events of a communicator's mesh. */
struct hetccl_mesh_events hetccl_comm_events(struct hetccl_comm *comm);

/*
 * native.c: joins the vendor communicator of an island whose engine is ccl. Every rank of comm takes part in
 * the exchange of ids, those of other islands get NULL. Blocks.
 */
HETCCL_NODISCARD enum hetccl_status
hetccl_comm_join_vendor(struct hetccl_comm *comm, const struct hetccl_island *island, struct ncclComm **out);

/*
 * native.c: the same for a communicator that is going to be native; become_native shows it to the API, as the
 * very last step of joining: nothing of ours but the end runs on it from then on. Nothing for others.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_comm_join_native(struct hetccl_comm *comm);
void hetccl_comm_become_native(struct hetccl_comm *comm);

/* facts.c: fills comm->peers. Blocks. HETCCL_ERR_USAGE naming the odd rank when settings differ. */
HETCCL_NODISCARD enum hetccl_status hetccl_comm_exchange_facts(struct hetccl_comm *comm);

/* join.c: everything between "the mesh stands" and "calls may run". comm->mesh, n_ranks and rank are set. */
HETCCL_NODISCARD enum hetccl_status hetccl_comm_join(struct hetccl_comm *comm);

/*
 * agreement.c: all ranks have made the same number of calls, or HETCCL_ERR_USAGE on all of them. timeout_s 0:
 * the configuration's, if any.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_comm_barrier(struct hetccl_comm *comm, uint64_t timeout_s);

/*
 * For a rank that has waited long in a call: has another one finalized without making it, or is another one
 * stuck in a different call of the same number? Then HETCCL_ERR_USAGE, naming both. Tells the others of this
 * rank's own call, once, when is_stuck.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_comm_look_for_others(struct hetccl_comm *comm, bool is_stuck);

/* Kinds of mesh messages; link offers and answers have one a channel. */
enum {
    HETCCL_MESSAGE_STUCK = 2,
    HETCCL_MESSAGE_FINALIZE = 1,
    HETCCL_MESSAGE_LINK_OFFER = 16,
    HETCCL_MESSAGE_LINK_ANSWER = 32,
    HETCCL_MESSAGE_RING = 48
};

/* links.c: what a run of a synchronous rank sends over; and a link as it is, whatever the peer's device. */
HETCCL_NODISCARD enum hetccl_status hetccl_comm_find_link(void *context, uint32_t peer, uint32_t channel,
                                                          struct hetccl_link **out);
HETCCL_NODISCARD enum hetccl_status hetccl_comm_find_plain_link(struct hetccl_comm *comm, uint32_t peer,
                                                                uint32_t channel, struct hetccl_link **out);
void hetccl_comm_close_links(struct hetccl_comm *comm);

/*
 * mixed.c: a link to an asynchronous peer, told of the call that is under way.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_comm_find_pieces(struct hetccl_comm *comm, uint32_t peer,
                                                            uint32_t channel, struct hetccl_link **out);
bool hetccl_comm_is_async_rank(const struct hetccl_comm *comm, uint32_t rank);

/* rings.c; slots are as large on all ranks. */
size_t hetccl_comm_ring_slot_bytes(const struct hetccl_comm *comm);
HETCCL_NODISCARD enum hetccl_status hetccl_comm_find_ring(void *context, uint32_t peer, uint32_t channel,
                                                          const struct hetccl_ring **out);
void hetccl_comm_close_rings(struct hetccl_comm *comm);

/*
 * progress.c: the thread forwards from now on; owned by it on success. wake follows what was enqueued. stop
 * waits until the peers have read everything, unless the communicator has failed; then the forwards are gone,
 * and their links may be closed.
 */
struct hetccl_forward;
HETCCL_NODISCARD enum hetccl_status hetccl_comm_progress_add(struct hetccl_comm *comm,
                                                             struct hetccl_forward *forward);
void hetccl_comm_wake_progress(struct hetccl_comm *comm);
void hetccl_comm_progress_stop(struct hetccl_comm *comm);

/*
 * watch.c: tells of what goes wrong on the device when no call is there to see it. stop waits for the thread.
 * drain waits until everything enqueued is done, or the communicator has failed or is being aborted.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_comm_watch_start(struct hetccl_comm *comm);
void hetccl_comm_watch_stop(struct hetccl_comm *comm);
void hetccl_comm_drain(struct hetccl_comm *comm);

/*
 * call.c: one collective. start gives it the next sequence number; a call without elements is done at once
 * (OK). finish follows a progress that said OK. progress as hetccl_run_progress().
 */
HETCCL_NODISCARD enum hetccl_status hetccl_collective_start(struct hetccl_comm *comm,
                                                            const struct hetccl_call *call);
HETCCL_NODISCARD enum hetccl_status hetccl_collective_finish(struct hetccl_comm *comm);
void hetccl_comm_count_run(struct hetccl_comm *comm, const struct hetccl_run *run);

/* session.c: more ranks on this machine than processors they may use: waiting ranks give theirs away. */
bool hetccl_comm_is_crowded(const struct hetccl_comm *comm);

/* cache.c */
HETCCL_NODISCARD enum hetccl_status hetccl_comm_find_plan(struct hetccl_comm *comm,
                                                          const struct hetccl_plan_request *request,
                                                          struct hetccl_cached_plan **out);
/* Gives an uncached plan (ALLTOALLV) back; keeps the others. */
void hetccl_comm_release_plan(struct hetccl_cached_plan *cached);
void hetccl_comm_drop_plans(struct hetccl_comm *comm);
HETCCL_NODISCARD enum hetccl_status hetccl_scratch_reserve(struct hetccl_comm *comm,
                                                           struct hetccl_scratch *scratch, size_t bytes);
/* What is enqueued now works on the scratch. */
void hetccl_scratch_use(struct hetccl_comm *comm, const struct hetccl_scratch *scratch);

/* life.c: a number that changes in a forked child. */
unsigned hetccl_fork_generation(void);

#endif
