/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/check_state.h"

/* Whether the steps' times are a clock that all ranks share, as plan.h says. */

static bool is_before(const struct hetccl_step *a, const struct hetccl_step *b)
{
    if (a->time.round != b->time.round)
        return a->time.round < b->time.round;
    return a->time.place < b->time.place;
}

static bool is_same_time(const struct hetccl_step *a, const struct hetccl_step *b)
{
    return a->time.round == b->time.round && a->time.place == b->time.place;
}

/* A copy waits for nobody: others may follow it at once. */
static enum hetccl_status check_deps(const struct hetccl_check *c, const struct hetccl_run_step *step)
{
    const struct hetccl_plan *plan = c->plans[step->rank];

    for (uint32_t i = 0; i < step->step->n_deps; i++) {
        uint32_t index = plan->deps[step->step->first_dep + i];
        const struct hetccl_step *dep = &plan->steps[index];

        if (!is_before(dep, step->step) && !(dep->kind == HETCCL_STEP_COPY && is_same_time(dep, step->step)))
            return hetccl_check_fault(step, "at time %u/%zu, waits for step %u of %u/%zu",
                                      step->step->time.round, step->step->time.place, index, dep->time.round,
                                      dep->time.place);
    }
    return HETCCL_OK;
}

static enum hetccl_status check_messages(const struct hetccl_check *c, const struct hetccl_run_step *step)
{
    const struct hetccl_plan *plan = c->plans[step->rank];

    for (uint32_t i = step->step->first_input; i < step->step->first_input + step->step->n_inputs; i++) {
        const struct hetccl_run_step *send;

        if (!plan->inputs[i].is_message)
            continue;
        send = &c->steps[c->input_sends[c->first_inputs[step->rank] + i]];
        if (!is_same_time(send->step, step->step))
            return hetccl_check_fault(step, "at time %u/%zu, but rank %u step %u sends at %u/%zu",
                                      step->step->time.round, step->step->time.place, send->rank, send->index,
                                      send->step->time.round, send->step->time.place);
    }
    return HETCCL_OK;
}

enum hetccl_status hetccl_check_times(const struct hetccl_check *c)
{
    enum hetccl_status status = HETCCL_OK;

    for (uint32_t i = 0; i < c->first_steps[c->topo->n_ranks] && status == HETCCL_OK; i++) {
        status = check_deps(c, &c->steps[i]);
        if (status == HETCCL_OK)
            status = check_messages(c, &c->steps[i]);
    }
    return status;
}
