/* SPDX-License-Identifier: Apache-2.0 */
#include "board.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static size_t board_bytes(uint32_t n_ranks)
{
    return sizeof(struct hetccl_board) + n_ranks * sizeof(struct hetccl_board_slot);
}

static struct hetccl_board *map_board(int fd, uint32_t n_ranks)
{
    void *memory = mmap(NULL, board_bytes(n_ranks), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

struct hetccl_board *hetccl_board_create(uint32_t n_ranks, int *fd_out)
{
    int fd = memfd_create("hetccl-perf", 0);
    struct hetccl_board *board;
    int error;

    if (fd < 0)
        return NULL;
    if (ftruncate(fd, (off_t)board_bytes(n_ranks)) != 0)
        goto undo_memfd;
    board = map_board(fd, n_ranks);
    if (board == NULL)
        goto undo_memfd;
    board->n_ranks = n_ranks;
    *fd_out = fd;
    return board;

undo_memfd:
    error = errno;
    close(fd);
    errno = error;
    return NULL;
}

struct hetccl_board *hetccl_board_open(int fd, uint32_t n_ranks)
{
    struct hetccl_board *board = map_board(fd, n_ranks);

    close(fd);
    if (board != NULL && board->n_ranks != n_ranks) {
        errno = EINVAL;
        return NULL;
    }
    return board;
}

void hetccl_board_beat(struct hetccl_board_slot *slot)
{
    if (slot != NULL)
        atomic_fetch_add_explicit(&slot->beats, 1, memory_order_release);
}

void hetccl_board_say(struct hetccl_board_slot *slot, const char *format, ...)
{
    va_list args;

    if (slot == NULL)
        return;
    va_start(args, format);
    (void)vsnprintf(slot->doing, sizeof(slot->doing), format, args);
    va_end(args);
    hetccl_board_beat(slot);
}

static unsigned long now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long)now.tv_sec * 1000000000ul + (unsigned long)now.tv_nsec;
}

void hetccl_board_fail(struct hetccl_board_slot *slot, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (slot != NULL) {
        (void)vsnprintf(slot->error, sizeof(slot->error), format, args);
        atomic_store_explicit(&slot->failed_at_ns, now_ns(), memory_order_release);
    } else {
        (void)fputs("hetccl perf: ", stderr);
        (void)vfprintf(stderr, format, args);
        (void)fputc('\n', stderr);
    }
    va_end(args);
}
