/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 1400, PATH_BYTES = 1024, HOST_BYTES = 64 };

static atomic_int current_level = HETCCL_LOG_NONE;
static atomic_int log_fd = STDERR_FILENO;
static pthread_mutex_t configure_lock = PTHREAD_MUTEX_INITIALIZER;

static void host_name(char out[HOST_BYTES])
{
    if (gethostname(out, HOST_BYTES) != 0)
        (void)snprintf(out, HOST_BYTES, "unknown");
    out[HOST_BYTES - 1] = '\0';
}

/* Replaces %h and %p; anything else stays as it is. */
static void expand_path(const char *pattern, char out[PATH_BYTES])
{
    size_t used = 0;
    char host[HOST_BYTES];

    host_name(host);
    out[0] = '\0';
    for (const char *c = pattern; *c != '\0' && used + 1 < PATH_BYTES; c++) {
        int n;

        if (c[0] == '%' && c[1] == 'h')
            n = snprintf(out + used, PATH_BYTES - used, "%s", host), c++;
        else if (c[0] == '%' && c[1] == 'p')
            n = snprintf(out + used, PATH_BYTES - used, "%d", (int)getpid()), c++;
        else
            n = snprintf(out + used, PATH_BYTES - used, "%c", *c);
        used += (size_t)n;
    }
}

void hetccl_log_configure(enum hetccl_log_level level, const char *file_path)
{
    pthread_mutex_lock(&configure_lock);
    if (file_path != NULL && file_path[0] != '\0' && atomic_load(&log_fd) == STDERR_FILENO) {
        char path[PATH_BYTES];
        int fd;

        expand_path(file_path, path);
        fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (fd >= 0)
            atomic_store(&log_fd, fd);
    }
    atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
    pthread_mutex_unlock(&configure_lock);
}

bool hetccl_log_is_on(enum hetccl_log_level level)
{
    return (int)level <= atomic_load_explicit(&current_level, memory_order_relaxed);
}

static size_t write_prefix(char line[LINE_BYTES], const char *subsystem)
{
    char host[HOST_BYTES];
    struct timespec now;
    struct tm local;
    size_t used;

    host_name(host);
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    used = strftime(line, LINE_BYTES, "%F %T", &local);
    used +=
        (size_t)snprintf(line + used, LINE_BYTES - used, ".%03ld %s:%d:%ld hetccl %s ", now.tv_nsec / 1000000,
                         host, (int)getpid(), (long)syscall(SYS_gettid), subsystem);
    return used < LINE_BYTES ? used : LINE_BYTES - 1;
}

void hetccl_log(enum hetccl_log_level level, const char *subsystem, const char *format, ...)
{
    int saved_errno = errno;
    char line[LINE_BYTES];
    size_t used;
    va_list args;
    int n;

    if (!hetccl_log_is_on(level))
        return;
    used = write_prefix(line, subsystem);
    va_start(args, format);
    n = vsnprintf(line + used, LINE_BYTES - used, format, args);
    va_end(args);
    if (n > 0)
        used += (size_t)n;
    if (used > LINE_BYTES - 1)
        used = LINE_BYTES - 1;
    line[used++] = '\n';
    /* One write a line keeps the lines of several processes whole; a full disk must not stop a collective. */
    if (write(atomic_load(&log_fd), line, used) < 0)
        errno = 0;
    errno = saved_errno;
}
