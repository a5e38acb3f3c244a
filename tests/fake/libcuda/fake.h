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

enum fake_memory_kind { FAKE_DEVICE, FAKE_PINNED, FAKE_REGISTERED, FAKE_MANAGED, FAKE_IMPORTED };

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
    FAKE_WRITE_VALUE,
    FAKE_KERNEL
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
    enum fake_op_kind kind;
    void *dst;
    const void *src;
    size_t bytes;
    uint32_t *word;
    uint32_t value;
    struct fake_marker *marker;
    struct fake_launch *launch;
};

struct CUstream_st {
    struct CUstream_st *next;
    struct CUctx_st *context;
    bool is_blocking; /* takes turns with the default stream */
    bool is_closing;
    struct fake_op *first, *last;
    unsigned n_pending; /* enqueued and not done */
    unsigned capture_status, capture_mode;
    uint64_t capture_id;
};

/* Resolves the default stream and checks a handle. With the lock held; NULL: no such stream. */
struct CUstream_st *fake_stream_find(struct CUstream_st *stream);
struct CUstream_st *fake_stream_new(struct CUctx_st *context,
                                    bool is_blocking); /* NULL: no memory or thread */
/* Enqueues a copy of *op. Takes the lock. A code. */
unsigned fake_enqueue(struct CUstream_st *stream, const struct fake_op *op);
unsigned fake_enqueue_locked(struct CUstream_st *stream, const struct fake_op *op);
void fake_wait_idle(const struct CUctx_st *context); /* for all its streams, with the lock held */
void fake_spoil_captures(bool *was_any_out);         /* of mode global, with the lock held */
struct fake_marker *fake_marker_new(unsigned n_refs);
void fake_marker_put(struct fake_marker *marker); /* with the lock held; takes NULL */
size_t fake_stream_count(void);

/* event.c, module.c */
size_t fake_event_count(void);
size_t fake_module_count(void);
void fake_load_kernels(void); /* of FAKE_CUDA_KERNELS, once */

/* grid.c */
void fake_run_launch(const struct fake_launch *launch);
void fake_launch_free(struct fake_launch *launch);

#endif
