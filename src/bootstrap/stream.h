/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_BOOTSTRAP_STREAM_H
#define HETCCL_BOOTSTRAP_STREAM_H

#include "bootstrap/mesh_internal.h"

/* Takes up an accepted stream connection: gives it to the stream that waits for it, or keeps it for one to
 * come. Locked. */
void hetccl_stream_adopt(struct hetccl_conn *conn);

/* The mesh goes: its streams lose it, and sockets kept for it are closed. Locked. */
void hetccl_streams_abandon(struct hetccl_mesh *mesh);

#endif
