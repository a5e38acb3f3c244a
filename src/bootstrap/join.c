/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/time.h"
#include "bootstrap/listener.h"
#include "bootstrap/mesh_internal.h"
#include "bootstrap/netif.h"
#include "bootstrap/root.h"

/* A rank's way into a communicator: register at the root, wait for the welcome, meet the others. */

enum { MISSING_TEXT_BYTES = 640 };

static const uint64_t linger_ns = 3ull * HETCCL_NS_PER_S;
static const uint64_t report_period_ns = 30ull * HETCCL_NS_PER_S;

static void conn_frame(struct hetccl_conn *conn, struct hetccl_frame *frame);
static void conn_closed(struct hetccl_conn *conn, enum hetccl_conn_end end, const char *reason);

static const struct hetccl_conn_ops join_conn_ops = {.frame = conn_frame, .closed = conn_closed};

static void end_talk(struct hetccl_mesh *mesh)
{
    hetccl_conn_close(mesh->join.conn);
    mesh->join.conn = NULL;
}

static void send_to_root(struct hetccl_mesh *mesh, uint16_t kind, const void *payload, size_t bytes)
{
    struct hetccl_wire_frame head = {.kind = kind, .src_rank = mesh->rank, .payload_bytes = (uint32_t)bytes};
    struct hetccl_frame *frame = NULL;

    if (hetccl_frame_create(&head, payload, &frame) == HETCCL_OK)
        hetccl_conn_send(mesh->join.conn, frame);
    else
        hetccl_conn_break(mesh->join.conn);
}

static void dial_connected(void *owner, struct hetccl_conn *conn)
{
    struct hetccl_mesh *mesh = owner;
    struct hetccl_wire_register record = {.n_ranks = mesh->n_ranks, .rank = mesh->rank};
    uint8_t payload[HETCCL_WIRE_REGISTER_BYTES];

    mesh->join.dial = NULL;
    mesh->join.conn = conn;
    conn->ops = &join_conn_ops;
    conn->owner = mesh;
    record.contact = mesh->endpoint->self;
    hetccl_wire_register_encode(&record, payload);
    send_to_root(mesh, HETCCL_FRAME_REGISTER, payload, sizeof(payload));
}

static void dial_failed(void *owner, enum hetccl_status status, const char *text)
{
    struct hetccl_mesh *mesh = owner;
    char full[HETCCL_ERROR_TEXT_BYTES];
    bool is_revision = strstr(text, "wire revision") != NULL;

    mesh->join.dial = NULL;
    (void)snprintf(full, sizeof(full),
                   is_revision
                       ? "%.1000s"
                       : "unique id belongs to another run, or its communicator stands already: %.700s; pass "
                         "every rank the id that this run's rank 0 made",
                   text);
    hetccl_mesh_fail(mesh, status, UINT32_MAX, full);
}

static const struct hetccl_dial_ops join_dial_ops = {.connected = dial_connected, .failed = dial_failed};

enum hetccl_status hetccl_join_start(struct hetccl_mesh *mesh)
{
    const struct hetccl_wire_unique_id *id = &mesh->join.id;
    struct hetccl_dial_args args = {
        .addresses = id->addresses,
        .n_addresses = id->n_addresses,
        .hello = {.role = HETCCL_ROLE_REGISTER, .job_id = id->job_id, .src_rank = mesh->rank},
        .key = id->key,
        .give_up_ns = UINT64_MAX, /* the caller's deadline ends it */
        .is_patient = id->is_fixed_root,
        .ops = &join_dial_ops,
        .owner = mesh,
    };

    return hetccl_dial_start(mesh->endpoint, &args, &mesh->join.dial);
}

/*
 * The root of a creation that failed lives in this process, which may end as soon as the caller hears of it.
 * Ranks that are only just coming would then find nobody who tells them why, and try until their deadline.
 */
static void linger(struct hetccl_mesh *mesh)
{
    uint64_t until_ns = hetccl_now_ns() + linger_ns;

    while (hetccl_root_has_news(mesh->endpoint, mesh->job_id, mesh->n_ranks) &&
           !hetccl_mesh_is_cancelled(mesh) && hetccl_now_ns() < until_ns)
        hetccl_mesh_nap(mesh, until_ns);
}

void hetccl_join_stop(struct hetccl_mesh *mesh, enum hetccl_status status, const char *text)
{
    struct hetccl_wire_failure record = {.status = status, .culprit_rank = mesh->rank};
    uint8_t payload[HETCCL_WIRE_FAILURE_BYTES];
    bool is_root_here;

    if (mesh->stage != HETCCL_MESH_JOINING)
        return;
    hetccl_dial_cancel(mesh->join.dial);
    mesh->join.dial = NULL;
    (void)snprintf(record.text, sizeof(record.text), "%s", text);
    is_root_here = hetccl_root_give_up(mesh->endpoint, mesh->job_id, &record);
    if (!is_root_here && mesh->join.conn != NULL) {
        hetccl_wire_failure_encode(&record, payload);
        send_to_root(mesh, HETCCL_FRAME_GIVE_UP, payload, sizeof(payload));
    }
    end_talk(mesh);
    if (is_root_here && (status == HETCCL_ERR_USAGE || status == HETCCL_ERR_REMOTE))
        linger(mesh);
    /* A creation that failed leaves nothing behind in its process, no root and no thread. */
    hetccl_root_forget(mesh->endpoint, mesh->job_id);
}

/* ---- what the root says ---- */

static void take_welcome(struct hetccl_mesh *mesh, const struct hetccl_frame *frame)
{
    struct hetccl_wire_welcome record;
    bool is_sane = hetccl_wire_welcome_decode(frame->payload, frame->head.payload_bytes, &record);

    for (uint32_t i = 0; is_sane && i < record.n_neighbours; i++)
        is_sane = record.neighbours[i].rank < mesh->n_ranks;
    if (!is_sane) {
        hetccl_mesh_fail(mesh, HETCCL_ERR_INTERNAL, UINT32_MAX, "the root's welcome makes no sense");
        return;
    }
    for (uint32_t i = 0; i < record.n_neighbours; i++) {
        struct hetccl_mesh_peer *peer = &mesh->peers[record.neighbours[i].rank];

        peer->contact = record.neighbours[i].contact;
        peer->is_known = true;
    }
    end_talk(mesh);
    hetccl_mesh_meet(mesh, record.mesh_key);
}

static void take_status(struct hetccl_mesh *mesh, const struct hetccl_frame *frame)
{
    if (hetccl_wire_missing_decode(frame->payload, frame->head.payload_bytes, &mesh->join.missing))
        mesh->join.has_status = true;
}

static void take_reject(struct hetccl_mesh *mesh, const struct hetccl_frame *frame)
{
    struct hetccl_wire_failure record;

    if (!hetccl_wire_failure_decode(frame->payload, frame->head.payload_bytes, &record))
        return;
    end_talk(mesh);
    hetccl_mesh_fail(mesh, record.status, record.culprit_rank, record.text);
}

static void conn_frame(struct hetccl_conn *conn, struct hetccl_frame *frame)
{
    struct hetccl_mesh *mesh = conn->owner;

    if (frame->head.kind == HETCCL_FRAME_STATUS)
        take_status(mesh, frame);
    else if (frame->head.kind == HETCCL_FRAME_WELCOME)
        take_welcome(mesh, frame);
    else if (frame->head.kind == HETCCL_FRAME_REJECT)
        take_reject(mesh, frame);
    hetccl_frame_destroy(frame);
}

static void conn_closed(struct hetccl_conn *conn, enum hetccl_conn_end end, const char *reason)
{
    struct hetccl_mesh *mesh = conn->owner;
    char text[HETCCL_ERROR_TEXT_BYTES];

    (void)end;
    mesh->join.conn = NULL;
    (void)snprintf(
        text, sizeof(text),
        "the root at %s on host %s (the process that made the unique id) died while the communicator was "
        "being created (%s)",
        conn->peer_address, conn->answer.host_name, reason);
    hetccl_mesh_fail(mesh, HETCCL_ERR_REMOTE, UINT32_MAX, text);
}

static size_t append_ranks(const struct hetccl_wire_missing *missing, char *out, size_t bytes)
{
    size_t used = (size_t)snprintf(out, bytes, "missing: rank");

    for (uint32_t i = 0; i < missing->n_listed && used + 32 < bytes; i++)
        used += (size_t)snprintf(out + used, bytes - used, "%s %u", i > 0 ? "," : "", missing->ranks[i]);
    if (missing->n_missing > missing->n_listed && used + 32 < bytes)
        used += (size_t)snprintf(out + used, bytes - used, " and %u more",
                                 missing->n_missing - missing->n_listed);
    return used;
}

void hetccl_join_print_missing(const struct hetccl_mesh *mesh, char *out, size_t bytes)
{
    const struct hetccl_join *join = &mesh->join;

    if (join->conn != NULL && join->has_status)
        (void)append_ranks(&join->missing, out, bytes);
    else if (join->conn != NULL)
        (void)snprintf(out, bytes, "missing: a word from the root, which took the registration");
    else if (join->id.is_fixed_root)
        (void)snprintf(out, bytes, "missing: rank 0, the root at NCCL_COMM_ID (%s)",
                       join->dial != NULL ? hetccl_dial_text(join->dial) : "not tried");
    else
        (void)snprintf(out, bytes, "missing: the root, the process that made the unique id (%s)",
                       join->dial != NULL ? hetccl_dial_text(join->dial) : "not tried");
}

/* ---- create ---- */

static enum hetccl_status wait_for_welcome(struct hetccl_mesh *mesh, uint64_t timeout_s, uint64_t deadline_ns)
{
    uint64_t next_report_ns = hetccl_now_ns() + report_period_ns;
    char missing[MISSING_TEXT_BYTES];
    bool is_late;

    while (mesh->stage == HETCCL_MESH_JOINING) {
        enum hetccl_status status = hetccl_mesh_wait(mesh, deadline_ns, &is_late);

        hetccl_join_print_missing(mesh, missing, sizeof(missing));
        if (is_late)
            return hetccl_fail(
                HETCCL_ERR_TIMEOUT,
                "rank %u waited %llu s (HETCCL_INIT_TIMEOUT_S) for the communicator of %u ranks; %s",
                mesh->rank, (unsigned long long)timeout_s, mesh->n_ranks, missing);
        if (status != HETCCL_AGAIN)
            return status;
        if (hetccl_now_ns() >= next_report_ns) {
            next_report_ns += report_period_ns;
            hetccl_log(HETCCL_LOG_INFO, "bootstrap", "rank %u of %u waits; %s", mesh->rank, mesh->n_ranks,
                       missing);
        }
    }
    return HETCCL_OK;
}

/* A unique id's loopback address is the maker's own, not ours. */
static enum hetccl_status check_id(const struct hetccl_wire_unique_id *id)
{
    char address[HETCCL_ADDRESS_TEXT_BYTES];

    for (uint32_t i = 0; i < id->n_addresses; i++)
        if (!hetccl_address_is_loopback(&id->addresses[i]))
            return HETCCL_OK;
    if (id->is_fixed_root || id->place == hetccl_netif_place())
        return HETCCL_OK;
    hetccl_address_print(&id->addresses[0], address);
    return hetccl_fail(
        HETCCL_ERR_USAGE,
        "the unique id carries only the loopback address %s, and was made on another host than this one; "
        "give its maker a network interface, or name one with HETCCL_SOCKET_IFNAME",
        address);
}

/*
 * The fixed root of NCCL_COMM_ID. The port may still be taken by the root of the communicator before this
 * one, whose last ranks are being welcomed.
 */
static enum hetccl_status start_fixed_root(struct hetccl_mesh *mesh, const struct hetccl_config *config,
                                           uint64_t deadline_ns)
{
    const struct hetccl_wire_unique_id *id = &mesh->join.id;
    struct hetccl_root_args args = {
        .job_id = id->job_id, .key = id->key, .lifetime_s = config->init_timeout_s};
    struct hetccl_endpoint *use = NULL;
    struct hetccl_address address;
    enum hetccl_status status;
    bool is_late;

    hetccl_address_from_wire(&id->addresses[0], hetccl_netif_scope(config->socket_ifname, 0), &address);
    while ((status = hetccl_listener_open(&address, 0, 0, &args.listener_fd)) == HETCCL_AGAIN) {
        hetccl_endpoint_lock(mesh->endpoint);
        status = hetccl_mesh_wait(mesh, deadline_ns, &is_late);
        hetccl_endpoint_unlock(mesh->endpoint);
        if (is_late)
            return hetccl_fail(status, "NCCL_COMM_ID %s: the port is in use by another process",
                               config->comm_id);
        if (status != HETCCL_AGAIN)
            return status;
    }
    if (status == HETCCL_OK)
        status = hetccl_endpoint_get(config, NULL, &use);
    if (status != HETCCL_OK)
        return status;
    hetccl_endpoint_lock(use);
    status = hetccl_root_create(use, &args);
    hetccl_endpoint_unlock(use);
    if (status != HETCCL_OK)
        hetccl_endpoint_put(use);
    return status;
}

static enum hetccl_status join(struct hetccl_mesh *mesh, const struct hetccl_config *config,
                               uint64_t deadline_ns)
{
    enum hetccl_status status = HETCCL_OK;

    if (mesh->join.id.is_fixed_root && mesh->rank == 0)
        status = start_fixed_root(mesh, config, deadline_ns);
    if (status != HETCCL_OK)
        return status;
    hetccl_endpoint_lock(mesh->endpoint);
    status = hetccl_join_start(mesh);
    if (status == HETCCL_OK)
        status = wait_for_welcome(mesh, config->init_timeout_s, deadline_ns);
    hetccl_endpoint_unlock(mesh->endpoint);
    return status;
}

static enum hetccl_status check_args(const struct hetccl_mesh_args *args,
                                     struct hetccl_wire_unique_id *id_out)
{
    if (args->n_ids == 0 || args->n_ranks == 0 || args->n_ranks > HETCCL_WIRE_MAX_RANKS ||
        args->rank >= args->n_ranks)
        return hetccl_fail(HETCCL_ERR_ARG, "rank %u of %u ranks with %zu unique ids", args->rank,
                           args->n_ranks, args->n_ids);
    if (!hetccl_wire_unique_id_decode(args->ids[0], id_out))
        return hetccl_fail(HETCCL_ERR_ARG,
                           "the unique id was not made by this library, or was damaged on its way; make it "
                           "with ncclGetUniqueId and pass all 128 bytes to every rank");
    return check_id(id_out);
}

/* The roots of further ids that this process made have nobody to wait for. */
static void forget_other_roots(struct hetccl_mesh *mesh, const struct hetccl_mesh_args *args)
{
    struct hetccl_wire_unique_id id;

    hetccl_endpoint_lock(mesh->endpoint);
    for (size_t i = 1; i < args->n_ids; i++)
        if (hetccl_wire_unique_id_decode(args->ids[i], &id))
            hetccl_root_forget(mesh->endpoint, id.job_id);
    hetccl_endpoint_unlock(mesh->endpoint);
}

enum hetccl_status hetccl_mesh_create(const struct hetccl_mesh_args *args, struct hetccl_mesh **out)
{
    uint64_t deadline_ns = hetccl_deadline_ns(args->config->init_timeout_s);
    struct hetccl_mesh_setup setup = {.rank = args->rank,
                                      .n_ranks = args->n_ranks,
                                      .is_cancelled = args->is_cancelled,
                                      .events = args->events};
    struct hetccl_wire_unique_id id;
    struct hetccl_mesh *mesh = NULL;
    enum hetccl_status status = check_args(args, &id);

    if (status != HETCCL_OK)
        return status;
    status = hetccl_endpoint_get(args->config, &id.addresses[0], &setup.endpoint);
    if (status != HETCCL_OK)
        return status;
    status = hetccl_mesh_setup(&setup, &mesh);
    if (status != HETCCL_OK)
        goto undo_endpoint;
    hetccl_endpoint_lock(mesh->endpoint);
    mesh->join.id = id;
    mesh->job_id = id.job_id;
    memcpy(mesh->job_key, id.key, sizeof(mesh->job_key));
    hetccl_endpoint_unlock(mesh->endpoint);
    status = join(mesh, args->config, deadline_ns);
    if (status != HETCCL_OK) {
        hetccl_mesh_undo(mesh, status);
        return status;
    }
    forget_other_roots(mesh, args);
    status = hetccl_mesh_stand(mesh, deadline_ns);
    if (status == HETCCL_OK)
        *out = mesh;
    return status;
undo_endpoint:
    hetccl_endpoint_put(setup.endpoint);
    return status;
}
