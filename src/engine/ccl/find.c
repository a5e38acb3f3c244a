/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/ccl/find.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char *const sonames[HETCCL_CCL_KINDS] = {"libnccl.so.2", "librccl.so.1"};
static const char *const settings[HETCCL_CCL_KINDS] = {"HETCCL_NCCL_LIB", "HETCCL_RCCL_LIB"};

/* A search under way; texts of what was tried gather in `tried`. */
struct search {
    enum hetccl_ccl_kind kind;
    struct hetccl_ccl_api *out;
    bool is_found;
    size_t n_used;
    char tried[HETCCL_ERROR_TEXT_BYTES - 160]; /* the rest of the error's text must fit too */
};

static bool find_own_file(char out[PATH_MAX])
{
    Dl_info info;
    void *address;
    bool (*function)(const char *) = hetccl_ccl_is_own_file;

    memcpy(&address, &function, sizeof(address));
    if (dladdr(address, &info) == 0 || info.dli_fname == NULL)
        return false;
    (void)snprintf(out, PATH_MAX, "%s", info.dli_fname);
    return true;
}

bool hetccl_ccl_is_own_file(const char *path)
{
    char own[PATH_MAX];
    struct stat a, b;

    return find_own_file(own) && stat(own, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

static void note(struct search *search, const char *text)
{
    size_t room = sizeof(search->tried) - search->n_used;
    int n = snprintf(search->tried + search->n_used, room, "%s%s", search->n_used > 0 ? "; " : "", text);

    search->n_used += n > 0 && (size_t)n < room ? (size_t)n : 0;
}

/* One file; nothing once one was found. A missing one is worth its name only. */
static void try_file(struct search *search, const char *path)
{
    struct stat info;

    if (search->is_found)
        return;
    if (stat(path, &info) != 0)
        note(search, path);
    else if (hetccl_ccl_open(search->kind, path, search->out) == HETCCL_OK)
        search->is_found = true;
    else
        note(search, hetccl_last_error_thread());
}

static void try_folder(struct search *search, const char *folder, const char *below)
{
    char path[PATH_MAX];

    if (folder[0] == '/' &&
        snprintf(path, sizeof(path), "%s%s/%s", folder, below, sonames[search->kind]) < (int)sizeof(path))
        try_file(search, path);
}

/* Files of a folder with a longer name than the library's own: where it was put aside for us. */
static void try_put_aside(struct search *search, const char *folder)
{
    const char *soname = sonames[search->kind];
    char path[PATH_MAX];
    const struct dirent *entry;
    struct stat info;
    DIR *listing = opendir(folder);

    if (listing == NULL)
        return;
    while (!search->is_found && (entry = readdir(listing)) != NULL)
        if (strncmp(entry->d_name, soname, strlen(soname)) == 0 && entry->d_name[strlen(soname)] == '.' &&
            snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) < (int)sizeof(path) &&
            stat(path, &info) == 0 && S_ISREG(info.st_mode) && !hetccl_ccl_is_own_file(path))
            try_file(search, path);
    (void)closedir(listing);
}

static void cut_file_name(char *path)
{
    char *slash = strrchr(path, '/');

    if (slash != NULL)
        *slash = '\0';
}

static bool is_torch(const char *path)
{
    static const char *const libraries[] = {"/libtorch_cuda.so", "/libtorch_hip.so", "/libtorch.so",
                                            "/libtorch_python.so"};
    const char *slash = strrchr(path, '/');

    for (size_t i = 0; slash != NULL && i < sizeof(libraries) / sizeof(libraries[0]); i++)
        if (strcmp(slash, libraries[i]) == 0)
            return true;
    return false;
}

/* The folder of the PyTorch that this process has mapped; false: none. */
static bool find_torch(char out[PATH_MAX])
{
    char line[PATH_MAX + 128];
    bool is_found = false;
    FILE *maps = fopen("/proc/self/maps", "re");

    if (maps == NULL)
        return false;
    while (!is_found && fgets(line, sizeof(line), maps) != NULL) {
        char *path = strchr(line, '/');

        line[strcspn(line, "\n")] = '\0';
        is_found = path != NULL && strlen(path) < PATH_MAX && is_torch(path);
        if (is_found)
            memcpy(out, path, strlen(path) + 1);
    }
    (void)fclose(maps);
    if (is_found)
        cut_file_name(out);
    return is_found;
}

static void try_torch(struct search *search)
{
    static const char *const below[] = {"/../../nvidia/nccl/lib", "/../../nvidia/cu13/lib", ""};
    char folder[PATH_MAX], wheel[PATH_MAX + 32];

    if (!find_torch(folder))
        return;
    for (size_t i = 0; i < sizeof(below) / sizeof(below[0]); i++) {
        try_folder(search, folder, below[i]);
        (void)snprintf(wheel, sizeof(wheel), "%s%s", folder, below[i]);
        try_put_aside(search, wheel);
    }
}

static void try_library_path(struct search *search)
{
    const char *list = hetccl_config_library_path();

    while (*list != '\0') {
        size_t length = strcspn(list, ":;");
        char folder[PATH_MAX];

        if (length > 0 && length < sizeof(folder)) {
            memcpy(folder, list, length);
            folder[length] = '\0';
            try_folder(search, folder, "");
        }
        list += length + (list[length] != '\0');
    }
}

static void try_everywhere(struct search *search)
{
    static const char *const system_folders[] = {
        "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",    "/usr/lib",
        "/usr/local/cuda/lib64",     "/usr/local/cuda/lib",        "/usr/local/lib"};
    char own[PATH_MAX];

    try_torch(search);
    if (find_own_file(own)) {
        cut_file_name(own);
        try_put_aside(search, own);
    }
    try_library_path(search);
    for (size_t i = 0; i < sizeof(system_folders) / sizeof(system_folders[0]); i++)
        try_folder(search, system_folders[i], "");
}

enum hetccl_status hetccl_ccl_find(enum hetccl_ccl_kind kind, const struct hetccl_config *config,
                                   struct hetccl_ccl_api *out)
{
    static const char *const names[HETCCL_CCL_KINDS] = {"NCCL", "RCCL"};
    const char *named = kind == HETCCL_CCL_NCCL ? config->nccl_lib : config->rccl_lib;
    struct search search = {.kind = kind, .out = out};

    if (named[0] != '\0' && named[0] != '/')
        return hetccl_fail(HETCCL_ERR_USAGE, "%s=%s: an absolute path is needed", settings[kind], named);
    if (named[0] != '\0')
        try_file(&search, named);
    else
        try_everywhere(&search);
    if (search.is_found)
        return HETCCL_OK;
    return hetccl_fail_quietly(HETCCL_ERR_USAGE, "no usable %s; name it in %s. Tried: %s", names[kind],
                               settings[kind], search.tried);
}
