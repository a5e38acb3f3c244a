/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_print.h"

#include <inttypes.h>

static const char *buffer_name(enum hetccl_buffer buffer)
{
    static const char *const names[HETCCL_BUFS] = {"send", "recv", "scratch"};

    return names[buffer];
}

static const char *island_op_name(enum hetccl_island_op op)
{
    static const char *const names[] = {"allreduce", "reduce-scatter", "allgather",
                                        "gather",    "scatter",        "alltoall"};

    return names[op];
}

static void print_region(const struct hetccl_region *region, FILE *stream)
{
    fprintf(stream, "%s[%zu..%zu)", buffer_name(region->buffer), region->offset,
            region->offset + region->count);
}

static void print_island(const struct hetccl_plan *plan, const struct hetccl_step *step, FILE *stream)
{
    size_t n_elements = 0;

    for (uint32_t i = 0; i < step->n_pieces; i++)
        n_elements += plan->pieces[step->first_piece + i].count;
    fprintf(stream, "island %s %s -> %s, %u pieces, %zu elements", island_op_name(step->op),
            buffer_name(step->src.buffer), buffer_name(step->dst.buffer), step->n_pieces, n_elements);
    if (step->op == HETCCL_ISLAND_GATHER || step->op == HETCCL_ISLAND_SCATTER)
        fprintf(stream, ", root %u", step->root);
}

static void print_combine(const struct hetccl_plan *plan, const struct hetccl_step *step, FILE *stream)
{
    fprintf(stream, "%s ", step->n_inputs == 1 ? "receive" : "combine");
    print_region(&step->dst, stream);
    fprintf(stream, " =");
    for (uint32_t i = 0; i < step->n_inputs; i++) {
        const struct hetccl_input *input = &plan->inputs[step->first_input + i];

        fprintf(stream, i > 0 ? " + " : " ");
        if (input->is_message)
            fprintf(stream, "from rank %u", input->peer);
        else
            print_region(&input->region, stream);
    }
}

static void print_step(const struct hetccl_plan *plan, const struct hetccl_step *step, FILE *stream)
{
    switch (step->kind) {
    case HETCCL_STEP_COPY:
        fprintf(stream, "%s ", step->is_raw ? "scale" : "copy");
        print_region(&step->dst, stream);
        fprintf(stream, " = ");
        print_region(&step->src, stream);
        break;
    case HETCCL_STEP_ISLAND:
        print_island(plan, step, stream);
        break;
    case HETCCL_STEP_SEND:
        fprintf(stream, "send ");
        print_region(&step->src, stream);
        fprintf(stream, " to rank %u", step->peer);
        break;
    case HETCCL_STEP_COMBINE:
        print_combine(plan, step, stream);
        break;
    }
}

void hetccl_plan_print(const struct hetccl_plan *plan, FILE *stream)
{
    fprintf(stream, "rank %u: %u steps, %u chunks, scratch %zu elements, hash %016" PRIx64 "\n", plan->rank,
            plan->n_steps, plan->n_chunks, plan->scratch_count, plan->decision_hash);
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct hetccl_step *step = &plan->steps[i];

        fprintf(stream, "  %4u chunk %u: ", i, step->chunk);
        print_step(plan, step, stream);
        for (uint32_t k = 0; k < step->n_deps; k++)
            fprintf(stream, "%s%u", k == 0 ? "; after " : ",", plan->deps[step->first_dep + k]);
        fprintf(stream, "\n");
    }
}
