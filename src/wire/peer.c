/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/peer.h"

#include <string.h>

#include "wire/cursor.h"

enum { RECORD_MARK = 0x72656570 }; /* "peer" */

void hetccl_wire_peer_encode(const struct hetccl_wire_peer *peer, uint8_t out[HETCCL_WIRE_PEER_BYTES])
{
    struct hetccl_wire_writer writer = hetccl_wire_writer(out, HETCCL_WIRE_PEER_BYTES);

    hetccl_wire_put_u32(&writer, RECORD_MARK);
    hetccl_wire_put_text(&writer, peer->host_name, sizeof(peer->host_name));
    hetccl_wire_put_text(&writer, peer->arch, sizeof(peer->arch));
    hetccl_wire_put_u64(&writer, peer->host_key);
    hetccl_wire_put_u64(&writer, peer->shm_place);
    hetccl_wire_put_u64(&writer, peer->process_key);
    hetccl_wire_put_u64(&writer, peer->library_key);
    hetccl_wire_put_u64(&writer, peer->pci_key);
    hetccl_wire_put_u64(&writer, peer->config_hash);
    hetccl_wire_put_u64(&writer, peer->machine_key);
    hetccl_wire_put_u32(&writer, peer->library_version);
    hetccl_wire_put_u32(&writer, peer->link_kinds);
    hetccl_wire_put_u32(&writer, peer->pid);
    hetccl_wire_put_u8(&writer, peer->vendor);
    hetccl_wire_put_u8(&writer, peer->engine);
    hetccl_wire_put_u8(&writer, peer->device_kind);
    hetccl_wire_put_u8(&writer, peer->flags);
    hetccl_wire_put_u32(&writer, 0);
}

bool hetccl_wire_peer_decode(const uint8_t in[HETCCL_WIRE_PEER_BYTES], struct hetccl_wire_peer *out)
{
    struct hetccl_wire_reader reader = hetccl_wire_reader(in, HETCCL_WIRE_PEER_BYTES);
    uint32_t mark = hetccl_wire_get_u32(&reader);
    struct hetccl_wire_peer peer;

    memset(&peer, 0, sizeof(peer));
    hetccl_wire_get_text(&reader, peer.host_name, sizeof(peer.host_name));
    hetccl_wire_get_text(&reader, peer.arch, sizeof(peer.arch));
    peer.host_key = hetccl_wire_get_u64(&reader);
    peer.shm_place = hetccl_wire_get_u64(&reader);
    peer.process_key = hetccl_wire_get_u64(&reader);
    peer.library_key = hetccl_wire_get_u64(&reader);
    peer.pci_key = hetccl_wire_get_u64(&reader);
    peer.config_hash = hetccl_wire_get_u64(&reader);
    peer.machine_key = hetccl_wire_get_u64(&reader);
    peer.library_version = hetccl_wire_get_u32(&reader);
    peer.link_kinds = hetccl_wire_get_u32(&reader);
    peer.pid = hetccl_wire_get_u32(&reader);
    peer.vendor = hetccl_wire_get_u8(&reader);
    peer.engine = hetccl_wire_get_u8(&reader);
    peer.device_kind = hetccl_wire_get_u8(&reader);
    peer.flags = hetccl_wire_get_u8(&reader);
    if (hetccl_wire_get_u32(&reader) != 0 || mark != RECORD_MARK || !hetccl_wire_reader_is_done(&reader))
        return false;
    *out = peer;
    return true;
}
