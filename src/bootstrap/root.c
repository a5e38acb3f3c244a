/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/root.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/time.h"
#include "bootstrap/listener.h"
#include "bootstrap/mesh_internal.h"

enum { TEXT_BYTES = HETCCL_WIRE_FAILURE_TEXT_BYTES };

static const uint64_t status_period_ns = 1ull * HETCCL_NS_PER_S;
/* After the welcome the ranks close; whoever doesn't is closed. */
static const uint64_t farewell_ns = 30ull * HETCCL_NS_PER_S;
/* How long a failed root tells late ranks why. */
static const uint64_t grudge_ns = 10ull * HETCCL_NS_PER_S;

enum root_state { ROOT_COLLECTING = 0, ROOT_DONE, ROOT_FAILED };

struct registrant {
    struct hetccl_conn *conn; /* NULL: not come, or gone after the end */
    bool has_come;
    struct hetccl_wire_contact contact;
};

struct hetccl_root {
    struct hetccl_list_node node;
    struct hetccl_endpoint *endpoint;
    enum root_state state;
    uint64_t job_id;
    uint8_t key[HETCCL_WIRE_KEY_BYTES];
    struct hetccl_listener listener; /* fd -1: none */
    uint32_t n_ranks;                /* 0 until the first rank has come */
    uint32_t n_come;
    uint32_t n_told;                /* connections that were sent the failure */
    struct registrant *registrants; /* n_ranks */
    uint64_t deadline_ns, next_status_ns;
    struct hetccl_wire_failure failure;
};

static void conn_frame(struct hetccl_conn *conn, struct hetccl_frame *frame);
static void conn_closed(struct hetccl_conn *conn, enum hetccl_conn_end end, const char *reason);

static const struct hetccl_conn_ops registrant_ops = {.frame = conn_frame, .closed = conn_closed};

enum hetccl_status hetccl_root_create(struct hetccl_endpoint *endpoint, const struct hetccl_root_args *args)
{
    struct hetccl_root *root = NULL;
    enum hetccl_status status = hetccl_alloc(1, sizeof(*root), &root);

    if (status != HETCCL_OK)
        return status;
    root->endpoint = endpoint;
    root->job_id = args->job_id;
    memcpy(root->key, args->key, sizeof(root->key));
    root->deadline_ns = hetccl_deadline_ns(args->lifetime_s);
    root->listener.source.fd = -1;
    if (args->listener_fd >= 0) {
        status = hetccl_listener_init(endpoint, args->listener_fd, "", &root->listener);
        if (status != HETCCL_OK)
            goto undo_root;
    }
    hetccl_list_append(&endpoint->roots, &root->node);
    hetccl_endpoint_wake(endpoint);
    return HETCCL_OK;
undo_root:
    hetccl_free(root);
    return status;
}

static void destroy(struct hetccl_root *root)
{
    struct hetccl_endpoint *endpoint = root->endpoint;

    hetccl_conns_close_owned(endpoint, root);
    hetccl_listener_fini(endpoint, &root->listener);
    hetccl_list_remove(&root->node);
    hetccl_free(root->registrants);
    sodium_memzero(root->key, sizeof(root->key));
    hetccl_free(root);
    hetccl_endpoint_put_inside(endpoint);
}

static struct hetccl_root *find(struct hetccl_endpoint *endpoint, uint64_t job_id)
{
    for (struct hetccl_list_node *node = endpoint->roots.next; node != &endpoint->roots; node = node->next) {
        struct hetccl_root *root = (struct hetccl_root *)node;

        if (root->job_id == job_id && root->state != ROOT_DONE)
            return root;
    }
    return NULL;
}

const uint8_t *hetccl_root_key(struct hetccl_endpoint *endpoint, uint64_t job_id)
{
    const struct hetccl_root *root = find(endpoint, job_id);

    return root != NULL ? root->key : NULL;
}

bool hetccl_root_has_news(struct hetccl_endpoint *endpoint, uint64_t job_id, uint32_t n_ranks)
{
    const struct hetccl_root *root = find(endpoint, job_id);

    return root != NULL && root->state == ROOT_FAILED && root->n_told < n_ranks;
}

void hetccl_root_forget(struct hetccl_endpoint *endpoint, uint64_t job_id)
{
    struct hetccl_root *root = find(endpoint, job_id);

    if (root != NULL)
        destroy(root);
}

/* ---- telling the ranks ---- */

static void send_record(struct hetccl_conn *conn, uint16_t kind, const void *payload, size_t bytes)
{
    struct hetccl_wire_frame head = {.kind = kind, .payload_bytes = (uint32_t)bytes};
    struct hetccl_frame *frame = NULL;

    if (hetccl_frame_create(&head, payload, &frame) == HETCCL_OK)
        hetccl_conn_send(conn, frame);
    else
        hetccl_conn_break(conn); /* the rank must not wait for what doesn't come */
}

static void send_failure(struct hetccl_root *root, struct hetccl_conn *conn)
{
    uint8_t payload[HETCCL_WIRE_FAILURE_BYTES];

    root->n_told++;
    hetccl_wire_failure_encode(&root->failure, payload);
    send_record(conn, HETCCL_FRAME_REJECT, payload, sizeof(payload));
}

static void list_missing(const struct hetccl_root *root, struct hetccl_wire_missing *out)
{
    memset(out, 0, sizeof(*out));
    for (uint32_t rank = 0; rank < root->n_ranks; rank++) {
        if (root->registrants[rank].has_come)
            continue;
        out->n_missing++;
        if (out->n_listed < HETCCL_WIRE_MAX_MISSING)
            out->ranks[out->n_listed++] = rank;
    }
}

static void send_status(const struct hetccl_root *root, struct hetccl_conn *conn)
{
    uint8_t payload[HETCCL_WIRE_MISSING_BYTES];
    struct hetccl_wire_missing missing;

    list_missing(root, &missing);
    hetccl_wire_missing_encode(&missing, payload);
    send_record(conn, HETCCL_FRAME_STATUS, payload, sizeof(payload));
}

static void fail(struct hetccl_root *root, enum hetccl_status status, uint32_t culprit_rank, const char *text)
{
    if (root->state != ROOT_COLLECTING)
        return;
    root->state = ROOT_FAILED;
    root->deadline_ns = hetccl_now_ns() + grudge_ns;
    root->failure.status = status;
    root->failure.culprit_rank = culprit_rank;
    (void)snprintf(root->failure.text, sizeof(root->failure.text), "%s", text);
    hetccl_log(HETCCL_LOG_INFO, "bootstrap", "the communicator can't be created: %s", text);
    for (uint32_t i = 0; i < root->n_ranks; i++)
        if (root->registrants[i].conn != NULL)
            send_failure(root, root->registrants[i].conn);
}

/* ---- all are there ---- */

static bool is_loopback_only(const struct hetccl_wire_contact *contact)
{
    for (uint32_t i = 0; i < contact->n_addresses; i++)
        if (!hetccl_address_is_loopback(&contact->addresses[i]))
            return false;
    return true;
}

/* Ranks on several hosts can't reach one that has nothing but a loopback address. */
static bool check_addresses(struct hetccl_root *root)
{
    const struct hetccl_wire_contact *first = &root->registrants[0].contact;
    const struct hetccl_wire_contact *lonely = NULL;
    uint32_t lonely_rank = 0;
    bool are_many = false;
    char text[TEXT_BYTES];

    for (uint32_t i = 0; i < root->n_ranks; i++) {
        const struct hetccl_wire_contact *contact = &root->registrants[i].contact;

        are_many = are_many || contact->place != first->place;
        if (is_loopback_only(contact) && lonely == NULL)
            lonely = contact, lonely_rank = i;
    }
    if (!are_many || lonely == NULL)
        return true;
    (void)snprintf(text, sizeof(text),
                   "rank %u on host %s has only a loopback address, but there are ranks on other hosts; give "
                   "it a network "
                   "interface, or name one with HETCCL_SOCKET_IFNAME",
                   lonely_rank, lonely->host_name);
    fail(root, HETCCL_ERR_USAGE, lonely_rank, text);
    return false;
}

static void welcome(struct hetccl_root *root, uint32_t rank, uint64_t mesh_key)
{
    uint8_t payload[HETCCL_WIRE_WELCOME_MAX_BYTES];
    uint32_t neighbours[HETCCL_WIRE_MAX_NEIGHBOURS];
    struct hetccl_wire_welcome record = {.mesh_key = mesh_key};
    size_t bytes;

    record.n_neighbours = hetccl_mesh_neighbours(rank, root->n_ranks, neighbours);
    for (uint32_t i = 0; i < record.n_neighbours; i++) {
        record.neighbours[i].rank = neighbours[i];
        record.neighbours[i].contact = root->registrants[neighbours[i]].contact;
    }
    bytes = hetccl_wire_welcome_encode(&record, payload);
    send_record(root->registrants[rank].conn, HETCCL_FRAME_WELCOME, payload, bytes);
}

static void complete(struct hetccl_root *root)
{
    uint64_t mesh_key;

    if (!check_addresses(root))
        return;
    randombytes_buf(&mesh_key, sizeof(mesh_key));
    for (uint32_t rank = 0; rank < root->n_ranks; rank++)
        welcome(root, rank, mesh_key);
    root->state = ROOT_DONE;
    root->deadline_ns = hetccl_now_ns() + farewell_ns;
    /* A fixed address is free for the next communicator from now on. */
    hetccl_listener_fini(root->endpoint, &root->listener);
}

/* ---- the ranks come ---- */

/* The first rank says how many there are; n_ranks was bounded by the decoder. */
static bool open_table(struct hetccl_root *root, uint32_t n_ranks)
{
    if (root->n_ranks != 0)
        return true;
    if (hetccl_alloc(n_ranks, sizeof(root->registrants[0]), &root->registrants) != HETCCL_OK) {
        fail(root, HETCCL_ERR_SYSTEM, UINT32_MAX, hetccl_last_error_thread());
        return false;
    }
    root->n_ranks = n_ranks;
    root->next_status_ns = hetccl_now_ns() + status_period_ns;
    return true;
}

static uint32_t first_come(const struct hetccl_root *root)
{
    uint32_t rank = 0;

    while (rank + 1 < root->n_ranks && !root->registrants[rank].has_come)
        rank++;
    return rank;
}

static bool check_fit(struct hetccl_root *root, const struct hetccl_wire_register *record)
{
    const struct hetccl_wire_contact *taken;
    char text[TEXT_BYTES];

    if (record->n_ranks != root->n_ranks) {
        uint32_t other = first_come(root);

        (void)snprintf(
            text, sizeof(text),
            "ranks disagree on their number: rank %u on host %s says %u, rank %u on host %s says %u",
            record->rank, record->contact.host_name, record->n_ranks, other,
            root->registrants[other].contact.host_name, root->n_ranks);
        fail(root, HETCCL_ERR_USAGE, record->rank, text);
        return false;
    }
    if (!root->registrants[record->rank].has_come)
        return true;
    taken = &root->registrants[record->rank].contact;
    (void)snprintf(
        text, sizeof(text),
        "rank %u is taken twice: by process %u on host %s and by process %u on host %s; every rank needs a "
        "number of its own",
        record->rank, taken->pid, taken->host_name, record->contact.pid, record->contact.host_name);
    fail(root, HETCCL_ERR_USAGE, record->rank, text);
    return false;
}

static void take_register(struct hetccl_root *root, struct hetccl_conn *conn,
                          const struct hetccl_frame *frame)
{
    struct hetccl_wire_register record;
    struct registrant *registrant;

    if (!hetccl_wire_register_decode(frame->payload, frame->head.payload_bytes, &record) ||
        record.rank != conn->hello.src_rank) {
        hetccl_conn_close(conn);
        return;
    }
    if (!open_table(root, record.n_ranks) || !check_fit(root, &record)) {
        send_failure(root, conn);
        return;
    }
    registrant = &root->registrants[record.rank];
    registrant->conn = conn;
    registrant->has_come = true;
    registrant->contact = record.contact;
    root->n_come++;
    hetccl_log(HETCCL_LOG_DEBUG, "bootstrap", "rank %u of %u has come from host %s, %u are here", record.rank,
               root->n_ranks, record.contact.host_name, root->n_come);
    if (root->n_come == root->n_ranks)
        complete(root);
    else
        send_status(root, conn);
}

static bool is_registered(const struct hetccl_root *root, const struct hetccl_conn *conn)
{
    uint32_t rank = conn->hello.src_rank;

    return rank < root->n_ranks && root->registrants[rank].conn == conn;
}

/* A rank that stops waiting ends it for all; a timeout stays a timeout, with its text, on every rank. */
static void give_up(struct hetccl_root *root, uint32_t rank, const char *host_name,
                    const struct hetccl_wire_failure *record)
{
    char text[TEXT_BYTES];

    if (record->status == HETCCL_ERR_TIMEOUT)
        (void)snprintf(text, sizeof(text), "%s", record->text);
    else
        (void)snprintf(text, sizeof(text),
                       "rank %u on host %s gave up while the communicator was being created: %.600s", rank,
                       host_name, record->text);
    fail(root, record->status == HETCCL_ERR_TIMEOUT ? HETCCL_ERR_TIMEOUT : HETCCL_ERR_REMOTE, rank, text);
}

static void take_give_up(struct hetccl_root *root, const struct hetccl_conn *conn,
                         const struct hetccl_frame *frame)
{
    struct hetccl_wire_failure record;

    if (is_registered(root, conn) &&
        hetccl_wire_failure_decode(frame->payload, frame->head.payload_bytes, &record))
        give_up(root, conn->hello.src_rank, conn->hello.host_name, &record);
}

bool hetccl_root_give_up(struct hetccl_endpoint *endpoint, uint64_t job_id,
                         const struct hetccl_wire_failure *record)
{
    struct hetccl_root *root = find(endpoint, job_id);

    if (root == NULL)
        return false;
    give_up(root, record->culprit_rank, endpoint->self.host_name, record);
    return true;
}

/* It said hello while there was hope, or comes to hear what has happened. */
static void refuse_late(struct hetccl_root *root, struct hetccl_conn *conn)
{
    if (root->state == ROOT_DONE) {
        root->failure.status = HETCCL_ERR_USAGE;
        root->failure.culprit_rank = UINT32_MAX;
        (void)snprintf(root->failure.text, sizeof(root->failure.text),
                       "rank %u is taken twice: its communicator stands already", conn->hello.src_rank);
    }
    send_failure(root, conn);
}

static void conn_frame(struct hetccl_conn *conn, struct hetccl_frame *frame)
{
    struct hetccl_root *root = conn->owner;

    if (frame->head.kind == HETCCL_FRAME_REGISTER && root->state != ROOT_COLLECTING)
        refuse_late(root, conn);
    else if (frame->head.kind == HETCCL_FRAME_REGISTER && !is_registered(root, conn))
        take_register(root, conn, frame);
    else if (frame->head.kind == HETCCL_FRAME_GIVE_UP)
        take_give_up(root, conn, frame);
    hetccl_frame_destroy(frame);
}

static void conn_closed(struct hetccl_conn *conn, enum hetccl_conn_end end, const char *reason)
{
    struct hetccl_root *root = conn->owner;
    uint32_t rank = conn->hello.src_rank;
    char text[TEXT_BYTES];

    (void)end;
    if (!is_registered(root, conn))
        return;
    root->registrants[rank].conn = NULL;
    if (root->state != ROOT_COLLECTING)
        return;
    root->n_told++; /* nobody to tell */
    (void)snprintf(text, sizeof(text),
                   "rank %u on host %s died while the communicator was being created (%s)", rank,
                   root->registrants[rank].contact.host_name, reason);
    fail(root, HETCCL_ERR_REMOTE, rank, text);
}

static void fail_for_revision(struct hetccl_root *root, const struct hetccl_conn *conn)
{
    char peer[HETCCL_WIRE_VERSION_TEXT_BYTES];
    char own[HETCCL_WIRE_VERSION_TEXT_BYTES];
    char text[TEXT_BYTES];

    hetccl_wire_version_print(conn->hello.library_version, conn->hello.revision, peer);
    hetccl_wire_version_print(HETCCL_WIRE_LIBRARY_VERSION, HETCCL_WIRE_REVISION, own);
    (void)snprintf(
        text, sizeof(text),
        "library versions don't fit: rank %u on host %s has %s, the root on host %s has %s; install the same "
        "version everywhere",
        conn->hello.src_rank, conn->hello.host_name, peer, root->endpoint->self.host_name, own);
    fail(root, HETCCL_ERR_USAGE,
         conn->hello.src_rank < HETCCL_WIRE_MAX_RANKS ? conn->hello.src_rank : UINT32_MAX, text);
}

void hetccl_root_adopt(struct hetccl_conn *conn)
{
    struct hetccl_root *root = find(conn->endpoint, conn->hello.job_id);

    if (root == NULL) {
        hetccl_conn_close(conn);
        return;
    }
    conn->ops = &registrant_ops;
    conn->owner = root;
    if (conn->hello.revision != HETCCL_WIRE_REVISION) {
        fail_for_revision(root, conn);
        root->n_told++; /* it has seen for itself */
        hetccl_conn_close(conn);
    }
}

/* ---- time ---- */

static void tell_missing(struct hetccl_root *root, uint64_t now_ns)
{
    if (root->state != ROOT_COLLECTING || root->n_ranks == 0 || now_ns < root->next_status_ns)
        return;
    root->next_status_ns = now_ns + status_period_ns;
    for (uint32_t i = 0; i < root->n_ranks; i++)
        if (root->registrants[i].conn != NULL)
            send_status(root, root->registrants[i].conn);
}

static bool has_guests(const struct hetccl_root *root)
{
    for (uint32_t i = 0; i < root->n_ranks; i++)
        if (root->registrants[i].conn != NULL)
            return true;
    return false;
}

/* While ranks wait here, their own deadlines end it; without, the root's does. */
static bool is_over(const struct hetccl_root *root, uint64_t now_ns)
{
    if (root->state == ROOT_COLLECTING)
        return now_ns >= root->deadline_ns && !has_guests(root);
    if (root->state == ROOT_DONE)
        return now_ns >= root->deadline_ns || !has_guests(root);
    return now_ns >= root->deadline_ns;
}

void hetccl_roots_tick(struct hetccl_endpoint *endpoint, uint64_t now_ns)
{
    struct hetccl_list_node *node = endpoint->roots.next;

    while (node != &endpoint->roots) {
        struct hetccl_root *root = (struct hetccl_root *)node;

        node = node->next;
        tell_missing(root, now_ns);
        if (is_over(root, now_ns))
            destroy(root);
    }
}

void hetccl_roots_rewatch(struct hetccl_endpoint *endpoint, uint32_t events)
{
    for (struct hetccl_list_node *node = endpoint->roots.next; node != &endpoint->roots; node = node->next) {
        struct hetccl_root *root = (struct hetccl_root *)node;

        if (root->listener.source.fd >= 0)
            hetccl_endpoint_rewatch(endpoint, &root->listener.source, events);
    }
}
