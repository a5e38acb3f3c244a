/* SPDX-License-Identifier: Apache-2.0 */
/* What collectives of all kinds and sizes give. */
#include <string.h>

#include "movers.h"

struct buffers {
    float *send, *recv; /* of n_ranks * count */
};

static float value(size_t i, int rank)
{
    return (float)(i % 97 + 3 * (size_t)rank);
}

static float sum_at(const struct movers_rank *r, size_t i)
{
    float sum = 0;

    for (int rank = 0; rank < r->n_ranks; rank++)
        sum += value(i, rank);
    return sum;
}

static void fill(const struct movers_rank *r, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = value(i, r->rank);
}

static void allreduces(struct movers_rank *r, const struct buffers *b, size_t count)
{
    ncclRedOp_t scaled;
    float factor = 0.5F;

    for (int is_in_place = 0; is_in_place <= 1; is_in_place++) {
        fill(r, is_in_place ? b->recv : b->send, count);
        MOVERS_CHECK(r, ncclAllReduce(is_in_place ? b->recv : b->send, b->recv, count, ncclFloat, ncclSum,
                                      r->comm, r->stream) == ncclSuccess);
        MOVERS_CHECK(r, movers_wait(r, 20));
        for (size_t i = 0; i < count && r->n_failures < 5; i++)
            MOVERS_CHECK(r, b->recv[i] == sum_at(r, i));
    }
    MOVERS_CHECK(r, ncclRedOpCreatePreMulSum(&scaled, &factor, ncclFloat, ncclScalarHostImmediate, r->comm) ==
                        ncclSuccess);
    for (int is_in_place = 0; is_in_place <= 1; is_in_place++) {
        fill(r, is_in_place ? b->recv : b->send, count);
        MOVERS_CHECK(r, ncclAllReduce(is_in_place ? b->recv : b->send, b->recv, count, ncclFloat, scaled,
                                      r->comm, r->stream) == ncclSuccess);
        MOVERS_CHECK(r, movers_wait(r, 20));
        for (size_t i = 0; i < count && r->n_failures < 5; i++)
            MOVERS_CHECK(r, b->recv[i] == 0.5F * sum_at(r, i));
    }
    MOVERS_CHECK(r, ncclRedOpDestroy(scaled, r->comm) == ncclSuccess);
}

/* An average of integers is widened, summed and narrowed around the mover's work. */
static void averages(struct movers_rank *r, const struct buffers *b, size_t count)
{
    int32_t *send = (int32_t *)(void *)b->send, *recv = (int32_t *)(void *)b->recv;

    for (size_t i = 0; i < count; i++)
        send[i] = (int32_t)i * r->n_ranks + r->rank;
    MOVERS_CHECK(r, ncclAllReduce(send, recv, count, ncclInt32, ncclAvg, r->comm, r->stream) == ncclSuccess);
    MOVERS_CHECK(r, movers_wait(r, 20));
    for (size_t i = 0; i < count && r->n_failures < 5; i++)
        MOVERS_CHECK(r, recv[i] == (int32_t)i * r->n_ranks + (r->n_ranks - 1) / 2);
}

static void rooted(struct movers_rank *r, const struct buffers *b, size_t count)
{
    int root = r->n_ranks - 1;

    fill(r, b->send, count);
    MOVERS_CHECK(r, ncclReduce(b->send, b->recv, count, ncclFloat, ncclSum, root, r->comm, r->stream) ==
                        ncclSuccess);
    MOVERS_CHECK(r, movers_wait(r, 20));
    for (size_t i = 0; r->rank == root && i < count && r->n_failures < 5; i++)
        MOVERS_CHECK(r, b->recv[i] == sum_at(r, i));
    MOVERS_CHECK(r, ncclBroadcast(b->send, b->recv, count, ncclFloat, 0, r->comm, r->stream) == ncclSuccess);
    MOVERS_CHECK(r, movers_wait(r, 20));
    for (size_t i = 0; i < count && r->n_failures < 5; i++)
        MOVERS_CHECK(r, b->recv[i] == value(i, 0));
}

static void blocks(struct movers_rank *r, const struct buffers *b, size_t count)
{
    size_t own = (size_t)r->rank * count;

    fill(r, b->send, count * (size_t)r->n_ranks);
    MOVERS_CHECK(r, ncclAllGather(b->send, b->recv, count, ncclFloat, r->comm, r->stream) == ncclSuccess);
    MOVERS_CHECK(r, movers_wait(r, 20));
    for (size_t i = 0; i < count * (size_t)r->n_ranks && r->n_failures < 5; i++)
        MOVERS_CHECK(r, b->recv[i] == value(i % count, (int)(i / count)));
    MOVERS_CHECK(r, ncclReduceScatter(b->send, b->recv, count, ncclFloat, ncclSum, r->comm, r->stream) ==
                        ncclSuccess);
    MOVERS_CHECK(r, movers_wait(r, 20));
    for (size_t i = 0; i < count && r->n_failures < 5; i++)
        MOVERS_CHECK(r, b->recv[i] == sum_at(r, own + i));
    MOVERS_CHECK(r, ncclAlltoAll(b->send, b->recv, count, ncclFloat, r->comm, r->stream) == ncclSuccess);
    MOVERS_CHECK(r, movers_wait(r, 20));
    for (size_t i = 0; i < count * (size_t)r->n_ranks && r->n_failures < 5; i++)
        MOVERS_CHECK(r, b->recv[i] == value(own + i % count, (int)(i / count)));
}

/* In place, and from the ranks' ends to their beginnings. */
static void groups(struct movers_rank *r, const struct buffers *b, size_t count)
{
    size_t n_ranks = (size_t)r->n_ranks, own = (size_t)r->rank * count;

    fill(r, b->send, count * n_ranks);
    memset(b->recv, 0, count * n_ranks * sizeof(float));
    MOVERS_CHECK(r, ncclGroupStart() == ncclSuccess);
    for (size_t peer = n_ranks; peer-- > 0;)
        MOVERS_CHECK(r, ncclSend(b->send + peer * count, count, ncclFloat, (int)peer, r->comm, r->stream) ==
                            ncclSuccess);
    for (size_t peer = 0; peer < n_ranks; peer++)
        MOVERS_CHECK(r, ncclRecv(b->recv + peer * count, count, ncclFloat, (int)peer, r->comm, r->stream) ==
                            ncclSuccess);
    MOVERS_CHECK(r, ncclGroupEnd() == ncclSuccess);
    MOVERS_CHECK(r, movers_wait(r, 20));
    for (size_t i = 0; i < count * n_ranks && r->n_failures < 5; i++)
        MOVERS_CHECK(r, b->recv[i] == value(own + i % count, (int)(i / count)));
}

/* Many calls one behind the other, on the same buffers. */
static void queued(struct movers_rank *r, const struct buffers *b, size_t count)
{
    enum { N_CALLS = 20 };
    float expected = 1;

    for (size_t i = 0; i < count; i++)
        b->recv[i] = 1;
    for (int call = 0; call < N_CALLS; call++, expected *= (float)r->n_ranks)
        MOVERS_CHECK(r, ncclAllReduce(b->recv, b->recv, count, ncclFloat, ncclSum, r->comm, r->stream) ==
                            ncclSuccess);
    MOVERS_CHECK(r, movers_wait(r, 20));
    for (size_t i = 0; i < count && r->n_failures < 5; i++)
        MOVERS_CHECK(r, b->recv[i] == expected);
}

/* Pinned host memory, which the driver's copies to and from slots in host memory would block on. */
static void pinned(struct movers_rank *r, size_t count)
{
    struct buffers b = {NULL, NULL};
    void *memory[2];

    for (int i = 0; i < 2; i++)
        MOVERS_CHECK(r, r->driver.cuMemHostAlloc(&memory[i], count * (size_t)r->n_ranks * sizeof(float), 3) ==
                            0);
    b.send = memory[0];
    b.recv = memory[1];
    blocks(r, &b, count);
    groups(r, &b, count);
    for (int i = 0; i < 2; i++)
        MOVERS_CHECK(r, r->driver.cuMemFreeHost(memory[i]) == 0);
}

/* Counts of less than a piece, less than a ring, and more. */
void movers_values(struct movers_rank *r)
{
    static const size_t counts[] = {1, 1000, 25013, 300007};

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        size_t bytes = counts[i] * (size_t)r->n_ranks * sizeof(float);
        struct buffers b;

        if (counts[i] > r->count)
            continue;
        b = (struct buffers){movers_memory(r, bytes), movers_memory(r, bytes)};
        allreduces(r, &b, counts[i]);
        averages(r, &b, counts[i]);
        rooted(r, &b, counts[i]);
        blocks(r, &b, counts[i]);
        groups(r, &b, counts[i]);
        if (i < 3)
            queued(r, &b, counts[i]);
        MOVERS_CHECK(r, ncclMemFree(b.send) == ncclSuccess && ncclMemFree(b.recv) == ncclSuccess);
    }
    pinned(r, 25013);
}
