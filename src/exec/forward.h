/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_EXEC_FORWARD_H
#define HETCCL_EXEC_FORWARD_H

/*
 * Two ranks that share no memory have rings of their own each (exec/ring.h); a forward on either side keeps
 * the two alike over a link. Whatever fills a slot of the send ring, a kernel or a copy engine, in a call or
 * in a replayed graph, finds it empty again once it has gone out, and the same piece appears in the same slot
 * of the peer's receive ring. Nothing is known here of calls and programs.
 *
 * Every slot is a channel of its own: pieces go out in whatever order they appear, but a slot's next piece
 * only once the peer has said that its own slot is empty. So no piece ever waits on the link for another one
 * to be read, whatever order sender and receiver work in. Those words travel with pieces the other way, or
 * alone when none is at hand.
 *
 * Never blocks. Threads: one at a time; the ring's other user works on it at the same time.
 */

#include <stdbool.h>

#include "base/status.h"
#include "kernels/device/program.h"
#include "link/link.h"

struct hetccl_forward;

/*
 * hetccl_forward_create
 *
 * send, recv [in] by host addresses, all words 0; borrowed until destroy
 * link       [in] carries nothing else; borrowed until destroy
 * Errors: HETCCL_ERR_SYSTEM, or the link's.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_forward_create(const struct hetccl_ring_view *send,
                                                          const struct hetccl_ring_view *recv,
                                                          struct hetccl_link *link,
                                                          struct hetccl_forward **out);

/* From then on the link must not be used but to be closed. Takes NULL. */
void hetccl_forward_destroy(struct hetccl_forward *forward);

/*
 * Moves what can be moved: HETCCL_OK when something did, HETCCL_AGAIN when nothing could, else the link's
 * error, or HETCCL_ERR_REMOTE for a peer that sends what it may not. Errors are sticky.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_forward_progress(struct hetccl_forward *forward);

/* Something is under way, or waits for the peer, that needs more progress even if this rank begins nothing
 * new. */
bool hetccl_forward_has_work(const struct hetccl_forward *forward);

/* All that was ever in the send ring has been read by the peer's device, as far as this side knows. */
bool hetccl_forward_is_delivered(const struct hetccl_forward *forward);

/* That, and this rank's device has read all that came, and the peer has been told so: both may leave. */
bool hetccl_forward_is_over(const struct hetccl_forward *forward);

struct hetccl_link *hetccl_forward_link(const struct hetccl_forward *forward);

#endif
