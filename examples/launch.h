/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_H
#define LAUNCH_H

/*
 * Who am I, and how do the ranks find each other: what every program that uses the NCCL API has to settle
 * itself.
 */

#include <nccl.h>

struct launch {
    int rank, size;
    const char *id_file; /* where rank 0 puts the unique id for the others; NULL if none was given */
};

/*
 * Rank and size from the variables of torchrun, mpirun (Open MPI, MPICH, PMIx) or srun; rank 0 of 1 without
 * them.
 */
void launch_from_environment(struct launch *launch);

/*
 * The same unique id on all ranks: made by rank 0 and handed on through id_file, which must be on a file
 * system that all see and must not exist before. With NCCL_COMM_ID set the library needs no file. Returns 0,
 * or -1 with the reason on stderr.
 */
int launch_share_id(const struct launch *launch, ncclUniqueId *id);

/* Removes the id's file; call it when the communicator stands. */
void launch_forget_id(const struct launch *launch);

/* Ends the program with a text that says what failed and why, if result is an error. */
void launch_check(const struct launch *launch, ncclResult_t result, const char *what);

#endif
