/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks tell each other: ticks, agreement, failures.
 *
 * Why a slot can be written again without asking: a rank publishes tick t only after it has consumed t - L (L
 * the lookahead), and it consumes a tick only after it has seen every other rank publish it. So when I
 * publish t I have consumed t - L; then every other rank has published t - L, and has consumed t - 2L. Slot t
 * mod 2L last held tick t - 2L: nobody reads it any more. My acquire of their ticks orders their reads before
 * my writes. For the same reason a peer's header shows the tick I wait for or an older one, never a newer
 * one.
 */
#include <stdio.h>
#include <string.h>

#include "base/thread.h"
#include "engine/shm_engine.h"

_Static_assert(HETCCL_SHM_SLOTS == 2 * HETCCL_SHM_LOOKAHEAD, "see above");

static struct hetccl_shm_control *control_of(struct hetccl_shm_engine *shm, uint32_t rank)
{
    return (struct hetccl_shm_control *)(void *)(shm->segment + shm->layout.controls) + rank;
}

static char *text_of(struct hetccl_shm_engine *shm, uint32_t rank)
{
    return (char *)shm->segment + shm->layout.texts + (size_t)rank * HETCCL_SHM_TEXT_BYTES;
}

static struct hetccl_shm_header *header_of(struct hetccl_shm_engine *shm, uint32_t rank, uint64_t tick)
{
    size_t slot = (size_t)rank * HETCCL_SHM_SLOTS + tick % HETCCL_SHM_SLOTS;

    return (void *)(shm->segment + shm->layout.small_slots + slot * shm->layout.small_slot_bytes);
}

struct hetccl_shm_top *hetccl_shm_top(struct hetccl_shm_engine *shm)
{
    return (void *)shm->segment;
}

uint8_t *hetccl_shm_payload(struct hetccl_shm_engine *shm, uint32_t rank, uint64_t tick)
{
    size_t slot = (size_t)rank * HETCCL_SHM_SLOTS + tick % HETCCL_SHM_SLOTS;

    if (shm->run.is_large)
        return (uint8_t *)shm->large.memory + slot * shm->large_slot_bytes;
    return shm->segment + shm->layout.small_slots + slot * shm->layout.small_slot_bytes +
           shm->run.payload_offset;
}

/*
 * One fence for all bells, then looks. A rank is rung only when it sleeps and, unless is_all, waits for me.
 * No ring is lost: the sleeper announces itself and whom it waits for, each with a fence behind it, and looks
 * at the tick after both; I publish, fence, and look at both. Whichever of the three fences is last, somebody
 * sees.
 */
static void ring_others(struct hetccl_shm_engine *shm, bool is_all)
{
    atomic_thread_fence(memory_order_seq_cst);
    for (uint32_t rank = 0; rank < shm->base.n_ranks; rank++) {
        struct hetccl_shm_control *control = control_of(shm, rank);
        struct hetccl_doorbell *doorbell = shm->doorbells[rank];

        if (atomic_load_explicit(&doorbell->n_sleepers, memory_order_relaxed) == 0 ||
            rank == shm->base.island_rank)
            continue;
        if (!is_all &&
            atomic_load_explicit(&control->waits_for, memory_order_relaxed) != shm->base.island_rank + 1)
            continue;
        atomic_fetch_add_explicit(&doorbell->rings, 1, memory_order_seq_cst);
        hetccl_futex_wake(&doorbell->rings);
    }
}

void hetccl_shm_publish(struct hetccl_shm_engine *shm)
{
    uint64_t tick = shm->published + 1;
    struct hetccl_shm_header *header = header_of(shm, shm->base.island_rank, tick);

    header->shape = shm->run.shape;
    header->scale_bits = shm->run.op.scale.bits;
    atomic_store_explicit(&header->tick, tick, memory_order_release);
    shm->published = tick;
    ring_others(shm, false);
}

enum { SHAPE_TEXT_BYTES = HETCCL_CALL_TAG_TEXT_BYTES + 160 };

static const char *const kind_names[] = {"allreduce", "reduce-scatter", "allgather",
                                         "gather",    "scatter",        "alltoall"};

static void print_shape(const struct hetccl_shm_shape *shape, char *text, size_t text_bytes)
{
    char call[HETCCL_CALL_TAG_TEXT_BYTES];
    struct hetccl_call_tag tag;
    bool is_known = shape->kind < sizeof(kind_names) / sizeof(kind_names[0]);

    hetccl_call_tag_decode(shape->tag, &tag);
    hetccl_call_tag_print(&tag, call);
    snprintf(text, text_bytes, "%s (island step %s, %llu elements, type %u, op %u, raw %u, layout %08x)",
             call, is_known ? kind_names[shape->kind] : "unknown", (unsigned long long)shape->total,
             shape->type, shape->red, shape->is_raw, shape->layout);
}

static enum hetccl_status fail_mismatch(struct hetccl_shm_engine *shm, uint32_t peer,
                                        const struct hetccl_shm_shape *theirs)
{
    char my_text[SHAPE_TEXT_BYTES], their_text[SHAPE_TEXT_BYTES];

    print_shape(&shm->run.shape, my_text, sizeof(my_text));
    print_shape(theirs, their_text, sizeof(their_text));
    return hetccl_fail(
        HETCCL_ERR_USAGE,
        "ranks disagree: rank %u calls %s, but rank %u calls %s; all ranks must make the same calls "
        "in the same order",
        shm->ranks[shm->base.island_rank], my_text, shm->ranks[peer], their_text);
}

static enum hetccl_status accept_tick(struct hetccl_shm_engine *shm, uint32_t peer,
                                      const struct hetccl_shm_header *header)
{
    struct hetccl_shm_shape theirs = header->shape;

    if (memcmp(&theirs, &shm->run.shape, sizeof(theirs)) != 0)
        return fail_mismatch(shm, peer, &theirs);
    shm->scales[peer].bits = header->scale_bits;
    if (shm->waits_for != 0) {
        shm->waits_for = 0;
        atomic_store_explicit(&control_of(shm, shm->base.island_rank)->waits_for, 0, memory_order_relaxed);
    }
    return HETCCL_OK;
}

/* What became of a peer that is gone or has failed. A remote failure is passed on in its own words. */
static enum hetccl_status fail_peer(struct hetccl_shm_engine *shm, uint32_t peer, uint32_t state)
{
    uint32_t status = atomic_load_explicit(&control_of(shm, peer)->status, memory_order_relaxed);
    char text[HETCCL_SHM_TEXT_BYTES];

    if (state == HETCCL_SHM_LEFT)
        return hetccl_fail(
            HETCCL_ERR_REMOTE,
            "rank %u left: its communicator was destroyed or aborted while rank %u waits for it",
            shm->ranks[peer], shm->ranks[shm->base.island_rank]);
    memcpy(text, text_of(shm, peer), sizeof(text));
    text[sizeof(text) - 1] = '\0';
    if (status == HETCCL_ERR_REMOTE)
        return hetccl_fail(HETCCL_ERR_REMOTE, "%s", text);
    return hetccl_fail(HETCCL_ERR_REMOTE, "rank %u reported: %s", shm->ranks[peer], text);
}

/*
 * Says whom I wait for. The fence stands between saying so and looking at the tick once more; it is paid only
 * when a wait begins. A ring for a state needs none of this: those go to everybody.
 */
static void announce_wait(struct hetccl_shm_engine *shm, uint32_t peer)
{
    shm->waits_for = peer + 1;
    atomic_store_explicit(&control_of(shm, shm->base.island_rank)->waits_for, peer + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
}

enum hetccl_status hetccl_shm_await(struct hetccl_shm_engine *shm, uint32_t peer, uint64_t tick)
{
    const struct hetccl_shm_header *header = header_of(shm, peer, tick);
    uint64_t seen = atomic_load_explicit(&header->tick, memory_order_acquire);
    uint32_t state;

    if (seen == tick)
        return accept_tick(shm, peer, header);
    if (seen > tick)
        return hetccl_fail(HETCCL_ERR_INTERNAL,
                           "rank %u is at tick %llu, rank %u waits for tick %llu: shared "
                           "memory was overwritten",
                           shm->ranks[peer], (unsigned long long)seen, shm->ranks[shm->base.island_rank],
                           (unsigned long long)tick);
    if (shm->waits_for != peer + 1)
        announce_wait(shm, peer);
    /* The state before the tick: what a rank published before it left or failed is still good. */
    state = atomic_load_explicit(&control_of(shm, peer)->state, memory_order_acquire);
    if (atomic_load_explicit(&header->tick, memory_order_acquire) == tick)
        return accept_tick(shm, peer, header);
    return state == HETCCL_SHM_GOOD ? HETCCL_AGAIN : fail_peer(shm, peer, state);
}

enum hetccl_status hetccl_shm_look_for_failure(struct hetccl_shm_engine *shm)
{
    for (uint32_t peer = 0; peer < shm->base.n_ranks; peer++) {
        uint32_t state = atomic_load_explicit(&control_of(shm, peer)->state, memory_order_acquire);

        if (state != HETCCL_SHM_GOOD)
            return fail_peer(shm, peer, state);
    }
    return HETCCL_OK;
}

enum hetccl_status hetccl_shm_break(struct hetccl_shm_engine *shm, enum hetccl_status status)
{
    struct hetccl_shm_control *control = control_of(shm, shm->base.island_rank);

    snprintf(shm->text, sizeof(shm->text), "%s", hetccl_last_error_thread());
    shm->status = status;
    shm->run.stage = HETCCL_SHM_IDLE;
    memcpy(text_of(shm, shm->base.island_rank), shm->text, HETCCL_SHM_TEXT_BYTES);
    atomic_store_explicit(&control->status, status, memory_order_relaxed);
    atomic_store_explicit(&control->state, HETCCL_SHM_FAILED, memory_order_release);
    ring_others(shm, true);
    return status;
}

void hetccl_shm_leave(struct hetccl_shm_engine *shm)
{
    struct hetccl_shm_control *control = control_of(shm, shm->base.island_rank);

    if (shm->status == HETCCL_OK)
        atomic_store_explicit(&control->state, HETCCL_SHM_LEFT, memory_order_release);
    ring_others(shm, true);
}
