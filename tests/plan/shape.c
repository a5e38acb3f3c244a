/* SPDX-License-Identifier: Apache-2.0 */
#include "shape.h"

#include <inttypes.h>
#include <string.h>

static const size_t small_counts[] = {0, 1, 2, 7};
static const size_t counts[] = {0, 1, 1, 2, 2, 3, 5, 7, 11, 13, 16, 17, 23, 29, 31, 41, 53, 61, 64, 97, 127};

uint64_t shape_random(struct shape *shape)
{
    uint64_t x = shape->random += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint32_t shape_pick(struct shape *shape, uint32_t n)
{
    return (uint32_t)(shape_random(shape) % n);
}

static void add_sizes(struct shape *shape)
{
    shape->n_ranks = 0;
    for (uint32_t i = 0; i < shape->n_islands; i++)
        shape->n_ranks += shape->sizes[i];
}

/* order 0: blocks; 1: round robin; 2: shuffled. */
static void order_ranks(struct shape *shape, uint32_t order)
{
    uint32_t left[SHAPE_MAX_ISLANDS], rank = 0;

    memcpy(left, shape->sizes, sizeof(left));
    while (rank < shape->n_ranks) {
        for (uint32_t i = 0; i < shape->n_islands; i++) {
            uint32_t n_now = order == 1 ? left[i] > 0 : left[i];

            left[i] -= n_now;
            while (n_now-- > 0)
                shape->island_of[rank++] = i;
        }
    }
    for (uint32_t i = shape->n_ranks; order == 2 && i > 1; i--) {
        uint32_t j = shape_pick(shape, i), other = shape->island_of[i - 1];

        shape->island_of[i - 1] = shape->island_of[j];
        shape->island_of[j] = other;
    }
}

static uint32_t take(uint64_t *number, uint32_t n)
{
    uint32_t digit = (uint32_t)(*number % n);

    *number /= n;
    return digit;
}

/* All layouts of up to 3 islands of up to 3 ranks, every collective, root, order and form. */
static bool make_enumerated(struct shape *shape, uint64_t number)
{
    uint32_t form, order, layout;

    shape->coll = (enum hetccl_coll)take(&number, HETCCL_P2P);
    form = take(&number, 4);
    shape->count = small_counts[take(&number, 4)];
    order = take(&number, 2);
    layout = take(&number, 3);
    shape->root = take(&number, 9);
    for (uint32_t i = 0; i < 3; i++)
        shape->sizes[i] = take(&number, 4);
    if (number > 0 || shape->sizes[0] == 0 || (shape->sizes[1] == 0 && shape->sizes[2] > 0))
        return false;
    shape->n_islands = shape->sizes[1] == 0 ? 1 : shape->sizes[2] == 0 ? 2 : 3;
    add_sizes(shape);
    if (shape->root >= shape->n_ranks)
        return false;
    order_ranks(shape, order);
    for (uint32_t i = 0; i < shape->n_islands; i++)
        shape->hosts[i] = layout == 0 ? i : layout == 1 ? 0 : i / 2;
    for (uint32_t rank = 0; rank < shape->n_ranks; rank++)
        shape->in_place[rank] = form & 1;
    shape->has_scale = form & 2;
    shape->elem_bytes = 4;
    shape->chunk_bytes = 8;
    shape->small_bytes = number & 1 ? 64 : 0;
    return true;
}

void shape_draw_layout(struct shape *shape, uint32_t most_islands, uint32_t most_island_ranks)
{
    uint32_t largest = 1 + shape_pick(shape, most_island_ranks), n_hosts;

    shape->n_islands = 1 + shape_pick(shape, most_islands);
    n_hosts = shape_pick(shape, 3) == 0 ? shape->n_islands : 1 + shape_pick(shape, shape->n_islands);
    for (uint32_t i = 0; i < shape->n_islands; i++) {
        shape->sizes[i] = 1 + shape_pick(shape, largest);
        shape->hosts[i] = n_hosts == shape->n_islands ? i : shape_pick(shape, n_hosts);
    }
    shape->is_spread = shape_pick(shape, 8) == 0;
    add_sizes(shape);
    order_ranks(shape, shape_pick(shape, 3));
}

static void draw_call(struct shape *shape)
{
    uint32_t place = shape_pick(shape, 3);
    const char *const *algorithms;
    uint32_t n_algorithms = 0;

    shape->coll = (enum hetccl_coll)shape_pick(shape, HETCCL_P2P);
    shape->root = shape_pick(shape, shape->n_ranks);
    shape->count = counts[shape_pick(shape, sizeof(counts) / sizeof(counts[0]))];
    shape->elem_bytes = (size_t)1 << shape_pick(shape, 4);
    shape->chunk_bytes = shape->elem_bytes * (1 + shape_pick(shape, 24));
    if (shape_pick(shape, 4) == 0)
        shape->chunk_bytes = 4096;
    if (shape_pick(shape, 64) == 0) {
        shape->count = 1000 + shape_pick(shape, 1000);
        shape->chunk_bytes = shape->elem_bytes * (64 + shape_pick(shape, 400));
    }
    shape->small_bytes = shape_pick(shape, 3) == 0 ? 256 : 0;
    shape->has_scale = shape_pick(shape, 2);
    for (uint32_t rank = 0; rank < shape->n_ranks; rank++)
        shape->in_place[rank] = place == 2 ? shape_pick(shape, 2) : place;
    algorithms = hetccl_plan_algorithms(shape->coll);
    while (algorithms[n_algorithms] != NULL)
        n_algorithms++;
    if (shape_pick(shape, 2) == 0)
        shape->algo = algorithms[shape_pick(shape, n_algorithms)];
}

void shape_draw_pairs(struct shape *shape, uint32_t most)
{
    for (uint32_t a = 0; a < shape->n_ranks; a++) {
        size_t offset = 0;

        for (uint32_t b = 0; b < shape->n_ranks; b++) {
            shape->pair_counts[a][b] = shape_pick(shape, 3) == 0 ? 0 : shape_pick(shape, most + 1);
            shape->send_offsets[a][b] = offset + shape_pick(shape, 2);
            offset = shape->send_offsets[a][b] + shape->pair_counts[a][b];
        }
    }
    for (uint32_t b = 0; b < shape->n_ranks; b++) {
        size_t offset = 0;

        for (uint32_t a = 0; a < shape->n_ranks; a++) {
            shape->recv_counts[b][a] = shape->pair_counts[a][b];
            shape->recv_offsets[b][a] = offset + shape_pick(shape, 2);
            offset = shape->recv_offsets[b][a] + shape->recv_counts[b][a];
        }
    }
}

void shape_clear(struct shape *shape, uint64_t seed, uint64_t number)
{
    memset(shape, 0, offsetof(struct shape, pair_counts));
    shape->number = number;
    shape->random = seed * UINT64_C(0xd1342543de82ef95) + number;
    shape->algo = "";
}

void shape_make(struct shape *shape, uint64_t seed, uint64_t number)
{
    shape_clear(shape, seed, number);
    if (!make_enumerated(shape, number)) {
        memset(shape->sizes, 0, sizeof(shape->sizes));
        shape_draw_layout(shape, SHAPE_MAX_ISLANDS, 8);
        draw_call(shape);
    }
    if (shape->coll == HETCCL_ALLTOALLV)
        shape_draw_pairs(shape, (uint32_t)shape->count % 64);
}

void shape_print(const struct shape *shape, FILE *file)
{
    fprintf(file,
            "shape %" PRIu64
            ": %s count %zu x %zu bytes, root %u%s, chunk %zu bytes, small %zu bytes, algo '%s', order",
            shape->number, hetccl_coll_name(shape->coll), shape->count, shape->elem_bytes, shape->root,
            shape->has_scale ? ", scaled" : "", shape->chunk_bytes, shape->small_bytes, shape->algo);
    for (uint32_t rank = 0; rank < shape->n_ranks; rank++)
        fprintf(file, " %c%s", 'A' + (int)shape->island_of[rank], shape->in_place[rank] ? "'" : "");
    fprintf(file, ", hosts");
    for (uint32_t i = 0; i < shape->n_islands; i++)
        fprintf(file, " %c:%u", 'A' + (int)i, shape->hosts[i]);
    fprintf(file, "%s\n", shape->is_spread ? ", A spans hosts" : "");
}

enum hetccl_status shape_topo(const struct shape *shape, struct hetccl_topo *out)
{
    struct hetccl_rank_facts facts[SHAPE_MAX_RANKS] = {0};
    struct hetccl_topo_args args = {.n_ranks = shape->n_ranks, .facts = facts};

    for (uint32_t rank = 0; rank < shape->n_ranks; rank++) {
        facts[rank].vendor = HETCCL_VENDOR_NVIDIA;
        facts[rank].engine = HETCCL_ENGINE_CCL;
        facts[rank].library_key = 100 + shape->island_of[rank];
        facts[rank].host_key = 200 + shape->hosts[shape->island_of[rank]];
        if (shape->is_spread && shape->island_of[rank] == 0 && rank % 2 == 1)
            facts[rank].host_key = 299;
        facts[rank].link_kinds = 1U << HETCCL_LINK_SHM | 1U << HETCCL_LINK_TCP;
    }
    for (int kind = 0; kind < HETCCL_LINK_KINDS; kind++)
        args.link_cost[kind] = hetccl_topo_default_link_cost((enum hetccl_link_kind)kind);
    for (int kind = 0; kind < HETCCL_ENGINE_KINDS; kind++)
        args.engine_cost[kind] = hetccl_topo_default_engine_cost((enum hetccl_engine_kind)kind);
    return hetccl_topo_build(&args, out);
}

void shape_request(const struct shape *shape, uint32_t rank, struct hetccl_plan_request *out)
{
    *out = (struct hetccl_plan_request){
        .coll = shape->coll,
        .rank = rank,
        .root = shape->root,
        .count = shape->count,
        .elem_bytes = shape->elem_bytes,
        .is_in_place = shape->in_place[rank],
        .has_scale = shape->has_scale,
        .chunk_bytes = shape->chunk_bytes,
        .small_bytes = shape->small_bytes,
        .algo = shape->algo,
    };
    if (shape->coll == HETCCL_ALLTOALLV) {
        out->send_counts = shape->pair_counts[rank];
        out->send_offsets = shape->send_offsets[rank];
        out->recv_counts = shape->recv_counts[rank];
        out->recv_offsets = shape->recv_offsets[rank];
    }
}
