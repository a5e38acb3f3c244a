/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/dial.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/time.h"
#include "bootstrap/netif.h"

enum { TEXT_BYTES = 640, MAX_DOUBLINGS = 3 };

static const uint64_t first_pause_ns = 50ull * HETCCL_NS_PER_MS;
static const uint64_t longest_pause_ns = 1ull * HETCCL_NS_PER_S;
static const uint64_t first_connect_ns = 2ull * HETCCL_NS_PER_S;
static const uint64_t answer_ns = 30ull * HETCCL_NS_PER_S;
/* With other addresses to try, a silent listener is more likely somebody else than somebody stopped. */
static const uint64_t answer_of_many_ns = 5ull * HETCCL_NS_PER_S;

struct hetccl_dial {
    struct hetccl_list_node node;
    struct hetccl_endpoint *endpoint;
    struct hetccl_wire_address addresses[HETCCL_WIRE_MAX_ADDRESSES];
    uint32_t n_addresses;
    uint64_t expected_process_key;
    struct hetccl_wire_hello hello;
    uint8_t key[HETCCL_WIRE_KEY_BYTES];
    uint64_t give_up_ns;
    bool is_patient;
    const struct hetccl_dial_ops *ops;
    void *owner;
    struct hetccl_conn *conn;
    uint32_t n_attempts;
    uint64_t pause_ns, next_ns; /* the next attempt, when there is no conn */
    uint64_t failing_since_ns;  /* since when no TCP connection stood; 0: the last one did */
    bool was_connected;         /* this attempt's TCP connection stood */
    char text[TEXT_BYTES];
};

static void conn_connected(struct hetccl_conn *conn);
static void conn_ready(struct hetccl_conn *conn);
static void conn_closed(struct hetccl_conn *conn, enum hetccl_conn_end end, const char *reason);

static void conn_frame(struct hetccl_conn *conn, struct hetccl_frame *frame)
{
    (void)conn;
    hetccl_frame_destroy(frame);
}

static const struct hetccl_conn_ops dial_conn_ops = {
    .connected = conn_connected, .ready = conn_ready, .frame = conn_frame, .closed = conn_closed};

static void destroy(struct hetccl_dial *dial)
{
    hetccl_list_remove(&dial->node);
    hetccl_free(dial);
}

static void give_up(struct hetccl_dial *dial, enum hetccl_status status, const char *text)
{
    const struct hetccl_dial_ops *ops = dial->ops;
    void *owner = dial->owner;
    char copy[TEXT_BYTES];

    (void)snprintf(copy, sizeof(copy), "%s", text);
    destroy(dial);
    ops->failed(owner, status, copy);
}

static const struct hetccl_wire_address *current_address(const struct hetccl_dial *dial)
{
    return &dial->addresses[dial->n_attempts % dial->n_addresses];
}

/* The attempt is over: the next address at once, or after a pause when all have had their turn. */
static void plan_next(struct hetccl_dial *dial, const char *reason)
{
    char address[HETCCL_ADDRESS_TEXT_BYTES];
    uint64_t now_ns = hetccl_now_ns();

    hetccl_address_print(current_address(dial), address);
    (void)snprintf(dial->text, sizeof(dial->text), "%s: %s", address, reason);
    hetccl_log(HETCCL_LOG_DEBUG, "bootstrap", "attempt %u to connect, %s", dial->n_attempts + 1, dial->text);
    if (!dial->was_connected && dial->failing_since_ns == 0)
        dial->failing_since_ns = now_ns;
    dial->conn = NULL;
    dial->n_attempts++;
    dial->next_ns = now_ns;
    if (dial->n_attempts % dial->n_addresses == 0) {
        dial->next_ns = now_ns + dial->pause_ns;
        dial->pause_ns = 2 * dial->pause_ns < longest_pause_ns ? 2 * dial->pause_ns : longest_pause_ns;
    }
}

static void attempt(struct hetccl_dial *dial)
{
    uint32_t round = dial->n_attempts / dial->n_addresses;
    const struct hetccl_wire_address *wire = current_address(dial);
    struct hetccl_address address;
    struct hetccl_conn_open_args args = {
        .address = &address,
        .hello = &dial->hello,
        .key = dial->key,
        .ops = &dial_conn_ops,
        .owner = dial,
        .deadline_ns =
            hetccl_now_ns() + (first_connect_ns << (round < MAX_DOUBLINGS ? round : MAX_DOUBLINGS))};
    unsigned scope_id = 0;
    int error = 0;

    if (hetccl_address_is_link_local(wire))
        scope_id = hetccl_netif_scope(dial->endpoint->socket_ifname, round);
    hetccl_address_from_wire(wire, scope_id, &address);
    dial->was_connected = false;
    if (hetccl_conn_open(dial->endpoint, &args, &dial->conn, &error) != HETCCL_OK)
        plan_next(dial, strerror(error));
}

static void conn_connected(struct hetccl_conn *conn)
{
    struct hetccl_dial *dial = conn->owner;
    char address[HETCCL_ADDRESS_TEXT_BYTES];

    dial->was_connected = true;
    dial->failing_since_ns = 0;
    conn->deadline_ns = hetccl_now_ns() + (dial->n_addresses > 1 ? answer_of_many_ns : answer_ns);
    hetccl_address_print(current_address(dial), address);
    (void)snprintf(dial->text, sizeof(dial->text), "%s: connected, but no answer yet", address);
}

static void conn_ready(struct hetccl_conn *conn)
{
    struct hetccl_dial *dial = conn->owner;
    const struct hetccl_dial_ops *ops = dial->ops;
    void *owner = dial->owner;

    if (dial->expected_process_key != 0 && conn->peer_process_key != dial->expected_process_key) {
        hetccl_conn_drop(conn, HETCCL_CONN_STRANGER, "another process than the one meant answers there");
        return;
    }
    destroy(dial);
    ops->connected(owner, conn);
}

static void conn_closed(struct hetccl_conn *conn, enum hetccl_conn_end end, const char *reason)
{
    struct hetccl_dial *dial = conn->owner;
    char text[TEXT_BYTES];

    if (end == HETCCL_CONN_REVISION) {
        give_up(dial, HETCCL_ERR_USAGE, reason);
        return;
    }
    if (end == HETCCL_CONN_UNKNOWN_JOB && !dial->is_patient) {
        (void)snprintf(text, sizeof(text), "%s on host %s: %s", conn->peer_address, conn->answer.host_name,
                       reason);
        give_up(dial, HETCCL_ERR_USAGE, text);
        return;
    }
    plan_next(dial, reason);
}

enum hetccl_status hetccl_dial_start(struct hetccl_endpoint *endpoint, const struct hetccl_dial_args *args,
                                     struct hetccl_dial **out)
{
    struct hetccl_dial *dial = NULL;
    enum hetccl_status status = hetccl_alloc(1, sizeof(*dial), &dial);

    if (status != HETCCL_OK)
        return status;
    dial->endpoint = endpoint;
    dial->n_addresses = args->n_addresses;
    memcpy(dial->addresses, args->addresses, args->n_addresses * sizeof(args->addresses[0]));
    dial->expected_process_key = args->expected_process_key;
    dial->hello = args->hello;
    memcpy(dial->key, args->key, sizeof(dial->key));
    dial->give_up_ns = args->give_up_ns;
    dial->is_patient = args->is_patient;
    dial->ops = args->ops;
    dial->owner = args->owner;
    dial->pause_ns = first_pause_ns;
    hetccl_list_append(&endpoint->dials, &dial->node);
    attempt(dial);
    hetccl_endpoint_wake(endpoint); /* from now on there are ticks */
    *out = dial;
    return HETCCL_OK;
}

void hetccl_dial_cancel(struct hetccl_dial *dial)
{
    if (dial == NULL)
        return;
    hetccl_conn_close(dial->conn);
    destroy(dial);
}

const char *hetccl_dial_text(const struct hetccl_dial *dial)
{
    return dial->text;
}

/* One dial that has something to do now, or NULL. */
static struct hetccl_dial *find_due(struct hetccl_endpoint *endpoint, uint64_t now_ns)
{
    for (struct hetccl_list_node *node = endpoint->dials.next; node != &endpoint->dials; node = node->next) {
        struct hetccl_dial *dial = (struct hetccl_dial *)node;

        if (dial->conn == NULL && dial->next_ns <= now_ns)
            return dial;
    }
    return NULL;
}

void hetccl_dials_tick(struct hetccl_endpoint *endpoint, uint64_t now_ns)
{
    struct hetccl_dial *dial;

    while ((dial = find_due(endpoint, now_ns)) != NULL) {
        if (dial->failing_since_ns != 0 && now_ns >= dial->failing_since_ns &&
            now_ns - dial->failing_since_ns >= dial->give_up_ns)
            give_up(dial, HETCCL_ERR_REMOTE, dial->text);
        else
            attempt(dial);
    }
}
