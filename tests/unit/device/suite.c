/* SPDX-License-Identifier: Apache-2.0 */
#include "suite.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"

bool suite_check(struct suite *suite, bool is_good, const char *format, ...)
{
    va_list args;

    suite->n_checks++;
    if (is_good)
        return true;
    suite->n_failed++;
    (void)printf("FAILED %s: ", suite->case_name);
    va_start(args, format);
    (void)vprintf(format, args);
    va_end(args);
    (void)printf(" (last error: %s)\n", hetccl_last_error_thread());
    return false;
}

void suite_run(struct suite *suite, const struct suite_case *cases)
{
    for (const struct suite_case *one = cases; one->name != NULL; one++) {
        uint64_t start_ns = hetccl_now_ns();

        suite->case_name = one->name;
        one->run(suite);
        (void)printf("%-32s %7.1f ms\n", one->name,
                     (double)(hetccl_now_ns() - start_ns) / (double)HETCCL_NS_PER_MS);
        (void)fflush(stdout);
    }
}

void suite_expect_error(struct suite *suite, enum hetccl_status got, enum hetccl_status wanted,
                        const char *const *words)
{
    suite_check(suite, got == wanted, "status %d, wanted %d", (int)got, (int)wanted);
    for (; *words != NULL; words++)
        suite_check(suite, strstr(hetccl_last_error_thread(), *words) != NULL, "the text lacks \"%s\"",
                    *words);
}

bool suite_expect_ok(struct suite *suite, enum hetccl_status got, const char *what)
{
    return suite_check(suite, got == HETCCL_OK, "%s: status %d", what, (int)got);
}

bool suite_finish(struct suite *suite, struct hetccl_stream stream)
{
    uint64_t deadline_ns = hetccl_deadline_ns(20);
    enum hetccl_status status = HETCCL_AGAIN;

    while (status == HETCCL_AGAIN && hetccl_now_ns() < deadline_ns) {
        status = suite->ops->stream_query(suite->device, stream);
        if (status == HETCCL_AGAIN)
            hetccl_sleep_ns(100 * HETCCL_NS_PER_US);
    }
    return suite_check(suite, status == HETCCL_OK, "a stream's work isn't done: status %d", (int)status);
}

static unsigned char pattern_at(size_t i, unsigned seed)
{
    return (unsigned char)((i * 2654435761u + seed * 40503u) >> 7);
}

void suite_fill(void *memory, size_t bytes, unsigned seed)
{
    unsigned char *to = memory;

    for (size_t i = 0; i < bytes; i++)
        to[i] = pattern_at(i, seed);
}

bool suite_has_pattern(const void *memory, size_t bytes, unsigned seed)
{
    const unsigned char *from = memory;

    for (size_t i = 0; i < bytes; i++) {
        if (from[i] != pattern_at(i, seed))
            return false;
    }
    return true;
}

struct hetccl_stream suite_stream(struct suite *suite)
{
    struct hetccl_stream stream = {.handle = NULL};

    suite_expect_ok(suite, suite->ops->stream_create(suite->device, HETCCL_STREAM_NORMAL, &stream),
                    "creating a stream");
    return stream;
}

/* Without memory nothing of the case makes sense any more. */
void *suite_memory(struct suite *suite, size_t bytes, enum hetccl_memory_kind kind)
{
    void *memory = NULL;

    if (!suite_expect_ok(suite, suite->ops->mem_alloc(suite->device, bytes, kind, &memory), "allocating"))
        exit(1);
    return memory;
}

void *suite_driver_function(const struct suite *suite, const char *name)
{
    void *library =
        dlopen(suite->library[0] != '\0' ? suite->library : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    return library != NULL ? dlsym(library, name) : NULL;
}
