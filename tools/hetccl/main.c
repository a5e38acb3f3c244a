/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <nccl.h>

#include <hetccl/hetccl.h>

#include "commands.h"
#include "perf.h"

static const char help[] = "usage: hetccl <command> [options]\n"
                           "\n"
                           "  perf   measure and check collectives, on ranks started here or by a launcher\n"
                           "  info   what this machine has: library, devices, address, settings\n"
                           "  plan   print how a collective would be done on a described cluster\n"
                           "  run    run a program with this library in the place of NCCL or RCCL\n"
                           "\n"
                           "hetccl <command> --help says more.\n";

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
    {"perf", hetccl_command_perf},
    {"info", hetccl_command_info},
    {"plan", hetccl_command_plan},
    {"run", hetccl_command_run},
};

int main(int argc, char **argv)
{
    if (argc < 2) {
        (void)fprintf(stderr, "hetccl: no command given; it takes perf, info, plan or run\n");
        return HETCCL_EXIT_USAGE;
    }
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return fputs(help, stdout) < 0 ? HETCCL_EXIT_FAILED : HETCCL_EXIT_OK;
    if (strcmp(argv[1], "--version") == 0)
        return printf("hetccl %s\n", hetcclVersion()) < 0 ? HETCCL_EXIT_FAILED : HETCCL_EXIT_OK;
    (void)fprintf(stderr, "hetccl: unknown command %s; it takes perf, info, plan or run\n", argv[1]);
    return HETCCL_EXIT_USAGE;
}
