/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/shm_layout.h"

#include "base/memory.h"

/*
 * The first page holds everything that creating an engine touches on an island of up to seven ranks. A small
 * slot grows with the number of ranks so that each rank's section of it has room for whole cache lines.
 */
void hetccl_shm_layout_compute(uint32_t n_ranks, struct hetccl_shm_layout *out)
{
    size_t least = HETCCL_SHM_HEADER_BYTES + (size_t)n_ranks * HETCCL_CACHE_LINE;

    out->controls = hetccl_round_up(sizeof(struct hetccl_shm_top), HETCCL_CACHE_LINE);
    out->texts = out->controls + n_ranks * sizeof(struct hetccl_shm_control);
    out->small_slots =
        hetccl_round_up(out->texts + (size_t)n_ranks * HETCCL_SHM_TEXT_BYTES, HETCCL_SHM_PAGE_BYTES);
    out->small_slot_bytes =
        hetccl_round_up(hetccl_max_size(HETCCL_SHM_SMALL_BYTES, least), HETCCL_SHM_PAGE_BYTES);
    out->bytes = out->small_slots + (size_t)n_ranks * HETCCL_SHM_SLOTS * out->small_slot_bytes;
}
