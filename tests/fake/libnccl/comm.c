/* SPDX-License-Identifier: Apache-2.0 */

/* Communicators: how they come to be, and end. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../libcuda/driver.h"
#include "fake_nccl.h"
#include "internal.h"

enum { MAX_COMMS = 256, MEET_S = 60, END_S = 5 };

static const char id_mark[] = "FAKENCCL";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ncclComm *comms[MAX_COMMS];

bool fake_is_comm(const struct ncclComm *comm)
{
    bool is_known = false;

    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < MAX_COMMS; i++)
        is_known = is_known || (comm != NULL && comms[i] == comm);
    pthread_mutex_unlock(&lock);
    return is_known;
}

static bool list(struct ncclComm *was, struct ncclComm *is)
{
    bool is_listed = false;

    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < MAX_COMMS && !is_listed; i++)
        if (comms[i] == was) {
            comms[i] = is;
            is_listed = true;
        }
    pthread_mutex_unlock(&lock);
    return is_listed;
}

size_t fake_nccl_live_comms(void)
{
    size_t n = 0;

    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < MAX_COMMS; i++)
        n += comms[i] != NULL;
    pthread_mutex_unlock(&lock);
    return n;
}

void fake_set_state(struct ncclComm *comm, unsigned code)
{
    unsigned expected = OK;

    if (!atomic_compare_exchange_strong(&comm->state, &expected, code) && expected == IN_PROGRESS)
        atomic_store(&comm->state, code);
}

bool fake_must_stop(const struct ncclComm *comm)
{
    return atomic_load(&comm->is_aborted) || atomic_load(&comm->shared->is_aborted);
}

/* ---- shared memory ---- */

struct shared *fake_share(struct parcel *out)
{
    struct parcel parcel = {.pid = getpid(), .fd = memfd_create("fake-nccl-comm", MFD_CLOEXEC)};
    struct shared *shared;

    if (parcel.fd < 0 || ftruncate(parcel.fd, sizeof(*shared)) != 0)
        return NULL;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, parcel.fd, 0);
    if (shared == MAP_FAILED)
        return NULL;
    *out = parcel; /* the descriptor stays open: others may come at any time */
    return shared;
}

static struct shared *map_shared(const struct parcel *parcel)
{
    struct shared *shared;
    char path[64];
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", parcel->pid, parcel->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    return shared != MAP_FAILED ? shared : NULL;
}

/* ---- coming together ---- */

static uint64_t gpu_of(int device)
{
    static const unsigned attributes[] = {HETCCL_CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID,
                                          HETCCL_CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
                                          HETCCL_CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID};
    uint64_t gpu = 1;

    for (size_t i = 0; i < 3; i++) {
        int value = 0;

        (void)cuDeviceGetAttribute(&value, attributes[i], device);
        gpu = gpu << 16 | (unsigned)value;
    }
    return gpu;
}

static unsigned check_ranks(const struct ncclComm *comm)
{
    const char *same_gpu = getenv("FAKE_NCCL_SAME_GPU");
    const struct shared *shared = comm->shared;

    for (int a = 0; a < comm->n_ranks; a++) {
        if (shared->ranks[a].version != shared->ranks[0].version)
            return fake_fail(INVALID_USAGE,
                             "Mismatched NCCL version detected : rank 0 version %d rank %d version %d",
                             shared->ranks[0].version, a, shared->ranks[a].version);
        for (int b = 0; b < a; b++)
            if (shared->ranks[a].gpu == shared->ranks[b].gpu &&
                (same_gpu == NULL || strcmp(same_gpu, "1") != 0))
                return fake_fail(INVALID_USAGE,
                                 "Duplicate GPU detected : rank %d and rank %d both on CUDA device %d", b, a,
                                 shared->ranks[a].device);
    }
    return OK;
}

static bool is_late(time_t started)
{
    return time(NULL) - started > MEET_S;
}

unsigned fake_meet(struct ncclComm *comm)
{
    time_t started = time(NULL);

    comm->shared->ranks[comm->rank].n_ranks = comm->n_ranks;
    comm->shared->ranks[comm->rank].version = fake_version();
    comm->shared->ranks[comm->rank].device = comm->device;
    comm->shared->ranks[comm->rank].gpu = gpu_of(comm->device);
    atomic_store(&comm->shared->ranks[comm->rank].has_come, 1);
    for (int rank = 0; rank < comm->n_ranks; rank++)
        while (!atomic_load(&comm->shared->ranks[rank].has_come)) {
            if (fake_must_stop(comm))
                return fake_fail(INTERNAL_ERROR, "aborted");
            if (is_late(started))
                return fake_fail(REMOTE_ERROR, "rank %d did not come", rank);
            fake_nap();
        }
    return check_ranks(comm);
}

static bool is_blocking(const void *config)
{
    enum { BLOCKING_OFFSET = 16 };
    int blocking;

    if (config == NULL)
        return true;
    memcpy(&blocking, (const char *)config + BLOCKING_OFFSET, sizeof(blocking));
    return blocking != 0;
}

static void *meet_in_thread(void *arg)
{
    struct ncclComm *comm = arg;

    atomic_store(&comm->state, fake_meet(comm));
    atomic_fetch_sub(&comm->n_running, 1);
    return NULL;
}

static unsigned start_meeting(struct ncclComm *comm)
{
    pthread_attr_t attributes;
    pthread_t thread;
    int error;

    atomic_store(&comm->state, IN_PROGRESS);
    atomic_fetch_add(&comm->n_running, 1);
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    error = pthread_create(&thread, &attributes, meet_in_thread, comm);
    (void)pthread_attr_destroy(&attributes);
    return error == 0 ? IN_PROGRESS : SYSTEM_ERROR;
}

static void unmake(struct ncclComm *comm)
{
    (void)list(comm, NULL);
    while (comm->operations != NULL) {
        struct operation *next = comm->operations->next;

        free(comm->operations->transfers);
        free(comm->operations);
        comm->operations = next;
    }
    for (size_t i = 0; i < 2; i++)
        if (comm->posted[i].pid != 0)
            fake_drop(&comm->posted[i]);
    (void)munmap(comm->shared, sizeof(*comm->shared));
    pthread_mutex_destroy(&comm->lock);
    free(comm);
}

unsigned fake_make_comm(const struct parcel *parcel, int n_ranks, int rank, const void *config,
                        struct ncclComm **out)
{
    struct ncclComm *comm = calloc(1, sizeof(*comm));
    struct CUctx_st *context = NULL;
    unsigned code;

    if (comm == NULL)
        abort();
    comm->rank = rank;
    comm->n_ranks = n_ranks;
    comm->is_blocking = is_blocking(config);
    if (cuCtxGetCurrent(&context) != 0 || context == NULL || cuCtxGetDevice(&comm->device) != 0) {
        free(comm);
        return fake_fail(CUDA_ERROR, "the calling thread has no current device");
    }
    comm->context = context;
    comm->shared = map_shared(parcel);
    if (comm->shared == NULL || !list(NULL, comm)) {
        free(comm);
        return fake_fail(SYSTEM_ERROR, "no shared memory");
    }
    pthread_mutex_init(&comm->lock, NULL);
    __atomic_store_n(out, comm, __ATOMIC_RELEASE);
    if (!comm->is_blocking)
        return start_meeting(comm);
    code = fake_meet(comm);
    if (code != OK) {
        *out = NULL;
        unmake(comm);
    }
    return code;
}

unsigned ncclGetUniqueId(struct hetccl_ccl_id *id_out)
{
    unsigned code = fake_call("ncclGetUniqueId", NULL, "%p", (void *)id_out);
    struct parcel parcel;
    struct shared *shared;

    if (code != OK)
        return code;
    shared = fake_share(&parcel);
    if (shared == NULL)
        return fake_fail(SYSTEM_ERROR, "no shared memory: %s", strerror(errno));
    (void)munmap(shared, sizeof(*shared));
    memset(id_out, 0, sizeof(*id_out));
    memcpy(id_out->internal, id_mark, sizeof(id_mark));
    memcpy(id_out->internal + sizeof(id_mark), &parcel, sizeof(parcel));
    return OK;
}

/* Texts of the config as a test wants to see them: its size, version, blocking, and names. */
static const char *describe(const void *config)
{
    static _Thread_local char text[256];
    size_t size;
    unsigned version;
    int blocking;
    const char *net_name = NULL, *comm_name = NULL;

    if (config == NULL)
        return "null";
    memcpy(&size, config, sizeof(size));
    memcpy(&version, (const char *)config + 12, sizeof(version));
    memcpy(&blocking, (const char *)config + 16, sizeof(blocking));
    if (size >= 40)
        memcpy(&net_name, (const char *)config + 32, sizeof(net_name));
    if (size >= 56)
        memcpy(&comm_name, (const char *)config + 48, sizeof(comm_name));
    (void)snprintf(text, sizeof(text), "{%zu %u blocking %d net %s name %s}", size, version, blocking,
                   net_name != NULL ? net_name : "-", comm_name != NULL ? comm_name : "-");
    return text;
}

unsigned ncclCommInitRankConfig(struct ncclComm **comm_out, int n_ranks, struct hetccl_ccl_id id, int rank,
                                void *config)
{
    unsigned code = fake_call("ncclCommInitRankConfig", NULL, "%d, %d, %s", n_ranks, rank, describe(config));
    struct parcel parcel;

    if (code != OK)
        return code;
    *comm_out = NULL;
    if (memcmp(id.internal, id_mark, sizeof(id_mark)) != 0)
        return fake_fail(INVALID_ARGUMENT, "the id was not made by this library");
    if (n_ranks < 1 || n_ranks > MAX_RANKS || rank < 0 || rank >= n_ranks)
        return fake_fail(INVALID_ARGUMENT, "rank %d of %d", rank, n_ranks);
    memcpy(&parcel, id.internal + sizeof(id_mark), sizeof(parcel));
    return fake_make_comm(&parcel, n_ranks, rank, config, comm_out);
}

/* ---- the end ---- */

/* Others may still be reading what this rank has set out last. */
static void wait_for_readers(const struct ncclComm *comm)
{
    time_t started = time(NULL);

    for (int rank = 0; rank < comm->n_ranks; rank++)
        while (atomic_load(&comm->shared->ranks[rank].n_read) < comm->n_collectives &&
               !fake_must_stop(comm) && atomic_load(&comm->state) == OK &&
               time(NULL) - started <= (time_t)END_S)
            fake_nap();
}

/* True when nothing of it runs any more. */
static bool is_quiet_within(const struct ncclComm *comm, unsigned seconds)
{
    time_t started = time(NULL);

    while (atomic_load(&comm->n_running) > 0 && time(NULL) - started <= (time_t)seconds)
        fake_nap();
    return atomic_load(&comm->n_running) == 0;
}

unsigned ncclCommFinalize(struct ncclComm *comm)
{
    unsigned code = fake_call("ncclCommFinalize", comm, "%s", fake_name(comm));

    if (code != OK)
        return code;
    if (!fake_is_comm(comm) || atomic_exchange(&comm->is_finalized, 1))
        return fake_fail(INVALID_ARGUMENT, "ncclCommFinalize: no communicator, or finalized before");
    (void)is_quiet_within(comm, END_S);
    return OK;
}

unsigned ncclCommDestroy(struct ncclComm *comm)
{
    unsigned code = fake_call("ncclCommDestroy", comm, "%s", fake_name(comm));

    if (code != OK || comm == NULL)
        return code;
    if (!fake_is_comm(comm))
        return fake_fail(INVALID_ARGUMENT, "ncclCommDestroy: no communicator");
    if (is_quiet_within(comm, END_S)) {
        wait_for_readers(comm);
        unmake(comm);
    }
    return OK;
}

unsigned ncclCommAbort(struct ncclComm *comm)
{
    unsigned code = fake_call("ncclCommAbort", comm, "%s", fake_name(comm));

    if (code != OK || comm == NULL)
        return code;
    if (!fake_is_comm(comm))
        return fake_fail(INVALID_ARGUMENT, "ncclCommAbort: no communicator");
    atomic_store(&comm->is_aborted, 1);
    if (is_quiet_within(comm, END_S))
        unmake(comm);
    return OK;
}

unsigned ncclCommRevoke(struct ncclComm *comm, int flags)
{
    unsigned code = fake_call("ncclCommRevoke", comm, "%s, %d", fake_name(comm), flags);

    if (code == OK)
        atomic_store(&comm->is_revoked, 1);
    return code;
}

/* ---- questions ---- */

unsigned ncclCommGetAsyncError(struct ncclComm *comm, unsigned *code_out)
{
    unsigned code = fake_call("ncclCommGetAsyncError", comm, "%s", fake_name(comm));

    if (code != OK)
        return code;
    if (!fake_is_comm(comm) || code_out == NULL)
        return fake_fail(INVALID_ARGUMENT, "ncclCommGetAsyncError: NULL");
    *code_out = atomic_load(&comm->state);
    if (*code_out == OK && atomic_load(&comm->shared->is_aborted))
        *code_out = REMOTE_ERROR;
    return OK;
}

static unsigned give(unsigned code, const struct ncclComm *comm, int value, int *out)
{
    if (code == OK && (!fake_is_comm(comm) || out == NULL))
        return fake_fail(INVALID_ARGUMENT, "NULL");
    if (code == OK)
        *out = value;
    return code;
}

unsigned ncclCommCount(struct ncclComm *comm, int *out)
{
    return give(fake_call("ncclCommCount", comm, "%s, %p", fake_name(comm), (void *)out), comm, comm->n_ranks,
                out);
}

unsigned ncclCommCuDevice(struct ncclComm *comm, int *out)
{
    return give(fake_call("ncclCommCuDevice", comm, "%s, %p", fake_name(comm), (void *)out), comm,
                comm->device, out);
}

unsigned ncclCommUserRank(struct ncclComm *comm, int *out)
{
    return give(fake_call("ncclCommUserRank", comm, "%s, %p", fake_name(comm), (void *)out), comm, comm->rank,
                out);
}
