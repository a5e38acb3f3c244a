/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"

static void case_identity(struct suite *suite)
{
    const struct hetccl_device *device = suite->device;

    suite_check(suite, strcmp(suite->ops->name, suite->kind) == 0, "name %s", suite->ops->name);
    suite_check(suite, suite->ops->is_synchronous == !suite->is_gpu, "is_synchronous");
    suite_check(suite, device->arch[0] != '\0', "no arch");
    suite_check(suite, device->ordinal >= 0, "ordinal %d", device->ordinal);
    suite_check(suite, (device->pci_key != 0) == suite->is_gpu, "pci_key %#llx",
                (unsigned long long)device->pci_key);
    suite_check(suite, (device->n_units > 0) == suite->is_gpu, "n_units %u", device->n_units);
    suite_check(suite, (device->lane_threads > 0) == suite->is_gpu, "lane_threads %u", device->lane_threads);
    suite_check(suite, (device->block_threads > 0) == suite->is_gpu, "block_threads %u",
                device->block_threads);
    suite_check(suite, device->has_modules == suite->is_gpu, "has_modules");
    suite_check(suite, suite->is_gpu || !device->is_shared, "is_shared");
    suite_check(suite, suite->ops->error_name(suite->device, 1) != NULL, "error_name");
    suite_check(suite, suite->ops->error_name(suite->device, -77) != NULL, "error_name of no code");
}

static void case_alloc(struct suite *suite)
{
    static const size_t sizes[] = {1, 255, 256, 4096, 100001, 3 << 20};
    static const char *const words[] = {"bytes", NULL};
    void *memory = &memory;
    enum hetccl_status status;

    for (int kind = HETCCL_MEMORY_DEVICE; kind <= HETCCL_MEMORY_PINNED; kind++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            void *got = suite_memory(suite, sizes[i], kind);

            suite_check(suite, got != NULL && (uintptr_t)got % 256 == 0, "%zu bytes at %p", sizes[i], got);
            suite->ops->mem_free(suite->device, got, kind);
        }
        suite_expect_error(suite, suite->ops->mem_alloc(suite->device, 0, kind, &memory), HETCCL_ERR_ARG,
                           words);
        suite->ops->mem_free(suite->device, NULL, kind);
    }
    /* More than anybody has. */
    status = suite->ops->mem_alloc(suite->device, suite->is_gpu ? (size_t)1 << 60 : SIZE_MAX,
                                   HETCCL_MEMORY_DEVICE, &memory);
    suite_expect_error(suite, status, suite->is_gpu ? HETCCL_ERR_DEVICE : HETCCL_ERR_SYSTEM, words);
    suite_check(suite, memory == &memory, "an output was written on failure");
}

static void copy_through(struct suite *suite, size_t bytes, size_t offset)
{
    struct hetccl_stream stream = suite_stream(suite);
    unsigned char *device = suite_memory(suite, bytes + offset, HETCCL_MEMORY_DEVICE);
    unsigned char *other = suite_memory(suite, bytes + offset, HETCCL_MEMORY_DEVICE);
    unsigned char *pinned = suite_memory(suite, bytes + offset, HETCCL_MEMORY_PINNED);
    unsigned char *back = suite_memory(suite, bytes + offset, HETCCL_MEMORY_PINNED);

    suite_fill(pinned + offset, bytes, 1);
    memset(back, 0, bytes + offset);
    suite_expect_ok(suite, suite->ops->copy(suite->device, stream, device + offset, pinned + offset, bytes),
                    "in");
    suite_expect_ok(suite, suite->ops->copy(suite->device, stream, other + offset, device + offset, bytes),
                    "across");
    suite_expect_ok(suite, suite->ops->copy(suite->device, stream, back + offset, other + offset, bytes),
                    "out");
    suite_finish(suite, stream);
    suite_check(suite, suite_has_pattern(back + offset, bytes, 1), "%zu bytes at offset %zu", bytes, offset);
    suite_check(suite, offset == 0 || back[offset - 1] == 0, "a byte before was written");
    suite->ops->mem_free(suite->device, back, HETCCL_MEMORY_PINNED);
    suite->ops->mem_free(suite->device, pinned, HETCCL_MEMORY_PINNED);
    suite->ops->mem_free(suite->device, other, HETCCL_MEMORY_DEVICE);
    suite->ops->mem_free(suite->device, device, HETCCL_MEMORY_DEVICE);
    suite->ops->stream_destroy(suite->device, stream);
}

static void case_copy(struct suite *suite)
{
    struct hetccl_stream none = {.handle = NULL};

    copy_through(suite, 1, 0);
    copy_through(suite, 1000003, 0);
    copy_through(suite, 4097, 7);
    suite_expect_ok(suite, suite->ops->copy(suite->device, none, NULL, NULL, 0), "copying nothing");
}

static void case_copy_rows(struct suite *suite)
{
    enum { ROW = 1000, N_ROWS = 7, PITCH = 4096 };
    struct hetccl_stream stream = suite_stream(suite);
    unsigned char *device = suite_memory(suite, (size_t)N_ROWS * PITCH, HETCCL_MEMORY_DEVICE);
    unsigned char *pinned = suite_memory(suite, (size_t)2 * N_ROWS * ROW, HETCCL_MEMORY_PINNED);
    unsigned char *back = pinned + (size_t)N_ROWS * ROW;
    struct hetccl_rows out = {device, pinned, PITCH, ROW, ROW, N_ROWS};
    struct hetccl_rows in = {back, device, ROW, PITCH, ROW, N_ROWS};

    suite_fill(pinned, (size_t)N_ROWS * ROW, 11);
    memset(back, 0, (size_t)N_ROWS * ROW);
    suite_expect_ok(suite, suite->ops->fill(suite->device, stream, device, 0xee, (size_t)N_ROWS * PITCH),
                    "fill");
    suite_expect_ok(suite, suite->ops->copy_rows(suite->device, stream, &out), "rows apart");
    suite_expect_ok(suite, suite->ops->copy_rows(suite->device, stream, &in), "and together again");
    suite_finish(suite, stream);
    suite_check(suite, suite_has_pattern(back, (size_t)N_ROWS * ROW, 11), "the rows");
    suite_expect_ok(suite, suite->ops->copy(suite->device, stream, back, device + ROW, PITCH - ROW),
                    "what lies between");
    suite_finish(suite, stream);
    suite_check(suite, back[0] == 0xee && back[PITCH - ROW - 1] == 0xee, "bytes between rows were written");
    out.n_rows = 0;
    suite_expect_ok(suite, suite->ops->copy_rows(suite->device, stream, &out), "no rows");
    suite->ops->mem_free(suite->device, pinned, HETCCL_MEMORY_PINNED);
    suite->ops->mem_free(suite->device, device, HETCCL_MEMORY_DEVICE);
    suite->ops->stream_destroy(suite->device, stream);
}

/* Plain host memory, and the default stream. */
static void case_copy_pageable(struct suite *suite)
{
    enum { BYTES = 300000 };
    struct hetccl_stream none = {.handle = NULL};
    unsigned char *in = malloc(BYTES), *out = calloc(1, BYTES);
    void *device = suite_memory(suite, BYTES, HETCCL_MEMORY_DEVICE);

    suite_fill(in, BYTES, 2);
    suite_expect_ok(suite, suite->ops->copy(suite->device, none, device, in, BYTES), "in");
    suite_expect_ok(suite, suite->ops->copy(suite->device, none, out, device, BYTES), "out");
    suite_finish(suite, none);
    suite_check(suite, suite_has_pattern(out, BYTES, 2), "the bytes");
    suite->ops->mem_free(suite->device, device, HETCCL_MEMORY_DEVICE);
    free(out);
    free(in);
}

/* Each copy reads what the one before wrote. */
static void case_copy_order(struct suite *suite)
{
    enum { BYTES = 65536, N_STEPS = 64 };
    struct hetccl_stream stream = suite_stream(suite);
    unsigned char *device = suite_memory(suite, (size_t)BYTES * (N_STEPS + 1), HETCCL_MEMORY_DEVICE);
    unsigned char *pinned = suite_memory(suite, BYTES, HETCCL_MEMORY_PINNED);

    suite_fill(pinned, BYTES, 3);
    suite_expect_ok(suite, suite->ops->copy(suite->device, stream, device, pinned, BYTES), "in");
    for (size_t i = 0; i < N_STEPS; i++)
        suite_expect_ok(
            suite,
            suite->ops->copy(suite->device, stream, device + BYTES * (i + 1), device + BYTES * i, BYTES),
            "step");
    suite_finish(suite, stream);
    memset(pinned, 0, BYTES);
    suite_expect_ok(suite,
                    suite->ops->copy(suite->device, stream, pinned, device + (size_t)BYTES * N_STEPS, BYTES),
                    "out");
    suite_finish(suite, stream);
    suite_check(suite, suite_has_pattern(pinned, BYTES, 3), "the bytes");
    suite->ops->mem_free(suite->device, pinned, HETCCL_MEMORY_PINNED);
    suite->ops->mem_free(suite->device, device, HETCCL_MEMORY_DEVICE);
    suite->ops->stream_destroy(suite->device, stream);
}

static void expect_pointer(struct suite *suite, const void *pointer, enum hetccl_pointer_kind kind,
                           const void *base, size_t bytes)
{
    struct hetccl_pointer got = {.kind = -1};
    int ordinal = kind == HETCCL_POINTER_HOST || kind == HETCCL_POINTER_UNKNOWN ? -1 : suite->device->ordinal;

    suite_expect_ok(suite, suite->ops->classify(suite->device, pointer, &got), "classify");
    suite_check(suite, got.kind == kind, "kind %d, wanted %d", (int)got.kind, (int)kind);
    suite_check(suite, got.ordinal == ordinal, "ordinal %d, wanted %d", got.ordinal, ordinal);
    suite_check(suite, got.has_ipc == (kind == HETCCL_POINTER_DEVICE), "has_ipc %d", got.has_ipc);
    if (kind == HETCCL_POINTER_DEVICE)
        suite_check(suite, got.base == base && got.bytes >= bytes, "allocation %p of %zu bytes", got.base,
                    got.bytes);
}

static void case_classify(struct suite *suite)
{
    enum { BYTES = 3 << 20 };
    enum hetccl_pointer_kind device_kind = suite->is_gpu ? HETCCL_POINTER_DEVICE : HETCCL_POINTER_HOST;
    enum hetccl_pointer_kind pinned_kind = suite->is_gpu ? HETCCL_POINTER_PINNED : HETCCL_POINTER_HOST;
    char *device = suite_memory(suite, BYTES, HETCCL_MEMORY_DEVICE);
    char *pinned = suite_memory(suite, BYTES, HETCCL_MEMORY_PINNED);
    char *heap = malloc(BYTES);
    int on_stack = 0;

    expect_pointer(suite, NULL, HETCCL_POINTER_UNKNOWN, NULL, 0);
    expect_pointer(suite, &on_stack, HETCCL_POINTER_HOST, NULL, 0);
    expect_pointer(suite, heap, HETCCL_POINTER_HOST, NULL, 0);
    expect_pointer(suite, device, device_kind, device, BYTES);
    expect_pointer(suite, device + BYTES - 1, device_kind, device, BYTES);
    expect_pointer(suite, pinned, pinned_kind, pinned, BYTES);
    expect_pointer(suite, pinned + 12345, pinned_kind, pinned, BYTES);
    free(heap);
    suite->ops->mem_free(suite->device, pinned, HETCCL_MEMORY_PINNED);
    suite->ops->mem_free(suite->device, device, HETCCL_MEMORY_DEVICE);
}

static void case_register(struct suite *suite)
{
    enum { BYTES = 1 << 20, OFFSET = 4096 };
    static const char *const words[] = {"registered", NULL};
    struct hetccl_stream stream = suite_stream(suite);
    unsigned char *host = aligned_alloc(4096, BYTES);
    unsigned char *device = suite_memory(suite, BYTES, HETCCL_MEMORY_DEVICE);
    void *address = NULL;

    suite_fill(host, BYTES, 4);
    if (suite_expect_ok(suite, suite->ops->host_register(suite->device, host, BYTES), "registering")) {
        expect_pointer(suite, host + 1, suite->is_gpu ? HETCCL_POINTER_PINNED : HETCCL_POINTER_HOST, NULL, 0);
        if (suite->is_gpu)
            suite_check(suite,
                        suite->ops->host_register(suite->device, host, BYTES) == HETCCL_ERR_DEVICE &&
                            strstr(hetccl_last_error_thread(), "ALREADY_REGISTERED") != NULL,
                        "registered twice");
        suite_expect_ok(suite, suite->ops->device_address(suite->device, host + OFFSET, &address),
                        "device address");
        suite_expect_ok(suite, suite->ops->copy(suite->device, stream, device, address, BYTES - OFFSET),
                        "in");
        suite_finish(suite, stream);
        memset(host, 0, BYTES);
        suite_expect_ok(suite, suite->ops->copy(suite->device, stream, address, device, BYTES - OFFSET),
                        "out");
        suite_finish(suite, stream);
        suite_check(suite, host[OFFSET - 1] == 0, "a byte before was written");
        suite->ops->host_unregister(suite->device, host);
    }
    expect_pointer(suite, host + 1, HETCCL_POINTER_HOST, NULL, 0);
    suite_expect_error(suite, suite->ops->host_register(suite->device, NULL, BYTES), HETCCL_ERR_ARG, words);
    suite_expect_error(suite, suite->ops->host_register(suite->device, host, 0), HETCCL_ERR_ARG, words);
    suite_check(suite, suite->ops->device_address(suite->device, NULL, &address) == HETCCL_ERR_ARG,
                "address of NULL");
    if (suite->is_gpu)
        suite_check(suite, suite->ops->device_address(suite->device, host, &address) == HETCCL_ERR_DEVICE,
                    "address of memory that isn't registered");
    suite_expect_ok(suite, suite->ops->host_register(suite->device, host, BYTES), "registering again");
    suite->ops->host_unregister(suite->device, host);
    suite->ops->host_unregister(suite->device, NULL);
    suite->ops->mem_free(suite->device, device, HETCCL_MEMORY_DEVICE);
    suite->ops->stream_destroy(suite->device, stream);
    free(host);
}

static void *work_of_thread(void *arg)
{
    copy_through(arg, 50000, 3);
    return NULL;
}

/* A thread that has never seen the device. */
static void case_other_thread(struct suite *suite)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, work_of_thread, suite);

    if (error == 0)
        (void)pthread_join(thread, NULL);
    suite_check(suite, error == 0, "no thread: error %d", error);
}

const struct suite_case suite_memory_cases[] = {
    {"identity", case_identity},
    {"alloc", case_alloc},
    {"copy", case_copy},
    {"copy of rows", case_copy_rows},
    {"copy of pageable memory", case_copy_pageable},
    {"copies in order", case_copy_order},
    {"classify", case_classify},
    {"register", case_register},
    {"another thread", case_other_thread},
    {NULL, NULL},
};
