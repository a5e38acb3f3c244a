/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/planner.h"

/*
 * A group of sends and receives. Nothing orders them but their lanes (one a peer and direction), so all
 * progress at once: whatever order the ranks list them in, no rank waits for a message that its peer hasn't
 * been able to start.
 */

static uint32_t peer_count(const struct hetccl_p2p *items, size_t n_items, uint32_t peer, bool is_send)
{
    uint32_t n = 0;

    for (size_t i = 0; i < n_items; i++)
        n += items[i].peer == peer && items[i].is_send == is_send;
    return n;
}

static enum hetccl_status check_items(const struct hetccl_topo *topo, uint32_t rank,
                                      const struct hetccl_p2p *items, size_t n_items)
{
    uint32_t n_sends, n_receives;

    for (size_t i = 0; i < n_items; i++)
        if (items[i].peer >= topo->n_ranks)
            return hetccl_fail(HETCCL_ERR_ARG, "rank %u %s rank %u in a communicator of %u ranks", rank,
                               items[i].is_send ? "sends to" : "receives from", items[i].peer, topo->n_ranks);
    n_sends = peer_count(items, n_items, rank, true);
    n_receives = peer_count(items, n_items, rank, false);
    if (n_sends != n_receives)
        return hetccl_fail(
            HETCCL_ERR_USAGE,
            "rank %u sends %u messages to itself and receives %u in one group; they must pair up", rank,
            n_sends, n_receives);
    return HETCCL_OK;
}

/* The next receive from oneself at or after *at; there is one, as check_items() counted. */
static const struct hetccl_p2p *next_own_receive(const struct hetccl_p2p *items, uint32_t rank, size_t *at)
{
    while (items[*at].is_send || items[*at].peer != rank)
        (*at)++;
    return &items[(*at)++];
}

static enum hetccl_status copy_own(struct hetccl_builder *b, uint32_t rank, const struct hetccl_p2p *items,
                                   size_t n_items)
{
    size_t at = 0;

    for (size_t i = 0; i < n_items; i++) {
        const struct hetccl_p2p *receive;

        if (!items[i].is_send || items[i].peer != rank)
            continue;
        receive = next_own_receive(items, rank, &at);
        if (receive->count != items[i].count)
            return hetccl_fail(HETCCL_ERR_USAGE,
                               "rank %u sends %zu bytes to itself, but the matching receive takes %zu", rank,
                               items[i].count, receive->count);
        hetccl_builder_copy(b, hetccl_region_of(HETCCL_BUF_RECV, receive->offset, receive->count),
                            hetccl_region_of(HETCCL_BUF_SEND, items[i].offset, items[i].count), false);
    }
    return HETCCL_OK;
}

static void add_items(struct hetccl_builder *b, uint32_t rank, const struct hetccl_p2p *items, size_t n_items)
{
    for (size_t i = 0; i < n_items; i++) {
        if (items[i].peer == rank)
            continue;
        if (items[i].is_send)
            hetccl_builder_send(b, items[i].peer,
                                hetccl_region_of(HETCCL_BUF_SEND, items[i].offset, items[i].count));
        else
            hetccl_builder_receive(b, hetccl_region_of(HETCCL_BUF_RECV, items[i].offset, items[i].count),
                                   items[i].peer);
    }
}

enum hetccl_status hetccl_plan_build_p2p(const struct hetccl_topo *topo, uint32_t rank,
                                         const struct hetccl_p2p *items, size_t n_items,
                                         struct hetccl_plan **out)
{
    struct hetccl_builder b;
    enum hetccl_status status = check_items(topo, rank, items, n_items);

    if (status != HETCCL_OK)
        return status;
    status = hetccl_builder_init(&b, topo, rank, NULL);
    if (status != HETCCL_OK)
        return status;
    b.plan->coll = HETCCL_P2P;
    b.plan->name = "p2p";
    b.plan->n_chunks = 1;
    status = copy_own(&b, rank, items, n_items);
    if (status == HETCCL_OK) {
        add_items(&b, rank, items, n_items);
        status = hetccl_builder_finish(&b, out);
    }
    hetccl_builder_fini(&b);
    return status;
}
