/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/memory.h"
#include "plan/check_state.h"

/*
 * The order of a run: a step becomes runnable when all it waits for is done, and of the runnable ones any may
 * come next. What a step waits for: its deps, its lane's predecessor (not in loose mode; always for island
 * steps), its messages' sends, and, for an island step, the other members.
 */

enum { NONE = UINT32_MAX };

static uint32_t step_count(const struct hetccl_check *c)
{
    return c->first_steps[c->topo->n_ranks];
}

static enum hetccl_status allocate_by_rank(struct hetccl_check *c)
{
    uint32_t n_ranks = c->topo->n_ranks;
    enum hetccl_status status = hetccl_alloc(n_ranks + 1, sizeof(uint32_t), &c->first_steps);

    if (status == HETCCL_OK)
        status = hetccl_alloc(n_ranks + 1, sizeof(uint32_t), &c->first_inputs);
    if (status == HETCCL_OK)
        status = hetccl_alloc(n_ranks, sizeof(uint32_t), &c->n_island_steps);
    if (status == HETCCL_OK)
        status = hetccl_alloc(n_ranks, sizeof(struct hetccl_run_step *), &c->members);
    if (status != HETCCL_OK)
        return status;
    for (uint32_t rank = 0; rank < n_ranks; rank++) {
        c->first_steps[rank + 1] = c->first_steps[rank] + c->plans[rank]->n_steps;
        c->first_inputs[rank + 1] = c->first_inputs[rank] + c->plans[rank]->n_inputs;
    }
    return HETCCL_OK;
}

static enum hetccl_status allocate_by_step(struct hetccl_check *c)
{
    uint32_t n_steps = step_count(c);
    enum hetccl_status status = hetccl_alloc(n_steps + 1, sizeof(*c->steps), &c->steps);

    if (status == HETCCL_OK)
        status = hetccl_alloc(n_steps, sizeof(uint32_t), &c->runnable);
    if (status == HETCCL_OK)
        status = hetccl_alloc(n_steps, sizeof(uint32_t), &c->island_steps);
    if (status == HETCCL_OK)
        status = hetccl_alloc(n_steps, sizeof(uint32_t), &c->members_left);
    if (status == HETCCL_OK)
        status = hetccl_alloc(c->first_inputs[c->topo->n_ranks], sizeof(uint32_t), &c->input_sends);
    return status;
}

void hetccl_check_run_fini(struct hetccl_check *c)
{
    hetccl_free(c->first_steps);
    hetccl_free(c->first_inputs);
    hetccl_free(c->n_island_steps);
    hetccl_free(c->members);
    hetccl_free(c->steps);
    hetccl_free(c->runnable);
    hetccl_free(c->island_steps);
    hetccl_free(c->members_left);
    hetccl_free(c->input_sends);
    hetccl_free(c->edges);
    hetccl_free(c->messages);
    hetccl_free(c->sum);
}

static size_t largest_region(const struct hetccl_plan *plan)
{
    size_t largest = 0;

    for (uint32_t i = 0; i < plan->n_steps; i++)
        largest =
            hetccl_max_size(largest, hetccl_max_size(plan->steps[i].src.count, plan->steps[i].dst.count));
    for (uint32_t i = 0; i < plan->n_pieces; i++)
        largest = hetccl_max_size(largest, plan->pieces[i].count);
    return largest;
}

/* Fills the steps, numbers the island steps of each rank, and makes room for messages. */
static enum hetccl_status list_steps(struct hetccl_check *c)
{
    size_t n_message_cells = 0, largest = 0;
    enum hetccl_status status;

    for (uint32_t rank = 0; rank < c->topo->n_ranks; rank++) {
        largest = hetccl_max_size(largest, largest_region(c->plans[rank]));
        for (uint32_t i = 0; i < c->plans[rank]->n_steps; i++) {
            uint32_t number = c->first_steps[rank] + i;
            struct hetccl_run_step *step = &c->steps[number];

            *step = (struct hetccl_run_step){.step = &c->plans[rank]->steps[i], .rank = rank, .index = i};
            step->partner = NONE;
            if (step->step->kind == HETCCL_STEP_SEND) {
                step->message_offset = n_message_cells;
                n_message_cells += step->step->src.count;
            } else if (step->step->kind == HETCCL_STEP_ISLAND) {
                step->partner = c->n_island_steps[rank]++;
                c->island_steps[c->first_steps[rank] + step->partner] = number;
            }
        }
    }
    status = hetccl_alloc(n_message_cells, sizeof(*c->messages), &c->messages);
    return status == HETCCL_OK ? hetccl_alloc(largest, sizeof(*c->sum), &c->sum) : status;
}

static enum hetccl_status check_islands(struct hetccl_check *c)
{
    for (uint32_t i = 0; i < c->topo->n_islands; i++) {
        const struct hetccl_island *island = &c->topo->islands[i];
        uint32_t first = island->ranks[0];

        for (uint32_t k = 1; k < island->n_ranks; k++)
            if (c->n_island_steps[island->ranks[k]] != c->n_island_steps[first])
                return hetccl_fail_quietly(HETCCL_ERR_INTERNAL, "rank %u has %u island steps, rank %u has %u",
                                           island->ranks[k], c->n_island_steps[island->ranks[k]], first,
                                           c->n_island_steps[first]);
        for (uint32_t k = 0; k < c->n_island_steps[first]; k++)
            c->members_left[c->first_steps[first] + k] = island->n_ranks;
    }
    return HETCCL_OK;
}

/* Gives one rank's message inputs their sends: the k-th from a rank is that rank's k-th to it. */
static enum hetccl_status match_inputs(struct hetccl_check *c, uint32_t rank, uint32_t *next_sends,
                                       const uint32_t *sends_after)
{
    const struct hetccl_plan *plan = c->plans[rank];

    for (uint32_t i = 0; i < plan->n_steps; i++) {
        uint32_t number = c->first_steps[rank] + i;
        const struct hetccl_step *step = &plan->steps[i];

        for (uint32_t k = step->first_input; k < step->first_input + step->n_inputs; k++) {
            uint32_t send;

            if (!plan->inputs[k].is_message)
                continue;
            send = next_sends[plan->inputs[k].peer * c->topo->n_ranks + rank];
            if (send == NONE)
                return hetccl_check_fault(&c->steps[number], "no message left from rank %u",
                                          plan->inputs[k].peer);
            if (c->steps[send].step->src.count != plan->inputs[k].region.count)
                return hetccl_check_fault(&c->steps[number],
                                          "%zu elements expected, rank %u step %u sends %zu",
                                          plan->inputs[k].region.count, c->steps[send].rank,
                                          c->steps[send].index, c->steps[send].step->src.count);
            next_sends[plan->inputs[k].peer * c->topo->n_ranks + rank] = sends_after[send];
            c->input_sends[c->first_inputs[rank] + k] = send;
            c->steps[send].partner = number;
            c->steps[number].n_pending++;
        }
    }
    return HETCCL_OK;
}

static enum hetccl_status match_messages(struct hetccl_check *c)
{
    uint32_t n_ranks = c->topo->n_ranks, n_steps = step_count(c);
    uint32_t *next_sends = NULL, *sends_after = NULL;
    enum hetccl_status status = hetccl_alloc((size_t)n_ranks * n_ranks, sizeof(uint32_t), &next_sends);

    if (status != HETCCL_OK)
        return status;
    status = hetccl_alloc(n_steps, sizeof(uint32_t), &sends_after);
    if (status != HETCCL_OK)
        goto undo_next;
    memset(next_sends, 0xff, (size_t)n_ranks * n_ranks * sizeof(uint32_t));
    for (uint32_t i = n_steps; i-- > 0;) {
        const struct hetccl_run_step *step = &c->steps[i];

        if (step->step->kind != HETCCL_STEP_SEND)
            continue;
        sends_after[i] = next_sends[step->rank * n_ranks + step->step->peer];
        next_sends[step->rank * n_ranks + step->step->peer] = i;
    }
    for (uint32_t rank = 0; rank < n_ranks && status == HETCCL_OK; rank++)
        status = match_inputs(c, rank, next_sends, sends_after);
    for (uint32_t i = 0; i < n_steps && status == HETCCL_OK; i++)
        if (c->steps[i].step->kind == HETCCL_STEP_SEND && c->steps[i].partner == NONE)
            status = hetccl_check_fault(&c->steps[i], "nobody takes the message to rank %u",
                                        c->steps[i].step->peer);
    hetccl_free(sends_after);
undo_next:
    hetccl_free(next_sends);
    return status;
}

/* What links() needs while it walks a rank's steps: the last step of each lane. */
struct lanes {
    uint32_t engine;            /* sequential mode: everything but sends */
    uint32_t *sends, *receives; /* by peer */
};

static void add_edge(struct hetccl_check *c, uint32_t from, uint32_t to, bool is_counting)
{
    if (from == NONE || from == to)
        return;
    if (is_counting) {
        c->steps[from + 1].first_edge++;
        c->steps[to].n_pending++;
    } else {
        c->edges[c->steps[from].first_edge++] = to;
    }
}

static void add_lane_edges(struct hetccl_check *c, struct lanes *lanes, uint32_t number, bool is_counting)
{
    const struct hetccl_step *step = c->steps[number].step;

    if (step->kind == HETCCL_STEP_ISLAND ||
        (c->mode == HETCCL_CHECK_SEQUENTIAL && step->kind != HETCCL_STEP_SEND)) {
        add_edge(c, lanes->engine, number, is_counting);
        lanes->engine = number;
    }
    if (c->mode == HETCCL_CHECK_LOOSE)
        return;
    if (step->kind == HETCCL_STEP_SEND) {
        add_edge(c, lanes->sends[step->peer], number, is_counting);
        lanes->sends[step->peer] = number;
    }
    for (uint32_t k = 0; k < step->n_inputs; k++) {
        const struct hetccl_input *input = &c->plans[c->steps[number].rank]->inputs[step->first_input + k];

        if (!input->is_message)
            continue;
        add_edge(c, lanes->receives[input->peer], number, is_counting);
        lanes->receives[input->peer] = number;
    }
}

static enum hetccl_status add_edges(struct hetccl_check *c, struct lanes *lanes, bool is_counting)
{
    for (uint32_t i = 0; i < step_count(c); i++) {
        const struct hetccl_run_step *step = &c->steps[i];

        if (step->index == 0) {
            lanes->engine = NONE;
            memset(lanes->sends, 0xff, 2 * (size_t)c->topo->n_ranks * sizeof(uint32_t));
        }
        for (uint32_t k = 0; k < step->step->n_deps; k++) {
            uint32_t dep = c->plans[step->rank]->deps[step->step->first_dep + k];

            if (dep >= step->index)
                return hetccl_check_fault(step, "waits for step %u", dep);
            add_edge(c, c->first_steps[step->rank] + dep, i, is_counting);
        }
        add_lane_edges(c, lanes, i, is_counting);
    }
    return HETCCL_OK;
}

/* Counts, makes room, fills: after that, a step's edges end where first_edge says and start where the one
 * before ends. */
static enum hetccl_status link_steps(struct hetccl_check *c)
{
    uint32_t n_steps = step_count(c);
    struct lanes lanes = {0};
    enum hetccl_status status = hetccl_alloc(2 * (size_t)c->topo->n_ranks, sizeof(uint32_t), &lanes.sends);

    if (status != HETCCL_OK)
        return status;
    lanes.receives = lanes.sends + c->topo->n_ranks;
    status = add_edges(c, &lanes, true);
    for (uint32_t i = 0; i < n_steps; i++)
        c->steps[i + 1].first_edge += c->steps[i].first_edge;
    if (status == HETCCL_OK)
        status = hetccl_alloc(c->steps[n_steps].first_edge, sizeof(uint32_t), &c->edges);
    if (status == HETCCL_OK)
        status = add_edges(c, &lanes, false);
    hetccl_free(lanes.sends);
    return status;
}

/* The island step's members become one runnable step when the last of them is ready. */
static void make_runnable(struct hetccl_check *c, uint32_t number)
{
    const struct hetccl_run_step *step = &c->steps[number];

    if (step->step->kind == HETCCL_STEP_ISLAND) {
        uint32_t first = c->topo->islands[c->topo->island_of[step->rank]].ranks[0];

        if (--c->members_left[c->first_steps[first] + step->partner] > 0)
            return;
    }
    c->runnable[c->n_runnable++] = number;
}

static void stop_waiting(struct hetccl_check *c, uint32_t number)
{
    if (--c->steps[number].n_pending == 0)
        make_runnable(c, number);
}

static void complete(struct hetccl_check *c, uint32_t number)
{
    uint32_t first = number > 0 ? c->steps[number - 1].first_edge : 0;

    c->steps[number].is_done = true;
    c->n_done++;
    for (uint32_t i = first; i < c->steps[number].first_edge; i++)
        stop_waiting(c, c->edges[i]);
}

/* But for the loose mode, a send ends with the step that takes its message. */
static void complete_combine(struct hetccl_check *c, uint32_t number)
{
    const struct hetccl_run_step *step = &c->steps[number];

    complete(c, number);
    for (uint32_t k = 0; c->mode != HETCCL_CHECK_LOOSE && k < step->step->n_inputs; k++) {
        uint32_t input = step->step->first_input + k;

        if (c->plans[step->rank]->inputs[input].is_message)
            complete(c, c->input_sends[c->first_inputs[step->rank] + input]);
    }
}

static enum hetccl_status run_island(struct hetccl_check *c, uint32_t number)
{
    const struct hetccl_run_step *step = &c->steps[number];
    const struct hetccl_island *island = &c->topo->islands[c->topo->island_of[step->rank]];
    enum hetccl_status status;

    for (uint32_t k = 0; k < island->n_ranks; k++)
        c->members[k] = &c->steps[c->island_steps[c->first_steps[island->ranks[k]] + step->partner]];
    status = hetccl_check_do_island(c, c->members, island->n_ranks);
    for (uint32_t k = 0; k < island->n_ranks && status == HETCCL_OK; k++)
        complete(c, c->island_steps[c->first_steps[island->ranks[k]] + step->partner]);
    return status;
}

static enum hetccl_status run_step(struct hetccl_check *c, uint32_t number)
{
    const struct hetccl_run_step *step = &c->steps[number];
    enum hetccl_status status = HETCCL_OK;

    switch (step->step->kind) {
    case HETCCL_STEP_COPY:
        status = hetccl_check_do_copy(c, step);
        if (status == HETCCL_OK)
            complete(c, number);
        break;
    case HETCCL_STEP_SEND:
        status = hetccl_check_do_send(c, step);
        if (status != HETCCL_OK)
            break;
        stop_waiting(c, step->partner);
        if (c->mode == HETCCL_CHECK_LOOSE)
            complete(c, number);
        break;
    case HETCCL_STEP_COMBINE:
        status = hetccl_check_do_combine(c, step);
        if (status == HETCCL_OK)
            complete_combine(c, number);
        break;
    case HETCCL_STEP_ISLAND:
        status = run_island(c, number);
        break;
    }
    return status;
}

static enum hetccl_status report_standstill(const struct hetccl_check *c)
{
    for (uint32_t i = 0; i < step_count(c); i++)
        if (!c->steps[i].is_done)
            return hetccl_check_fault(&c->steps[i],
                                      "standstill: %u of %u steps are done, this one waits for %u more",
                                      c->n_done, step_count(c), c->steps[i].n_pending);
    return HETCCL_OK;
}

enum hetccl_status hetccl_check_run(struct hetccl_check *c)
{
    enum hetccl_status status = allocate_by_rank(c);

    if (status == HETCCL_OK)
        status = allocate_by_step(c);
    if (status == HETCCL_OK)
        status = list_steps(c);
    if (status == HETCCL_OK)
        status = check_islands(c);
    if (status == HETCCL_OK)
        status = match_messages(c);
    if (status == HETCCL_OK)
        status = link_steps(c);
    if (status != HETCCL_OK)
        return status;
    for (uint32_t i = 0; i < step_count(c); i++)
        if (c->steps[i].n_pending == 0)
            make_runnable(c, i);
    while (c->n_runnable > 0 && status == HETCCL_OK) {
        uint32_t pick = (uint32_t)(hetccl_check_random(c) % c->n_runnable), number = c->runnable[pick];

        c->runnable[pick] = c->runnable[--c->n_runnable];
        status = run_step(c, number);
    }
    return status == HETCCL_OK ? report_standstill(c) : status;
}
