/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/copy_time.h"

#include "base/memory.h"

/* How far a lane is: both ends count alike. */
struct lane {
    struct hetccl_step_time step;
    uint32_t first_piece; /* of the step time */
    bool is_used;
};

struct timing {
    const struct hetccl_program *program;
    struct lane *sends, *receives;
    uint32_t *send_lane_of; /* by operation */
    struct hetccl_copy_start *starts;
    uint32_t n_late;
};

static int compare_steps(const struct hetccl_step_time *a, const struct hetccl_step_time *b)
{
    if (a->round != b->round)
        return a->round < b->round ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

int hetccl_copy_compare(const struct hetccl_copy_time *a, const struct hetccl_copy_time *b)
{
    int steps = compare_steps(&a->step, &b->step);

    if (steps != 0)
        return steps;
    if (a->block != b->block)
        return a->block < b->block ? -1 : 1;
    return a->role < b->role ? -1 : a->role > b->role;
}

struct hetccl_copy_time hetccl_copy_time_of(const struct hetccl_copy_start *start, uint32_t piece)
{
    if (start->role == HETCCL_COPY_ALONE)
        piece = 0;
    return (struct hetccl_copy_time){
        .step = start->step, .block = (start->start + piece) / HETCCL_COPY_MERGE, .role = start->role};
}

/* An operation's message begins at first_piece of the lane: it comes no earlier than the lane allows. */
static void enter_lane(struct lane *lane, uint32_t first_piece, struct hetccl_copy_start *start)
{
    int order;

    if (!lane->is_used || compare_steps(&start->step, &lane->step) > 0)
        *lane = (struct lane){.step = start->step, .first_piece = first_piece, .is_used = true};
    order = compare_steps(&lane->step, &start->step);
    if (order > 0) {
        start->step = lane->step;
        start->start = 0;
    }
    if (order >= 0 && first_piece - lane->first_piece > start->start)
        start->start = first_piece - lane->first_piece;
}

/* The lane follows an operation that comes later than the lane alone would have it. */
static void leave_lane(struct lane *lane, uint32_t first_piece, const struct hetccl_copy_start *start)
{
    lane->step = start->step;
    lane->first_piece = first_piece - start->start;
}

static void visit_lanes(struct timing *t, uint32_t number, struct hetccl_copy_start *start, bool is_entering)
{
    const struct hetccl_bridge_op *op = &t->program->ops[number];

    if (op->kind == HETCCL_BRIDGE_SEND) {
        struct lane *lane = &t->sends[t->send_lane_of[number]];

        start->role = HETCCL_COPY_SENDS;
        if (is_entering)
            enter_lane(lane, op->first_piece, start);
        else
            leave_lane(lane, op->first_piece, start);
        return;
    }
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        const struct hetccl_bridge_input *input = &t->program->inputs[op->first_input + i];

        if (input->lane == HETCCL_BRIDGE_NO_LANE)
            continue;
        start->role = HETCCL_COPY_TAKES;
        if (is_entering)
            enter_lane(&t->receives[input->lane], input->first_piece, start);
        else
            leave_lane(&t->receives[input->lane], input->first_piece, start);
    }
}

/* Behind what it waits for. The plan's times see to it already, but for copies. */
static bool defer(const struct timing *t, uint32_t number, struct hetccl_copy_start *start)
{
    const struct hetccl_bridge_op *op = &t->program->ops[number];
    bool is_late = false;

    for (uint32_t i = op->first_dep; i < op->first_dep + op->n_deps; i++) {
        uint32_t dep = t->program->deps[i].op;
        struct hetccl_copy_time last =
            hetccl_copy_time_of(&t->starts[dep], t->program->ops[dep].n_pieces - 1);
        struct hetccl_copy_time first = hetccl_copy_time_of(start, 0);

        if (hetccl_copy_compare(&last, &first) <= 0)
            continue;
        start->step = last.step;
        start->start = (last.block + 1) * HETCCL_COPY_MERGE;
        is_late = true;
    }
    return is_late;
}

static void time_op(struct timing *t, uint32_t number)
{
    struct hetccl_copy_start start = {.step = t->program->times[number], .role = HETCCL_COPY_ALONE};

    visit_lanes(t, number, &start, true);
    if (defer(t, number, &start) && start.role != HETCCL_COPY_ALONE) {
        t->n_late++;
        visit_lanes(t, number, &start, false);
    }
    t->starts[number] = start;
}

static enum hetccl_status allocate(struct timing *t)
{
    const struct hetccl_program *program = t->program;
    enum hetccl_status status = hetccl_alloc(program->n_send_lanes, sizeof(*t->sends), &t->sends);

    if (status == HETCCL_OK)
        status = hetccl_alloc(program->n_recv_lanes, sizeof(*t->receives), &t->receives);
    if (status == HETCCL_OK)
        status = hetccl_alloc(program->n_ops, sizeof(*t->send_lane_of), &t->send_lane_of);
    if (status == HETCCL_OK)
        status = hetccl_alloc(program->n_ops, sizeof(*t->starts), &t->starts);
    return status;
}

enum hetccl_status hetccl_copy_starts(const struct hetccl_program *program, struct hetccl_copy_start **out,
                                      uint32_t *n_late_out)
{
    struct timing t = {.program = program};
    enum hetccl_status status = allocate(&t);

    for (uint32_t lane = 0; status == HETCCL_OK && lane < program->n_send_lanes; lane++)
        for (uint32_t i = 0; i < program->send_lanes[lane].n_ops; i++)
            t.send_lane_of[program->send_lanes[lane].first_op + i] = lane;
    for (uint32_t i = 0; status == HETCCL_OK && i < program->n_ops; i++)
        time_op(&t, program->plan_order[i]);
    hetccl_free(t.sends);
    hetccl_free(t.receives);
    hetccl_free(t.send_lane_of);
    if (status != HETCCL_OK) {
        hetccl_free(t.starts);
        return status;
    }
    *out = t.starts;
    *n_late_out = t.n_late;
    return HETCCL_OK;
}
