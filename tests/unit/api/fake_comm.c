/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_comm.h"

#include <assert.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/registry.h"
#include "comm/native.h"

enum { MAX_COMMS = 64, MAX_EVENTS = 1024, MAX_RUNS = 64, MAX_ITEMS = 64, PATIENCE_S = 5 };

struct hetccl_comm {
    struct hetccl_comm_head head; /* zero: none of these is native */
    struct hetccl_comm *next_ended;
    struct hetccl_comm_options options;
    bool is_asynchronous;
    int n_ranks, rank;
    enum hetccl_status state;
    bool is_aborted, is_finalized, is_revoked;
    int n_inside, n_jobs;
    uint8_t id[HETCCL_UNIQUE_ID_BYTES];
    size_t n_ids;
    bool has_met; /* all ranks of the id have come */
    const struct hetccl_topo *topo;
};

struct run {
    struct hetccl_comm_item items[MAX_ITEMS];
    size_t n_items;
    size_t send_counts[8];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct hetccl_comm *live[MAX_COMMS];
static char events[MAX_EVENTS][64];
static int n_events;
static struct run runs[MAX_RUNS];
static int n_runs, n_inits, max_inits;
static char failing[32];
static enum hetccl_status failing_status;
static bool is_held, default_blocking = true;
static uint8_t next_id = 1;

static void record(const char *format, ...) HETCCL_PRINTF(1, 2);
static void record(const char *format, ...)
{
    va_list args;

    assert(n_events < MAX_EVENTS);
    va_start(args, format);
    (void)vsnprintf(events[n_events++], sizeof(events[0]), format, args);
    va_end(args);
}

/* With the lock held. */
static enum hetccl_status scripted(const char *function)
{
    if (strcmp(failing, function) != 0)
        return HETCCL_OK;
    failing[0] = '\0';
    return hetccl_fail_quietly(failing_status, "scripted failure of %s", function);
}

/* False when the patience is over. With the lock held. */
static bool wait_a_while(void)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    return pthread_cond_timedwait(&changed, &lock, &until) == 0;
}

static enum hetccl_status wait_while_held(const struct hetccl_comm *comm)
{
    while (is_held && !comm->is_aborted)
        if (!wait_a_while())
            return hetccl_fail_quietly(HETCCL_ERR_TIMEOUT, "held for too long");
    return comm->is_aborted ? hetccl_fail_quietly(HETCCL_ERR_ABORTED, "aborted") : HETCCL_OK;
}

/* ---- for tests ---- */

void fake_reset(void)
{
    assert(fake_n_live() == 0);
    pthread_mutex_lock(&lock);
    n_events = n_runs = n_inits = max_inits = 0;
    failing[0] = '\0';
    is_held = false;
    default_blocking = true;
    pthread_mutex_unlock(&lock);
}

void fake_fail_next(const char *function, enum hetccl_status status)
{
    pthread_mutex_lock(&lock);
    (void)snprintf(failing, sizeof(failing), "%s", function);
    failing_status = status;
    pthread_mutex_unlock(&lock);
}

void fake_hold(bool held)
{
    pthread_mutex_lock(&lock);
    is_held = held;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void fake_set_default_blocking(bool is_blocking)
{
    default_blocking = is_blocking;
}

int fake_n_live(void)
{
    int n = 0;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < MAX_COMMS; i++)
        n += live[i] != NULL;
    pthread_mutex_unlock(&lock);
    return n;
}

const char *fake_event(int index)
{
    return index < n_events ? events[index] : NULL;
}

int fake_count_events(const char *prefix)
{
    int n = 0;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_events; i++)
        n += strncmp(events[i], prefix, strlen(prefix)) == 0;
    pthread_mutex_unlock(&lock);
    return n;
}

const struct hetccl_comm_item *fake_run(int run, size_t *n_items_out)
{
    if (run >= n_runs)
        return NULL;
    *n_items_out = runs[run].n_items;
    return runs[run].items;
}

const size_t *fake_send_counts(int run)
{
    return runs[run].send_counts;
}

int fake_max_inside(void)
{
    return max_inits;
}

const struct hetccl_comm_options *fake_options(const struct hetccl_comm *comm)
{
    return &comm->options;
}

size_t fake_n_ids(const struct hetccl_comm *comm)
{
    return comm->n_ids;
}

void fake_set_state(struct hetccl_comm *comm, enum hetccl_status state)
{
    pthread_mutex_lock(&lock);
    comm->state = state;
    pthread_mutex_unlock(&lock);
}

void fake_set_asynchronous(struct hetccl_comm *comm)
{
    comm->is_asynchronous = true;
}

void fake_set_topo(struct hetccl_comm *comm, const struct hetccl_topo *topo)
{
    comm->topo = topo;
}

struct hetccl_comm *fake_make(int n_ranks, int rank, bool is_blocking)
{
    const struct hetccl_comm_options options = {.is_blocking = is_blocking};
    struct hetccl_comm *comm = NULL;
    enum hetccl_status status = hetccl_comm_alloc(&options, &comm);

    assert(status == HETCCL_OK);
    status = hetccl_registry_add(comm);
    assert(status == HETCCL_OK);
    comm->n_ranks = n_ranks;
    comm->rank = rank;
    comm->state = HETCCL_OK;
    pthread_mutex_lock(&lock);
    n_events = 0;
    pthread_mutex_unlock(&lock);
    return comm;
}

/* ---- comm.h ---- */

enum hetccl_status hetccl_unique_id_create(const struct hetccl_config *config,
                                           uint8_t out[HETCCL_UNIQUE_ID_BYTES])
{
    memset(out, next_id++, HETCCL_UNIQUE_ID_BYTES);
    return HETCCL_OK;
}

enum hetccl_status hetccl_comm_default_options(struct hetccl_comm_options *out)
{
    *out = (struct hetccl_comm_options){.is_blocking = default_blocking, .device = -1};
    return HETCCL_OK;
}

enum hetccl_status hetccl_comm_alloc(const struct hetccl_comm_options *options, struct hetccl_comm **out)
{
    struct hetccl_comm *comm = calloc(1, sizeof(*comm));
    enum hetccl_status status;
    int i = 0;

    assert(comm != NULL);
    comm->options = *options;
    comm->state = HETCCL_AGAIN;
    pthread_mutex_lock(&lock);
    status = scripted("alloc");
    while (status == HETCCL_OK && live[i] != NULL)
        i++;
    if (status == HETCCL_OK) {
        live[i] = comm;
        record("alloc");
    }
    pthread_mutex_unlock(&lock);
    if (status == HETCCL_OK)
        *out = comm;
    else
        free(comm);
    return status;
}

bool hetccl_comm_is_valid(const struct hetccl_comm *comm)
{
    bool is_live = false;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < MAX_COMMS; i++)
        is_live = is_live || (live[i] == comm && comm != NULL);
    pthread_mutex_unlock(&lock);
    return is_live;
}

/* With the lock held; every arrival has its id set. */
static void note_arrival(const struct hetccl_comm *comm)
{
    int n_arrived = 0;

    for (int i = 0; i < MAX_COMMS; i++)
        n_arrived +=
            live[i] != NULL && live[i]->n_ids > 0 && memcmp(live[i]->id, comm->id, sizeof(comm->id)) == 0;
    for (int i = 0; i < MAX_COMMS && n_arrived >= comm->n_ranks; i++)
        if (live[i] != NULL && live[i]->n_ids > 0 && memcmp(live[i]->id, comm->id, sizeof(comm->id)) == 0)
            live[i]->has_met = true;
    pthread_cond_broadcast(&changed);
}

static enum hetccl_status meet(struct hetccl_comm *comm)
{
    note_arrival(comm);
    while (!comm->has_met && !comm->is_aborted)
        if (!wait_a_while())
            return hetccl_fail_quietly(HETCCL_ERR_TIMEOUT, "not all ranks came");
    return comm->is_aborted ? hetccl_fail_quietly(HETCCL_ERR_ABORTED, "aborted") : HETCCL_OK;
}

static enum hetccl_status leave(struct hetccl_comm *comm, enum hetccl_status status, bool is_creation)
{
    if (is_creation || status != HETCCL_OK)
        comm->state = status;
    comm->n_inside--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return status;
}

enum hetccl_status hetccl_comm_init(struct hetccl_comm *comm, const uint8_t (*ids)[HETCCL_UNIQUE_ID_BYTES],
                                    size_t n_ids, int n_ranks, int rank)
{
    enum hetccl_status status;

    pthread_mutex_lock(&lock);
    record("init %d/%d", rank, n_ranks);
    comm->n_inside++;
    if (++n_inits > max_inits)
        max_inits = n_inits;
    comm->n_ranks = n_ranks;
    comm->rank = rank;
    status = scripted("init");
    if (status == HETCCL_OK) {
        memcpy(comm->id, ids[0], sizeof(comm->id));
        comm->n_ids = n_ids;
        status = meet(comm);
    }
    n_inits--;
    return leave(comm, status, true);
}

static enum hetccl_status make_child(const char *function, struct hetccl_comm *parent,
                                     struct hetccl_comm *child)
{
    enum hetccl_status status = scripted(function);

    parent->n_inside++;
    if (child != NULL) {
        child->n_inside++;
        child->n_ranks = parent->n_ranks;
        child->rank = parent->rank;
    }
    if (status == HETCCL_OK)
        status = wait_while_held(child != NULL ? child : parent);
    parent->n_inside--;
    if (child != NULL)
        return leave(child, status, true);
    pthread_mutex_unlock(&lock);
    return status;
}

enum hetccl_status hetccl_comm_split(struct hetccl_comm *parent, int color, int key,
                                     struct hetccl_comm *child)
{
    pthread_mutex_lock(&lock);
    record("split %d %d%s", color, key, child == NULL ? " none" : "");
    return make_child("split", parent, child);
}

enum hetccl_status hetccl_comm_shrink(struct hetccl_comm *parent, const int *exclude, size_t n_exclude,
                                      bool is_abort, struct hetccl_comm *child)
{
    pthread_mutex_lock(&lock);
    record("shrink %zu first %d%s", n_exclude, exclude[0], is_abort ? " abort" : "");
    return make_child("shrink", parent, child);
}

enum hetccl_status hetccl_comm_finalize(struct hetccl_comm *comm)
{
    enum hetccl_status status;

    pthread_mutex_lock(&lock);
    record("finalize");
    comm->n_inside++;
    status = scripted("finalize");
    if (status == HETCCL_OK)
        status = wait_while_held(comm);
    comm->is_finalized = true;
    return leave(comm, status, false);
}

/* The memory stays, as that of real ones does: the API looks at handles whose communicator is gone. */
static void release(struct hetccl_comm *comm)
{
    static struct hetccl_comm *ended;

    for (int i = 0; i < MAX_COMMS; i++)
        if (live[i] == comm)
            live[i] = NULL;
    comm->next_ended = ended;
    ended = comm;
}

void hetccl_comm_destroy(struct hetccl_comm *comm)
{
    pthread_mutex_lock(&lock);
    record("destroy");
    assert(comm->n_inside == 0 && comm->n_jobs == 0);
    release(comm);
    pthread_mutex_unlock(&lock);
}

void hetccl_comm_abort(struct hetccl_comm *comm)
{
    pthread_mutex_lock(&lock);
    record("abort");
    comm->is_aborted = true;
    pthread_cond_broadcast(&changed);
    while (comm->n_inside > 0 || comm->n_jobs > 0)
        if (!wait_a_while())
            abort();
    release(comm);
    pthread_mutex_unlock(&lock);
}

enum hetccl_status hetccl_comm_revoke(struct hetccl_comm *comm)
{
    enum hetccl_status status;

    pthread_mutex_lock(&lock);
    record("revoke");
    status = scripted("revoke");
    comm->is_revoked = true;
    pthread_mutex_unlock(&lock);
    return status;
}

enum hetccl_status hetccl_comm_async_state(struct hetccl_comm *comm)
{
    enum hetccl_status state;

    pthread_mutex_lock(&lock);
    state = hetccl_is_error(comm->state) || comm->n_jobs == 0 ? comm->state : HETCCL_AGAIN;
    pthread_mutex_unlock(&lock);
    return hetccl_is_error(state) ? hetccl_fail_quietly(state, "the communicator has failed") : state;
}

void hetccl_comm_job_begin(struct hetccl_comm *comm)
{
    pthread_mutex_lock(&lock);
    comm->n_jobs++;

    pthread_mutex_unlock(&lock);
}

void hetccl_comm_job_end(struct hetccl_comm *comm, enum hetccl_status result)
{
    pthread_mutex_lock(&lock);
    comm->n_jobs--;
    if (hetccl_is_error(result))
        comm->state = result;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

int hetccl_comm_rank(const struct hetccl_comm *comm)
{
    return comm->rank;
}

int hetccl_comm_n_ranks(const struct hetccl_comm *comm)
{
    return comm->n_ranks;
}

int hetccl_comm_device(const struct hetccl_comm *comm)
{
    return 3;
}

const char *hetccl_comm_device_name(const struct hetccl_comm *comm)
{
    return "host";
}

bool hetccl_comm_is_asynchronous(const struct hetccl_comm *comm)
{
    return comm->is_asynchronous;
}

enum hetccl_status hetccl_comm_apply_bias(struct hetccl_comm *comm, const struct hetccl_call *call,
                                          const void *bias, enum hetccl_red red)
{
    const void *inputs[2] = {call->recv, bias};
    enum hetccl_status status;

    pthread_mutex_lock(&lock);
    status = scripted("bias");
    pthread_mutex_unlock(&lock);
    if (status == HETCCL_OK)
        hetccl_kernel_reduce(call->recv, inputs, NULL, 2, call->count, call->type, red);
    return status;
}

bool hetccl_comm_is_blocking(const struct hetccl_comm *comm)
{
    return comm->options.is_blocking;
}

enum hetccl_status hetccl_comm_check_call(struct hetccl_comm *comm, const struct hetccl_call *call)
{
    enum hetccl_status status;

    pthread_mutex_lock(&lock);
    status = scripted("check");
    if (status == HETCCL_OK && comm->is_revoked)
        status = hetccl_fail_quietly(HETCCL_ERR_USAGE, "revoked");
    pthread_mutex_unlock(&lock);
    return status;
}

static void keep_run(const struct hetccl_comm_item *items, size_t n_items)
{
    struct run *run = &runs[n_runs++];

    assert(n_runs <= MAX_RUNS && n_items <= MAX_ITEMS);
    run->n_items = n_items;
    memcpy(run->items, items, n_items * sizeof(*items));
    if (items[0].call.coll == HETCCL_ALLTOALLV)
        memcpy(run->send_counts, items[0].call.send_counts,
               (size_t)items[0].comm->n_ranks * sizeof(run->send_counts[0]));
}

bool hetccl_comm_are_connected(const struct hetccl_comm_item *items, size_t n_items)
{
    (void)items;
    (void)n_items;
    return false;
}

enum hetccl_status hetccl_comm_run(const struct hetccl_comm_item *items, size_t n_items)
{
    const struct hetccl_call *call = &items[0].call;
    struct hetccl_comm *comm = items[0].comm;
    enum hetccl_status status;

    pthread_mutex_lock(&lock);
    record("run %zu", n_items);
    keep_run(items, n_items);
    comm->n_inside++;
    status = scripted("run");
    if (status == HETCCL_OK)
        status = wait_while_held(comm);
    if (status == HETCCL_OK && call->coll == HETCCL_ALLREDUCE && call->recv != NULL && call->count > 0)
        memmove(call->recv, call->send, call->count * hetccl_type_bytes(call->type));
    return leave(comm, status, false);
}

enum hetccl_status hetccl_comm_register(struct hetccl_comm *comm, void *buffer, size_t bytes,
                                        void **handle_out)
{
    *handle_out = buffer;
    return HETCCL_OK;
}

enum hetccl_status hetccl_comm_deregister(struct hetccl_comm *comm, void *handle)
{
    pthread_mutex_lock(&lock);
    record("deregister");
    pthread_mutex_unlock(&lock);
    return HETCCL_OK;
}

enum hetccl_status hetccl_comm_mem_alloc(size_t bytes, void **out)
{
    *out = malloc(bytes);
    return HETCCL_OK;
}

enum hetccl_status hetccl_comm_mem_free(void *memory)
{
    free(memory);
    return HETCCL_OK;
}

void hetccl_comm_read_counters(const struct hetccl_comm *comm, struct hetccl_comm_counters *out)
{
    *out = (struct hetccl_comm_counters){1, 2, 3, 4, 5, 6, 7};
}

const struct hetccl_topo *hetccl_comm_topo(const struct hetccl_comm *comm)
{
    return comm->topo;
}

const char *hetccl_comm_last_plan(const struct hetccl_comm *comm, bool *is_small_out)
{
    *is_small_out = true;
    return "flat";
}

const char *hetccl_comm_link_in_use(const struct hetccl_comm *comm, int peer)
{
    return peer == comm->rank ? "self" : "tcp";
}

const char *hetccl_comm_host_name(const struct hetccl_comm *comm, int rank)
{
    return "somewhere";
}

/* ---- native communicators: there are none, nor a vendor's library ---- */

const struct hetccl_comm_head *hetccl_comm_foreign(const void *handle)
{
    (void)handle;
    return NULL;
}

const struct hetccl_comm_head *hetccl_comm_settle(struct hetccl_comm *comm, unsigned *code_out)
{
    return NULL;
}

enum hetccl_status hetccl_comm_expect_native(struct hetccl_comm *comm, const struct hetccl_ccl_api *api,
                                             const struct hetccl_comm_head *parent,
                                             struct ncclComm ***slot_out)
{
    return HETCCL_ERR_INTERNAL;
}

bool hetccl_comm_end_native(struct hetccl_comm *comm, bool is_abort, unsigned *code_out)
{
    return false;
}

const struct hetccl_ccl_api *hetccl_vendor_api(void)
{
    return NULL;
}

const struct hetccl_ccl_api *hetccl_vendor_api_loaded(void)
{
    return NULL;
}

void hetccl_vendor_note(const struct hetccl_ccl_api *api, unsigned code, const char *function)
{
}
