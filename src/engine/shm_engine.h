/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_ENGINE_SHM_ENGINE_H
#define HETCCL_ENGINE_SHM_ENGINE_H

/*
 * Inside engine shm; for src/engine/shm*.c only.
 *
 * An operation is a run of ticks. At a tick every rank writes its contribution into its own slot, publishes
 * the tick, waits until every other rank has published it, reads what it needs from their slots, and has then
 * consumed the tick. All ranks walk through the same ticks; that is what makes the slots reusable without a
 * word (shm_peer.c).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/engine.h"
#include "engine/shm_layout.h"

/* A place in the sequence that the pieces of one owner form one after the other. */
struct hetccl_shm_cursor {
    uint32_t piece;
    size_t offset;
};

enum { HETCCL_SHM_NO_PIECE = UINT32_MAX };

enum { HETCCL_SHM_BLOCK_BYTES = 8192 }; /* stays in the first-level cache beside its inputs */

struct hetccl_shm_engine;

/*
 * How one kind of operation moves data at tick k (0 .. n_ticks-1) of its run.
 *
 * write   fills payload, which is my own slot. Nobody reads it yet.
 * read    takes what I need of a peer's slot. Called once for each peer, in no fixed order. NULL: nothing.
 * finish  after all peers' slots may be read: reductions, and copies of what is mine alone.
 */
struct hetccl_shm_method {
    enum hetccl_status (*write)(struct hetccl_shm_engine *shm, uint64_t k, uint8_t *payload);
    enum hetccl_status (*read)(struct hetccl_shm_engine *shm, uint64_t k, uint32_t peer,
                               const uint8_t *payload);
    enum hetccl_status (*finish)(struct hetccl_shm_engine *shm, uint64_t k);
};

/* The stages of an operation. HELLO and MAP happen only while the large slots are wanted and not yet settled.
 */
enum hetccl_shm_stage {
    HETCCL_SHM_IDLE = 0,
    HETCCL_SHM_HELLO, /* one tick that only compares */
    HETCCL_SHM_MAP,   /* one tick: everybody has mapped the second segment */
    HETCCL_SHM_RUN,
};

/* The operation in progress, and how it is cut. Counts are elements. */
struct hetccl_shm_run {
    struct hetccl_engine_op op;
    struct hetccl_shm_shape shape;
    const struct hetccl_shm_method *method;
    enum hetccl_shm_stage stage;
    uint64_t first_tick, n_ticks; /* of the stage */
    uint64_t lookahead;
    size_t elem_bytes;
    size_t window_count; /* of each owner's sequence, a tick; two phases: of the vector */
    size_t part_count;   /* two phases: what one rank reduces of a full window */
    uint64_t n_windows;
    size_t payload_offset; /* of a small slot */
    bool is_large;         /* payload in large slots */
    bool is_streaming;     /* results are written around the caches */
    bool reads_own_slot;   /* my input of reductions comes from my slot too: see shm_reduce.c */
};

enum hetccl_shm_large_state { HETCCL_SHM_LARGE_UNTRIED = 0, HETCCL_SHM_LARGE_READY, HETCCL_SHM_LARGE_NONE };

struct hetccl_shm_engine {
    struct hetccl_engine base; /* first */
    struct hetccl_device *device;
    uint8_t *segment;
    struct hetccl_shm_layout layout;
    uint32_t *ranks;                    /* global, by island rank */
    struct hetccl_doorbell **doorbells; /* by island rank */
    pid_t pid;                          /* a forked child must not speak for its parent */

    struct hetccl_segment large;
    enum hetccl_shm_large_state large_state;
    size_t wanted_slot_bytes, large_slot_bytes;

    uint64_t published, consumed; /* ticks */
    uint32_t n_arrived;           /* peers that have published tick consumed+1 and were read */
    uint32_t waits_for;           /* copy of what stands in my control */
    struct hetccl_shm_run run;

    enum hetccl_status status; /* sticky */
    char text[HETCCL_ERROR_TEXT_BYTES];

    uint8_t *block; /* HETCCL_SHM_BLOCK_BYTES, for results on their way around the caches */
    /* by island rank */
    const void **srcs;
    struct hetccl_scale *scales;
    uint32_t *first_piece;
    size_t *totals;    /* elements of an owner's sequence */
    uint32_t *section; /* which part of a slot is for this owner */
    struct hetccl_shm_cursor *write_at, *read_at;
    /* by piece; grows */
    uint32_t *next_piece;
    size_t next_piece_room;
};

/* ---- shm_peer.c: what is shared with the other ranks ---- */

struct hetccl_shm_top *hetccl_shm_top(struct hetccl_shm_engine *shm);
/* The payload of a tick in a rank's slot, for the run's choice of slots. */
uint8_t *hetccl_shm_payload(struct hetccl_shm_engine *shm, uint32_t rank, uint64_t tick);
/* Makes tick published+1 visible and rings those who wait for it. The payload has been written. */
void hetccl_shm_publish(struct hetccl_shm_engine *shm);
/*
 * Has the peer published the tick, and does its operation agree with mine? Never blocks.
 * HETCCL_OK, HETCCL_AGAIN (then my control says whom I wait for), HETCCL_ERR_USAGE, HETCCL_ERR_REMOTE.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_shm_await(struct hetccl_shm_engine *shm, uint32_t peer,
                                                     uint64_t tick);
/* HETCCL_OK when all ranks are there and well; else HETCCL_ERR_REMOTE with the first failure found. */
HETCCL_NODISCARD enum hetccl_status hetccl_shm_look_for_failure(struct hetccl_shm_engine *shm);
/* Keeps the calling thread's last error text as the engine's sticky failure and tells the others. Returns
 * status. */
enum hetccl_status hetccl_shm_break(struct hetccl_shm_engine *shm, enum hetccl_status status);
/* Tells the others that this rank is gone. */
void hetccl_shm_leave(struct hetccl_shm_engine *shm);

/* ---- shm_large.c: the second segment ---- */

/*
 * Before the tick of the map stage is published: island rank 0 makes the segment, the others map it once rank
 * 0 has published. HETCCL_AGAIN while rank 0 hasn't.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_shm_large_prepare(struct hetccl_shm_engine *shm);
/* After everybody's tick of the map stage: the name is not needed any more. */
void hetccl_shm_large_settle(struct hetccl_shm_engine *shm);

/* ---- shm_cut.c: checks and cutting ---- */

/* Takes over and checks the operation: fills run.op, run.shape and the owners' sequences. HETCCL_ERR_ARG. */
HETCCL_NODISCARD enum hetccl_status hetccl_shm_run_init(struct hetccl_shm_engine *shm,
                                                        const struct hetccl_engine_op *op);
/* True when a small slot can't take the operation in one tick. */
bool hetccl_shm_run_wants_large(const struct hetccl_shm_engine *shm);
/* Chooses method and windows for the slots that there are. */
void hetccl_shm_run_cut(struct hetccl_shm_engine *shm);

/* ---- shm_move.c, shm_reduce.c: the methods ---- */

/* Copies bytes on the device and counts them. Equal pointers and zero bytes: nothing. */
HETCCL_NODISCARD enum hetccl_status hetccl_shm_copy(struct hetccl_shm_engine *shm, void *dst, const void *src,
                                                    size_t bytes);
/* As hetccl_shm_copy(), to the user's dst: around the caches when the operation is large. */
HETCCL_NODISCARD enum hetccl_status hetccl_shm_copy_out(struct hetccl_shm_engine *shm, void *dst,
                                                        const void *src, size_t bytes);
/* Host memory, bytes > 0, no overlap. */
void hetccl_shm_stream_copy(void *dst, const void *src, size_t bytes);
/* How many elements of an owner's sequence belong to tick k. */
size_t hetccl_shm_window(const struct hetccl_shm_engine *shm, uint32_t owner, uint64_t k);
/* Takes up to max elements at the cursor that lie in one piece; returns their number, 0 at the end. */
size_t hetccl_shm_cursor_take(const struct hetccl_shm_engine *shm, struct hetccl_shm_cursor *cursor,
                              size_t max, const struct hetccl_engine_piece **piece_out, size_t *offset_out);
/* Writes each owner's window of src (whole offsets, or own offsets for alltoall) into its section of the
 * payload. */
HETCCL_NODISCARD enum hetccl_status hetccl_shm_write_sections(struct hetccl_shm_engine *shm, uint64_t k,
                                                              uint8_t *payload);
/* Byte offset of an owner's section. */
size_t hetccl_shm_section_bytes(const struct hetccl_shm_engine *shm, uint32_t owner);

extern const struct hetccl_shm_method hetccl_shm_method_allgather;
extern const struct hetccl_shm_method hetccl_shm_method_gather;
extern const struct hetccl_shm_method hetccl_shm_method_scatter;
extern const struct hetccl_shm_method hetccl_shm_method_alltoall;
extern const struct hetccl_shm_method hetccl_shm_method_reduce_scatter;
extern const struct hetccl_shm_method hetccl_shm_method_allreduce_direct;
extern const struct hetccl_shm_method hetccl_shm_method_allreduce_phases;

#endif
