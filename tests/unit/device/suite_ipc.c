/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/time.h"
#include "suite.h"

extern char **environ;

enum { SHARED_BYTES = 1 << 20, OFFSET = 4096, BYTES = 100000 };

static void write_hex(const void *data, size_t bytes, char *out)
{
    for (size_t i = 0; i < bytes; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", ((const unsigned char *)data)[i]);
}

static bool read_hex(const char *text, void *out, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        unsigned value;

        if (sscanf(text + 2 * i, "%2x", &value) != 1)
            return false;
        ((unsigned char *)out)[i] = (unsigned char)value;
    }
    return text[2 * bytes] == '\0';
}

/* Opens twice, reads the parent's pattern, leaves its own. */
static void child_case(struct suite *suite, const struct hetccl_ipc_handle *handle)
{
    struct hetccl_stream stream = suite_stream(suite);
    struct hetccl_ipc_mapping mapping = {.base = NULL}, again = {.base = NULL};
    unsigned char *pinned = suite_memory(suite, BYTES, HETCCL_MEMORY_PINNED);

    suite->ops->ipc_close(suite->device, &mapping); /* zeroed */
    if (suite_expect_ok(suite, suite->ops->ipc_import(suite->device, handle, &mapping), "import") &&
        suite_expect_ok(suite, suite->ops->ipc_import(suite->device, handle, &again), "import again")) {
        suite_check(suite, mapping.base == again.base, "two bases");
        suite_check(suite, (char *)mapping.address - (char *)mapping.base == OFFSET, "offset");
        suite->ops->ipc_close(suite->device, &again);
        suite_check(suite, again.base == NULL, "the mapping isn't zeroed");
        suite_expect_ok(suite, suite->ops->copy(suite->device, stream, pinned, mapping.address, BYTES), "in");
        suite_finish(suite, stream);
        suite_check(suite, suite_has_pattern(pinned, BYTES, 6), "the parent's bytes");
        suite_fill(pinned, BYTES, 7);
        suite_expect_ok(suite, suite->ops->copy(suite->device, stream, mapping.address, pinned, BYTES),
                        "out");
        suite_finish(suite, stream);
        suite->ops->ipc_close(suite->device, &mapping);
    }
    suite->ops->mem_free(suite->device, pinned, HETCCL_MEMORY_PINNED);
    suite->ops->stream_destroy(suite->device, stream);
}

int suite_ipc_child(struct suite *suite, const char *argument)
{
    struct hetccl_ipc_handle handle;

    suite->case_name = "ipc, child";
    if (suite_check(suite, read_hex(argument, &handle, sizeof(handle)), "the handle's text"))
        child_case(suite, &handle);
    return suite->n_failed == 0 ? 0 : 1;
}

/* The child's exit status; -1 when it took longer than 30 s or died. */
static int run_child(struct suite *suite, const struct hetccl_ipc_handle *handle)
{
    char text[2 * sizeof(*handle) + 1];
    char *argv[] = {(char *)(uintptr_t)suite->program, (char *)(uintptr_t)suite->kind,
                    (char *)(uintptr_t)suite->library, text, NULL};
    uint64_t deadline_ns = hetccl_deadline_ns(30);
    pid_t pid, ended = 0;
    int status = 0;

    write_hex(handle, sizeof(*handle), text);
    (void)fflush(stdout);
    if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ) != 0)
        return -1;
    while (ended == 0 && hetccl_now_ns() < deadline_ns) {
        hetccl_sleep_ns(HETCCL_NS_PER_MS);
        ended = waitpid(pid, &status, WNOHANG);
    }
    if (ended == 0) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, &status, 0);
    }
    return ended > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void case_refused(struct suite *suite)
{
    static const char *const words[] = {"has no", NULL};
    struct hetccl_ipc_handle handle = {.offset_bytes = 3};
    struct hetccl_ipc_mapping mapping = {.base = NULL};

    suite_expect_error(suite, suite->ops->ipc_export(suite->device, &handle, &handle), HETCCL_ERR_USAGE,
                       words);
    suite_expect_error(suite, suite->ops->ipc_import(suite->device, &handle, &mapping), HETCCL_ERR_USAGE,
                       words);
    suite_check(suite, handle.offset_bytes == 3 && mapping.base == NULL, "an output was written on failure");
    suite->ops->ipc_close(suite->device, &mapping);
}

static void case_ipc(struct suite *suite)
{
    struct hetccl_stream stream = suite_stream(suite);
    struct hetccl_ipc_handle handle;
    unsigned char *device, *pinned;

    if (!suite->device->has_ipc) {
        case_refused(suite);
        suite->ops->stream_destroy(suite->device, stream);
        return;
    }
    device = suite_memory(suite, SHARED_BYTES, HETCCL_MEMORY_DEVICE);
    pinned = suite_memory(suite, BYTES, HETCCL_MEMORY_PINNED);
    suite_fill(pinned, BYTES, 6);
    suite_expect_ok(suite, suite->ops->copy(suite->device, stream, device + OFFSET, pinned, BYTES), "in");
    suite_finish(suite, stream);
    if (suite_expect_ok(suite, suite->ops->ipc_export(suite->device, device + OFFSET, &handle), "export")) {
        suite_check(suite, handle.offset_bytes == OFFSET, "offset %llu",
                    (unsigned long long)handle.offset_bytes);
        suite_check(suite, run_child(suite, &handle) == 0, "the child failed");
        suite_expect_ok(suite, suite->ops->copy(suite->device, stream, pinned, device + OFFSET, BYTES),
                        "out");
        suite_finish(suite, stream);
        suite_check(suite, suite_has_pattern(pinned, BYTES, 7), "the child's bytes");
    }
    suite->ops->mem_free(suite->device, pinned, HETCCL_MEMORY_PINNED);
    suite->ops->mem_free(suite->device, device, HETCCL_MEMORY_DEVICE);
    suite->ops->stream_destroy(suite->device, stream);
}

/* Memory that isn't plain device memory can't be shared, and that is said. */
static void case_not_exportable(struct suite *suite)
{
    static const char *const words[] = {"can't be shared", "expandable_segments", NULL};
    struct hetccl_ipc_handle handle = {.offset_bytes = 3};
    void *pinned;

    if (!suite->device->has_ipc)
        return;
    pinned = suite_memory(suite, 4096, HETCCL_MEMORY_PINNED);
    suite_expect_error(suite, suite->ops->ipc_export(suite->device, pinned, &handle), HETCCL_ERR_USAGE,
                       words);
    suite_expect_error(suite, suite->ops->ipc_export(suite->device, &handle, &handle), HETCCL_ERR_USAGE,
                       words);
    suite_check(suite, handle.offset_bytes == 3, "an output was written on failure");
    suite->ops->mem_free(suite->device, pinned, HETCCL_MEMORY_PINNED);
}

const struct suite_case suite_ipc_cases[] = {
    {"ipc", case_ipc},
    {"ipc of other memory", case_not_exportable},
    {NULL, NULL},
};
