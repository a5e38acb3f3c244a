/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TESTS_COMM_RANKS_H
#define HETCCL_TESTS_COMM_RANKS_H

/* Ranks of a communicator as threads of one process, for tests. */

#include "comm/comm.h"

enum { MAX_RANKS = 16 };

struct rank_context {
    int rank, n_ranks;
    struct hetccl_comm *comm;
    void *argument;
    enum hetccl_status init_status;
    char init_text[HETCCL_ERROR_TEXT_BYTES];
};

/*
 * Makes a communicator of n_ranks threads and calls body on each with its communicator; destroys them unless
 * body took the communicator (set context->comm to NULL). Joins all threads. init failures are for body to
 * check.
 */
void run_ranks(int n_ranks, void (*body)(struct rank_context *context), void *argument);

/* Sets pretend vendors and hosts and links for the communicators made afterwards; NULL unsets. */
void set_cluster(const char *vendors, const char *hosts, const char *link);

/* Failures inside rank threads: cmocka's asserts may only run on the main one. Counts, prints the first few.
 */
void check(int condition, const char *what, int line);
#define CHECK(condition) check(!!(condition), #condition, __LINE__)

/* Number of failed checks since the last call. */
int take_failures(void);

#endif
