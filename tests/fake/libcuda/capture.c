/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Graph capture. What is enqueued on a stream under capture becomes a node that depends on the stream's tail;
 * an event recorded there keeps the tail, and a stream that waits for such an event joins the capture.
 */

#include <stdlib.h>
#include <string.h>

#include "fake.h"

struct fake_capture {
    struct fake_capture *next;
    uint64_t id;
    unsigned mode;
    pthread_t thread; /* that began it */
    bool is_invalidated;
    const struct CUstream_st *origin;
    struct fake_nodes *nodes;
};

static struct fake_capture *captures;
static uint64_t last_id;

static void invalidate(struct fake_capture *capture)
{
    capture->is_invalidated = true;
}

static struct fake_capture *find_capture(uint64_t id)
{
    struct fake_capture *capture = captures;

    while (capture != NULL && capture->id != id)
        capture = capture->next;
    return capture;
}

bool fake_capture_is_on(const struct CUstream_st *stream)
{
    return stream->capture != NULL;
}

static bool has_node(const struct fake_tail *tail, size_t node)
{
    for (size_t i = 0; i < tail->n_nodes; i++) {
        if (tail->nodes[i] == node)
            return true;
    }
    return false;
}

static void tail_add(struct fake_tail *tail, const struct fake_tail *more)
{
    if (more->n_nodes == 0)
        return;
    tail->nodes = fake_need(realloc(tail->nodes, (tail->n_nodes + more->n_nodes) * sizeof(*tail->nodes)));
    for (size_t i = 0; i < more->n_nodes; i++) {
        if (!has_node(tail, more->nodes[i]))
            tail->nodes[tail->n_nodes++] = more->nodes[i];
    }
}

void fake_tail_clear(struct fake_tail *tail)
{
    free(tail->nodes);
    *tail = (struct fake_tail){.nodes = NULL};
}

/* A lane is a chain in which nothing can run at once; a node goes on with the lane that it follows. */
static size_t choose_lane(struct fake_nodes *nodes, const struct fake_tail *tail)
{
    for (size_t i = 0; i < tail->n_nodes; i++) {
        struct fake_node *before = &nodes->list[tail->nodes[i]];

        if (!before->is_followed) {
            before->is_followed = true;
            return before->lane;
        }
    }
    return nodes->n_lanes++;
}

/* Reading of memory that the driver doesn't know can't be put off. */
static bool is_capturable(const struct fake_op *op)
{
    return op->kind != FAKE_COPY ||
           (fake_memory_find((uintptr_t)op->dst) != NULL && fake_memory_find((uintptr_t)op->src) != NULL);
}

unsigned fake_capture_add(struct CUstream_st *stream, const struct fake_op *op)
{
    struct fake_nodes *nodes = stream->capture->nodes;
    struct fake_node *node;

    if (stream->capture->is_invalidated)
        return HETCCL_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (op->kind == FAKE_GRAPH || !is_capturable(op)) {
        invalidate(stream->capture);
        return HETCCL_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    nodes->list = fake_need(realloc(nodes->list, (nodes->n_nodes + 1) * sizeof(*nodes->list)));
    node = &nodes->list[nodes->n_nodes];
    *node = (struct fake_node){.op = *op, .after = stream->tail, .lane = choose_lane(nodes, &stream->tail)};
    stream->tail = (struct fake_tail){.n_nodes = 1, .nodes = fake_need(malloc(sizeof(size_t)))};
    stream->tail.nodes[0] = nodes->n_nodes++;
    return 0;
}

unsigned fake_capture_record(const struct CUstream_st *stream, struct fake_tail *tail_out, uint64_t *id_out)
{
    if (stream->capture->is_invalidated)
        return HETCCL_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    fake_tail_clear(tail_out);
    tail_add(tail_out, &stream->tail);
    *id_out = stream->capture->id;
    return 0;
}

unsigned fake_capture_wait(struct CUstream_st *stream, const struct fake_tail *tail, uint64_t id)
{
    struct fake_capture *capture = id != 0 ? find_capture(id) : NULL;

    if (stream->capture != NULL && stream->capture->is_invalidated)
        return HETCCL_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (id != 0 && capture == NULL)
        return HETCCL_CUDA_ERROR_CAPTURED_EVENT;
    if (capture == NULL) { /* an event of outside, in a capture */
        invalidate(stream->capture);
        return HETCCL_CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (stream->capture != NULL && stream->capture != capture) {
        invalidate(stream->capture);
        invalidate(capture);
        return HETCCL_CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (capture->is_invalidated)
        return HETCCL_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream == stream->context->default_stream) {
        invalidate(capture);
        return HETCCL_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    stream->capture = capture;
    tail_add(&stream->tail, tail);
    return 0;
}

unsigned fake_capture_use_default(const struct CUctx_st *context)
{
    unsigned code = 0;

    for (struct CUstream_st *stream = fake_stream_first(); stream != NULL; stream = stream->next) {
        if (stream->is_blocking && stream->context == context && stream->capture != NULL) {
            invalidate(stream->capture);
            code = HETCCL_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    }
    return code;
}

/* A thread's own captures and, unless it keeps to itself, all global ones. */
bool fake_capture_spoil(unsigned thread_mode)
{
    bool is_any = false;

    for (struct fake_capture *capture = captures; capture != NULL; capture = capture->next) {
        bool is_own = pthread_equal(capture->thread, pthread_self()) != 0;

        if (capture->mode == HETCCL_CU_STREAM_CAPTURE_MODE_RELAXED)
            continue;
        if (is_own || (capture->mode == HETCCL_CU_STREAM_CAPTURE_MODE_GLOBAL &&
                       thread_mode == HETCCL_CU_STREAM_CAPTURE_MODE_GLOBAL)) {
            invalidate(capture);
            is_any = true;
        }
    }
    return is_any;
}

void fake_capture_invalidate(struct CUstream_st *stream)
{
    invalidate(stream->capture);
}

static unsigned status_of(const struct CUstream_st *stream)
{
    if (stream->capture == NULL)
        return HETCCL_CU_STREAM_CAPTURE_STATUS_NONE;
    return stream->capture->is_invalidated ? HETCCL_CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                           : HETCCL_CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

unsigned cuStreamIsCapturing(struct CUstream_st *stream, unsigned *status)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);
    const struct CUstream_st *found;

    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    found = fake_stream_find(stream);
    if (found == NULL)
        code = HETCCL_CUDA_ERROR_INVALID_HANDLE;
    else
        *status = status_of(found);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

unsigned cuStreamGetCaptureInfo_v2(struct CUstream_st *stream, unsigned *status, uint64_t *id,
                                   struct CUgraph_st **graph, struct CUgraphNode_st *const **dependencies,
                                   size_t *n_dependencies)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);
    const struct CUstream_st *found;

    if (code != 0)
        return code;
    if (graph != NULL || dependencies != NULL || n_dependencies != NULL)
        return HETCCL_CUDA_ERROR_NOT_SUPPORTED;
    pthread_mutex_lock(&fake_lock);
    found = fake_stream_find(stream);
    if (found == NULL) {
        code = HETCCL_CUDA_ERROR_INVALID_HANDLE;
    } else {
        *status = status_of(found);
        if (id != NULL && *status == HETCCL_CU_STREAM_CAPTURE_STATUS_ACTIVE)
            *id = found->capture->id;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

static void begin(struct CUstream_st *stream, unsigned mode)
{
    struct fake_capture *capture = fake_need(calloc(1, sizeof(*capture)));

    *capture = (struct fake_capture){.next = captures,
                                     .id = ++last_id,
                                     .mode = mode,
                                     .thread = pthread_self(),
                                     .origin = stream,
                                     .nodes = fake_need(calloc(1, sizeof(*capture->nodes)))};
    capture->nodes->n_refs = 1;
    captures = capture;
    stream->capture = capture;
}

unsigned cuStreamBeginCapture_v2(struct CUstream_st *stream, unsigned mode)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);
    struct CUstream_st *found;

    if (code == 0 && mode > HETCCL_CU_STREAM_CAPTURE_MODE_RELAXED)
        code = HETCCL_CUDA_ERROR_INVALID_VALUE;
    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    found = fake_stream_find(stream);
    if (found == NULL || found == found->context->default_stream || found->capture != NULL)
        code = HETCCL_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    else
        begin(found, mode);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

/* Whether the origin waits, over however many nodes, for every node. */
static bool is_joined(const struct fake_nodes *nodes, const struct fake_tail *tail)
{
    bool *is_reached = fake_need(calloc(nodes->n_nodes + 1, sizeof(*is_reached)));
    bool are_all = true;

    for (size_t i = 0; i < tail->n_nodes; i++)
        is_reached[tail->nodes[i]] = true;
    for (size_t i = nodes->n_nodes; i-- > 0;) {
        are_all = are_all && is_reached[i];
        for (size_t k = 0; is_reached[i] && k < nodes->list[i].after.n_nodes; k++)
            is_reached[nodes->list[i].after.nodes[k]] = true;
    }
    free(is_reached);
    return are_all;
}

static void leave(struct fake_capture *capture)
{
    struct fake_capture **link = &captures;

    for (struct CUstream_st *stream = fake_stream_first(); stream != NULL; stream = stream->next) {
        if (stream->capture == capture) {
            stream->capture = NULL;
            fake_tail_clear(&stream->tail);
        }
    }
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    fake_nodes_put(capture->nodes);
    free(capture);
}

static unsigned end(struct CUstream_st *stream, struct CUgraph_st **graph)
{
    struct fake_capture *capture = stream->capture;
    unsigned code = 0;

    if (capture->origin != stream)
        return HETCCL_CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (capture->mode != HETCCL_CU_STREAM_CAPTURE_MODE_RELAXED &&
        pthread_equal(capture->thread, pthread_self()) == 0)
        return HETCCL_CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (capture->is_invalidated)
        code = HETCCL_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!is_joined(capture->nodes, &stream->tail))
        code = HETCCL_CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    *graph = code == 0 ? fake_graph_new(capture->nodes) : NULL;
    leave(capture);
    return code;
}

unsigned cuStreamEndCapture(struct CUstream_st *stream, struct CUgraph_st **graph)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);
    struct CUstream_st *found;

    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    found = fake_stream_find(stream);
    code = found == NULL || found->capture == NULL ? HETCCL_CUDA_ERROR_INVALID_VALUE : end(found, graph);
    pthread_mutex_unlock(&fake_lock);
    return code;
}
