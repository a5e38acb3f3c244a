/* SPDX-License-Identifier: Apache-2.0 */
/* Turns a plan into the lanes and counters that run.c walks. All memory of a run is made here. */
#include "exec/run.h"

#include <string.h>

#include "base/memory.h"
#include "exec/island.h"

/* A combine step that only moves one message to its destination lets the link write there. */
static bool is_direct_receive(const struct hetccl_plan *plan, const struct hetccl_step *step)
{
    return step->n_inputs == 1 && plan->inputs[step->first_input].is_message;
}

static uint32_t count_messages(const struct hetccl_plan *plan)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct hetccl_step *step = &plan->steps[i];

        if (step->kind == HETCCL_STEP_SEND)
            n++;
        for (uint32_t k = 0; step->kind == HETCCL_STEP_COMBINE && k < step->n_inputs; k++)
            n += plan->inputs[step->first_input + k].is_message;
    }
    return n;
}

/* Lanes are few and found by a hash table over (peer, direction) while the run is made. */
struct lane_table {
    uint32_t *slots; /* lane index + 1, 0 for empty */
    uint32_t mask;
};

static uint32_t find_or_add_lane(struct hetccl_run *run, struct lane_table *table, uint32_t peer,
                                 bool is_send)
{
    uint32_t at = ((peer * 2 + is_send) * 2654435761u) & table->mask;

    for (; table->slots[at] != 0; at = (at + 1) & table->mask) {
        const struct lane *lane = &run->lanes[table->slots[at] - 1];

        if (lane->peer == peer && lane->is_send == is_send)
            return table->slots[at] - 1;
    }
    run->lanes[run->n_lanes] = (struct lane){.peer = peer, .is_send = is_send};
    table->slots[at] = ++run->n_lanes;
    return run->n_lanes - 1;
}

static void add_message(struct hetccl_run *run, struct lane_table *table, uint32_t step, uint32_t peer,
                        bool is_send, bool is_direct)
{
    struct message *message = &run->messages[run->n_messages++];

    message->step = step;
    message->is_direct = is_direct;
    message->lane = find_or_add_lane(run, table, peer, is_send);
    run->states[step].n_messages++;
}

static void list_messages(struct hetccl_run *run, struct lane_table *table)
{
    const struct hetccl_plan *plan = run->plan;

    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct hetccl_step *step = &plan->steps[i];

        run->states[i].first_message = run->n_messages;
        if (step->kind == HETCCL_STEP_ISLAND)
            run->island_steps[run->n_island_steps++] = i;
        if (step->kind == HETCCL_STEP_SEND)
            add_message(run, table, i, step->peer, true, true);
        for (uint32_t k = 0; step->kind == HETCCL_STEP_COMBINE && k < step->n_inputs; k++) {
            const struct hetccl_input *input = &plan->inputs[step->first_input + k];

            if (input->is_message)
                add_message(run, table, i, input->peer, false, is_direct_receive(plan, step));
        }
    }
}

static void fill_lanes(struct hetccl_run *run)
{
    uint32_t used = 0;

    for (uint32_t i = 0; i < run->n_messages; i++)
        run->lanes[run->messages[i].lane].n_messages++;
    for (uint32_t l = 0; l < run->n_lanes; l++) {
        run->lanes[l].messages = run->lane_messages + used;
        used += run->lanes[l].n_messages;
        run->lanes[l].n_messages = 0;
    }
    for (uint32_t i = 0; i < run->n_messages; i++) {
        struct lane *lane = &run->lanes[run->messages[i].lane];

        lane->messages[lane->n_messages++] = i;
    }
}

static enum hetccl_status lay_out_messages(struct hetccl_run *run)
{
    uint32_t n_messages = count_messages(run->plan);
    struct lane_table table = {.mask = 15};
    enum hetccl_status status;

    while (table.mask < 4u * n_messages)
        table.mask = table.mask * 2 + 1;
    status = hetccl_alloc(n_messages, sizeof(*run->messages), &run->messages);
    if (status == HETCCL_OK)
        status = hetccl_alloc(n_messages, sizeof(*run->lanes), &run->lanes);
    if (status == HETCCL_OK)
        status = hetccl_alloc(n_messages, sizeof(*run->lane_messages), &run->lane_messages);
    if (status == HETCCL_OK)
        status = hetccl_alloc((size_t)table.mask + 1, sizeof(*table.slots), &table.slots);
    if (status != HETCCL_OK)
        return status;
    list_messages(run, &table);
    hetccl_free(table.slots);
    fill_lanes(run);
    return HETCCL_OK;
}

static enum hetccl_status lay_out_successors(struct hetccl_run *run)
{
    const struct hetccl_plan *plan = run->plan;
    enum hetccl_status status;

    status = hetccl_alloc((size_t)plan->n_steps + 2, sizeof(*run->first_successor), &run->first_successor);
    if (status == HETCCL_OK)
        status = hetccl_alloc(plan->n_deps, sizeof(*run->successors), &run->successors);
    if (status != HETCCL_OK)
        return status;
    /* Counting sort by the step depended upon; first_successor is shifted by one while it is filled. */
    for (uint32_t i = 0; i < plan->n_steps; i++)
        for (uint32_t d = 0; d < plan->steps[i].n_deps; d++)
            run->first_successor[plan->deps[plan->steps[i].first_dep + d] + 2]++;
    for (uint32_t i = 2; i < plan->n_steps + 2; i++)
        run->first_successor[i] += run->first_successor[i - 1];
    for (uint32_t i = 0; i < plan->n_steps; i++)
        for (uint32_t d = 0; d < plan->steps[i].n_deps; d++)
            run->successors[run->first_successor[plan->deps[plan->steps[i].first_dep + d] + 1]++] = i;
    return HETCCL_OK;
}

static enum hetccl_status lay_out(struct hetccl_run *run)
{
    size_t n_steps = run->plan->n_steps;
    enum hetccl_status status;

    status = hetccl_alloc(n_steps, sizeof(*run->states), &run->states);
    if (status == HETCCL_OK)
        status = hetccl_alloc(n_steps, sizeof(*run->island_steps), &run->island_steps);
    if (status == HETCCL_OK)
        status = hetccl_alloc(n_steps, sizeof(*run->ready), &run->ready);
    if (status == HETCCL_OK)
        status = hetccl_alloc(n_steps, sizeof(*run->combines), &run->combines);
    if (status == HETCCL_OK)
        status = lay_out_messages(run);
    if (status == HETCCL_OK)
        status = lay_out_successors(run);
    if (status == HETCCL_OK)
        status = hetccl_island_pieces(run->plan, &run->pieces);
    if (status == HETCCL_OK && run->n_island_steps > 0 && run->env->engine == NULL)
        status = hetccl_fail(HETCCL_ERR_INTERNAL, "plan %s of %s has island steps, but rank %u has no engine",
                             run->plan->name, hetccl_coll_name(run->plan->coll), run->env->rank);
    return status;
}

enum hetccl_status hetccl_run_create(const struct hetccl_exec_env *env, const struct hetccl_plan *plan,
                                     struct hetccl_run **out)
{
    struct hetccl_run *run = NULL;
    enum hetccl_status status = hetccl_alloc(1, sizeof(*run), &run);

    if (status != HETCCL_OK)
        return status;
    run->env = env;
    run->plan = plan;
    status =
        env->device->ops->is_synchronous ? lay_out(run) : hetccl_launched_create(env, plan, &run->launched);
    if (status != HETCCL_OK) {
        hetccl_run_destroy(run);
        return status;
    }
    *out = run;
    return HETCCL_OK;
}

void hetccl_run_destroy(struct hetccl_run *run)
{
    if (run == NULL)
        return;
    hetccl_launched_destroy(run->launched);
    hetccl_free(run->states);
    hetccl_free(run->successors);
    hetccl_free(run->first_successor);
    hetccl_free(run->messages);
    hetccl_free(run->lanes);
    hetccl_free(run->lane_messages);
    hetccl_free(run->island_steps);
    hetccl_free(run->pieces);
    hetccl_free(run->ready);
    hetccl_free(run->combines);
    hetccl_free(run);
}
