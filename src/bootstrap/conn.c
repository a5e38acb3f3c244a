/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/conn.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/memory.h"
#include "base/time.h"
#include "bootstrap/mesh_internal.h"

enum {
    MAX_STRANGERS = 256,
    READS_AT_A_TIME = 64,
    DRAINS = 64,
};

static const uint64_t stranger_ns = 5ull * HETCCL_NS_PER_S;
static const uint64_t slow_stranger_ns = 1ull * HETCCL_NS_PER_S;

static void conn_ready(struct hetccl_source *source, uint32_t events);

static struct hetccl_conn *conn_of(struct hetccl_list_node *node)
{
    return (struct hetccl_conn *)((char *)node - offsetof(struct hetccl_conn, node));
}

/*
 * A silent host is found by keep-alive when the connection is idle and by the user timeout when data is under
 * way. A stopped process is no silent host: its kernel answers.
 */
static void set_options(int fd, uint64_t death_s)
{
    int on = 1;
    int idle_s = 2;
    int probes = death_s > 4 ? (int)(death_s - 2) / 2 : 1;
    unsigned timeout_ms = (unsigned)(death_s * 1000);

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof(idle_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
}

static enum hetccl_status create(struct hetccl_endpoint *endpoint, int fd,
                                 const struct hetccl_address *address, struct hetccl_conn **out)
{
    struct hetccl_wire_address wire;
    struct hetccl_conn *conn = NULL;
    enum hetccl_status status = hetccl_alloc(1, sizeof(*conn), &conn);

    if (status != HETCCL_OK)
        return status;
    conn->source.fd = fd;
    conn->source.ready = conn_ready;
    conn->endpoint = endpoint;
    conn->born_ns = hetccl_now_ns();
    hetccl_address_to_wire(address, &wire);
    hetccl_address_print(&wire, conn->peer_address);
    set_options(fd, endpoint->death_s);
    *out = conn;
    return HETCCL_OK;
}

static int open_socket(const struct hetccl_address *address)
{
    int on = 1;
    int fd;

    if (hetccl_fault_hit(HETCCL_FAULT_SOCKET)) {
        errno = EMFILE;
        return -1;
    }
    fd = socket(address->socket.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    /* A closed connection keeps its port for a minute, and a listener may have it only if both allowed that.
     */
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (fd < 0)
        return -1;
    if (connect(fd, (const struct sockaddr *)&address->socket, address->socket_bytes) != 0 &&
        errno != EINPROGRESS) {
        int error = errno;

        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

enum hetccl_status hetccl_conn_open(struct hetccl_endpoint *endpoint,
                                    const struct hetccl_conn_open_args *args, struct hetccl_conn **out,
                                    int *error_out)
{
    int fd = open_socket(args->address);
    struct hetccl_conn *conn = NULL;

    if (fd < 0) {
        *error_out = errno;
        return HETCCL_ERR_SYSTEM;
    }
    *error_out = ENOMEM;
    if (create(endpoint, fd, args->address, &conn) != HETCCL_OK)
        goto undo_socket;
    conn->state = HETCCL_CONN_CONNECTING;
    conn->is_outgoing = true;
    conn->is_writing = true;
    conn->ops = args->ops;
    conn->owner = args->owner;
    conn->hello = *args->hello;
    memcpy(conn->key, args->key, sizeof(conn->key));
    conn->deadline_ns = args->deadline_ns;
    if (hetccl_endpoint_watch(endpoint, &conn->source, EPOLLIN | EPOLLOUT) != HETCCL_OK)
        goto undo_conn;
    hetccl_list_append(&endpoint->conns, &conn->node);
    *out = conn;
    return HETCCL_OK;
undo_conn:
    hetccl_free(conn);
undo_socket:
    close(fd);
    return HETCCL_ERR_SYSTEM;
}

void hetccl_conn_accept(struct hetccl_endpoint *endpoint, int fd, const struct hetccl_address *address)
{
    struct hetccl_conn *conn = NULL;

    if (create(endpoint, fd, address, &conn) != HETCCL_OK)
        goto undo_socket;
    conn->state = HETCCL_CONN_WAIT_HELLO;
    conn->deadline_ns = conn->born_ns + stranger_ns;
    if (hetccl_endpoint_watch(endpoint, &conn->source, EPOLLIN) != HETCCL_OK)
        goto undo_conn;
    hetccl_list_append(&endpoint->conns, &conn->node);
    endpoint->n_unproved++;
    return;
undo_conn:
    hetccl_free(conn);
undo_socket:
    close(fd);
}

/* Accepted connections are appended, so the first unproved one is the oldest. */
bool hetccl_conn_has_room(struct hetccl_endpoint *endpoint)
{
    struct hetccl_conn *oldest = NULL;

    if (endpoint->n_unproved < MAX_STRANGERS)
        return true;
    for (struct hetccl_list_node *node = endpoint->conns.next; node != &endpoint->conns && oldest == NULL;
         node = node->next) {
        struct hetccl_conn *conn = conn_of(node);

        if (!conn->is_outgoing && !conn->is_proved)
            oldest = conn;
    }
    if (oldest == NULL || hetccl_now_ns() - oldest->born_ns < slow_stranger_ns)
        return false;
    hetccl_conn_drop(oldest, HETCCL_CONN_STRANGER, "too many connections that say nothing");
    return true;
}

/* Lets unread bytes go first: closing with unread bytes resets the connection, and the peer might lose our
 * last frames. */
static void close_socket(int fd)
{
    char unread[4096];

    (void)shutdown(fd, SHUT_WR);
    for (int i = 0; i < DRAINS && recv(fd, unread, sizeof(unread), MSG_DONTWAIT) > 0; i++)
        ;
    close(fd);
}

static void bury(struct hetccl_conn *conn)
{
    struct hetccl_endpoint *endpoint = conn->endpoint;

    if (!conn->is_outgoing && !conn->is_proved)
        endpoint->n_unproved--;
    conn->state = HETCCL_CONN_CLOSED;
    conn->source.fd = -1;
    hetccl_frame_queue_clear(&conn->out);
    hetccl_frame_destroy(conn->in_frame);
    conn->in_frame = NULL;
    hetccl_list_remove(&conn->node);
    hetccl_list_append(&endpoint->graveyard, &conn->node);
}

void hetccl_conn_close(struct hetccl_conn *conn)
{
    int fd;

    if (conn == NULL || conn->state == HETCCL_CONN_CLOSED)
        return;
    fd = hetccl_conn_detach(conn);
    close_socket(fd);
}

int hetccl_conn_detach(struct hetccl_conn *conn)
{
    int fd = conn->source.fd;

    if (!conn->is_parked)
        hetccl_endpoint_unwatch(conn->endpoint, &conn->source);
    bury(conn);
    return fd;
}

void hetccl_conn_drop(struct hetccl_conn *conn, enum hetccl_conn_end end, const char *reason)
{
    if (conn->state == HETCCL_CONN_CLOSED)
        return;
    if (!conn->is_outgoing && !conn->is_proved)
        hetccl_log(HETCCL_LOG_INFO, "bootstrap", "connection from %s dropped: %s", conn->peer_address,
                   reason);
    hetccl_conn_close(conn);
    if (conn->ops != NULL)
        conn->ops->closed(conn, end, reason);
}

void hetccl_conn_park(struct hetccl_conn *conn)
{
    conn->is_parked = true;
    hetccl_endpoint_unwatch(conn->endpoint, &conn->source);
}

static struct hetccl_conn *find_owned(struct hetccl_endpoint *endpoint, const void *owner)
{
    for (struct hetccl_list_node *node = endpoint->conns.next; node != &endpoint->conns; node = node->next)
        if (conn_of(node)->owner == owner)
            return conn_of(node);
    return NULL;
}

void hetccl_conns_close_owned(struct hetccl_endpoint *endpoint, const void *owner)
{
    struct hetccl_conn *conn;

    while ((conn = find_owned(endpoint, owner)) != NULL)
        hetccl_conn_close(conn);
}

size_t hetccl_conns_count_owned(const struct hetccl_endpoint *endpoint, const void *owner)
{
    size_t n = 0;

    for (struct hetccl_list_node *node = endpoint->conns.next; node != &endpoint->conns; node = node->next)
        n += conn_of(node)->owner == owner;
    return n;
}

void hetccl_conns_close_all(struct hetccl_endpoint *endpoint)
{
    while (!hetccl_list_is_empty(&endpoint->conns))
        hetccl_conn_close(conn_of(endpoint->conns.next));
    hetccl_conns_bury(endpoint);
}

struct hetccl_conn *hetccl_conn_find_parked(struct hetccl_endpoint *endpoint,
                                            const struct hetccl_wire_hello *like)
{
    for (struct hetccl_list_node *node = endpoint->conns.next; node != &endpoint->conns; node = node->next) {
        struct hetccl_conn *conn = conn_of(node);

        if (conn->is_parked && conn->hello.mesh_key == like->mesh_key &&
            conn->hello.src_rank == like->src_rank && conn->hello.dst_rank == like->dst_rank &&
            conn->hello.stream_id == like->stream_id)
            return conn;
    }
    return NULL;
}

/* ---- sending ---- */

static void want_write(struct hetccl_conn *conn, bool is_wanted)
{
    if (conn->is_writing == is_wanted)
        return;
    conn->is_writing = is_wanted;
    hetccl_endpoint_rewatch(conn->endpoint, &conn->source, is_wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

/* One sendmsg: what is left of the first frame. False when the socket takes no more (or is broken: epoll will
 * tell). */
static bool send_some(struct hetccl_conn *conn)
{
    struct hetccl_frame *frame = conn->out.first;
    size_t head_left =
        conn->out_offset < sizeof(frame->wire_head) ? sizeof(frame->wire_head) - conn->out_offset : 0;
    size_t payload_done = conn->out_offset - (sizeof(frame->wire_head) - head_left);
    struct iovec parts[2] = {
        {.iov_base = frame->wire_head + sizeof(frame->wire_head) - head_left, .iov_len = head_left},
        {.iov_base = frame->payload + payload_done, .iov_len = frame->head.payload_bytes - payload_done},
    };
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t n = sendmsg(conn->source.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (n < 0)
        return errno == EINTR;
    conn->out_offset += (size_t)n;
    if (conn->out_offset == sizeof(frame->wire_head) + frame->head.payload_bytes) {
        hetccl_frame_destroy(hetccl_frame_queue_pop(&conn->out));
        conn->out_offset = 0;
    }
    return true;
}

static void flush(struct hetccl_conn *conn)
{
    bool was_writing = conn->is_writing;

    while (conn->out.first != NULL && send_some(conn))
        ;
    want_write(conn, conn->out.first != NULL);
    if (was_writing && !conn->is_writing)
        hetccl_meshes_poke(conn->endpoint);
}

void hetccl_conn_send(struct hetccl_conn *conn, struct hetccl_frame *frame)
{
    bool was_empty = conn->out.first == NULL;

    hetccl_frame_queue_push(&conn->out, frame);
    if (was_empty)
        flush(conn);
}

void hetccl_conns_send_copies(struct hetccl_endpoint *endpoint, const struct hetccl_conn_ops *ops,
                              uint64_t process_key, const struct hetccl_wire_frame *head)
{
    for (struct hetccl_list_node *node = endpoint->conns.next; node != &endpoint->conns; node = node->next) {
        struct hetccl_conn *conn = conn_of(node);
        struct hetccl_frame *frame = NULL;

        if (conn->state == HETCCL_CONN_READY && conn->ops == ops && conn->peer_process_key == process_key &&
            hetccl_frame_create(head, NULL, &frame) == HETCCL_OK)
            hetccl_conn_send(conn, frame);
    }
}

void hetccl_conn_break(struct hetccl_conn *conn)
{
    (void)shutdown(conn->source.fd, SHUT_RDWR);
}

bool hetccl_conn_write_piece(struct hetccl_conn *conn, const void *bytes, size_t n_bytes)
{
    /* A fresh socket's buffer takes these few bytes; one that doesn't isn't worth keeping. */
    ssize_t n = send(conn->source.fd, bytes, n_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (n == (ssize_t)n_bytes)
        return true;
    hetccl_conn_drop(conn, HETCCL_CONN_LOST,
                     n < 0 ? strerror(errno) : "the socket took part of the hello only");
    return false;
}

/* ---- receiving ---- */

static void finish_frame(struct hetccl_conn *conn)
{
    struct hetccl_frame *frame = conn->in_frame;

    conn->in_frame = NULL;
    conn->in_bytes = 0;
    conn->ops->frame(conn, frame);
}

static void finish_head(struct hetccl_conn *conn)
{
    struct hetccl_wire_frame head;

    conn->head_bytes = 0;
    if (conn->state != HETCCL_CONN_READY) {
        hetccl_handshake_input(conn);
        return;
    }
    if (!hetccl_wire_frame_decode(conn->head, &head)) {
        hetccl_conn_drop(conn, HETCCL_CONN_STRANGER, "a frame header makes no sense");
        return;
    }
    if (hetccl_frame_create_empty(&head, &conn->in_frame) != HETCCL_OK) {
        hetccl_conn_drop(conn, HETCCL_CONN_LOST, "no memory for a frame");
        return;
    }
    if (head.payload_bytes == 0)
        finish_frame(conn);
}

/* Where the next bytes go. Exact sizes only: what follows the proof on a stream is not ours to read. */
static size_t find_room(struct hetccl_conn *conn, uint8_t **room_out)
{
    struct hetccl_frame *frame = conn->in_frame;
    size_t wanted;

    if (frame != NULL) {
        if (conn->in_bytes == frame->capacity && hetccl_frame_grow(&conn->in_frame) != HETCCL_OK)
            return 0;
        frame = conn->in_frame;
        *room_out = frame->payload + conn->in_bytes;
        return frame->capacity - conn->in_bytes;
    }
    wanted = conn->state == HETCCL_CONN_READY ? HETCCL_WIRE_FRAME_BYTES : hetccl_handshake_wants_bytes(conn);
    *room_out = conn->head + conn->head_bytes;
    return wanted - conn->head_bytes;
}

static void take_bytes(struct hetccl_conn *conn, size_t n, bool is_full)
{
    if (conn->in_frame != NULL) {
        conn->in_bytes += n;
        if (conn->in_bytes == conn->in_frame->head.payload_bytes)
            finish_frame(conn);
        return;
    }
    conn->head_bytes += n;
    if (is_full)
        finish_head(conn);
}

static void receive(struct hetccl_conn *conn)
{
    for (int i = 0; i < READS_AT_A_TIME && conn->state != HETCCL_CONN_CLOSED && !conn->is_parked; i++) {
        uint8_t *room = NULL;
        size_t room_bytes = find_room(conn, &room);
        ssize_t n;

        if (room_bytes == 0) {
            hetccl_conn_drop(conn, HETCCL_CONN_LOST, "no memory for a frame");
            return;
        }
        n = recv(conn->source.fd, room, room_bytes, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            hetccl_conn_drop(conn, HETCCL_CONN_LOST, n == 0 ? "connection closed" : strerror(errno));
            return;
        }
        take_bytes(conn, (size_t)n, (size_t)n == room_bytes);
    }
}

static void finish_connect(struct hetccl_conn *conn)
{
    int error = 0;
    socklen_t bytes = sizeof(error);

    if (getsockopt(conn->source.fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
        error = errno;
    if (error != 0) {
        hetccl_conn_drop(conn, HETCCL_CONN_LOST, strerror(error));
        return;
    }
    want_write(conn, false);
    hetccl_handshake_begin(conn);
}

static void conn_ready(struct hetccl_source *source, uint32_t events)
{
    struct hetccl_conn *conn = (struct hetccl_conn *)source;

    if (conn->state == HETCCL_CONN_CONNECTING) {
        if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0)
            finish_connect(conn);
        return;
    }
    if ((events & EPOLLOUT) != 0 && conn->out.first != NULL)
        flush(conn);
    if ((events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0)
        receive(conn);
}

/* ---- time ---- */

static struct hetccl_conn *find_overdue(struct hetccl_endpoint *endpoint, uint64_t now_ns)
{
    for (struct hetccl_list_node *node = endpoint->conns.next; node != &endpoint->conns; node = node->next) {
        struct hetccl_conn *conn = conn_of(node);

        if (conn->deadline_ns != 0 && conn->deadline_ns <= now_ns)
            return conn;
    }
    return NULL;
}

void hetccl_conns_tick(struct hetccl_endpoint *endpoint, uint64_t now_ns)
{
    struct hetccl_conn *conn;

    /* From the start after each: a closed handler may close others. */
    while ((conn = find_overdue(endpoint, now_ns)) != NULL)
        hetccl_conn_drop(conn, HETCCL_CONN_LOST,
                         conn->state == HETCCL_CONN_CONNECTING ? strerror(ETIMEDOUT) : "no answer in time");
}

bool hetccl_conns_need_tick(const struct hetccl_endpoint *endpoint)
{
    return endpoint->n_unproved > 0;
}

void hetccl_conns_bury(struct hetccl_endpoint *endpoint)
{
    while (!hetccl_list_is_empty(&endpoint->graveyard)) {
        struct hetccl_list_node *node = endpoint->graveyard.next;

        hetccl_list_remove(node);
        hetccl_free(conn_of(node));
    }
}

int *hetccl_conn_fd(struct hetccl_list_node *node)
{
    return &conn_of(node)->source.fd;
}
