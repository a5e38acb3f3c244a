/* SPDX-License-Identifier: Apache-2.0 */

/* A handle names the memory file in the exporting process; nothing is left behind when that one is killed. */

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake.h"

struct handle {
    char magic[8];
    int pid, fd;
    uint64_t inode, bytes;
};

_Static_assert(sizeof(struct handle) <= sizeof(struct hetccl_cu_ipc_handle), "a handle fits");

static const char magic[8] = "fakecuda";

unsigned cuIpcGetMemHandle(struct hetccl_cu_ipc_handle *handle, hetccl_cu_address address)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_NO_CAPTURE);
    const struct fake_memory *memory;
    struct handle own = {.pid = getpid()};

    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    memory = fake_memory_find(address);
    if (memory == NULL || memory->kind != FAKE_DEVICE || (uintptr_t)memory->base != address) {
        code = HETCCL_CUDA_ERROR_INVALID_VALUE;
    } else {
        memcpy(own.magic, magic, sizeof(magic));
        own.fd = memory->fd;
        own.inode = memory->inode;
        own.bytes = memory->bytes;
        memset(handle, 0, sizeof(*handle));
        memcpy(handle, &own, sizeof(own));
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

static unsigned open_file(const struct handle *own, hetccl_cu_address *address)
{
    struct fake_memory *memory = fake_memory_find_import((ino_t)own->inode);
    char path[64];
    struct stat file;
    int fd;

    if (memory != NULL) {
        memory->n_opened++;
        *address = (uintptr_t)memory->base;
        return 0;
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", own->pid, own->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return HETCCL_CUDA_ERROR_MAP_FAILED;
    if (fstat(fd, &file) != 0 || file.st_ino != own->inode)
        goto undo_fd;
    memory = fake_memory_map(FAKE_IMPORTED, fd, own->bytes);
    if (memory == NULL)
        goto undo_fd;
    *address = (uintptr_t)memory->base;
    return 0;

undo_fd:
    (void)close(fd);
    return HETCCL_CUDA_ERROR_MAP_FAILED;
}

unsigned cuIpcOpenMemHandle_v2(hetccl_cu_address *address, struct hetccl_cu_ipc_handle handle, unsigned flags)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_NO_CAPTURE);
    struct handle own;

    memcpy(&own, &handle, sizeof(own));
    if (code == 0 &&
        (memcmp(own.magic, magic, sizeof(magic)) != 0 || flags != HETCCL_CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))
        code = HETCCL_CUDA_ERROR_INVALID_VALUE;
    if (code == 0 && own.pid == getpid())
        code = HETCCL_CUDA_ERROR_INVALID_CONTEXT;
    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    code = open_file(&own, address);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

unsigned cuIpcCloseMemHandle(hetccl_cu_address address)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_NO_CAPTURE);
    struct fake_memory *memory;

    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    fake_wait_idle(fake_current());
    memory = fake_memory_find(address);
    if (memory == NULL || memory->kind != FAKE_IMPORTED || (uintptr_t)memory->base != address)
        code = HETCCL_CUDA_ERROR_INVALID_VALUE;
    else if (--memory->n_opened == 0)
        fake_memory_remove(memory);
    pthread_mutex_unlock(&fake_lock);
    return code;
}
