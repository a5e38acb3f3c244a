/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ct.h"

/* Every collective with every requested type, operator, root, count and placement; and calls without elements
 * (A17). */

struct hetccl_trial ct_trial(const struct ct *ct, enum hetccl_trial_kind kind, ncclDataType_t type,
                             enum hetccl_reference_op op, size_t count)
{
    struct hetccl_trial trial = {
        .kind = kind,
        .rank = (uint32_t)ct->options.rank,
        .count = count,
        .is_in_place = kind == HETCCL_TRIAL_BCAST,
        .stream = ct->stream,
        .reference = {.type = type,
                      .n_ranks = (uint32_t)ct->options.size,
                      .seed = (uint64_t)ct->options.seed,
                      .op = hetccl_trial_has_op(kind) ? op : HETCCL_REFERENCE_COPY},
    };

    return trial;
}

int ct_call_trial(struct ct *ct, const struct hetccl_trial *trial, const struct ct_memory memory[2],
                  char *const regions[2])
{
    ncclRedOp_t op;
    ncclResult_t result = hetccl_trial_op_begin(trial, ct->comm, &op);
    void *send;
    void *recv;

    if (result != ncclSuccess)
        return ct_fail_call(ct, "ncclRedOpCreatePreMulSum", result);
    hetccl_trial_place(trial, ct_memory_at(&memory[0], regions[0]), ct_memory_at(&memory[1], regions[1]),
                       &send, &recv);
    result = hetccl_trial_run(trial, send, recv, op, ct->comm);
    if (result != ncclSuccess)
        return ct_fail_call(ct, hetccl_trial_name(trial->kind), result);
    hetccl_trial_op_end(trial, ct->comm, op);
    return CT_OK;
}

static int push_both(struct ct *ct, const struct ct_memory memory[2])
{
    int code = ct_memory_push(ct, &memory[0]);

    return code == CT_OK ? ct_memory_push(ct, &memory[1]) : code;
}

static int pull_both(struct ct *ct, const struct ct_memory memory[2])
{
    int code = ct_memory_pull(ct, &memory[0]);

    return code == CT_OK ? ct_memory_pull(ct, &memory[1]) : code;
}

int ct_fill_trial(struct ct *ct, const struct hetccl_trial *trial, const struct ct_memory memory[2])
{
    size_t bytes = hetccl_trial_buffer_count(trial) * hetccl_reference_type_bytes(trial->reference.type);
    char *regions[2] = {memory[0].host + HETCCL_TRIAL_GUARD_BYTES, memory[1].host + HETCCL_TRIAL_GUARD_BYTES};
    void *send;
    void *recv;

    hetccl_trial_place(trial, regions[0], regions[1], &send, &recv);
    hetccl_trial_fill(trial, send, recv);
    for (int i = 0; i < 2; i++)
        hetccl_trial_guard_paint(regions[i], bytes);
    return push_both(ct, memory);
}

int ct_check_trial(struct ct *ct, const struct hetccl_trial *trial, const struct ct_memory memory[2])
{
    size_t bytes = hetccl_trial_buffer_count(trial) * hetccl_reference_type_bytes(trial->reference.type);
    char *regions[2] = {memory[0].host + HETCCL_TRIAL_GUARD_BYTES, memory[1].host + HETCCL_TRIAL_GUARD_BYTES};
    int code = pull_both(ct, memory);
    uint64_t n_wrong;
    void *send;
    void *recv;

    if (code != CT_OK)
        return code;
    hetccl_trial_place(trial, regions[0], regions[1], &send, &recv);
    n_wrong = hetccl_trial_check(trial, send, recv);
    for (int i = 0; i < 2; i++)
        n_wrong += hetccl_trial_guard_check(regions[i], bytes);
    ct_crc(ct, recv, hetccl_trial_recv_count(trial) * hetccl_reference_type_bytes(trial->reference.type));
    if (n_wrong == 0)
        return CT_OK;
    return ct_fail(ct, CT_WRONG, "%s, %s, %s, count %zu, root %u, in place %d: %llu elements or guards wrong",
                   hetccl_trial_name(trial->kind), hetccl_reference_type_name(trial->reference.type),
                   hetccl_reference_op_name(trial->reference.op), trial->count, trial->root,
                   trial->is_in_place, (unsigned long long)n_wrong);
}

int ct_trial_memory(struct ct *ct, const struct hetccl_trial *trial, struct ct_memory memory[2])
{
    size_t bytes = hetccl_trial_buffer_count(trial) * hetccl_reference_type_bytes(trial->reference.type) +
                   2 * HETCCL_TRIAL_GUARD_BYTES;
    int code = ct_memory_open(ct, bytes, &memory[0]);

    return code == CT_OK ? ct_memory_open(ct, bytes, &memory[1]) : code;
}

int ct_enqueue_trial(struct ct *ct, const struct hetccl_trial *trial, const struct ct_memory memory[2])
{
    return ct_call_trial(
        ct, trial, memory,
        (char *[2]){memory[0].host + HETCCL_TRIAL_GUARD_BYTES, memory[1].host + HETCCL_TRIAL_GUARD_BYTES});
}

int ct_run_trial(struct ct *ct, const struct hetccl_trial *trial)
{
    struct ct_memory memory[2] = {{NULL}};
    int code = ct_trial_memory(ct, trial, memory);

    if (code == CT_OK)
        code = ct_fill_trial(ct, trial, memory);
    if (code == CT_OK)
        code = ct_enqueue_trial(ct, trial, memory);
    if (code == CT_OK)
        code = ct_check_trial(ct, trial, memory);
    ct_memory_close(ct, &memory[0]);
    ct_memory_close(ct, &memory[1]);
    return code;
}

static int run_roots(struct ct *ct, struct hetccl_trial *trial)
{
    bool has_root = hetccl_trial_has_root(trial->kind);
    bool is_all = has_root && ct->options.root < 0;
    uint32_t first = has_root && !is_all ? (uint32_t)ct->options.root : 0;
    uint32_t last = is_all ? (uint32_t)ct->options.size - 1 : first;
    bool has_in_place = hetccl_trial_has_in_place(trial->kind);
    bool has_other = trial->kind != HETCCL_TRIAL_BCAST;
    int code = CT_OK;

    for (uint32_t root = first; code == CT_OK && root <= last; root++) {
        trial->root = root;
        trial->is_in_place = false;
        if (has_other && (ct->options.inplace != 1 || !has_in_place))
            code = ct_run_trial(ct, trial);
        trial->is_in_place = true;
        if (code == CT_OK && has_in_place && (ct->options.inplace != 0 || !has_other))
            code = ct_run_trial(ct, trial);
    }
    return code;
}

static int run_counts(struct ct *ct, enum hetccl_trial_kind kind, ncclDataType_t type,
                      enum hetccl_reference_op op, long iteration)
{
    size_t count;

    for (int i = 0; ct_list_entry(ct->options.counts, i, &count); i++) {
        struct hetccl_trial trial = ct_trial(ct, kind, type, op, count);
        int code;

        trial.reference.seed += (uint64_t)iteration * 1000;
        code = run_roots(ct, &trial);
        if (code != CT_OK)
            return code;
    }
    return CT_OK;
}

static int run_types(struct ct *ct, enum hetccl_trial_kind kind, long iteration)
{
    for (int type = 0; type < HETCCL_REFERENCE_TYPES; type++) {
        if (strcmp(ct->options.dtype, "all") != 0 && hetccl_reference_type_find(ct->options.dtype) != type)
            continue;
        for (int op = HETCCL_REFERENCE_SUM; op < HETCCL_REFERENCE_OPS; op++) {
            int code;

            if (hetccl_trial_has_op(kind) ? strcmp(ct->options.redop, "all") != 0 &&
                                                hetccl_reference_op_find(ct->options.redop) != op
                                          : op != HETCCL_REFERENCE_SUM)
                continue;
            code = run_counts(ct, kind, (ncclDataType_t)type, (enum hetccl_reference_op)op, iteration);
            if (code != CT_OK)
                return code;
        }
    }
    return CT_OK;
}

int ct_scenario_collectives(struct ct *ct)
{
    bool is_all = strcmp(ct->options.op, "all") == 0;
    int only = hetccl_trial_find(ct->options.op);

    if (!is_all && only < 0)
        return ct_fail(ct, CT_SETUP, "unknown scenario %s", ct->options.op);
    for (long i = 0; i < ct->options.iters; i++) {
        for (int kind = 0; kind < HETCCL_TRIAL_KINDS; kind++) {
            int code = is_all || kind == only ? run_types(ct, (enum hetccl_trial_kind)kind, i) : CT_OK;

            if (code != CT_OK)
                return code;
        }
        if (i == 0)
            ct_mark(ct, "busy");
    }
    return CT_OK;
}

/* Count 0 with no buffers at all, then count 1 with guards, which shows that the ranks are in step. */
int ct_scenario_empty(struct ct *ct)
{
    for (long i = 0; i < ct->options.iters; i++)
        for (int kind = 0; kind < HETCCL_TRIAL_KINDS; kind++) {
            struct hetccl_trial trial =
                ct_trial(ct, (enum hetccl_trial_kind)kind, ncclInt32, HETCCL_REFERENCE_SUM, 0);
            ncclResult_t result;
            int code;

            trial.root = (uint32_t)(i % ct->options.size);
            result = hetccl_trial_run(&trial, NULL, NULL, ncclSum, ct->comm);
            if (result != ncclSuccess)
                return ct_fail_call(ct, hetccl_trial_name(trial.kind), result);
            code = ct_run_trial(ct, &trial);
            trial.count = 1;
            trial.reference.seed += (uint64_t)i;
            if (code == CT_OK)
                code = ct_run_trial(ct, &trial);
            if (code != CT_OK)
                return code;
        }
    return CT_OK;
}
