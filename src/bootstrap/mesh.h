/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_BOOTSTRAP_MESH_H
#define HETCCL_BOOTSTRAP_MESH_H

/*
 * The control plane. One endpoint a process (a listener, one service thread, at most one connection to each
 * peer process, shared by all communicators), and on it one mesh a rank of a communicator.
 *
 * Set-up: a rank registers at the root (the process that made the unique id, or rank 0 at NCCL_COMM_ID),
 * which hands everybody the addresses of its neighbours r +- 2^k when all have come; the neighbours connect;
 * exchanges then take log2(n) rounds. Ranks may come in any order and minutes apart; several ranks may live
 * in one process or thread.
 *
 * Failure: a peer process that dies closes its connection, a peer host that dies is found by TCP keep-alive
 * within HETCCL_DEATH_S. The neighbours that see it tell the others, and every rank's `failed` event is
 * called once.
 *
 * Threads: every function from any thread; events run on the service thread and must not block or call mesh
 * functions other than hetccl_mesh_report_failure().
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/status.h"

enum { HETCCL_UNIQUE_ID_BYTES = 128 };

struct hetccl_mesh;
struct hetccl_mesh_stream;

struct hetccl_mesh_events {
    void *context;
    /* The communicator has failed: culprit is the rank that died or reported, or UINT32_MAX; text says all.
     * Once. */
    void (*failed)(void *context, enum hetccl_status status, uint32_t culprit_rank, const char *text);
    /* Something arrived that hetccl_mesh_try_recv() or hetccl_mesh_stream_test() may find: ring the waiter.
     */
    void (*arrived)(void *context);
};

/*
 * hetccl_unique_id_create -- a fresh id (magic, wire revision, random job key, up to three addresses of this
 * process's listener) and a root for it in this process, which serves until the communicator stands,
 * init_timeout passes, or the process ends. With config->comm_id set the id carries that address and a key
 * derived from it; rank 0 becomes the root when it registers.
 *
 * Errors: HETCCL_ERR_USAGE (interface, port range), HETCCL_ERR_SYSTEM.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_unique_id_create(const struct hetccl_config *config,
                                                            uint8_t out[HETCCL_UNIQUE_ID_BYTES]);

struct hetccl_mesh_args {
    const struct hetccl_config *config; /* borrowed during create */
    const uint8_t (
        *ids)[HETCCL_UNIQUE_ID_BYTES]; /* n_ids; all ranks register at the first, the others are ignored */
    size_t n_ids;
    uint32_t n_ranks, rank;
    const atomic_bool *is_cancelled; /* watched by every wait of this mesh; lives as long as the mesh */
    struct hetccl_mesh_events events;
};

/*
 * hetccl_mesh_create -- join. Blocks until all n_ranks have come.
 *
 * Errors: HETCCL_ERR_ARG (id is not ours; rank out of range), HETCCL_ERR_USAGE (rank taken twice, different
 * n_ranks, wire revision differs: names rank, host and both versions; id belongs to another run),
 *         HETCCL_ERR_TIMEOUT after init_timeout_s ("missing: rank 2, 5"), HETCCL_ERR_REMOTE,
 * HETCCL_ERR_ABORTED, HETCCL_ERR_SYSTEM.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_mesh_create(const struct hetccl_mesh_args *args,
                                                       struct hetccl_mesh **out);

/*
 * hetccl_mesh_create_child -- a mesh over a subset of a parent's ranks, without a root.
 *
 * parent_ranks [in] by child rank; the same list on all members; the caller's own rank is among them
 * label        [in] equal on all members and different for every child of one parent (a counter, a colour)
 * The parent may have failed or been revoked, as long as the members' processes live. Blocks until the
 * neighbours of the child are connected.
 */
struct hetccl_mesh_child_args {
    struct hetccl_mesh *parent;
    const uint32_t *parent_ranks;
    uint32_t n_ranks;
    uint64_t label;
    uint64_t timeout_s;
    const atomic_bool *is_cancelled;
    struct hetccl_mesh_events events;
};
HETCCL_NODISCARD enum hetccl_status hetccl_mesh_create_child(const struct hetccl_mesh_child_args *args,
                                                             struct hetccl_mesh **out);

/* Rank, size, a random number equal on all ranks, the host name of a rank ("" while unknown). */
uint32_t hetccl_mesh_rank(const struct hetccl_mesh *mesh);
uint32_t hetccl_mesh_n_ranks(const struct hetccl_mesh *mesh);
uint64_t hetccl_mesh_key(const struct hetccl_mesh *mesh);
const char *hetccl_mesh_host_name(const struct hetccl_mesh *mesh, uint32_t rank);

/* True when the rank lives in the caller's process. */
bool hetccl_mesh_is_same_process(const struct hetccl_mesh *mesh, uint32_t rank);

/*
 * hetccl_mesh_all_gather -- everybody's `bytes` bytes, in rank order, in log2(n) rounds. Also a barrier.
 * Blocks.
 *
 * mine [in] bytes; all_out [out] n_ranks * bytes; the same bytes on all ranks, or HETCCL_ERR_USAGE
 * Errors: the mesh's failure, HETCCL_ERR_TIMEOUT naming the rank waited for, HETCCL_ERR_ABORTED,
 * HETCCL_ERR_SYSTEM.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_mesh_all_gather(struct hetccl_mesh *mesh, const void *mine,
                                                           size_t bytes, void *all_out, uint64_t timeout_s);

/*
 * Small messages between any two ranks of the mesh, in order per (source, kind); connects on first use. kind
 * is the caller's (1 .. 999). Payload at most 4096 bytes, copied. send doesn't wait for the peer. try_recv:
 * HETCCL_AGAIN when none is there.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_mesh_send(struct hetccl_mesh *mesh, uint32_t dst_rank,
                                                     uint16_t kind, const void *payload, size_t bytes);
HETCCL_NODISCARD enum hetccl_status hetccl_mesh_try_recv(struct hetccl_mesh *mesh, uint32_t src_rank,
                                                         uint16_t kind, void *payload, size_t max_bytes,
                                                         size_t *bytes_out);

/*
 * Connected, authenticated stream sockets between two ranks, for tcp links. Both sides open the same
 * stream_id; the lower rank connects. Never blocks: test gives HETCCL_AGAIN until the socket is there, then
 * *fd_out, owned by the caller. close gives the handle back at any moment (and the socket, if not yet handed
 * out).
 */
HETCCL_NODISCARD enum hetccl_status hetccl_mesh_stream_open(struct hetccl_mesh *mesh, uint32_t peer_rank,
                                                            uint32_t stream_id,
                                                            struct hetccl_mesh_stream **out);
HETCCL_NODISCARD enum hetccl_status hetccl_mesh_stream_test(struct hetccl_mesh_stream *stream, int *fd_out);
void hetccl_mesh_stream_close(struct hetccl_mesh_stream *stream);

/*
 * hetccl_mesh_report_failure -- tell all ranks, this one included (its `failed` event runs on the service
 * thread). The first report wins; later ones are dropped. Never blocks.
 */
void hetccl_mesh_report_failure(struct hetccl_mesh *mesh, enum hetccl_status status, uint32_t culprit_rank,
                                const char *text);

/* HETCCL_OK, or the status of the mesh's failure with its text copied to text_out (HETCCL_ERROR_TEXT_BYTES;
 * may be NULL). */
enum hetccl_status hetccl_mesh_failure(const struct hetccl_mesh *mesh, char *text_out, uint32_t *culprit_out);

/*
 * hetccl_mesh_destroy -- leave: the peers learn that this rank is gone on purpose (its death is no failure
 * any more). Never waits for peers. No event runs after it returned. Takes NULL.
 */
void hetccl_mesh_destroy(struct hetccl_mesh *mesh);

/* What this process talks from, for `hetccl info`, hello records and texts: "10.0.0.1:4711 (eth0)". */
HETCCL_NODISCARD enum hetccl_status hetccl_endpoint_describe(const struct hetccl_config *config, char *out,
                                                             size_t bytes);

#endif
