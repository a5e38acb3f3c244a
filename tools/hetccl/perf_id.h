/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TOOLS_PERF_ID_H
#define HETCCL_TOOLS_PERF_ID_H

#include "perf.h"

/*
 * The unique id of a rank's communicator: from the parent's board; else from NCCL_COMM_ID; else from
 * torchrun's MASTER_ADDR and MASTER_PORT + 1; else through the file of --id-file, which rank 0 writes. Blocks
 * up to options->timeout_s. False: error_out says why and what to do.
 */
bool hetccl_perf_get_id(const struct hetccl_perf_options *options, const struct hetccl_board *board,
                        ncclUniqueId *out, char error_out[256]);

/* HETCCL_DEVICE, _VENDOR, _HOST_ID and _LINK of this rank, as the options describe the cluster. False with
 * errno. */
bool hetccl_perf_set_rank_variables(const struct hetccl_perf_options *options);

#endif
