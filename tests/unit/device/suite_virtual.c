/* SPDX-License-Identifier: Apache-2.0 */

/* Device memory that isn't cudaMalloc's: it can be used as any other, but not be shared by IPC. On the fake
 * driver and on a GPU. */

#include <stdlib.h>
#include <string.h>

#include "device/cuda/cuda_abi.h"
#include "suite.h"

/* As cuda.h has them. */
struct location {
    unsigned type;
    int id;
};

struct properties {
    unsigned type, handle_types;
    struct location location;
    void *windows;
    unsigned char flags[8];
};

struct access {
    struct location location;
    unsigned flags;
};

_Static_assert(sizeof(struct properties) == 32 && sizeof(struct access) == 12, "CUDA's layouts");

enum { PIECE_BYTES = 2 << 20, N_PIECES = 2, PINNED_ALLOCATION = 1, ON_DEVICE = 1, READ_WRITE = 3 };

struct driver {
    unsigned (*alloc_async)(hetccl_cu_address *address, size_t bytes, struct CUstream_st *stream);
    unsigned (*free_async)(hetccl_cu_address address, struct CUstream_st *stream);
    unsigned (*reserve)(hetccl_cu_address *address, size_t bytes, size_t alignment, hetccl_cu_address hint,
                        unsigned long long flags);
    unsigned (*unreserve)(hetccl_cu_address address, size_t bytes);
    unsigned (*create)(unsigned long long *handle, size_t bytes, const struct properties *properties,
                       unsigned long long flags);
    unsigned (*release)(unsigned long long handle);
    unsigned (*map)(hetccl_cu_address address, size_t bytes, size_t offset, unsigned long long handle,
                    unsigned long long flags);
    unsigned (*unmap)(hetccl_cu_address address, size_t bytes);
    unsigned (*set_access)(hetccl_cu_address address, size_t bytes, const struct access *access,
                           size_t count);
};

static void find(struct suite *suite, const char *name, void *function_out)
{
    void *function = suite_driver_function(suite, name);

    if (!suite_check(suite, function != NULL, "no driver function %s", name))
        exit(1);
    memcpy(function_out, &function, sizeof(function));
}

static struct driver find_driver(struct suite *suite)
{
    struct driver driver;

    find(suite, "cuMemAllocAsync", &driver.alloc_async);
    find(suite, "cuMemFreeAsync", &driver.free_async);
    find(suite, "cuMemAddressReserve", &driver.reserve);
    find(suite, "cuMemAddressFree", &driver.unreserve);
    find(suite, "cuMemCreate", &driver.create);
    find(suite, "cuMemRelease", &driver.release);
    find(suite, "cuMemMap", &driver.map);
    find(suite, "cuMemUnmap", &driver.unmap);
    find(suite, "cuMemSetAccess", &driver.set_access);
    return driver;
}

/* Classified as device memory of this device that IPC can't share; export says what to do. */
static void check_kind(struct suite *suite, void *address, size_t least_bytes)
{
    static const char *const words[] = {"can't be shared", "expandable_segments", "cudaMallocAsync", NULL};
    struct hetccl_pointer pointer = {.kind = HETCCL_POINTER_UNKNOWN};
    struct hetccl_ipc_handle handle;

    suite_expect_ok(suite, suite->ops->classify(suite->device, address, &pointer), "classify");
    suite_check(suite, pointer.kind == HETCCL_POINTER_DEVICE, "kind %d", (int)pointer.kind);
    suite_check(suite, pointer.ordinal == suite->device->ordinal, "ordinal %d", pointer.ordinal);
    suite_check(suite, !pointer.has_ipc, "IPC of memory that has none");
    suite_check(suite, pointer.bytes >= least_bytes, "%zu bytes", pointer.bytes);
    suite_expect_error(suite, suite->ops->ipc_export(suite->device, address, &handle), HETCCL_ERR_USAGE,
                       words);
}

/* Fill, kernel and copy: across the border of two pieces where there is one. */
static void check_use(struct suite *suite, struct hetccl_stream stream, unsigned char *memory, size_t bytes)
{
    unsigned char *back = suite_memory(suite, bytes, HETCCL_MEMORY_PINNED);
    const void *srcs[] = {memory, memory};
    struct hetccl_reduce reduce = {
        .dst = memory, .srcs = srcs, .n_srcs = 2, .count = bytes, .type = HETCCL_UINT8, .red = HETCCL_SUM};
    size_t i = 0;

    suite_expect_ok(suite, suite->ops->fill(suite->device, stream, memory, 21, bytes), "fill");
    suite_expect_ok(suite, suite->ops->reduce(suite->device, stream, &reduce), "reduce");
    suite_expect_ok(suite, suite->ops->copy(suite->device, stream, back, memory, bytes), "copy");
    suite_finish(suite, stream);
    while (i < bytes && back[i] == 42)
        i++;
    suite_check(suite, i == bytes, "byte %zu is %u", i, i < bytes ? back[i] : 0u);
    suite->ops->mem_free(suite->device, back, HETCCL_MEMORY_PINNED);
}

static void case_pool(struct suite *suite)
{
    struct driver driver = find_driver(suite);
    struct hetccl_stream stream = suite_stream(suite);
    hetccl_cu_address address = 0;

    suite->ops->make_current(suite->device);
    suite_check(suite, driver.alloc_async(&address, 100000, stream.handle) == 0, "memory of a pool");
    suite_finish(suite, stream);
    check_kind(suite, (void *)(uintptr_t)(address + 77), 100000);
    check_use(suite, stream, (unsigned char *)(uintptr_t)address, 100000);
    suite_check(suite, driver.free_async(address, stream.handle) == 0, "free");
    suite_finish(suite, stream);
    suite->ops->stream_destroy(suite->device, stream);
}

static hetccl_cu_address map_pieces(struct suite *suite, const struct driver *driver)
{
    struct properties properties = {.type = PINNED_ALLOCATION,
                                    .location = {.type = ON_DEVICE, .id = suite->device->ordinal}};
    struct access access = {.location = properties.location, .flags = READ_WRITE};
    hetccl_cu_address base = 0;

    suite_check(suite, driver->reserve(&base, (size_t)N_PIECES * PIECE_BYTES, 0, 0, 0) == 0, "reserve");
    for (size_t i = 0; i < N_PIECES; i++) {
        unsigned long long handle = 0;

        suite_check(suite, driver->create(&handle, PIECE_BYTES, &properties, 0) == 0, "create");
        suite_check(suite, driver->map(base + i * PIECE_BYTES, PIECE_BYTES, 0, handle, 0) == 0, "map");
        suite_check(suite, driver->release(handle) == 0, "release");
    }
    suite_check(suite, driver->set_access(base, (size_t)N_PIECES * PIECE_BYTES, &access, 1) == 0, "access");
    return base;
}

static void case_virtual(struct suite *suite)
{
    struct driver driver = find_driver(suite);
    struct hetccl_stream stream = suite_stream(suite);
    hetccl_cu_address base;

    suite->ops->make_current(suite->device);
    base = map_pieces(suite, &driver);
    check_kind(suite, (void *)(uintptr_t)base, PIECE_BYTES);
    check_kind(suite, (void *)(uintptr_t)(base + PIECE_BYTES + 5), PIECE_BYTES);
    check_use(suite, stream, (unsigned char *)(uintptr_t)base + PIECE_BYTES - 5000, 10000);
    suite_check(suite, driver.unmap(base, (size_t)N_PIECES * PIECE_BYTES) == 0, "unmap");
    suite_check(suite, driver.unreserve(base, (size_t)N_PIECES * PIECE_BYTES) == 0, "give back");
    suite->ops->stream_destroy(suite->device, stream);
}

const struct suite_case suite_virtual_cases[] = {
    {"cuda: memory of a pool", case_pool},
    {"cuda: virtual memory", case_virtual},
    {NULL, NULL},
};
