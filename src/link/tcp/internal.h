/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_LINK_TCP_INTERNAL_H
#define HETCCL_LINK_TCP_INTERNAL_H

/*
 * A link over stream sockets. On socket 0 go headers (wire/message.h) and, right after each, lane 0 of its
 * message; the other sockets carry nothing but their lanes of the striped messages (lanes.h), in the order of
 * the messages.
 *
 * One message a direction is in work at a time, on all its lanes. Payload goes between the kernel and the
 * caller's memory with no copy of ours, with one exception: a receiving call on socket 0 also offers the
 * kernel a small look-ahead buffer behind the message, so that a run of small messages costs one system call;
 * what lands there is copied out.
 *
 * Receives without memory fill a staging ring instead, in which byte i of the message lies at i mod its size;
 * each lane writes as far as the ring reaches beyond what was consumed, and peek shows what is there without
 * a gap.
 */

#include "base/memory.h"
#include "link/common.h"
#include "link/tcp/lanes.h"
#include "wire/message.h"

enum {
    HETCCL_TCP_LOOK_AHEAD_BYTES = 4096,
    HETCCL_TCP_STAGING_STRIPES = 8,   /* at least; and 4 for each socket */
    HETCCL_TCP_PIECES = 16,           /* of payload in one system call */
    HETCCL_TCP_CALLS_A_PROGRESS = 32, /* so that a fast peer can't hold this thread */
    HETCCL_TCP_ADDRESS_BYTES = 64,
};

/* How far a message has come: on the way out, or in. */
struct hetccl_tcp_message {
    struct hetccl_tcp_layout layout; /* valid while has_begun */
    bool has_begun;
    size_t header_done;
    size_t lane_done[HETCCL_LINK_TCP_MAX_SOCKETS];
    size_t payload_done; /* sum of lane_done */
    uint8_t header[HETCCL_MESSAGE_HEADER_BYTES];
};

struct hetccl_tcp_link {
    struct hetccl_link_core core;
    int sockets[HETCCL_LINK_TCP_MAX_SOCKETS];
    size_t n_sockets;
    int epoll_fd; /* -1 with one socket */
    unsigned polled_events[HETCCL_LINK_TCP_MAX_SOCKETS];
    struct hetccl_tcp_message out, in;
    size_t ahead_first, ahead_end; /* what lies unused in look_ahead */
    unsigned char *staging;
    size_t staging_bytes;
    char address[HETCCL_TCP_ADDRESS_BYTES]; /* the peer's, for texts */
    unsigned char look_ahead[HETCCL_TCP_LOOK_AHEAD_BYTES];
};

static inline struct hetccl_tcp_link *hetccl_tcp_of(struct hetccl_link *link)
{
    return (struct hetccl_tcp_link *)link;
}

/* sockets.c: options for data sockets. HETCCL_ERR_SYSTEM. */
HETCCL_NODISCARD enum hetccl_status hetccl_tcp_socket_prepare(int fd, uint64_t death_s, uint32_t peer_rank);

/* sockets.c: "10.0.0.2:4711", "[::1]:4711"; "a local socket" for the others. */
void hetccl_tcp_address_print(int fd, char out[HETCCL_TCP_ADDRESS_BYTES]);

/* sockets.c: fails the link for a system call's errno; 0 means that the peer closed. */
enum hetccl_status hetccl_tcp_fail(struct hetccl_tcp_link *tcp, const char *what, int error);

/* send.c: starts on a message. */
void hetccl_tcp_message_begin(struct hetccl_tcp_message *message, size_t bytes_total, size_t n_sockets);

/* Moves what can be moved; *moved_out becomes true when something did. HETCCL_AGAIN when the rest must wait.
 */
enum hetccl_status hetccl_tcp_send_queued(struct hetccl_tcp_link *tcp, bool *moved_out);
enum hetccl_status hetccl_tcp_receive_queued(struct hetccl_tcp_link *tcp, bool *moved_out);

/* May a system call on this socket bring the link on? */
bool hetccl_tcp_wants_output(const struct hetccl_tcp_link *tcp, size_t lane);
bool hetccl_tcp_wants_input(const struct hetccl_tcp_link *tcp, size_t lane);

/* The operations of struct hetccl_link_ops. */
enum hetccl_status hetccl_tcp_post_send(struct hetccl_link *link, struct hetccl_link_request *request);
enum hetccl_status hetccl_tcp_post_recv(struct hetccl_link *link, struct hetccl_link_request *request);
enum hetccl_status hetccl_tcp_peek(struct hetccl_link *link, const struct hetccl_link_request *request,
                                   const void **memory_out, size_t *bytes_out);
void hetccl_tcp_consume(struct hetccl_link *link, struct hetccl_link_request *request, size_t bytes);

#endif
