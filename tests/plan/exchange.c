/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange.h"

#include <string.h>

static void draw_messages(struct exchange *exchange, struct shape *shape, uint32_t most)
{
    for (uint32_t from = 0; from < shape->n_ranks; from++)
        for (uint32_t to = 0; to < shape->n_ranks; to++) {
            uint32_t n = shape_pick(shape, EXCHANGE_MAX + 1);

            exchange->n_messages[from][to] = n;
            for (uint32_t i = 0; i < n; i++)
                exchange->counts[from][to][i] = shape_pick(shape, most + 1);
        }
}

static void list_items(struct exchange *exchange, uint32_t rank)
{
    uint32_t n = 0;

    for (uint32_t peer = 0; peer < exchange->n_ranks; peer++) {
        for (uint32_t i = 0; i < exchange->n_messages[rank][peer]; i++)
            exchange->items[rank][n++] = (struct hetccl_p2p){.is_send = true, .peer = peer};
        for (uint32_t i = 0; i < exchange->n_messages[peer][rank]; i++)
            exchange->items[rank][n++] = (struct hetccl_p2p){.peer = peer};
    }
    exchange->n_items[rank] = n;
}

static void shuffle(struct hetccl_p2p *items, uint32_t n_items, struct shape *shape)
{
    for (uint32_t i = n_items; i > 1; i--) {
        uint32_t j = shape_pick(shape, i);
        struct hetccl_p2p other = items[i - 1];

        items[i - 1] = items[j];
        items[j] = other;
    }
}

/* The k-th item with a peer and direction is their k-th message; buffers have a gap behind each. */
static void place_items(struct exchange *exchange, uint32_t rank)
{
    uint32_t n_seen[2][EXCHANGE_MAX_RANKS] = {{0}};
    size_t ends[2] = {0};

    for (uint32_t i = 0; i < exchange->n_items[rank]; i++) {
        struct hetccl_p2p *item = &exchange->items[rank][i];
        uint32_t from = item->is_send ? rank : item->peer, to = item->is_send ? item->peer : rank;

        item->count = exchange->counts[from][to][n_seen[item->is_send][item->peer]++];
        item->offset = ends[item->is_send];
        ends[item->is_send] += item->count + 1;
    }
}

void exchange_draw(struct exchange *exchange, struct shape *shape, uint32_t most)
{
    memset(exchange, 0, sizeof(*exchange));
    exchange->n_ranks = shape->n_ranks;
    draw_messages(exchange, shape, most);
    for (uint32_t rank = 0; rank < shape->n_ranks; rank++) {
        list_items(exchange, rank);
        shuffle(exchange->items[rank], exchange->n_items[rank], shape);
        place_items(exchange, rank);
    }
}

static size_t extent(const struct exchange *exchange, uint32_t rank, bool of_sends)
{
    size_t end = 0;

    for (uint32_t i = 0; i < exchange->n_items[rank]; i++) {
        const struct hetccl_p2p *item = &exchange->items[rank][i];

        if (item->is_send == of_sends)
            end = item->offset + item->count + 1;
    }
    return end;
}

/* The send that a receive takes: number `index` among those from `from` to `to`. */
static const struct hetccl_p2p *find_send(const struct exchange *exchange, uint32_t from, uint32_t to,
                                          uint32_t index)
{
    const struct hetccl_p2p *item = exchange->items[from];

    for (;; item++)
        if (item->is_send && item->peer == to && index-- == 0)
            return item;
}

enum hetccl_status exchange_init_memory(const struct exchange *exchange, uint32_t rank, struct memory *memory)
{
    struct memory_buffer send = {.count = extent(exchange, rank, true)};
    struct memory_buffer recv = {.start = send.count, .count = extent(exchange, rank, false)};
    uint32_t n_seen[EXCHANGE_MAX_RANKS] = {0};
    enum hetccl_status status = memory_init(memory, rank, send, recv, 0);

    for (uint32_t i = 0; i < exchange->n_items[rank] && status == HETCCL_OK; i++) {
        const struct hetccl_p2p *item = &exchange->items[rank][i], *sent;

        if (item->is_send)
            continue;
        sent = find_send(exchange, item->peer, rank, n_seen[item->peer]++);
        for (size_t k = 0; k < item->count; k++)
            memory->expected[recv.start + item->offset + k] = memory_value(item->peer, sent->offset + k);
    }
    return status;
}
