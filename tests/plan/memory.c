/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <string.h>

#include "base/memory.h"

uint32_t memory_value(uint32_t rank, size_t i)
{
    uint64_t x = ((uint64_t)rank << 40 | i) + 1;

    x *= UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)(x >> 32);
}

void memory_reset(struct memory *memory, uint32_t rank)
{
    const struct memory_buffer *send = &memory->buffers[HETCCL_BUF_SEND];

    for (size_t i = 0; i < memory->count; i++)
        memory->cells[i] = memory_value(rank + 1000, i);
    for (size_t i = 0; i < send->count; i++)
        memory->cells[send->start + i] = memory_value(rank, i);
}

enum hetccl_status memory_init(struct memory *memory, uint32_t rank, struct memory_buffer send,
                               struct memory_buffer recv, size_t n_scratch)
{
    enum hetccl_status status;

    memory->user_count = hetccl_max_size(send.start + send.count, recv.start + recv.count);
    memory->count = memory->user_count + n_scratch;
    memory->buffers[HETCCL_BUF_SEND] = send;
    memory->buffers[HETCCL_BUF_RECV] = recv;
    memory->buffers[HETCCL_BUF_SCRATCH] = (struct memory_buffer){memory->user_count, n_scratch};
    status = hetccl_alloc(memory->count, sizeof(*memory->cells), &memory->cells);
    if (status == HETCCL_OK)
        status = hetccl_alloc(memory->user_count, sizeof(*memory->expected), &memory->expected);
    if (status != HETCCL_OK)
        return status;
    memory_reset(memory, rank);
    if (memory->user_count > 0)
        memcpy(memory->expected, memory->cells, memory->user_count * sizeof(*memory->expected));
    return HETCCL_OK;
}

void memory_fini(struct memory *memory)
{
    hetccl_free(memory->cells);
    hetccl_free(memory->expected);
    memset(memory, 0, sizeof(*memory));
}

/* ---- collectives ---- */

static size_t extent(const size_t *offsets, const size_t *counts, uint32_t n_ranks)
{
    size_t end = 0;

    for (uint32_t i = 0; i < n_ranks; i++)
        end = counts[i] > 0 ? hetccl_max_size(end, offsets[i] + counts[i]) : end;
    return end;
}

static size_t send_count(const struct shape *shape, uint32_t rank)
{
    switch (shape->coll) {
    case HETCCL_REDUCE_SCATTER:
    case HETCCL_ALLTOALL:
        return shape->n_ranks * shape->count;
    case HETCCL_BROADCAST:
        return rank == shape->root ? shape->count : 0;
    case HETCCL_SCATTER:
        return rank == shape->root ? shape->n_ranks * shape->count : 0;
    case HETCCL_ALLTOALLV:
        return extent(shape->send_offsets[rank], shape->pair_counts[rank], shape->n_ranks);
    default:
        return shape->count;
    }
}

static size_t recv_count(const struct shape *shape, uint32_t rank)
{
    switch (shape->coll) {
    case HETCCL_ALLGATHER:
    case HETCCL_ALLTOALL:
        return shape->n_ranks * shape->count;
    case HETCCL_REDUCE:
        return rank == shape->root ? shape->count : 0;
    case HETCCL_GATHER:
        return rank == shape->root ? shape->n_ranks * shape->count : 0;
    case HETCCL_ALLTOALLV:
        return extent(shape->recv_offsets[rank], shape->recv_counts[rank], shape->n_ranks);
    default:
        return shape->count;
    }
}

static uint32_t sum(const struct shape *shape, size_t i)
{
    uint32_t total = 0;

    for (uint32_t rank = 0; rank < shape->n_ranks; rank++)
        total += memory_value(rank, i) * (shape->has_scale ? MEMORY_SCALE : 1);
    return total;
}

static void expect_pairs(const struct shape *shape, uint32_t rank, uint32_t *recv)
{
    for (uint32_t from = 0; from < shape->n_ranks; from++)
        for (size_t i = 0; i < shape->pair_counts[from][rank]; i++)
            recv[shape->recv_offsets[rank][from] + i] =
                memory_value(from, shape->send_offsets[from][rank] + i);
}

static uint32_t result(const struct shape *shape, uint32_t rank, size_t i)
{
    switch (shape->coll) {
    case HETCCL_ALLGATHER:
    case HETCCL_GATHER:
        return memory_value((uint32_t)(i / shape->count), i % shape->count);
    case HETCCL_REDUCE_SCATTER:
        return sum(shape, rank * shape->count + i);
    case HETCCL_BROADCAST:
        return memory_value(shape->root, i);
    case HETCCL_ALLTOALL:
        return memory_value((uint32_t)(i / shape->count), rank * shape->count + i % shape->count);
    case HETCCL_SCATTER:
        return memory_value(shape->root, rank * shape->count + i);
    default:
        return sum(shape, i);
    }
}

enum hetccl_status memory_init_call(struct memory *memory, const struct shape *shape, uint32_t rank,
                                    size_t n_scratch)
{
    struct memory_buffer send = {.count = send_count(shape, rank)};
    struct memory_buffer recv = {.start = send.count, .count = recv_count(shape, rank)};
    bool is_send_inside = shape->coll == HETCCL_ALLGATHER || shape->coll == HETCCL_GATHER;
    bool is_recv_inside = shape->coll == HETCCL_REDUCE_SCATTER || shape->coll == HETCCL_SCATTER;
    enum hetccl_status status;
    uint32_t *expected;

    if (shape->in_place[rank]) {
        send.start = is_send_inside ? rank * shape->count : 0;
        recv.start = is_recv_inside ? rank * shape->count : 0;
    }
    status = memory_init(memory, rank, send, recv, n_scratch);
    if (status != HETCCL_OK)
        return status;
    expected = memory->expected + recv.start;
    if (shape->coll == HETCCL_ALLTOALLV)
        expect_pairs(shape, rank, expected);
    else
        for (size_t i = 0; i < recv.count; i++)
            expected[i] = result(shape, rank, i);
    return HETCCL_OK;
}

enum hetccl_status memory_compare(const struct memory *memory, uint32_t rank)
{
    for (size_t i = 0; i < memory->user_count; i++)
        if (memory->cells[i] != memory->expected[i])
            return hetccl_fail_quietly(
                HETCCL_ERR_INTERNAL,
                "rank %u: cell %zu is %#x in the end, not %#x (SEND is %zu + %zu, "
                "RECV %zu + %zu)",
                rank, i, memory->cells[i], memory->expected[i], memory->buffers[HETCCL_BUF_SEND].start,
                memory->buffers[HETCCL_BUF_SEND].count, memory->buffers[HETCCL_BUF_RECV].start,
                memory->buffers[HETCCL_BUF_RECV].count);
    return HETCCL_OK;
}
