/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FAKE_CUDA_INTERNAL_H
#define TESTS_FAKE_CUDA_INTERNAL_H

/* The fake driver from the inside. One lock guards everything; one condition tells that anything changed. */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "driver.h"

enum { FAKE_MAX_DEVICES = 8, FAKE_SPIN_NS = 20000 };

extern pthread_mutex_t fake_lock;
extern pthread_cond_t fake_changed;

/* What can't fail in a test: ends the process when it is NULL. */
void *fake_need(void *memory);

/* contexts.c */

struct CUctx_st {
    int device;
    unsigned n_retained;
    unsigned sticky; /* code of the kernel that failed; every later call gives it */
    struct CUstream_st *default_stream;
};

enum fake_need {
    FAKE_NEEDS_NOTHING,
    FAKE_NEEDS_DRIVER,
    FAKE_NEEDS_CONTEXT,
    FAKE_NEEDS_NO_CAPTURE, /* a context, and spoils global captures */
};

/* What every driver function begins with: scripted failure, driver started, context current and whole. A
 * code. */
unsigned fake_enter(const char *function, enum fake_need need);
struct CUctx_st *fake_current(void); /* the calling thread's context, or NULL */

/* script.c */

/* Counts a call; the code that the script has for it, or 0. Takes the lock. */
unsigned fake_script_call(const char *function);

/* memory.c */

enum fake_memory_kind {
    FAKE_DEVICE,
    FAKE_PINNED,
    FAKE_REGISTERED,
    FAKE_MANAGED,
    FAKE_IMPORTED,
    FAKE_POOL,
    FAKE_MAPPED
};

struct fake_memory {
    struct fake_memory *next;
    enum fake_memory_kind kind;
    int device;
    char *base;
    size_t bytes, mapped_bytes;
    int fd;      /* the memory file behind device memory; -1 */
    ino_t inode; /* tells an import of the same file */
    unsigned n_opened;
};

/* With the lock held. */
struct fake_memory *fake_memory_find(hetccl_cu_address address);
struct fake_memory *fake_memory_find_import(ino_t inode);
struct fake_memory *fake_memory_map(enum fake_memory_kind kind, int fd, size_t bytes); /* NULL: errno */
void fake_memory_remove(struct fake_memory *memory);                                   /* unmaps and frees */

struct fake_memory *fake_memory_map_at(enum fake_memory_kind kind, char *base, int fd, size_t bytes);
char *fake_memory_reserve(size_t bytes); /* addresses, with pages that fault on either side; NULL: used up */
unsigned fake_memory_alloc(enum fake_memory_kind kind, size_t bytes, hetccl_cu_address *address);

/* Whether a copy may touch the range: inside one allocation, or plain host memory. Takes the lock. */
bool fake_memory_is_usable(hetccl_cu_address address, size_t bytes);
bool fake_memory_is_known(hetccl_cu_address address); /* to the driver. Takes the lock. */
size_t fake_memory_count(void);

/* stream.c */

enum fake_op_kind {
    FAKE_COPY,
    FAKE_FILL,
    FAKE_MARK,
    FAKE_WAIT,
    FAKE_WAIT_VALUE,
    FAKE_WAIT_EQUAL,
    FAKE_WRITE_VALUE,
    FAKE_WRITE_PAIR,
    FAKE_KERNEL,
    FAKE_GRAPH,
};

/* A point in a stream that others can wait for. Counted references. */
struct fake_marker {
    unsigned n_refs;
    bool is_reached;
};

struct fake_launch {
    const struct fake_cuda_kernel *kernel;
    unsigned grid[3], block[3];
    size_t shared_bytes;
    void *params[FAKE_CUDA_MAX_PARAMS]; /* into values */
    unsigned char *values;
};

struct fake_op {
    struct fake_op *next;
    struct CUstream_st *stream;
    enum fake_op_kind kind;
    void *dst;
    const void *src;
    size_t bytes;
    size_t n_rows, dst_pitch, src_pitch; /* FAKE_COPY; n_rows 0: one of bytes */
    uint32_t *word;
    uint64_t value;
    struct fake_marker *marker;
    struct fake_launch *launch;
    struct CUgraphExec_st *exec;
};

/* Nodes of a graph that what comes next has to wait for. */
struct fake_tail {
    size_t n_nodes, *nodes;
};

struct fake_capture;

/* Operations that start one after the other, and the thread that works them off. */
struct fake_queue {
    struct fake_op *first, *last;
    bool is_closing;
};

struct CUstream_st {
    struct CUstream_st *next;
    struct CUctx_st *context;
    bool is_blocking; /* takes turns with the default stream */
    bool is_closing;
    struct fake_queue *queue;     /* its own, or that of all streams */
    unsigned n_pending;           /* enqueued and not done */
    struct fake_capture *capture; /* NULL: none */
    struct fake_tail tail;        /* in the capture */
};

/* Resolves the default stream and checks a handle. With the lock held; NULL: no such stream. */
struct CUstream_st *fake_stream_find(struct CUstream_st *stream);
struct CUstream_st *fake_stream_new(struct CUctx_st *context,
                                    bool is_blocking); /* NULL: no memory or thread */
/* Enqueues a copy of *op. Takes the lock. A code. */
unsigned fake_enqueue(struct CUstream_st *stream, const struct fake_op *op);
unsigned fake_enqueue_locked(struct CUstream_st *stream, const struct fake_op *op);
bool fake_has_one_queue(void);                       /* FAKE_CUDA_MAX_CONNECTIONS=1 */
void fake_wait_idle(const struct CUctx_st *context); /* for all its streams, with the lock held */
void fake_run_op(struct CUctx_st *context, const struct fake_op *op); /* here and now */
struct CUstream_st *fake_stream_first(void);
struct fake_marker *fake_marker_new(unsigned n_refs);
void fake_marker_put(struct fake_marker *marker); /* with the lock held; takes NULL */
size_t fake_stream_count(void);

/* capture.c, all with the lock held; codes */
bool fake_capture_is_on(const struct CUstream_st *stream);
unsigned fake_capture_add(struct CUstream_st *stream, const struct fake_op *op); /* takes over op's launch */
unsigned fake_capture_record(const struct CUstream_st *stream, struct fake_tail *tail_out, uint64_t *id_out);
/* The stream goes on after a tail that was recorded in capture id (0: outside of any). */
unsigned fake_capture_wait(struct CUstream_st *stream, const struct fake_tail *tail, uint64_t id);
unsigned
fake_capture_use_default(const struct CUctx_st *context); /* the default stream is about to be used */
bool fake_capture_spoil(unsigned thread_mode); /* by a call that is unsafe meanwhile; true: there was one */
void fake_capture_invalidate(struct CUstream_st *stream);
void fake_tail_clear(struct fake_tail *tail);

/* graph.c */
struct fake_node {
    struct fake_op op;
    struct fake_tail after;
    size_t lane;
    bool is_followed; /* in its lane */
};

/* Counted references; fixed once the capture has ended. */
struct fake_nodes {
    unsigned n_refs;
    size_t n_nodes, n_lanes;
    struct fake_node *list;
};

void fake_nodes_put(struct fake_nodes *nodes);
struct CUgraph_st *fake_graph_new(struct fake_nodes *nodes); /* takes a reference of its own */
void fake_exec_put(struct CUgraphExec_st *exec);             /* takes NULL; with the lock held */
void fake_run_graph(struct CUctx_st *context, struct CUgraphExec_st *exec);
size_t fake_graph_count(void);

/* event.c, module.c */
size_t fake_event_count(void);
size_t fake_module_count(void);
void fake_load_kernels(void); /* of FAKE_CUDA_KERNELS, once */

/* grid.c */
void fake_run_launch(const struct fake_launch *launch);
void fake_launch_free(struct fake_launch *launch);

#endif
