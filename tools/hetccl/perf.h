/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TOOLS_PERF_H
#define HETCCL_TOOLS_PERF_H

/*
 * `hetccl perf`: options, the ranks it starts or that a launcher started, the measurement, and the table.
 *
 *   perf.c          the command
 *   perf_options.c  the command line
 *   launch.c        starting ranks, watching them, saying which one failed
 *   perf_rank.c     what one rank does
 *   perf_measure.c  one row's calls, checked and timed
 *   perf_device.c   the memory and the stream that it does it on
 *   perf_print.c    table and JSON, by rank 0
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "board.h"
#include "cluster.h"
#include "trial.h"

/* Exit status of the command and of each rank. */
enum { HETCCL_EXIT_OK = 0, HETCCL_EXIT_FAILED = 1, HETCCL_EXIT_USAGE = 2, HETCCL_EXIT_WRONG = 3 };

enum { HETCCL_PERF_DEFAULT_RANKS = 4, HETCCL_PERF_ALL_ROOTS = -1 };

struct hetccl_perf_options {
    struct hetccl_cluster cluster; /* n_ranks 0: not said */
    uint32_t kinds, types, ops;    /* one bit each */
    size_t min_bytes, max_bytes, factor;
    int root; /* or HETCCL_PERF_ALL_ROOTS */
    unsigned n_warmups, n_iterations;
    bool is_checked;
    unsigned n_graph;      /* calls in a graph that is replayed; 0: none is made */
    const char *device;    /* NULL: as HETCCL_DEVICE says, or host */
    const char *link;      /* NULL: as HETCCL_LINK says */
    const char *json_path; /* NULL: none */
    const char *id_path;   /* NULL: none */
    unsigned timeout_s;    /* without any progress */
    uint64_t seed;
    int rank;     /* -1: not a rank, start them */
    int board_fd; /* -1: started by a launcher */
};

/* Exit status to leave with, or -1 to go on. Prints the help or one line of what is wrong. */
int hetccl_perf_read_options(struct hetccl_perf_options *options, int argc, char **argv);

/* Rank and size from torchrun, mpirun, srun; false when none of them started this process as one of several.
 */
bool hetccl_perf_find_launcher(int *rank_out, int *n_ranks_out);

/* HETCCL_DEVICE for this process and those it starts. False with errno. */
bool hetccl_perf_set_device(const struct hetccl_perf_options *options);

/* Starts the ranks and waits for them. Returns the exit status. */
int hetccl_launch_run(const struct hetccl_perf_options *options, int argc, char **argv);

/* Everything one rank does. Returns the exit status. */
int hetccl_perf_run_rank(const struct hetccl_perf_options *options);

/* One direction (out of place or in place) of a row; summed or maximised over the ranks. */
struct hetccl_perf_measure {
    bool is_there;
    double time_us;
    double enqueue_us; /* of the host for one call, or launch of a graph; asynchronous devices */
    uint64_t n_wrong;
    uint64_t cross_bytes; /* of one call, over all ranks */
};

struct hetccl_perf_row {
    struct hetccl_trial trial;
    bool has_root, has_op;
    size_t size_bytes;
    uint64_t bound_bytes;
    char plan[32];
    bool is_small;
    struct hetccl_perf_measure out_of_place, in_place;
};

/* False where more (or less) crossed between islands than has to, with a plan that may not. */
bool hetccl_perf_row_is_at_bound(const struct hetccl_perf_row *row);

struct hetccl_perf_totals {
    uint64_t n_rows, n_wrong, n_off_bound;
    double bus_sum;
    uint64_t n_bus;
};

struct hetccl_perf_printer {
    FILE *json; /* NULL: none */
    const char *json_path;
    bool is_asynchronous; /* the device: there is a column for enqueuing */
    bool has_progress;    /* stderr is a terminal */
    uint32_t n_ranks;
    struct hetccl_perf_totals totals;
};

/* False with errno when the JSON file can't be written. */
bool hetccl_perf_printer_open(struct hetccl_perf_printer *printer, const char *json_path, ncclComm_t comm);
void hetccl_perf_printer_head(const struct hetccl_perf_printer *printer, const char *collective);
void hetccl_perf_printer_progress(const struct hetccl_perf_printer *printer, const struct hetccl_trial *trial,
                                  size_t size_bytes);
void hetccl_perf_printer_row(struct hetccl_perf_printer *printer, const struct hetccl_perf_row *row);
bool hetccl_perf_printer_close(struct hetccl_perf_printer *printer);

#endif
