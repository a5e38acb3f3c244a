/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_EXEC_PIECES_H
#define HETCCL_EXEC_PIECES_H

/*
 * A link from a synchronous rank, whose calls move messages, to an asynchronous one, whose kernels move
 * pieces in rings: it cuts messages and puts them together as the peer's program does. The rings lie in
 * memory that the peer's device works on too, or are this rank's own, with a forward that keeps them and the
 * peer's alike.
 *
 * Pieces are numbered by call, as in kernels/device/program.h, so the link is told where one begins. Messages
 * of 0 bytes don't travel: the peer's program has none. Otherwise as link/link.h says.
 */

#include "exec/forward.h"
#include "link/link.h"

struct hetccl_pieces_args {
    const struct hetccl_ring_view *send, *recv; /* by host addresses; slot_bytes a multiple of 16 */
    struct hetccl_forward *forward; /* of these rings, the link's from success on; NULL: the peer sees them */
    uint32_t own_rank, peer_rank;
    const char *peer_name;
};

/* Errors: HETCCL_ERR_SYSTEM. */
HETCCL_NODISCARD enum hetccl_status hetccl_pieces_create(const struct hetccl_pieces_args *args,
                                                         struct hetccl_link **out);

/* Before the first message of a call; a number other than the last one's. Again with the same one: nothing.
 * All messages before it are done. */
void hetccl_pieces_begin(struct hetccl_link *link, uint64_t call);

#endif
