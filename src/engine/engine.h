/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_ENGINE_ENGINE_H
#define HETCCL_ENGINE_ENGINE_H

/*
 * Something that runs a collective inside one island. The semantics of each operation are those of
 * plan/plan.h's island steps; an engine sees memory and pieces, no plan.
 *
 * All island ranks start the same operations in the same order. One operation at a time. Everything is
 * non-blocking and driven by the caller's progress. One thread an engine at a time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/doorbell.h"
#include "base/segment.h"
#include "base/status.h"
#include "device/device.h"
#include "wire/call_tag.h"

enum hetccl_engine_op_kind {
    HETCCL_ENGINE_ALLREDUCE = 0, /* the same numbers as enum hetccl_island_op */
    HETCCL_ENGINE_REDUCE_SCATTER,
    HETCCL_ENGINE_ALLGATHER,
    HETCCL_ENGINE_GATHER,
    HETCCL_ENGINE_SCATTER,
    HETCCL_ENGINE_ALLTOALL,
};

struct hetccl_engine_piece {
    uint32_t owner;                         /* island rank */
    size_t whole_offset, own_offset, count; /* elements; meaning as struct hetccl_piece */
};

struct hetccl_engine_op {
    enum hetccl_engine_op_kind kind;
    const void *src; /* buffer starts: offsets of pieces count from here */
    void *dst;
    const struct hetccl_engine_piece *pieces; /* borrowed until the operation is done */
    size_t n_pieces;
    uint32_t root;
    enum hetccl_type type;
    enum hetccl_red red;
    bool is_raw; /* reductions: scale my input by `scale` first (ranks may have different ones) */
    struct hetccl_scale scale;
    const void *scale_pointer;  /* enqueue: device memory with the factor, read when it runs; NULL: scale */
    struct hetccl_call_tag tag; /* compared between the ranks */
};

struct hetccl_engine;

/*
 * start     begins an operation; *op may be reused at once but for what it points to. HETCCL_OK or an error.
 * progress  HETCCL_OK when the operation is done (results in dst, src reusable), HETCCL_AGAIN while it goes
 * on, HETCCL_ERR_USAGE on ranks that disagree (naming both), HETCCL_ERR_REMOTE when a rank has left.
 *           *moved_out says whether anything moved, for the caller's decision to spin or to sleep.
 * enqueue   instead of start and progress, for engines of asynchronous devices (NULL in others; start and
 * progress of those that have it refuse): puts the operation on the stream and returns. *op may be reused at
 * once, its pieces too; its buffers are in use until the stream has got there. Capturable. May block at the
 * first operation of a kind, while the ranks connect; an error leaves the engine in no defined state. destroy
 * at any moment; tells the others that this rank has left. Takes NULL.
 */
struct hetccl_engine_ops {
    const char *name; /* "shm" */
    enum hetccl_status (*start)(struct hetccl_engine *engine, const struct hetccl_engine_op *op);
    enum hetccl_status (*progress)(struct hetccl_engine *engine, bool *moved_out);
    enum hetccl_status (*enqueue)(struct hetccl_engine *engine, const struct hetccl_engine_op *op,
                                  struct hetccl_stream stream);
    void (*destroy)(struct hetccl_engine *engine);
};

struct hetccl_engine_counters {
    uint64_t operations, copied_bytes, reduced_bytes;
};

struct hetccl_engine {
    const struct hetccl_engine_ops *ops;
    uint32_t island_rank, n_ranks;
    bool must_abort; /* set before destroy: end running operations rather than wait for them */
    struct hetccl_engine_counters counters;
};

/*
 * Engine shm: CPU ranks of one host through one shared segment.
 *
 * The island's first rank creates the segment with hetccl_engine_shm_bytes() bytes (zeroed), the others map
 * it; the segment holds everybody's flags and small slots. The large slots live in a second segment that the
 * first rank makes when the first operation needs it; its name travels through the first segment.
 *
 * ranks    [in] global ranks by island rank, for error texts; copied
 * The engine never blocks; it rings the others' doorbells, on which a rank that waits sleeps.
 */
struct hetccl_engine_shm_args {
    struct hetccl_device *device; /* a synchronous one */
    void *segment;                /* borrowed until destroy */
    size_t segment_bytes;
    struct hetccl_doorbell *const *doorbells; /* by island rank, in shared memory; the array is copied */
    uint32_t island_rank, n_ranks;
    const uint32_t *ranks;
    size_t slot_bytes; /* wanted size of a large slot, equal on all ranks; what exceeds the caches is not
                          taken */
};
size_t hetccl_engine_shm_bytes(uint32_t n_ranks);
HETCCL_NODISCARD enum hetccl_status hetccl_engine_shm_create(const struct hetccl_engine_shm_args *args,
                                                             struct hetccl_engine **out);

#endif
