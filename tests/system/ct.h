/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TESTS_CT_H
#define HETCCL_TESTS_CT_H

/*
 * ct: one rank of a test job, a plain program of the NCCL API. The runner (run.py) starts one process a rank;
 * rank 0 writes the unique id to a file, the others wait for it. At the end every rank prints one line,
 *
 *   rank result_code seconds fds threads rss_bytes crc32 key=value ...
 *
 * and why it failed, if it did, to stderr with the prefix "ct[rank]: ". The result code is NCCL's, or
 * CT_WRONG.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nccl.h>

#include "ct_cuda.h"
#include "trial.h"

enum { CT_OK = 0, CT_WRONG = 100, CT_SETUP = 101 };

struct ct_options {
    int rank, size;
    const char *idfile;
    const char *op;      /* a collective, "all", or a scenario */
    const char *dtype;   /* a type or "all" */
    const char *redop;   /* an operator or "all" */
    const char *counts;  /* list of element counts: "1,7,1000003" */
    const char *variant; /* of a scenario */
    const char *device;  /* "host" or "cuda": where the buffers of calls lie */
    const char *stream;  /* of calls on cuda: "own" or "default" */
    long root;           /* -1: all */
    long seed, iters;
    long inplace;  /* 0, 1, 2: both */
    long delay_ms; /* before the id is asked for */
    long hold_ms;  /* after the work, with the communicator alive */
    long limit;    /* of a scenario */
};

struct ct {
    struct ct_options options;
    ncclUniqueId id;
    ncclComm_t comm;
    double init_s;
    const struct ct_cuda *cuda; /* NULL: buffers are host memory */
    void *stream;               /* of all calls that say nothing else; NULL: the default one */
    uint32_t crc;
    char notes[512];  /* "key=value key=value" for the result line */
    char error[1600]; /* first failure */
};

/* A scenario returns a result code. It finds ct->comm ready, unless it makes its own communicators. */
struct ct_scenario {
    const char *name;
    int (*run)(struct ct *ct);
    bool makes_comm;
};

extern const struct ct_scenario ct_scenarios[];

/* Keeps the first failure's text and returns the code. */
int ct_fail(struct ct *ct, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same for an NCCL call: adds its name, code and ncclGetLastError(). */
int ct_fail_call(struct ct *ct, const char *call, ncclResult_t result);
void ct_note(struct ct *ct, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Rank 0 makes ct->id and writes options.idfile, the others wait for it; without a file the id is
 * NCCL_COMM_ID's. */
int ct_find_id(struct ct *ct);
/* Joins ct->comm and notes how long it took. */
int ct_join(struct ct *ct);
/* Tells the runner how far this rank is: an empty file beside options.idfile, "<idfile>.<name>.<rank>". */
void ct_mark(const struct ct *ct, const char *name);
/* Whether a rank has told so. */
bool ct_is_marked(const struct ct *ct, const char *name, int rank);
/* Adds to the checksum of all outputs. */
void ct_crc(struct ct *ct, const void *data, size_t bytes);
double ct_now_s(void);
void ct_sleep_ms(long ms);
void ct_sleep_us(long us);
/* Threads and descriptors of this process, its resident bytes now and at most, and what the kernel may still
 * give. */
long ct_count_threads(void);
long ct_count_fds(void);
long ct_rss_bytes(void);
long ct_peak_rss_bytes(void);

/* Finds ct->cuda and makes ct->stream, as the options say. */
int ct_device_open(struct ct *ct);

/*
 * Memory of calls: the program fills and checks `host`, the call gets `device`, which is the same on the
 * host. push and pull copy all of it, on ct->stream, and wait for it; pull returns the communicator's
 * failure, if what was enqueued before came to one.
 */
struct ct_memory {
    char *host, *device;
    size_t bytes;
};

int ct_memory_open(struct ct *ct, size_t bytes, struct ct_memory *out);
void ct_memory_close(struct ct *ct, struct ct_memory *memory);        /* takes a zeroed one */
void *ct_memory_at(const struct ct_memory *memory, const void *host); /* NULL for NULL */
int ct_memory_push(struct ct *ct, const struct ct_memory *memory);
int ct_memory_pull(struct ct *ct, const struct ct_memory *memory);

/* Waits until a stream is done, or the communicator (NULL: none) has failed; the latter is the result. The
 * host is always done. */
ncclResult_t ct_settle_on(struct ct *ct, ncclComm_t comm, void *stream);
int ct_settle(struct ct *ct); /* ct->stream and ct->comm */

/* Whatever became of the communicator. */
bool ct_becomes_idle(const struct ct *ct, void *stream, double limit_s);

/* One trial in buffers of its own with guards: fill, call, check. CT_OK, CT_WRONG or the call's code. */
int ct_run_trial(struct ct *ct, const struct hetccl_trial *trial);
/* Its parts: memory (closed by the caller in any case), input and guards, the call, and the result. */
int ct_trial_memory(struct ct *ct, const struct hetccl_trial *trial, struct ct_memory memory[2]);
int ct_fill_trial(struct ct *ct, const struct hetccl_trial *trial, const struct ct_memory memory[2]);
int ct_enqueue_trial(struct ct *ct, const struct hetccl_trial *trial, const struct ct_memory memory[2]);
int ct_check_trial(struct ct *ct, const struct hetccl_trial *trial, const struct ct_memory memory[2]);
/* The call alone, on regions of the two memories, by their host addresses. */
int ct_call_trial(struct ct *ct, const struct hetccl_trial *trial, const struct ct_memory memory[2],
                  char *const regions[2]);
/* A trial of this rank on ct->comm with fresh data. */
struct hetccl_trial ct_trial(const struct ct *ct, enum hetccl_trial_kind kind, ncclDataType_t type,
                             enum hetccl_reference_op op, size_t count);

/* Two numbers of a known sum, on a communicator of all ranks. */
int ct_small_allreduce(struct ct *ct, ncclComm_t comm);

/* Reads the n-th of a comma list of numbers; false at its end. */
bool ct_list_entry(const char *list, int n, size_t *out);

/* The scenarios, by file. */
int ct_scenario_collectives(struct ct *ct); /* ct_basic.c */
int ct_scenario_empty(struct ct *ct);
int ct_scenario_guards(struct ct *ct);   /* ct_guards.c */
int ct_scenario_exchange(struct ct *ct); /* ct_exchange.c */
int ct_scenario_blocked(struct ct *ct);
int ct_scenario_big(struct ct *ct);
int ct_scenario_average(struct ct *ct); /* ct_values.c */
int ct_scenario_nan(struct ct *ct);
int ct_scenario_lowsum(struct ct *ct);
int ct_scenario_bits(struct ct *ct);
int ct_scenario_cycle(struct ct *ct); /* ct_life.c */
int ct_scenario_many(struct ct *ct);
int ct_scenario_loop(struct ct *ct);
int ct_scenario_latency(struct ct *ct);
int ct_scenario_fork(struct ct *ct);
int ct_scenario_abort(struct ct *ct); /* ct_failure.c */
int ct_scenario_abort_init(struct ct *ct);
int ct_scenario_leave(struct ct *ct);
int ct_scenario_mismatch(struct ct *ct);
int ct_scenario_graph(struct ct *ct);   /* ct_graph.c; this and those behind it on cuda only */
int ct_scenario_quiet(struct ct *ct);   /* ct_quiet.c */
int ct_scenario_streams(struct ct *ct); /* ct_streams.c */

#endif
