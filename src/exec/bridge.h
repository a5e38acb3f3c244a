/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_EXEC_BRIDGE_H
#define HETCCL_EXEC_BRIDGE_H

/*
 * What a communicator on an asynchronous device keeps for its launches: the word that ends them, the order of
 * its streams, and memory that launches may still read. Owned by the communicator.
 *
 * Launches of one communicator run one after the other, on whatever streams they were enqueued. Threads: one
 * at a time, but for those functions that say otherwise.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/status.h"
#include "device/device.h"
#include "kernels/device/program.h"

/* Device memory that launches work on. */
struct hetccl_blob {
    struct hetccl_blob *next;
    void *memory;
    size_t bytes;
    uint32_t last_launch;               /* number of the last launch that works on it; 0: none */
    size_t waited_offset, waited_bytes; /* words for which streams wait; hetccl_bridge_release() */
    bool is_used, is_kept;              /* kept: a captured launch works on it, now and again */
};

struct hetccl_copier;

struct hetccl_bridge_options {
    uint32_t n_sharing; /* ranks whose launches may run on the same device at the same time, this one
                           included: they share its multiprocessors */
    size_t slot_bytes;
    enum hetccl_mover_choice mover;
    size_t copy_bytes;
};

struct hetccl_bridge {
    struct hetccl_device *device;
    uint32_t max_blocks;
    size_t slot_bytes;
    struct hetccl_copier *copier;                            /* NULL: no call takes a copy mover */
    size_t copy_bytes;                                       /* calls with messages of this size or more do */
    struct hetccl_bridge_control *control, *control_address; /* the latter by the device */
    struct hetccl_bridge_memory *memory;                     /* on the device */
    struct hetccl_event event, capture_event, join_event;
    struct hetccl_stream last_stream;
    struct hetccl_stream engine_stream, release_stream; /* made when they are needed */
    uint64_t last_capture;                              /* 0: the last call was not captured */
    bool is_capturing;                                  /* between enter and leave */
    bool has_entered;                                   /* ever */
    bool is_event_last;           /* the last call that wasn't captured has recorded `event` */
    uint32_t number;              /* of the present call's launch; 0: it is captured */
    _Atomic bool has_captured;    /* ever */
    _Atomic uint32_t last_number; /* of a launch that wasn't captured; 0: there was none */
    struct hetccl_blob *blobs;
    struct hetccl_kernel kernel;
    uint32_t n_begun; /* captured calls of copy movers that the watching thread has seen */
};

/* Errors: the device's; HETCCL_ERR_USAGE for a mover that the device can't have. */
HETCCL_NODISCARD enum hetccl_status hetccl_bridge_create(struct hetccl_device *device,
                                                         const struct hetccl_bridge_options *options,
                                                         struct hetccl_bridge **out);

/* Stops what still runs and waits for it, at most 1.5 s: then memory that a launch may read is left alone.
 * Takes NULL. True when everything was given back. */
bool hetccl_bridge_destroy(struct hetccl_bridge *bridge);

/* All launches end as soon as they wait for anything; later ones too. Any thread, any time. */
void hetccl_bridge_stop(struct hetccl_bridge *bridge);

/* A launch saw a piece of another call: the ranks' calls differ. */
bool hetccl_bridge_has_mismatch(const struct hetccl_bridge *bridge);

/* Whether everything enqueued is done, and no replayed graph has a launch under way. HETCCL_OK, HETCCL_AGAIN,
 * or the device's error. Any thread. */
HETCCL_NODISCARD enum hetccl_status hetccl_bridge_query(struct hetccl_bridge *bridge);

/* A launch may be under way, or come without a call, as those of graphs do. Any thread. */
bool hetccl_bridge_may_run(struct hetccl_bridge *bridge);

/* A number that changes as calls are enqueued and as captured ones run. The watching thread's. */
uint64_t hetccl_bridge_count(struct hetccl_bridge *bridge);

/* After hetccl_bridge_stop(), again and again until hetccl_bridge_query() says that nothing runs: ends what
 * waits in streams. Any thread; blocks for some ms. */
void hetccl_bridge_release(struct hetccl_bridge *bridge);

/* Number of the last call that has ended, or 0. Any thread. */
uint32_t hetccl_bridge_last_ended(const struct hetccl_bridge *bridge);

/*
 * hetccl_bridge_enter, hetccl_bridge_leave -- around what a call enqueues on a stream: it comes after
 * everything the communicator enqueued before. HETCCL_ERR_USAGE for a stream whose capture has failed.
 *
 * has_tail [in] something other than the bridge kernel was enqueued last
 */
HETCCL_NODISCARD enum hetccl_status hetccl_bridge_enter(struct hetccl_bridge *bridge,
                                                        struct hetccl_stream stream);
HETCCL_NODISCARD enum hetccl_status hetccl_bridge_leave(struct hetccl_bridge *bridge,
                                                        struct hetccl_stream stream, bool has_tail);

/* Between enter and leave, when the bridge kernel is about to be launched: the launch's number, or 0. */
uint32_t hetccl_bridge_number(struct hetccl_bridge *bridge);

/* Later work of `to` comes after all work of `from` so far. */
HETCCL_NODISCARD enum hetccl_status hetccl_bridge_join(struct hetccl_bridge *bridge,
                                                       struct hetccl_stream from, struct hetccl_stream to);

/* The stream on which engines run beside the kernel. */
HETCCL_NODISCARD enum hetccl_status hetccl_bridge_engine_stream(struct hetccl_bridge *bridge,
                                                                struct hetccl_stream *out);

/* Memory of at least `bytes` that no launch reads any more. Given back by hetccl_bridge_drop(), at any time.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_bridge_take(struct hetccl_bridge *bridge, size_t bytes,
                                                       struct hetccl_blob **out);
void hetccl_bridge_drop(struct hetccl_blob *blob);

/* Between enter and leave: the call works on the blob. */
void hetccl_bridge_use(struct hetccl_bridge *bridge, struct hetccl_blob *blob);

/* Copies host memory into a blob; what was enqueued before doesn't matter. Blocks for the copy alone. */
HETCCL_NODISCARD enum hetccl_status hetccl_bridge_fill(struct hetccl_bridge *bridge, struct hetccl_blob *blob,
                                                       const void *memory, size_t bytes);

#endif
