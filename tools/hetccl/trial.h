/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TOOLS_TRIAL_H
#define HETCCL_TOOLS_TRIAL_H

/*
 * One collective call with known data: how large its buffers are, how they are filled, the call itself, and
 * how many elements of the result are wrong. Used by `hetccl perf` and by the system tests. Filled and
 * checked in host memory.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reference.h"

enum hetccl_trial_kind {
    HETCCL_TRIAL_ALLREDUCE = 0,
    HETCCL_TRIAL_ALLGATHER,
    HETCCL_TRIAL_REDUCE_SCATTER,
    HETCCL_TRIAL_BROADCAST,
    HETCCL_TRIAL_REDUCE,
    HETCCL_TRIAL_ALLTOALL,
    HETCCL_TRIAL_GATHER,
    HETCCL_TRIAL_SCATTER,
    HETCCL_TRIAL_SENDRECV, /* to rank + 1 and from rank - 1, in a group */
    HETCCL_TRIAL_BCAST,    /* the old form of broadcast, always in place */
    HETCCL_TRIAL_KINDS,
};

struct hetccl_trial {
    enum hetccl_trial_kind kind;
    struct hetccl_reference reference; /* type, op (COPY for kinds that combine nothing), n_ranks, seed */
    uint32_t rank, root;
    size_t count; /* as in the NCCL call */
    bool is_in_place;
    void *stream; /* of the call */
};

const char *hetccl_trial_name(enum hetccl_trial_kind kind); /* "allreduce" */
int hetccl_trial_find(const char *name);                    /* -1: unknown */
bool hetccl_trial_has_op(enum hetccl_trial_kind kind);
bool hetccl_trial_has_root(enum hetccl_trial_kind kind);
bool hetccl_trial_has_in_place(enum hetccl_trial_kind kind);

/* True when nccl-tests' size is the sum over all ranks' shares (allgather ...), false when it is one
 * vector's. */
bool hetccl_trial_is_shared(enum hetccl_trial_kind kind);

/* busbw / algbw, as nccl-tests defines it. */
double hetccl_trial_bus_factor(enum hetccl_trial_kind kind, uint32_t n_ranks);

/* Elements that the call reads and writes on this rank; 0 where it doesn't use the buffer (recv of a reduce's
 * non-root). */
size_t hetccl_trial_send_count(const struct hetccl_trial *trial);
size_t hetccl_trial_recv_count(const struct hetccl_trial *trial);

/*
 * Elements of memory for hetccl_trial_place(). In place one buffer holds both; out of place each of the two
 * buffers is the larger of send and receive, so that a rank that gets nothing can see that nothing was
 * written.
 */
size_t hetccl_trial_buffer_count(const struct hetccl_trial *trial);

/* The pointers of the call: in place both in `b`, at NCCL's offsets for the call; else `a` and `b`
 * themselves. */
void hetccl_trial_place(const struct hetccl_trial *trial, char *a, char *b, void **send_out, void **recv_out);

/* Writes a poison pattern to all that may be received, and then this rank's input to send. */
void hetccl_trial_fill(const struct hetccl_trial *trial, void *send, void *recv);

/* The call, outside any group of the caller's. */
ncclResult_t hetccl_trial_run(const struct hetccl_trial *trial, const void *send, void *recv, ncclRedOp_t op,
                              ncclComm_t comm);

/* NCCL's operator for the trial; PreMulSum makes one, which hetccl_trial_op_end() gives back. */
ncclResult_t hetccl_trial_op_begin(const struct hetccl_trial *trial, ncclComm_t comm, ncclRedOp_t *out);
void hetccl_trial_op_end(const struct hetccl_trial *trial, ncclComm_t comm, ncclRedOp_t op);

/* Wrong elements: of the result, of poison that should have stayed, and, out of place, of an input that was
 * changed. */
uint64_t hetccl_trial_check(const struct hetccl_trial *trial, const void *send, const void *recv);

/* 64 bytes before and after a region: painted before the call, counted after it. */
enum { HETCCL_TRIAL_GUARD_BYTES = 64 };
void hetccl_trial_guard_paint(char *region, size_t bytes);
uint64_t hetccl_trial_guard_check(const char *region, size_t bytes);

#endif
