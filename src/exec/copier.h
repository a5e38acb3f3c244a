/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_EXEC_COPIER_H
#define HETCCL_EXEC_COPIER_H

/*
 * What the copy movers of a communicator share: internal streams and events, and the knowledge of what
 * enqueued calls wait for, so that they can be ended. Owned by the communicator's bridge. Threads: one at a
 * time, but for hetccl_copier_release().
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "device/device.h"
#include "exec/copy_order.h"
#include "exec/ring.h"

/* A ring as a mover waits for its words: a sender for 0, a receiver for the marks of n_pieces pieces. */
struct hetccl_copy_words {
    uint32_t *words;      /* by the device */
    uint32_t *host_words; /* by the host; NULL: it can't reach them */
    uint32_t n_pieces;
    bool is_send;
};

/* What the calls of one mover wait for. */
struct hetccl_copy_trace {
    struct hetccl_copy_trace *next;
    struct hetccl_copy_words *rings;
    uint32_t n_rings, n_tags, cap_tags;
    uint32_t *tags;        /* of all its calls so far */
    uint32_t last_number;  /* of its last call outside of captures */
    bool is_used, is_kept; /* kept: a captured call runs now and again */
};

struct hetccl_copier {
    struct hetccl_device *device;
    struct hetccl_stream streams[HETCCL_COPY_STREAMS]; /* made when they are needed; the first never is */
    struct hetccl_event *events;
    uint32_t n_events, cap_events;
    struct hetccl_kernel copy_kernel;
    struct hetccl_stream release_stream;
    uint32_t *image;      /* pinned: a ring's words */
    pthread_mutex_t lock; /* of the traces */
    struct hetccl_copy_trace *traces;
    uint32_t n_releases; /* so far */
};

HETCCL_NODISCARD enum hetccl_status hetccl_copier_create(struct hetccl_device *device,
                                                         struct hetccl_copier **out);

/* Nothing runs any more. Takes NULL. */
void hetccl_copier_destroy(struct hetccl_copier *copier);

/* Makes the streams and events that an order needs and that aren't there yet. */
HETCCL_NODISCARD enum hetccl_status hetccl_copier_reserve(struct hetccl_copier *copier,
                                                          const struct hetccl_copy_order *order);

/*
 * hetccl_copier_trace -- a trace for a mover over these rings, whose array is copied.
 *
 * last_ended [in] number of the last call that has ended: traces of movers that are gone are freed by it
 */
HETCCL_NODISCARD enum hetccl_status hetccl_copier_trace(struct hetccl_copier *copier,
                                                        const struct hetccl_copy_words *rings,
                                                        uint32_t n_rings, uint32_t last_ended,
                                                        struct hetccl_copy_trace **out);
/* The mover goes; its calls may still run. */
void hetccl_copier_untrace(struct hetccl_copier *copier, struct hetccl_copy_trace *trace);

/* A call with this tag is about to be enqueued. number 0: it is captured. */
HETCCL_NODISCARD enum hetccl_status hetccl_copier_note(struct hetccl_copier *copier,
                                                       struct hetccl_copy_trace *trace, uint32_t tag,
                                                       uint32_t number);

/*
 * hetccl_copier_release -- writes into all words that calls may wait for what they wait for, one piece of
 * each slot after the other. The communicator has failed: what is received doesn't matter. To be called again
 * until the calls have ended. Any thread; returns soon once they have.
 */
void hetccl_copier_release(struct hetccl_copier *copier, const struct hetccl_bridge_control *control);

#endif
