/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <nccl.h>

#include <hetccl/hetccl.h>

#include "kernels/kernels.h"
#include "perf_id.h"
#include "perf_session.h"

/* What one rank does: join, then for every row measure out of place and in place. */

/* A ring of sends crosses wherever two neighbours are of different islands. */
static uint64_t ring_bound(const struct hetccl_perf_session *session, uint64_t bytes)
{
    uint64_t bound = 0;

    for (uint32_t rank = 0; rank < session->n_ranks; rank++) {
        hetcclRankInfo_t from = {.size = sizeof(from)};
        hetcclRankInfo_t to = {.size = sizeof(to)};

        if (hetcclRankInfo(session->comm, (int)rank, &from) == 0 &&
            hetcclRankInfo(session->comm, (int)((rank + 1) % session->n_ranks), &to) == 0 &&
            from.island != to.island)
            bound += bytes;
    }
    return bound;
}

/* Averages of integers travel as wider sums: what must cross is that many bytes an element. */
static size_t wire_element_bytes(const struct hetccl_reference *reference)
{
    enum hetccl_type type = (enum hetccl_type)reference->type;

    if (reference->op == HETCCL_REFERENCE_AVG && !hetccl_reference_type_is_float(reference->type))
        return hetccl_type_bytes(hetccl_average_wide_type(type)) * hetccl_average_wide_factor(type);
    return hetccl_type_bytes(type);
}

static bool find_bound(const struct hetccl_perf_session *session, const struct hetccl_trial *trial,
                       uint64_t *out)
{
    size_t element_bytes = wire_element_bytes(&trial->reference);
    const char *name =
        hetccl_trial_name(trial->kind == HETCCL_TRIAL_BCAST ? HETCCL_TRIAL_BROADCAST : trial->kind);
    ncclResult_t result;

    if (trial->kind == HETCCL_TRIAL_SENDRECV) {
        *out = ring_bound(session, trial->count * element_bytes);
        return true;
    }
    result = hetcclCommBound(session->comm, name, trial->count, element_bytes, (int)trial->root, out);
    return result == ncclSuccess || hetccl_perf_give_up(session, "hetcclCommBound", result);
}

static bool run_row(struct hetccl_perf_session *session, struct hetccl_perf_row *row)
{
    bool has_in_place = hetccl_trial_has_in_place(row->trial.kind);

    hetccl_board_say(session->slot, "%s of %zu elements (%s, %s, root %u)",
                     hetccl_trial_name(row->trial.kind), row->trial.count,
                     hetccl_reference_type_name(row->trial.reference.type),
                     hetccl_reference_op_name(row->trial.reference.op), row->trial.root);
    if (session->rank == 0)
        hetccl_perf_printer_progress(&session->printer, &row->trial, row->size_bytes);
    if (!find_bound(session, &row->trial, &row->bound_bytes))
        return false;
    if (row->trial.kind != HETCCL_TRIAL_BCAST &&
        !hetccl_perf_measure(session, row, false, &row->out_of_place))
        return false;
    if (has_in_place && !hetccl_perf_measure(session, row, true, &row->in_place))
        return false;
    if (session->rank == 0)
        hetccl_perf_printer_row(&session->printer, row);
    return true;
}

/* From 0 the next size is one element; every other one is the factor times larger, and the last one is the
 * largest. */
static size_t next_size(const struct hetccl_perf_options *options, size_t size, size_t element_bytes)
{
    size_t next = size == 0 ? element_bytes : size * options->factor;

    if (size >= options->max_bytes)
        return SIZE_MAX;
    return next > options->max_bytes || next < size ? options->max_bytes : next;
}

static size_t count_of_size(const struct hetccl_perf_session *session, enum hetccl_trial_kind kind,
                            size_t size, size_t element_bytes)
{
    size_t share = element_bytes * (hetccl_trial_is_shared(kind) ? session->n_ranks : 1);

    if (size == 0)
        return 0;
    return size < share ? 1 : size / share;
}

static bool run_sizes(struct hetccl_perf_session *session, const struct hetccl_perf_row *model)
{
    const struct hetccl_perf_options *options = session->options;
    enum hetccl_trial_kind kind = model->trial.kind;
    size_t element_bytes = hetccl_reference_type_bytes(model->trial.reference.type);
    size_t factor = element_bytes * (hetccl_trial_is_shared(kind) ? session->n_ranks : 1);
    size_t last = SIZE_MAX;

    for (size_t size = options->min_bytes; size <= options->max_bytes;
         size = next_size(options, size, element_bytes)) {
        struct hetccl_perf_row row = *model;

        row.trial.count = count_of_size(session, kind, size, element_bytes);
        row.size_bytes = row.trial.count * factor;
        if (row.trial.count == last)
            continue;
        last = row.trial.count;
        if (!run_row(session, &row))
            return false;
    }
    return true;
}

static bool run_ops_and_roots(struct hetccl_perf_session *session, struct hetccl_perf_row *row)
{
    const struct hetccl_perf_options *options = session->options;
    bool is_all_roots = row->has_root && options->root == HETCCL_PERF_ALL_ROOTS;
    uint32_t first_root = row->has_root && !is_all_roots ? (uint32_t)options->root : 0;
    uint32_t last_root = is_all_roots ? session->n_ranks - 1 : first_root;

    for (int op = 0; op < HETCCL_REFERENCE_OPS; op++) {
        bool is_wanted = row->has_op ? (options->ops >> op & 1) != 0 : op == HETCCL_REFERENCE_COPY;

        if (!is_wanted)
            continue;
        row->trial.reference.op = (enum hetccl_reference_op)op;
        for (uint32_t root = first_root; root <= last_root; root++) {
            row->trial.root = root;
            if (!run_sizes(session, row))
                return false;
        }
    }
    return true;
}

static bool run_kind(struct hetccl_perf_session *session, enum hetccl_trial_kind kind)
{
    if (session->rank == 0)
        hetccl_perf_printer_head(&session->printer, hetccl_trial_name(kind));
    for (int type = 0; type < HETCCL_REFERENCE_TYPES; type++) {
        struct hetccl_perf_row row = {
            .trial = {.kind = kind,
                      .rank = session->rank,
                      .reference = {.type = (ncclDataType_t)type,
                                    .n_ranks = session->n_ranks,
                                    .seed = session->options->seed}},
            .has_root = hetccl_trial_has_root(kind),
            .has_op = hetccl_trial_has_op(kind),
        };

        if ((session->options->types >> type & 1) != 0 && !run_ops_and_roots(session, &row))
            return false;
    }
    return true;
}

/* Which of this machine's ranks it is; launchers tell, and all of those that we start are here. */
static unsigned local_rank(const struct hetccl_perf_options *options)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "LOCAL_RANK",
                                        "SLURM_LOCALID"};

    for (size_t i = 0; options->board_fd < 0 && i < sizeof(names) / sizeof(names[0]); i++) {
        const char *text = getenv(names[i]);

        if (text != NULL && text[0] != '\0')
            return (unsigned)strtoul(text, NULL, 10);
    }
    return (unsigned)options->rank;
}

static bool open_device(struct hetccl_perf_session *session)
{
    const struct hetccl_perf_options *options = session->options;

    session->enqueue_us = calloc(options->n_iterations, sizeof(*session->enqueue_us));
    if (session->enqueue_us == NULL) {
        hetccl_board_fail(session->slot, "no memory for %u times", options->n_iterations);
        return false;
    }
    if (!hetccl_perf_device_open(&session->device, local_rank(options))) {
        hetccl_board_fail(session->slot, "no device: %s", hetccl_perf_device_error());
        return false;
    }
    if (options->n_graph > 0 && !session->device.device->has_graphs) {
        hetccl_board_fail(session->slot, "--graph: device %s has no graphs; give --device cuda",
                          session->device.device->ops->name);
        return false;
    }
    return true;
}

/* Both buffers hold the largest row: max_bytes, or one 8-byte element from and to every rank. */
static bool make_buffers(struct hetccl_perf_session *session)
{
    size_t least = 8u * session->n_ranks;
    size_t data_bytes = session->options->max_bytes > least ? session->options->max_bytes : least;
    size_t bytes = data_bytes + 2 * HETCCL_TRIAL_GUARD_BYTES;

    if (hetccl_perf_buffer_alloc(&session->device, bytes, &session->buffers[0]) &&
        hetccl_perf_buffer_alloc(&session->device, bytes, &session->buffers[1]) &&
        hetccl_perf_buffer_alloc(&session->device, HETCCL_PERF_SMALL_BYTES, &session->small))
        return true;
    hetccl_board_fail(session->slot, "%s", hetccl_perf_device_error());
    return false;
}

static bool join(struct hetccl_perf_session *session, const struct hetccl_board *board)
{
    hetcclCommInfo_t info = {.size = sizeof(info)};
    char error[256];
    ncclUniqueId id;
    ncclResult_t result;

    hetccl_board_say(session->slot, "getting the unique id");
    if (!hetccl_perf_get_id(session->options, board, &id, error)) {
        hetccl_board_fail(session->slot, "%s", error);
        return false;
    }
    hetccl_board_say(session->slot, "joining the communicator");
    result = ncclCommInitRank(&session->comm, (int)session->n_ranks, id, (int)session->rank);
    if (result != ncclSuccess) {
        session->comm = NULL;
        return hetccl_perf_give_up(session, "ncclCommInitRank", result);
    }
    /* All have read it; the next run must not. */
    if (session->rank == 0 && board == NULL && session->options->id_path != NULL)
        (void)unlink(session->options->id_path);
    if (hetcclCommInfo(session->comm, &info) != 0 ||
        strcmp(info.device, session->device.device->ops->name) != 0) {
        hetccl_board_fail(session->slot, "the library computes on %s, this command on %s",
                          info.device != NULL ? info.device : "an unknown device",
                          session->device.device->ops->name);
        return false;
    }
    return true;
}

static bool run_all(struct hetccl_perf_session *session)
{
    session->printer.is_asynchronous = session->device.is_asynchronous;
    if (session->rank == 0 &&
        !hetccl_perf_printer_open(&session->printer, session->options->json_path, session->comm)) {
        hetccl_board_fail(session->slot, "can't write %s: %s", session->options->json_path, strerror(errno));
        return false;
    }
    for (int kind = 0; kind < HETCCL_TRIAL_KINDS; kind++)
        if ((session->options->kinds >> kind & 1) != 0 && !run_kind(session, (enum hetccl_trial_kind)kind))
            return false;
    hetccl_board_say(session->slot, "the last barrier");
    return hetccl_perf_barrier(session);
}

static int finish(struct hetccl_perf_session *session, bool is_done)
{
    bool is_right = session->n_own_wrong == 0;

    if (session->rank == 0 && session->printer.n_ranks > 0)
        is_right = hetccl_perf_printer_close(&session->printer) && is_right;
    hetccl_board_say(session->slot, "leaving");
    if (session->comm != NULL && is_done)
        is_done = ncclCommDestroy(session->comm) == ncclSuccess;
    else if (session->comm != NULL)
        (void)ncclCommAbort(session->comm);
    for (int i = 0; i < 2; i++)
        hetccl_perf_buffer_free(&session->device, &session->buffers[i]);
    hetccl_perf_buffer_free(&session->device, &session->small);
    hetccl_perf_device_close(&session->device);
    free(session->enqueue_us);
    if (!is_done)
        return HETCCL_EXIT_FAILED;
    return is_right ? HETCCL_EXIT_OK : HETCCL_EXIT_WRONG;
}

int hetccl_perf_run_rank(const struct hetccl_perf_options *options)
{
    struct hetccl_perf_session session = {
        .options = options, .n_ranks = options->cluster.n_ranks, .rank = (uint32_t)options->rank};
    struct hetccl_board *board = NULL;
    int status;

    if (options->board_fd >= 0) {
        board = hetccl_board_open(options->board_fd, session.n_ranks);
        if (board == NULL || session.rank >= session.n_ranks)
            return HETCCL_EXIT_FAILED;
        session.slot = &board->slots[session.rank];
    } else if (!hetccl_perf_set_rank_variables(options)) {
        hetccl_board_fail(NULL, "can't set environment variables: %s", strerror(errno));
        return HETCCL_EXIT_FAILED;
    }
    status = finish(&session, open_device(&session) && make_buffers(&session) && join(&session, board) &&
                                  run_all(&session));
    /* To a launcher every failure is 1; the parent of our own ranks wants to tell wrong values from a dead
     * rank. */
    return status == HETCCL_EXIT_WRONG && board == NULL ? HETCCL_EXIT_FAILED : status;
}
