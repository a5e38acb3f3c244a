/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FAKE_NCCL_INTERNAL_H
#define TESTS_FAKE_NCCL_INTERNAL_H

/* The fake NCCL from the inside. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/ccl/table.h"
#include "kernels/kernels.h"
#include "vendor.h"

enum {
    MAX_RANKS = 16,
    MAX_FACTORS = 64,
    MAX_BOXED = 32,
    MAX_CHILDREN = 64,
    FIRST_FACTOR = 1000, /* numbers of made operators */
    NAP_NS = 20000,
};

enum {
    OK = 0,
    CUDA_ERROR = 1,
    SYSTEM_ERROR = 2,
    INTERNAL_ERROR = 3,
    INVALID_ARGUMENT = 4,
    INVALID_USAGE = 5,
    REMOTE_ERROR = 6,
    IN_PROGRESS = 7,
};

/* Memory that another process may read, by its descriptor: /proc/<pid>/fd/<fd>. */
struct parcel {
    int pid, fd;
    uint64_t bytes;
};

/* What a rank brings to a collective; two of them take turns, as nobody is more than one collective ahead. */
struct post {
    _Atomic uint64_t number; /* of the collective, from 1 */
    struct parcel parcel;
    uint32_t kind, type, op;
    uint64_t count;
    int root;
};

struct message {
    struct parcel parcel;
    uint64_t count;
    uint32_t type;
};

/* From one rank to another. */
struct box {
    _Atomic uint64_t n_sent, n_taken;
    struct message messages[MAX_BOXED];
};

/* What all ranks of a communicator map; it lives in a memory file that the id names. */
struct shared {
    atomic_int is_aborted;
    struct {
        atomic_int has_come;
        int n_ranks, version, device;
        uint64_t gpu;
        _Atomic uint64_t n_read; /* collectives of which it needs nothing any more */
    } ranks[MAX_RANKS];
    struct post posts[MAX_RANKS][2];
    struct box boxes[MAX_RANKS][MAX_RANKS];
    struct {
        atomic_int is_set;
        struct parcel parcel;
    } children[MAX_CHILDREN]; /* of shrink */
};

struct ncclComm {
    int rank, n_ranks, device;
    void *context; /* of the driver */
    bool is_blocking;
    struct shared *shared;
    atomic_uint state; /* code of ncclCommGetAsyncError() */
    atomic_int is_aborted, is_revoked, is_finalized;
    atomic_int n_running; /* operations in streams' threads, and the thread of init */

    pthread_mutex_t lock;
    uint64_t n_tickets, n_done; /* operations run in the order of their calls */
    uint64_t n_collectives;     /* numbers of posts */
    struct parcel posted[2];    /* own ones, to be closed */
    unsigned n_children;
    struct operation *operations; /* all that were launched; a graph may launch them again */
    struct {
        bool is_used;
        unsigned type;
        struct hetccl_scale scale;
        const void *device_scalar; /* read when the operation runs; NULL: scale */
    } factors[MAX_FACTORS];
};

enum kind {
    ALL_REDUCE,
    BROADCAST,
    REDUCE,
    ALL_GATHER,
    REDUCE_SCATTER,
    ALL_TO_ALL,
    GATHER,
    SCATTER,
    POINT_TO_POINT
};

struct transfer {
    bool is_send;
    const void *send;
    void *recv;
    size_t count;
    unsigned type;
    int peer;
};

/* One collective, or the sends and receives of a group on one communicator and stream. */
struct operation {
    struct operation *next; /* of the group, then of the communicator */
    struct ncclComm *comm;
    uint64_t ticket; /* 0: captured; runs whenever the graph does */
    enum kind kind;
    const void *send;
    void *recv;
    size_t count;
    unsigned type, op;
    struct hetccl_scale scale;
    bool has_scale;
    const void *device_scalar;
    int root;
    void *stream;
    struct transfer *transfers;
    size_t n_transfers;
};

/* record.c */

/*
 * What every function begins with: records the call, waits for ever or sets the communicator's state if the
 * script says so; the code that it has for the call, or 0.
 */
unsigned fake_call(const char *function, struct ncclComm *comm, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* "0/2", in storage of the thread. */
const char *fake_name(const struct ncclComm *comm);
/* Keeps a text for ncclGetLastError(); returns the code. */
unsigned fake_fail(unsigned code, const char *format, ...) __attribute__((format(printf, 2, 3)));
int fake_version(void);
void fake_nap(void);

/* comm.c */
bool fake_is_comm(const struct ncclComm *comm);
struct shared *fake_share(struct parcel *out); /* new memory; NULL: none */
/* Blocks until all ranks have come. A code. */
unsigned fake_meet(struct ncclComm *comm);
unsigned fake_make_comm(const struct parcel *parcel, int n_ranks, int rank, const void *config,
                        struct ncclComm **out);
bool fake_must_stop(const struct ncclComm *comm);
void fake_set_state(struct ncclComm *comm, unsigned code);

/* parcel.c */
bool fake_pack(const void *data, size_t bytes, struct parcel *out);
/* Reads a parcel of another rank; the memory is the caller's to free. */
void *fake_unpack(const struct parcel *parcel);
void fake_drop(struct parcel *parcel);

/* run.c */

/* Collective exchange of small data in the calling thread, in the order of the communicator's operations. A
 * code. */
unsigned fake_exchange(struct ncclComm *comm, const void *own, size_t bytes, void *all_out);
void fake_run(struct operation *operation);

/* launch.c: puts the operation on its stream. Owns it from here on. A code. */
unsigned fake_launch(struct operation *operation);

/* group.c: runs the operation, or queues it in the thread's group. Takes a copy. A code. */
unsigned fake_submit(const struct operation *operation);
unsigned fake_group_note(unsigned code); /* remembers an error for the group's end */

#endif
