/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_DEVICE_DEVICE_H
#define HETCCL_DEVICE_DEVICE_H

/*
 * What a rank computes on: memory, streams and element-wise work over plain memory, CUDA or HIP. A device
 * knows no peers. Work is ordered by stream; on a synchronous device (host) a call returns when its work is
 * done and streams are ignored.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/status.h"
#include "kernels/kernels.h"

struct hetccl_device;

enum hetccl_memory_kind {
    HETCCL_MEMORY_DEVICE, /* where kernels are fastest */
    HETCCL_MEMORY_PINNED, /* host memory the device can reach */
};

/* A stream: a cudaStream_t or hipStream_t of the caller's, or one made by stream_create; ignored by the host
 * device. */
struct hetccl_stream {
    void *handle;
};

enum hetccl_stream_priority { HETCCL_STREAM_NORMAL = 0, HETCCL_STREAM_HIGH };

/* A point in a stream's work. Carries no time. */
struct hetccl_event {
    void *handle;
};

struct hetccl_module {
    void *handle;
};

/* A function of a module; lives as long as the module. */
struct hetccl_kernel {
    void *handle;
};

struct hetccl_launch {
    struct hetccl_kernel kernel;
    unsigned n_blocks, block_threads; /* one dimension; both at least 1 */
    size_t shared_bytes;              /* dynamic shared memory of a block */
    void **params; /* one pointer to its value a parameter, in order; read before the call returns */
};

enum hetccl_pointer_kind {
    HETCCL_POINTER_UNKNOWN = 0, /* NULL, or a kind of memory that isn't listed here */
    HETCCL_POINTER_HOST,        /* memory that the device's runtime doesn't know */
    HETCCL_POINTER_PINNED,      /* host memory that the device reaches: allocated pinned, or registered */
    HETCCL_POINTER_DEVICE,
    HETCCL_POINTER_MANAGED, /* migrates between host and device */
};

/* What the runtime knows of a pointer. base and bytes are the allocation's (or mapping's) that holds it; NULL
 * and 0 when unknown. */
struct hetccl_pointer {
    enum hetccl_pointer_kind kind;
    int ordinal; /* of the device that it was allocated on or registered with; -1: none */
    void *base;
    size_t bytes;
    bool has_ipc; /* ipc_export() can share it */
};

enum { HETCCL_IPC_HANDLE_BYTES = 64 };

/* Names a device allocation to other processes of this host. Plain bytes: may be sent as they are. */
struct hetccl_ipc_handle {
    uint8_t bytes[HETCCL_IPC_HANDLE_BYTES];
    uint64_t offset_bytes; /* of the exported pointer in the allocation */
};

/* A peer's allocation, mapped here. */
struct hetccl_ipc_mapping {
    void *base;    /* the allocation's first byte */
    void *address; /* the exported pointer */
};

struct hetccl_capture {
    bool is_capturing;   /* work enqueued on the stream now goes into a graph */
    bool is_invalidated; /* the capture has failed; nothing can be enqueued until it ends */
    uint64_t id;         /* of the capture, unique in the process; 0 when there is none */
};

/* A captured graph, ready to be launched any number of times. */
struct hetccl_graph {
    void *handle;
};

/* What a stream does with words, in the order of an array. */
enum hetccl_value_kind {
    HETCCL_VALUE_WAIT_EQUAL, /* later work waits until *word == value */
    HETCCL_VALUE_WRITE,      /* *word = value */
    HETCCL_VALUE_WRITE_PAIR, /* word[1] = second, then or at once *word = value; 8-byte aligned */
};

struct hetccl_stream_value {
    enum hetccl_value_kind kind;
    uint32_t *word;
    uint32_t value, second;
};

struct hetccl_rows {
    void *dst;
    const void *src;
    size_t dst_pitch, src_pitch, row_bytes, n_rows;
};

struct hetccl_reduce {
    void *dst;
    const void *const *srcs;
    const struct hetccl_scale *scales; /* NULL or one a source */
    size_t n_srcs, count;
    enum hetccl_type type;
    enum hetccl_red red;
};

/*
 * Operations. None is ever NULL: what a device lacks (has_* of struct hetccl_device) returns HETCCL_ERR_USAGE
 * with words.
 *
 * Threads: all operations may be called from any thread; one thread a stream at a time. A GPU's runtime state
 * of the calling thread (current context, capture mode) is as before when an operation returns. Asynchronous:
 * "enqueues" means that the call returns at once and the work runs in stream order; the caller keeps all
 * memory valid until then. On a synchronous device the work is done on return.
 * Capture: "capturable" operations may be called on a stream under graph capture and become nodes of the
 * graph. All others may be called while any stream of the process is captured, as long as they don't name
 * that stream or an event recorded on it; they never become part of a graph. Errors: HETCCL_ERR_ARG for
 * arguments that can't be right, else HETCCL_ERR_DEVICE naming the runtime's function, its code and a hint. A
 * kernel's failure is seen by whatever operation comes next (HETCCL_ERR_DEVICE), and by all after it.
 *
 * make_current       the device becomes the calling thread's, as by cudaSetDevice(), and stays it: for tests
 * and tools. Nothing on the host.
 *
 * close              gives everything back that open took; never fails. What the caller created goes first.
 * bind_thread        makes the device the calling thread's current one, and leaves it so: for threads of our
 * own in which a vendor's library is called.
 *
 * mem_alloc          bytes > 0, at least 256-byte aligned, contents undefined. No memory: HETCCL_ERR_SYSTEM
 * on the host, HETCCL_ERR_DEVICE on a GPU. May block. mem_free takes NULL and may wait for all work of the
 * device. host_register      page-locks host memory of the caller and makes it reachable for the device; any
 * alignment. Registered twice, or overlapping another registration: an error. Slow (20-85 ms for 512 MiB).
 *                    The caller unregisters before it unmaps. host_unregister takes the registered address.
 * device_address     the address by which kernels and stream_*_value reach pinned or registered host memory
 * (an address inside is fine). classify           what a pointer is; never fails for a pointer that the
 * runtime doesn't know. Never blocks.
 *
 * ipc_export         device memory that mem_alloc or the runtime's plain allocator made; inner addresses are
 * fine. Pool, managed and virtual-memory allocations: HETCCL_ERR_USAGE (classify says has_ipc). ipc_import in
 * another process of this host. The exporter keeps the allocation until everybody has closed. Importing twice
 * gives the same base, to be closed twice. May block. ipc_close          takes a zeroed mapping; may wait for
 * work of the device.
 *
 * stream_create      a stream that doesn't synchronise with the default stream. May block.
 * stream_destroy     returns at once; work enqueued before still runs. Takes a zeroed stream.
 * stream_query       HETCCL_OK when all work enqueued so far is done, HETCCL_AGAIN when not. Never blocks.
 * stream_capture     the capture state; never blocks, allowed on a captured stream.
 * stream_wait_event  enqueues: later work of the stream waits for the event's last record before this call;
 * nothing when it was never recorded. Capturable: an event recorded in a capture pulls the stream into it.
 * stream_wait_value  enqueues: later work waits until (int32_t)(*word - value) >= 0. Whoever writes the word
 * must not depend on GPU work that could sit behind the wait in the same hardware queue. Capturable (value
 *                    baked in).
 * stream_write_value enqueues: *word = value, after all earlier work of the stream is visible to host and
 * devices. Capturable. word: device_address() of host memory or device memory, 4-byte aligned.
 * stream_values      enqueues n of them, each as the two above would; cheaper than one by one. Read before
 * the call returns. Capturable.
 *
 * event_create       may block. event_destroy: returns at once, also while work waits for it; takes a zeroed
 * event. event_record       enqueues. Capturable. event_query: HETCCL_OK when the last record is reached (or
 * there is none), else HETCCL_AGAIN. Never blocks.
 *
 * module_load        image: PTX text with its final NUL, or a code object; read only during the call. Blocks
 * while the driver compiles (up to seconds). module_unload waits for the module's kernels; takes a zeroed
 * module. kernel_find        HETCCL_ERR_DEVICE when the module has no such function. kernel_launch enqueues.
 * Capturable (parameter values baked in).
 * image_kernel       a kernel of the library's own (kernels/device/args.h), by name; valid until the device
 * closes. The first call on a device loads them all and blocks as module_load does, later ones only look up.
 * Make it where a communicator is made: a driver may load a kernel only when no other runs. HETCCL_ERR_USAGE
 * in a library built without them.
 *
 * copy               enqueues; dst and src are device, pinned, managed or host memory and don't overlap; the
 * direction follows from the pointers. Blocks where either is plain host memory, else never. Capturable
 *                    unless either is plain host memory.
 * copy_rows          the same for n_rows rows of row_bytes, whose starts are dst_pitch and src_pitch bytes
 * apart; neither pitch is smaller than a row.
 * fill               enqueues: bytes of value to device, pinned or managed memory. Never blocks. Capturable.
 * reduce             enqueues; as hetccl_kernel_reduce(); average_*: as hetccl_kernel_average_*().
 * Capturable.
 *
 * capture_begin      begins a capture of the stream, which isn't the default one, in the strictest mode;
 * capture_end makes a graph of it. On failure there is no graph, and the capture has ended unless another
 * thread began it. The thread that began ends. Both may block. graph_launch enqueues the graph as one piece
 * of work; graph_destroy takes a zeroed graph, and launches that were made still run. Nothing in the library
 * captures: these are for tests and tools.
 *
 * error_name         the runtime's name of a code of its own ("CUDA_ERROR_INVALID_VALUE"); never NULL.
 */
struct hetccl_device_ops {
    const char *name; /* "host" */
    bool is_synchronous;
    void (*close)(struct hetccl_device *device);
    void (*make_current)(struct hetccl_device *device);
    enum hetccl_status (*bind_thread)(struct hetccl_device *device);

    enum hetccl_status (*mem_alloc)(struct hetccl_device *device, size_t bytes, enum hetccl_memory_kind kind,
                                    void **out);
    void (*mem_free)(struct hetccl_device *device, void *memory, enum hetccl_memory_kind kind);
    enum hetccl_status (*host_register)(struct hetccl_device *device, void *memory, size_t bytes);
    void (*host_unregister)(struct hetccl_device *device, void *memory);
    enum hetccl_status (*device_address)(struct hetccl_device *device, void *host_memory, void **out);
    enum hetccl_status (*classify)(struct hetccl_device *device, const void *pointer,
                                   struct hetccl_pointer *out);

    enum hetccl_status (*ipc_export)(struct hetccl_device *device, const void *memory,
                                     struct hetccl_ipc_handle *out);
    enum hetccl_status (*ipc_import)(struct hetccl_device *device, const struct hetccl_ipc_handle *handle,
                                     struct hetccl_ipc_mapping *out);
    void (*ipc_close)(struct hetccl_device *device, struct hetccl_ipc_mapping *mapping);

    enum hetccl_status (*stream_create)(struct hetccl_device *device, enum hetccl_stream_priority priority,
                                        struct hetccl_stream *out);
    void (*stream_destroy)(struct hetccl_device *device, struct hetccl_stream stream);
    enum hetccl_status (*stream_query)(struct hetccl_device *device, struct hetccl_stream stream);
    enum hetccl_status (*stream_capture)(struct hetccl_device *device, struct hetccl_stream stream,
                                         struct hetccl_capture *out);
    enum hetccl_status (*stream_wait_event)(struct hetccl_device *device, struct hetccl_stream stream,
                                            struct hetccl_event event);
    enum hetccl_status (*stream_wait_value)(struct hetccl_device *device, struct hetccl_stream stream,
                                            const uint32_t *word, uint32_t value);
    enum hetccl_status (*stream_write_value)(struct hetccl_device *device, struct hetccl_stream stream,
                                             uint32_t *word, uint32_t value);
    enum hetccl_status (*stream_values)(struct hetccl_device *device, struct hetccl_stream stream,
                                        const struct hetccl_stream_value *values, size_t n);

    enum hetccl_status (*event_create)(struct hetccl_device *device, struct hetccl_event *out);
    void (*event_destroy)(struct hetccl_device *device, struct hetccl_event event);
    enum hetccl_status (*event_record)(struct hetccl_device *device, struct hetccl_event event,
                                       struct hetccl_stream stream);
    enum hetccl_status (*event_query)(struct hetccl_device *device, struct hetccl_event event);

    enum hetccl_status (*module_load)(struct hetccl_device *device, const void *image,
                                      struct hetccl_module *out);
    void (*module_unload)(struct hetccl_device *device, struct hetccl_module module);
    enum hetccl_status (*kernel_find)(struct hetccl_device *device, struct hetccl_module module,
                                      const char *name, struct hetccl_kernel *out);
    enum hetccl_status (*kernel_launch)(struct hetccl_device *device, struct hetccl_stream stream,
                                        const struct hetccl_launch *launch);
    enum hetccl_status (*image_kernel)(struct hetccl_device *device, const char *name,
                                       struct hetccl_kernel *out);

    enum hetccl_status (*copy)(struct hetccl_device *device, struct hetccl_stream stream, void *dst,
                               const void *src, size_t bytes);
    enum hetccl_status (*copy_rows)(struct hetccl_device *device, struct hetccl_stream stream,
                                    const struct hetccl_rows *rows);
    enum hetccl_status (*fill)(struct hetccl_device *device, struct hetccl_stream stream, void *dst,
                               uint8_t value, size_t bytes);
    enum hetccl_status (*reduce)(struct hetccl_device *device, struct hetccl_stream stream,
                                 const struct hetccl_reduce *reduce);
    enum hetccl_status (*average_widen)(struct hetccl_device *device, struct hetccl_stream stream,
                                        void *dst_wide, const void *src, size_t count, enum hetccl_type type,
                                        size_t n_ranks);
    enum hetccl_status (*average_narrow)(struct hetccl_device *device, struct hetccl_stream stream, void *dst,
                                         const void *src_wide, size_t count, enum hetccl_type type,
                                         size_t n_ranks);

    enum hetccl_status (*capture_begin)(struct hetccl_device *device, struct hetccl_stream stream);
    enum hetccl_status (*capture_end)(struct hetccl_device *device, struct hetccl_stream stream,
                                      struct hetccl_graph *out);
    enum hetccl_status (*graph_launch)(struct hetccl_device *device, struct hetccl_stream stream,
                                       struct hetccl_graph graph);
    void (*graph_destroy)(struct hetccl_device *device, struct hetccl_graph graph);

    const char *(*error_name)(struct hetccl_device *device, int code);
};

struct hetccl_device {
    const struct hetccl_device_ops *ops;
    unsigned n_devices; /* of this kind, as far as the process may see them; 1 on the host */
    int ordinal;        /* as the runtime numbers it; 0 on the host */
    uint64_t pci_key;   /* equal on ranks that share the physical device; 0 on the host */
    char arch[32];      /* "x86-64", "sm_90", "gfx942" */

    /* What it can do. */
    bool has_ipc;           /* ipc_* */
    bool has_stream_values; /* stream_wait_value, stream_write_value, stream_values */
    bool has_modules;       /* module_*, kernel_*, image_kernel */
    bool has_graphs;        /* capture_begin, capture_end, graph_* */
    bool is_shared; /* kernels of several processes may run at the same time (MPS); else they take turns */

    /* How large a launch may be; 0 on the host. */
    unsigned n_units;       /* multiprocessors or compute units */
    unsigned lane_threads;  /* threads of a warp or wavefront */
    unsigned block_threads; /* of a block, at most */
};

enum { HETCCL_DEVICE_OF_THREAD = -1 };

/*
 * hetccl_device_open -- the device this rank computes on, as the configuration asks (HETCCL_DEVICE).
 *
 * ordinal  [in]  a GPU by its runtime's number; HETCCL_DEVICE_OF_THREAD: the calling thread's. The host takes
 *                any.
 *
 * auto is cuda where a driver and a GPU are and the library has kernels for it, else the host; the log says
 * why at level info. hip is refused until collectives can run on it. Errors: HETCCL_ERR_USAGE when the
 * asked-for kind is not there; the text says what is. The caller closes it by ops->close.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_device_open(const struct hetccl_config *config, int ordinal,
                                                       struct hetccl_device **out);

#endif
