/* SPDX-License-Identifier: Apache-2.0 */
#include "launch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ID_WAIT_MS = 60000, ID_POLL_MS = 5, PATH_BYTES = 4096 };

static int read_int(const char *const *names, int fallback)
{
    for (; *names != NULL; names++)
        if (getenv(*names) != NULL)
            return atoi(getenv(*names));
    return fallback;
}

void launch_from_environment(struct launch *launch)
{
    static const char *const ranks[] = {"RANK",     "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                        "PMI_RANK", "SLURM_PROCID",         NULL};
    static const char *const sizes[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS",
                                        NULL};

    launch->rank = read_int(ranks, 0);
    launch->size = read_int(sizes, 1);
    launch->id_file = NULL;
}

/* Written beside its place and renamed: nobody reads half an id. */
static int write_id(const char *path, const ncclUniqueId *id)
{
    char draft[PATH_BYTES];
    FILE *file;
    int is_good;

    if (snprintf(draft, sizeof(draft), "%s.draft", path) >= (int)sizeof(draft)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    file = fopen(draft, "wb");
    if (file == NULL)
        return -1;
    is_good = fwrite(id, sizeof(*id), 1, file) == 1;
    is_good = fclose(file) == 0 && is_good;
    return is_good && rename(draft, path) == 0 ? 0 : -1;
}

static int read_id(const char *path, ncclUniqueId *id)
{
    const struct timespec pause = {.tv_nsec = ID_POLL_MS * 1000000};
    FILE *file = fopen(path, "rb");
    int is_good;

    for (int waited_ms = 0; file == NULL && errno == ENOENT && waited_ms < ID_WAIT_MS;
         waited_ms += ID_POLL_MS) {
        nanosleep(&pause, NULL);
        file = fopen(path, "rb");
    }
    if (file == NULL)
        return -1;
    is_good = fread(id, sizeof(*id), 1, file) == 1;
    fclose(file);
    return is_good ? 0 : -1;
}

int launch_share_id(const struct launch *launch, ncclUniqueId *id)
{
    if (launch->rank == 0 || getenv("NCCL_COMM_ID") != NULL)
        launch_check(launch, ncclGetUniqueId(id), "ncclGetUniqueId");
    if (launch->size == 1 || getenv("NCCL_COMM_ID") != NULL)
        return 0;
    if (launch->id_file == NULL) {
        fprintf(stderr, "%d ranks need --idfile, a path that all of them see, or NCCL_COMM_ID\n",
                launch->size);
        return -1;
    }
    if ((launch->rank == 0 ? write_id(launch->id_file, id) : read_id(launch->id_file, id)) == 0)
        return 0;
    fprintf(stderr, "rank %d: id file %s: %s\n", launch->rank, launch->id_file, strerror(errno));
    return -1;
}

void launch_forget_id(const struct launch *launch)
{
    if (launch->rank == 0 && launch->id_file != NULL)
        unlink(launch->id_file);
}

void launch_check(const struct launch *launch, ncclResult_t result, const char *what)
{
    if (result == ncclSuccess)
        return;
    fprintf(stderr, "rank %d: %s: %s: %s\n", launch->rank, what, ncclGetErrorString(result),
            ncclGetLastError(NULL));
    exit(1);
}
