/* SPDX-License-Identifier: Apache-2.0 */
#include "perf.h"

#include <stdlib.h>

#include "commands.h"

struct launcher {
    const char *rank_name, *size_name;
};

/* Ours first in the sense of most specific: mpirun inside a Slurm job sets both. */
static const struct launcher launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    {"RANK", "WORLD_SIZE"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
};

static bool read_variable(const char *name, int *out)
{
    const char *text = getenv(name);
    char *end;
    long value;

    if (text == NULL || text[0] == '\0')
        return false;
    value = strtol(text, &end, 10);
    if (*end != '\0' || value < 0 || value > HETCCL_CLUSTER_MAX_RANKS)
        return false;
    *out = (int)value;
    return true;
}

bool hetccl_perf_find_launcher(int *rank_out, int *n_ranks_out)
{
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++)
        if (read_variable(launchers[i].rank_name, rank_out) &&
            read_variable(launchers[i].size_name, n_ranks_out) && *n_ranks_out > 1 &&
            *rank_out < *n_ranks_out)
            return true;
    return false;
}

int hetccl_command_perf(int argc, char **argv)
{
    struct hetccl_perf_options options;
    int status = hetccl_perf_read_options(&options, argc, argv);

    if (status < 0)
        status = options.rank >= 0 ? hetccl_perf_run_rank(&options) : hetccl_launch_run(&options, argc, argv);
    hetccl_cluster_fini(&options.cluster);
    return status;
}
