/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second segment. Most communicators of a program never move anything large, so its pages are taken only
 * when an operation wants them. Less memory than wanted gives smaller slots, none at all leaves the small
 * ones: slower, never wrong.
 */
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "engine/shm_engine.h"

static size_t n_slots(const struct hetccl_shm_engine *shm)
{
    return (size_t)shm->base.n_ranks * HETCCL_SHM_SLOTS;
}

static void large_create(struct hetccl_shm_engine *shm)
{
    struct hetccl_shm_top *top = hetccl_shm_top(shm);
    size_t least_bytes = n_slots(shm) * HETCCL_SHM_LEAST_LARGE_BYTES;
    size_t wanted_bytes = 0;

    if (!hetccl_mul_size(n_slots(shm), shm->wanted_slot_bytes, &wanted_bytes))
        wanted_bytes = least_bytes;
    wanted_bytes = hetccl_max_size(wanted_bytes, least_bytes);
    top->large_slot_bytes = 0;
    if (hetccl_segment_create(wanted_bytes, least_bytes, &shm->large) != HETCCL_OK) {
        hetccl_log(
            HETCCL_LOG_WARN, "engine",
            "shm, rank %u: no memory for large slots (%zu bytes wanted): going on with slots of %zu bytes, "
            "which is slower",
            shm->ranks[0], wanted_bytes, shm->layout.small_slot_bytes);
        return;
    }
    shm->large_slot_bytes =
        hetccl_min_size(shm->large.bytes, wanted_bytes) / n_slots(shm) & ~(size_t)(HETCCL_SHM_PAGE_BYTES - 1);
    memcpy(top->large_name, shm->large.name, sizeof(top->large_name));
    top->large_bytes = shm->large.bytes;
    top->large_slot_bytes = shm->large_slot_bytes;
}

static enum hetccl_status large_open(struct hetccl_shm_engine *shm)
{
    const struct hetccl_shm_top *top = hetccl_shm_top(shm);
    char name[HETCCL_SEGMENT_NAME_BYTES];
    uint64_t bytes = top->large_bytes, slot_bytes = top->large_slot_bytes;
    enum hetccl_status status;

    if (slot_bytes == 0)
        return HETCCL_OK;
    memcpy(name, top->large_name, sizeof(name));
    name[sizeof(name) - 1] = '\0';
    if (slot_bytes < HETCCL_SHM_LEAST_LARGE_BYTES || slot_bytes % HETCCL_SHM_PAGE_BYTES != 0 ||
        bytes > SIZE_MAX || slot_bytes > bytes / n_slots(shm))
        return hetccl_fail(HETCCL_ERR_INTERNAL,
                           "rank %u offers large slots of %" PRIu64 " bytes in %" PRIu64
                           " bytes, which can't be: shared memory was overwritten",
                           shm->ranks[0], slot_bytes, bytes);
    status = hetccl_segment_open(name, bytes, &shm->large);
    if (status != HETCCL_OK)
        return status;
    shm->large_slot_bytes = slot_bytes;
    return HETCCL_OK;
}

/*
 * The failure of a rank that can't map is fatal for the island: by then the others may be using their
 * mapping. When the segment is gone because somebody else failed and rank 0 gave up, that failure is the
 * cause to tell.
 */
enum hetccl_status hetccl_shm_large_prepare(struct hetccl_shm_engine *shm)
{
    enum hetccl_status status, cause;

    if (shm->base.island_rank == 0) {
        large_create(shm);
        return HETCCL_OK;
    }
    status = hetccl_shm_await(shm, 0, shm->published + 1);
    if (status != HETCCL_OK)
        return status;
    status = large_open(shm);
    if (status == HETCCL_OK)
        return HETCCL_OK;
    cause = hetccl_shm_look_for_failure(shm);
    return cause != HETCCL_OK ? cause : status;
}

void hetccl_shm_large_settle(struct hetccl_shm_engine *shm)
{
    hetccl_segment_unlink(&shm->large);
    shm->large_state = shm->large_slot_bytes > 0 ? HETCCL_SHM_LARGE_READY : HETCCL_SHM_LARGE_NONE;
}
