/* SPDX-License-Identifier: Apache-2.0 */
#include "link/tcp/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* Where the payload of the receive in work goes, as far as there is room now. */
static struct hetccl_tcp_span span_of(const struct hetccl_tcp_link *tcp,
                                      const struct hetccl_link_request *request)
{
    if (request->memory != NULL)
        return (struct hetccl_tcp_span){request->memory, SIZE_MAX, SIZE_MAX};
    return (struct hetccl_tcp_span){tcp->staging, tcp->staging_bytes,
                                    request->bytes_done + tcp->staging_bytes};
}

static bool has_header(const struct hetccl_tcp_message *in)
{
    return in->header_done == sizeof(in->header);
}

static void count_payload(struct hetccl_tcp_link *tcp, struct hetccl_link_request *request, size_t lane,
                          size_t bytes)
{
    tcp->in.lane_done[lane] += bytes;
    tcp->in.payload_done += bytes;
    tcp->core.link.counters.received_bytes += bytes;
    if (request->memory != NULL)
        request->bytes_done = tcp->in.payload_done;
}

/* The header is complete: is it the one of this receive? */
static enum hetccl_status check_header(struct hetccl_tcp_link *tcp, struct hetccl_link_request *request)
{
    struct hetccl_message_header header;

    if (!hetccl_message_header_decode(tcp->in.header, &header))
        return hetccl_link_fail(
            &tcp->core, HETCCL_ERR_REMOTE,
            "what arrived from address %s is no message header; use one library version on all "
            "ranks",
            tcp->address);
    request->state = HETCCL_REQUEST_ACTIVE;
    return hetccl_link_check_message(&tcp->core, request, &header.tag, header.bytes_total);
}

static size_t take_ahead(struct hetccl_tcp_link *tcp, void *to, size_t bytes_wanted)
{
    size_t bytes = hetccl_min_size(bytes_wanted, tcp->ahead_end - tcp->ahead_first);

    memcpy(to, tcp->look_ahead + tcp->ahead_first, bytes);
    tcp->ahead_first += bytes;
    tcp->core.link.counters.copies_bytes += bytes;
    return bytes;
}

/* Header and lane 0 out of the look-ahead buffer, which an earlier call filled. */
static enum hetccl_status feed_from_ahead(struct hetccl_tcp_link *tcp, struct hetccl_link_request *request,
                                          bool *moved_out)
{
    const struct hetccl_tcp_span span = span_of(tcp, request);
    struct hetccl_tcp_message *in = &tcp->in;
    struct iovec iov;
    size_t bytes;

    if (tcp->ahead_first == tcp->ahead_end)
        return HETCCL_OK;
    if (!has_header(in)) {
        in->header_done +=
            take_ahead(tcp, in->header + in->header_done, sizeof(in->header) - in->header_done);
        *moved_out = true;
        if (!has_header(in))
            return HETCCL_OK;
        enum hetccl_status status = check_header(tcp, request);
        if (status != HETCCL_OK)
            return status;
    }
    while (tcp->ahead_first < tcp->ahead_end &&
           hetccl_tcp_lane_pieces(&in->layout, 0, in->lane_done[0], &span, &iov, 1, &bytes) > 0) {
        count_payload(tcp, request, 0, take_ahead(tcp, iov.iov_base, bytes));
        *moved_out = true;
    }
    return HETCCL_OK;
}

/* recvmsg() that is interrupted by nothing: bytes, 0 when none are there; -1 and errno, 0 for the stream's
 * end. */
static ssize_t receive_pieces(struct hetccl_tcp_link *tcp, int fd, struct iovec *iov, size_t n_iov)
{
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = n_iov};
    ssize_t received;

    do {
        tcp->core.link.counters.system_calls++;
        received = recvmsg(fd, &message, MSG_DONTWAIT);
    } while (received < 0 && errno == EINTR);
    if (received == 0) {
        errno = 0;
        return -1;
    }
    if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    return received;
}

/*
 * The header is fetched together with the payload behind it, before it is known to be the expected one. That
 * is harmless: nobody looks at the memory before the receive is done, and a wrong header ends the link.
 */
static size_t list_pieces(struct hetccl_tcp_link *tcp, const struct hetccl_link_request *request, size_t lane,
                          struct iovec iov[2 + HETCCL_TCP_PIECES], size_t *bytes_out)
{
    const struct hetccl_tcp_span span = span_of(tcp, request);
    struct hetccl_tcp_message *in = &tcp->in;
    size_t n_iov = 0, bytes;

    *bytes_out = 0;
    if (lane == 0 && !has_header(in)) {
        *bytes_out = sizeof(in->header) - in->header_done;
        iov[n_iov++] = (struct iovec){.iov_base = in->header + in->header_done, .iov_len = *bytes_out};
    }
    n_iov += hetccl_tcp_lane_pieces(&in->layout, lane, in->lane_done[lane], &span, iov + n_iov,
                                    HETCCL_TCP_PIECES, &bytes);
    *bytes_out += bytes;
    if (lane != 0 || in->lane_done[0] + bytes < hetccl_tcp_lane_bytes(&in->layout, 0))
        return n_iov;
    /* The buffer is empty here: what was in it has been fed to this message. */
    tcp->ahead_first = tcp->ahead_end = 0;
    iov[n_iov++] = (struct iovec){.iov_base = tcp->look_ahead, .iov_len = sizeof(tcp->look_ahead)};
    *bytes_out += sizeof(tcp->look_ahead);
    return n_iov;
}

/* One system call on one lane. HETCCL_OK when it filled all it was given, HETCCL_AGAIN when it gave less. */
static enum hetccl_status receive_lane(struct hetccl_tcp_link *tcp, struct hetccl_link_request *request,
                                       size_t lane, bool *moved_out)
{
    struct hetccl_tcp_message *in = &tcp->in;
    struct iovec iov[2 + HETCCL_TCP_PIECES];
    size_t bytes_wanted, header_bytes, payload_bytes;
    size_t n_iov = list_pieces(tcp, request, lane, iov, &bytes_wanted);
    ssize_t received = receive_pieces(tcp, tcp->sockets[lane], iov, n_iov);

    if (received < 0)
        return hetccl_tcp_fail(tcp, "receiving", errno);
    if (received == 0)
        return HETCCL_AGAIN;
    *moved_out = true;
    header_bytes = lane == 0 ? hetccl_min_size(sizeof(in->header) - in->header_done, (size_t)received) : 0;
    if (header_bytes > 0) {
        in->header_done += header_bytes;
        if (has_header(in)) {
            enum hetccl_status status = check_header(tcp, request);

            if (status != HETCCL_OK)
                return status;
        }
    }
    payload_bytes = hetccl_min_size((size_t)received - header_bytes,
                                    hetccl_tcp_lane_bytes(&in->layout, lane) - in->lane_done[lane]);
    count_payload(tcp, request, lane, payload_bytes);
    if (lane == 0)
        tcp->ahead_end = (size_t)received - header_bytes - payload_bytes;
    return (size_t)received == bytes_wanted ? HETCCL_OK : HETCCL_AGAIN;
}

/* Is there anything left to fetch on this lane, and room for it? */
static bool can_receive(const struct hetccl_tcp_link *tcp, const struct hetccl_link_request *request,
                        size_t lane)
{
    const struct hetccl_tcp_message *in = &tcp->in;
    const struct hetccl_tcp_span span = span_of(tcp, request);

    if (!has_header(in))
        return lane == 0;
    return in->lane_done[lane] < hetccl_tcp_lane_bytes(&in->layout, lane) &&
           hetccl_tcp_lane_offset(&in->layout, lane, in->lane_done[lane]) < span.limit_bytes;
}

/* All bytes are here, and the caller has taken them if they were his to take. */
static bool is_complete(const struct hetccl_tcp_message *in, const struct hetccl_link_request *request)
{
    return has_header(in) && in->payload_done == in->layout.bytes_total &&
           request->bytes_done == request->bytes_total;
}

static void finish_receive(struct hetccl_tcp_link *tcp)
{
    tcp->in.has_begun = false;
    tcp->core.link.counters.received_messages++;
    hetccl_link_queue_finish(&tcp->core.recvs);
}

/*
 * Goes on with one message. HETCCL_OK when it is complete, HETCCL_AGAIN when bytes or room are missing. A
 * socket that gave less than it was asked for is empty and isn't asked again until the next progress.
 */
static enum hetccl_status receive_message(struct hetccl_tcp_link *tcp, struct hetccl_link_request *request,
                                          bool is_empty[HETCCL_LINK_TCP_MAX_SOCKETS], unsigned *calls_left,
                                          bool *moved_out)
{
    enum hetccl_status status = feed_from_ahead(tcp, request, moved_out);
    bool has_called = true;

    while (status == HETCCL_OK && has_called) {
        has_called = false;
        for (size_t lane = 0; lane < tcp->in.layout.n_lanes; lane++) {
            if (is_empty[lane] || *calls_left == 0 || !can_receive(tcp, request, lane))
                continue;
            status = receive_lane(tcp, request, lane, moved_out);
            if (hetccl_is_error(status))
                return status;
            is_empty[lane] = status == HETCCL_AGAIN;
            status = HETCCL_OK;
            has_called = true;
            --*calls_left;
        }
    }
    if (status != HETCCL_OK)
        return status;
    return is_complete(&tcp->in, request) ? HETCCL_OK : HETCCL_AGAIN;
}

enum hetccl_status hetccl_tcp_receive_queued(struct hetccl_tcp_link *tcp, bool *moved_out)
{
    struct hetccl_link_queue *recvs = &tcp->core.recvs;
    bool is_empty[HETCCL_LINK_TCP_MAX_SOCKETS] = {false};
    unsigned calls_left = HETCCL_TCP_CALLS_A_PROGRESS;

    while (recvs->first != NULL) {
        struct hetccl_link_request *request = recvs->first;
        enum hetccl_status status;

        if (!tcp->in.has_begun)
            hetccl_tcp_message_begin(&tcp->in, request->bytes_total, tcp->n_sockets);
        status = receive_message(tcp, request, is_empty, &calls_left, moved_out);
        if (status != HETCCL_OK)
            return status;
        finish_receive(tcp);
    }
    return HETCCL_OK;
}

bool hetccl_tcp_wants_input(const struct hetccl_tcp_link *tcp, size_t lane)
{
    const struct hetccl_link_request *request = tcp->core.recvs.first;

    if (request == NULL)
        return false;
    if (!tcp->in.has_begun)
        return lane == 0;
    return lane < tcp->in.layout.n_lanes && can_receive(tcp, request, lane);
}

enum hetccl_status hetccl_tcp_post_recv(struct hetccl_link *link, struct hetccl_link_request *request)
{
    struct hetccl_tcp_link *tcp = hetccl_tcp_of(link);

    if (tcp->core.failure != HETCCL_OK)
        return hetccl_link_sticky(&tcp->core);
    hetccl_link_queue_push(&tcp->core.recvs, request);
    return HETCCL_OK;
}

/* The first byte of the message that no lane has brought yet: all before it are at hand. */
static size_t count_without_gap(const struct hetccl_tcp_message *in)
{
    size_t bytes = in->layout.bytes_total;

    for (size_t lane = 0; lane < in->layout.n_lanes; lane++)
        bytes = hetccl_min_size(bytes, hetccl_tcp_lane_offset(&in->layout, lane, in->lane_done[lane]));
    return bytes;
}

/* Bytes that can be shown in one piece from bytes_done on. */
static size_t count_at_hand(const struct hetccl_tcp_link *tcp, const struct hetccl_link_request *request)
{
    const struct hetccl_tcp_message *in = &tcp->in;
    size_t first = request->bytes_done;
    size_t end;

    if (!in->has_begun || !has_header(in))
        return 0;
    end = count_without_gap(in);
    if (end < request->bytes_total)
        end -= end % 16;
    if (end <= first)
        return 0;
    return hetccl_min_size(end - first, tcp->staging_bytes - first % tcp->staging_bytes);
}

enum hetccl_status hetccl_tcp_peek(struct hetccl_link *link, const struct hetccl_link_request *request,
                                   const void **memory_out, size_t *bytes_out)
{
    struct hetccl_tcp_link *tcp = hetccl_tcp_of(link);
    size_t at_hand;

    if (tcp->core.failure != HETCCL_OK)
        return hetccl_link_sticky(&tcp->core);
    if (tcp->core.recvs.first != request || request->memory != NULL)
        return HETCCL_AGAIN;
    at_hand = count_at_hand(tcp, request);
    if (at_hand == 0)
        return HETCCL_AGAIN;
    *memory_out = tcp->staging + request->bytes_done % tcp->staging_bytes;
    *bytes_out = at_hand;
    return HETCCL_OK;
}

void hetccl_tcp_consume(struct hetccl_link *link, struct hetccl_link_request *request, size_t bytes)
{
    struct hetccl_tcp_link *tcp = hetccl_tcp_of(link);
    bool is_first = tcp->core.recvs.first == request && request->memory == NULL;
    size_t at_hand = is_first ? count_at_hand(tcp, request) : 0;

    if (tcp->core.failure != HETCCL_OK ||
        hetccl_link_check_consume(&tcp->core, request, bytes, at_hand) != HETCCL_OK || at_hand == 0)
        return;
    request->bytes_done += bytes;
    if (is_complete(&tcp->in, request))
        finish_receive(tcp);
}
