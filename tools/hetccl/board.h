/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TOOLS_BOARD_H
#define HETCCL_TOOLS_BOARD_H

/*
 * Shared memory between `hetccl perf` and the ranks it starts: the unique id on its way to the ranks, and
 * what each rank is doing on its way back, so that the parent can say which rank hangs, and where. Inherited
 * as a file descriptor; has no name and can't be left behind.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <nccl.h>

enum { HETCCL_BOARD_TEXT_BYTES = 128, HETCCL_BOARD_ERROR_BYTES = 1100 };

/* Written by one rank, read by the parent. The texts are only reports: a torn read would show, not harm. */
struct hetccl_board_slot {
    atomic_ulong beats;                   /* grows while the rank gets on */
    char doing[HETCCL_BOARD_TEXT_BYTES];  /* "allreduce 1048576 elements" */
    atomic_ulong failed_at_ns;            /* CLOCK_MONOTONIC; 0 while the rank has not failed */
    char error[HETCCL_BOARD_ERROR_BYTES]; /* why the rank gave up; "" while it did not */
};

struct hetccl_board {
    uint32_t n_ranks;
    atomic_bool is_id_ready;
    ncclUniqueId id;
    struct hetccl_board_slot slots[];
};

/* A new board in a file descriptor that children inherit; NULL with errno. */
struct hetccl_board *hetccl_board_create(uint32_t n_ranks, int *fd_out);

/* The parent's board, in a rank; NULL with errno. */
struct hetccl_board *hetccl_board_open(int fd, uint32_t n_ranks);

void hetccl_board_say(struct hetccl_board_slot *slot, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void hetccl_board_fail(struct hetccl_board_slot *slot, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void hetccl_board_beat(struct hetccl_board_slot *slot);

#endif
