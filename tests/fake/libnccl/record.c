/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake_nccl.h"
#include "internal.h"

enum { MAX_FUNCTIONS = 160, MAX_FAILURES = 32, NAME_BYTES = 64 };

enum { WHAT_HANG = 1000, WHAT_ASYNC };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    const char *name;
    unsigned n_calls;
} functions[MAX_FUNCTIONS];
static struct {
    char function[NAME_BYTES];
    unsigned at, what;
} failures[MAX_FAILURES];
static size_t n_functions, n_failures;
static bool is_read;
static char last_call[512], last_error[1024];

static unsigned *find_count(const char *name)
{
    for (size_t i = 0; i < n_functions; i++)
        if (strcmp(functions[i].name, name) == 0)
            return &functions[i].n_calls;
    if (n_functions == MAX_FUNCTIONS)
        abort();
    functions[n_functions].name = strdup(name);
    return &functions[n_functions++].n_calls;
}

static unsigned read_what(const char *word)
{
    if (strcmp(word, "hang") == 0)
        return WHAT_HANG;
    return strcmp(word, "async") == 0 ? WHAT_ASYNC : (unsigned)strtoul(word, NULL, 10);
}

/* With the lock held. */
static void read_script(const char *script)
{
    char name[NAME_BYTES], word[16];
    int n_read;
    unsigned k;

    while (script != NULL && sscanf(script, "%63[^:]:%u:%15[^,]%n", name, &k, word, &n_read) == 3) {
        if (n_failures == MAX_FAILURES)
            abort();
        (void)snprintf(failures[n_failures].function, NAME_BYTES, "%s", name);
        failures[n_failures].at = *find_count(name) + k;
        failures[n_failures++].what = read_what(word);
        script += n_read + (script[n_read] == ',');
    }
    if (script != NULL && *script != '\0') {
        (void)fprintf(stderr, "fake libnccl: FAKE_NCCL_FAIL isn't understood from \"%s\" on\n", script);
        abort();
    }
}

static unsigned count_call(const char *function)
{
    unsigned count;

    if (!is_read)
        read_script(getenv("FAKE_NCCL_FAIL"));
    is_read = true;
    ++*find_count("*");
    count = ++*find_count(function);
    for (size_t i = 0; i < n_failures; i++)
        if (strcmp(failures[i].function, function) == 0 && failures[i].at == count)
            return failures[i].what;
    return OK;
}

void fake_nap(void)
{
    const struct timespec time = {.tv_nsec = NAP_NS};

    (void)nanosleep(&time, NULL);
}

unsigned fake_call(const char *function, struct ncclComm *comm, const char *format, ...)
{
    char arguments[384];
    unsigned what;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(arguments, sizeof(arguments), format, args);
    va_end(args);
    pthread_mutex_lock(&lock);
    (void)snprintf(last_call, sizeof(last_call), "%s(%s)", function, arguments);
    what = count_call(function);
    pthread_mutex_unlock(&lock);
    while (what == WHAT_HANG)
        fake_nap();
    if (what == WHAT_ASYNC && fake_is_comm(comm))
        fake_set_state(comm, REMOTE_ERROR);
    if (what == OK || what == WHAT_ASYNC)
        return OK;
    return fake_group_note(fake_fail(what, "scripted failure of %s", function));
}

const char *fake_name(const struct ncclComm *comm)
{
    static _Thread_local char name[32];

    if (!fake_is_comm(comm))
        return "none";
    (void)snprintf(name, sizeof(name), "%d/%d", comm->rank, comm->n_ranks);
    return name;
}

unsigned fake_fail(unsigned code, const char *format, ...)
{
    va_list args;

    pthread_mutex_lock(&lock);
    va_start(args, format);
    (void)vsnprintf(last_error, sizeof(last_error), format, args);
    va_end(args);
    pthread_mutex_unlock(&lock);
    return code;
}

int fake_version(void)
{
    const char *text = getenv("FAKE_NCCL_VERSION");

    return text != NULL ? atoi(text) : 22807;
}

unsigned ncclGetVersion(int *version)
{
    unsigned code = fake_call("ncclGetVersion", NULL, "%p", (void *)version);

    if (code == OK)
        *version = fake_version();
    return code;
}

const char *ncclGetErrorString(unsigned code)
{
    (void)fake_call("ncclGetErrorString", NULL, "%u", code);
    return code == OK ? "fake: no error" : "fake: an error";
}

const char *ncclGetLastError(struct ncclComm *comm)
{
    static _Thread_local char copy[sizeof(last_error)];

    pthread_mutex_lock(&lock);
    memcpy(copy, last_error, sizeof(copy));
    pthread_mutex_unlock(&lock);
    return copy;
}

const char *fake_nccl_last_call(void)
{
    static _Thread_local char copy[sizeof(last_call)];

    pthread_mutex_lock(&lock);
    memcpy(copy, last_call, sizeof(copy));
    pthread_mutex_unlock(&lock);
    return copy;
}

unsigned fake_nccl_calls(const char *function)
{
    unsigned count;

    pthread_mutex_lock(&lock);
    count = *find_count(function);
    pthread_mutex_unlock(&lock);
    return count;
}

void fake_nccl_fail(const char *script)
{
    pthread_mutex_lock(&lock);
    is_read = true;
    read_script(script);
    pthread_mutex_unlock(&lock);
}
