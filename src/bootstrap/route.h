/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_BOOTSTRAP_ROUTE_H
#define HETCCL_BOOTSTRAP_ROUTE_H

/*
 * The way to another process: one control connection for all meshes, made on first use by whoever sends
 * first. (When both do at once there are two, and each side goes on sending through the one it has, so that
 * order is kept.) Locked.
 */

#include "bootstrap/mesh_internal.h"

/* Sends to the process of the mesh's rank; takes the frame. Frames wait in order while the connection is
 * made. */
void hetccl_route_send(struct hetccl_mesh *mesh, uint32_t dst_rank, struct hetccl_frame *frame);

/*
 * Sends a copy of the frame through every connection with the process, so that whichever of them is read or
 * seen closed first, the frame came before.
 */
void hetccl_route_send_everywhere(struct hetccl_endpoint *endpoint, uint64_t process_key,
                                  const struct hetccl_wire_frame *head);

/* True when the kernel has all that was sent to the process (or to any: key 0). */
bool hetccl_route_is_flushed(struct hetccl_endpoint *endpoint, uint64_t process_key);

/* True when a connection to the process stands or is being made. */
bool hetccl_route_exists(struct hetccl_endpoint *endpoint, uint64_t process_key);

/* Takes up an accepted connection. */
void hetccl_route_adopt(struct hetccl_conn *conn);

/* At the endpoint's end. */
void hetccl_routes_destroy(struct hetccl_endpoint *endpoint);

#endif
