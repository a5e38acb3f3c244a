/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TOOLS_COMMANDS_H
#define HETCCL_TOOLS_COMMANDS_H

/* The commands; argv[0] is the command's name. Each returns the exit status. */
int hetccl_command_perf(int argc, char **argv);
int hetccl_command_info(int argc, char **argv);
int hetccl_command_plan(int argc, char **argv);
int hetccl_command_run(int argc, char **argv);

#endif
