/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_BOOTSTRAP_LISTENER_H
#define HETCCL_BOOTSTRAP_LISTENER_H

/* Listening sockets: bound to one address, never to all of them. */

#include "bootstrap/address.h"
#include "bootstrap/endpoint.h"

/*
 * hetccl_listener_open -- a listening, non-blocking socket at the address.
 *
 * address    [in] with port 0: a port is taken from first .. last, or any when these are 0
 * status_out      HETCCL_OK with *fd_out; HETCCL_AGAIN when the fixed port is in use now
 * Errors: HETCCL_ERR_USAGE when every port of the range is taken (names range and count), HETCCL_ERR_SYSTEM.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_listener_open(const struct hetccl_address *address,
                                                         uint16_t first_port, uint16_t last_port,
                                                         int *fd_out);

/* Accepts what waits at a listener. Locked; a hetccl_source's ready function. */
void hetccl_listener_ready(struct hetccl_source *source, uint32_t events);

/* Takes up an open listening socket: fills in the address and puts it into the epoll set. Locked. Owns fd on
 * success. */
HETCCL_NODISCARD enum hetccl_status hetccl_listener_init(struct hetccl_endpoint *endpoint, int fd,
                                                         const char *if_name, struct hetccl_listener *out);
void hetccl_listener_fini(struct hetccl_endpoint *endpoint, struct hetccl_listener *listener);

#endif
