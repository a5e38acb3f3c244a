/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_WIRE_UNIQUE_ID_H
#define HETCCL_WIRE_UNIQUE_ID_H

/* The 128 bytes that a program hands to all ranks. The layout is frozen across wire revisions. */

#include <stdbool.h>
#include <stdint.h>

#include "wire/contact.h"

enum { HETCCL_WIRE_UNIQUE_ID_BYTES = 128, HETCCL_WIRE_KEY_BYTES = 32 };

struct hetccl_wire_unique_id {
    uint16_t revision;                  /* wire revision of the process that made it */
    bool is_fixed_root;                 /* made from NCCL_COMM_ID: rank 0 becomes the root at the address */
    uint32_t library_version;           /* major << 16 | minor << 8 | patch */
    uint64_t job_id;                    /* random; public name of the key */
    uint64_t place;                     /* contact.place of the maker */
    uint8_t key[HETCCL_WIRE_KEY_BYTES]; /* random, secret: whoever knows it may join */
    uint32_t n_addresses;
    struct hetccl_wire_address addresses[HETCCL_WIRE_MAX_ADDRESSES];
};

void hetccl_wire_unique_id_encode(const struct hetccl_wire_unique_id *id,
                                  uint8_t out[HETCCL_WIRE_UNIQUE_ID_BYTES]);

/* False when the bytes are not a unique id of this library, or a damaged one (there is a checksum). */
bool hetccl_wire_unique_id_decode(const uint8_t in[HETCCL_WIRE_UNIQUE_ID_BYTES],
                                  struct hetccl_wire_unique_id *out);

#endif
