/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A stream is a queue and a detached thread that works it off. Whatever a stream must wait for is a marker: a
 * point in another stream, reached or not. The default stream and the streams that aren't non-blocking take
 * turns by markers.
 */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake.h"

static struct CUstream_st *streams; /* default streams included */
static size_t n_default_streams;

struct fake_marker *fake_marker_new(unsigned n_refs)
{
    struct fake_marker *marker = calloc(1, sizeof(*marker));

    if (marker != NULL)
        marker->n_refs = n_refs;
    return marker;
}

void fake_marker_put(struct fake_marker *marker)
{
    if (marker != NULL && --marker->n_refs == 0)
        free(marker);
}

static void sleep_a_little(void)
{
    const struct timespec time = {.tv_nsec = FAKE_SPIN_NS};

    (void)nanosleep(&time, NULL);
}

static unsigned sticky_of(struct CUctx_st *context)
{
    unsigned code;

    pthread_mutex_lock(&fake_lock);
    code = context->sticky;
    pthread_mutex_unlock(&fake_lock);
    return code;
}

static bool has_value(const struct fake_op *op)
{
    uint32_t word = __atomic_load_n(op->word, __ATOMIC_ACQUIRE), value = (uint32_t)op->value;

    return op->kind == FAKE_WAIT_EQUAL ? word == value : (int32_t)(word - value) >= 0;
}

static void wait_value(struct CUctx_st *context, const struct fake_op *op)
{
    while (!has_value(op) && sticky_of(context) == 0)
        sleep_a_little();
}

/* Few enough bytes may be words that a stream waits for: each of them changes at once. */
static void copy_words(uint32_t *dst, const uint32_t *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        __atomic_store_n(&dst[i], src[i], __ATOMIC_RELEASE);
}

static bool are_words(const struct fake_op *op)
{
    return op->bytes <= 8192 && op->bytes % 4 == 0 && (uintptr_t)op->dst % 4 == 0 &&
           (uintptr_t)op->src % 4 == 0;
}

static void copy(const struct fake_op *op)
{
    if (op->n_rows == 0 && are_words(op))
        copy_words(op->dst, op->src, op->bytes / 4);
    else if (op->n_rows == 0)
        memmove(op->dst, op->src, op->bytes);
    for (size_t i = 0; i < op->n_rows; i++)
        memmove((char *)op->dst + i * op->dst_pitch, (const char *)op->src + i * op->src_pitch, op->bytes);
}

static void write_value(const struct fake_op *op)
{
    if (op->kind == FAKE_WRITE_VALUE)
        __atomic_store_n(op->word, (uint32_t)op->value, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint64_t *)(void *)op->word, op->value, __ATOMIC_RELEASE);
}

static void run_kernel(struct CUctx_st *context, const struct fake_op *op)
{
    unsigned code = fake_script_call("kernel");

    if (code == 0) {
        fake_run_launch(op->launch);
        return;
    }
    pthread_mutex_lock(&fake_lock);
    context->sticky = code;
    pthread_mutex_unlock(&fake_lock);
}

static void wait_marker(const struct fake_op *op)
{
    pthread_mutex_lock(&fake_lock);
    while (!op->marker->is_reached)
        pthread_cond_wait(&fake_changed, &fake_lock);
    pthread_mutex_unlock(&fake_lock);
}

static void reach_marker(const struct fake_op *op)
{
    pthread_mutex_lock(&fake_lock);
    op->marker->is_reached = true;
    pthread_cond_broadcast(&fake_changed);
    pthread_mutex_unlock(&fake_lock);
}

/* A context that has failed does no work any more, but its markers are reached. */
void fake_run_op(struct CUctx_st *context, const struct fake_op *op)
{
    bool is_dead = sticky_of(context) != 0;

    if (op->kind == FAKE_MARK)
        reach_marker(op);
    else if (op->kind == FAKE_WAIT)
        wait_marker(op);
    else if (is_dead)
        return;
    else if (op->kind == FAKE_COPY)
        copy(op);
    else if (op->kind == FAKE_FILL)
        memset(op->dst, (int)op->value, op->bytes);
    else if (op->kind == FAKE_WAIT_VALUE || op->kind == FAKE_WAIT_EQUAL)
        wait_value(context, op);
    else if (op->kind == FAKE_WRITE_VALUE || op->kind == FAKE_WRITE_PAIR)
        write_value(op);
    else if (op->kind == FAKE_GRAPH)
        fake_run_graph(context, op->exec);
    else
        run_kernel(context, op);
}

static void drop_op(struct fake_op *op)
{
    fake_marker_put(op->marker);
    fake_launch_free(op->launch);
    fake_exec_put(op->exec);
    free(op);
}

bool fake_has_one_queue(void)
{
    const char *text = getenv("FAKE_CUDA_MAX_CONNECTIONS");

    return text != NULL && strcmp(text, "1") == 0;
}

static void free_if_closed(struct CUstream_st *stream)
{
    if (stream->is_closing && stream->n_pending == 0)
        free(stream);
}

static void *work(void *arg)
{
    struct fake_queue *queue = arg;
    struct CUstream_st *stream;
    struct fake_op *op;

    pthread_mutex_lock(&fake_lock);
    while (queue->first != NULL || !queue->is_closing) {
        op = queue->first;
        if (op == NULL) {
            pthread_cond_wait(&fake_changed, &fake_lock);
            continue;
        }
        queue->first = op->next;
        if (queue->first == NULL)
            queue->last = NULL;
        stream = op->stream;
        pthread_mutex_unlock(&fake_lock);
        fake_run_op(stream->context, op);
        pthread_mutex_lock(&fake_lock);
        drop_op(op);
        stream->n_pending--;
        free_if_closed(stream);
        pthread_cond_broadcast(&fake_changed);
    }
    pthread_mutex_unlock(&fake_lock);
    free(queue);
    return NULL;
}

static int start_worker(struct fake_queue *queue)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    pthread_t thread;
    int error;

    (void)sigfillset(&all);
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, &attributes, work, queue);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return error;
}

static struct fake_queue *new_queue(void)
{
    struct fake_queue *queue = calloc(1, sizeof(*queue));

    if (queue == NULL || start_worker(queue) == 0)
        return queue;
    free(queue);
    return NULL;
}

static struct fake_queue *queue_for(const struct CUctx_st *context)
{
    if (fake_has_one_queue() && context->default_stream != NULL)
        return context->default_stream->queue;
    return new_queue();
}

struct CUstream_st *fake_stream_new(struct CUctx_st *context, bool is_blocking)
{
    struct CUstream_st *stream = calloc(1, sizeof(*stream));

    if (stream == NULL)
        return NULL;
    stream->context = context;
    stream->is_blocking = is_blocking;
    if (context->default_stream == NULL)
        n_default_streams++;
    stream->queue = queue_for(context);
    if (stream->queue == NULL) {
        free(stream);
        return NULL;
    }
    stream->next = streams;
    streams = stream;
    return stream;
}

struct CUstream_st *fake_stream_first(void)
{
    return streams;
}

struct CUstream_st *fake_stream_find(struct CUstream_st *stream)
{
    /* 0, 1 and 2 are the default stream, the legacy one, and the thread's own. */
    if ((uintptr_t)stream <= 2)
        return fake_current()->default_stream;
    for (struct CUstream_st *known = streams; known != NULL; known = known->next) {
        if (known == stream)
            return stream;
    }
    return NULL;
}

static unsigned push(struct CUstream_st *stream, const struct fake_op *op)
{
    struct fake_op *own = malloc(sizeof(*own));
    struct fake_queue *queue = stream->queue;

    if (own == NULL)
        return HETCCL_CUDA_ERROR_OUT_OF_MEMORY;
    *own = *op;
    own->next = NULL;
    own->stream = stream;
    if (queue->last != NULL)
        queue->last->next = own;
    else
        queue->first = own;
    queue->last = own;
    stream->n_pending++;
    pthread_cond_broadcast(&fake_changed);
    return 0;
}

/* What is enqueued on `later` from now on waits for all that stands in `earlier`. */
static unsigned order(struct CUstream_st *earlier, struct CUstream_st *later)
{
    struct fake_op op = {.kind = FAKE_MARK};
    unsigned code;

    if (earlier->n_pending == 0)
        return 0;
    op.marker = fake_marker_new(2);
    if (op.marker == NULL)
        return HETCCL_CUDA_ERROR_OUT_OF_MEMORY;
    code = push(earlier, &op);
    op.kind = FAKE_WAIT;
    return code != 0 ? code : push(later, &op);
}

static unsigned take_turns(struct CUstream_st *stream)
{
    struct CUstream_st *own_default = stream->context->default_stream;
    unsigned code = 0;

    if (stream->is_blocking)
        return order(own_default, stream);
    if (stream != own_default)
        return 0;
    for (struct CUstream_st *other = streams; other != NULL && code == 0; other = other->next) {
        if (other->is_blocking && other->context == stream->context)
            code = order(other, stream);
    }
    return code;
}

unsigned fake_enqueue_locked(struct CUstream_st *stream, const struct fake_op *op)
{
    struct CUstream_st *found = fake_stream_find(stream);
    unsigned code;

    if (found == NULL)
        return HETCCL_CUDA_ERROR_INVALID_HANDLE;
    if (fake_capture_is_on(found))
        return fake_capture_add(found, op);
    code = found == found->context->default_stream ? fake_capture_use_default(found->context) : 0;
    if (code == 0)
        code = take_turns(found);
    return code != 0 ? code : push(found, op);
}

unsigned fake_enqueue(struct CUstream_st *stream, const struct fake_op *op)
{
    unsigned code;

    pthread_mutex_lock(&fake_lock);
    code = fake_enqueue_locked(stream, op);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

static bool is_idle(const struct CUctx_st *context)
{
    for (const struct CUstream_st *stream = streams; stream != NULL; stream = stream->next) {
        if (stream->context == context && stream->n_pending > 0)
            return false;
    }
    return true;
}

void fake_wait_idle(const struct CUctx_st *context)
{
    while (!is_idle(context))
        pthread_cond_wait(&fake_changed, &fake_lock);
}

size_t fake_stream_count(void)
{
    size_t n = 0;

    pthread_mutex_lock(&fake_lock);
    for (const struct CUstream_st *stream = streams; stream != NULL; stream = stream->next)
        n++;
    n -= n_default_streams;
    pthread_mutex_unlock(&fake_lock);
    return n;
}

static unsigned create_stream(struct CUstream_st **stream, unsigned flags)
{
    struct CUstream_st *created;

    if (flags > HETCCL_CU_STREAM_NON_BLOCKING)
        return HETCCL_CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    created = fake_stream_new(fake_current(), flags != HETCCL_CU_STREAM_NON_BLOCKING);
    pthread_mutex_unlock(&fake_lock);
    if (created == NULL)
        return HETCCL_CUDA_ERROR_OUT_OF_MEMORY;
    *stream = created;
    return 0;
}

unsigned cuStreamCreate(struct CUstream_st **stream, unsigned flags)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);

    return code != 0 ? code : create_stream(stream, flags);
}

unsigned cuStreamCreateWithPriority(struct CUstream_st **stream, unsigned flags, int priority)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);

    return code != 0 ? code : create_stream(stream, flags);
}

unsigned cuStreamDestroy_v2(struct CUstream_st *stream)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);
    struct CUstream_st **link = &streams;

    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    while (*link != NULL && *link != stream)
        link = &(*link)->next;
    if (*link == NULL || stream->context->default_stream == stream) {
        code = HETCCL_CUDA_ERROR_INVALID_HANDLE;
    } else if (fake_capture_is_on(stream)) {
        fake_capture_invalidate(stream);
        code = HETCCL_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    } else {
        *link = stream->next;
        stream->is_closing = true;
        stream->queue->is_closing = stream->queue != stream->context->default_stream->queue;
        free_if_closed(stream);
        pthread_cond_broadcast(&fake_changed);
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

unsigned cuStreamQuery(struct CUstream_st *stream)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);
    struct CUstream_st *found;

    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    found = fake_stream_find(stream);
    if (found == NULL) {
        code = HETCCL_CUDA_ERROR_INVALID_HANDLE;
    } else if (fake_capture_is_on(found)) {
        fake_capture_invalidate(found);
        code = HETCCL_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    } else if (found->n_pending > 0) {
        code = HETCCL_CUDA_ERROR_NOT_READY;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

unsigned cuMemcpyAsync(hetccl_cu_address dst, hetccl_cu_address src, size_t bytes, struct CUstream_st *stream)
{
    struct fake_op op = {.kind = FAKE_COPY,
                         .dst = (void *)(uintptr_t)dst,
                         .src = (const void *)(uintptr_t)src,
                         .bytes = bytes};
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);

    if (code != 0)
        return code;
    if (!fake_memory_is_usable(dst, bytes) || !fake_memory_is_usable(src, bytes))
        return HETCCL_CUDA_ERROR_INVALID_VALUE;
    return fake_enqueue(stream, &op);
}

static bool are_rows_usable(hetccl_cu_address first, size_t pitch, const struct hetccl_cu_rows *rows)
{
    return pitch >= rows->row_bytes && rows->n_rows > 0 &&
           fake_memory_is_usable(first, (rows->n_rows - 1) * pitch + rows->row_bytes);
}

unsigned cuMemcpy2DAsync_v2(const struct hetccl_cu_rows *rows, struct CUstream_st *stream)
{
    struct fake_op op = {.kind = FAKE_COPY,
                         .dst = (void *)(uintptr_t)rows->dst,
                         .src = (const void *)(uintptr_t)rows->src,
                         .bytes = rows->row_bytes,
                         .n_rows = rows->n_rows,
                         .dst_pitch = rows->dst_pitch,
                         .src_pitch = rows->src_pitch};
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);

    if (code != 0)
        return code;
    if (rows->src_type != HETCCL_CU_MEMORYTYPE_UNIFIED || rows->dst_type != HETCCL_CU_MEMORYTYPE_UNIFIED ||
        rows->src_x_bytes != 0 || rows->src_y != 0 || rows->dst_x_bytes != 0 || rows->dst_y != 0)
        return HETCCL_CUDA_ERROR_NOT_SUPPORTED;
    if (!are_rows_usable(rows->dst, rows->dst_pitch, rows) ||
        !are_rows_usable(rows->src, rows->src_pitch, rows))
        return HETCCL_CUDA_ERROR_INVALID_VALUE;
    return fake_enqueue(stream, &op);
}

unsigned cuMemsetD8Async(hetccl_cu_address dst, unsigned char value, size_t bytes, struct CUstream_st *stream)
{
    struct fake_op op = {.kind = FAKE_FILL, .dst = (void *)(uintptr_t)dst, .bytes = bytes, .value = value};
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);

    if (code != 0)
        return code;
    /* Plain host memory can't be filled. */
    if (!fake_memory_is_known(dst) || !fake_memory_is_usable(dst, bytes))
        return HETCCL_CUDA_ERROR_INVALID_VALUE;
    return fake_enqueue(stream, &op);
}

static unsigned enqueue_value(struct CUstream_st *stream, enum fake_op_kind kind, hetccl_cu_address address,
                              uint64_t value)
{
    struct fake_op op = {.kind = kind, .word = (uint32_t *)(uintptr_t)address, .value = value};
    size_t bytes = kind == FAKE_WRITE_PAIR ? sizeof(uint64_t) : sizeof(uint32_t);
    const struct fake_memory *memory;
    unsigned code = HETCCL_CUDA_ERROR_INVALID_VALUE;

    pthread_mutex_lock(&fake_lock);
    memory = fake_memory_find(address);
    if (memory != NULL && memory->kind != FAKE_MANAGED && address % bytes == 0)
        code = fake_enqueue_locked(stream, &op);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

static unsigned enqueue_wait(struct CUstream_st *stream, hetccl_cu_address address, uint64_t value,
                             unsigned flags)
{
    if (flags != HETCCL_CU_STREAM_WAIT_VALUE_GEQ && flags != HETCCL_CU_STREAM_WAIT_VALUE_EQ)
        return HETCCL_CUDA_ERROR_INVALID_VALUE;
    return enqueue_value(stream, flags == HETCCL_CU_STREAM_WAIT_VALUE_EQ ? FAKE_WAIT_EQUAL : FAKE_WAIT_VALUE,
                         address, value);
}

static unsigned enqueue_write(struct CUstream_st *stream, enum fake_op_kind kind, hetccl_cu_address address,
                              uint64_t value, unsigned flags)
{
    if (flags != HETCCL_CU_STREAM_WRITE_VALUE_DEFAULT)
        return HETCCL_CUDA_ERROR_INVALID_VALUE;
    return enqueue_value(stream, kind, address, value);
}

unsigned cuStreamWaitValue32_v2(struct CUstream_st *stream, hetccl_cu_address address, uint32_t value,
                                unsigned flags)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);

    return code != 0 ? code : enqueue_wait(stream, address, value, flags);
}

unsigned cuStreamWriteValue32_v2(struct CUstream_st *stream, hetccl_cu_address address, uint32_t value,
                                 unsigned flags)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);

    return code != 0 ? code : enqueue_write(stream, FAKE_WRITE_VALUE, address, value, flags);
}

static unsigned enqueue_operation(struct CUstream_st *stream, const union hetccl_cu_value *value)
{
    switch (value->operation) {
    case HETCCL_CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return enqueue_wait(stream, value->word.address, value->word.value, value->word.flags);
    case HETCCL_CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return enqueue_write(stream, FAKE_WRITE_VALUE, value->word.address, value->word.value,
                             value->word.flags);
    case HETCCL_CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return enqueue_write(stream, FAKE_WRITE_PAIR, value->word.address, value->word.value,
                             value->word.flags);
    default:
        return HETCCL_CUDA_ERROR_INVALID_VALUE;
    }
}

unsigned cuStreamBatchMemOp_v2(struct CUstream_st *stream, unsigned count, union hetccl_cu_value *values,
                               unsigned flags)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);

    if (code == 0 && (count == 0 || count > 255 || flags != 0))
        code = HETCCL_CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count && code == 0; i++)
        code = enqueue_operation(stream, &values[i]);
    return code;
}
