/* SPDX-License-Identifier: Apache-2.0 */

/* Operations as they run in a stream's thread. */

#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* ---- the order of a communicator's operations ---- */

static bool wait_turn(struct ncclComm *comm, uint64_t ticket)
{
    bool is_mine = false;

    while (!is_mine && !fake_must_stop(comm)) {
        pthread_mutex_lock(&comm->lock);
        is_mine = ticket <= comm->n_done + 1;
        pthread_mutex_unlock(&comm->lock);
        if (!is_mine)
            fake_nap();
    }
    return is_mine;
}

static void end_turn(struct ncclComm *comm, uint64_t ticket)
{
    pthread_mutex_lock(&comm->lock);
    if (ticket == comm->n_done + 1)
        comm->n_done = ticket;
    pthread_mutex_unlock(&comm->lock);
}

/* ---- collectives ---- */

/* Sets own data out and waits for everybody's. All have then come to the end of the collective before. */
static bool meet(struct ncclComm *comm, const struct post *own)
{
    uint64_t number = ++comm->n_collectives;
    struct post *post = &comm->shared->posts[comm->rank][number & 1];

    post->parcel = own->parcel;
    post->kind = own->kind;
    post->type = own->type;
    post->op = own->op;
    post->count = own->count;
    post->root = own->root;
    comm->posted[number & 1] = own->parcel;
    atomic_store(&post->number, number);
    for (int rank = 0; rank < comm->n_ranks; rank++)
        while (atomic_load(&comm->shared->posts[rank][number & 1].number) < number) {
            if (fake_must_stop(comm))
                return false;
            fake_nap();
        }
    fake_drop(&comm->posted[~number & 1]);
    return true;
}

static void *data_of(struct ncclComm *comm, int rank)
{
    return fake_unpack(&comm->shared->posts[rank][comm->n_collectives & 1].parcel);
}

static void end_reading(struct ncclComm *comm)
{
    atomic_store(&comm->shared->ranks[comm->rank].n_read, comm->n_collectives);
}

static bool fits_together(struct ncclComm *comm)
{
    const struct post *first = &comm->shared->posts[0][comm->n_collectives & 1];

    for (int rank = 1; rank < comm->n_ranks; rank++) {
        const struct post *other = &comm->shared->posts[rank][comm->n_collectives & 1];

        if (other->kind != first->kind || other->type != first->type || other->count != first->count ||
            other->root != first->root)
            return false;
    }
    return true;
}

static size_t bytes_of(const struct operation *operation, size_t factor)
{
    return operation->count * factor * hetccl_type_bytes((enum hetccl_type)operation->type);
}

static size_t sent_bytes(const struct operation *operation)
{
    const struct ncclComm *comm = operation->comm;
    bool is_root = operation->root == comm->rank;

    switch (operation->kind) {
    case BROADCAST:
        return is_root ? bytes_of(operation, 1) : 0;
    case SCATTER:
        return is_root ? bytes_of(operation, (size_t)comm->n_ranks) : 0;
    case REDUCE_SCATTER:
    case ALL_TO_ALL:
        return bytes_of(operation, (size_t)comm->n_ranks);
    default:
        return bytes_of(operation, 1);
    }
}

static struct hetccl_scale scale_of(const struct operation *operation)
{
    struct hetccl_scale scale = operation->scale;

    if (operation->device_scalar != NULL)
        memcpy(&scale.bits, operation->device_scalar, hetccl_type_bytes((enum hetccl_type)operation->type));
    return scale;
}

/* Own data as the others get it: scaled, where the operator says so. */
static bool pack(const struct operation *operation, struct parcel *out)
{
    size_t bytes = sent_bytes(operation);
    struct hetccl_scale scale = scale_of(operation);
    const void *source = operation->send;
    size_t elem_bytes = hetccl_type_bytes((enum hetccl_type)operation->type);
    void *scaled;
    bool is_packed;

    if (!operation->has_scale || bytes == 0)
        return fake_pack(source, bytes, out);
    scaled = malloc(bytes);
    if (scaled == NULL)
        return false;
    hetccl_kernel_reduce(scaled, &source, &scale, 1, bytes / elem_bytes, (enum hetccl_type)operation->type,
                         HETCCL_SUM);
    is_packed = fake_pack(scaled, bytes, out);
    free(scaled);
    return is_packed;
}

/* The inputs' elements from `first` on, combined in the order of the ranks. */
static void combine(const struct operation *operation, char *const *inputs, size_t first, void *dst)
{
    static const enum hetccl_red reds[] = {HETCCL_SUM, HETCCL_PROD, HETCCL_MAX, HETCCL_MIN};
    enum hetccl_type type = (enum hetccl_type)operation->type;
    enum hetccl_red red = operation->op < 4 ? reds[operation->op] : HETCCL_SUM;
    const void *sources[MAX_RANKS];

    for (int rank = 0; rank < operation->comm->n_ranks; rank++)
        sources[rank] = inputs[rank] + first * hetccl_type_bytes(type);
    hetccl_kernel_reduce(dst, sources, NULL, (size_t)operation->comm->n_ranks, operation->count, type, red);
}

static void finish(const struct operation *operation, char *const *inputs)
{
    const struct ncclComm *comm = operation->comm;
    size_t bytes = bytes_of(operation, 1), rank = (size_t)comm->rank;
    bool is_root = operation->root == comm->rank;
    char *recv = operation->recv;

    if (operation->kind == ALL_REDUCE || (operation->kind == REDUCE && is_root))
        combine(operation, inputs, 0, recv);
    else if (operation->kind == REDUCE_SCATTER)
        combine(operation, inputs, rank * operation->count, recv);
    else if (operation->kind == BROADCAST)
        memcpy(recv, inputs[operation->root], bytes);
    else if (operation->kind == SCATTER)
        memcpy(recv, inputs[operation->root] + rank * bytes, bytes);
    for (size_t i = 0; i < (size_t)comm->n_ranks; i++) {
        if (operation->kind == ALL_TO_ALL)
            memcpy(recv + i * bytes, inputs[i] + rank * bytes, bytes);
        if (operation->kind == ALL_GATHER || (operation->kind == GATHER && is_root))
            memcpy(recv + i * bytes, inputs[i], bytes);
    }
}

static void run_collective(struct operation *operation)
{
    struct ncclComm *comm = operation->comm;
    struct post own = {.kind = operation->kind,
                       .type = operation->type,
                       .op = operation->op,
                       .count = operation->count,
                       .root = operation->root};
    char *inputs[MAX_RANKS] = {NULL};
    bool is_whole = true;

    if (!pack(operation, &own.parcel)) {
        fake_set_state(comm, SYSTEM_ERROR);
        return;
    }
    if (!meet(comm, &own))
        return;
    if (!fits_together(comm)) {
        fake_set_state(comm, INVALID_USAGE);
        return;
    }
    for (int rank = 0; rank < comm->n_ranks; rank++)
        inputs[rank] = data_of(comm, rank);
    for (int rank = 0; rank < comm->n_ranks; rank++)
        is_whole = is_whole && inputs[rank] != NULL;
    if (is_whole)
        finish(operation, inputs);
    else
        fake_set_state(comm, REMOTE_ERROR);
    for (int rank = 0; rank < comm->n_ranks; rank++)
        free(inputs[rank]);
    end_reading(comm);
}

unsigned fake_exchange(struct ncclComm *comm, const void *own, size_t bytes, void *all_out)
{
    struct post post = {.kind = POINT_TO_POINT, .count = bytes};
    uint64_t ticket;
    unsigned code = INTERNAL_ERROR;

    pthread_mutex_lock(&comm->lock);
    ticket = ++comm->n_tickets;
    pthread_mutex_unlock(&comm->lock);
    if (wait_turn(comm, ticket) && fake_pack(own, bytes, &post.parcel) && meet(comm, &post)) {
        code = OK;
        for (int rank = 0; rank < comm->n_ranks; rank++) {
            void *data = data_of(comm, rank);

            if (data != NULL)
                memcpy((char *)all_out + (size_t)rank * bytes, data, bytes);
            else
                code = REMOTE_ERROR;
            free(data);
        }
        end_reading(comm);
    }
    end_turn(comm, ticket);
    return code;
}

/* ---- sends and receives ---- */

static bool send_message(struct ncclComm *comm, const struct transfer *transfer)
{
    struct box *box = &comm->shared->boxes[comm->rank][transfer->peer];
    struct message message = {.count = transfer->count, .type = transfer->type};
    uint64_t n_sent = atomic_load(&box->n_sent);

    while (n_sent - atomic_load(&box->n_taken) >= MAX_BOXED) {
        if (fake_must_stop(comm))
            return false;
        fake_nap();
    }
    if (n_sent >= MAX_BOXED)
        fake_drop(&box->messages[n_sent % MAX_BOXED].parcel);
    if (!fake_pack(transfer->send, transfer->count * hetccl_type_bytes((enum hetccl_type)transfer->type),
                   &message.parcel))
        return false;
    box->messages[n_sent % MAX_BOXED] = message;
    atomic_store(&box->n_sent, n_sent + 1);
    return true;
}

static bool receive_message(struct ncclComm *comm, const struct transfer *transfer)
{
    struct box *box = &comm->shared->boxes[transfer->peer][comm->rank];
    uint64_t n_taken = atomic_load(&box->n_taken);
    const struct message *message = &box->messages[n_taken % MAX_BOXED];
    void *data;

    while (atomic_load(&box->n_sent) == n_taken) {
        if (fake_must_stop(comm))
            return false;
        fake_nap();
    }
    if (message->count != transfer->count || message->type != transfer->type) {
        fake_set_state(comm, INVALID_USAGE);
        return false;
    }
    data = fake_unpack(&message->parcel);
    if (data == NULL) {
        fake_set_state(comm, REMOTE_ERROR);
        return false;
    }
    memcpy(transfer->recv, data, message->parcel.bytes);
    free(data);
    atomic_store(&box->n_taken, n_taken + 1);
    return true;
}

/* Sends don't wait, so all of them first is as good as all at once. */
static void run_transfers(struct operation *operation)
{
    bool is_going = true;

    for (size_t i = 0; i < operation->n_transfers && is_going; i++)
        if (operation->transfers[i].is_send)
            is_going = send_message(operation->comm, &operation->transfers[i]);
    for (size_t i = 0; i < operation->n_transfers && is_going; i++)
        if (!operation->transfers[i].is_send)
            is_going = receive_message(operation->comm, &operation->transfers[i]);
}

void fake_run(struct operation *operation)
{
    struct ncclComm *comm = operation->comm;

    if (wait_turn(comm, operation->ticket)) {
        if (operation->kind == POINT_TO_POINT)
            run_transfers(operation);
        else
            run_collective(operation);
    }
    end_turn(comm, operation->ticket);
    if (operation->ticket != 0)
        atomic_fetch_sub(&comm->n_running, 1);
}
