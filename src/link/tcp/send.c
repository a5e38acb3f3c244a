/* SPDX-License-Identifier: Apache-2.0 */
#include "link/tcp/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

void hetccl_tcp_message_begin(struct hetccl_tcp_message *message, size_t bytes_total, size_t n_sockets)
{
    message->layout = hetccl_tcp_layout_of(bytes_total, n_sockets);
    message->has_begun = true;
    message->header_done = 0;
    message->payload_done = 0;
    for (size_t lane = 0; lane < message->layout.n_lanes; lane++)
        message->lane_done[lane] = 0;
}

/* sendmsg() that is interrupted by nothing: bytes sent, 0 when the socket takes none now; -1 and errno. */
static ssize_t send_pieces(struct hetccl_tcp_link *tcp, int fd, struct iovec *iov, size_t n_iov)
{
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = n_iov};
    ssize_t sent;

    do {
        tcp->core.link.counters.system_calls++;
        sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    return sent;
}

/* One system call on one lane. HETCCL_OK when it took all it was given, HETCCL_AGAIN when it took less. */
static enum hetccl_status send_lane(struct hetccl_tcp_link *tcp, struct hetccl_link_request *request,
                                    size_t lane, bool *moved_out)
{
    const struct hetccl_tcp_span span = {request->memory, SIZE_MAX, SIZE_MAX};
    struct hetccl_tcp_message *out = &tcp->out;
    struct iovec iov[1 + HETCCL_TCP_PIECES];
    size_t header_bytes = lane == 0 ? sizeof(out->header) - out->header_done : 0;
    size_t n_iov = header_bytes > 0 ? 1 : 0;
    size_t bytes, header_sent;
    ssize_t sent;

    iov[0] = (struct iovec){.iov_base = out->header + out->header_done, .iov_len = header_bytes};
    n_iov += hetccl_tcp_lane_pieces(&out->layout, lane, out->lane_done[lane], &span, iov + n_iov,
                                    HETCCL_TCP_PIECES, &bytes);
    sent = send_pieces(tcp, tcp->sockets[lane], iov, n_iov);
    if (sent < 0)
        return hetccl_tcp_fail(tcp, "sending", errno);
    header_sent = hetccl_min_size((size_t)sent, header_bytes);
    if (lane == 0)
        out->header_done += header_sent;
    out->lane_done[lane] += (size_t)sent - header_sent;
    out->payload_done += (size_t)sent - header_sent;
    request->bytes_done = out->payload_done;
    tcp->core.link.counters.sent_bytes += (size_t)sent - header_sent;
    *moved_out = *moved_out || sent > 0;
    return (size_t)sent == header_bytes + bytes ? HETCCL_OK : HETCCL_AGAIN;
}

static bool is_lane_open(const struct hetccl_tcp_message *out, size_t lane)
{
    return (lane == 0 && out->header_done < sizeof(out->header)) ||
           out->lane_done[lane] < hetccl_tcp_lane_bytes(&out->layout, lane);
}

/* Goes round the lanes until all of the message is in the kernel, or no lane takes more: HETCCL_AGAIN. */
static enum hetccl_status send_message(struct hetccl_tcp_link *tcp, struct hetccl_link_request *request,
                                       unsigned *calls_left, bool *moved_out)
{
    struct hetccl_tcp_message *out = &tcp->out;
    bool is_full[HETCCL_LINK_TCP_MAX_SOCKETS] = {false};
    bool has_called = true;

    while (has_called) {
        has_called = false;
        for (size_t lane = 0; lane < out->layout.n_lanes; lane++) {
            enum hetccl_status status;

            if (is_full[lane] || !is_lane_open(out, lane) || *calls_left == 0)
                continue;
            status = send_lane(tcp, request, lane, moved_out);
            if (hetccl_is_error(status))
                return status;
            is_full[lane] = status == HETCCL_AGAIN;
            has_called = true;
            --*calls_left;
        }
    }
    return out->header_done == sizeof(out->header) && out->payload_done == out->layout.bytes_total
               ? HETCCL_OK
               : HETCCL_AGAIN;
}

enum hetccl_status hetccl_tcp_send_queued(struct hetccl_tcp_link *tcp, bool *moved_out)
{
    struct hetccl_link_queue *sends = &tcp->core.sends;
    unsigned calls_left = HETCCL_TCP_CALLS_A_PROGRESS;

    while (sends->first != NULL) {
        struct hetccl_link_request *request = sends->first;
        enum hetccl_status status;

        if (!tcp->out.has_begun) {
            const struct hetccl_message_header header = {request->tag, request->bytes_total};

            hetccl_tcp_message_begin(&tcp->out, request->bytes_total, tcp->n_sockets);
            hetccl_message_header_encode(&header, tcp->out.header);
            request->state = HETCCL_REQUEST_ACTIVE;
        }
        status = send_message(tcp, request, &calls_left, moved_out);
        if (status != HETCCL_OK)
            return status;
        tcp->out.has_begun = false;
        tcp->core.link.counters.sent_messages++;
        hetccl_link_queue_finish(sends);
    }
    return HETCCL_OK;
}

bool hetccl_tcp_wants_output(const struct hetccl_tcp_link *tcp, size_t lane)
{
    if (tcp->core.sends.first == NULL)
        return false;
    if (!tcp->out.has_begun)
        return lane == 0;
    return lane < tcp->out.layout.n_lanes && is_lane_open(&tcp->out, lane);
}

enum hetccl_status hetccl_tcp_post_send(struct hetccl_link *link, struct hetccl_link_request *request)
{
    struct hetccl_tcp_link *tcp = hetccl_tcp_of(link);
    bool is_first = tcp->core.sends.first == NULL;
    bool has_moved = false;
    enum hetccl_status status;

    if (tcp->core.failure != HETCCL_OK)
        return hetccl_link_sticky(&tcp->core);
    hetccl_link_queue_push(&tcp->core.sends, request);
    if (!is_first)
        return HETCCL_OK;
    status = hetccl_tcp_send_queued(tcp, &has_moved);
    return status == HETCCL_AGAIN ? HETCCL_OK : status;
}
