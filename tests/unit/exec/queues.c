/* SPDX-License-Identifier: Apache-2.0 */
#include "queues.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Piece plus 1, or 0: empty. */
struct ring {
    uint32_t slots[HETCCL_RING_SLOTS];
};

struct rank_state {
    const struct queues_rank *rank;
    uint32_t *sequence; /* items in the order in which the rank's only queue has them */
    bool *is_done, *is_placed;
    uint32_t *n_left;        /* pieces, by operation */
    uint32_t *item_of_event; /* event -> item; the fork has none */
    uint32_t *before;        /* the item before it on its stream, plus 1 */
    uint32_t n_done, n_placed;
};

struct system {
    struct rank_state states[QUEUES_MAX_RANKS];
    struct ring (*rings)[QUEUES_MAX_RANKS]; /* [from][to] */
    uint32_t n_ranks;
    uint64_t random;
    const char *fault;
};

static uint32_t pick(struct system *s, uint32_t n)
{
    s->random = s->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(s->random >> 33) % n;
}

static uint32_t send_peer(const struct hetccl_program *program, uint32_t op)
{
    uint32_t lane = 0;

    while (op >= program->send_lanes[lane].first_op + program->send_lanes[lane].n_ops)
        lane++;
    return program->send_lanes[lane].peer;
}

/* All slots of a group: empty (value 0) or holding their pieces. */
static bool has_slots(const struct ring *ring, uint32_t first, uint32_t n, bool is_full)
{
    for (uint32_t piece = first; piece < first + n; piece++)
        if (ring->slots[piece % HETCCL_RING_SLOTS] != (is_full ? piece + 1 : 0))
            return false;
    return true;
}

static void set_slots(struct ring *ring, uint32_t first, uint32_t n, bool is_full)
{
    for (uint32_t piece = first; piece < first + n; piece++)
        ring->slots[piece % HETCCL_RING_SLOTS] = is_full ? piece + 1 : 0;
}

static bool has_deps(const struct rank_state *state, const struct hetccl_bridge_op *op)
{
    for (uint32_t i = op->first_dep; i < op->first_dep + op->n_deps; i++)
        if (state->n_left[state->rank->program.deps[i].op] > 0)
            return false;
    return true;
}

/* Executes the item, if its slots are as it needs them. */
static bool try_item(struct system *s, uint32_t rank, uint32_t index)
{
    struct rank_state *state = &s->states[rank];
    const struct hetccl_program *program = &state->rank->program;
    const struct hetccl_copy_item *item = &state->rank->order.items[index];
    const struct hetccl_bridge_op *op = &program->ops[item->op];

    if (!has_deps(state, op))
        s->fault = "an item ran before what it depends on";
    if (op->kind == HETCCL_BRIDGE_SEND) {
        struct ring *ring = &s->rings[rank][send_peer(program, item->op)];

        if (!has_slots(ring, op->first_piece + item->first_piece, item->n_pieces, false))
            return false;
        set_slots(ring, op->first_piece + item->first_piece, item->n_pieces, true);
    }
    for (int is_taking = 0; is_taking <= 1; is_taking++)
        for (uint32_t i = op->first_input; i < op->first_input + op->n_inputs; i++) {
            const struct hetccl_bridge_input *input = &program->inputs[i];
            struct ring *ring;

            if (input->lane == HETCCL_BRIDGE_NO_LANE)
                continue;
            ring = &s->rings[program->recv_peers[input->lane]][rank];
            if (is_taking)
                set_slots(ring, input->first_piece + item->first_piece, item->n_pieces, false);
            else if (!has_slots(ring, input->first_piece + item->first_piece, item->n_pieces, true))
                return false;
        }
    state->n_left[item->op] -= item->n_pieces;
    state->is_done[index] = true;
    state->n_done++;
    return true;
}

/* What comes before an item on its stream, and what its events stand for, has the property. */
static bool follows(const struct rank_state *state, uint32_t index, const bool *property)
{
    const struct hetccl_copy_order *order = &state->rank->order;
    const struct hetccl_copy_item *item = &order->items[index];

    if (state->before[index] != 0 && !property[state->before[index] - 1])
        return false;
    for (uint32_t i = item->first_wait; i < item->first_wait + item->n_waits; i++)
        if (order->waits[i] != HETCCL_COPY_FORK_EVENT && !property[state->item_of_event[order->waits[i]]])
            return false;
    return true;
}

/* ---- queues ---- */

static void place_in_any_order(struct system *s, struct rank_state *state)
{
    uint32_t n_items = state->rank->order.n_items, way = pick(s, 4);

    while (state->n_placed < n_items) {
        uint32_t best = n_items, n_ready = 0;

        for (uint32_t i = 0; i < n_items; i++) {
            if (state->is_placed[i] || !follows(state, i, state->is_placed))
                continue;
            n_ready++;
            if (best == n_items || way == 0 || (way == 1 && pick(s, n_ready) == 0) ||
                (way == 2 && state->rank->order.items[i].stream > state->rank->order.items[best].stream))
                best = i;
        }
        state->is_placed[best] = true;
        state->sequence[state->n_placed++] = best;
    }
}

static void place(struct system *s, struct rank_state *state, enum queues_mode mode)
{
    const struct hetccl_copy_order *order = &state->rank->order;
    uint32_t last_on[HETCCL_COPY_STREAMS] = {0};

    for (uint32_t i = 0; i < order->n_items; i++) {
        state->sequence[i] = i;
        state->before[i] = last_on[order->items[i].stream];
        last_on[order->items[i].stream] = i + 1;
        if (order->items[i].event != HETCCL_COPY_NO_EVENT)
            state->item_of_event[order->items[i].event] = i;
    }
    if (mode == QUEUES_EDGES)
        place_in_any_order(s, state);
}

/* A rank's turn: as far as one queue goes, or one item of any stream. */
static bool advance(struct system *s, uint32_t rank, enum queues_mode mode)
{
    struct rank_state *state = &s->states[rank];
    uint32_t n_items = state->rank->order.n_items, before = state->n_done, first;

    if (mode != QUEUES_STREAMS) {
        while (state->n_done < n_items && s->fault == NULL &&
               try_item(s, rank, state->sequence[state->n_done]))
            ;
        return state->n_done > before;
    }
    first = n_items > 0 ? pick(s, n_items) : 0;
    for (uint32_t i = 0; i < n_items && s->fault == NULL; i++) {
        uint32_t index = (first + i) % n_items;

        if (!state->is_done[index] && follows(state, index, state->is_done) && try_item(s, rank, index))
            return true;
    }
    return false;
}

static void *make(size_t n, size_t bytes)
{
    void *memory = calloc(n + 1, bytes);

    if (memory == NULL)
        abort();
    return memory;
}

static void begin(struct system *s, const struct queues_rank *rank, struct rank_state *state,
                  enum queues_mode mode)
{
    uint32_t n_items = rank->order.n_items;

    *state = (struct rank_state){.rank = rank,
                                 .sequence = make(n_items, sizeof(uint32_t)),
                                 .is_done = make(n_items, sizeof(bool)),
                                 .is_placed = make(n_items, sizeof(bool)),
                                 .n_left = make(rank->program.n_ops, sizeof(uint32_t)),
                                 .item_of_event = make(rank->order.n_events, sizeof(uint32_t)),
                                 .before = make(n_items, sizeof(uint32_t))};
    for (uint32_t op = 0; op < rank->program.n_ops; op++)
        state->n_left[op] = rank->program.ops[op].n_pieces;
    place(s, state, mode);
}

static void end(struct rank_state *state)
{
    free(state->sequence);
    free(state->is_done);
    free(state->is_placed);
    free(state->n_left);
    free(state->item_of_event);
    free(state->before);
}

static bool is_finished(const struct system *s)
{
    for (uint32_t rank = 0; rank < s->n_ranks; rank++)
        if (s->states[rank].n_done < s->states[rank].rank->order.n_items)
            return false;
    return true;
}

const char *queues_run(const struct queues_rank *ranks, uint32_t n_ranks, enum queues_mode mode,
                       uint64_t seed)
{
    struct system s = {.n_ranks = n_ranks, .random = seed * 2 + 1};
    bool has_moved = true;

    s.rings = make(QUEUES_MAX_RANKS, sizeof(*s.rings));
    for (uint32_t rank = 0; rank < n_ranks; rank++)
        begin(&s, &ranks[rank], &s.states[rank], mode);
    while (has_moved && s.fault == NULL) {
        uint32_t first = pick(&s, n_ranks);

        has_moved = false;
        for (uint32_t i = 0; i < n_ranks; i++)
            has_moved |= advance(&s, (first + i) % n_ranks, mode);
    }
    if (s.fault == NULL && !is_finished(&s))
        s.fault = "ranks wait for each other in a circle";
    for (uint32_t rank = 0; rank < n_ranks; rank++)
        end(&s.states[rank]);
    free(s.rings);
    return s.fault;
}
