/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_BOOTSTRAP_LIST_H
#define HETCCL_BOOTSTRAP_LIST_H

/*
 * A circular doubly linked list whose head is a node too. The node is the first member of what is listed, so
 * a cast gives the object. A node is in one list at most; hetccl_list_remove() takes a node that is in none.
 */

#include <stdbool.h>
#include <stddef.h>

struct hetccl_list_node {
    struct hetccl_list_node *previous, *next;
};

static inline void hetccl_list_init(struct hetccl_list_node *head)
{
    head->previous = head->next = head;
}

static inline bool hetccl_list_is_empty(const struct hetccl_list_node *head)
{
    return head->next == head;
}

static inline void hetccl_list_append(struct hetccl_list_node *head, struct hetccl_list_node *node)
{
    node->previous = head->previous;
    node->next = head;
    head->previous->next = node;
    head->previous = node;
}

static inline void hetccl_list_remove(struct hetccl_list_node *node)
{
    if (node->next == NULL)
        return;
    node->previous->next = node->next;
    node->next->previous = node->previous;
    node->previous = node->next = NULL;
}

#endif
