/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

enum { MAX_FUNCTIONS = 128, MAX_FAILURES = 32, NAME_BYTES = 64 };

struct failure {
    char function[NAME_BYTES];
    unsigned at; /* count of calls at which it strikes */
    unsigned code;
};

static struct {
    const char *name;
    unsigned n_calls;
} functions[MAX_FUNCTIONS];

static struct failure failures[MAX_FAILURES];
static size_t n_functions, n_failures;
static unsigned n_calls_of_all;
static bool is_read;

static unsigned *find_count(const char *name)
{
    if (strcmp(name, "*") == 0)
        return &n_calls_of_all;
    for (size_t i = 0; i < n_functions; i++) {
        if (strcmp(functions[i].name, name) == 0)
            return &functions[i].n_calls;
    }
    if (n_functions == MAX_FUNCTIONS)
        abort();
    functions[n_functions].name = strdup(name);
    return &functions[n_functions++].n_calls;
}

static void add_failure(const char *function, unsigned k, unsigned code)
{
    if (n_failures == MAX_FAILURES)
        abort();
    (void)snprintf(failures[n_failures].function, NAME_BYTES, "%s", function);
    failures[n_failures].at = *find_count(function) + k;
    failures[n_failures++].code = code;
}

static void read_environment(void)
{
    const char *script = getenv("FAKE_CUDA_FAIL");
    char name[NAME_BYTES];
    unsigned k, code;
    int n_read;

    is_read = true;
    while (script != NULL && sscanf(script, "%63[^:]:%u:%u%n", name, &k, &code, &n_read) == 3) {
        add_failure(name, k, code);
        script += n_read;
        if (*script == ',')
            script++;
    }
    if (script != NULL && *script != '\0') {
        (void)fprintf(stderr, "fake libcuda: FAKE_CUDA_FAIL isn't understood from \"%s\" on\n", script);
        abort();
    }
}

static unsigned count_call(const char *function)
{
    unsigned count;

    if (!is_read)
        read_environment();
    count = ++*find_count(function);
    if (strcmp(function, "kernel") != 0)
        n_calls_of_all++;
    for (size_t i = 0; i < n_failures; i++) {
        bool is_of_all = strcmp(failures[i].function, "*") == 0 && strcmp(function, "kernel") != 0;

        if (is_of_all && failures[i].at == n_calls_of_all)
            return failures[i].code;
        if (!is_of_all && strcmp(failures[i].function, function) == 0 && failures[i].at == count)
            return failures[i].code;
    }
    return 0;
}

unsigned fake_script_call(const char *function)
{
    unsigned code;

    pthread_mutex_lock(&fake_lock);
    code = count_call(function);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

void fake_cuda_fail(const char *function, unsigned k, unsigned code)
{
    pthread_mutex_lock(&fake_lock);
    if (!is_read)
        read_environment();
    if (code == 0)
        n_failures = 0;
    else
        add_failure(function, k, code);
    pthread_mutex_unlock(&fake_lock);
}

unsigned fake_cuda_calls(const char *function)
{
    unsigned count;

    pthread_mutex_lock(&fake_lock);
    count = *find_count(function);
    pthread_mutex_unlock(&fake_lock);
    return count;
}
