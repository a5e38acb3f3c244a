/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Device memory is memory files mapped into one reserved range, where nothing is ever mapped twice: an old
 * address stays invalid for good, and whatever lies in the range and in no allocation is wrong.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake.h"

enum { CANARY = 0xA5 };

static const size_t range_bytes = 1ull << 38;
static char *range_base, *range_next;
static struct fake_memory *memories;

static size_t page_up(size_t bytes)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);

    return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

static bool is_in_range(hetccl_cu_address address)
{
    uintptr_t base = (uintptr_t)range_base;

    return range_base != NULL && address >= base && address < base + range_bytes;
}

/* Room for a mapping with a page on either side that faults; NULL when the range is used up. */
static char *take_range(size_t bytes)
{
    size_t page_bytes = page_up(1);
    char *base;

    if (range_base == NULL) {
        void *range = mmap(NULL, range_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (range == MAP_FAILED)
            return NULL;
        range_base = range_next = range;
    }
    if (bytes + 2 * page_bytes > range_bytes - (size_t)(range_next - range_base))
        return NULL;
    base = range_next + page_bytes;
    range_next = base + bytes;
    return base;
}

static struct fake_memory *add(enum fake_memory_kind kind, char *base, size_t bytes)
{
    struct fake_memory *memory = calloc(1, sizeof(*memory));
    struct CUctx_st *context = fake_current();

    if (memory == NULL)
        return NULL;
    *memory = (struct fake_memory){.next = memories,
                                   .kind = kind,
                                   .device = context != NULL ? context->device : 0,
                                   .base = base,
                                   .bytes = bytes,
                                   .fd = -1};
    memories = memory;
    return memory;
}

char *fake_memory_reserve(size_t bytes)
{
    return take_range(page_up(bytes));
}

struct fake_memory *fake_memory_map(enum fake_memory_kind kind, int fd, size_t bytes)
{
    return fake_memory_map_at(kind, take_range(page_up(bytes)), fd, bytes);
}

struct fake_memory *fake_memory_map_at(enum fake_memory_kind kind, char *base, int fd, size_t bytes)
{
    size_t mapped_bytes = page_up(bytes);
    struct fake_memory *memory;
    struct stat file;

    if (base == NULL || fstat(fd, &file) != 0 ||
        mmap(base, mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
        return NULL;
    memory = add(kind, base, bytes);
    if (memory == NULL)
        return NULL;
    memory->mapped_bytes = mapped_bytes;
    memory->fd = fd;
    memory->inode = file.st_ino;
    memory->n_opened = 1;
    return memory;
}

static void check_canary(const struct fake_memory *memory)
{
    for (size_t i = memory->bytes; i < memory->mapped_bytes; i++) {
        if ((unsigned char)memory->base[i] != CANARY) {
            (void)fprintf(stderr, "fake libcuda: byte %zu of an allocation of %zu bytes at %p was written\n",
                          i, memory->bytes, (void *)memory->base);
            abort();
        }
    }
}

void fake_memory_remove(struct fake_memory *memory)
{
    struct fake_memory **link = &memories;

    while (*link != memory)
        link = &(*link)->next;
    *link = memory->next;
    if (memory->kind == FAKE_PINNED)
        free(memory->base);
    if (memory->mapped_bytes > 0)
        (void)mmap(memory->base, memory->mapped_bytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (memory->fd >= 0)
        (void)close(memory->fd);
    free(memory);
}

struct fake_memory *fake_memory_find(hetccl_cu_address address)
{
    for (struct fake_memory *memory = memories; memory != NULL; memory = memory->next) {
        if (address >= (uintptr_t)memory->base && address - (uintptr_t)memory->base < memory->bytes)
            return memory;
    }
    return NULL;
}

struct fake_memory *fake_memory_find_import(ino_t inode)
{
    for (struct fake_memory *memory = memories; memory != NULL; memory = memory->next) {
        if (memory->kind == FAKE_IMPORTED && memory->inode == inode)
            return memory;
    }
    return NULL;
}

/* Pieces of virtual memory may stand side by side. */
static bool is_inside(const struct fake_memory *memory, hetccl_cu_address address, size_t bytes)
{
    while (memory != NULL && bytes > memory->bytes - (address - (uintptr_t)memory->base)) {
        if (memory->kind != FAKE_MAPPED)
            return false;
        bytes -= memory->bytes - (address - (uintptr_t)memory->base);
        address = (uintptr_t)memory->base + memory->bytes;
        memory = fake_memory_find(address);
    }
    return memory != NULL;
}

bool fake_memory_is_usable(hetccl_cu_address address, size_t bytes)
{
    const struct fake_memory *memory;
    bool is_usable;

    pthread_mutex_lock(&fake_lock);
    memory = fake_memory_find(address);
    if (memory == NULL)
        is_usable = address != 0 && !is_in_range(address);
    else
        is_usable = is_inside(memory, address, bytes);
    pthread_mutex_unlock(&fake_lock);
    return is_usable;
}

bool fake_memory_is_known(hetccl_cu_address address)
{
    bool is_known;

    pthread_mutex_lock(&fake_lock);
    is_known = fake_memory_find(address) != NULL;
    pthread_mutex_unlock(&fake_lock);
    return is_known;
}

size_t fake_memory_count(void)
{
    size_t n = 0;

    pthread_mutex_lock(&fake_lock);
    for (const struct fake_memory *memory = memories; memory != NULL; memory = memory->next)
        n++;
    pthread_mutex_unlock(&fake_lock);
    return n;
}

static size_t device_bytes_left(int device)
{
    const char *text = getenv("FAKE_CUDA_MEMORY_MIB");
    size_t left = (text != NULL ? (size_t)strtoul(text, NULL, 10) : 1024) << 20;

    for (const struct fake_memory *memory = memories; memory != NULL; memory = memory->next) {
        if (memory->device == device && (memory->kind == FAKE_DEVICE || memory->kind == FAKE_MANAGED))
            left -= left < memory->bytes ? left : memory->bytes;
    }
    return left;
}

unsigned fake_memory_alloc(enum fake_memory_kind kind, size_t bytes, hetccl_cu_address *address)
{
    struct fake_memory *memory;
    int fd;

    if (bytes == 0)
        return HETCCL_CUDA_ERROR_INVALID_VALUE;
    if (bytes > device_bytes_left(fake_current()->device))
        return HETCCL_CUDA_ERROR_OUT_OF_MEMORY;
    fd = memfd_create("fake-cuda", MFD_CLOEXEC);
    if (fd < 0)
        return HETCCL_CUDA_ERROR_OUT_OF_MEMORY;
    if (ftruncate(fd, (off_t)page_up(bytes)) != 0)
        goto undo_fd;
    memory = fake_memory_map(kind, fd, bytes);
    if (memory == NULL)
        goto undo_fd;
    memset(memory->base + bytes, CANARY, memory->mapped_bytes - bytes);
    *address = (uintptr_t)memory->base;
    return 0;

undo_fd:
    (void)close(fd);
    return HETCCL_CUDA_ERROR_OUT_OF_MEMORY;
}

unsigned cuMemAlloc_v2(hetccl_cu_address *address, size_t bytes)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_NO_CAPTURE);

    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    code = fake_memory_alloc(FAKE_DEVICE, bytes, address);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

unsigned cuMemAllocManaged(hetccl_cu_address *address, size_t bytes, unsigned flags)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_NO_CAPTURE);

    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    code = fake_memory_alloc(FAKE_MANAGED, bytes, address);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

unsigned cuMemFree_v2(hetccl_cu_address address)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_NO_CAPTURE);
    struct fake_memory *memory;

    if (code != 0 || address == 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    fake_wait_idle(fake_current());
    memory = fake_memory_find(address);
    if (memory == NULL || (uintptr_t)memory->base != address ||
        (memory->kind != FAKE_DEVICE && memory->kind != FAKE_MANAGED)) {
        code = HETCCL_CUDA_ERROR_INVALID_VALUE;
    } else {
        check_canary(memory);
        fake_memory_remove(memory);
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

unsigned cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_NO_CAPTURE);
    void *base = NULL;

    if (code == 0 && (bytes == 0 || flags > 7))
        code = HETCCL_CUDA_ERROR_INVALID_VALUE;
    if (code != 0)
        return code;
    if (bytes > SIZE_MAX / 2 || posix_memalign(&base, page_up(1), bytes) != 0)
        return HETCCL_CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&fake_lock);
    if (add(FAKE_PINNED, base, bytes) == NULL)
        code = HETCCL_CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&fake_lock);
    if (code == 0)
        *memory = base;
    else
        free(base);
    return code;
}

/* Frees what stands at exactly this address, when it is of this kind. */
static unsigned remove_host(void *base, enum fake_memory_kind kind, unsigned code_when_absent)
{
    struct fake_memory *memory;
    unsigned code = 0;

    pthread_mutex_lock(&fake_lock);
    fake_wait_idle(fake_current());
    memory = fake_memory_find((uintptr_t)base);
    if (memory == NULL || memory->base != base || memory->kind != kind)
        code = code_when_absent;
    else
        fake_memory_remove(memory);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

unsigned cuMemFreeHost(void *memory)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_NO_CAPTURE);

    return code != 0 ? code : remove_host(memory, FAKE_PINNED, HETCCL_CUDA_ERROR_INVALID_VALUE);
}

static bool is_any_known(const char *base, size_t bytes)
{
    for (const struct fake_memory *memory = memories; memory != NULL; memory = memory->next) {
        if (base < memory->base + memory->bytes && memory->base < base + bytes)
            return true;
    }
    return is_in_range((uintptr_t)base);
}

unsigned cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_NO_CAPTURE);

    if (code == 0 && (memory == NULL || bytes == 0))
        code = HETCCL_CUDA_ERROR_INVALID_VALUE;
    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    if (is_any_known(memory, bytes))
        code = HETCCL_CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    else if (add(FAKE_REGISTERED, memory, bytes) == NULL)
        code = HETCCL_CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&fake_lock);
    return code;
}

unsigned cuMemHostUnregister(void *memory)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_NO_CAPTURE);

    return code != 0 ? code
                     : remove_host(memory, FAKE_REGISTERED, HETCCL_CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

unsigned cuMemHostGetDevicePointer_v2(hetccl_cu_address *address, void *memory, unsigned flags)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);
    const struct fake_memory *found;

    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    found = fake_memory_find((uintptr_t)memory);
    if (found == NULL || (found->kind != FAKE_PINNED && found->kind != FAKE_REGISTERED))
        code = HETCCL_CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&fake_lock);
    if (code == 0)
        *address = (uintptr_t)memory;
    return code;
}

/* Writes as many bytes as the real driver: an unsigned, an int, a truth value, an address or a size. */
static unsigned tell_attribute(const struct fake_memory *memory, unsigned attribute, void *out)
{
    bool is_host = memory->kind == FAKE_PINNED || memory->kind == FAKE_REGISTERED;

    switch (attribute) {
    case HETCCL_CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)out = is_host ? HETCCL_CU_MEMORYTYPE_HOST : HETCCL_CU_MEMORYTYPE_DEVICE;
        return 0;
    case HETCCL_CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned *)out = memory->kind == FAKE_MANAGED;
        return 0;
    case HETCCL_CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)out = memory->device;
        return 0;
    case HETCCL_CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(bool *)out = memory->kind == FAKE_DEVICE;
        return 0;
    case HETCCL_CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(void **)out = memory->base;
        return 0;
    case HETCCL_CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)out = memory->bytes;
        return 0;
    default:
        return HETCCL_CUDA_ERROR_INVALID_VALUE;
    }
}

/* Of memory that it doesn't know the driver says nothing, which is success. */
unsigned cuPointerGetAttributes(unsigned count, unsigned *attributes, void **data, hetccl_cu_address pointer)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);
    const struct fake_memory *memory;

    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    memory = fake_memory_find(pointer);
    for (unsigned i = 0; memory != NULL && code == 0 && i < count; i++)
        code = tell_attribute(memory, attributes[i], data[i]);
    pthread_mutex_unlock(&fake_lock);
    return code;
}
