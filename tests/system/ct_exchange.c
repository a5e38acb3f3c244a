/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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
    unsigned char *send[16], *recv[16]; /* by peer */
};

static bool exchange_fill(struct exchange *exchange)
{
    for (int peer = 0; peer < exchange->n; peer++) {
        size_t send_bytes = message_bytes(exchange->ct, exchange->seed, exchange->rank, peer);
        size_t recv_bytes = message_bytes(exchange->ct, exchange->seed, peer, exchange->rank);

        exchange->send[peer] = malloc(send_bytes + 1);
        exchange->recv[peer] = malloc(recv_bytes + 1);
        if (exchange->send[peer] == NULL || exchange->recv[peer] == NULL)
            return false;
        for (size_t i = 0; i < send_bytes; i++)
            exchange->send[peer][i] = message_byte(exchange->seed, exchange->rank, peer, i);
        memset(exchange->recv[peer], 0x77, recv_bytes + 1);
    }
    return true;
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
            first = ncclSend(exchange->send[peer],
                             message_bytes(exchange->ct, exchange->seed, exchange->rank, peer), ncclUint8,
                             peer, comm, NULL);
        else
            first = ncclRecv(exchange->recv[peer],
                             message_bytes(exchange->ct, exchange->seed, peer, exchange->rank), ncclUint8,
                             peer, comm, NULL);
    }
    last = ncclGroupEnd();
    return first != ncclSuccess ? first : last;
}

static int exchange_check(const struct exchange *exchange)
{
    for (int peer = 0; peer < exchange->n; peer++) {
        size_t bytes = message_bytes(exchange->ct, exchange->seed, peer, exchange->rank);

        for (size_t i = 0; i < bytes; i++)
            if (exchange->recv[peer][i] != message_byte(exchange->seed, peer, exchange->rank, i))
                return ct_fail(exchange->ct, CT_WRONG, "seed %llu: byte %zu of %zu from rank %d is wrong",
                               (unsigned long long)exchange->seed, i, bytes, peer);
        if (exchange->recv[peer][bytes] != 0x77)
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

    if (!exchange_fill(&exchange))
        return ct_fail(ct, CT_SETUP, "no memory");
    result = exchange_run(&exchange);
    code = result == ncclSuccess ? exchange_check(&exchange) : ct_fail_call(ct, "the group", result);
    for (int peer = 0; peer < exchange.n; peer++) {
        bytes += (long)message_bytes(ct, seed, exchange.rank, peer) +
                 (long)message_bytes(ct, seed, peer, exchange.rank);
        free(exchange.send[peer]);
        free(exchange.recv[peer]);
    }
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
    size_t bytes = 64u << 20;
    char *memory = calloc(1, bytes);
    int peer = 1 - ct->options.rank;
    ncclResult_t result;

    if (memory == NULL)
        return ct_fail(ct, CT_SETUP, "no memory");
    result = ncclSend(memory, bytes, ncclUint8, peer, ct->comm, NULL);
    if (result == ncclSuccess)
        result = ncclRecv(memory, bytes, ncclUint8, peer, ct->comm, NULL);
    free(memory);
    return result == ncclSuccess ? CT_OK : ct_fail_call(ct, "ncclSend", result);
}

/* 2^31 + 5 bytes from rank 0, as 8-byte words that name their place. */
int ct_scenario_big(struct ct *ct)
{
    size_t count = (1ull << 31) + 5;
    size_t n_words = count / 8;
    uint64_t *words = mmap(NULL, count + 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *bytes = (unsigned char *)words;
    uint64_t n_wrong = 0;
    ncclResult_t result;

    if (words == MAP_FAILED)
        return ct_fail(ct, CT_SETUP, "no memory");
    for (size_t i = 0; ct->options.rank == 0 && i < n_words; i++)
        words[i] = i * 0x9e3779b97f4a7c15ull;
    for (size_t i = n_words * 8; ct->options.rank == 0 && i < count; i++)
        bytes[i] = (unsigned char)(i + 17);
    bytes[count] = 0x66;
    result = ncclBroadcast(words, words, count, ncclInt8, 0, ct->comm, NULL);
    if (result != ncclSuccess)
        return ct_fail_call(ct, "ncclBroadcast", result);
    for (size_t i = 0; i < n_words; i++)
        n_wrong += words[i] != i * 0x9e3779b97f4a7c15ull;
    for (size_t i = n_words * 8; i < count; i++)
        n_wrong += bytes[i] != (unsigned char)(i + 17);
    n_wrong += bytes[count] != 0x66;
    munmap(words, count + 8);
    return n_wrong == 0 ? CT_OK : ct_fail(ct, CT_WRONG, "%llu words wrong", (unsigned long long)n_wrong);
}
