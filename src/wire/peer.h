/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_WIRE_PEER_H
#define HETCCL_WIRE_PEER_H

/* What each rank tells all others of itself when a communicator is made. */

#include <stdbool.h>
#include <stdint.h>

enum {
    HETCCL_WIRE_PEER_HOST_BYTES = 64,
    HETCCL_WIRE_PEER_ARCH_BYTES = 32,
    HETCCL_WIRE_PEER_BYTES = HETCCL_WIRE_PEER_HOST_BYTES + HETCCL_WIRE_PEER_ARCH_BYTES + 80,
};

/* Bits of hetccl_wire_peer.flags. */
enum {
    HETCCL_WIRE_PEER_SHARES_MEMORY = 1, /* may use shared memory: links, doorbells, engine */
    HETCCL_WIRE_PEER_HAS_P2P = 2,       /* its GPU's memory can be mapped by other processes */
    HETCCL_WIRE_PEER_IS_ASYNC = 4,      /* its device is asynchronous: it works on rings */
};

struct hetccl_wire_peer {
    char host_name[HETCCL_WIRE_PEER_HOST_BYTES];
    char arch[HETCCL_WIRE_PEER_ARCH_BYTES]; /* of the device: "sm_90", "gfx942", "x86_64" */
    uint64_t host_key;        /* boot id and HETCCL_HOST_ID: a candidate for sharing memory, no proof */
    uint64_t shm_place;       /* hetccl_segment_place() */
    uint64_t process_key;     /* random, one a process */
    uint64_t library_key;     /* version of the vendor's library */
    uint64_t pci_key;         /* device's PCI address; equal for ranks that share a GPU; 0: none */
    uint64_t config_hash;     /* hetccl_config_wire_hash() */
    uint64_t machine_key;     /* boot id alone: who competes for the same processors */
    uint32_t library_version; /* of HetCCL, major << 16 | minor << 8 | patch */
    uint32_t link_kinds;      /* a bit per enum hetccl_link_kind */
    uint32_t pid;             /* for texts and /proc names */
    uint8_t vendor;           /* enum hetccl_vendor */
    uint8_t engine;           /* enum hetccl_engine_kind: the best one that the rank can use */
    uint8_t device_kind;      /* enum of the device layer */
    uint8_t flags;            /* HETCCL_WIRE_PEER_* bits */
};

void hetccl_wire_peer_encode(const struct hetccl_wire_peer *peer, uint8_t out[HETCCL_WIRE_PEER_BYTES]);

/*
 * False when the bytes are no peer record. vendor, engine, device_kind and link_kinds are whatever the peer
 * said: the caller checks them against the enumerations of the layers above.
 */
bool hetccl_wire_peer_decode(const uint8_t in[HETCCL_WIRE_PEER_BYTES], struct hetccl_wire_peer *out);

#endif
