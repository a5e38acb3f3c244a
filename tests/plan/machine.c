/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/memory.h"
#include "machine_state.h"

/* ---- setting up ---- */

static enum hetccl_status add_block(struct machine *m, struct block block)
{
    if (m->n_blocks == m->block_capacity) {
        uint32_t capacity = m->block_capacity > 0 ? 2 * m->block_capacity : 256;
        enum hetccl_status status = hetccl_resize(&m->blocks, capacity, sizeof(*m->blocks));

        if (status != HETCCL_OK)
            return status;
        m->block_capacity = capacity;
    }
    block.number = m->n_parts[block.rank]++;
    if (machine_block_begin(m, &block))
        m->blocks[m->n_blocks++] = block;
    return HETCCL_OK;
}

/* As run_sends() of the kernel: which lanes a send block serves, and its share of them. */
static enum hetccl_status add_send_block(struct machine *m, uint32_t rank, uint32_t number)
{
    const struct hetccl_program *program = &m->args->programs[rank];
    bool has_turns = program->n_send_lanes > program->n_send_blocks;
    uint32_t share = number & (program->lane_blocks - 1), n_lanes = 0;
    enum hetccl_status status = HETCCL_OK;

    if (!has_turns)
        return number / program->lane_blocks < program->n_send_lanes
                   ? add_block(m, (struct block){.rank = rank,
                                                 .is_send = true,
                                                 .lane = number / program->lane_blocks,
                                                 .share = share})
                   : hetccl_fail_quietly(HETCCL_ERR_INTERNAL, "rank %u: send block %u has no lane", rank,
                                         number);
    for (uint32_t lane = number; lane < program->n_send_lanes && status == HETCCL_OK;
         lane += program->n_send_blocks, n_lanes++)
        status = add_block(m, (struct block){.rank = rank, .is_send = true, .lane = lane});
    if (n_lanes > HETCCL_BRIDGE_MAX_LANES_PER_BLOCK || share != 0)
        return hetccl_fail_quietly(HETCCL_ERR_INTERNAL, "rank %u: send block %u has %u lanes, %u blocks each",
                                   rank, number, n_lanes, program->lane_blocks);
    return status;
}

static enum hetccl_status add_ring(struct machine *m, uint32_t from, uint32_t to)
{
    struct ring **ring = &m->rings[from * m->args->n_ranks + to];
    size_t bytes = sizeof(**ring) + HETCCL_RING_SLOTS * m->slot_count * ELEMENT_BYTES;

    return *ring == NULL ? hetccl_alloc(1, bytes, ring) : HETCCL_OK;
}

static enum hetccl_status add_rank(struct machine *m, uint32_t rank)
{
    const struct hetccl_program *program = &m->args->programs[rank];
    enum hetccl_status status = hetccl_alloc(program->n_ops, sizeof(uint32_t), &m->counters[rank]);

    for (uint32_t i = 0; i < program->n_send_lanes && status == HETCCL_OK; i++)
        status = add_ring(m, rank, program->send_lanes[i].peer);
    for (uint32_t i = 0; i < program->n_recv_lanes && status == HETCCL_OK; i++)
        status = add_ring(m, program->recv_peers[i], rank);
    for (uint32_t i = 0; i < program->n_local_blocks && status == HETCCL_OK; i++)
        status = add_block(m, (struct block){.rank = rank, .share = i});
    for (uint32_t i = 0; i < program->n_send_blocks && status == HETCCL_OK; i++)
        status = add_send_block(m, rank, i);
    if (status == HETCCL_OK && m->races != NULL)
        status = races_init(&m->races[rank], rank, m->n_parts[rank], program->n_ops,
                            m->args->memories[rank].count);
    return status;
}

static enum hetccl_status init(struct machine *m)
{
    uint32_t n_ranks = m->args->n_ranks;
    enum hetccl_status status = hetccl_alloc((size_t)n_ranks * n_ranks, sizeof(*m->rings), &m->rings);

    m->slot_count = m->args->slot_bytes / ELEMENT_BYTES;
    if (status == HETCCL_OK)
        status = hetccl_alloc(n_ranks, sizeof(*m->counters), &m->counters);
    if (status == HETCCL_OK)
        status = hetccl_alloc(n_ranks, sizeof(*m->n_parts), &m->n_parts);
    if (status == HETCCL_OK)
        status = hetccl_alloc(m->slot_count, sizeof(*m->sums), &m->sums);
    if (status == HETCCL_OK && m->args->must_find_races)
        status = hetccl_alloc(n_ranks, sizeof(*m->races), &m->races);
    for (uint32_t rank = 0; rank < n_ranks && status == HETCCL_OK; rank++)
        status = add_rank(m, rank);
    return status;
}

static void fini(struct machine *m)
{
    uint32_t n_ranks = m->args->n_ranks;

    for (uint32_t i = 0; m->rings != NULL && i < n_ranks * n_ranks; i++)
        hetccl_free(m->rings[i]);
    for (uint32_t rank = 0; m->counters != NULL && rank < n_ranks; rank++)
        hetccl_free(m->counters[rank]);
    for (uint32_t rank = 0; m->races != NULL && rank < n_ranks; rank++)
        races_fini(&m->races[rank]);
    hetccl_free(m->rings);
    hetccl_free(m->counters);
    hetccl_free(m->n_parts);
    hetccl_free(m->races);
    hetccl_free(m->blocks);
    hetccl_free(m->sums);
}

/* ---- the order ---- */

static uint32_t draw(uint64_t *random, uint32_t n)
{
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*random >> 33) % n);
}

static void swap(struct block *a, struct block *b)
{
    struct block other = *a;

    *a = *b;
    *b = other;
}

static void prepare_pass(struct machine *m, uint64_t *random)
{
    for (uint32_t i = m->n_blocks; m->args->order == MACHINE_RANDOM && i > 1; i--)
        swap(&m->blocks[i - 1], &m->blocks[draw(random, i)]);
}

/* The pieces that a block may do when its turn comes. */
static uint32_t most_pieces(const struct machine *m, uint64_t *random)
{
    if (m->args->order == MACHINE_RANDOM)
        return 1 + draw(random, 4);
    return m->args->order == MACHINE_IN_ORDER ? 1 : UINT32_MAX;
}

/* Every block's turn, but for those of a rank that is left out. Blocks that end are taken out of the list. */
static bool run_pass(struct machine *m, uint32_t left_out, uint64_t *random)
{
    uint32_t n_kept = 0;
    bool has_moved = false;

    prepare_pass(m, random);
    for (uint32_t i = 0; i < m->n_blocks; i++) {
        struct block block = m->blocks[i];
        enum machine_progress progress = MACHINE_MOVED;

        for (uint32_t k = most_pieces(m, random);
             block.rank != left_out && k > 0 && progress == MACHINE_MOVED; k--) {
            progress = machine_block_step(m, &block);
            has_moved = has_moved || progress != MACHINE_WAITS;
        }
        if (progress != MACHINE_ENDED)
            m->blocks[n_kept++] = block;
    }
    m->n_blocks = n_kept;
    return has_moved;
}

static enum hetccl_status report_standstill(const struct machine *m)
{
    char text[4][160] = {{0}};

    for (uint32_t i = 0; i < 4 && i < m->n_blocks; i++)
        machine_block_describe(m, &m->blocks[i * (m->n_blocks - 1) / 3], text[i], sizeof(text[i]));
    return hetccl_fail_quietly(HETCCL_ERR_INTERNAL, "standstill, %u blocks wait: %s; %s; %s; %s", m->n_blocks,
                               text[0], text[1], text[2], text[3]);
}

static enum hetccl_status run(struct machine *m)
{
    uint64_t random = m->args->seed;
    uint32_t starving = draw(&random, m->args->n_ranks), nobody = m->args->n_ranks;

    for (uint32_t i = 0; m->args->order == MACHINE_REVERSE && i < m->n_blocks / 2; i++)
        swap(&m->blocks[i], &m->blocks[m->n_blocks - 1 - i]);
    while (m->n_blocks > 0 && m->status == HETCCL_OK) {
        if (m->args->order == MACHINE_STARVING && run_pass(m, starving, &random))
            continue;
        if (!run_pass(m, nobody, &random) && m->status == HETCCL_OK)
            return report_standstill(m);
    }
    return m->status;
}

/* ---- the end ---- */

static enum hetccl_status check_rings(const struct machine *m)
{
    uint32_t n_ranks = m->args->n_ranks;

    for (uint32_t i = 0; i < n_ranks * n_ranks; i++)
        for (uint32_t slot = 0; m->rings[i] != NULL && slot < HETCCL_RING_SLOTS; slot++)
            if (m->rings[i]->words[slot] != 0)
                return hetccl_fail_quietly(HETCCL_ERR_INTERNAL,
                                           "slot %u from rank %u to rank %u still holds a piece: %#x", slot,
                                           i / n_ranks, i % n_ranks, m->rings[i]->words[slot]);
    return HETCCL_OK;
}

/* Whoever waited for an operation waited for all of it; and a program without dependencies has no counters.
 */
static enum hetccl_status check_counters(const struct machine *m, uint32_t rank)
{
    const struct hetccl_program *program = &m->args->programs[rank];

    for (uint32_t i = 0; i < program->n_deps; i++) {
        const struct hetccl_bridge_dep *dep = &program->deps[i];

        if (m->counters[rank][dep->op] != dep->n_blocks)
            return hetccl_fail_quietly(HETCCL_ERR_INTERNAL,
                                       "rank %u: operation %u was done by %u blocks, somebody waits for %u",
                                       rank, dep->op, m->counters[rank][dep->op], dep->n_blocks);
    }
    for (uint32_t i = 0; program->n_deps == 0 && i < program->n_ops; i++)
        if (program->ops[i].is_watched)
            return hetccl_fail_quietly(HETCCL_ERR_INTERNAL, "rank %u: operation %u counts without counters",
                                       rank, i);
    return HETCCL_OK;
}

enum hetccl_status machine_run(const struct machine_args *args)
{
    struct machine m = {.args = args};
    enum hetccl_status status = init(&m);

    if (status == HETCCL_OK)
        status = run(&m);
    if (status == HETCCL_OK)
        status = check_rings(&m);
    for (uint32_t rank = 0; rank < args->n_ranks && status == HETCCL_OK; rank++)
        status = check_counters(&m, rank);
    for (uint32_t rank = 0; rank < args->n_ranks && status == HETCCL_OK; rank++)
        status = memory_compare(&args->memories[rank], rank);
    fini(&m);
    return status;
}
