/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "run.h"
#include "run_elf.h"

enum { HELPER_SECONDS = 10, MAX_OUTPUT_BYTES = 1 << 20 };

extern char **environ;

/* Every library of this project has it, no vendor's does. */
static const char own_symbol[] = "hetcclVersion";

/* Prints the folders of the modules that are given. Looks them up without importing them (but a parent). */
static char python_text[] = "import importlib.util, sys\n"
                            "for name in sys.argv[1:]:\n"
                            "    try:\n"
                            "        spec = importlib.util.find_spec(name)\n"
                            "        print('\\n'.join(spec.submodule_search_locations or []))\n"
                            "    except Exception:\n"
                            "        pass\n";

static long now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool start_helper(char *const argv[], int out_fd, pid_t *pid_out)
{
    posix_spawn_file_actions_t actions;
    int error;

    if (posix_spawn_file_actions_init(&actions) != 0)
        return false;
    error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
    if (error == 0)
        error = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (error == 0)
        error = posix_spawn(pid_out, argv[0], &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    return error == 0;
}

/* Reads to the end, the deadline or a full buffer; a terminated string. */
static void read_all(int fd, char *out, size_t bytes)
{
    long deadline_ms = now_ms() + HELPER_SECONDS * 1000L;
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    size_t used = 0;

    while (used + 1 < bytes) {
        long left_ms = deadline_ms - now_ms();
        int n_ready = left_ms > 0 ? poll(&wait, 1, (int)left_ms) : 0;
        ssize_t n;

        if (n_ready < 0 && errno == EINTR)
            continue;
        n = n_ready > 0 ? read(fd, out + used, bytes - 1 - used) : 0;
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    out[used] = '\0';
}

/* What a program prints, in memory of the caller's; NULL when it can't be started. Ended after the deadline.
 */
static char *output_of(char *const argv[])
{
    char *text = malloc(MAX_OUTPUT_BYTES);
    pid_t pid = 0;
    int ends[2];

    if (text == NULL || pipe2(ends, O_CLOEXEC) != 0) {
        free(text);
        return NULL;
    }
    if (!start_helper(argv, ends[1], &pid)) {
        (void)close(ends[0]);
        (void)close(ends[1]);
        free(text);
        return NULL;
    }
    (void)close(ends[1]);
    read_all(ends[0], text, MAX_OUTPUT_BYTES);
    (void)close(ends[0]);
    /* It has closed its output, or has nothing more to say that we would wait for. */
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return text;
}

/* A vendor's library for this machine that can be read. */
static bool is_vendors(const char *path)
{
    struct hetccl_elf elf;

    return hetccl_elf_read(path, &elf) && hetccl_elf_is_native(&elf) &&
           !hetccl_elf_has_name(path, own_symbol);
}

/* folder/name, or the original that was kept as name.real when ours was put in its place. */
static bool take(const char *folder, size_t folder_length, const char *name, char out[PATH_MAX])
{
    static const char *const endings[] = {"", ".real"};
    char path[PATH_MAX];

    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
        if ((size_t)snprintf(path, sizeof(path), "%.*s/%s%s", (int)folder_length, folder, name, endings[i]) <
                sizeof(path) &&
            is_vendors(path) && realpath(path, out) != NULL)
            return true;
    return false;
}

static bool find_beside_modules(const struct hetccl_run_vendor *vendor, const char *python,
                                char out[PATH_MAX])
{
    char path[PATH_MAX];
    char option[] = "-c";
    char *argv[4 + sizeof(vendor->modules) / sizeof(vendor->modules[0])] = {path, option, python_text};
    bool is_found = false;
    char *text;

    if (python[0] != '\0')
        (void)snprintf(path, sizeof(path), "%s", python);
    else if (!hetccl_run_find_command("python3", path) && !hetccl_run_find_command("python", path))
        return false;
    for (size_t i = 0; i < sizeof(vendor->modules) / sizeof(vendor->modules[0]); i++)
        argv[3 + i] = (char *)vendor->modules[i];
    text = output_of(argv);
    for (const char *line = text; line != NULL && *line != '\0' && !is_found;) {
        size_t length = strcspn(line, "\n");

        for (size_t i = 0; length > 0 && !is_found && vendor->in_module[i] != NULL; i++)
            is_found = take(line, length, vendor->in_module[i], out);
        line += length + (line[length] == '\n');
    }
    free(text);
    return is_found;
}

static bool find_in_list(const char *folders, const char *name, char out[PATH_MAX])
{
    for (const char *at = folders; at != NULL && *at != '\0';) {
        size_t length = strcspn(at, ":;");

        if (length > 0 && take(at, length, name, out))
            return true;
        at += length + (at[length] != '\0');
    }
    return false;
}

/* The loader's cache as ldconfig prints it: "\tlibnccl.so.2 (libc6,x86-64) => /usr/lib/libnccl.so.2". */
static bool find_in_cache(const char *name, char out[PATH_MAX])
{
    static char program[] = "/sbin/ldconfig", option[] = "-p";
    char *argv[] = {program, option, NULL};
    char *text = output_of(argv);
    char *rest = text;
    bool is_found = false;

    for (char *line = strtok_r(text, "\n", &rest); line != NULL && !is_found;
         line = strtok_r(NULL, "\n", &rest)) {
        const char *word = line + strspn(line, " \t");
        const char *arrow = strstr(line, "=> /");

        if (arrow != NULL && strncmp(word, name, strlen(name)) == 0 && word[strlen(name)] == ' ')
            is_found = is_vendors(arrow + 3) && realpath(arrow + 3, out) != NULL;
    }
    free(text);
    return is_found;
}

bool hetccl_run_find_vendor(const struct hetccl_run_vendor *vendor, const char *python, char out[PATH_MAX])
{
    if (find_beside_modules(vendor, python, out) ||
        find_in_list(getenv("LD_LIBRARY_PATH"), vendor->library, out) || find_in_cache(vendor->library, out))
        return true;
    for (size_t i = 0; vendor->folders[i] != NULL; i++)
        if (take(vendor->folders[i], strlen(vendor->folders[i]), vendor->library, out))
            return true;
    return false;
}
