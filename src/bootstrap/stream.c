/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/stream.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/time.h"

/*
 * The lower rank connects, with a hello that says for which mesh, ranks and stream; the higher one is handed
 * the accepted socket when it opens the same stream. It may come to that much later (a receive posted after
 * minutes), so an accepted socket is kept as long as its mesh lives; their number is bounded.
 */

enum { MAX_PARKED = 4096 };

static const uint64_t refusal_ns = 5ull * HETCCL_NS_PER_S;

struct hetccl_mesh_stream {
    struct hetccl_list_node node; /* mesh->streams */
    struct hetccl_endpoint *endpoint;
    struct hetccl_mesh *mesh; /* NULL once the mesh is gone */
    pid_t pid;
    uint32_t peer_rank, stream_id;
    struct hetccl_dial *dial;
    int fd; /* -1: not there yet, or handed out */
    bool is_handed_out;
    enum hetccl_status status; /* an error that isn't the mesh's */
    char text[256];
};

static void take_socket(struct hetccl_mesh_stream *stream, struct hetccl_conn *conn)
{
    stream->fd = hetccl_conn_detach(conn);
    hetccl_mesh_owe_arrived(stream->mesh);
}

static void dial_connected(void *owner, struct hetccl_conn *conn)
{
    struct hetccl_mesh_stream *stream = owner;

    stream->dial = NULL;
    take_socket(stream, conn);
}

static void dial_failed(void *owner, enum hetccl_status status, const char *text)
{
    struct hetccl_mesh_stream *stream = owner;
    char rank_text[HETCCL_RANK_TEXT_BYTES];

    stream->dial = NULL;
    hetccl_mesh_print_rank(stream->mesh, stream->peer_rank, rank_text);
    (void)snprintf(stream->text, sizeof(stream->text), "no data connection to %s: %.120s", rank_text, text);
    stream->status = status == HETCCL_ERR_USAGE ? HETCCL_ERR_REMOTE : status;
    hetccl_mesh_owe_arrived(stream->mesh);
}

static const struct hetccl_dial_ops stream_dial_ops = {.connected = dial_connected, .failed = dial_failed};

static enum hetccl_status start(struct hetccl_mesh_stream *stream, const struct hetccl_wire_hello *hello)
{
    struct hetccl_mesh *mesh = stream->mesh;
    const struct hetccl_wire_contact *contact = &mesh->peers[stream->peer_rank].contact;
    struct hetccl_dial_args args = {
        .addresses = contact->addresses,
        .n_addresses = contact->n_addresses,
        .expected_process_key = contact->process_key,
        .hello = *hello,
        .key = mesh->job_key,
        .give_up_ns = refusal_ns,
        .ops = &stream_dial_ops,
        .owner = stream,
    };
    struct hetccl_conn *conn;

    if (mesh->rank < stream->peer_rank)
        return hetccl_dial_start(mesh->endpoint, &args, &stream->dial);
    conn = hetccl_conn_find_parked(mesh->endpoint, hello);
    if (conn != NULL)
        take_socket(stream, conn);
    return HETCCL_OK;
}

enum hetccl_status hetccl_mesh_stream_open(struct hetccl_mesh *mesh, uint32_t peer_rank, uint32_t stream_id,
                                           struct hetccl_mesh_stream **out)
{
    struct hetccl_wire_hello hello = {.role = HETCCL_ROLE_STREAM, .stream_id = stream_id};
    struct hetccl_mesh_stream *stream = NULL;
    enum hetccl_status status;

    if (hetccl_mesh_is_foreign(mesh))
        return hetccl_fail(HETCCL_ERR_USAGE, "the communicator belongs to the parent process");
    if (peer_rank >= mesh->n_ranks || peer_rank == mesh->rank)
        return hetccl_fail(HETCCL_ERR_ARG, "a stream from rank %u to rank %u of %u", mesh->rank, peer_rank,
                           mesh->n_ranks);
    status = hetccl_alloc(1, sizeof(*stream), &stream);
    if (status != HETCCL_OK)
        return status;
    stream->endpoint = mesh->endpoint;
    stream->mesh = mesh;
    stream->pid = mesh->pid;
    stream->peer_rank = peer_rank;
    stream->stream_id = stream_id;
    stream->fd = -1;
    hetccl_endpoint_lock(mesh->endpoint);
    hello.job_id = mesh->job_id;
    hello.mesh_key = mesh->key;
    hello.src_rank = mesh->rank < peer_rank ? mesh->rank : peer_rank;
    hello.dst_rank = mesh->rank < peer_rank ? peer_rank : mesh->rank;
    hetccl_list_append(&mesh->streams, &stream->node);
    status = start(stream, &hello);
    if (status != HETCCL_OK)
        hetccl_list_remove(&stream->node);
    hetccl_endpoint_unlock(mesh->endpoint);
    if (status != HETCCL_OK)
        hetccl_free(stream);
    else
        *out = stream;
    return status;
}

static enum hetccl_status test(struct hetccl_mesh_stream *stream, int *fd_out)
{
    enum hetccl_status status;

    if (stream->fd >= 0) {
        *fd_out = stream->fd;
        stream->fd = -1;
        stream->is_handed_out = true;
        return HETCCL_OK;
    }
    if (stream->is_handed_out)
        return hetccl_fail(HETCCL_ERR_ARG, "the socket of stream %u was handed out already",
                           stream->stream_id);
    if (stream->mesh == NULL)
        return hetccl_fail_quietly(HETCCL_ERR_ABORTED, "the communicator of stream %u is gone",
                                   stream->stream_id);
    status = hetccl_mesh_failure(stream->mesh, NULL, NULL);
    if (status != HETCCL_OK)
        return hetccl_fail_quietly(status, "%s", stream->mesh->failure_text);
    if (stream->status != HETCCL_OK)
        return hetccl_fail_quietly(stream->status, "%s", stream->text);
    return HETCCL_AGAIN;
}

enum hetccl_status hetccl_mesh_stream_test(struct hetccl_mesh_stream *stream, int *fd_out)
{
    enum hetccl_status status;

    if (stream->pid != getpid())
        return hetccl_fail(HETCCL_ERR_USAGE, "the communicator belongs to the parent process");
    hetccl_endpoint_lock(stream->endpoint);
    status = test(stream, fd_out);
    hetccl_endpoint_unlock(stream->endpoint);
    return status;
}

void hetccl_mesh_stream_close(struct hetccl_mesh_stream *stream)
{
    if (stream == NULL || stream->pid != getpid())
        return;
    hetccl_endpoint_lock(stream->endpoint);
    if (stream->mesh != NULL)
        hetccl_list_remove(&stream->node);
    hetccl_dial_cancel(stream->dial);
    hetccl_endpoint_unlock(stream->endpoint);
    if (stream->fd >= 0)
        close(stream->fd);
    hetccl_free(stream);
}

/* ---- accepted sockets ---- */

static void parked_frame(struct hetccl_conn *conn, struct hetccl_frame *frame)
{
    (void)conn;
    hetccl_frame_destroy(frame);
}

static void parked_closed(struct hetccl_conn *conn, enum hetccl_conn_end end, const char *reason)
{
    (void)conn;
    (void)end;
    (void)reason;
}

static const struct hetccl_conn_ops parked_ops = {.frame = parked_frame, .closed = parked_closed};

static struct hetccl_mesh_stream *find_waiting(struct hetccl_mesh *mesh,
                                               const struct hetccl_wire_hello *hello)
{
    for (struct hetccl_list_node *node = mesh->streams.next; node != &mesh->streams; node = node->next) {
        struct hetccl_mesh_stream *stream = (struct hetccl_mesh_stream *)node;

        if (stream->peer_rank == hello->src_rank && stream->stream_id == hello->stream_id && stream->fd < 0 &&
            !stream->is_handed_out)
            return stream;
    }
    return NULL;
}

void hetccl_stream_adopt(struct hetccl_conn *conn)
{
    struct hetccl_endpoint *endpoint = conn->endpoint;
    struct hetccl_mesh *mesh = hetccl_mesh_find(endpoint, conn->hello.mesh_key, conn->hello.dst_rank);
    struct hetccl_mesh_stream *stream;

    conn->ops = &parked_ops;
    if (mesh == NULL || !hetccl_mesh_is_genuine(mesh, conn->hello.src_rank, conn->peer_process_key)) {
        hetccl_conn_close(conn);
        return;
    }
    stream = find_waiting(mesh, &conn->hello);
    if (stream != NULL) {
        take_socket(stream, conn);
        return;
    }
    if (hetccl_conns_count_owned(endpoint, mesh) >= MAX_PARKED) {
        hetccl_log(HETCCL_LOG_WARN, "bootstrap",
                   "too many data connections wait to be used; one from %s is closed", conn->peer_address);
        hetccl_conn_close(conn);
        return;
    }
    conn->owner = mesh;
    hetccl_conn_park(conn);
}

void hetccl_streams_abandon(struct hetccl_mesh *mesh)
{
    while (!hetccl_list_is_empty(&mesh->streams)) {
        struct hetccl_mesh_stream *stream = (struct hetccl_mesh_stream *)mesh->streams.next;

        hetccl_dial_cancel(stream->dial);
        stream->dial = NULL;
        stream->mesh = NULL;
        hetccl_list_remove(&stream->node);
    }
    hetccl_conns_close_owned(mesh->endpoint, mesh);
}
