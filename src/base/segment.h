/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_BASE_SEGMENT_H
#define HETCCL_BASE_SEGMENT_H

/*
 * A piece of memory shared between processes of one host: a file in /dev/shm, really reserved (never SIGBUS),
 * mode 0600, unlinked as soon as everybody has it mapped; an anonymous memory file where /dev/shm is too
 * small, full or read-only.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { HETCCL_SEGMENT_NAME_BYTES = 96 };

struct hetccl_segment {
    void *memory;
    size_t bytes;
    int fd; /* -1 once not needed any more */
    char
        name[HETCCL_SEGMENT_NAME_BYTES]; /* how a peer opens it: "/hetccl-<random>" or "/proc/<pid>/fd/<n>" */
    bool has_file;                       /* a name stands in /dev/shm that must be unlinked */
    int creator_pid;                     /* who may take the name away; 0: nobody, or it is done */
};

/*
 * hetccl_segment_create -- make, reserve and map a zeroed segment.
 *
 * wanted_bytes, least_bytes [in] first wanted is tried in /dev/shm, then halves of it down to least, then
 * wanted and its halves as a memory file. The size got is out->bytes. One warning names path, needed and free
 * bytes when /dev/shm didn't have room. Errors: HETCCL_ERR_SYSTEM naming path, needed and free bytes and the
 * remedy.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_segment_create(size_t wanted_bytes, size_t least_bytes,
                                                          struct hetccl_segment *out);

/* Map a peer's segment by the name it sent. The name is checked for one of the two forms before it is used as
 * a path. */
HETCCL_NODISCARD enum hetccl_status hetccl_segment_open(const char *name, size_t bytes,
                                                        struct hetccl_segment *out);

/* Takes the name away (creator, once all peers have it mapped; also at fini). Closes the descriptor.
 * Idempotent. */
void hetccl_segment_unlink(struct hetccl_segment *segment);

/* Unlinks and unmaps. In a forked child it only unmaps. Takes a zeroed struct. */
void hetccl_segment_fini(struct hetccl_segment *segment);

/* A number that is equal for two processes that see the same /dev/shm (boot id, device, inode), else most
 * likely not. */
uint64_t hetccl_segment_place(void);

#endif
