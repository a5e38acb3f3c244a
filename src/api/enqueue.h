/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_API_ENQUEUE_H
#define HETCCL_API_ENQUEUE_H

#include "api/work.h"

/* One public call, its arguments as they came. */
struct hetccl_request {
    const char *function; /* name for texts */
    ncclComm_t comm;
    int type;
    bool has_op;
    int op;
    struct hetccl_call call; /* all but type and op */
    const ncclCollConfig_t *config;
    const void *bias;
};

/* Checks the request as NCCL does (communicator, root, type, operator, buffers), and runs or queues it. */
ncclResult_t hetccl_request_submit(struct hetccl_request *request);

#endif
