/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_LINK_COMMON_H
#define HETCCL_LINK_COMMON_H

/* What every kind of link has: its queues of requests and its sticky failure. */

#include "link/link.h"

struct hetccl_link_queue {
    struct hetccl_link_request *first, *last;
};

struct hetccl_link_core {
    struct hetccl_link link; /* first: a link is its core */
    struct hetccl_link_queue sends, recvs;
    enum hetccl_status failure; /* HETCCL_OK until the link failed */
    char failure_text[HETCCL_ERROR_TEXT_BYTES];
};

void hetccl_link_core_init(struct hetccl_link_core *core, const struct hetccl_link_ops *ops,
                           uint32_t own_rank, uint32_t peer_rank, const char *peer_name);

/*
 * hetccl_link_fail -- the link's first failure: "<kind> link from rank a to rank b on host h: <text>". Later
 * calls keep the first. Returns the link's status.
 */
enum hetccl_status hetccl_link_fail(struct hetccl_link_core *core, enum hetccl_status status,
                                    const char *format, ...) HETCCL_PRINTF(3, 4);

/* The link's failure, its text made the thread's last error again; HETCCL_OK when it has none. */
enum hetccl_status hetccl_link_sticky(struct hetccl_link_core *core);

/* HETCCL_OK when tag and size of a message that arrived are what the receive expects; else the link fails. */
enum hetccl_status hetccl_link_check_message(struct hetccl_link_core *core,
                                             const struct hetccl_link_request *request,
                                             const struct hetccl_call_tag *tag, uint64_t bytes_total);

/*
 * hetccl_link_check_consume -- may the caller give back `bytes` of the first receive, of which at_hand were
 * shown? A multiple of 16 or the rest of the message; else the link fails with HETCCL_ERR_ARG.
 */
enum hetccl_status hetccl_link_check_consume(struct hetccl_link_core *core,
                                             const struct hetccl_link_request *request, size_t bytes,
                                             size_t at_hand);

/* Queues a request in state QUEUED with bytes_done 0. */
void hetccl_link_queue_push(struct hetccl_link_queue *queue, struct hetccl_link_request *request);

/* Takes the first request out and marks it DONE: from here on it is its owner's. */
void hetccl_link_queue_finish(struct hetccl_link_queue *queue);

#endif
