/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_COMM_COMM_H
#define HETCCL_COMM_COMM_H

/*
 * The communicator: life cycle, state, errors, plan cache. What an ncclComm_t points to.
 *
 * Life: hetccl_comm_alloc() (handle exists, state in progress) -> one of the init functions (blocks) -> calls
 * -> hetccl_comm_finalize() (optional) -> hetccl_comm_destroy() or hetccl_comm_abort(). For a non-blocking
 * communicator the api layer runs the blocking functions in a thread of its own; the handle can be asked and
 * aborted meanwhile.
 *
 * Threads: one thread a communicator at a time, but for hetccl_comm_async_state(), _abort(), _revoke() and
 * the getters, which any thread may call at any moment.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "bootstrap/mesh.h"
#include "engine/ccl/calls.h"
#include "kernels/kernels.h"
#include "plan/plan.h"

struct hetccl_comm;

/* The part of ncclConfig_t that this library honours, already validated; and all of it for the vendor's. */
struct hetccl_comm_options {
    bool is_blocking;
    char name[64]; /* commName, for logs; "" for none */
    struct hetccl_ccl_config vendor;
    int device; /* a GPU by its runtime's number; -1: the one of the thread that allocates the handle */
};

/* HETCCL_OK with defaults from the environment. */
HETCCL_NODISCARD enum hetccl_status hetccl_comm_default_options(struct hetccl_comm_options *out);

/*
 * The handle: state "in progress", and the device, as only the caller's thread knows which is its own. What
 * is wrong with the device is told by init, where the other ranks hear of it. HETCCL_ERR_SYSTEM.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_comm_alloc(const struct hetccl_comm_options *options,
                                                      struct hetccl_comm **out);

/* True for a handle made by hetccl_comm_alloc() and not destroyed; NULL and foreign pointers to readable
 * memory give false. */
bool hetccl_comm_is_valid(const struct hetccl_comm *comm);

/*
 * hetccl_comm_init -- join a communicator of n_ranks as rank. Blocks until all have come (or abort, or the
 * deadline).
 *
 * ids [in] n_ids unique ids; rank 0's process or NCCL_COMM_ID serves them
 * On failure the handle stays, with the error as its state; the caller destroys it.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_comm_init(struct hetccl_comm *comm,
                                                     const uint8_t (*ids)[HETCCL_UNIQUE_ID_BYTES],
                                                     size_t n_ids, int n_ranks, int rank);

enum { HETCCL_SPLIT_NO_COLOR = -1 };

/*
 * hetccl_comm_split -- collective over the parent. `child` was made by hetccl_comm_alloc(); with
 * HETCCL_SPLIT_NO_COLOR it is NULL. New ranks are ordered by (key, parent rank).
 */
HETCCL_NODISCARD enum hetccl_status hetccl_comm_split(struct hetccl_comm *parent, int color, int key,
                                                      struct hetccl_comm *child);

/*
 * hetccl_comm_shrink -- collective over the ranks that stay. The parent may have failed or been revoked.
 *
 * exclude  [in] n_exclude parent ranks that are left out; the same set on all callers, the caller not among
 * them is_abort [in] end the parent's running calls first
 */
HETCCL_NODISCARD enum hetccl_status hetccl_comm_shrink(struct hetccl_comm *parent, const int *exclude,
                                                       size_t n_exclude, bool is_abort,
                                                       struct hetccl_comm *child);

/* Flush: all ranks have made all their calls. Barrier. HETCCL_ERR_USAGE when called twice or after revoke. */
HETCCL_NODISCARD enum hetccl_status hetccl_comm_finalize(struct hetccl_comm *comm);

/* Waits a bounded time for the others if not finalized, then frees. Takes NULL. */
void hetccl_comm_destroy(struct hetccl_comm *comm);

/*
 * hetccl_comm_abort -- end everything now: running calls and inits of other threads return
 * HETCCL_ERR_ABORTED, peers get a failure. Local, at most 2 s; frees the handle once no other thread is
 * inside. Takes NULL.
 */
void hetccl_comm_abort(struct hetccl_comm *comm);

/* Running calls end with HETCCL_ERR_ABORTED here; later calls give HETCCL_ERR_USAGE. Split, shrink and
 * destroy stay allowed. */
HETCCL_NODISCARD enum hetccl_status hetccl_comm_revoke(struct hetccl_comm *comm);

/*
 * HETCCL_OK, HETCCL_AGAIN (init or a non-blocking job runs) or the sticky failure, whose text is then the
 * calling thread's last error. Never blocks.
 */
enum hetccl_status hetccl_comm_async_state(struct hetccl_comm *comm);

/* For the api layer's non-blocking jobs: while busy, async_state answers HETCCL_AGAIN. The result of the job
 * is kept when it is an error. */
void hetccl_comm_job_begin(struct hetccl_comm *comm);
void hetccl_comm_job_end(struct hetccl_comm *comm, enum hetccl_status result);

int hetccl_comm_rank(const struct hetccl_comm *comm);
int hetccl_comm_n_ranks(const struct hetccl_comm *comm);
int hetccl_comm_device(const struct hetccl_comm *comm);
const char *
hetccl_comm_device_name(const struct hetccl_comm *comm); /* "host", "cuda", "hip"; "" when it has none */
bool hetccl_comm_is_asynchronous(const struct hetccl_comm *comm); /* calls only enqueue work on streams */
bool hetccl_comm_is_blocking(const struct hetccl_comm *comm);

/* An operator of a call: built in, or made by ncclRedOpCreatePreMulSum. Values are captured when the call is
 * made. */
struct hetccl_comm_op {
    enum hetccl_red red;
    bool is_average;
    bool has_scale;            /* PreMulSum */
    struct hetccl_scale scale; /* has_scale: element bits */
    /* has_scale, on an asynchronous device: NULL, or where the element lies in memory that the device reads
     * when the call's work runs; scale is not used then. */
    const void *scale_pointer;
};

/* One API call. For SEND/RECV coll is HETCCL_P2P and root the peer. */
struct hetccl_call {
    enum hetccl_coll coll;
    bool is_send; /* P2P */
    const void *send;
    void *recv;
    size_t count;
    enum hetccl_type type;
    struct hetccl_comm_op op;
    int root;
    const size_t *send_counts, *send_offsets, *recv_counts,
        *recv_offsets; /* ALLTOALLV, elements; borrowed during the call */
    void *stream;
};

/*
 * hetccl_comm_check_call -- what is wrong with one call on this communicator, without doing anything.
 *
 * Errors: HETCCL_ERR_ARG (root, type, NULL buffer with count > 0 ...), HETCCL_ERR_USAGE (revoked, finalized),
 * the sticky failure.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_comm_check_call(struct hetccl_comm *comm,
                                                           const struct hetccl_call *call);

struct hetccl_comm_item {
    struct hetccl_comm *comm;
    struct hetccl_call call;
};

/*
 * hetccl_comm_run -- execute the calls of one group, on any number of communicators and ranks, from one
 * thread.
 *
 * Collectives of one communicator run in their order; its sends and receives all progress at once beside
 * them. Synchronous devices: returns when all results are there. Errors: the first failure; each failed
 * communicator is sticky.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_comm_run(const struct hetccl_comm_item *items, size_t n_items);

/*
 * hetccl_comm_apply_bias -- recv = red(recv, bias), element by element, behind a call that has been run.
 *
 * call  [in] an ALLREDUCE; bias holds count elements of its type
 *
 * On the call's stream on an asynchronous device, else done on return. Errors: the device's.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_comm_apply_bias(struct hetccl_comm *comm,
                                                           const struct hetccl_call *call, const void *bias,
                                                           enum hetccl_red red);

/*
 * hetccl_comm_are_connected -- whether hetccl_comm_run() would return without having waited for another rank:
 * the communicators are on asynchronous devices, and all that the calls need is connected. Failures show in
 * hetccl_comm_run().
 */
bool hetccl_comm_are_connected(const struct hetccl_comm_item *items, size_t n_items);

/* ncclCommRegister: remembers a range (used by links that need registration). *handle_out is never NULL on
 * success. */
HETCCL_NODISCARD enum hetccl_status hetccl_comm_register(struct hetccl_comm *comm, void *buffer, size_t bytes,
                                                         void **handle_out);
HETCCL_NODISCARD enum hetccl_status hetccl_comm_deregister(struct hetccl_comm *comm, void *handle);

/*
 * Memory for ncclMemAlloc, of the device kind that the configuration asks for and, on a GPU, of the calling
 * thread's GPU; at least 256-byte aligned. mem_free also takes memory that the device's runtime allocated.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_comm_mem_alloc(size_t bytes, void **out);
HETCCL_NODISCARD enum hetccl_status hetccl_comm_mem_free(void *memory);

/* Introspection, for hetccl.h. */
struct hetccl_comm_counters {
    uint64_t calls, steps;
    uint64_t cross_sent_bytes, cross_received_bytes; /* payload between islands */
    uint64_t cross_messages;
    uint64_t island_operations;
    uint64_t copied_bytes;
};
void hetccl_comm_read_counters(const struct hetccl_comm *comm, struct hetccl_comm_counters *out);

/* The topology; valid while the communicator lives. NULL before init succeeded. */
const struct hetccl_topo *hetccl_comm_topo(const struct hetccl_comm *comm);

/* Name of the plan that the last collective took ("hier", "flat" ...; "" before the first), and whether it
 * was a small-message plan. */
const char *hetccl_comm_last_plan(const struct hetccl_comm *comm, bool *is_small_out);

/* Link kind in use with a rank ("shm", "tcp", "engine", "self", "" when not connected yet). */
const char *hetccl_comm_link_in_use(const struct hetccl_comm *comm, int peer);

/* Host name of a rank. */
const char *hetccl_comm_host_name(const struct hetccl_comm *comm, int rank);

#endif
