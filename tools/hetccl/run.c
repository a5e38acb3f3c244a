/* SPDX-License-Identifier: Apache-2.0 */
#include "run.h"

#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "commands.h"
#include "perf.h"
#include "words.h"

static const char help[] =
    "usage: hetccl run [--vendor nvidia|amd] [--] command [arguments]\n"
    "       hetccl run [--vendor nvidia|amd] --print [[--] command]\n"
    "\n"
    "Runs a command, and all that it starts, with this library in the place of NCCL (or RCCL): puts it\n"
    "first in LD_PRELOAD, and says in HETCCL_NCCL_LIB where the vendor's own is, unless that is set.\n"
    "\n"
    "  --vendor   whose GPUs the command uses; by default those that this machine has\n"
    "  --print    start nothing, print the variables for the shell\n";

static const struct hetccl_run_vendor vendors[] = {
    {.name = "nvidia",
     .library = "libnccl.so.2",
     .variable = "HETCCL_NCCL_LIB",
     .device_path = "/dev/nvidiactl",
     .modules = {"torch", "nvidia.nccl"},
     .in_module = {"../nvidia/nccl/lib/libnccl.so.2", "../nvidia/cu13/lib/libnccl.so.2", "lib/libnccl.so.2"},
     .folders = {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/local/lib",
                 "/usr/lib", "/usr/local/cuda/lib64", "/usr/local/nccl2/lib"}},
    {.name = "amd",
     .library = "librccl.so.1",
     .variable = "HETCCL_RCCL_LIB",
     .device_path = "/dev/kfd",
     .modules = {"torch"},
     .in_module = {"lib/librccl.so", "lib/librccl.so.1"},
     .folders = {"/opt/rocm/lib", "/opt/rocm/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64"}},
};

enum { N_VENDORS = sizeof(vendors) / sizeof(vendors[0]) };

struct options {
    const struct hetccl_run_vendor *vendor; /* NULL: not said */
    bool is_print;
    char **command; /* NULL-terminated; command[0] NULL: none was given */
};

/* What the command is run with. */
struct plan {
    const struct hetccl_run_vendor *vendor;
    struct hetccl_run_program program;
    char library[PATH_MAX]; /* ours */
    char *preload;          /* the new LD_PRELOAD; owned */
    char real[PATH_MAX];    /* the vendor's library; "" when none was found */
};

static const struct hetccl_run_vendor *find_vendor(const char *name)
{
    for (size_t i = 0; i < N_VENDORS; i++)
        if (strcmp(vendors[i].name, name) == 0)
            return &vendors[i];
    return NULL;
}

/* Exit status to leave with, or -1 to go on. */
static int read_options(int argc, char **argv, struct options *out)
{
    static const struct option long_options[] = {{"vendor", required_argument, NULL, 'v'},
                                                 {"print", no_argument, NULL, 'p'},
                                                 {"help", no_argument, NULL, 'h'},
                                                 {NULL, 0, NULL, 0}};
    int option;

    opterr = 0;
    /* The leading + ends at the first word that is no option: the rest is the command's. */
    while ((option = getopt_long(argc, argv, "+:h", long_options, NULL)) != -1) {
        if (option == 'h')
            return fputs(help, stdout) < 0 ? HETCCL_EXIT_FAILED : HETCCL_EXIT_OK;
        if (option == ':')
            return hetccl_words_refuse("run", "%s takes a value: nvidia or amd", argv[optind - 1]);
        if (option == 'v' && (out->vendor = find_vendor(optarg)) == NULL)
            return hetccl_words_refuse("run", "no vendor %s; it takes nvidia or amd", optarg);
        if (option == '?')
            return hetccl_words_refuse("run", "unknown option %s; see hetccl run --help", argv[optind - 1]);
        if (option == 'p')
            out->is_print = true;
    }
    out->command = argv + optind;
    if (out->command[0] == NULL && !out->is_print)
        return hetccl_words_refuse("run", "no command given; see hetccl run --help");
    return -1;
}

/* The vendor whose GPUs are here; NVIDIA where there are none. NULL after a line: there are both. */
static const struct hetccl_run_vendor *guess_vendor(void)
{
    const struct hetccl_run_vendor *found = NULL;

    for (size_t i = 0; i < N_VENDORS; i++) {
        if (access(vendors[i].device_path, F_OK) != 0)
            continue;
        if (found != NULL) {
            (void)hetccl_words_refuse("run", "this machine has GPUs of NVIDIA and AMD: say --vendor");
            return NULL;
        }
        found = &vendors[i];
    }
    return found != NULL ? found : &vendors[0];
}

/* Our library of a name: both lie in the folder of the one that this command uses itself. */
static bool find_own_library(const char *name, char out[PATH_MAX])
{
    void *symbol = dlsym(RTLD_DEFAULT, "hetcclVersion");
    char path[PATH_MAX];
    Dl_info facts;
    char *slash;

    if (symbol == NULL || dladdr(symbol, &facts) == 0 || facts.dli_fname == NULL ||
        (size_t)snprintf(path, sizeof(path), "%s", facts.dli_fname) >= sizeof(path) ||
        (slash = strrchr(path, '/')) == NULL ||
        (size_t)snprintf(slash + 1, sizeof(path) - (size_t)(slash + 1 - path), "%s", name) >=
            sizeof(path) - (size_t)(slash + 1 - path) ||
        access(path, R_OK) != 0) {
        (void)hetccl_words_refuse("run", "HetCCL's %s isn't beside the library that this command uses", name);
        return false;
    }
    /* The folder without links and dots, the name as programs know it. */
    *slash = '\0';
    if (realpath(path, out) == NULL || strlen(out) + strlen(name) + 2 > PATH_MAX) {
        (void)hetccl_words_refuse("run", "the path of HetCCL's %s is too long", name);
        return false;
    }
    (void)strcat(strcat(out, "/"), name);
    if (out[strcspn(out, " :\n\t")] == '\0')
        return true;
    (void)hetccl_words_refuse("run", "LD_PRELOAD can't name %s: no path with blanks or colons", out);
    return false;
}

/* LD_PRELOAD with our library first; one that is there already keeps its place. NULL: no memory. */
static char *preload_of(const char *library)
{
    const char *present = getenv("LD_PRELOAD");
    size_t length = strlen(library);
    char *text;

    for (const char *at = present; at != NULL && (at = strstr(at, library)) != NULL; at += length)
        if ((at == present || strchr(" :", at[-1]) != NULL) && strchr(" :", at[length]) != NULL)
            return strdup(present);
    if (asprintf(&text, "%s%s%s", library, present != NULL && present[0] != '\0' ? ":" : "",
                 present != NULL ? present : "") < 0)
        return NULL;
    return text;
}

/* The vendor's library, if the user didn't say and there is one. */
static void find_real(struct plan *plan)
{
    if (getenv(plan->vendor->variable) != NULL)
        return;
    if (!hetccl_run_find_vendor(plan->vendor, plan->program.python, plan->real))
        plan->real[0] = '\0';
    if (strlen(plan->real) < HETCCL_CONFIG_TEXT_BYTES)
        return;
    (void)fprintf(stderr, "hetccl run: not setting %s: %s is longer than %d characters\n",
                  plan->vendor->variable, plan->real, HETCCL_CONFIG_TEXT_BYTES - 1);
    plan->real[0] = '\0';
}

/* Exit status to leave with, or -1 to go on. */
static int make_plan(const struct options *options, struct plan *plan)
{
    int status;

    plan->vendor = options->vendor != NULL ? options->vendor : guess_vendor();
    if (plan->vendor == NULL)
        return HETCCL_EXIT_USAGE;
    if (options->command[0] != NULL) {
        status = hetccl_run_check_program(options->command[0], &plan->program);
        if (status != 0)
            return status;
    }
    if (!find_own_library(plan->vendor->library, plan->library))
        return HETCCL_EXIT_FAILED;
    plan->preload = preload_of(plan->library);
    if (plan->preload == NULL)
        return HETCCL_EXIT_FAILED;
    find_real(plan);
    return -1;
}

/* One variable in words that a shell takes back. */
static void print_variable(const char *name, const char *value)
{
    printf("export %s='", name);
    for (; *value != '\0'; value++)
        if (*value == '\'')
            (void)fputs("'\\''", stdout);
        else
            (void)putchar(*value);
    (void)puts("'");
}

static int print_plan(const struct plan *plan)
{
    const char *said = getenv(plan->vendor->variable);

    print_variable("LD_PRELOAD", plan->preload);
    if (said != NULL)
        print_variable(plan->vendor->variable, said);
    else if (plan->real[0] != '\0')
        print_variable(plan->vendor->variable, plan->real);
    else
        printf("# %s stays unset: no %s of the vendor's was found\n", plan->vendor->variable,
               plan->vendor->library);
    if (plan->program.path[0] != '\0')
        printf("# runs %s\n", plan->program.path);
    return fflush(stdout) == 0 ? HETCCL_EXIT_OK : HETCCL_EXIT_FAILED;
}

static int start(const struct plan *plan, char **command)
{
    if (setenv("LD_PRELOAD", plan->preload, 1) != 0 ||
        (plan->real[0] != '\0' && setenv(plan->vendor->variable, plan->real, 1) != 0)) {
        (void)hetccl_words_refuse("run", "no memory for the environment");
        return HETCCL_EXIT_FAILED;
    }
    (void)execv(plan->program.path, command);
    (void)hetccl_words_refuse("run", "%s can't be started: %s", plan->program.path, strerror(errno));
    return errno == ENOENT ? HETCCL_EXIT_NOT_FOUND : HETCCL_EXIT_CANT_RUN;
}

int hetccl_command_run(int argc, char **argv)
{
    struct options options = {0};
    struct plan plan = {0};
    int status = read_options(argc, argv, &options);

    if (status < 0)
        status = make_plan(&options, &plan);
    if (status < 0)
        status = options.is_print ? print_plan(&plan) : start(&plan, options.command);
    free(plan.preload);
    return status;
}
