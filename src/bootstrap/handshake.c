/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/conn.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "bootstrap/mesh_internal.h"
#include "bootstrap/root.h"
#include "bootstrap/route.h"
#include "bootstrap/stream.h"

void hetccl_handshake_mac(const uint8_t key[HETCCL_WIRE_KEY_BYTES], const char *label,
                          const uint8_t hello[HETCCL_WIRE_HELLO_BYTES],
                          const uint8_t answer[HETCCL_WIRE_ANSWER_BYTES], uint8_t out[HETCCL_WIRE_MAC_BYTES])
{
    crypto_generichash_state state;

    crypto_generichash_init(&state, key, HETCCL_WIRE_KEY_BYTES, HETCCL_WIRE_MAC_BYTES);
    crypto_generichash_update(&state, (const uint8_t *)label, strlen(label) + 1);
    crypto_generichash_update(&state, hello, HETCCL_WIRE_HELLO_BYTES);
    crypto_generichash_update(&state, answer, HETCCL_WIRE_ANSWER_SIGNED_BYTES);
    crypto_generichash_final(&state, out, HETCCL_WIRE_MAC_BYTES);
}

size_t hetccl_handshake_wants_bytes(const struct hetccl_conn *conn)
{
    switch (conn->state) {
    case HETCCL_CONN_WAIT_HELLO:
        return HETCCL_WIRE_HELLO_BYTES;
    case HETCCL_CONN_WAIT_ANSWER:
        return HETCCL_WIRE_ANSWER_BYTES;
    case HETCCL_CONN_WAIT_PROOF:
        return HETCCL_WIRE_MAC_BYTES;
    default:
        return HETCCL_WIRE_FRAME_BYTES;
    }
}

/* Connecting side: the connection stands, say who we are. Who is on the other side isn't known yet. */
void hetccl_handshake_begin(struct hetccl_conn *conn)
{
    struct hetccl_endpoint *endpoint = conn->endpoint;

    conn->hello.revision = HETCCL_WIRE_REVISION;
    conn->hello.library_version = HETCCL_WIRE_LIBRARY_VERSION;
    conn->hello.process_key = endpoint->self.process_key;
    memcpy(conn->hello.host_name, endpoint->self.host_name, sizeof(conn->hello.host_name));
    randombytes_buf(conn->hello.nonce, sizeof(conn->hello.nonce));
    hetccl_wire_hello_encode(&conn->hello, conn->hello_bytes);
    conn->state = HETCCL_CONN_WAIT_ANSWER;
    if (conn->ops->connected != NULL)
        conn->ops->connected(conn);
    (void)hetccl_conn_write_piece(conn, conn->hello_bytes, sizeof(conn->hello_bytes));
}

/* Listening side: which key does the job have, if it is one of ours. */
static bool find_key(struct hetccl_conn *conn)
{
    const uint8_t *key = conn->hello.role == HETCCL_ROLE_REGISTER
                             ? hetccl_root_key(conn->endpoint, conn->hello.job_id)
                             : hetccl_mesh_job_key(conn->endpoint, conn->hello.job_id);

    if (key == NULL)
        return false;
    memcpy(conn->key, key, sizeof(conn->key));
    return true;
}

static void input_hello(struct hetccl_conn *conn)
{
    struct hetccl_endpoint *endpoint = conn->endpoint;
    struct hetccl_wire_answer *answer = &conn->answer;
    bool is_known;

    memcpy(conn->hello_bytes, conn->head, sizeof(conn->hello_bytes));
    if (!hetccl_wire_hello_decode(conn->hello_bytes, &conn->hello)) {
        hetccl_conn_drop(conn, HETCCL_CONN_STRANGER, "what it says is no hello of this library");
        return;
    }
    is_known = find_key(conn);
    memset(answer, 0, sizeof(*answer));
    answer->revision = HETCCL_WIRE_REVISION;
    answer->library_version = HETCCL_WIRE_LIBRARY_VERSION;
    answer->verdict = is_known ? HETCCL_VERDICT_GO : HETCCL_VERDICT_UNKNOWN_JOB;
    answer->process_key = endpoint->self.process_key;
    memcpy(answer->host_name, endpoint->self.host_name, sizeof(answer->host_name));
    randombytes_buf(answer->nonce, sizeof(answer->nonce));
    hetccl_wire_answer_encode(answer, conn->answer_bytes);
    if (is_known) {
        hetccl_handshake_mac(conn->key, "server", conn->hello_bytes, conn->answer_bytes, answer->mac);
        hetccl_wire_answer_encode(answer, conn->answer_bytes);
    }
    if (!hetccl_conn_write_piece(conn, conn->answer_bytes, sizeof(conn->answer_bytes)))
        return;
    conn->state = HETCCL_CONN_WAIT_PROOF;
    if (!is_known)
        hetccl_conn_drop(conn, HETCCL_CONN_STRANGER, "it asks for a job that isn't ours (an old unique id?)");
}

static void print_revisions(const struct hetccl_conn *conn, char *out, size_t bytes)
{
    char peer[HETCCL_WIRE_VERSION_TEXT_BYTES];
    char own[HETCCL_WIRE_VERSION_TEXT_BYTES];

    hetccl_wire_version_print(conn->answer.library_version, conn->answer.revision, peer);
    hetccl_wire_version_print(HETCCL_WIRE_LIBRARY_VERSION, HETCCL_WIRE_REVISION, own);
    (void)snprintf(out, bytes,
                   "library versions don't fit: rank %u on host %s has %s, the root at %s on host %s has %s; "
                   "install the "
                   "same version everywhere",
                   conn->hello.src_rank, conn->endpoint->self.host_name, own, conn->peer_address,
                   conn->answer.host_name, peer);
}

/*
 * The proof is sent before the revisions are compared: only then may the listener believe ours and tell the
 * other ranks, and the listener can't be brought to fail a job by somebody who doesn't know the key.
 */
static void input_answer(struct hetccl_conn *conn)
{
    uint8_t mac[HETCCL_WIRE_MAC_BYTES];
    char text[512];

    memcpy(conn->answer_bytes, conn->head, sizeof(conn->answer_bytes));
    if (!hetccl_wire_answer_decode(conn->answer_bytes, &conn->answer)) {
        hetccl_conn_drop(conn, HETCCL_CONN_STRANGER, "something else than this library answers");
        return;
    }
    if (conn->answer.verdict == HETCCL_VERDICT_UNKNOWN_JOB) {
        hetccl_conn_drop(conn, HETCCL_CONN_UNKNOWN_JOB, "the listener doesn't know the job");
        return;
    }
    hetccl_handshake_mac(conn->key, "server", conn->hello_bytes, conn->answer_bytes, mac);
    if (sodium_memcmp(mac, conn->answer.mac, sizeof(mac)) != 0) {
        hetccl_conn_drop(conn, HETCCL_CONN_STRANGER, "the listener doesn't know the job's key");
        return;
    }
    hetccl_handshake_mac(conn->key, "client", conn->hello_bytes, conn->answer_bytes, mac);
    if (!hetccl_conn_write_piece(conn, mac, sizeof(mac)))
        return;
    if (conn->answer.revision != HETCCL_WIRE_REVISION) {
        print_revisions(conn, text, sizeof(text));
        hetccl_conn_drop(conn, HETCCL_CONN_REVISION, text);
        return;
    }
    conn->peer_process_key = conn->answer.process_key;
    conn->state = HETCCL_CONN_READY;
    conn->deadline_ns = 0;
    conn->ops->ready(conn);
}

static void input_proof(struct hetccl_conn *conn)
{
    uint8_t mac[HETCCL_WIRE_MAC_BYTES];

    hetccl_handshake_mac(conn->key, "client", conn->hello_bytes, conn->answer_bytes, mac);
    if (sodium_memcmp(mac, conn->head, sizeof(mac)) != 0) {
        hetccl_conn_drop(conn, HETCCL_CONN_STRANGER, "it doesn't know the job's key");
        return;
    }
    conn->is_proved = true;
    conn->endpoint->n_unproved--;
    conn->peer_process_key = conn->hello.process_key;
    conn->state = HETCCL_CONN_READY;
    conn->deadline_ns = 0;
    if (conn->hello.role == HETCCL_ROLE_REGISTER)
        hetccl_root_adopt(conn);
    else if (conn->hello.revision != HETCCL_WIRE_REVISION)
        hetccl_conn_drop(conn, HETCCL_CONN_REVISION, "its wire revision differs");
    else if (conn->hello.role == HETCCL_ROLE_CONTROL)
        hetccl_route_adopt(conn);
    else
        hetccl_stream_adopt(conn);
}

void hetccl_handshake_input(struct hetccl_conn *conn)
{
    switch (conn->state) {
    case HETCCL_CONN_WAIT_HELLO:
        input_hello(conn);
        break;
    case HETCCL_CONN_WAIT_ANSWER:
        input_answer(conn);
        break;
    case HETCCL_CONN_WAIT_PROOF:
        input_proof(conn);
        break;
    default:
        break;
    }
}
