/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last agreement of a communicator: did everybody make the same calls? Every rank tells the others how
 * many it made. The ranks that finalize compare in an all-gather; one that is still in a call of its own
 * finds the notes of the others.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "comm/internal.h"

/* Notes go to all ranks up to this size of communicator; above, the all-gather alone has to find the odd one.
 */
enum { NOTES_MAX_RANKS = 128 };

static void leave_notes(struct hetccl_comm *comm)
{
    if (comm->n_ranks > NOTES_MAX_RANKS)
        return;
    for (uint32_t rank = 0; rank < comm->n_ranks; rank++)
        if (rank != comm->rank && hetccl_mesh_send(comm->mesh, rank, HETCCL_MESSAGE_FINALIZE, &comm->sequence,
                                                   sizeof(comm->sequence)) != HETCCL_OK)
            return;
}

static enum hetccl_status compare(const struct hetccl_comm *comm, const uint64_t *sequences)
{
    for (uint32_t rank = 0; rank < comm->n_ranks; rank++)
        if (sequences[rank] != comm->sequence)
            return hetccl_fail(HETCCL_ERR_USAGE,
                               "rank %u made %" PRIu64 " collective calls, rank %u on host %s made %" PRIu64
                               ": all ranks must make the same calls",
                               comm->rank, comm->sequence, rank, comm->peers[rank].host_name,
                               sequences[rank]);
    return HETCCL_OK;
}

enum hetccl_status hetccl_comm_barrier(struct hetccl_comm *comm, uint64_t timeout_s)
{
    uint64_t *sequences;
    enum hetccl_status status = hetccl_alloc(comm->n_ranks, sizeof(*sequences), &sequences);

    if (status != HETCCL_OK)
        return status;
    leave_notes(comm);
    status = hetccl_mesh_all_gather(comm->mesh, &comm->sequence, sizeof(comm->sequence), sequences,
                                    timeout_s > 0 ? timeout_s : comm->config.timeout_s);
    if (status == HETCCL_OK)
        status = compare(comm, sequences);
    hetccl_free(sequences);
    return status;
}

enum hetccl_status hetccl_comm_look_for_leavers(struct hetccl_comm *comm)
{
    if (comm->n_ranks > NOTES_MAX_RANKS)
        return HETCCL_OK;
    for (uint32_t rank = 0; rank < comm->n_ranks; rank++) {
        uint64_t sequence;
        size_t bytes;

        if (rank == comm->rank || hetccl_mesh_try_recv(comm->mesh, rank, HETCCL_MESSAGE_FINALIZE, &sequence,
                                                       sizeof(sequence), &bytes) != HETCCL_OK)
            continue;
        if (bytes == sizeof(sequence) && sequence < comm->sequence)
            return hetccl_fail(HETCCL_ERR_USAGE,
                               "rank %u is in collective call %" PRIu64
                               ", rank %u on host %s has finished after %" PRIu64
                               ": all ranks must make the same calls",
                               comm->rank, comm->sequence, rank, comm->peers[rank].host_name, sequence);
    }
    return HETCCL_OK;
}
