/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <nccl.h>

#include <hetccl/hetccl.h>

#include "base/config.h"
#include "bootstrap/mesh.h"
#include "commands.h"
#include "perf.h"
#include "words.h"

static const char help[] =
    "usage: hetccl info [--config]\n"
    "\n"
    "Prints the library in use, devices, vendor libraries, this rank's island, the address that\n"
    "peers would get, and with --config the table of all settings with their present values.\n";

static int refuse_argument(const char *what, const char *argument)
{
    return hetccl_words_refuse("info", "%s %s; see hetccl info --help", what, argument);
}

static const char *path_of_symbol(void *symbol)
{
    Dl_info facts;

    return dladdr(symbol, &facts) != 0 && facts.dli_fname != NULL ? facts.dli_fname : "unknown";
}

static void print_library(void)
{
    int version = 0;
    void *symbol = dlsym(RTLD_DEFAULT, "ncclGetVersion");

    (void)ncclGetVersion(&version);
    printf("library      hetccl %s, NCCL API %d.%d.%d\n", hetcclVersion(), version / 10000,
           version / 100 % 100, version % 100);
    printf("             %s\n", path_of_symbol(symbol));
}

static void print_host_device(void)
{
    cpu_set_t allowed;
    int n_cpus = sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
    long pages = sysconf(_SC_PHYS_PAGES);
    long page_bytes = sysconf(_SC_PAGESIZE);

    printf("devices      host: %d processors allowed, %.1f GiB of memory\n", n_cpus,
           (double)pages * (double)page_bytes / (1024.0 * 1024.0 * 1024.0));
}

/* The names a library is looked for under when no path is set, best first. */
struct vendor_library {
    const char *label;
    const char *names[4];
    size_t path_offset;
};

static const struct vendor_library vendor_libraries[] = {
    {"CUDA driver", {"libcuda.so.1"}, offsetof(struct hetccl_config, cuda_lib)},
    {"HIP runtime",
     {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"},
     offsetof(struct hetccl_config, hip_lib)},
    {"RDMA verbs", {"libibverbs.so.1"}, offsetof(struct hetccl_config, ibverbs_lib)},
    /* Looking for NCCL by its plain name would find ourselves. */
    {"NVIDIA NCCL", {NULL}, offsetof(struct hetccl_config, nccl_lib)},
    {"AMD RCCL", {NULL}, offsetof(struct hetccl_config, rccl_lib)},
};

static void print_vendor_library(const struct vendor_library *library, const struct hetccl_config *config)
{
    const char *path = (const char *)config + library->path_offset;

    if (path[0] != '\0') {
        printf("             %-12s %s%s\n", library->label, path,
               access(path, R_OK) == 0 ? "" : " (can't be read)");
        return;
    }
    for (int i = 0; i < 4 && library->names[i] != NULL; i++) {
        void *handle = dlopen(library->names[i], RTLD_LAZY | RTLD_LOCAL);

        if (handle == NULL)
            continue;
        printf("             %-12s %s\n", library->label, library->names[i]);
        dlclose(handle);
        return;
    }
    printf("             %-12s none\n", library->label);
}

static void print_island(const struct hetccl_config *config)
{
    printf("island       vendor %s, host %s, split %s, links %s\n",
           config->vendor[0] != '\0' ? config->vendor : "cpu",
           config->host_id[0] != '\0' ? config->host_id : "this one",
           config->island_split[0] != '\0' ? config->island_split : "none", config->link);
}

static bool print_address(const struct hetccl_config *config)
{
    char text[512];

    if (hetccl_endpoint_describe(config, text, sizeof(text)) != HETCCL_OK) {
        (void)fprintf(stderr, "hetccl info: no address: %s\n", hetccl_last_error_thread());
        return false;
    }
    printf("address      %s\n", text);
    return true;
}

static int print_info(bool has_config)
{
    struct hetccl_config config;
    bool is_good;

    if (hetccl_config_parse(&config) != HETCCL_OK)
        return hetccl_words_refuse("info", "%s", hetccl_last_error_thread());
    print_library();
    print_host_device();
    printf("libraries\n");
    for (size_t i = 0; i < sizeof(vendor_libraries) / sizeof(vendor_libraries[0]); i++)
        print_vendor_library(&vendor_libraries[i], &config);
    print_island(&config);
    is_good = print_address(&config);
    if (has_config) {
        printf("settings\n");
        hetccl_config_print(&config, stdout);
    }
    return is_good && fflush(stdout) == 0 ? HETCCL_EXIT_OK : HETCCL_EXIT_FAILED;
}

int hetccl_command_info(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"config", no_argument, NULL, 'c'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    bool has_config = false;
    int option;

    opterr = 0;
    while ((option = getopt_long(argc, argv, "ch", long_options, NULL)) != -1) {
        if (option == 'h')
            return fputs(help, stdout) < 0 ? HETCCL_EXIT_FAILED : HETCCL_EXIT_OK;
        if (option != 'c')
            return refuse_argument("unknown option", argv[optind - 1]);
        has_config = true;
    }
    if (optind < argc)
        return refuse_argument("what is", argv[optind]);
    return print_info(has_config);
}
