/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/island.h"

#include "base/memory.h"

enum hetccl_status hetccl_island_pieces(const struct hetccl_plan *plan, struct hetccl_engine_piece **out)
{
    struct hetccl_engine_piece *pieces;
    enum hetccl_status status = hetccl_alloc(plan->n_pieces, sizeof(*pieces), &pieces);

    if (status != HETCCL_OK)
        return status;
    for (uint32_t i = 0; i < plan->n_pieces; i++) {
        const struct hetccl_piece *piece = &plan->pieces[i];

        pieces[i] = (struct hetccl_engine_piece){.owner = piece->owner,
                                                 .whole_offset = piece->whole_offset,
                                                 .own_offset = piece->own_offset,
                                                 .count = piece->count};
    }
    *out = pieces;
    return HETCCL_OK;
}

void hetccl_island_op_fill(const struct hetccl_step *step, const struct hetccl_engine_piece *pieces,
                           const struct hetccl_run_args *args, struct hetccl_engine_op *out)
{
    const struct hetccl_region src = {.buffer = step->src.buffer};
    const struct hetccl_region dst = {.buffer = step->dst.buffer};

    *out = (struct hetccl_engine_op){
        .kind = (enum hetccl_engine_op_kind)step->op,
        .src = hetccl_region_memory(args, &src),
        .dst = hetccl_region_memory(args, &dst),
        .pieces = pieces + step->first_piece,
        .n_pieces = step->n_pieces,
        .root = step->root,
        .type = args->type,
        .red = args->red,
        .is_raw = step->is_raw,
        .scale = args->scale,
        .scale_pointer = args->scale_pointer,
        .tag = args->tag,
    };
}
