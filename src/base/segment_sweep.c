/* SPDX-License-Identifier: Apache-2.0 */
#include "base/segment_sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

static void remove_if_dead(int dir, const char *name)
{
    struct stat info;
    int fd = openat(dir, name, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0)
        return;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
        flock(fd, LOCK_EX | LOCK_NB) == 0 && unlinkat(dir, name, 0) == 0)
        hetccl_log(HETCCL_LOG_INFO, "segment", "removed /dev/shm/%s, left behind by a process that died",
                   name);
    (void)close(fd);
}

static void sweep(void)
{
    static const char prefix[] = "hetccl-";
    int fd = open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;

    if (dir == NULL) {
        if (fd >= 0)
            (void)close(fd);
        return;
    }
    while ((entry = readdir(dir)) != NULL)
        if (strncmp(entry->d_name, prefix, sizeof(prefix) - 1) == 0)
            remove_if_dead(dirfd(dir), entry->d_name);
    (void)closedir(dir);
}

void hetccl_segment_sweep(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, sweep);
}
