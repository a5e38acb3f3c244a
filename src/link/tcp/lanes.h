/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_LINK_TCP_LANES_H
#define HETCCL_LINK_TCP_LANES_H

/*
 * Which socket carries which bytes of a message: a pure function of the message's size and the number of
 * sockets, so that both sides know it and nothing but one header a message goes over the wire.
 *
 * Messages of up to HETCCL_TCP_STRIPE_BYTES for each socket go over socket 0 whole. Larger ones are cut into
 * stripes of that size; stripe i goes over socket i mod n. The part of a message that one socket carries is
 * called a lane.
 */

#include <stddef.h>
#include <sys/uio.h>

enum {
    HETCCL_TCP_STRIPE_BYTES = 64 * 1024,
    HETCCL_TCP_CALL_BYTES =
        1024 * 1024, /* most that one system call moves, so that lanes and directions alternate */
};

struct hetccl_tcp_layout {
    size_t bytes_total;
    size_t n_lanes;
};

/* Where the bytes of a message lie in memory. */
struct hetccl_tcp_span {
    unsigned char *memory;
    size_t ring_bytes;  /* byte i lies at i mod ring_bytes: a multiple of the stripe; SIZE_MAX: no ring */
    size_t limit_bytes; /* bytes from here on are out of reach for now */
};

struct hetccl_tcp_layout hetccl_tcp_layout_of(size_t bytes_total, size_t n_sockets);

/* Bytes that a lane carries in all. */
size_t hetccl_tcp_lane_bytes(const struct hetccl_tcp_layout *layout, size_t lane);

/* Where byte `lane_byte` of a lane stands in the message; bytes_total for the lane's end. */
size_t hetccl_tcp_lane_offset(const struct hetccl_tcp_layout *layout, size_t lane, size_t lane_byte);

/*
 * Memory of the next bytes of a lane, from lane_done on: at most n_iov pieces and HETCCL_TCP_CALL_BYTES,
 * inside the span's limit. Returns the number of pieces, 0 when nothing is left or in reach; *bytes_out is
 * their sum.
 */
size_t hetccl_tcp_lane_pieces(const struct hetccl_tcp_layout *layout, size_t lane, size_t lane_done,
                              const struct hetccl_tcp_span *span, struct iovec *iov, size_t n_iov,
                              size_t *bytes_out);

#endif
