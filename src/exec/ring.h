/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_EXEC_RING_H
#define HETCCL_EXEC_RING_H

/*
 * Rings between this rank's device and a peer, one each way (layout and protocol: kernels/device/program.h).
 *
 *   shm  words and slots in host memory that both processes have mapped and registered with their device
 *   p2p  words and slots in the receiver's device memory, mapped by IPC
 *   own  words and slots in pinned host memory of this rank alone: a forward (exec/forward.h) keeps them and
 *        the peer's alike
 *
 * Nothing here blocks on the peer. Threads: one at a time.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "device/device.h"
#include "kernels/device/program.h"

struct hetccl_ring {
    struct hetccl_ring_view send, recv; /* device addresses */
    struct hetccl_device *device;
    uint32_t *host_send_words, *host_recv_words; /* host addresses; NULL: not in host memory */
    void *registered;                            /* shm */
    void *own;                                   /* p2p: device memory */
    void *pinned;                                /* own */
    struct hetccl_ipc_mapping peer;
};

/* Host memory that both directions need; zeroed by its creator. */
size_t hetccl_ring_shm_bytes(size_t slot_bytes);

/*
 * hetccl_ring_shm_open -- rings in a segment that both ranks have mapped.
 *
 * segment  [in] hetccl_ring_shm_bytes() of it, page aligned; borrowed until close
 * is_first [in] exactly one side says true: it sends through the first ring
 * Errors: the device's, from registering.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_ring_shm_open(struct hetccl_device *device, void *segment,
                                                         size_t slot_bytes, bool is_first,
                                                         struct hetccl_ring *out);

/* What a p2p peer has to know. Plain bytes. `pid` tells a peer in the same process, which uses the address.
 */
struct hetccl_ring_offer {
    struct hetccl_ipc_handle handle;
    uint64_t address;
    uint64_t pid;
};

/* First half of a p2p ring: this rank's memory. Errors: the device's. */
HETCCL_NODISCARD enum hetccl_status hetccl_ring_p2p_open(struct hetccl_device *device, size_t slot_bytes,
                                                         struct hetccl_ring *out,
                                                         struct hetccl_ring_offer *offer_out);

/* Second half: the peer's. On failure the ring stays as it was. */
HETCCL_NODISCARD enum hetccl_status hetccl_ring_p2p_connect(struct hetccl_ring *ring, size_t slot_bytes,
                                                            const struct hetccl_ring_offer *offer);

/* Rings of this rank alone. The views by host addresses are for the forward. Errors: the device's. */
HETCCL_NODISCARD enum hetccl_status hetccl_ring_own_open(struct hetccl_device *device, size_t slot_bytes,
                                                         struct hetccl_ring *out,
                                                         struct hetccl_ring_view *host_send_out,
                                                         struct hetccl_ring_view *host_recv_out);

/* No launch uses the ring any more. Takes a zeroed struct. */
void hetccl_ring_close(struct hetccl_ring *ring);

#endif
