/* SPDX-License-Identifier: Apache-2.0 */
#include "link/common.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void hetccl_link_core_init(struct hetccl_link_core *core, const struct hetccl_link_ops *ops,
                           uint32_t own_rank, uint32_t peer_rank, const char *peer_name)
{
    memset(core, 0, sizeof(*core));
    core->link.ops = ops;
    core->link.own_rank = own_rank;
    core->link.peer_rank = peer_rank;
    (void)snprintf(core->link.peer_name, sizeof(core->link.peer_name), "%s",
                   peer_name != NULL ? peer_name : "");
}

enum hetccl_status hetccl_link_fail(struct hetccl_link_core *core, enum hetccl_status status,
                                    const char *format, ...)
{
    char text[HETCCL_ERROR_TEXT_BYTES];
    va_list args;

    if (core->failure != HETCCL_OK)
        return hetccl_link_sticky(core);
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    core->failure = hetccl_fail(status, "%s link from rank %" PRIu32 " to rank %" PRIu32 " on host %s: %s",
                                core->link.ops->name, core->link.own_rank, core->link.peer_rank,
                                core->link.peer_name, text);
    (void)snprintf(core->failure_text, sizeof(core->failure_text), "%s", hetccl_last_error_thread());
    return core->failure;
}

enum hetccl_status hetccl_link_sticky(struct hetccl_link_core *core)
{
    if (core->failure == HETCCL_OK)
        return HETCCL_OK;
    return hetccl_fail_quietly(core->failure, "%s", core->failure_text);
}

enum hetccl_status hetccl_link_check_message(struct hetccl_link_core *core,
                                             const struct hetccl_link_request *request,
                                             const struct hetccl_call_tag *tag, uint64_t bytes_total)
{
    char expected[HETCCL_CALL_TAG_TEXT_BYTES];
    char got[HETCCL_CALL_TAG_TEXT_BYTES];

    if (hetccl_call_tag_equal(&request->tag, tag) && request->bytes_total == bytes_total)
        return HETCCL_OK;
    hetccl_call_tag_print(&request->tag, expected);
    hetccl_call_tag_print(tag, got);
    return hetccl_link_fail(
        core, HETCCL_ERR_USAGE,
        "the ranks' calls don't fit together: rank %" PRIu32 " is in %s (message of %zu bytes), rank "
        "%" PRIu32 " on host %s in %s (message of %" PRIu64 " bytes); make the same calls in the same "
        "order on all ranks",
        core->link.own_rank, expected, request->bytes_total, core->link.peer_rank, core->link.peer_name, got,
        bytes_total);
}

enum hetccl_status hetccl_link_check_consume(struct hetccl_link_core *core,
                                             const struct hetccl_link_request *request, size_t bytes,
                                             size_t at_hand)
{
    bool is_first = core->recvs.first == request && request->memory == NULL;

    if (is_first && bytes <= at_hand &&
        (bytes % 16 == 0 || bytes == request->bytes_total - request->bytes_done))
        return HETCCL_OK;
    return hetccl_link_fail(
        core, HETCCL_ERR_ARG,
        "%zu bytes given back of %zu shown; needs a multiple of 16 or the end of the first "
        "unfinished receive without memory",
        bytes, is_first ? at_hand : 0);
}

void hetccl_link_queue_push(struct hetccl_link_queue *queue, struct hetccl_link_request *request)
{
    request->next = NULL;
    request->bytes_done = 0;
    request->state = HETCCL_REQUEST_QUEUED;
    if (queue->last != NULL)
        queue->last->next = request;
    else
        queue->first = request;
    queue->last = request;
}

void hetccl_link_queue_finish(struct hetccl_link_queue *queue)
{
    struct hetccl_link_request *request = queue->first;

    queue->first = request->next;
    if (queue->first == NULL)
        queue->last = NULL;
    request->next = NULL;
    request->state = HETCCL_REQUEST_DONE;
}
