/* SPDX-License-Identifier: Apache-2.0 */
#include "base/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/segment_sweep.h"

#define SHM_DIR      "/dev/shm"
#define NAME_PREFIX  "/hetccl-"
#define BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"

enum {
    RANDOM_BYTES = 16,
    PATH_BYTES = HETCCL_SEGMENT_NAME_BYTES + 16,
    NAME_ATTEMPTS = 16,
    PAGE_BYTES = 4096
};

/* A memory file can be sealed against shrinking: nobody can make a mapping of it raise SIGBUS. */
enum { MEMORY_FILE_SEALS = F_SEAL_SHRINK | F_SEAL_GROW };

static atomic_bool has_warned;

static uint64_t free_bytes_of(const char *path)
{
    struct statvfs info;

    return statvfs(path, &info) == 0 ? (uint64_t)info.f_bavail * info.f_frsize : 0;
}

/* open() with a fault point; -1 and errno. */
static int open_file(const char *path, int flags)
{
    if (hetccl_fault_hit(HETCCL_FAULT_FILE)) {
        errno = EROFS;
        return -1;
    }
    return open(path, flags | O_CLOEXEC | O_NOCTTY, 0600);
}

static int make_random_name(char name[HETCCL_SEGMENT_NAME_BYTES])
{
    unsigned char random[RANDOM_BYTES];
    size_t used = sizeof(NAME_PREFIX) - 1;

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return errno;
    memcpy(name, NAME_PREFIX, sizeof(NAME_PREFIX));
    for (size_t i = 0; i < RANDOM_BYTES; i++, used += 2)
        (void)snprintf(name + used, 3, "%02x", random[i]);
    return 0;
}

/* Really takes the pages, so that no later touch can fail. Returns an error number. */
static int reserve(int fd, size_t bytes)
{
    struct rlimit limit;
    int error;

    if (hetccl_fault_hit(HETCCL_FAULT_FILE))
        return ENOSPC;
    /* Looked up first: going over the limit (ulimit -f) would raise SIGXFSZ in the user's process. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur)
        return EFBIG;
    do {
        error = posix_fallocate(fd, 0, (off_t)bytes);
    } while (error == EINTR);
    return error;
}

/* Maps what is reserved; MAP_FAILED never leaves here. Returns an error number. */
static int map(int fd, size_t bytes, void **out)
{
    void *memory;

    if (hetccl_fault_hit(HETCCL_FAULT_MMAP))
        return ENOMEM;
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return errno;
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
    *out = memory;
    return 0;
}

/*
 * Takes the lock that tells a living owner from a dead one (segment_sweep.h). EEXIST when a sweep came in
 * between the creation and the lock: that name is lost, another one must be tried.
 */
static int lock_name(int fd)
{
    struct stat info;

    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK ? EEXIST : errno;
    return fstat(fd, &info) == 0 && info.st_nlink > 0 ? 0 : EEXIST;
}

static int create_locked(const char *path, int *fd_out)
{
    int fd = open_file(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
    int error = fd < 0 ? errno : lock_name(fd);

    if (error == 0)
        *fd_out = fd;
    else if (fd >= 0)
        (void)close(fd);
    return error;
}

/* A reserved, mapped file in /dev/shm, or an error number and nothing left behind. */
static int make_file(size_t bytes, struct hetccl_segment *out)
{
    struct hetccl_segment segment = {.bytes = bytes, .fd = -1, .has_file = true, .creator_pid = getpid()};
    char path[PATH_BYTES];
    int error = EEXIST;

    for (int i = 0; i < NAME_ATTEMPTS && error == EEXIST; i++) {
        error = make_random_name(segment.name);
        if (error != 0)
            return error;
        (void)snprintf(path, sizeof(path), SHM_DIR "%s", segment.name);
        error = create_locked(path, &segment.fd);
    }
    if (error != 0)
        return error;
    error = reserve(segment.fd, bytes);
    if (error == 0)
        error = map(segment.fd, bytes, &segment.memory);
    if (error != 0) {
        (void)unlink(path);
        (void)close(segment.fd);
        return error;
    }
    /* The descriptor holds the lock as long as the name stands. */
    *out = segment;
    return 0;
}

/* The same as an anonymous memory file, which peers open through /proc while the descriptor is open. */
static int make_memory_file(size_t bytes, struct hetccl_segment *out)
{
    struct hetccl_segment segment = {.bytes = bytes, .creator_pid = getpid()};
    int error;

    if (hetccl_fault_hit(HETCCL_FAULT_FILE))
        return EMFILE;
    segment.fd = memfd_create("hetccl", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (segment.fd < 0)
        return errno;
    error = reserve(segment.fd, bytes);
    if (error == 0 && fcntl(segment.fd, F_ADD_SEALS, MEMORY_FILE_SEALS) != 0)
        error = errno;
    if (error == 0)
        error = map(segment.fd, bytes, &segment.memory);
    if (error != 0) {
        (void)close(segment.fd);
        return error;
    }
    (void)snprintf(segment.name, sizeof(segment.name), "/proc/%d/fd/%d", (int)getpid(), segment.fd);
    *out = segment;
    return 0;
}

static bool is_out_of_room(int error)
{
    return error == ENOSPC || error == ENOMEM || error == EDQUOT || error == EFBIG;
}

/* Tries wanted and its halves down to least, as long as only room is missing. Returns the last error number.
 */
static int make_of_some_size(int (*make)(size_t, struct hetccl_segment *), size_t wanted_bytes,
                             size_t least_bytes, struct hetccl_segment *out)
{
    int error = make(wanted_bytes, out);

    for (size_t bytes = wanted_bytes; is_out_of_room(error) && bytes > least_bytes;) {
        bytes = hetccl_max_size(hetccl_round_up(bytes / 2, PAGE_BYTES), least_bytes);
        error = make(bytes, out);
    }
    return error;
}

static void warn_once(size_t wanted_bytes, uint64_t free_bytes, const struct hetccl_segment *got,
                      int file_error)
{
    if (atomic_exchange(&has_warned, true))
        return;
    hetccl_log(HETCCL_LOG_WARN, "segment",
               "%s: needed %zu bytes, %" PRIu64
               " free%s%s; going on with %zu bytes %s; give the container more (--shm-size)",
               SHM_DIR, wanted_bytes, free_bytes, file_error != 0 ? ": " : "",
               file_error != 0 ? strerror(file_error) : "", got->bytes,
               got->has_file ? "there" : "in a memory file");
}

enum hetccl_status hetccl_segment_create(size_t wanted_bytes, size_t least_bytes, struct hetccl_segment *out)
{
    const uint64_t free_bytes = free_bytes_of(SHM_DIR); /* before anything is taken */
    int file_error, memory_error = 0;

    if (wanted_bytes == 0 || least_bytes == 0 || wanted_bytes < least_bytes || wanted_bytes > INT64_MAX / 2)
        return hetccl_fail(HETCCL_ERR_ARG, "shared segment of %zu bytes, at least %zu: sizes are impossible",
                           wanted_bytes, least_bytes);
    hetccl_segment_sweep();
    file_error = make_of_some_size(make_file, wanted_bytes, least_bytes, out);
    if (file_error != 0)
        memory_error = make_of_some_size(make_memory_file, wanted_bytes, least_bytes, out);
    if (memory_error != 0)
        return hetccl_fail(
            HETCCL_ERR_SYSTEM,
            "no shared memory: %s: needed %zu bytes (at least %zu), %" PRIu64 " free: %s; memory file: %s; "
            "give the container more (--shm-size, memory limit) or set HETCCL_LINK=tcp",
            SHM_DIR, wanted_bytes, least_bytes, free_bytes, strerror(file_error), strerror(memory_error));
    if (file_error != 0 || out->bytes < wanted_bytes)
        warn_once(wanted_bytes, free_bytes, out, file_error);
    return HETCCL_OK;
}

/* Digits only, 1 to 10 of them. Returns what follows, or NULL. */
static const char *skip_number(const char *text)
{
    size_t length = strspn(text, "0123456789");

    return length >= 1 && length <= 10 ? text + length : NULL;
}

static bool is_file_name(const char *name)
{
    size_t length = sizeof(NAME_PREFIX) - 1;

    return strncmp(name, NAME_PREFIX, length) == 0 &&
           strspn(name + length, "0123456789abcdef") == 2 * RANDOM_BYTES &&
           name[length + 2 * RANDOM_BYTES] == '\0';
}

static bool is_memory_file_name(const char *name)
{
    const char *rest = strncmp(name, "/proc/", 6) == 0 ? skip_number(name + 6) : NULL;

    if (rest == NULL || strncmp(rest, "/fd/", 4) != 0)
        return false;
    rest = skip_number(rest + 4);
    return rest != NULL && *rest == '\0';
}

/* What keeps a peer's file from being what it was said to be, or NULL. */
static const char *find_flaw(int fd, size_t bytes, bool is_memory_file)
{
    struct stat info;
    int seals;

    if (fstat(fd, &info) != 0)
        return "can't be examined";
    if (!S_ISREG(info.st_mode))
        return "is no regular file";
    if (info.st_uid != geteuid())
        return "belongs to another user";
    if ((uint64_t)info.st_size != bytes)
        return "has another size";
    if (!is_memory_file)
        return NULL;
    seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & MEMORY_FILE_SEALS) == MEMORY_FILE_SEALS ? NULL : "is no sealed memory file";
}

enum hetccl_status hetccl_segment_open(const char *name, size_t bytes, struct hetccl_segment *out)
{
    struct hetccl_segment segment = {.bytes = bytes, .fd = -1};
    bool is_memory_file = is_memory_file_name(name);
    char path[PATH_BYTES];
    const char *flaw;
    int fd, error;

    if ((!is_memory_file && !is_file_name(name)) || bytes == 0)
        return hetccl_fail(HETCCL_ERR_ARG,
                           "shared segment name '%.*s' of %zu bytes is none of ours; not opened",
                           HETCCL_SEGMENT_NAME_BYTES, name, bytes);
    (void)snprintf(path, sizeof(path), "%s%s", is_memory_file ? "" : SHM_DIR, name);
    /* O_NONBLOCK: a recycled process id may make the path a FIFO. */
    fd = open_file(path, O_RDWR | O_NONBLOCK | (is_memory_file ? 0 : O_NOFOLLOW));
    if (fd < 0)
        return hetccl_fail(
            HETCCL_ERR_SYSTEM,
            "shared segment %s of a peer can't be opened: %s; do both see the same %s and process ids?", path,
            strerror(errno), SHM_DIR);
    flaw = find_flaw(fd, bytes, is_memory_file);
    error = flaw == NULL ? map(fd, bytes, &segment.memory) : 0;
    (void)close(fd);
    if (flaw != NULL)
        return hetccl_fail(HETCCL_ERR_SYSTEM, "shared segment %s of a peer (%zu bytes expected) %s; not used",
                           path, bytes, flaw);
    if (error != 0)
        return hetccl_fail(HETCCL_ERR_SYSTEM,
                           "shared segment %s of %zu bytes can't be mapped: %s; raise the limit (ulimit -v)",
                           path, bytes, strerror(error));
    (void)snprintf(segment.name, sizeof(segment.name), "%s", name);
    *out = segment;
    return HETCCL_OK;
}

void hetccl_segment_unlink(struct hetccl_segment *segment)
{
    char path[PATH_BYTES];

    /* A forked child has copies of our structs, but the name is not its to take away. */
    if (segment->creator_pid == 0 || segment->creator_pid != getpid())
        return;
    if (segment->has_file) {
        (void)snprintf(path, sizeof(path), SHM_DIR "%s", segment->name);
        (void)unlink(path);
    }
    if (segment->fd >= 0)
        (void)close(segment->fd);
    segment->has_file = false;
    segment->fd = -1;
    segment->creator_pid = 0;
}

void hetccl_segment_fini(struct hetccl_segment *segment)
{
    hetccl_segment_unlink(segment);
    if (segment->memory != NULL)
        (void)munmap(segment->memory, segment->bytes);
    memset(segment, 0, sizeof(*segment));
    segment->fd = -1;
}

/* FNV-1a. */
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *byte = data;

    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ byte[i]) * 0x100000001b3ull;
    return hash;
}

uint64_t hetccl_segment_place(void)
{
    uint64_t hash = 0xcbf29ce484222325ull;
    char boot_id[64];
    struct stat info;
    ssize_t n_read = 0;
    int fd = open(BOOT_ID_PATH, O_RDONLY | O_CLOEXEC);

    /* Device and inode of a tmpfs are small numbers, alike on most hosts; the boot id tells hosts apart. */
    if (fd >= 0) {
        n_read = read(fd, boot_id, sizeof(boot_id));
        (void)close(fd);
    }
    hash = hash_bytes(hash, boot_id, n_read > 0 ? (size_t)n_read : 0);
    if (stat(SHM_DIR, &info) == 0) {
        hash = hash_bytes(hash, &info.st_dev, sizeof(info.st_dev));
        hash = hash_bytes(hash, &info.st_ino, sizeof(info.st_ino));
    }
    return hash;
}
