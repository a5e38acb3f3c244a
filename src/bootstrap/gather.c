/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/memory.h"
#include "base/time.h"
#include "bootstrap/mesh_internal.h"
#include "bootstrap/route.h"

/*
 * Bruck's all-gather: in round k rank r sends the blocks it has, at most 2^k, to rank r - 2^k and gets as
 * many from r + 2^k. Blocks lie in the order r, r + 1, ... mod n and are turned into rank order at the end.
 * Any n takes ceil(log2 n) rounds, and nobody finishes before everybody has begun, so it is a barrier too.
 */

static struct hetccl_frame *take_round(struct hetccl_mesh *mesh, uint32_t src_rank, uint32_t sequence,
                                       uint16_t round)
{
    struct hetccl_frame *previous = NULL;

    for (struct hetccl_frame *frame = mesh->gathers.first; frame != NULL;
         previous = frame, frame = frame->next)
        if (frame->head.src_rank == src_rank && frame->head.sequence == sequence &&
            frame->head.round == round)
            return hetccl_frame_queue_take(&mesh->gathers, previous);
    return NULL;
}

static enum hetccl_status fail_timeout(const struct hetccl_mesh *mesh, uint32_t src_rank)
{
    char rank_text[HETCCL_RANK_TEXT_BYTES];

    hetccl_mesh_print_rank(mesh, src_rank, rank_text);
    return hetccl_fail(
        HETCCL_ERR_TIMEOUT,
        "an exchange between all ranks ran out of time: rank %u waited for %s; that rank is stuck, or has "
        "not made the same call",
        mesh->rank, rank_text);
}

static enum hetccl_status receive_round(struct hetccl_mesh *mesh, uint32_t src_rank, uint16_t round,
                                        uint64_t deadline_ns, struct hetccl_frame **out)
{
    uint32_t sequence = mesh->gather_sequence;
    enum hetccl_status status;
    bool is_late;

    for (;;) {
        *out = take_round(mesh, src_rank, sequence, round);
        if (*out != NULL)
            return HETCCL_OK;
        status = hetccl_mesh_wait(mesh, deadline_ns, &is_late);
        if (is_late)
            return fail_timeout(mesh, src_rank);
        if (status != HETCCL_AGAIN)
            return status;
    }
}

static enum hetccl_status run_round(struct hetccl_mesh *mesh, uint16_t round, uint8_t *blocks,
                                    size_t block_bytes, uint64_t deadline_ns)
{
    uint32_t n = mesh->n_ranks;
    uint32_t distance = 1u << round;
    uint32_t n_blocks = distance < n - distance ? distance : n - distance;
    uint32_t src_rank = (uint32_t)(((uint64_t)mesh->rank + distance) % n);
    size_t bytes = n_blocks * block_bytes;
    struct hetccl_wire_frame head = {.kind = HETCCL_FRAME_GATHER,
                                     .round = round,
                                     .mesh_key = mesh->key,
                                     .src_rank = mesh->rank,
                                     .dst_rank = (uint32_t)(((uint64_t)mesh->rank + n - distance) % n),
                                     .sequence = mesh->gather_sequence,
                                     .payload_bytes = (uint32_t)bytes};
    struct hetccl_frame *frame = NULL;
    enum hetccl_status status = hetccl_mesh_post_bytes(mesh, &head, blocks);
    char rank_text[HETCCL_RANK_TEXT_BYTES];

    if (status == HETCCL_OK)
        status = receive_round(mesh, src_rank, round, deadline_ns, &frame);
    if (status != HETCCL_OK)
        return status;
    if (frame->head.payload_bytes == bytes) {
        if (bytes > 0)
            memcpy(blocks + distance * block_bytes, frame->payload, bytes);
    } else {
        hetccl_mesh_print_rank(mesh, src_rank, rank_text);
        status = hetccl_fail(
            HETCCL_ERR_USAGE, "ranks exchange different things: rank %u has %zu bytes a rank, %s has %zu",
            mesh->rank, block_bytes, rank_text, (size_t)frame->head.payload_bytes / n_blocks);
    }
    hetccl_frame_destroy(frame);
    return status;
}

/*
 * Our own blocks must be on their way before we return: the caller may be about to end its process, and with
 * it what still waits in it for a connection or for room in a socket.
 */
static enum hetccl_status wait_until_sent(struct hetccl_mesh *mesh, uint64_t deadline_ns)
{
    enum hetccl_status status = HETCCL_AGAIN;
    bool is_late = false;

    for (uint32_t distance = 1; distance < mesh->n_ranks && distance != 0; distance *= 2) {
        uint32_t dst_rank = (uint32_t)(((uint64_t)mesh->rank + mesh->n_ranks - distance) % mesh->n_ranks);

        while (!hetccl_route_is_flushed(mesh->endpoint, mesh->peers[dst_rank].contact.process_key)) {
            status = hetccl_mesh_wait(mesh, deadline_ns, &is_late);
            if (is_late)
                return fail_timeout(mesh, dst_rank);
            if (status != HETCCL_AGAIN)
                return status;
        }
    }
    return HETCCL_OK;
}

static void put_in_rank_order(const struct hetccl_mesh *mesh, const uint8_t *blocks, size_t bytes,
                              uint8_t *all_out)
{
    size_t first_bytes = (mesh->n_ranks - mesh->rank) * bytes;

    if (bytes == 0)
        return;
    memcpy(all_out + mesh->rank * bytes, blocks, first_bytes);
    memcpy(all_out, blocks + first_bytes, mesh->rank * bytes);
}

enum hetccl_status hetccl_mesh_gather(struct hetccl_mesh *mesh, const void *mine, size_t bytes, void *all_out,
                                      uint64_t deadline_ns)
{
    uint8_t *blocks = NULL;
    enum hetccl_status status;
    size_t total;

    if (!hetccl_mul_size(mesh->n_ranks, bytes, &total) || total > HETCCL_WIRE_LARGE_BYTES)
        return hetccl_fail(HETCCL_ERR_ARG,
                           "an exchange of %zu bytes a rank between %u ranks is above the limit of %d bytes",
                           bytes, mesh->n_ranks, HETCCL_WIRE_LARGE_BYTES);
    status = hetccl_alloc(mesh->n_ranks, bytes > 0 ? bytes : 1, &blocks);
    if (status != HETCCL_OK)
        return status;
    if (bytes > 0)
        memcpy(blocks, mine, bytes);
    hetccl_endpoint_lock(mesh->endpoint);
    mesh->gather_sequence++;
    for (uint16_t round = 0; status == HETCCL_OK && (uint64_t)1 << round < mesh->n_ranks; round++)
        status = run_round(mesh, round, blocks, bytes, deadline_ns);
    if (status == HETCCL_OK)
        status = wait_until_sent(mesh, deadline_ns);
    hetccl_endpoint_unlock(mesh->endpoint);
    if (status == HETCCL_OK)
        put_in_rank_order(mesh, blocks, bytes, all_out);
    hetccl_free(blocks);
    return status;
}

enum hetccl_status hetccl_mesh_all_gather(struct hetccl_mesh *mesh, const void *mine, size_t bytes,
                                          void *all_out, uint64_t timeout_s)
{
    if (hetccl_mesh_is_foreign(mesh))
        return hetccl_fail(HETCCL_ERR_USAGE, "the communicator belongs to the parent process");
    return hetccl_mesh_gather(mesh, mine, bytes, all_out, hetccl_deadline_ns(timeout_s));
}
