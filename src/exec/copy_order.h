/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_EXEC_COPY_ORDER_H
#define HETCCL_EXEC_COPY_ORDER_H

/*
 * A program (kernels/device/program.h) as a list of items for streams to execute: groups of consecutive
 * pieces of one operation, in an order in which they can be enqueued, on which streams, with which events
 * between those. Pure: no device.
 *
 * In whatever way streams share hardware queues, no ranks wait for each other in a circle: copy_order.c has
 * the argument.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "exec/program.h"

enum {
    HETCCL_COPY_MERGE = 16, /* pieces in one item; the same on all ranks */
    HETCCL_COPY_SEND_STREAMS = 8,
    HETCCL_COPY_LOCAL_STREAMS = 2,
    HETCCL_COPY_STREAMS = 1 + HETCCL_COPY_SEND_STREAMS + HETCCL_COPY_LOCAL_STREAMS, /* 0 is the call's */
    HETCCL_COPY_FORK_EVENT = 0,
};

#define HETCCL_COPY_NO_EVENT UINT32_MAX

enum hetccl_copy_layout {
    HETCCL_COPY_IN_LINE, /* all on the call's stream: the least to enqueue */
    HETCCL_COPY_SPREAD,  /* as much at once as there is; relies on the order in which items are enqueued */
    HETCCL_COPY_CHAINED, /* one stream sends, one does the rest; any order that the events allow is right */
};

struct hetccl_copy_item {
    uint32_t op, first_piece, n_pieces; /* of the operation's pieces */
    uint32_t lane;                      /* of a SEND */
    uint32_t stream;
    uint32_t turn;                /* which of its lane's streams that is */
    uint32_t first_wait, n_waits; /* into waits */
    uint32_t event;               /* to be recorded behind it, or HETCCL_COPY_NO_EVENT */
};

struct hetccl_copy_order {
    struct hetccl_copy_item *items;
    uint32_t *waits; /* events */
    uint32_t n_items, n_waits, cap_waits;
    uint32_t n_events;                   /* event 0 is recorded on the call's stream before all items */
    uint32_t joins[HETCCL_COPY_STREAMS]; /* events that end the streams in use, but the call's */
    uint32_t n_joins;
    uint32_t n_late; /* items with messages that come later than their time, for a dependency's sake: 0 */
};

/* Errors: HETCCL_ERR_SYSTEM. Freed by hetccl_copy_order_fini(), which takes a zeroed struct. */
HETCCL_NODISCARD enum hetccl_status hetccl_copy_order_build(const struct hetccl_program *program,
                                                            enum hetccl_copy_layout layout,
                                                            struct hetccl_copy_order *out);
void hetccl_copy_order_fini(struct hetccl_copy_order *order);

#endif
