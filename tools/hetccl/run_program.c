/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "run.h"
#include "run_elf.h"
#include "words.h"

/* A script's interpreter may be a script itself; Linux follows four. */
enum { MAX_SCRIPTS = 4, SHEBANG_BYTES = 512 };

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

static bool is_program(const char *path)
{
    struct stat facts;

    return stat(path, &facts) == 0 && S_ISREG(facts.st_mode) && access(path, X_OK) == 0;
}

bool hetccl_run_find_command(const char *name, char out[PATH_MAX])
{
    const char *folders = getenv("PATH");

    if (strchr(name, '/') != NULL)
        return (size_t)snprintf(out, PATH_MAX, "%s", name) < PATH_MAX && access(out, F_OK) == 0;
    if (folders == NULL)
        folders = "/usr/local/bin:/usr/bin:/bin";
    for (const char *at = folders; name[0] != '\0'; at++) {
        size_t length = strcspn(at, ":");

        /* An empty entry is the present folder. */
        if ((size_t)snprintf(out, PATH_MAX, "%.*s/%s", length > 0 ? (int)length : 1, length > 0 ? at : ".",
                             name) < PATH_MAX &&
            is_program(out))
            return true;
        at += length;
        if (*at == '\0')
            break;
    }
    return false;
}

static int refuse(const char *name, const char *why)
{
    (void)hetccl_words_refuse("run", "%s %s", name, why);
    return HETCCL_EXIT_CANT_RUN;
}

static int check_file(const char *path)
{
    struct stat facts;

    if (stat(path, &facts) != 0)
        return refuse(path, strerror(errno));
    if (S_ISDIR(facts.st_mode))
        return refuse(path, "is a folder");
    if (!S_ISREG(facts.st_mode))
        return refuse(path, "is no file");
    if (access(path, X_OK) != 0)
        return refuse(path, "isn't executable for this user");
    /* The loader takes no LD_PRELOAD from the caller of a program that gets other rights than he has. */
    if (((facts.st_mode & S_ISUID) != 0 && facts.st_uid != geteuid()) ||
        ((facts.st_mode & S_ISGID) != 0 && facts.st_gid != getegid()))
        return refuse(path, "is setuid or setgid: the loader puts no library into such a program");
    if (geteuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0)
        return refuse(path, "has file capabilities: the loader puts no library into such a program");
    return 0;
}

static int check_elf(const char *path, const struct hetccl_elf *elf)
{
    if (!hetccl_elf_is_native(elf))
        return refuse(path, "is a program for another machine or of another word size than this library");
    if (!elf->has_interpreter)
        return refuse(path, "is statically linked: no library can be put into it");
    if (strstr(elf->interpreter, "/ld-musl") != NULL)
        return refuse(path, "runs on musl, this library on glibc");
    return 0;
}

/* Line 1 of a script after "#!", cut into interpreter and argument; false: no such line. */
static bool read_shebang(const char *path, char line[SHEBANG_BYTES], char **interpreter_out,
                         char **argument_out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, line, SHEBANG_BYTES - 1) : -1;
    char *rest;

    if (fd >= 0)
        (void)close(fd);
    if (n < 2 || line[0] != '#' || line[1] != '!')
        return false;
    line[n] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    rest = line + 2 + strspn(line + 2, " \t");
    *interpreter_out = rest;
    rest += strcspn(rest, " \t");
    if (*rest != '\0')
        *rest++ = '\0';
    *argument_out = rest + strspn(rest, " \t");
    return **interpreter_out != '\0';
}

/* The program that a script's first line names, env's argument taken for it. False: it isn't there. */
static bool find_interpreter(const char *interpreter, char *argument, char out[PATH_MAX])
{
    argument[strcspn(argument, " \t")] = '\0';
    if (strcmp(last_name(interpreter), "env") != 0 || argument[0] == '\0' || argument[0] == '-' ||
        strchr(argument, '=') != NULL)
        return hetccl_run_find_command(interpreter, out);
    return hetccl_run_find_command(argument, out);
}

int hetccl_run_check_program(const char *name, struct hetccl_run_program *out)
{
    char line[SHEBANG_BYTES];
    char path[PATH_MAX];
    char *interpreter, *argument;
    struct hetccl_elf elf;
    int status;

    if (!hetccl_run_find_command(name, path)) {
        (void)hetccl_words_refuse(
            "run", strchr(name, '/') != NULL ? "there is no file %s" : "%s is in no folder of PATH", name);
        return HETCCL_EXIT_NOT_FOUND;
    }
    (void)snprintf(out->path, sizeof(out->path), "%s", path);
    out->python[0] = '\0';
    for (int depth = 0; depth <= MAX_SCRIPTS; depth++) {
        status = check_file(path);
        if (status != 0)
            return status;
        if (out->python[0] == '\0' && strncmp(last_name(path), "python", 6) == 0)
            (void)snprintf(out->python, sizeof(out->python), "%s", path);
        if (hetccl_elf_read(path, &elf))
            return check_elf(path, &elf);
        /* Neither program nor script: the kernel may know better, or will say so. */
        if (!read_shebang(path, line, &interpreter, &argument))
            return 0;
        if (!find_interpreter(interpreter, argument, path)) {
            (void)hetccl_words_refuse("run", "%s asks for %s %s, which isn't there", name, interpreter,
                                      argument);
            return HETCCL_EXIT_NOT_FOUND;
        }
    }
    return refuse(name, "is a script for a script for a script, too many of them");
}
