/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/native.h"

#include <string.h>

#include "base/memory.h"
#include "comm/internal.h"
#include "device/cuda/cuda.h"
#include "engine/ccl/calls.h"

enum { ABORT_MS = 2000 };

/*
 * Where the vendor's library writes a child's communicator, perhaps in a thread of its own long after the
 * call. It is apart from the handle, which may be aborted, and used again for another one, before that.
 */
struct hetccl_comm_child {
    struct ncclComm *vendor;
    struct hetccl_comm_child *next; /* of those given up */
    const struct hetccl_ccl_api *api;
    const struct hetccl_comm_head *parent; /* handles' memory is never given back */
    struct ncclComm *parent_vendor;
};

/* ---- becoming native ---- */

static bool must_stop(void *context)
{
    const struct hetccl_comm *comm = context;

    return atomic_load(&comm->is_cancelled) || hetccl_is_error((enum hetccl_status)atomic_load(&comm->state));
}

/* What the first rank of an island tells the others. */
struct id_note {
    uint32_t code; /* of ncclGetUniqueId() */
    struct hetccl_ccl_id id;
};

static enum hetccl_status exchange_id(struct hetccl_comm *comm, const struct hetccl_ccl_api *api,
                                      uint32_t first, struct hetccl_ccl_id *out)
{
    struct id_note own, *all = NULL;
    enum hetccl_status status = hetccl_alloc(comm->n_ranks, sizeof(own), &all);

    if (status != HETCCL_OK)
        return status;
    memset(&own, 0, sizeof(own));
    if (api != NULL && first == comm->rank)
        own.code = api->ncclGetUniqueId(&own.id);
    if (own.code != HETCCL_CCL_SUCCESS)
        status = hetccl_ccl_check(api, own.code, "ncclGetUniqueId");
    if (status == HETCCL_OK)
        status = hetccl_mesh_all_gather(comm->mesh, &own, sizeof(own), all, comm->config.init_timeout_s);
    if (status == HETCCL_OK)
        *out = all[first].id;
    hetccl_free(all);
    return status;
}

enum hetccl_status hetccl_comm_join_vendor(struct hetccl_comm *comm, const struct hetccl_island *island,
                                           struct ncclComm **out)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api_loaded();
    struct hetccl_ccl_init_args args = {.api = api,
                                        .device = comm->device,
                                        .n_ranks = (int)island->n_ranks,
                                        .rank = (int)comm->topo.island_rank_of[comm->rank],
                                        .config = &comm->options.vendor,
                                        .timeout_s = comm->config.init_timeout_s,
                                        .must_stop = must_stop,
                                        .context = comm};
    bool is_member = island->engine == HETCCL_ENGINE_CCL;
    enum hetccl_status status = exchange_id(comm, is_member ? api : NULL, island->ranks[0], &args.id);

    return status == HETCCL_OK && is_member ? hetccl_ccl_init(&args, out) : status;
}

enum hetccl_status hetccl_comm_join_native(struct hetccl_comm *comm)
{
    enum hetccl_status status = hetccl_comm_join_vendor(comm, &comm->topo.islands[0], &comm->head.vendor);

    if (status == HETCCL_OK)
        comm->head.api = hetccl_vendor_api_loaded();
    return status;
}

void hetccl_comm_become_native(struct hetccl_comm *comm)
{
    if (comm->head.vendor != NULL)
        atomic_store_explicit(&comm->head.magic, HETCCL_COMM_NATIVE, memory_order_release);
}

/* ---- children ---- */

enum hetccl_status hetccl_comm_expect_native(struct hetccl_comm *comm, const struct hetccl_ccl_api *api,
                                             const struct hetccl_comm_head *parent,
                                             struct ncclComm ***slot_out)
{
    struct hetccl_comm_child *child;
    enum hetccl_status status = hetccl_alloc(1, sizeof(*child), &child);

    if (status != HETCCL_OK)
        return status;
    child->api = api;
    child->parent = parent;
    child->parent_vendor = parent != NULL ? parent->vendor : NULL;
    comm->child = child;
    atomic_store_explicit(&comm->head.magic, HETCCL_COMM_PENDING, memory_order_release);
    *slot_out = &child->vendor;
    return HETCCL_OK;
}

static struct ncclComm *read_slot(struct hetccl_comm_child *child)
{
    return __atomic_load_n(&child->vendor, __ATOMIC_ACQUIRE);
}

/* Before the child is there only its parent can say what has become of it. */
static unsigned parent_state(const struct hetccl_comm_child *child)
{
    unsigned state = HETCCL_CCL_SUCCESS;
    const struct hetccl_comm_head *parent = hetccl_comm_native(child->parent);

    if (parent == NULL || parent->vendor != child->parent_vendor ||
        child->api->ncclCommGetAsyncError(parent->vendor, &state) != HETCCL_CCL_SUCCESS ||
        state == HETCCL_CCL_SUCCESS)
        return HETCCL_CCL_IN_PROGRESS;
    return state;
}

/* Of the child, or of its parent while there is no child. */
static unsigned child_state(struct hetccl_comm_child *child)
{
    struct ncclComm *vendor = read_slot(child);
    unsigned state = HETCCL_CCL_IN_PROGRESS, code;

    if (vendor == NULL)
        return parent_state(child);
    code = child->api->ncclCommGetAsyncError(vendor, &state);
    return code != HETCCL_CCL_SUCCESS ? code : state;
}

/* For what is asked of us and not of the vendor. */
static void read_place(struct hetccl_comm *comm)
{
    int n_ranks = 0, rank = 0;

    (void)comm->head.api->ncclCommCount(comm->head.vendor, &n_ranks);
    (void)comm->head.api->ncclCommUserRank(comm->head.vendor, &rank);
    comm->n_ranks = (uint32_t)n_ranks;
    comm->rank = (uint32_t)rank;
}

const struct hetccl_comm_head *hetccl_comm_foreign(const void *handle)
{
    static _Thread_local struct hetccl_comm_head foreign;

    foreign.api = hetccl_vendor_api_loaded();
    foreign.vendor = (struct ncclComm *)(uintptr_t)handle;
    return foreign.api != NULL ? &foreign : NULL;
}

const struct hetccl_comm_head *hetccl_comm_settle(struct hetccl_comm *comm, unsigned *code_out)
{
    struct hetccl_comm_child *child;
    unsigned code = HETCCL_CCL_IN_PROGRESS;

    pthread_mutex_lock(&comm->lock);
    child = comm->child;
    if (child != NULL)
        code = child_state(child);
    if (child != NULL && code == HETCCL_CCL_SUCCESS) {
        comm->head.api = child->api;
        comm->head.vendor = read_slot(child);
        read_place(comm);
        comm->child = NULL;
        hetccl_free(child);
        atomic_store(&comm->state, (int)HETCCL_OK);
        atomic_store_explicit(&comm->head.magic, HETCCL_COMM_NATIVE, memory_order_release);
    }
    pthread_mutex_unlock(&comm->lock);
    if (code_out != NULL)
        *code_out = code;
    return atomic_load_explicit(&comm->head.magic, memory_order_acquire) == HETCCL_COMM_NATIVE ? &comm->head
                                                                                               : NULL;
}

enum hetccl_status hetccl_comm_vendor_state(struct hetccl_comm *comm)
{
    unsigned code = HETCCL_CCL_SUCCESS, asked;
    const struct hetccl_comm_head *head = hetccl_comm_native(comm);

    if (head == NULL)
        (void)hetccl_comm_settle(comm, &code);
    head = hetccl_comm_native(comm);
    if (head != NULL) {
        asked = head->api->ncclCommGetAsyncError(head->vendor, &code);
        code = asked != HETCCL_CCL_SUCCESS ? asked : code;
    }
    if (head != NULL && hetccl_is_error(hetccl_ccl_status(code)))
        hetccl_vendor_note(head->api, code, "ncclCommGetAsyncError");
    return hetccl_ccl_status(code);
}

/* The slots of children that were given up: the vendor's library may still write to them. */
static struct hetccl_comm_child *abandoned;
static pthread_mutex_t abandoned_lock = PTHREAD_MUTEX_INITIALIZER;

void hetccl_comm_drop_child(struct hetccl_comm *comm)
{
    struct hetccl_comm_child *child = comm->child;

    if (child == NULL)
        return;
    comm->child = NULL;
    pthread_mutex_lock(&abandoned_lock);
    child->next = abandoned;
    abandoned = child;
    pthread_mutex_unlock(&abandoned_lock);
}

/* ---- the end ---- */

/* Takes the vendor's communicator out of the handle, so that no later call reaches it. */
static bool take_vendor(struct hetccl_comm *comm, const struct hetccl_ccl_api **api_out,
                        struct ncclComm **out)
{
    bool is_ours = false;

    pthread_mutex_lock(&comm->lock);
    if (atomic_load(&comm->head.magic) == HETCCL_COMM_PENDING) {
        is_ours = true;
        *api_out = comm->child->api;
        *out = read_slot(comm->child);
    } else if (atomic_load(&comm->head.magic) == HETCCL_COMM_NATIVE) {
        is_ours = true;
        *api_out = comm->head.api;
        *out = comm->head.vendor;
    }
    if (is_ours) {
        atomic_store(&comm->head.magic, HETCCL_COMM_MAGIC);
        comm->head.vendor = NULL;
    }
    pthread_mutex_unlock(&comm->lock);
    return is_ours;
}

/* Not native, nor on the way to it. */
static bool comm_is_ours(const struct hetccl_comm *comm)
{
    return atomic_load(&comm->head.magic) == HETCCL_COMM_MAGIC;
}

bool hetccl_comm_end_native(struct hetccl_comm *comm, bool is_abort, unsigned *code_out)
{
    const struct hetccl_ccl_api *api = NULL;
    struct ncclComm *vendor = NULL;
    unsigned code = HETCCL_CCL_SUCCESS;

    if (comm->fork_generation != hetccl_fork_generation())
        return !comm_is_ours(comm);
    if (!take_vendor(comm, &api, &vendor))
        return false;
    if (vendor != NULL)
        code = is_abort ? hetccl_ccl_end(api, vendor, true, ABORT_MS) : api->ncclCommDestroy(vendor);
    if (code != HETCCL_CCL_SUCCESS && code != HETCCL_CCL_IN_PROGRESS)
        hetccl_vendor_note(api, code, is_abort ? "ncclCommAbort" : "ncclCommDestroy");
    hetccl_comm_leave(comm);
    if (code_out != NULL)
        *code_out = code;
    return true;
}

/* ---- the library ---- */

/* Which one would serve this configuration's device; false: none. */
static bool find_kind(const struct hetccl_config *config, enum hetccl_ccl_kind *out)
{
    char why[256];

    *out = HETCCL_CCL_NCCL;
    return config->device == HETCCL_DEVICE_CUDA ||
           (config->device == HETCCL_DEVICE_AUTO && hetccl_device_cuda_is_there(config, why, sizeof(why)));
}

const struct hetccl_ccl_api *hetccl_vendor_api(void)
{
    const struct hetccl_ccl_api *api = hetccl_vendor_api_loaded();
    struct hetccl_config config;
    enum hetccl_ccl_kind kind;

    if (api != NULL)
        return api;
    if (hetccl_config_parse(&config) != HETCCL_OK || !find_kind(&config, &kind) ||
        hetccl_ccl_get(kind, &config, &api) != HETCCL_OK)
        return NULL;
    return api;
}

const struct hetccl_ccl_api *hetccl_vendor_api_loaded(void)
{
    const struct hetccl_ccl_api *api = hetccl_ccl_loaded(HETCCL_CCL_NCCL);

    return api != NULL ? api : hetccl_ccl_loaded(HETCCL_CCL_RCCL);
}

void hetccl_vendor_note(const struct hetccl_ccl_api *api, unsigned code, const char *function)
{
    const char *text = api->ncclGetLastError(NULL);

    /* The library has logged it. */
    if (text != NULL && text[0] != '\0')
        (void)hetccl_fail_quietly(hetccl_ccl_status(code), "%s", text);
    else
        (void)hetccl_fail_quietly(hetccl_ccl_status(code), "%s %s: error %u (%s)", api->name, function, code,
                                  api->ncclGetErrorString(code));
}
