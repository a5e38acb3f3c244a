/* SPDX-License-Identifier: Apache-2.0 */
#include "perf_id.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ERROR_BYTES = 256, POLL_MS = 2 };

static void pause_ms(long ms)
{
    struct timespec wait = {.tv_nsec = ms * 1000000L};

    (void)nanosleep(&wait, NULL);
}

bool hetccl_perf_set_device(const struct hetccl_perf_options *options)
{
    if (options->device != NULL)
        return setenv("HETCCL_DEVICE", options->device, 1) == 0;
    return setenv("HETCCL_DEVICE", "host", 0) == 0;
}

bool hetccl_perf_set_rank_variables(const struct hetccl_perf_options *options)
{
    uint32_t rank = (uint32_t)options->rank;
    const char *vendor = hetccl_cluster_vendor(&options->cluster, rank);
    char host[32];

    (void)snprintf(host, sizeof(host), "pretend-%u", options->cluster.host_of[rank]);
    if (vendor != NULL && setenv("HETCCL_VENDOR", vendor, 1) != 0)
        return false;
    if (options->cluster.n_hosts > 0 && setenv("HETCCL_HOST_ID", host, 1) != 0)
        return false;
    if (options->link != NULL && setenv("HETCCL_LINK", options->link, 1) != 0)
        return false;
    return hetccl_perf_set_device(options);
}

static bool wait_for_board(const struct hetccl_perf_options *options, const struct hetccl_board *board,
                           ncclUniqueId *out, char error_out[256])
{
    for (long waited_ms = 0; !atomic_load_explicit(&board->is_id_ready, memory_order_acquire);
         waited_ms += POLL_MS) {
        if (waited_ms > options->timeout_s * 1000L) {
            (void)snprintf(error_out, ERROR_BYTES, "the parent made no unique id within %u s",
                           options->timeout_s);
            return false;
        }
        pause_ms(POLL_MS);
    }
    *out = board->id;
    return true;
}

static bool make_id(ncclUniqueId *out, char error_out[256])
{
    if (ncclGetUniqueId(out) == ncclSuccess)
        return true;
    (void)snprintf(error_out, ERROR_BYTES, "ncclGetUniqueId: %s", ncclGetLastError(NULL));
    return false;
}

/* torchrun's own store has MASTER_PORT; the next one is ours. */
static bool adopt_master(void)
{
    const char *address = getenv("MASTER_ADDR");
    const char *port = getenv("MASTER_PORT");
    char text[300];

    if (address == NULL || port == NULL || strlen(address) > 255)
        return false;
    (void)snprintf(text, sizeof(text), strchr(address, ':') != NULL ? "[%s]:%d" : "%s:%d", address,
                   atoi(port) + 1);
    return setenv("NCCL_COMM_ID", text, 1) == 0;
}

/* Whole or not at all: written beside and renamed. */
static bool write_id_file(const char *path, const ncclUniqueId *id, char error_out[256])
{
    char aside[PATH_MAX];
    FILE *file;
    bool is_written;

    if (snprintf(aside, sizeof(aside), "%s.%d", path, (int)getpid()) >= (int)sizeof(aside)) {
        (void)snprintf(error_out, ERROR_BYTES, "--id-file: the path is too long");
        return false;
    }
    file = fopen(aside, "wbe");
    is_written = file != NULL && fwrite(id, sizeof(*id), 1, file) == 1;
    if (file != NULL)
        is_written = fclose(file) == 0 && is_written;
    if (is_written && rename(aside, path) == 0)
        return true;
    (void)snprintf(error_out, ERROR_BYTES, "--id-file %.150s: %s", path, strerror(errno));
    (void)unlink(aside);
    return false;
}

/* A file from before this run started is a left-over of another one. */
static bool read_id_file(const char *path, time_t started, ncclUniqueId *out)
{
    FILE *file = fopen(path, "rbe");
    struct stat facts;
    bool is_read;

    if (file == NULL)
        return false;
    is_read = fstat(fileno(file), &facts) == 0 && facts.st_mtime >= started - 60 &&
              fread(out, sizeof(*out), 1, file) == 1;
    (void)fclose(file);
    return is_read;
}

static bool wait_for_id_file(const struct hetccl_perf_options *options, ncclUniqueId *out,
                             char error_out[256])
{
    time_t started = time(NULL);

    while (!read_id_file(options->id_path, started, out)) {
        if (time(NULL) - started > (time_t)options->timeout_s) {
            (void)snprintf(error_out, ERROR_BYTES, "--id-file %.100s: rank 0 wrote no id there within %u s",
                           options->id_path, options->timeout_s);
            return false;
        }
        pause_ms(50);
    }
    return true;
}

bool hetccl_perf_get_id(const struct hetccl_perf_options *options, const struct hetccl_board *board,
                        ncclUniqueId *out, char error_out[256])
{
    if (board != NULL)
        return wait_for_board(options, board, out, error_out);
    if (options->id_path != NULL) {
        if (options->rank != 0)
            return wait_for_id_file(options, out, error_out);
        return make_id(out, error_out) && write_id_file(options->id_path, out, error_out);
    }
    if (getenv("NCCL_COMM_ID") != NULL || getenv("HETCCL_COMM_ID") != NULL || adopt_master())
        return make_id(out, error_out);
    (void)snprintf(
        error_out, ERROR_BYTES,
        "the ranks don't know where to meet: set NCCL_COMM_ID=host:port, or give --id-file on a shared disk");
    return false;
}
