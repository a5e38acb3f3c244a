/* SPDX-License-Identifier: Apache-2.0 */
#include "native.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int rank;
struct fakes fakes;

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"values", case_values},
    {"arguments", case_arguments},
    {"group", case_group},
    {"errors", case_errors},
    {"init", case_init},
    {"children", case_children},
    {"non-blocking", case_non_blocking},
    {"endings", case_endings},
    {"init-all", case_init_all},
    {"old-library", case_old_library},
    {"no-library", case_no_library},
    {"forced", case_forced},
    {"mixed", case_mixed},
    {"one", case_one},
};

/* ---- checks ---- */

void expect(bool holds, const char *format, ...)
{
    va_list args;

    if (holds)
        return;
    (void)fprintf(stderr, "rank %d: expected: ", rank);
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fprintf(stderr, "\n  last error: %s\n  last call: %s\n", ncclGetLastError(NULL),
                  fakes.last_call != NULL ? fakes.last_call() : "none");
    exit(1);
}

void expect_result(ncclResult_t result, ncclResult_t wanted, const char *what)
{
    expect(result == wanted, "%s gives %d, not %d", what, (int)wanted, (int)result);
}

void expect_error_text(const char *words)
{
    expect(strstr(ncclGetLastError(NULL), words) != NULL, "'%s' in the last error", words);
}

void expect_call(const char *format, ...)
{
    char wanted[512];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(wanted, sizeof(wanted), format, args);
    va_end(args);
    expect(strcmp(fakes.last_call(), wanted) == 0, "the call %s", wanted);
}

/* ---- the fakes ---- */

static void *find(void *library, const char *name)
{
    void *address = dlsym(library, name);

    expect(address != NULL, "%s in a fake library", name);
    return address;
}

/* POSIX: the bytes of both kinds of pointers are the same. */
static void set(void *member, void *address)
{
    memcpy(member, &address, sizeof(address));
}

static void open_fakes(void)
{
    const char *nccl = getenv("HETCCL_NCCL_LIB");
    void *driver = dlopen(getenv("HETCCL_CUDA_LIB"), RTLD_NOW | RTLD_LOCAL), *library;

    expect(driver != NULL, "HETCCL_CUDA_LIB opens: %s", dlerror());
    set(&fakes.cuInit, find(driver, "cuInit"));
    set(&fakes.cuDevicePrimaryCtxRetain, find(driver, "cuDevicePrimaryCtxRetain"));
    set(&fakes.cuCtxSetCurrent, find(driver, "cuCtxSetCurrent"));
    set(&fakes.cuMemAlloc_v2, find(driver, "cuMemAlloc_v2"));
    set(&fakes.cuStreamCreate, find(driver, "cuStreamCreate"));
    set(&fakes.cuStreamQuery, find(driver, "cuStreamQuery"));
    expect(fakes.cuInit(0) == 0, "cuInit");
    library = nccl != NULL ? dlopen(nccl, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library == NULL)
        return;
    set(&fakes.last_call, find(library, "fake_nccl_last_call"));
    set(&fakes.n_calls, find(library, "fake_nccl_calls"));
    set(&fakes.fail, find(library, "fake_nccl_fail"));
    set(&fakes.n_live, find(library, "fake_nccl_live_comms"));
}

void use_device(int device)
{
    void *context = NULL;

    expect(fakes.cuDevicePrimaryCtxRetain(&context, device) == 0, "device %d", device);
    expect(fakes.cuCtxSetCurrent(context) == 0, "a current device");
}

void *device_memory(size_t bytes)
{
    unsigned long long address = 0;

    expect(fakes.cuMemAlloc_v2(&address, bytes) == 0, "device memory");
    return (void *)(size_t)address;
}

hetcclStream_t new_stream(void)
{
    void *stream = NULL;

    expect(fakes.cuStreamCreate(&stream, 1) == 0, "a stream");
    return stream;
}

double now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void synchronize(hetcclStream_t stream)
{
    const double end_s = now_s() + 20;
    const struct timespec nap = {.tv_nsec = 100000};

    while (fakes.cuStreamQuery(stream) != 0) {
        expect(now_s() < end_s, "the stream to come to its end");
        (void)nanosleep(&nap, NULL);
    }
}

/* ---- meeting ---- */

/* Rank 0 writes the id beside its place and moves it there, so that rank 1 sees all of it or nothing. */
void make_id(const char *name, ncclUniqueId *out)
{
    char path[256], unfinished[264];
    const struct timespec nap = {.tv_nsec = 1000000};
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", getenv("NATIVE_FOLDER"), name);
    (void)snprintf(unfinished, sizeof(unfinished), "%s.new", path);
    if (rank == 0) {
        expect_result(ncclGetUniqueId(out), ncclSuccess, "ncclGetUniqueId");
        file = fopen(unfinished, "w");
        expect(file != NULL && fwrite(out, sizeof(*out), 1, file) == 1 && fclose(file) == 0 &&
                   rename(unfinished, path) == 0,
               "to write %s", path);
        return;
    }
    for (int i = 0; i < 20000 && access(path, R_OK) != 0; i++)
        (void)nanosleep(&nap, NULL);
    file = fopen(path, "r");
    expect(file != NULL && fread(out, sizeof(*out), 1, file) == 1, "to read %s", path);
    (void)fclose(file);
}

ncclResult_t try_join(const char *name, ncclConfig_t *config, ncclComm_t *out)
{
    ncclUniqueId id;

    make_id(name, &id);
    return ncclCommInitRankConfig(out, N_RANKS, id, rank, config);
}

ncclComm_t join_comm(const char *name, ncclConfig_t *config)
{
    ncclComm_t comm = NULL;

    expect_result(try_join(name, config, &comm), ncclSuccess, "ncclCommInitRankConfig");
    return comm;
}

void wait_ready(ncclComm_t comm)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    ncclResult_t state = ncclInProgress;

    for (int i = 0; i < 20000 && state == ncclInProgress; i++) {
        expect_result(ncclCommGetAsyncError(comm, &state), ncclSuccess, "ncclCommGetAsyncError");
        (void)nanosleep(&nap, NULL);
    }
    expect_result(state, ncclSuccess, "the communicator's state");
}

const char *engine_of(ncclComm_t comm)
{
    hetcclCommInfo_t info = {.size = sizeof(info)};

    expect_result(hetcclCommInfo(comm, &info), ncclSuccess, "hetcclCommInfo");
    return info.engine;
}

/* ---- the program ---- */

static int run_rank(const char *name)
{
    open_fakes();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (strcmp(cases[i].name, name) == 0) {
            use_device(getenv("NATIVE_ONE_GPU") != NULL ? 0 : rank);
            cases[i].run();
            return 0;
        }
    (void)fprintf(stderr, "native: no case '%s'\n", name);
    return 2;
}

static pid_t start(char **argv, int number)
{
    extern char **environ;
    char text[16];
    pid_t pid = -1;

    (void)snprintf(text, sizeof(text), "%d", number);
    (void)setenv("NATIVE_RANK", text, 1);
    if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ) != 0)
        return -1;
    return pid;
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/hetccl-native-XXXXXX", command[64];
    const char *number = getenv("NATIVE_RANK");
    pid_t pids[N_RANKS];
    int outcome = 0;

    if (argc != 2)
        return 2;
    if (number != NULL) {
        rank = atoi(number);
        return run_rank(argv[1]);
    }
    if (mkdtemp(folder) == NULL)
        return 1;
    (void)setenv("NATIVE_FOLDER", folder, 1);
    for (int i = 0; i < N_RANKS; i++)
        pids[i] = start(argv, i);
    for (int i = 0; i < N_RANKS; i++) {
        int status = 1;

        if (pids[i] < 0 || waitpid(pids[i], &status, 0) < 0 || status != 0)
            outcome = 1;
    }
    (void)snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command) == 0 ? outcome : 1;
}
