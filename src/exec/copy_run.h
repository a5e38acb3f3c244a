/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_EXEC_COPY_RUN_H
#define HETCCL_EXEC_COPY_RUN_H

/*
 * Inside the copy mover: one call while it is being enqueued. copy_mover.c decides what comes when, on which
 * stream; copy_run.c enqueues it. The first failure stays in run->status, and nothing is done after it.
 */

#include "exec/copier.h"
#include "exec/copy_mover.h"
#include "exec/copy_order.h"

enum { HETCCL_COPY_STAGE_ALIGNMENT = 256, HETCCL_COPY_MAX_VALUES = 128 };
enum { HETCCL_COPY_STAGE_LOCAL, HETCCL_COPY_STAGE_SEND, HETCCL_COPY_STAGES };

struct hetccl_copy_ring {
    struct hetccl_ring_view view;
    uint32_t *host_words;
    bool is_host; /* slots in host memory */
};

struct hetccl_copy_mover {
    struct hetccl_bridge *bridge;
    const struct hetccl_program *program;
    size_t elem_bytes;
    struct hetccl_copy_ring *rings; /* send lanes, then receive lanes */
    struct hetccl_copy_trace *trace;
    bool is_in_line;
    struct hetccl_copy_order order;
    struct hetccl_copy_order captured;      /* without items until a call is captured; not when in line */
    struct hetccl_blob *stage;              /* device memory; NULL: none is needed */
    size_t stage_bytes[HETCCL_COPY_STAGES]; /* of each local stream, and behind those of each send stream */
};

struct hetccl_copy_run {
    struct hetccl_copy_mover *mover;
    const struct hetccl_copy_call *call;
    struct hetccl_device *device;
    enum hetccl_status status;
    uint32_t at; /* the stream that is being enqueued on */
    struct hetccl_scale one;
    bool is_host_buffer[HETCCL_BRIDGE_BUFFERS];                /* of buffers with a base */
    struct hetccl_stream_value values[HETCCL_COPY_MAX_VALUES]; /* not yet enqueued, for that stream */
    uint32_t n_values;
};

HETCCL_NODISCARD enum hetccl_status hetccl_copy_run_begin(struct hetccl_copy_run *run,
                                                          struct hetccl_copy_mover *mover,
                                                          const struct hetccl_copy_call *call);

/* What follows goes to this stream; what came before has been enqueued. */
void hetccl_copy_run_go_to(struct hetccl_copy_run *run, uint32_t stream);
void hetccl_copy_run_flush(struct hetccl_copy_run *run);
void hetccl_copy_run_write(struct hetccl_copy_run *run, uint32_t *word, uint32_t value);
void hetccl_copy_run_record(struct hetccl_copy_run *run, uint32_t event);
void hetccl_copy_run_await(struct hetccl_copy_run *run, uint32_t event);
void hetccl_copy_run_item(struct hetccl_copy_run *run, const struct hetccl_copy_item *item);

#endif
