/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fault.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[HETCCL_FAULT_KINDS] = {"alloc", "file", "socket", "mmap", "thread"};

static pthread_once_t read_once = PTHREAD_ONCE_INIT;
static atomic_int armed_kind = -1;
static atomic_uint points_left;

/* Read here and not through the configuration table: faults must work before and while that is parsed. */
static void read_environment(void)
{
    const char *text = getenv("HETCCL_FAULT");
    const char *colon = text != NULL ? strchr(text, ':') : NULL;

    if (colon == NULL)
        return;
    for (int kind = 0; kind < HETCCL_FAULT_KINDS; kind++) {
        size_t length = strlen(kind_names[kind]);

        if (length == (size_t)(colon - text) && memcmp(kind_names[kind], text, length) == 0)
            hetccl_fault_arm((enum hetccl_fault)kind, (unsigned)strtoul(colon + 1, NULL, 10));
    }
}

void hetccl_fault_arm(enum hetccl_fault kind, unsigned n)
{
    atomic_store(&points_left, n);
    atomic_store(&armed_kind, n > 0 ? (int)kind : -1);
}

bool hetccl_fault_hit(enum hetccl_fault kind)
{
    pthread_once(&read_once, read_environment);
    if (atomic_load_explicit(&armed_kind, memory_order_relaxed) != (int)kind)
        return false;
    return atomic_fetch_sub(&points_left, 1) == 1;
}
