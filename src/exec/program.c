/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts drafts by role, and chooses how many blocks each role gets. */
#include "exec/program.h"

#include "base/memory.h"
#include "exec/lower.h"

/* Of local blocks, and of one send lane: docs/results/h200.md. */
enum { MAX_LOCAL_BLOCKS = 32, MAX_LANE_BLOCKS = 16 };

static bool is_send(const struct hetccl_draft *draft)
{
    return draft->op.kind == HETCCL_BRIDGE_SEND;
}

static bool is_island(const struct hetccl_draft *draft)
{
    return draft->op.kind == HETCCL_BRIDGE_ISLAND;
}

static bool is_local(const struct hetccl_draft *draft)
{
    return !is_send(draft) && !is_island(draft);
}

/* ---- order ---- */

static enum hetccl_status allocate(const struct hetccl_lowering *l, struct hetccl_program *program)
{
    enum hetccl_status status = hetccl_alloc(l->n_drafts, sizeof(*program->ops), &program->ops);

    if (status == HETCCL_OK)
        status = hetccl_alloc(l->n_inputs, sizeof(*program->inputs), &program->inputs);
    if (status == HETCCL_OK)
        status = hetccl_alloc(l->n_deps, sizeof(*program->deps), &program->deps);
    if (status == HETCCL_OK)
        status = hetccl_alloc(l->n_sends, sizeof(*program->send_lanes), &program->send_lanes);
    if (status == HETCCL_OK)
        status = hetccl_alloc(l->n_receives, sizeof(*program->recv_peers), &program->recv_peers);
    if (status == HETCCL_OK)
        status = hetccl_alloc(l->n_drafts, sizeof(*program->islands), &program->islands);
    if (status == HETCCL_OK)
        status = hetccl_alloc(l->n_drafts, sizeof(*program->plan_order), &program->plan_order);
    if (status == HETCCL_OK)
        status = hetccl_alloc(l->n_drafts, sizeof(*program->times), &program->times);
    return status;
}

static void number_drafts(const struct hetccl_lowering *l, struct hetccl_program *program)
{
    uint32_t next = 0;

    for (uint32_t i = 0; i < l->n_drafts; i++)
        if (is_local(&l->drafts[i]))
            l->drafts[i].final = next++;
    program->n_local = next;
    for (uint32_t lane = 0; lane < l->n_sends; lane++) {
        program->send_lanes[lane] =
            (struct hetccl_program_lane){.peer = l->sends[lane].peer, .first_op = next};
        next += l->sends[lane].n_ops;
    }
    for (uint32_t i = 0; i < l->n_drafts; i++) {
        struct hetccl_program_lane *lane = &program->send_lanes[l->drafts[i].send_lane];

        if (is_send(&l->drafts[i]))
            l->drafts[i].final = lane->first_op + lane->n_ops++;
        if (!is_island(&l->drafts[i]))
            continue;
        l->drafts[i].final = next++;
        program->islands[program->n_islands++] =
            (struct hetccl_program_island){.step = l->drafts[i].step, .op = l->drafts[i].final};
    }
}

/* ---- blocks ---- */

static uint32_t pieces_of(const struct hetccl_lowering *l, bool of_sends, uint32_t *largest_out)
{
    uint64_t total = 0;

    *largest_out = 0;
    for (uint32_t i = 0; i < l->n_drafts; i++) {
        if (is_island(&l->drafts[i]) || is_send(&l->drafts[i]) != of_sends)
            continue;
        total += l->drafts[i].op.n_pieces;
        if (l->drafts[i].op.n_pieces > *largest_out)
            *largest_out = l->drafts[i].op.n_pieces;
    }
    return total > MAX_LOCAL_BLOCKS ? MAX_LOCAL_BLOCKS : (uint32_t)total;
}

/* One block does two pieces as fast as two blocks that have to wait for each other. */
static void choose_local_blocks(const struct hetccl_lowering *l, struct hetccl_program *program)
{
    uint32_t largest, total = pieces_of(l, false, &largest);

    if (total > 0 && total <= 2)
        total = 1;
    program->n_local_blocks = (uint32_t)hetccl_min_size(total, l->args->max_blocks / 2);
}

static enum hetccl_status choose_send_blocks(const struct hetccl_lowering *l, struct hetccl_program *program)
{
    uint32_t most = l->args->max_blocks / 2, largest;

    (void)pieces_of(l, true, &largest);
    program->lane_blocks = 1;
    while (program->lane_blocks * 2 <= largest && program->lane_blocks < MAX_LANE_BLOCKS &&
           (uint64_t)program->lane_blocks * 2 * l->n_sends <= most)
        program->lane_blocks *= 2;
    program->n_send_blocks = (uint32_t)hetccl_min_size((size_t)l->n_sends * program->lane_blocks, most);
    if (l->n_sends > (uint64_t)most * HETCCL_BRIDGE_MAX_LANES_PER_BLOCK)
        return hetccl_fail(HETCCL_ERR_USAGE,
                           "%u ranks to send to in one call are more than this device can serve: %u",
                           l->n_sends, most * HETCCL_BRIDGE_MAX_LANES_PER_BLOCK);
    return HETCCL_OK;
}

/* Blocks of a role that have a part in an operation, and so say when it is done. */
static uint32_t parts_of(const struct hetccl_program *program, const struct hetccl_bridge_op *op)
{
    uint32_t blocks = op->kind == HETCCL_BRIDGE_SEND ? program->lane_blocks : program->n_local_blocks;

    if (op->kind == HETCCL_BRIDGE_ISLAND)
        return 1;
    return op->n_pieces < blocks ? op->n_pieces : blocks;
}

/* ---- the program ---- */

/* A single local block works in order: nothing local waits for anything local then. */
static bool is_needed(const struct hetccl_lowering *l, const struct hetccl_program *program,
                      const struct hetccl_draft *draft, const struct hetccl_draft *dep)
{
    if (is_island(draft) && is_island(dep))
        return false; /* they are enqueued in order */
    return l->args->keeps_all_deps || program->n_local_blocks > 1 || !is_local(draft) || !is_local(dep);
}

static void fill_op(const struct hetccl_lowering *l, struct hetccl_program *program,
                    const struct hetccl_draft *draft)
{
    struct hetccl_bridge_op *op = &program->ops[draft->final];
    uint32_t is_watched = op->is_watched;

    *op = draft->op;
    op->is_watched = is_watched;
    op->first_dep = program->n_deps;
    for (uint32_t i = 0; i < draft->op.n_deps; i++) {
        const struct hetccl_draft *dep = &l->drafts[l->deps[draft->op.first_dep + i]];

        if (!is_needed(l, program, draft, dep))
            continue;
        program->ops[dep->final].is_watched = 1;
        program->deps[program->n_deps++] =
            (struct hetccl_bridge_dep){.op = dep->final, .n_blocks = parts_of(program, &dep->op)};
    }
    op->n_deps = program->n_deps - op->first_dep;
}

static void fill(const struct hetccl_lowering *l, struct hetccl_program *program)
{
    for (uint32_t i = 0; i < l->n_drafts; i++) {
        fill_op(l, program, &l->drafts[i]);
        program->plan_order[i] = l->drafts[i].final;
        program->times[l->drafts[i].final] = l->drafts[i].time;
    }
    for (uint32_t i = 0; i < l->n_inputs; i++)
        program->inputs[i] = l->inputs[i];
    for (uint32_t i = 0; i < l->n_receives; i++)
        program->recv_peers[i] = l->receives[i].peer;
    program->n_ops = l->n_drafts;
    program->n_inputs = l->n_inputs;
    program->n_send_lanes = l->n_sends;
    program->n_recv_lanes = l->n_receives;
}

static enum hetccl_status check_args(const struct hetccl_program_args *args)
{
    if (args->n_island_ranks > HETCCL_REDUCE_MAX_INPUTS)
        return hetccl_fail(HETCCL_ERR_USAGE,
                           "engine p2p takes islands of up to %d ranks, this one has %u: cut it with "
                           "HETCCL_ISLAND_SPLIT",
                           HETCCL_REDUCE_MAX_INPUTS, args->n_island_ranks);
    return HETCCL_OK;
}

enum hetccl_status hetccl_program_build(const struct hetccl_program_args *args, struct hetccl_program *out)
{
    struct hetccl_lowering l = {.args = args};
    struct hetccl_program program = {.ops = NULL};
    enum hetccl_status status = check_args(args);

    if (status == HETCCL_OK)
        status = hetccl_lowering_run(&l);
    if (status == HETCCL_OK)
        status = allocate(&l, &program);
    if (status == HETCCL_OK) {
        number_drafts(&l, &program);
        choose_local_blocks(&l, &program);
        status = choose_send_blocks(&l, &program);
    }
    if (status == HETCCL_OK)
        fill(&l, &program);
    hetccl_lowering_fini(&l);
    if (status != HETCCL_OK) {
        hetccl_program_fini(&program);
        return status;
    }
    *out = program;
    return HETCCL_OK;
}

void hetccl_program_fini(struct hetccl_program *program)
{
    hetccl_free(program->ops);
    hetccl_free(program->inputs);
    hetccl_free(program->deps);
    hetccl_free(program->send_lanes);
    hetccl_free(program->recv_peers);
    hetccl_free(program->islands);
    hetccl_free(program->plan_order);
    hetccl_free(program->times);
    *program = (struct hetccl_program){.ops = NULL};
}
