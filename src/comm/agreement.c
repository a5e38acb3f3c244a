/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does everybody make the same calls? Messages and engine slots carry the call's identity, but calls that
 * differ may never exchange one: each rank then waits for another's message. So a rank that is stuck tells
 * the others in which call, a rank that finalizes tells how many it made, and both compare what they hear
 * with their own.
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

/* What a stuck rank tells. */
struct stuck_note {
    uint64_t sequence;
    uint8_t tag[HETCCL_CALL_TAG_WIRE_BYTES];
};

/* Calls that were enqueued behind the one that is stuck, or saw another call's data, say nothing. */
static uint64_t find_stuck(const struct hetccl_comm *comm)
{
    uint64_t first = comm->sequence >= HETCCL_RECENT_TAGS ? comm->sequence - HETCCL_RECENT_TAGS + 1 : 1;
    uint32_t culprit = comm->bridge != NULL ? hetccl_bridge_mismatch_number(comm->bridge) : 0;

    for (uint64_t sequence = first; comm->bridge != NULL && sequence < comm->sequence; sequence++) {
        uint32_t number = comm->recent_launches[sequence % HETCCL_RECENT_TAGS];

        if (culprit != 0 ? number == culprit : !hetccl_bridge_has_ended(comm->bridge, number))
            return sequence;
    }
    return comm->sequence;
}

static void leave_stuck_notes(struct hetccl_comm *comm)
{
    struct stuck_note note = {.sequence = find_stuck(comm)};

    if (note.sequence == 0 || comm->stuck_note_sequence == note.sequence)
        return;
    comm->stuck_note_sequence = note.sequence;
    hetccl_call_tag_encode(&comm->recent_tags[note.sequence % HETCCL_RECENT_TAGS], note.tag);
    for (uint32_t rank = 0; rank < comm->n_ranks; rank++)
        if (rank != comm->rank &&
            hetccl_mesh_send(comm->mesh, rank, HETCCL_MESSAGE_STUCK, &note, sizeof(note)) != HETCCL_OK)
            return;
}

static enum hetccl_status check_finalized(const struct hetccl_comm *comm, uint32_t rank)
{
    uint64_t sequence;
    size_t bytes;

    if (hetccl_mesh_try_recv(comm->mesh, rank, HETCCL_MESSAGE_FINALIZE, &sequence, sizeof(sequence),
                             &bytes) != HETCCL_OK ||
        bytes != sizeof(sequence) || sequence >= comm->sequence)
        return HETCCL_OK;
    return hetccl_fail(HETCCL_ERR_USAGE,
                       "rank %u is in collective call %" PRIu64
                       ", rank %u on host %s has finished after %" PRIu64
                       ": all ranks must make the same calls",
                       comm->rank, comm->sequence, rank, comm->peers[rank].host_name, sequence);
}

/* Only calls that this rank made, and that it still remembers, can be compared. */
static enum hetccl_status compare_calls(const struct hetccl_comm *comm, uint32_t rank,
                                        const struct stuck_note *note)
{
    const struct hetccl_call_tag *own = &comm->recent_tags[note->sequence % HETCCL_RECENT_TAGS];
    char own_text[HETCCL_CALL_TAG_TEXT_BYTES];
    char other_text[HETCCL_CALL_TAG_TEXT_BYTES];
    struct hetccl_call_tag other;

    if (own->sequence != note->sequence)
        return HETCCL_OK;
    hetccl_call_tag_decode(note->tag, &other);
    if (hetccl_call_tag_equal(own, &other))
        return HETCCL_OK;
    hetccl_call_tag_print(own, own_text);
    hetccl_call_tag_print(&other, other_text);
    return hetccl_fail(HETCCL_ERR_USAGE,
                       "the ranks' calls don't fit together: rank %u is in %s, rank %u on host %s in %s",
                       comm->rank, own_text, rank, comm->peers[rank].host_name, other_text);
}

static enum hetccl_status check_stuck(const struct hetccl_comm *comm, uint32_t rank)
{
    struct stuck_note note;
    size_t bytes;
    enum hetccl_status status = HETCCL_OK;

    while (status == HETCCL_OK && hetccl_mesh_try_recv(comm->mesh, rank, HETCCL_MESSAGE_STUCK, &note,
                                                       sizeof(note), &bytes) == HETCCL_OK)
        if (bytes == sizeof(note))
            status = compare_calls(comm, rank, &note);
    return status;
}

static enum hetccl_status look(struct hetccl_comm *comm, bool is_stuck)
{
    enum hetccl_status status = HETCCL_OK;

    if (is_stuck)
        leave_stuck_notes(comm);
    for (uint32_t rank = 0; rank < comm->n_ranks && status == HETCCL_OK; rank++) {
        if (rank == comm->rank)
            continue;
        status = check_finalized(comm, rank);
        if (status == HETCCL_OK)
            status = check_stuck(comm, rank);
    }
    return status;
}

enum hetccl_status hetccl_comm_look_for_others(struct hetccl_comm *comm, bool is_stuck)
{
    enum hetccl_status status;

    if (comm->n_ranks > NOTES_MAX_RANKS)
        return HETCCL_OK;
    pthread_mutex_lock(&comm->calls_lock);
    status = look(comm, is_stuck);
    pthread_mutex_unlock(&comm->calls_lock);
    return status;
}

enum hetccl_status hetccl_comm_read_notes(struct hetccl_comm *comm)
{
    enum hetccl_status status = HETCCL_OK;

    pthread_mutex_lock(&comm->calls_lock);
    for (uint32_t rank = 0; rank < comm->n_ranks && status == HETCCL_OK; rank++)
        if (rank != comm->rank)
            status = check_stuck(comm, rank);
    pthread_mutex_unlock(&comm->calls_lock);
    return status;
}

void hetccl_comm_repeat_note(struct hetccl_comm *comm)
{
    pthread_mutex_lock(&comm->calls_lock);
    comm->stuck_note_sequence = 0;
    pthread_mutex_unlock(&comm->calls_lock);
}
