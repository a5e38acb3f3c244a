/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static _Thread_local struct {
    unsigned depth, error;
    struct operation *first, **tail;
} group;

unsigned fake_group_note(unsigned code)
{
    if (group.depth > 0 && group.error == OK && code != IN_PROGRESS)
        group.error = code;
    return code;
}

static void drop(struct operation *operation)
{
    free(operation->transfers);
    free(operation);
}

/* The group's sends and receives of one communicator and stream are one operation. */
static bool join(const struct operation *operation)
{
    for (struct operation *other = group.first; other != NULL; other = other->next) {
        struct transfer *transfers;

        if (other->comm != operation->comm || other->kind != POINT_TO_POINT ||
            other->stream != operation->stream)
            continue;
        transfers = realloc(other->transfers, (other->n_transfers + 1) * sizeof(*transfers));
        if (transfers == NULL)
            abort();
        transfers[other->n_transfers++] = operation->transfers[0];
        other->transfers = transfers;
        return true;
    }
    return false;
}

static struct operation *copy(const struct operation *operation)
{
    struct operation *own = malloc(sizeof(*own));

    if (own == NULL)
        abort();
    *own = *operation;
    own->next = NULL;
    if (operation->n_transfers > 0) {
        own->transfers = malloc(sizeof(*own->transfers));
        if (own->transfers == NULL)
            abort();
        own->transfers[0] = operation->transfers[0];
    }
    return own;
}

unsigned fake_submit(const struct operation *operation)
{
    if (group.depth == 0)
        return fake_launch(copy(operation));
    if (operation->kind == POINT_TO_POINT && join(operation))
        return OK;
    if (group.first == NULL)
        group.tail = &group.first;
    *group.tail = copy(operation);
    group.tail = &(*group.tail)->next;
    return OK;
}

static unsigned end(bool is_running)
{
    struct operation *operation = group.first;
    unsigned code = group.error;

    group.first = NULL;
    group.error = OK;
    while (operation != NULL) {
        struct operation *next = operation->next;

        if (is_running && code == OK)
            code = fake_launch(operation);
        else
            drop(operation);
        operation = next;
    }
    return code;
}

unsigned ncclGroupStart(void)
{
    unsigned code = fake_call("ncclGroupStart", NULL, "%s", "");

    if (code == OK)
        group.depth++;
    return code;
}

unsigned ncclGroupEnd(void)
{
    unsigned code = fake_call("ncclGroupEnd", NULL, "%s", "");

    if (group.depth == 0)
        return fake_fail(INVALID_USAGE, "ncclGroupEnd: not in a group call.");
    if (--group.depth > 0)
        return code;
    if (code != OK)
        group.error = code;
    return end(true);
}

/* A microsecond a queued operation. */
unsigned ncclGroupSimulateEnd(void *info)
{
    enum { TIME_OFFSET = 16 };
    unsigned code = fake_call("ncclGroupSimulateEnd", NULL, "%p", info);
    float n_operations = 0;

    if (group.depth == 0)
        return fake_fail(INVALID_USAGE, "ncclGroupSimulateEnd: not in a group call.");
    if (--group.depth > 0)
        return code;
    for (const struct operation *operation = group.first; operation != NULL; operation = operation->next)
        n_operations++;
    if (info != NULL)
        memcpy((char *)info + TIME_OFFSET, &n_operations, sizeof(n_operations));
    return end(false) != OK ? INVALID_ARGUMENT : code;
}
