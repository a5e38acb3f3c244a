/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/hazards.h"

#include <string.h>

#include "base/memory.h"

enum { BLOCK_SEGMENTS = 32 };

struct segment {
    size_t start, end;
    uint32_t writer;  /* or HETCCL_NO_STEP */
    uint32_t readers; /* head of a list, or HETCCL_NO_STEP */
};

struct hetccl_hazard_block {
    uint32_t n_segments; /* never 0 */
    struct segment segments[BLOCK_SEGMENTS];
};

/* A place between segments: before segments[index] of block; index may be n_segments only in the last block.
 */
struct place {
    uint32_t block, index;
};

static struct segment *segment_at(const struct hetccl_hazards *map, struct place at)
{
    if (at.block >= map->n_blocks || at.index >= map->blocks[at.block]->n_segments)
        return NULL;
    return &map->blocks[at.block]->segments[at.index];
}

static struct place next_place(const struct hetccl_hazards *map, struct place at)
{
    at.index++;
    if (at.index >= map->blocks[at.block]->n_segments && at.block + 1 < map->n_blocks)
        at = (struct place){.block = at.block + 1};
    return at;
}

static size_t block_end(const struct hetccl_hazards *map, uint32_t block)
{
    return map->blocks[block]->segments[map->blocks[block]->n_segments - 1].end;
}

/* The first block that ends after `position`, or n_blocks. Mostly it is the one of the last access or its
 * neighbour. */
static uint32_t find_block(struct hetccl_hazards *map, size_t position)
{
    uint32_t low = 0, high = map->n_blocks;

    if (map->hint < high && block_end(map, map->hint) <= position)
        low = map->hint + 1;
    else if (map->hint < high)
        high = map->hint;
    if (low < high && block_end(map, low) > position)
        high = low;
    else if (low < high && high < map->n_blocks && block_end(map, high - 1) <= position)
        low = high;
    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (block_end(map, middle) > position)
            high = middle;
        else
            low = middle + 1;
    }
    map->hint = low;
    return low;
}

/* The first segment that ends after `position`; the end of the list when there is none. */
static struct place find_place(struct hetccl_hazards *map, size_t position)
{
    struct place at = {.block = find_block(map, position)};

    if (at.block == map->n_blocks) {
        if (map->n_blocks > 0)
            at = (struct place){.block = map->n_blocks - 1,
                                .index = map->blocks[map->n_blocks - 1]->n_segments};
        return at;
    }
    while (map->blocks[at.block]->segments[at.index].end <= position)
        at.index++;
    return at;
}

/* Inserts an uninitialised block at `index` of the block list. */
static enum hetccl_status add_block(struct hetccl_hazards *map, uint32_t index)
{
    struct hetccl_hazard_block *block = NULL;
    enum hetccl_status status;

    if (map->n_blocks == map->capacity) {
        uint32_t capacity = map->capacity > 0 ? 2 * map->capacity : 8;

        status = hetccl_resize(&map->blocks, capacity, sizeof(struct hetccl_hazard_block *));
        if (status != HETCCL_OK)
            return status;
        map->capacity = capacity;
    }
    status = hetccl_alloc(1, sizeof(*block), &block);
    if (status != HETCCL_OK)
        return status;
    memmove(&map->blocks[index + 1], &map->blocks[index], (map->n_blocks - index) * sizeof(block));
    map->blocks[index] = block;
    map->n_blocks++;
    return HETCCL_OK;
}

/* Makes room in a full block: an append opens a new block (plans mostly move upwards), else the block is
 * halved. */
static enum hetccl_status split_block(struct hetccl_hazards *map, struct place *at)
{
    struct hetccl_hazard_block *full, *right;
    uint32_t n_left = at->index == BLOCK_SEGMENTS ? BLOCK_SEGMENTS : BLOCK_SEGMENTS / 2;
    enum hetccl_status status = add_block(map, at->block + 1);

    if (status != HETCCL_OK)
        return status;
    full = map->blocks[at->block];
    right = map->blocks[at->block + 1];
    right->n_segments = BLOCK_SEGMENTS - n_left;
    memcpy(right->segments, &full->segments[n_left], right->n_segments * sizeof(struct segment));
    full->n_segments = n_left;
    if (at->index >= n_left && !(at->index == n_left && n_left < BLOCK_SEGMENTS))
        *at = (struct place){.block = at->block + 1, .index = at->index - n_left};
    return HETCCL_OK;
}

/* Inserts before *at, which then points at the new segment. */
static enum hetccl_status insert(struct hetccl_hazards *map, struct place *at, struct segment segment)
{
    struct hetccl_hazard_block *block;
    enum hetccl_status status = HETCCL_OK;

    if (map->n_blocks == 0)
        status = add_block(map, 0);
    else if (map->blocks[at->block]->n_segments == BLOCK_SEGMENTS)
        status = split_block(map, at);
    if (status != HETCCL_OK)
        return status;
    block = map->blocks[at->block];
    memmove(&block->segments[at->index + 1], &block->segments[at->index],
            (block->n_segments - at->index) * sizeof(segment));
    block->segments[at->index] = segment;
    block->n_segments++;
    return HETCCL_OK;
}

/* Removes the segment at *at, which then points at the one that followed. */
static void erase(struct hetccl_hazards *map, struct place *at)
{
    struct hetccl_hazard_block *block = map->blocks[at->block];

    block->n_segments--;
    memmove(&block->segments[at->index], &block->segments[at->index + 1],
            (block->n_segments - at->index) * sizeof(struct segment));
    if (block->n_segments == 0) {
        hetccl_free(block);
        map->n_blocks--;
        memmove(&map->blocks[at->block], &map->blocks[at->block + 1],
                (map->n_blocks - at->block) * sizeof(block));
        if (at->block == map->n_blocks && map->n_blocks > 0)
            *at = (struct place){map->n_blocks - 1, map->blocks[map->n_blocks - 1]->n_segments};
        else
            at->index = 0;
    } else if (at->index == block->n_segments && at->block + 1 < map->n_blocks) {
        *at = (struct place){.block = at->block + 1};
    }
}

/* Cuts the segment that holds `position` in two there, if there is one. */
static enum hetccl_status split_at(struct hetccl_hazards *map, size_t position)
{
    struct place at = find_place(map, position);
    struct segment *segment = segment_at(map, at), left;

    if (segment == NULL || segment->start >= position)
        return HETCCL_OK;
    left = *segment;
    left.end = position;
    segment->start = position;
    return insert(map, &at, left);
}

/*
 * Makes sure that no segment crosses start or end, and finds the first one that ends after start. One search
 * will do when the access covers a segment exactly, or lies where none is.
 */
static enum hetccl_status isolate(struct hetccl_hazards *map, size_t start, size_t end, struct place *at)
{
    enum hetccl_status status = HETCCL_OK;
    const struct segment *segment;

    *at = find_place(map, start);
    segment = segment_at(map, *at);
    if (segment == NULL || segment->start >= end || (segment->start >= start && segment->end == end))
        return HETCCL_OK;
    if (segment->start < start)
        status = split_at(map, start);
    if (status == HETCCL_OK)
        status = split_at(map, end);
    *at = find_place(map, start);
    return status;
}

static enum hetccl_status tell(struct hetccl_found_steps *found, uint32_t step)
{
    if (step == HETCCL_NO_STEP)
        return HETCCL_OK;
    if (found->n_steps == found->capacity) {
        uint32_t capacity = found->capacity > 0 ? 2 * found->capacity : 64;
        enum hetccl_status status = hetccl_resize(&found->steps, capacity, sizeof(*found->steps));

        if (status != HETCCL_OK)
            return status;
        found->capacity = capacity;
    }
    found->steps[found->n_steps++] = step;
    return HETCCL_OK;
}

static enum hetccl_status add_reader(struct hetccl_readers *readers, struct segment *segment, uint32_t step)
{
    if (segment->readers != HETCCL_NO_STEP && readers->items[segment->readers].step == step)
        return HETCCL_OK;
    if (readers->n_items == readers->capacity) {
        uint32_t capacity = readers->capacity > 0 ? 2 * readers->capacity : 64;
        enum hetccl_status status = hetccl_resize(&readers->items, capacity, sizeof(*readers->items));

        if (status != HETCCL_OK)
            return status;
        readers->capacity = capacity;
    }
    readers->items[readers->n_items] = (struct hetccl_reader){.step = step, .next = segment->readers};
    segment->readers = readers->n_items++;
    return HETCCL_OK;
}

enum hetccl_status hetccl_hazards_read(struct hetccl_hazards *map, struct hetccl_readers *readers,
                                       size_t start, size_t end, uint32_t step,
                                       struct hetccl_found_steps *found)
{
    struct place at;
    enum hetccl_status status = isolate(map, start, end, &at);

    while (status == HETCCL_OK && start < end) {
        struct segment *segment = segment_at(map, at);

        if (segment == NULL || segment->start > start) {
            struct segment gap = {.start = start, .writer = HETCCL_NO_STEP, .readers = HETCCL_NO_STEP};

            gap.end = segment != NULL ? hetccl_min_size(segment->start, end) : end;
            status = insert(map, &at, gap);
            continue;
        }
        status = tell(found, segment->writer);
        if (status == HETCCL_OK)
            status = add_reader(readers, segment, step);
        start = segment->end;
        at = next_place(map, at);
    }
    return status;
}

/* Readers came after the writer and waited for it: whoever waits for them needn't be told of it. */
static enum hetccl_status tell_of_segment(const struct hetccl_readers *readers, const struct segment *segment,
                                          uint32_t step, struct hetccl_found_steps *found)
{
    enum hetccl_status status = HETCCL_OK;
    bool has_other_reader = false;

    for (uint32_t i = segment->readers; i != HETCCL_NO_STEP && status == HETCCL_OK;
         i = readers->items[i].next) {
        if (readers->items[i].step == step)
            continue;
        has_other_reader = true;
        status = tell(found, readers->items[i].step);
    }
    if (status == HETCCL_OK && !has_other_reader && segment->writer != step)
        status = tell(found, segment->writer);
    return status;
}

enum hetccl_status hetccl_hazards_write(struct hetccl_hazards *map, struct hetccl_readers *readers,
                                        size_t start, size_t end, uint32_t step,
                                        struct hetccl_found_steps *found)
{
    struct segment written = {.start = start, .end = end, .writer = step, .readers = HETCCL_NO_STEP};
    struct place at;
    enum hetccl_status status = isolate(map, start, end, &at);
    struct segment *segment;

    if (status != HETCCL_OK)
        return status;
    for (;;) {
        segment = segment_at(map, at);
        if (segment == NULL || segment->start >= end)
            break;
        status = tell_of_segment(readers, segment, step, found);
        if (status != HETCCL_OK)
            return status;
        if (segment->start == start && segment->end == end) {
            *segment = written;
            return HETCCL_OK;
        }
        erase(map, &at);
    }
    return insert(map, &at, written);
}

void hetccl_hazards_fini(struct hetccl_hazards *map)
{
    for (uint32_t i = 0; i < map->n_blocks; i++)
        hetccl_free(map->blocks[i]);
    hetccl_free(map->blocks);
    memset(map, 0, sizeof(*map));
}
