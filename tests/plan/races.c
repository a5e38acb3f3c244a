/* SPDX-License-Identifier: Apache-2.0 */
#include "races.h"

#include <string.h>

#include "base/memory.h"

/* A time: block above, its clock below; clocks begin with 1. */
enum { CLOCK_BITS = 20 };

enum hetccl_status races_init(struct races *races, uint32_t rank, uint32_t n_blocks, uint32_t n_ops,
                              size_t n_cells)
{
    enum hetccl_status status = hetccl_alloc(n_cells, sizeof(*races->cells), &races->cells);

    races->rank = rank;
    races->n_blocks = n_blocks;
    races->n_reads = 1;
    if (status == HETCCL_OK)
        status = hetccl_alloc((size_t)n_blocks * n_blocks, sizeof(uint32_t), &races->clocks);
    if (status == HETCCL_OK)
        status = hetccl_alloc((size_t)n_ops * n_blocks, sizeof(uint32_t), &races->released);
    if (status != HETCCL_OK)
        return status;
    for (uint32_t i = 0; i < n_blocks; i++)
        races->clocks[i * n_blocks + i] = 1;
    return HETCCL_OK;
}

void races_fini(struct races *races)
{
    hetccl_free(races->cells);
    hetccl_free(races->reads);
    hetccl_free(races->clocks);
    hetccl_free(races->released);
    memset(races, 0, sizeof(*races));
}

static void join(uint32_t *into, const uint32_t *from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        into[i] = from[i] > into[i] ? from[i] : into[i];
}

void races_release(struct races *races, uint32_t block, uint32_t op)
{
    uint32_t *clock = races->clocks + (size_t)block * races->n_blocks;

    join(races->released + (size_t)op * races->n_blocks, clock, races->n_blocks);
    clock[block]++;
}

void races_acquire(struct races *races, uint32_t block, uint32_t op)
{
    join(races->clocks + (size_t)block * races->n_blocks, races->released + (size_t)op * races->n_blocks,
         races->n_blocks);
}

static bool is_known(const uint32_t *clock, uint32_t when)
{
    return (when & ((1U << CLOCK_BITS) - 1)) <= clock[when >> CLOCK_BITS];
}

static enum hetccl_status report(const struct races *races, uint32_t op, const char *does, size_t cell,
                                 const char *did, uint32_t other)
{
    return hetccl_fail_quietly(
        HETCCL_ERR_INTERNAL,
        "rank %u: operation %u %s cell %zu, which operation %u %s; nothing orders the two", races->rank, op,
        does, cell, other, did);
}

static enum hetccl_status add_read(struct races *races, struct race_cell *cell, uint32_t when, uint32_t op)
{
    if (cell->reads != 0 && races->reads[cell->reads].when == when)
        return HETCCL_OK;
    if (races->n_reads >= races->read_capacity) {
        uint32_t capacity = races->read_capacity > 0 ? 2 * races->read_capacity : 1024;
        enum hetccl_status status = hetccl_resize(&races->reads, capacity, sizeof(*races->reads));

        if (status != HETCCL_OK)
            return status;
        races->read_capacity = capacity;
    }
    races->reads[races->n_reads] = (struct race_read){.when = when, .op = op, .next = cell->reads};
    cell->reads = races->n_reads++;
    return HETCCL_OK;
}

enum hetccl_status races_read(struct races *races, uint32_t block, uint32_t op, size_t start, size_t count)
{
    const uint32_t *clock = races->clocks + (size_t)block * races->n_blocks;
    uint32_t now = block << CLOCK_BITS | clock[block];
    enum hetccl_status status = HETCCL_OK;

    for (size_t i = start; i < start + count && status == HETCCL_OK; i++) {
        struct race_cell *cell = &races->cells[i];

        if (cell->write != 0 && !is_known(clock, cell->write))
            return report(races, op, "reads", i, "writes", cell->write_op);
        status = add_read(races, cell, now, op);
    }
    return status;
}

enum hetccl_status races_write(struct races *races, uint32_t block, uint32_t op, size_t start, size_t count)
{
    const uint32_t *clock = races->clocks + (size_t)block * races->n_blocks;
    uint32_t now = block << CLOCK_BITS | clock[block];

    for (size_t i = start; i < start + count; i++) {
        struct race_cell *cell = &races->cells[i];

        if (cell->write != 0 && !is_known(clock, cell->write))
            return report(races, op, "writes", i, "writes", cell->write_op);
        for (uint32_t k = cell->reads; k != 0; k = races->reads[k].next)
            if (!is_known(clock, races->reads[k].when))
                return report(races, op, "writes", i, "reads", races->reads[k].op);
        *cell = (struct race_cell){.write = now, .write_op = op};
    }
    return HETCCL_OK;
}
