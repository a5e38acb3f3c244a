/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "ct.h"

/* A18: everybody sends to and receives from everybody in one group. A19: more than 2^31 elements. */

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* Size of the message from one rank to another: known to both without talking. */
static size_t message_bytes(const struct ct *ct, uint64_t seed, int from, int to)
{
    size_t sizes[4] = {0, 1, 4097, (size_t)(ct->options.limit > 0 ? ct->options.limit : 4l << 20)};

    return sizes[mix(seed * 1000003 + (uint64_t)from * 1009 + (uint64_t)to) % 4];
}

static unsigned char message_byte(uint64_t seed, int from, int to, size_t index)
{
    return (unsigned char)(index * 31 + (index >> 8) * 7 + (index >> 16) + (uint64_t)from * 13 +
                           (uint64_t)to * 59 + seed);
}

struct exchange {
    struct ct *ct;
    uint64_t seed;
    int n, rank;
    int n_streams; /* 0: ct->stream */
    void *streams[3];
    struct ct_memory send[16], recv[16]; /* by peer */
};

static int exchange_fill(struct exchange *exchange)
{
    int code = CT_OK;

    for (int peer = 0; code == CT_OK && peer < exchange->n; peer++) {
        size_t send_bytes = message_bytes(exchange->ct, exchange->seed, exchange->rank, peer);
        size_t recv_bytes = message_bytes(exchange->ct, exchange->seed, peer, exchange->rank);
        struct ct_memory *send = &exchange->send[peer];
        struct ct_memory *recv = &exchange->recv[peer];

        code = ct_memory_open(exchange->ct, send_bytes + 1, send);
        if (code == CT_OK)
            code = ct_memory_open(exchange->ct, recv_bytes + 1, recv);
        if (code != CT_OK)
            return code;
        for (size_t i = 0; i < send_bytes; i++)
            send->host[i] = (char)message_byte(exchange->seed, exchange->rank, peer, i);
        memset(recv->host, 0x77, recv_bytes + 1);
        code = ct_memory_push(exchange->ct, send);
        if (code == CT_OK)
            code = ct_memory_push(exchange->ct, recv);
    }
    return code;
}

/* The calls of a group may stand on several streams (--variant streams). */
static void *exchange_stream(const struct exchange *exchange, int i)
{
    return exchange->n_streams > 0 ? exchange->streams[i % exchange->n_streams] : exchange->ct->stream;
}

/* The 2n calls of the group in an order of the rank's own. */
static ncclResult_t exchange_run(struct exchange *exchange)
{
    int order[32];
    ncclResult_t first = ncclGroupStart();
    ncclResult_t last;

    for (int i = 0; i < 2 * exchange->n; i++) {
        int other =
            (int)(mix(exchange->seed * 77 + (uint64_t)(exchange->rank * 100 + i)) % (uint64_t)(i + 1));

        order[i] = order[other];
        order[other] = i;
    }
    for (int i = 0; first == ncclSuccess && i < 2 * exchange->n; i++) {
        int peer = order[i] / 2;
        ncclComm_t comm = exchange->ct->comm;

        if (order[i] % 2 == 0)
            first = ncclSend(exchange->send[peer].device,
                             message_bytes(exchange->ct, exchange->seed, exchange->rank, peer), ncclUint8,
                             peer, comm, exchange_stream(exchange, i));
        else
            first = ncclRecv(exchange->recv[peer].device,
                             message_bytes(exchange->ct, exchange->seed, peer, exchange->rank), ncclUint8,
                             peer, comm, exchange_stream(exchange, i));
    }
    last = ncclGroupEnd();
    return first != ncclSuccess ? first : last;
}

static int exchange_check(const struct exchange *exchange)
{
    for (int i = 0; i < exchange->n_streams; i++)
        if (ct_settle_on(exchange->ct, exchange->ct->comm, exchange->streams[i]) != ncclSuccess)
            return ct_fail(exchange->ct, CT_WRONG, "stream %d", i);
    for (int peer = 0; peer < exchange->n; peer++) {
        size_t bytes = message_bytes(exchange->ct, exchange->seed, peer, exchange->rank);
        int code = ct_memory_pull(exchange->ct, &exchange->recv[peer]);

        if (code != CT_OK)
            return code;
        for (size_t i = 0; i < bytes; i++)
            if ((unsigned char)exchange->recv[peer].host[i] !=
                message_byte(exchange->seed, peer, exchange->rank, i))
                return ct_fail(exchange->ct, CT_WRONG, "seed %llu: byte %zu of %zu from rank %d is wrong",
                               (unsigned long long)exchange->seed, i, bytes, peer);
        if (exchange->recv[peer].host[bytes] != 0x77)
            return ct_fail(exchange->ct, CT_WRONG, "a byte behind the message from rank %d was written",
                           peer);
    }
    return CT_OK;
}

static int exchange_once(struct ct *ct, uint64_t seed, long *user_bytes)
{
    struct exchange exchange = {.ct = ct, .seed = seed, .n = ct->options.size, .rank = ct->options.rank};
    ncclResult_t result;
    long bytes = 0;
    int code;

    if (ct->cuda != NULL && strcmp(ct->options.variant, "streams") == 0)
        exchange.n_streams = 3;
    for (int i = 0; i < exchange.n_streams; i++)
        exchange.streams[i] = ct_cuda_new_stream(ct->cuda);
    code = exchange_fill(&exchange);
    if (code != CT_OK)
        return code;
    result = exchange_run(&exchange);
    code = result == ncclSuccess ? exchange_check(&exchange) : ct_fail_call(ct, "the group", result);
    for (int peer = 0; peer < exchange.n; peer++) {
        bytes += (long)message_bytes(ct, seed, exchange.rank, peer) +
                 (long)message_bytes(ct, seed, peer, exchange.rank);
        ct_memory_close(ct, &exchange.send[peer]);
        ct_memory_close(ct, &exchange.recv[peer]);
    }
    for (int i = 0; i < exchange.n_streams; i++)
        ct_cuda_check(ct->cuda->cuStreamDestroy_v2(exchange.streams[i]), "cuStreamDestroy");
    if (bytes > *user_bytes)
        *user_bytes = bytes;
    return code;
}

int ct_scenario_exchange(struct ct *ct)
{
    long before = ct_rss_bytes();
    long user_bytes = 0;

    for (long i = 0; i < ct->options.iters; i++) {
        int code = exchange_once(ct, (uint64_t)(ct->options.seed + i), &user_bytes);

        if (code != CT_OK)
            return code;
    }
    ct_note(ct, " beyond=%ld", ct_peak_rss_bytes() - before - user_bytes);
    return CT_OK;
}

/* Two ranks that both send first, outside a group: only the deadline ends it. */
int ct_scenario_blocked(struct ct *ct)
{
    struct ct_memory memory;
    size_t bytes = 64u << 20;
    int peer = 1 - ct->options.rank;
    int code = ct_memory_open(ct, bytes, &memory);
    ncclResult_t result;

    if (code != CT_OK)
        return code;
    result = ncclSend(memory.device, bytes, ncclUint8, peer, ct->comm, ct->stream);
    if (result == ncclSuccess)
        result = ncclRecv(memory.device, bytes, ncclUint8, peer, ct->comm, ct->stream);
    if (result != ncclSuccess)
        code = ct_fail_call(ct, "ncclSend", result);
    else
        code = ct_settle(ct);
    (void)ct_becomes_idle(ct, ct->stream, 10);
    ct_memory_close(ct, &memory);
    return code;
}

/* 2^31 + 5 bytes from rank 0, as 8-byte words that name their place. */
int ct_scenario_big(struct ct *ct)
{
    size_t count = (1ull << 31) + 5;
    size_t n_words = count / 8;
    struct ct_memory memory;
    uint64_t *words;
    unsigned char *bytes;
    uint64_t n_wrong = 0;
    ncclResult_t result;
    int code = ct_memory_open(ct, count + 8, &memory);

    if (code != CT_OK)
        return code;
    words = (uint64_t *)(void *)memory.host;
    bytes = (unsigned char *)words;
    for (size_t i = 0; ct->options.rank == 0 && i < n_words; i++)
        words[i] = i * 0x9e3779b97f4a7c15ull;
    for (size_t i = n_words * 8; ct->options.rank == 0 && i < count; i++)
        bytes[i] = (unsigned char)(i + 17);
    bytes[count] = 0x66;
    code = ct_memory_push(ct, &memory);
    if (code != CT_OK)
        return code;
    result = ncclBroadcast(memory.device, memory.device, count, ncclInt8, 0, ct->comm, ct->stream);
    if (result != ncclSuccess)
        return ct_fail_call(ct, "ncclBroadcast", result);
    code = ct_memory_pull(ct, &memory);
    for (size_t i = 0; i < n_words; i++)
        n_wrong += words[i] != i * 0x9e3779b97f4a7c15ull;
    for (size_t i = n_words * 8; i < count; i++)
        n_wrong += bytes[i] != (unsigned char)(i + 17);
    n_wrong += bytes[count] != 0x66;
    ct_memory_close(ct, &memory);
    if (code != CT_OK)
        return code;
    return n_wrong == 0 ? CT_OK : ct_fail(ct, CT_WRONG, "%llu words wrong", (unsigned long long)n_wrong);
}
