/* SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/time.h"

enum {
    MAX_PIECES = 3 * ISLAND_MAX_RANKS,
    UNTOUCHED = 0xa5,
    GAP_COUNT = 3, /* elements between pieces, which nobody may touch */
};

static const size_t NOWHERE = (size_t)1 << 40; /* offset of a place that has no meaning on this rank */

/* Memory that ends at a page nobody may touch, with a whole such page before it. */
struct guarded {
    uint8_t *mapping, *memory;
    size_t mapping_bytes, bytes;
};

static struct guarded guarded_map(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), inner = (bytes + page - 1) / page * page;
    struct guarded g = {.mapping_bytes = inner + 2 * page, .bytes = bytes};

    g.mapping = mmap(NULL, g.mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.mapping == MAP_FAILED ||
        (inner > 0 && mprotect(g.mapping + page, inner, PROT_READ | PROT_WRITE) != 0))
        abort();
    g.memory = g.mapping + page + inner - bytes;
    memset(g.memory, UNTOUCHED, bytes);
    return g;
}

static void guarded_unmap(struct guarded *g)
{
    munmap(g->mapping, g->mapping_bytes);
}

/* One rank's view: every rank can compute every other's. */
struct view {
    struct hetccl_engine_piece pieces[MAX_PIECES];
    size_t n_pieces, src_count, dst_count;
};

static size_t piece_count(const struct case_spec *spec, uint32_t n_ranks, size_t index, uint32_t owner)
{
    switch (spec->cut) {
    case CUT_EVEN:
        break;
    case CUT_UNEVEN:
        return spec->count * 2 * owner / n_ranks;
    case CUT_SEVERAL:
        return (index + owner) % 3 == 0 ? 0 : spec->count / (1 + index % 4);
    case CUT_ONE:
        return owner + 1 == n_ranks ? spec->count : 0;
    }
    return spec->count;
}

/* True when the kind keeps the piece's data at own_offset on this rank; whole_offset likewise. */
static bool uses_own(const struct case_spec *spec, uint32_t rank, uint32_t owner)
{
    return spec->kind == HETCCL_ENGINE_ALLREDUCE || spec->kind == HETCCL_ENGINE_ALLTOALL || rank == owner;
}

static bool uses_whole(const struct case_spec *spec, uint32_t rank)
{
    bool has_root = spec->kind == HETCCL_ENGINE_GATHER || spec->kind == HETCCL_ENGINE_SCATTER;

    return !has_root || rank == spec->root;
}

static bool is_src_whole(const struct case_spec *spec)
{
    return spec->kind == HETCCL_ENGINE_REDUCE_SCATTER || spec->kind == HETCCL_ENGINE_SCATTER;
}

static void view_make(const struct case_spec *spec, uint32_t rank, uint32_t n_ranks, struct view *view)
{
    size_t per_owner = spec->cut == CUT_SEVERAL ? 3 : 1, whole = rank % 4, own = (rank + 1) % 3;

    view->n_pieces = spec->kind == HETCCL_ENGINE_ALLREDUCE ? 1 : per_owner * n_ranks;
    for (size_t i = 0; i < view->n_pieces; i++) {
        struct hetccl_engine_piece *piece = &view->pieces[i];

        piece->owner = (uint32_t)(i % n_ranks);
        piece->count = piece_count(spec, n_ranks, i, piece->owner);
        piece->whole_offset = uses_whole(spec, rank) ? whole : NOWHERE;
        whole += uses_whole(spec, rank) ? piece->count + GAP_COUNT : 0;
        piece->own_offset = uses_own(spec, rank, piece->owner) ? own : NOWHERE;
        own += uses_own(spec, rank, piece->owner) ? piece->count + GAP_COUNT : 0;
        if (spec->is_in_place && piece->own_offset != NOWHERE && piece->whole_offset != NOWHERE)
            piece->own_offset = piece->whole_offset;
    }
    if (spec->is_in_place)
        whole = own = whole > own ? whole : own;
    view->src_count = is_src_whole(spec) ? whole : own;
    view->dst_count = is_src_whole(spec) ? own : whole;
}

/* Bytes start .. start + bytes of a rank's input: any rank can make any place of it. */
static void make_input(const struct case_spec *spec, uint32_t rank, size_t start, uint8_t *memory,
                       size_t bytes)
{
    uint64_t seed = spec->sequence * 0xd1342543de82ef95ull + rank * 0xaef17502108ef2d9ull;

    for (size_t done = 0; done < bytes;) {
        uint64_t at = start + done, word = (seed ^ (at / 8)) * 0x9e3779b97f4a7c15ull;
        size_t in_word = at % 8, n = 8 - in_word < bytes - done ? 8 - in_word : bytes - done;

        word ^= word >> 29;
        memcpy(memory + done, (uint8_t *)&word + in_word, n);
        done += n;
    }
}

static struct hetccl_scale scale_of(const struct case_spec *spec, uint32_t rank)
{
    return hetccl_scale_of_average(spec->type, 2 + rank);
}

static void reduce_all(const struct case_spec *spec, const void *const *srcs, uint32_t n, size_t count,
                       uint8_t *dst)
{
    struct hetccl_scale scales[ISLAND_MAX_RANKS], chain_scales[HETCCL_REDUCE_MAX_INPUTS];
    const void *chain[HETCCL_REDUCE_MAX_INPUTS];
    uint32_t done = n < HETCCL_REDUCE_MAX_INPUTS ? n : HETCCL_REDUCE_MAX_INPUTS;

    for (uint32_t rank = 0; rank < n; rank++)
        scales[rank] = scale_of(spec, rank);
    hetccl_kernel_reduce(dst, srcs, spec->is_raw ? scales : NULL, done, count, spec->type, spec->red);
    while (done < n) {
        uint32_t more = n - done < HETCCL_REDUCE_MAX_INPUTS - 1 ? n - done : HETCCL_REDUCE_MAX_INPUTS - 1;

        chain[0] = dst;
        chain_scales[0] = hetccl_scale_one(spec->type);
        memcpy(chain + 1, srcs + done, more * sizeof(*srcs));
        memcpy(chain_scales + 1, scales + done, more * sizeof(*scales));
        hetccl_kernel_reduce(dst, chain, spec->is_raw ? chain_scales : NULL, more + 1, count, spec->type,
                             spec->red);
        done += more;
    }
}

/* What island rank `from` has at piece i of its src. */
static void make_piece(const struct case_spec *spec, const struct view *views, uint32_t from, size_t i,
                       uint8_t *out)
{
    const struct hetccl_engine_piece *piece = &views[from].pieces[i];
    size_t elem_bytes = hetccl_type_bytes(spec->type);
    size_t start = is_src_whole(spec) ? piece->whole_offset : piece->own_offset;

    make_input(spec, from, start * elem_bytes, out, piece->count * elem_bytes);
}

static void expect_reduced(const struct case_spec *spec, uint32_t n_ranks, const struct view *views, size_t i,
                           size_t count, uint8_t *dst)
{
    size_t bytes = count * hetccl_type_bytes(spec->type);
    uint8_t *inputs = malloc(n_ranks * bytes + 1);
    const void *srcs[ISLAND_MAX_RANKS];

    for (uint32_t from = 0; from < n_ranks; from++) {
        srcs[from] = inputs + from * bytes;
        make_piece(spec, views, from, i, inputs + from * bytes);
    }
    reduce_all(spec, srcs, n_ranks, count, dst);
    free(inputs);
}

/* Piece i of what must stand in dst of `rank`. */
static void expect_piece(const struct case_spec *spec, uint32_t rank, uint32_t n_ranks,
                         const struct view *views, size_t i, uint8_t *dst)
{
    const struct hetccl_engine_piece *piece = &views[rank].pieces[i];
    size_t elem_bytes = hetccl_type_bytes(spec->type);
    uint8_t *whole = dst + piece->whole_offset * elem_bytes, *own = dst + piece->own_offset * elem_bytes;

    if (piece->count == 0)
        return;
    switch (spec->kind) {
    case HETCCL_ENGINE_ALLREDUCE:
        expect_reduced(spec, n_ranks, views, i, piece->count, whole);
        return;
    case HETCCL_ENGINE_REDUCE_SCATTER:
        if (piece->owner == rank)
            expect_reduced(spec, n_ranks, views, i, piece->count, own);
        return;
    case HETCCL_ENGINE_GATHER:
        if (rank == spec->root)
            make_piece(spec, views, piece->owner, i, whole);
        return;
    case HETCCL_ENGINE_ALLGATHER:
        make_piece(spec, views, piece->owner, i, whole);
        return;
    case HETCCL_ENGINE_SCATTER:
        if (piece->owner == rank)
            make_piece(spec, views, spec->root, i, own);
        return;
    case HETCCL_ENGINE_ALLTOALL:
        make_piece(spec, views, piece->owner, rank, whole);
        return;
    }
}

static struct hetccl_engine_op op_of(const struct case_spec *spec, const struct island_rank *self,
                                     const struct view *view)
{
    return (struct hetccl_engine_op){.kind = spec->kind,
                                     .pieces = view->pieces,
                                     .n_pieces = view->n_pieces,
                                     .root = spec->root,
                                     .type = spec->type,
                                     .red = spec->red,
                                     .is_raw = spec->is_raw,
                                     .scale = scale_of(spec, self->rank),
                                     .tag = {.sequence = spec->sequence,
                                             .count = spec->count,
                                             .type = (uint8_t)spec->type,
                                             .red = 255,
                                             .root = UINT32_MAX}};
}

static int compare(struct island_rank *self, const struct case_spec *spec, const uint8_t *got,
                   const uint8_t *wanted, size_t bytes, const char *what)
{
    for (size_t i = 0; i < bytes; i++)
        if (got[i] != wanted[i])
            return island_fail(
                self,
                "kind %d %s %s count %zu cut %d root %u in place %d raw %d: %s byte %zu of %zu is %02x, not "
                "%02x",
                spec->kind, hetccl_type_name(spec->type), hetccl_red_name(spec->red), spec->count, spec->cut,
                spec->root, spec->is_in_place, spec->is_raw, what, i, bytes, got[i], wanted[i]);
    return 0;
}

static int run_in(struct island_rank *self, const struct case_spec *spec, const struct view *views)
{
    const struct view *view = &views[self->rank];
    size_t elem_bytes = hetccl_type_bytes(spec->type), src_bytes = view->src_count * elem_bytes;
    size_t dst_bytes = view->dst_count * elem_bytes;
    struct guarded src = guarded_map(src_bytes), dst = spec->is_in_place ? src : guarded_map(dst_bytes);
    struct hetccl_engine_op op = op_of(spec, self, view);
    uint8_t *expected = malloc(dst_bytes + 1), *sent = malloc(src_bytes + 1);
    enum hetccl_status status;
    int result;

    make_input(spec, self->rank, 0, src.memory, src_bytes);
    memcpy(sent, src.memory, src_bytes);
    memcpy(expected, dst.memory, dst_bytes);
    for (size_t i = 0; i < view->n_pieces; i++)
        expect_piece(spec, self->rank, self->n_ranks, views, i, expected);
    op.src = src.memory;
    op.dst = dst.memory;
    if (spec->is_skewed && island_random(&self->random, 3) == 0)
        hetccl_sleep_ns((uint64_t)island_random(&self->random, 300) * HETCCL_NS_PER_US);
    status = island_do(self, &op);
    if (status != HETCCL_OK)
        result = island_fail(self, "kind %d count %zu: %s, %s", spec->kind, spec->count,
                             hetccl_status_text(status), hetccl_last_error_thread());
    else
        result = compare(self, spec, dst.memory, expected, dst_bytes, "result");
    if (result == 0 && !spec->is_in_place)
        result = compare(self, spec, src.memory, sent, src_bytes, "input");
    if (!spec->is_in_place)
        guarded_unmap(&dst);
    guarded_unmap(&src);
    free(expected);
    free(sent);
    return result;
}

int case_run(struct island_rank *self, const struct case_spec *spec)
{
    struct view *views = calloc(self->n_ranks, sizeof(*views));
    int result;

    for (uint32_t rank = 0; rank < self->n_ranks; rank++)
        view_make(spec, rank, self->n_ranks, &views[rank]);
    result = run_in(self, spec, views);
    free(views);
    return result;
}
