/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_BOOTSTRAP_CONN_H
#define HETCCL_BOOTSTRAP_CONN_H

/*
 * One connection: the authenticated hello (handshake.c), then frames both ways. Non-blocking; frames that the
 * socket doesn't take are queued. Everything here is locked.
 *
 * A connection that ends calls its owner's `closed` once, on the service thread; hetccl_conn_close() by the
 * owner calls nothing. The memory stays until the service thread's next round, so a handler may close any
 * connection.
 */

#include "bootstrap/address.h"
#include "bootstrap/endpoint.h"
#include "wire/hello.h"
#include "wire/unique_id.h"

struct hetccl_conn;

enum hetccl_conn_state {
    HETCCL_CONN_CONNECTING = 0,
    HETCCL_CONN_WAIT_ANSWER, /* connecting side: hello sent */
    HETCCL_CONN_WAIT_HELLO,  /* listening side */
    HETCCL_CONN_WAIT_PROOF,  /* listening side: answer sent */
    HETCCL_CONN_READY,
    HETCCL_CONN_CLOSED,
};

enum hetccl_conn_end {
    HETCCL_CONN_LOST = 0,    /* closed by the peer, reset, silent, or a system call failed */
    HETCCL_CONN_UNKNOWN_JOB, /* the listener doesn't know the job */
    HETCCL_CONN_STRANGER,    /* what answered doesn't know the key or is no HetCCL at all */
    HETCCL_CONN_REVISION,    /* authenticated, but of another wire revision */
};

struct hetccl_conn_ops {
    void (*connected)(
        struct hetccl_conn *conn); /* the TCP connection stands, the hello goes out now; may be NULL */
    void (*ready)(struct hetccl_conn *conn);                             /* both sides are authenticated */
    void (*frame)(struct hetccl_conn *conn, struct hetccl_frame *frame); /* takes the frame */
    void (*closed)(struct hetccl_conn *conn, enum hetccl_conn_end end, const char *reason);
};

struct hetccl_conn {
    struct hetccl_source source; /* first: the epoll set points here */
    struct hetccl_list_node node;
    struct hetccl_endpoint *endpoint;
    enum hetccl_conn_state state;
    bool is_outgoing, is_writing, is_proved, is_parked;
    const struct hetccl_conn_ops *ops;
    void *owner;
    uint64_t born_ns, deadline_ns; /* deadline 0: none */
    char peer_address[HETCCL_ADDRESS_TEXT_BYTES];

    /* the hello */
    struct hetccl_wire_hello hello;   /* ours or the peer's */
    struct hetccl_wire_answer answer; /* the peer's or ours */
    uint8_t hello_bytes[HETCCL_WIRE_HELLO_BYTES];
    uint8_t answer_bytes[HETCCL_WIRE_ANSWER_BYTES];
    uint8_t key[HETCCL_WIRE_KEY_BYTES];
    uint64_t peer_process_key;

    /* what comes in: a fixed-size piece, or the payload of in_frame */
    uint8_t head[HETCCL_WIRE_HELLO_BYTES];
    size_t head_bytes;
    struct hetccl_frame *in_frame;
    size_t in_bytes;

    struct hetccl_frame_queue out;
    size_t out_offset; /* of the first frame, header included */
};

struct hetccl_conn_open_args {
    const struct hetccl_address *address;
    const struct hetccl_wire_hello *hello; /* nonce not needed */
    const uint8_t *key;                    /* HETCCL_WIRE_KEY_BYTES */
    const struct hetccl_conn_ops *ops;
    void *owner;
    uint64_t deadline_ns; /* of the connect */
};

/* Starts to connect. Errors: HETCCL_ERR_SYSTEM with *error_out the errno; nothing is logged, callers try
 * again. */
HETCCL_NODISCARD enum hetccl_status hetccl_conn_open(struct hetccl_endpoint *endpoint,
                                                     const struct hetccl_conn_open_args *args,
                                                     struct hetccl_conn **out, int *error_out);

/* Takes up an accepted socket, which it owns. */
void hetccl_conn_accept(struct hetccl_endpoint *endpoint, int fd, const struct hetccl_address *address);

/* Room for one more stranger: drops the oldest if it is slow. False: don't accept now. */
bool hetccl_conn_has_room(struct hetccl_endpoint *endpoint);

/*
 * hetccl_conn_send -- send or queue a frame, which it takes. In state READY. Any thread.
 *
 * A broken socket isn't reported here but through `closed`.
 */
void hetccl_conn_send(struct hetccl_conn *conn, struct hetccl_frame *frame);

/* Sends an empty frame through every READY connection of these ops with the process. */
void hetccl_conns_send_copies(struct hetccl_endpoint *endpoint, const struct hetccl_conn_ops *ops,
                              uint64_t process_key, const struct hetccl_wire_frame *head);

/* Makes the connection fail on both sides; `closed` comes later. Any thread. */
void hetccl_conn_break(struct hetccl_conn *conn);

/* Ends it; `closed` isn't called. Takes NULL. Any thread. */
void hetccl_conn_close(struct hetccl_conn *conn);

/* Ends it and calls `closed`. Service thread. */
void hetccl_conn_drop(struct hetccl_conn *conn, enum hetccl_conn_end end, const char *reason);

/* Closes all connections of an owner, as hetccl_conn_close(). */
void hetccl_conns_close_owned(struct hetccl_endpoint *endpoint, const void *owner);

size_t hetccl_conns_count_owned(const struct hetccl_endpoint *endpoint, const void *owner);

/* The socket of a READY connection, now the caller's; the connection is gone. */
int hetccl_conn_detach(struct hetccl_conn *conn);

/* No more reading until somebody detaches or closes it: data that comes is left in the socket. */
void hetccl_conn_park(struct hetccl_conn *conn);

/* Closes everything, at the endpoint's end. Service thread. */
void hetccl_conns_close_all(struct hetccl_endpoint *endpoint);

/* The connection kept by park() for a stream, or NULL: same mesh key, ranks and stream id in its hello. */
struct hetccl_conn *hetccl_conn_find_parked(struct hetccl_endpoint *endpoint,
                                            const struct hetccl_wire_hello *like);

/* Drops what has passed its deadline; frees closed ones. Service thread. */
void hetccl_conns_tick(struct hetccl_endpoint *endpoint, uint64_t now_ns);
bool hetccl_conns_need_tick(const struct hetccl_endpoint *endpoint);
void hetccl_conns_bury(struct hetccl_endpoint *endpoint);

/* The descriptor of a listed connection, for the child of a fork. */
int *hetccl_conn_fd(struct hetccl_list_node *node);

/* For conn.c: the steps of the hello (handshake.c). */
size_t hetccl_handshake_wants_bytes(const struct hetccl_conn *conn);
void hetccl_handshake_begin(struct hetccl_conn *conn);
void hetccl_handshake_input(struct hetccl_conn *conn);

/* The mac over label ("client" or "server"), the hello and the answer up to its mac. */
void hetccl_handshake_mac(const uint8_t key[HETCCL_WIRE_KEY_BYTES], const char *label,
                          const uint8_t hello[HETCCL_WIRE_HELLO_BYTES],
                          const uint8_t answer[HETCCL_WIRE_ANSWER_BYTES], uint8_t out[HETCCL_WIRE_MAC_BYTES]);

/* Writes a small piece of the hello whole, or drops the connection and says false. */
bool hetccl_conn_write_piece(struct hetccl_conn *conn, const void *bytes, size_t n_bytes);

#endif
