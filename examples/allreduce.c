/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest program: four ranks in one process add up their vectors.
 *
 *   HETCCL_DEVICE=host HETCCL_VENDOR=nvidia,nvidia,amd,amd allreduce
 */
#include <stdio.h>
#include <stdlib.h>

#include <nccl.h>

enum { N_RANKS = 4, COUNT = 100000 };

static void check(ncclResult_t result)
{
    if (result == ncclSuccess)
        return;
    fprintf(stderr, "%s: %s\n", ncclGetErrorString(result), ncclGetLastError(NULL));
    exit(1);
}

int main(void)
{
    static float vectors[N_RANKS][COUNT];
    ncclComm_t comms[N_RANKS];
    int n_wrong = 0;

    check(ncclCommInitAll(comms, N_RANKS, NULL));
    for (int rank = 0; rank < N_RANKS; rank++)
        for (int i = 0; i < COUNT; i++)
            vectors[rank][i] = (float)(rank + i % 1000);

    check(ncclGroupStart());
    for (int rank = 0; rank < N_RANKS; rank++)
        check(ncclAllReduce(vectors[rank], vectors[rank], COUNT, ncclFloat, ncclSum, comms[rank], NULL));
    check(ncclGroupEnd());

    for (int rank = 0; rank < N_RANKS; rank++)
        for (int i = 0; i < COUNT; i++)
            n_wrong += vectors[rank][i] != (float)(0 + 1 + 2 + 3 + N_RANKS * (i % 1000));
    for (int rank = 0; rank < N_RANKS; rank++)
        check(ncclCommDestroy(comms[rank]));
    printf("%d ranks, %d floats each, %d wrong\n", N_RANKS, COUNT, n_wrong);
    return n_wrong == 0 ? 0 : 1;
}
