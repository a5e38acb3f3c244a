/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

static bool write_all(int fd, const char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = write(fd, data, bytes);

        if (n <= 0)
            return false;
        data += n;
        bytes -= (size_t)n;
    }
    return true;
}

bool fake_pack(const void *data, size_t bytes, struct parcel *out)
{
    struct parcel parcel = {.pid = getpid(), .fd = memfd_create("fake-nccl", MFD_CLOEXEC), .bytes = bytes};

    if (parcel.fd < 0)
        return false;
    if (!write_all(parcel.fd, data, bytes)) {
        (void)close(parcel.fd);
        return false;
    }
    *out = parcel;
    return true;
}

void *fake_unpack(const struct parcel *parcel)
{
    char path[64], *data = malloc(parcel->bytes + 1);
    size_t n_read = 0;
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", parcel->pid, parcel->fd);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && data != NULL && n_read < parcel->bytes) {
        ssize_t n = pread(fd, data + n_read, parcel->bytes - n_read, (off_t)n_read);

        if (n <= 0)
            break;
        n_read += (size_t)n;
    }
    if (fd >= 0)
        (void)close(fd);
    if (fd >= 0 && data != NULL && n_read == parcel->bytes)
        return data;
    free(data);
    return NULL;
}

void fake_drop(struct parcel *parcel)
{
    if (parcel->pid == getpid())
        (void)close(parcel->fd);
    parcel->pid = 0;
}
