/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TOOLS_RUN_H
#define HETCCL_TOOLS_RUN_H

/*
 * `hetccl run`: a command with this library in the place of the vendor's.
 *
 *   run.c          the command line, the environment, exec
 *   run_program.c  can a library be loaded into the command at all?
 *   run_find.c     where the vendor's own library is
 *   run_elf.c      heads of ELF files
 */

#include <limits.h>
#include <stdbool.h>

/* Exit status for a command that wasn't started, as env(1) has it. */
enum { HETCCL_EXIT_CANT_RUN = 126, HETCCL_EXIT_NOT_FOUND = 127 };

struct hetccl_run_vendor {
    const char *name;         /* as --vendor takes it */
    const char *library;      /* the name that programs load; ours has the same */
    const char *variable;     /* tells the library where the vendor's is */
    const char *device_path;  /* there when such a GPU is */
    const char *modules[3];   /* Python modules whose folder leads to the vendor's library */
    const char *in_module[4]; /* how, from that folder; best first */
    const char *folders[8];   /* where else to look */
};

struct hetccl_run_program {
    char path[PATH_MAX];   /* to exec */
    char python[PATH_MAX]; /* the Python that it runs in, "" when that isn't plain to see */
};

/*
 * Finds a command as the shell would and checks that a library can be loaded into it: a dynamically linked
 * program of this machine, or a script for one, that doesn't change its user. Returns 0 with *out; else
 * HETCCL_EXIT_CANT_RUN or HETCCL_EXIT_NOT_FOUND after a line on stderr.
 */
int hetccl_run_check_program(const char *name, struct hetccl_run_program *out);

/* A command's path by PATH, or as it is when it has a slash. False: there is none. */
bool hetccl_run_find_command(const char *name, char out[PATH_MAX]);

/*
 * The vendor's own library: beside the torch of python (a path; "" takes the one of PATH), in
 * LD_LIBRARY_PATH, in the loader's cache, in the usual folders. Never a library of this project. Starts
 * python and ldconfig; blocks up to 10 s for each. False: there is none.
 */
bool hetccl_run_find_vendor(const struct hetccl_run_vendor *vendor, const char *python, char out[PATH_MAX]);

#endif
