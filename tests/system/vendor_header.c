/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plain program as its author would write it for NVIDIA's library: built against NVIDIA's nccl.h, knows
 * nothing of this one. Takes the options of ct that it needs and prints the same line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <nccl.h>

static const char *option(int argc, char **argv, const char *name)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return "";
}

static int exchange_id(ncclUniqueId *id, int rank, const char *path)
{
    char aside[512];
    FILE *file = NULL;
    int is_good;

    (void)snprintf(aside, sizeof(aside), "%s.new", path);
    if (rank == 0) {
        file = ncclGetUniqueId(id) == ncclSuccess ? fopen(aside, "wb") : NULL;
        is_good = file != NULL && fwrite(id, sizeof(*id), 1, file) == 1;
        return is_good && fclose(file) == 0 && rename(aside, path) == 0;
    }
    for (int i = 0; i < 10000 && file == NULL; i++) {
        file = fopen(path, "rb");
        if (file == NULL)
            usleep(2000);
    }
    is_good = file != NULL && fread(id, sizeof(*id), 1, file) == 1;
    if (file != NULL)
        (void)fclose(file);
    return is_good;
}

static ncclResult_t work(ncclComm_t comm, int rank, int size, int *n_wrong)
{
    enum { COUNT = 100003 };
    float *data = malloc(COUNT * sizeof(*data));
    ncclResult_t result;

    for (int i = 0; i < COUNT; i++)
        data[i] = (float)(i % 1000 + rank);
    result = ncclAllReduce(data, data, COUNT, ncclFloat32, ncclSum, comm, NULL);
    for (int i = 0; i < COUNT; i++)
        *n_wrong += data[i] != (float)(size * (i % 1000) + size * (size - 1) / 2);
    free(data);
    return result;
}

int main(int argc, char **argv)
{
    int rank = atoi(option(argc, argv, "--rank"));
    int size = atoi(option(argc, argv, "--size"));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclResult_t result = ncclSystemError;
    int n_wrong = 0;
    ncclUniqueId id;
    ncclComm_t comm;

    if (exchange_id(&id, rank, option(argc, argv, "--idfile")))
        result = ncclCommInitRankConfig(&comm, size, id, rank, &config);
    if (result == ncclSuccess)
        result = work(comm, rank, size, &n_wrong);
    if (result == ncclSuccess)
        result = ncclCommDestroy(comm);
    if (result != ncclSuccess)
        (void)fprintf(stderr, "ct[%d]: %s\n", rank, ncclGetLastError(NULL));
    printf("%d %d 0 0 0 0 00000000\n", rank, n_wrong > 0 ? 100 : (int)result);
    return result == ncclSuccess && n_wrong == 0 ? 0 : 1;
}
