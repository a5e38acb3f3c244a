/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TOOLS_PERF_SESSION_H
#define HETCCL_TOOLS_PERF_SESSION_H

/* One rank's run: what perf_rank.c sets up and perf_measure.c measures with. Failures: false, and the rank's
 * slot of the board says why. */

#include "perf.h"
#include "perf_device.h"

struct hetccl_perf_session {
    const struct hetccl_perf_options *options;
    struct hetccl_board_slot *slot; /* NULL under a launcher */
    struct hetccl_perf_printer printer;
    struct hetccl_perf_device device;
    ncclComm_t comm;
    uint32_t n_ranks, rank;
    struct hetccl_perf_buffer buffers[2]; /* data between guards */
    struct hetccl_perf_buffer small;      /* for what the ranks tell each other */
    double *enqueue_us;                   /* room for all iterations */
    uint64_t n_own_wrong;
};

enum { HETCCL_PERF_SMALL_BYTES = 64 };

bool hetccl_perf_give_up(const struct hetccl_perf_session *session, const char *call, ncclResult_t result);

bool hetccl_perf_barrier(struct hetccl_perf_session *session);

/* One direction of a row: checked, timed, and shared by all ranks. Also notes the plan in the row. */
bool hetccl_perf_measure(struct hetccl_perf_session *session, struct hetccl_perf_row *row, bool is_in_place,
                         struct hetccl_perf_measure *out);

#endif
