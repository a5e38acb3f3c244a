/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams share hardware queues, in the worst case a single one (CUDA_DEVICE_MAX_CONNECTIONS=1), and there
 * whatever waits holds up all that was enqueued later. So the order in which a rank enqueues must be one in
 * which it could execute everything one after the other.
 *
 * Items come in the order of their times. Of a message, the sends of a block are before the combines of that
 * block (i), on whatever ranks. A block has HETCCL_COPY_MERGE pieces of a lane, so a send that needs the slot
 * of piece n - HETCCL_RING_SLOTS is later than the combine that empties it (ii). And dependencies are earlier
 * (iii; copy_time.c). Consider the earliest unfinished item of all ranks: all before it in its own queue is
 * done, by (iii) what it depends on too, by (i) what it waits to receive has been sent, by (ii) its slots are
 * free. So it proceeds. With more queues, or several streams, only fewer items wait for each other.
 *
 * A graph keeps no order but that of its edges: its launch may put ready items into a queue as it likes. For
 * that there is the chained layout: sends in their order on one stream, combines in theirs on another, and
 * edges between the two, by which a combine comes behind all sends that are not later (iv), and a send behind
 * all combines that are SLACK_BLOCKS or more of the rank's blocks earlier (v). Again, consider the earliest
 * unfinished item of all ranks. If another one stands before it in its queue, that is a later send before a
 * combine, by (iv) and the order of both streams. By (v) that send is less than SLACK_BLOCKS later, so the
 * combine that empties its slots, on whatever rank, which is SLACK_BLOCKS of the lane's blocks earlier than
 * the send, is earlier than the earliest unfinished item: done.
 */
#include "exec/copy_order.h"

#include <stdlib.h>

#include "base/memory.h"
#include "exec/copy_time.h"

enum { SLACK_BLOCKS = HETCCL_RING_SLOTS / HETCCL_COPY_MERGE, STREAMS_A_LANE = 2, NO_ITEM = 0 };

struct entry {
    struct hetccl_copy_time time;
    struct hetccl_copy_item item;
    uint32_t number; /* in plan order; ties */
};

/* A send lane while its items are being placed; items plus 1, or NO_ITEM. */
struct lane {
    uint32_t n_items;
    uint32_t last, first_kept;       /* kept: nothing has reused all its slots so far */
    uint32_t reused[STREAMS_A_LANE]; /* by turn: the last whose slots something reuses */
};

struct ordering {
    const struct hetccl_program *program;
    enum hetccl_copy_layout layout;
    struct hetccl_copy_start *starts;
    struct entry *entries;
    uint32_t n_entries;
    struct hetccl_copy_order *order;
    enum hetccl_status status;

    struct lane *lanes;                    /* the sends', and one more for the rest */
    uint32_t *lane_of;                     /* by operation */
    uint32_t *next_in_lane;                /* by item */
    uint32_t (*last_of)[STREAMS_A_LANE];   /* by operation and turn: its last item, plus 1 */
    uint32_t last_on[HETCCL_COPY_STREAMS]; /* the last item, plus 1 */
    uint32_t known[HETCCL_COPY_STREAMS][HETCCL_COPY_STREAMS]; /* [a][b]: items of b that a has waited for */
    bool has_forked[HETCCL_COPY_STREAMS];
    uint32_t *blocks;           /* CHAINED, by item: the rank's own count of blocks */
    uint32_t n_passed;          /* CHAINED: items that are SLACK_BLOCKS behind */
    uint32_t last_passed_local; /* of those, the last that isn't a send, plus 1 */
};

/* ---- items by time ---- */

/* Pieces from `first` on that make one item. */
static uint32_t group_of(const struct hetccl_copy_start *start, const struct hetccl_bridge_op *op,
                         uint32_t first)
{
    uint32_t n = HETCCL_COPY_MERGE - (start->start + first) % HETCCL_COPY_MERGE;

    if (start->role == HETCCL_COPY_ALONE)
        return op->n_pieces;
    return n < op->n_pieces - first ? n : op->n_pieces - first;
}

static void list_op(struct ordering *o, uint32_t number, uint32_t op_number)
{
    const struct hetccl_bridge_op *op = &o->program->ops[op_number];
    const struct hetccl_copy_start *start = &o->starts[op_number];
    uint32_t n;

    for (uint32_t first = 0; first < op->n_pieces; first += n) {
        n = group_of(start, op, first);
        o->entries[o->n_entries++] = (struct entry){
            .time = hetccl_copy_time_of(start, first),
            .item = {.op = op_number, .first_piece = first, .n_pieces = n, .event = HETCCL_COPY_NO_EVENT},
            .number = number};
    }
}

static int compare(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int times = hetccl_copy_compare(&x->time, &y->time);

    if (times != 0)
        return times;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return x->item.first_piece < y->item.first_piece ? -1 : x->item.first_piece > y->item.first_piece;
}

static enum hetccl_status list_items(struct ordering *o)
{
    size_t n = 0;
    enum hetccl_status status;

    for (uint32_t i = 0; i < o->program->n_ops; i++)
        n += o->program->ops[i].n_pieces / HETCCL_COPY_MERGE + 2;
    status = hetccl_alloc(n, sizeof(*o->entries), &o->entries);
    if (status != HETCCL_OK)
        return status;
    for (uint32_t i = 0; i < o->program->n_ops; i++)
        list_op(o, i, o->program->plan_order[i]);
    qsort(o->entries, o->n_entries, sizeof(*o->entries), compare);
    return HETCCL_OK;
}

/* ---- streams ---- */

static bool is_send(const struct ordering *o, const struct hetccl_copy_item *item)
{
    return o->program->ops[item->op].kind == HETCCL_BRIDGE_SEND;
}

/* Groups of one lane take turns on two streams, so that one copies while the other waits for its words. */
static uint32_t choose_stream(const struct ordering *o, const struct hetccl_copy_item *item, uint32_t turn)
{
    if (o->layout == HETCCL_COPY_IN_LINE)
        return 0;
    if (!is_send(o, item))
        return 1 + HETCCL_COPY_SEND_STREAMS + turn;
    if (o->layout == HETCCL_COPY_CHAINED)
        return 1;
    return 1 + (item->lane * STREAMS_A_LANE + turn) % HETCCL_COPY_SEND_STREAMS;
}

static void add_wait(struct ordering *o, struct hetccl_copy_item *item, uint32_t event)
{
    struct hetccl_copy_order *order = o->order;

    if (o->status == HETCCL_OK && order->n_waits == order->cap_waits) {
        uint32_t wanted = order->cap_waits == 0 ? 32 : 2 * order->cap_waits;

        o->status = hetccl_resize(&order->waits, wanted, sizeof(*order->waits));
        if (o->status == HETCCL_OK)
            order->cap_waits = wanted;
    }
    if (o->status != HETCCL_OK)
        return;
    order->waits[order->n_waits++] = event;
    item->n_waits++;
}

static uint32_t event_of(struct ordering *o, struct hetccl_copy_item *item)
{
    if (item->event == HETCCL_COPY_NO_EVENT)
        item->event = o->order->n_events++;
    return item->event;
}

/* earlier: an item plus 1, or NO_ITEM. */
static void wait_for(struct ordering *o, struct hetccl_copy_item *item, uint32_t earlier)
{
    struct hetccl_copy_item *other = earlier == NO_ITEM ? NULL : &o->order->items[earlier - 1];

    if (other == NULL || other->stream == item->stream || o->known[item->stream][other->stream] >= earlier)
        return;
    o->known[item->stream][other->stream] = earlier;
    add_wait(o, item, event_of(o, other));
}

static void wait_for_deps(struct ordering *o, struct hetccl_copy_item *item)
{
    const struct hetccl_bridge_op *op = &o->program->ops[item->op];

    for (uint32_t i = op->first_dep; i < op->first_dep + op->n_deps; i++)
        for (uint32_t turn = 0; turn < STREAMS_A_LANE; turn++)
            wait_for(o, item, o->last_of[o->program->deps[i].op][turn]);
}

/* (iv) and (v) of the argument above. */
static void wait_in_chain(struct ordering *o, struct hetccl_copy_item *item, uint32_t index)
{
    if (!is_send(o, item)) {
        wait_for(o, item, o->last_on[1]);
        return;
    }
    for (; o->n_passed < index && o->blocks[o->n_passed] + SLACK_BLOCKS <= o->blocks[index]; o->n_passed++)
        if (!is_send(o, &o->order->items[o->n_passed]))
            o->last_passed_local = o->n_passed + 1;
    wait_for(o, item, o->last_passed_local);
}

static uint32_t end_piece(const struct ordering *o, const struct hetccl_copy_item *item)
{
    return o->program->ops[item->op].first_piece + item->first_piece + item->n_pieces;
}

/* An empty slot doesn't tell whether the piece that it is to get next has come and gone, or not come yet: the
 * sends of one slot keep their order. */
static void wait_for_slots(struct ordering *o, struct hetccl_copy_item *item)
{
    struct lane *lane = &o->lanes[item->lane];

    while (lane->first_kept != NO_ITEM) {
        const struct hetccl_copy_item *first = &o->order->items[lane->first_kept - 1];
        uint32_t first_piece = end_piece(o, first) - first->n_pieces;

        if (first_piece + HETCCL_RING_SLOTS >= end_piece(o, item))
            break;
        lane->reused[first->turn] = lane->first_kept;
        lane->first_kept = o->next_in_lane[lane->first_kept - 1];
    }
    for (uint32_t turn = 0; turn < STREAMS_A_LANE; turn++)
        wait_for(o, item, lane->reused[turn]);
}

static void enter_lane(struct ordering *o, uint32_t index, bool is_sending)
{
    struct hetccl_copy_item *item = &o->order->items[index];
    struct lane *lane;

    item->lane = is_sending ? o->lane_of[item->op] : o->program->n_send_lanes;
    lane = &o->lanes[item->lane];
    item->turn = o->layout == HETCCL_COPY_SPREAD ? lane->n_items++ % STREAMS_A_LANE : 0;
    item->stream = choose_stream(o, item, item->turn);
    if (lane->last == NO_ITEM)
        lane->first_kept = index + 1;
    else
        o->next_in_lane[lane->last - 1] = index + 1;
    if (is_sending && lane->first_kept == NO_ITEM)
        lane->first_kept = index + 1;
    lane->last = index + 1;
}

static void place_item(struct ordering *o, uint32_t index)
{
    struct hetccl_copy_item *item = &o->order->items[index];

    enter_lane(o, index, is_send(o, item));
    item->first_wait = o->order->n_waits;
    if (item->stream != 0 && !o->has_forked[item->stream])
        add_wait(o, item, HETCCL_COPY_FORK_EVENT);
    o->has_forked[item->stream] = true;
    wait_for_deps(o, item);
    if (is_send(o, item))
        wait_for_slots(o, item);
    if (o->layout == HETCCL_COPY_CHAINED)
        wait_in_chain(o, item, index);
    o->last_of[item->op][item->turn] = index + 1;
    o->last_on[item->stream] = index + 1;
}

static bool is_same_block(const struct hetccl_copy_time *a, const struct hetccl_copy_time *b)
{
    struct hetccl_copy_time same = *b;

    same.role = a->role;
    return hetccl_copy_compare(a, &same) == 0;
}

static void place_items(struct ordering *o)
{
    struct hetccl_copy_order *order = o->order;

    order->n_events = HETCCL_COPY_FORK_EVENT + 1;
    order->n_items = o->n_entries;
    for (uint32_t i = 0; i < o->n_entries; i++) {
        order->items[i] = o->entries[i].item;
        if (i > 0)
            o->blocks[i] = o->blocks[i - 1] + !is_same_block(&o->entries[i - 1].time, &o->entries[i].time);
    }
    for (uint32_t i = 0; i < o->n_entries; i++)
        place_item(o, i);
    for (uint32_t stream = 1; stream < HETCCL_COPY_STREAMS; stream++)
        if (o->last_on[stream] != NO_ITEM)
            order->joins[order->n_joins++] = event_of(o, &order->items[o->last_on[stream] - 1]);
}

/* ---- all of it ---- */

static enum hetccl_status allocate(struct ordering *o)
{
    const struct hetccl_program *program = o->program;
    enum hetccl_status status = hetccl_alloc(o->n_entries, sizeof(*o->order->items), &o->order->items);

    if (status == HETCCL_OK)
        status = hetccl_alloc(o->n_entries, sizeof(*o->blocks), &o->blocks);
    if (status == HETCCL_OK)
        status = hetccl_alloc(program->n_ops, sizeof(*o->lane_of), &o->lane_of);
    if (status == HETCCL_OK)
        status = hetccl_alloc(program->n_ops, sizeof(*o->last_of), &o->last_of);
    if (status == HETCCL_OK)
        status = hetccl_alloc((size_t)program->n_send_lanes + 1, sizeof(*o->lanes), &o->lanes);
    if (status == HETCCL_OK)
        status = hetccl_alloc(o->n_entries, sizeof(*o->next_in_lane), &o->next_in_lane);
    if (status != HETCCL_OK)
        return status;
    for (uint32_t lane = 0; lane < program->n_send_lanes; lane++)
        for (uint32_t i = 0; i < program->send_lanes[lane].n_ops; i++)
            o->lane_of[program->send_lanes[lane].first_op + i] = lane;
    return HETCCL_OK;
}

enum hetccl_status hetccl_copy_order_build(const struct hetccl_program *program,
                                           enum hetccl_copy_layout layout, struct hetccl_copy_order *out)
{
    struct hetccl_copy_order order = {.items = NULL};
    struct ordering o = {.program = program, .layout = layout, .order = &order};

    o.status = hetccl_copy_starts(program, &o.starts, &order.n_late);
    if (o.status == HETCCL_OK)
        o.status = list_items(&o);
    if (o.status == HETCCL_OK)
        o.status = allocate(&o);
    if (o.status == HETCCL_OK)
        place_items(&o);
    hetccl_free(o.starts);
    hetccl_free(o.entries);
    hetccl_free(o.blocks);
    hetccl_free(o.lane_of);
    hetccl_free(o.last_of);
    hetccl_free(o.lanes);
    hetccl_free(o.next_in_lane);
    if (o.status != HETCCL_OK) {
        hetccl_copy_order_fini(&order);
        return o.status;
    }
    *out = order;
    return HETCCL_OK;
}

void hetccl_copy_order_fini(struct hetccl_copy_order *order)
{
    hetccl_free(order->items);
    hetccl_free(order->waits);
    *order = (struct hetccl_copy_order){.items = NULL};
}
