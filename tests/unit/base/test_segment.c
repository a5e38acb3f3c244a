/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/segment.h"

enum { MIB = 1 << 20, CHILD_OK = 0, CHILD_SKIPPED = 77 };

static bool has_name(const struct hetccl_segment *segment)
{
    char path[160];

    (void)snprintf(path, sizeof(path), "/dev/shm%s", segment->name);
    return access(path, F_OK) == 0;
}

static bool is_zero(const unsigned char *bytes, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++) {
        if (bytes[i] != 0)
            return false;
    }
    return true;
}

/* Runs body in a child process; the child's exit code, or 128 + the signal that ended it. */
static int run_child(int (*body)(void *), void *arg)
{
    int status = 0;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0)
        _exit(body(arg));
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Opens the parent's segment by its name and answers what it finds in it. */
static int answer_peer(void *arg)
{
    const struct hetccl_segment *parent = arg;
    struct hetccl_segment mine = {0};
    unsigned char *bytes;

    if (hetccl_segment_open(parent->name, parent->bytes, &mine) != HETCCL_OK)
        return 1;
    bytes = mine.memory;
    if (mine.memory == parent->memory || bytes[0] != 0x5a || bytes[mine.bytes - 1] != 0xa5)
        return 2;
    bytes[1] = 0x77;
    hetccl_segment_fini(&mine);
    return CHILD_OK;
}

static void check_round_trip(struct hetccl_segment *segment)
{
    unsigned char *bytes = segment->memory;

    assert_true(is_zero(bytes, segment->bytes));
    bytes[0] = 0x5a;
    bytes[segment->bytes - 1] = 0xa5;
    assert_int_equal(run_child(answer_peer, segment), CHILD_OK);
    assert_int_equal(bytes[1], 0x77);
}

static void test_file_round_trip_and_unlink(void **state)
{
    struct hetccl_segment segment = {0}, other = {0};
    struct stat info;
    char path[160];

    assert_int_equal(hetccl_segment_create(MIB, MIB, &segment), HETCCL_OK);
    assert_int_equal(segment.bytes, MIB);
    assert_true(segment.has_file);
    (void)snprintf(path, sizeof(path), "/dev/shm%s", segment.name);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    assert_int_equal(info.st_blocks * 512, MIB); /* really reserved */
    check_round_trip(&segment);
    assert_int_equal(hetccl_segment_create(1, 1, &other), HETCCL_OK);
    assert_string_not_equal(segment.name, other.name);
    hetccl_segment_fini(&other);

    hetccl_segment_unlink(&segment);
    assert_false(has_name(&segment));
    assert_int_equal(((unsigned char *)segment.memory)[0], 0x5a);
    hetccl_segment_unlink(&segment);
    hetccl_segment_fini(&segment);
    assert_null(segment.memory);
    hetccl_segment_fini(&segment);
}

static int fini_copy(void *arg)
{
    struct hetccl_segment copy = *(struct hetccl_segment *)arg;

    hetccl_segment_unlink(&copy);
    hetccl_segment_fini(&copy);
    return copy.memory == NULL ? CHILD_OK : 1;
}

static void test_forked_child_takes_no_name_away(void **state)
{
    struct hetccl_segment segment = {0}, copy;

    assert_int_equal(hetccl_segment_create(4096, 4096, &segment), HETCCL_OK);
    copy = segment;
    assert_int_equal(run_child(fini_copy, &segment), CHILD_OK);
    assert_true(has_name(&copy));
    hetccl_segment_fini(&segment);
    assert_false(has_name(&copy));
}

static void test_names_are_checked(void **state)
{
    static const char *const bad[] = {
        "",
        "/hetccl-",
        "/hetccl-0123456789abcdef0123456789abcde",
        "/hetccl-0123456789abcdef0123456789abcdef0",
        "/hetccl-0123456789ABCDEF0123456789abcdef",
        "/hetccl-0123456789abcdef/../../etc/passwd",
        "hetccl-0123456789abcdef0123456789abcdef",
        "/../etc/passwd",
        "/proc/1/fd/",
        "/proc//fd/3",
        "/proc/self/fd/3",
        "/proc/1/fd/3/x",
        "/proc/1/mem",
        "/proc/12345678901/fd/3",
        "/proc/1/fd/-3",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct hetccl_segment segment = {0};

        assert_int_equal(hetccl_segment_open(bad[i], 4096, &segment), HETCCL_ERR_ARG);
        assert_non_null(strstr(hetccl_last_error_thread(), "none of ours"));
        assert_null(segment.memory);
    }
}

static void check_refused(const char *name, size_t bytes, const char *expected)
{
    struct hetccl_segment segment = {0};

    assert_int_equal(hetccl_segment_open(name, bytes, &segment), HETCCL_ERR_SYSTEM);
    assert_non_null(strstr(hetccl_last_error_thread(), expected));
    assert_null(segment.memory);
}

static void test_other_files_are_refused(void **state)
{
    struct hetccl_segment segment = {0};
    char name[HETCCL_SEGMENT_NAME_BYTES], path[160];
    int pipe_fds[2];
    int fd;

    assert_int_equal(hetccl_segment_create(8192, 8192, &segment), HETCCL_OK);
    check_refused(segment.name, 4096, "another size");
    check_refused(segment.name, 12288, "another size");
    if (geteuid() == 0) {
        (void)snprintf(path, sizeof(path), "/dev/shm%s", segment.name);
        assert_int_equal(chown(path, 12345, 12345), 0);
        check_refused(segment.name, 8192, "another user");
    }
    hetccl_segment_fini(&segment);
    check_refused("/hetccl-00000000000000000000000000000000", 8192, "No such file");

    fd = memfd_create("unsealed", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, 8192), 0);
    (void)snprintf(name, sizeof(name), "/proc/%d/fd/%d", (int)getpid(), fd);
    check_refused(name, 8192, "no sealed memory file");
    close(fd);
    assert_int_equal(pipe(pipe_fds), 0);
    (void)snprintf(name, sizeof(name), "/proc/%d/fd/%d", (int)getpid(), pipe_fds[0]);
    check_refused(name, 8192, "no regular file");
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

static void test_symbolic_links_are_not_followed(void **state)
{
    static const char name[] = "/hetccl-feedfeedfeedfeedfeedfeedfeedfeed";
    struct hetccl_segment segment = {0};
    char target[160];

    assert_int_equal(hetccl_segment_create(4096, 4096, &segment), HETCCL_OK);
    (void)snprintf(target, sizeof(target), "/dev/shm%s", segment.name);
    (void)unlink("/dev/shm/hetccl-feedfeedfeedfeedfeedfeedfeedfeed");
    assert_int_equal(symlink(target, "/dev/shm/hetccl-feedfeedfeedfeedfeedfeedfeedfeed"), 0);
    check_refused(name, 4096, "symbolic links");
    assert_int_equal(unlink("/dev/shm/hetccl-feedfeedfeedfeedfeedfeedfeedfeed"), 0);
    hetccl_segment_fini(&segment);
}

static void test_impossible_sizes(void **state)
{
    struct hetccl_segment segment = {0};

    assert_int_equal(hetccl_segment_create(0, 0, &segment), HETCCL_ERR_ARG);
    assert_int_equal(hetccl_segment_create(4096, 8192, &segment), HETCCL_ERR_ARG);
    assert_int_equal(hetccl_segment_create(SIZE_MAX, 1, &segment), HETCCL_ERR_ARG);
    assert_null(segment.memory);
}

/* The first open fails as on a read-only /dev/shm: a memory file takes its place. */
static void test_memory_file_round_trip(void **state)
{
    struct hetccl_segment segment = {0};
    int fd;

    hetccl_fault_arm(HETCCL_FAULT_FILE, 1);
    assert_int_equal(hetccl_segment_create(3 * MIB, MIB, &segment), HETCCL_OK);
    hetccl_fault_arm(HETCCL_FAULT_FILE, 0);
    assert_false(segment.has_file);
    assert_int_equal(segment.bytes, 3 * MIB);
    assert_non_null(strstr(segment.name, "/proc/"));
    assert_int_equal(ftruncate(segment.fd, 0), -1); /* sealed */
    check_round_trip(&segment);
    fd = segment.fd;
    hetccl_segment_unlink(&segment);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(((unsigned char *)segment.memory)[0], 0x5a);
    hetccl_segment_fini(&segment);
}

/* Every fault point in turn: either a segment or an error with all numbers, and nothing left behind. */
static void check_faults(enum hetccl_fault kind, unsigned least_points)
{
    unsigned n = 1;

    for (;; n++) {
        struct hetccl_segment segment = {0};
        enum hetccl_status status;

        hetccl_fault_arm(kind, n);
        status = hetccl_segment_create(MIB, MIB / 4, &segment);
        hetccl_fault_arm(kind, 0);
        assert_int_equal(status, HETCCL_OK);
        if (segment.bytes == MIB && segment.has_file) {
            hetccl_segment_fini(&segment);
            break;
        }
        memset(segment.memory, 1, segment.bytes);
        hetccl_segment_fini(&segment);
    }
    assert_true(n > least_points);
}

static void test_faults(void **state)
{
    struct hetccl_segment segment = {0}, mine = {0};

    check_faults(HETCCL_FAULT_FILE, 2);
    check_faults(HETCCL_FAULT_MMAP, 1);
    assert_int_equal(hetccl_segment_create(MIB, MIB, &segment), HETCCL_OK);
    hetccl_fault_arm(HETCCL_FAULT_MMAP, 1);
    assert_int_equal(hetccl_segment_open(segment.name, MIB, &mine), HETCCL_ERR_SYSTEM);
    hetccl_fault_arm(HETCCL_FAULT_FILE, 1);
    assert_int_equal(hetccl_segment_open(segment.name, MIB, &mine), HETCCL_ERR_SYSTEM);
    hetccl_fault_arm(HETCCL_FAULT_FILE, 0);
    assert_null(mine.memory);
    hetccl_segment_fini(&segment);
}

static void test_place_is_stable(void **state)
{
    assert_int_equal(hetccl_segment_place(), hetccl_segment_place());
    assert_int_not_equal(hetccl_segment_place(), 0);
}

/* ---- with a /dev/shm of our own, in a mount namespace of our own ---- */

static int mount_shm(const char *options, unsigned long flags)
{
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return -1;
    (void)mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
    return mount("tmpfs", "/dev/shm", "tmpfs", flags, options);
}

/* True when the log file holds exactly one line with all of these texts. */
static bool log_says_once(const char *path, const char *first, const char *second)
{
    char line[2048];
    int n_lines = 0;
    FILE *file = fopen(path, "r");

    if (file == NULL)
        return false;
    while (fgets(line, sizeof(line), file) != NULL)
        n_lines += strstr(line, first) != NULL && strstr(line, second) != NULL;
    fclose(file);
    return n_lines == 1;
}

/* A /dev/shm of 1 MiB: half the wish fits; then nothing does; a memory file is used; one warning in all. */
static int use_tiny_shm(void *arg)
{
    struct hetccl_segment half = {0}, rest = {0}, elsewhere = {0};
    uint64_t place = hetccl_segment_place();

    hetccl_log_configure(HETCCL_LOG_WARN, arg);
    if (mount_shm("size=1m", 0) != 0)
        return CHILD_SKIPPED;
    if (place == hetccl_segment_place())
        return 1;
    if (hetccl_segment_create(2 * MIB - 65536, 4096, &half) != HETCCL_OK || !half.has_file ||
        half.bytes >= MIB)
        return 2;
    memset(half.memory, 1, half.bytes);
    if (hetccl_segment_create(MIB - half.bytes, 1, &rest) != HETCCL_OK || !rest.has_file)
        return 3;
    if (hetccl_segment_create(2 * MIB, MIB, &elsewhere) != HETCCL_OK || elsewhere.has_file ||
        elsewhere.bytes != 2 * MIB)
        return 4;
    memset(elsewhere.memory, 1, elsewhere.bytes);
    hetccl_segment_fini(&elsewhere);
    hetccl_segment_fini(&rest);
    hetccl_segment_fini(&half);
    if (!log_says_once(arg, "/dev/shm: needed 2031616 bytes", "1048576 free"))
        return 5;
    return CHILD_OK;
}

static int use_read_only_shm(void *arg)
{
    struct hetccl_segment segment = {0};

    hetccl_log_configure(HETCCL_LOG_WARN, arg);
    if (mount_shm("size=1m", MS_RDONLY) != 0)
        return CHILD_SKIPPED;
    if (hetccl_segment_create(MIB, MIB, &segment) != HETCCL_OK || segment.has_file)
        return 1;
    memset(segment.memory, 1, segment.bytes);
    hetccl_segment_fini(&segment);
    return log_says_once(arg, "Read-only file system", "in a memory file") ? CHILD_OK : 2;
}

static int run_out_everywhere(void *arg)
{
    static const struct rlimit limit = {.rlim_cur = 2 * MIB, .rlim_max = 2 * MIB};
    struct hetccl_segment segment = {0};
    const char *text;

    /* The limit on file sizes holds for memory files too: they fail without taking the machine's memory. */
    if (mount_shm("size=1m", 0) != 0 || setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return CHILD_SKIPPED;
    if (hetccl_segment_create(8 * MIB, 4 * MIB, &segment) != HETCCL_ERR_SYSTEM || segment.memory != NULL)
        return 1;
    text = hetccl_last_error_thread();
    return strstr(text, "needed 8388608 bytes") != NULL && strstr(text, "1048576 free") != NULL &&
                   strstr(text, "memory file: File too large") != NULL &&
                   strstr(text, "HETCCL_LINK=tcp") != NULL
               ? CHILD_OK
               : 2;
}

static void check_in_child(int (*body)(void *))
{
    char log_path[] = "/tmp/hetccl-test-segment-XXXXXX";
    int fd = mkstemp(log_path);
    int code;

    assert_true(fd >= 0);
    close(fd);
    code = run_child(body, log_path);
    (void)unlink(log_path);
    if (code == CHILD_SKIPPED) {
        print_message("skipped: no permission to mount a tmpfs in a namespace of our own\n");
        skip();
    }
    assert_int_equal(code, CHILD_OK);
}

static void test_tiny_shm(void **state)
{
    check_in_child(use_tiny_shm);
}

static void test_read_only_shm(void **state)
{
    check_in_child(use_read_only_shm);
}

static void test_no_room_anywhere(void **state)
{
    check_in_child(run_out_everywhere);
}

int main(void)
{
    /* The ones with a /dev/shm of their own come first: a process warns once, and children inherit that. */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiny_shm),
        cmocka_unit_test(test_read_only_shm),
        cmocka_unit_test(test_no_room_anywhere),
        cmocka_unit_test(test_file_round_trip_and_unlink),
        cmocka_unit_test(test_forked_child_takes_no_name_away),
        cmocka_unit_test(test_names_are_checked),
        cmocka_unit_test(test_other_files_are_refused),
        cmocka_unit_test(test_symbolic_links_are_not_followed),
        cmocka_unit_test(test_impossible_sizes),
        cmocka_unit_test(test_memory_file_round_trip),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_place_is_stable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
