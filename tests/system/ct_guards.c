/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ct.h"

/*
 * A20: buffers that end at a page without access, then buffers that start behind one, then buffers shifted by
 * single elements with guard bytes on both sides. An access outside is a SIGSEGV, which the runner sees. On a
 * GPU the fake driver's memory has such pages around it; a real one's is checked by the guards alone.
 */

struct fence {
    char *map;
    size_t map_bytes;
    char *low, *high;        /* between them all may be accessed */
    struct ct_memory memory; /* all of that */
};

static bool fence_open(struct ct *ct, struct fence *fence, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t inside = (bytes + 2 * HETCCL_TRIAL_GUARD_BYTES + 64 + page - 1) / page * page;
    void *map = mmap(NULL, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (map == MAP_FAILED)
        return false;
    fence->map = map;
    fence->map_bytes = inside + 2 * page;
    fence->low = fence->map + page;
    fence->high = fence->low + inside;
    fence->memory = (struct ct_memory){.host = fence->low, .device = fence->low, .bytes = inside};
    if (ct->cuda != NULL)
        fence->memory.device = ct_cuda_alloc(ct->cuda, inside);
    return mprotect(fence->low, inside, PROT_READ | PROT_WRITE) == 0;
}

static void fence_close(struct ct *ct, struct fence *fence)
{
    if (fence->map == NULL)
        return;
    if (ct->cuda != NULL)
        ct_cuda_free(ct->cuda, fence->memory.device);
    munmap(fence->map, fence->map_bytes);
}

enum placement { AT_END, AT_START, SHIFTED, PLACEMENTS };

static char *place(const struct fence *fence, enum placement placement, size_t bytes, size_t shift_bytes)
{
    if (placement == AT_END)
        return fence->high - bytes;
    if (placement == AT_START)
        return fence->low;
    return fence->low + HETCCL_TRIAL_GUARD_BYTES + shift_bytes;
}

/* The part of a fence's memory that a call may touch, and the guards. */
static struct ct_memory around(const struct fence *fence, char *region, size_t bytes)
{
    char *from =
        region - HETCCL_TRIAL_GUARD_BYTES > fence->low ? region - HETCCL_TRIAL_GUARD_BYTES : fence->low;
    char *to = region + bytes + HETCCL_TRIAL_GUARD_BYTES;

    to = to < fence->high ? to : fence->high;
    return (struct ct_memory){
        .host = from, .device = ct_memory_at(&fence->memory, from), .bytes = (size_t)(to - from)};
}

static int run_placed(struct ct *ct, const struct hetccl_trial *trial, const struct fence fences[2],
                      enum placement placement, size_t shift)
{
    size_t element = hetccl_reference_type_bytes(trial->reference.type);
    size_t bytes = hetccl_trial_buffer_count(trial) * element;
    char *a = place(&fences[0], placement, bytes, shift % 16 * element);
    char *b = place(&fences[1], placement, bytes, (shift + 3) % 16 * element);
    struct ct_memory memory[2] = {around(&fences[0], a, bytes), around(&fences[1], b, bytes)};
    uint64_t n_wrong;
    int code = CT_OK;
    void *send;
    void *recv;

    hetccl_trial_place(trial, a, b, &send, &recv);
    hetccl_trial_fill(trial, send, recv);
    if (placement == SHIFTED) {
        hetccl_trial_guard_paint(a, bytes);
        hetccl_trial_guard_paint(b, bytes);
    }
    for (int i = 0; code == CT_OK && i < 2; i++)
        code = ct_memory_push(ct, &memory[i]);
    if (code == CT_OK)
        code = ct_call_trial(ct, trial, memory, (char *[2]){a, b});
    for (int i = 0; code == CT_OK && i < 2; i++)
        code = ct_memory_pull(ct, &memory[i]);
    if (code != CT_OK)
        return code;
    n_wrong = hetccl_trial_check(trial, send, recv);
    if (placement == SHIFTED)
        n_wrong += hetccl_trial_guard_check(a, bytes) + hetccl_trial_guard_check(b, bytes);
    if (n_wrong == 0)
        return CT_OK;
    return ct_fail(ct, CT_WRONG, "%s, %s, %s, count %zu, in place %d, placement %d, shift %zu: %llu wrong",
                   hetccl_trial_name(trial->kind), hetccl_reference_type_name(trial->reference.type),
                   hetccl_reference_op_name(trial->reference.op), trial->count, trial->is_in_place, placement,
                   shift, (unsigned long long)n_wrong);
}

static int run_placements(struct ct *ct, struct hetccl_trial *trial, const struct fence fences[2],
                          size_t shift)
{
    for (int in_place = 0; in_place < 2; in_place++) {
        if (in_place == 1 ? !hetccl_trial_has_in_place(trial->kind) : trial->kind == HETCCL_TRIAL_BCAST)
            continue;
        trial->is_in_place = in_place == 1;
        for (int placement = 0; placement < PLACEMENTS; placement++) {
            int code = run_placed(ct, trial, fences, (enum placement)placement, shift);

            if (code != CT_OK)
                return code;
        }
    }
    return CT_OK;
}

/* 1..67, 4095..4097, and a share of 1 MiB give or take one. */
enum { N_SHORT = 67, N_COUNTS = N_SHORT + 6 };

static size_t count_number(const struct ct *ct, size_t i)
{
    size_t share = (1u << 20) / (size_t)ct->options.size;

    if (i < N_SHORT)
        return 1 + i;
    return i < N_SHORT + 3 ? 4095 + i - N_SHORT : share - 1 + i - N_SHORT - 3;
}

/* The short test takes two of the short counts for each combination, other ones each time; the shortest, one
 * for every third of them. */
static bool is_wanted(const struct ct *ct, size_t i, size_t combination)
{
    if (ct->options.limit < 1)
        return combination % 3 == (size_t)ct->options.size % 3 && i == combination * 11 % (N_SHORT + 3);
    return ct->options.limit > 1 || (i < N_SHORT + 3 && (i + combination * 11) % 35 == 0);
}

static int run_kind(struct ct *ct, enum hetccl_trial_kind kind, int type, int op,
                    const struct fence fences[2])
{
    size_t combination = (size_t)kind * 72 + (size_t)type * 6 + (size_t)op;

    for (size_t i = 0; i < N_COUNTS; i++) {
        struct hetccl_trial trial =
            ct_trial(ct, kind, (ncclDataType_t)type, (enum hetccl_reference_op)op, count_number(ct, i));
        int code;

        if (!is_wanted(ct, i, combination))
            continue;
        trial.root = (uint32_t)(i % (size_t)ct->options.size);
        trial.reference.seed += i;
        code = run_placements(ct, &trial, fences, i + (size_t)type);
        if (code != CT_OK)
            return code;
    }
    return CT_OK;
}

/* --limit 2: all counts; 1: a selection of the short ones; 0: a small one. */
int ct_scenario_guards(struct ct *ct)
{
    size_t most = ((1u << 20) / (size_t)ct->options.size + 4098) * 8 * (size_t)ct->options.size;
    struct fence fences[2] = {{0}};
    int code = CT_OK;

    if (!fence_open(ct, &fences[0], most) || !fence_open(ct, &fences[1], most))
        code = ct_fail(ct, CT_SETUP, "no memory: %s", strerror(errno));
    for (int kind = 0; kind < HETCCL_TRIAL_KINDS; kind++)
        for (int type = 0; type < HETCCL_REFERENCE_TYPES; type++)
            for (int op = HETCCL_REFERENCE_SUM; op < HETCCL_REFERENCE_OPS; op++)
                if (code == CT_OK &&
                    (hetccl_trial_has_op((enum hetccl_trial_kind)kind) || op == HETCCL_REFERENCE_SUM))
                    code = run_kind(ct, (enum hetccl_trial_kind)kind, type, op, fences);
    fence_close(ct, &fences[0]);
    fence_close(ct, &fences[1]);
    return code;
}
