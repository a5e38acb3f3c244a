/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_LINK_LINK_H
#define HETCCL_LINK_LINK_H

/*
 * A connected pair of ranks that moves messages of bytes. A link knows bytes and its peer, no collectives.
 *
 * Messages of one link arrive in post order, and a receive matches the next message: both sides know its
 * size. Every message carries a tag; a receive whose tag differs fails, naming both sides, before any byte of
 * the message is used.
 *
 * Everything here is non-blocking and driven by the caller's hetccl_link_progress(). One thread a link at a
 * time. Errors are sticky on the link. No allocation and no registration after the link is created.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "wire/call_tag.h"

struct hetccl_link;
struct pollfd;

enum hetccl_request_state {
    HETCCL_REQUEST_IDLE = 0,
    HETCCL_REQUEST_QUEUED,
    HETCCL_REQUEST_ACTIVE,
    HETCCL_REQUEST_DONE
};

/*
 * One message being sent or received; the caller's memory, untouched by it from post until the state is DONE.
 *
 * Send: `memory` holds bytes_total bytes and may be reused when DONE.
 * Receive with memory: the link fills it. Receive without (NULL): the caller takes the bytes by peek and
 * consume straight out of the link's slots; DONE once all are consumed.
 */
struct hetccl_link_request {
    struct hetccl_link_request *next; /* the link's queue */
    void *memory;
    size_t bytes_total; /* 0 is a message too */
    size_t bytes_done;
    struct hetccl_call_tag tag;
    enum hetccl_request_state state;
};

/*
 * post_send  Queue a message. May move bytes at once. HETCCL_OK, or the link's sticky error.
 * post_recv  Queue the receive of the next message. Same errors; HETCCL_ERR_USAGE when tag or size differ
 * (from progress). progress   Move what can be moved without blocking: HETCCL_OK when something moved,
 * HETCCL_AGAIN when nothing did. peek       Bytes of the first unfinished peek-mode receive that are at hand,
 * contiguous: *memory_out and *bytes_out > 0, and HETCCL_OK; HETCCL_AGAIN when there are none yet. A multiple
 * of 16 bytes unless it is the message's end, so that no element is torn. consume    Gives back the first
 * `bytes` of what peek showed; a multiple of 16 or the rest of the message. wait_fd    A descriptor to poll
 * for *events_out (POLLIN, POLLOUT or both) after progress gave AGAIN, valid until the link is called again.
 * -1: there is none, since the peer rings this rank's doorbell instead (shm), or since nothing is queued that
 * the peer could bring on (tcp). close      Gives everything back, at any moment, also after errors; requests
 * that are not DONE are forgotten.
 */
struct hetccl_link_ops {
    const char *name; /* "shm", "tcp" */
    enum hetccl_status (*post_send)(struct hetccl_link *link, struct hetccl_link_request *request);
    enum hetccl_status (*post_recv)(struct hetccl_link *link, struct hetccl_link_request *request);
    enum hetccl_status (*progress)(struct hetccl_link *link);
    enum hetccl_status (*peek)(struct hetccl_link *link, const struct hetccl_link_request *request,
                               const void **memory_out, size_t *bytes_out);
    void (*consume)(struct hetccl_link *link, struct hetccl_link_request *request, size_t bytes);
    int (*wait_fd)(struct hetccl_link *link, short *events_out);
    void (*close)(struct hetccl_link *link);
};

struct hetccl_link_counters {
    uint64_t sent_bytes, received_bytes; /* payload */
    uint64_t sent_messages, received_messages;
    uint64_t system_calls, copies_bytes; /* bytes copied by the CPU between user memory and slots */
};

struct hetccl_link {
    const struct hetccl_link_ops *ops;
    uint32_t own_rank, peer_rank;
    char peer_name[64]; /* host of the peer, for texts */
    bool is_silent;     /* without wait_fd, and the peer rings no doorbell either: to be looked at often */
    struct hetccl_link_counters counters;
};

/*
 * hetccl_link_shm_create -- a link through a shared segment of hetccl_link_shm_bytes() bytes, zeroed by its
 * creator.
 *
 * segment       [in] mapped in both processes (or the same memory in one process); borrowed until close
 * is_first      [in] exactly one side says true: it sends through the first ring
 * own_doorbell, peer_doorbell [in] shared words: a side that moved something increments the peer's and wakes
 * it if it sleeps
 */
struct hetccl_doorbell;
struct hetccl_link_shm_args {
    void *segment;
    size_t segment_bytes;
    size_t slot_bytes;
    bool is_first;
    uint32_t own_rank, peer_rank;
    const char *peer_name;
    struct hetccl_doorbell *own_doorbell, *peer_doorbell;
};
size_t hetccl_link_shm_bytes(size_t slot_bytes, size_t n_slots);
HETCCL_NODISCARD enum hetccl_status hetccl_link_shm_create(const struct hetccl_link_shm_args *args,
                                                           struct hetccl_link **out);

/*
 * hetccl_link_tcp_create -- a link over n_sockets connected stream sockets, in the same order on both sides.
 *
 * sockets [in] owned by the link from success on; made non-blocking, Nagle off, keep-alive with death_s
 */
enum { HETCCL_LINK_TCP_MAX_SOCKETS = 16 };
struct hetccl_link_tcp_args {
    int sockets[HETCCL_LINK_TCP_MAX_SOCKETS];
    size_t n_sockets;
    uint64_t death_s;
    uint32_t own_rank, peer_rank;
    const char *peer_name;
};
HETCCL_NODISCARD enum hetccl_status hetccl_link_tcp_create(const struct hetccl_link_tcp_args *args,
                                                           struct hetccl_link **out);

#endif
