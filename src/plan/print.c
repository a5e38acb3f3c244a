/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/print.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"

static const char *const buffer_names[HETCCL_BUFS] = {"send", "recv", "scratch"};
static const char *const op_names[] = {"allreduce", "reduce-scatter", "allgather",
                                       "gather",    "scatter",        "alltoall"};

static void print_region(const struct hetccl_region *region, FILE *file)
{
    fprintf(file, "%s[%zu..%zu)", buffer_names[region->buffer], region->offset,
            region->offset + region->count);
}

static void print_inputs(const struct hetccl_plan *plan, const struct hetccl_step *step, FILE *file)
{
    for (uint32_t i = 0; i < step->n_inputs; i++) {
        const struct hetccl_input *input = &plan->inputs[step->first_input + i];

        fprintf(file, "%s", i > 0 ? " + " : "");
        if (input->is_message)
            fprintf(file, "rank %u", input->peer);
        else
            print_region(&input->region, file);
        fprintf(file, "%s", input->is_raw ? " scaled" : "");
    }
}

static void print_island(const struct hetccl_plan *plan, const struct hetccl_step *step, FILE *file)
{
    size_t count = 0;

    for (uint32_t i = 0; i < step->n_pieces; i++)
        count += plan->pieces[step->first_piece + i].count;
    fprintf(file, "%s%s: %s to %s, %u piece%s, %zu elements", op_names[step->op],
            step->is_raw ? " scaled" : "", buffer_names[step->src.buffer], buffer_names[step->dst.buffer],
            step->n_pieces, step->n_pieces == 1 ? "" : "s", count);
}

static void print_step(const struct hetccl_plan *plan, uint32_t index, FILE *file)
{
    const struct hetccl_step *step = &plan->steps[index];

    fprintf(file, "%6u  chunk %-4u ", index, step->chunk);
    switch (step->kind) {
    case HETCCL_STEP_COPY:
        fprintf(file, "copy     ");
        print_region(&step->dst, file);
        fprintf(file, " = ");
        print_region(&step->src, file);
        fprintf(file, "%s", step->is_raw ? " scaled" : "");
        break;
    case HETCCL_STEP_SEND:
        fprintf(file, "send     rank %u: ", step->peer);
        print_region(&step->src, file);
        break;
    case HETCCL_STEP_COMBINE:
        fprintf(file, "%s", step->n_inputs > 1 ? "combine  " : "receive  ");
        print_region(&step->dst, file);
        fprintf(file, " = ");
        print_inputs(plan, step, file);
        break;
    case HETCCL_STEP_ISLAND:
        fprintf(file, "island   ");
        print_island(plan, step, file);
        break;
    }
    for (uint32_t i = 0; i < step->n_deps; i++)
        fprintf(file, "%s %u", i == 0 ? "; after" : ",", plan->deps[step->first_dep + i]);
    fprintf(file, "\n");
}

/* sent and received, by peer: messages and elements. */
struct traffic {
    uint64_t n_sent, n_received, sent, received;
};

static void count_traffic(const struct hetccl_plan *plan, struct traffic *by_peer)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        if (plan->steps[i].kind != HETCCL_STEP_SEND)
            continue;
        by_peer[plan->steps[i].peer].n_sent++;
        by_peer[plan->steps[i].peer].sent += plan->steps[i].src.count;
    }
    for (uint32_t i = 0; i < plan->n_inputs; i++) {
        if (!plan->inputs[i].is_message)
            continue;
        by_peer[plan->inputs[i].peer].n_received++;
        by_peer[plan->inputs[i].peer].received += plan->inputs[i].region.count;
    }
}

static void print_traffic(const struct hetccl_topo *topo, const struct hetccl_plan *plan, size_t elem_bytes,
                          const struct traffic *by_peer, FILE *file)
{
    for (uint32_t rank = 0; rank < topo->n_ranks; rank++) {
        const struct traffic *peer = &by_peer[rank];

        if (peer->n_sent + peer->n_received == 0)
            continue;
        fprintf(file,
                "  rank %u (island %u): sends %" PRIu64 " bytes in %" PRIu64 ", receives %" PRIu64
                " bytes in %" PRIu64 "\n",
                rank, topo->island_of[rank], peer->sent * elem_bytes, peer->n_sent,
                peer->received * elem_bytes, peer->n_received);
    }
}

enum hetccl_status hetccl_plan_print(const struct hetccl_topo *topo, const struct hetccl_plan *plan,
                                     size_t elem_bytes, FILE *file)
{
    struct traffic *by_peer = NULL;
    enum hetccl_status status = hetccl_alloc(topo->n_ranks, sizeof(*by_peer), &by_peer);

    if (status != HETCCL_OK)
        return status;
    fprintf(file,
            "%s %s, rank %u of %u (island %u of %u): %u steps, %u chunks, scratch %zu bytes, across islands "
            "%" PRIu64 " bytes, predicted %.1f us\n",
            hetccl_coll_name(plan->coll), plan->name, plan->rank, topo->n_ranks, topo->island_of[plan->rank],
            topo->n_islands, plan->n_steps, plan->n_chunks, plan->scratch_count * elem_bytes,
            plan->cross_count * elem_bytes, plan->predicted_us);
    for (uint32_t i = 0; i < plan->n_steps; i++)
        print_step(plan, i, file);
    count_traffic(plan, by_peer);
    print_traffic(topo, plan, elem_bytes, by_peer, file);
    hetccl_free(by_peer);
    if (ferror(file))
        return hetccl_fail(HETCCL_ERR_SYSTEM, "printing the plan of rank %u: %s", plan->rank,
                           strerror(errno));
    return HETCCL_OK;
}
