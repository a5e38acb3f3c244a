/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_int n_failures;
static uint8_t ids[1][HETCCL_UNIQUE_ID_BYTES];
static void (*rank_body)(struct rank_context *context);

void check(int condition, const char *what, int line)
{
    if (!condition && atomic_fetch_add(&n_failures, 1) < 10)
        fprintf(stderr, "line %d: %s does not hold (last error: %s)\n", line, what,
                hetccl_last_error_thread());
}

int take_failures(void)
{
    return atomic_exchange(&n_failures, 0);
}

static void set_or_unset(const char *name, const char *value)
{
    if (value != NULL)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

void set_cluster(const char *vendors, const char *hosts, const char *link)
{
    set_or_unset("HETCCL_VENDOR", vendors);
    set_or_unset("HETCCL_HOST_ID", hosts);
    set_or_unset("HETCCL_LINK", link);
}

static void *rank_thread(void *argument)
{
    struct rank_context *context = argument;
    struct hetccl_comm_options options = {.is_blocking = true};

    CHECK(hetccl_comm_alloc(&options, &context->comm) == HETCCL_OK);
    context->init_status = hetccl_comm_init(context->comm, ids, 1, context->n_ranks, context->rank);
    (void)snprintf(context->init_text, sizeof(context->init_text), "%s", hetccl_last_error_thread());
    rank_body(context);
    hetccl_comm_destroy(context->comm);
    return NULL;
}

void run_ranks(int n_ranks, void (*body)(struct rank_context *context), void *argument)
{
    struct rank_context contexts[MAX_RANKS];
    pthread_t threads[MAX_RANKS];
    struct hetccl_config config;

    rank_body = body;
    CHECK(hetccl_config_parse(&config) == HETCCL_OK);
    CHECK(hetccl_unique_id_create(&config, ids[0]) == HETCCL_OK);
    for (int rank = 0; rank < n_ranks; rank++) {
        contexts[rank] = (struct rank_context){.rank = rank, .n_ranks = n_ranks, .argument = argument};
        CHECK(pthread_create(&threads[rank], NULL, rank_thread, &contexts[rank]) == 0);
    }
    for (int rank = 0; rank < n_ranks; rank++)
        pthread_join(threads[rank], NULL);
}
