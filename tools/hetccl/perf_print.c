/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include <nccl.h>

#include <hetccl/hetccl.h>

#include "perf.h"

/* nccl-tests' columns, so that scripts which read those read these, then what only this library has. */

static double algorithm_bandwidth(const struct hetccl_perf_row *row,
                                  const struct hetccl_perf_measure *measure)
{
    return measure->time_us > 0 ? (double)row->size_bytes / measure->time_us / 1e3 : 0.0;
}

static double bus_bandwidth(const struct hetccl_perf_row *row, const struct hetccl_perf_measure *measure)
{
    return algorithm_bandwidth(row, measure) *
           hetccl_trial_bus_factor(row->trial.kind, row->trial.reference.n_ranks);
}

/* Of the two measured directions the one that is further from the bound. */
static uint64_t crossed_bytes(const struct hetccl_perf_row *row)
{
    uint64_t a = row->out_of_place.cross_bytes;
    uint64_t b = row->in_place.cross_bytes;
    uint64_t a_off = a > row->bound_bytes ? a - row->bound_bytes : row->bound_bytes - a;
    uint64_t b_off = b > row->bound_bytes ? b - row->bound_bytes : row->bound_bytes - b;

    if (!row->in_place.is_there)
        return a;
    if (!row->out_of_place.is_there)
        return b;
    return b_off > a_off ? b : a;
}

bool hetccl_perf_row_is_at_bound(const struct hetccl_perf_row *row)
{
    return row->is_small || crossed_bytes(row) == row->bound_bytes;
}

static void describe_ranks(const struct hetccl_perf_printer *printer, ncclComm_t comm)
{
    hetcclCommInfo_t info = {.size = sizeof(info)};
    int version = 0;

    (void)ncclGetVersion(&version);
    if (hetcclCommInfo(comm, &info) != 0)
        return;
    printf("# hetccl %s (NCCL API %d): %d ranks, %d islands, %d hosts, device %s\n", hetcclVersion(), version,
           info.nRanks, info.nIslands, info.nHosts, info.device);
    for (uint32_t rank = 0; rank < printer->n_ranks; rank++) {
        hetcclRankInfo_t fact = {.size = sizeof(fact)};

        if (hetcclRankInfo(comm, (int)rank, &fact) == 0)
            printf("#   rank %3u: island %d, place %d, vendor %s, engine %s, host %d (%s)\n", rank,
                   fact.island, fact.islandRank, fact.vendor, fact.engine, fact.host, fact.hostName);
    }
}

bool hetccl_perf_printer_open(struct hetccl_perf_printer *printer, const char *json_path, ncclComm_t comm)
{
    hetcclCommInfo_t info = {.size = sizeof(info)};

    if (hetcclCommInfo(comm, &info) != 0) {
        errno = EINVAL;
        return false;
    }
    printer->json_path = json_path;
    if (json_path != NULL) {
        printer->json = fopen(json_path, "we");
        if (printer->json == NULL)
            return false;
        fprintf(printer->json,
                "{\"version\": \"%s\", \"ranks\": %d, \"islands\": %d, \"hosts\": %d, \"device\": \"%s\",\n "
                "\"rows\": [",
                hetcclVersion(), info.nRanks, info.nIslands, info.nHosts, info.device);
    }
    printer->n_ranks = (uint32_t)info.nRanks;
    printer->has_progress = isatty(STDERR_FILENO) != 0;
    describe_ranks(printer, comm);
    return true;
}

void hetccl_perf_printer_head(const struct hetccl_perf_printer *printer, const char *collective)
{
    printf("#\n# %s\n"
           "#%57s %31s\n"
           "#%11s %13s %9s %7s %5s %8s %7s %7s %6s %8s %7s %7s %6s %13s %7s%s  %s\n"
           "#%11s %13s %9s %7s %5s %8s %7s %7s %6s %8s %7s %7s %6s %13s %7s%s\n",
           collective, "out-of-place", "in-place", "size", "count", "type", "redop", "root", "time", "algbw",
           "busbw", "#wrong", "time", "algbw", "busbw", "#wrong", "cross", "/bound",
           printer->is_asynchronous ? "  enqueue" : "", "plan", "(B)", "(elements)", "", "", "", "(us)",
           "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "", "(B)", "",
           printer->is_asynchronous ? "     (us)" : "");
    (void)fflush(stdout);
}

static void clear_progress(const struct hetccl_perf_printer *printer)
{
    if (printer->has_progress)
        (void)fputs("\r\033[K", stderr);
}

void hetccl_perf_printer_progress(const struct hetccl_perf_printer *printer, const struct hetccl_trial *trial,
                                  size_t size_bytes)
{
    if (printer->has_progress)
        (void)fprintf(stderr, "\r\033[K%s, %zu bytes, %s ... (%" PRIu64 " rows, %" PRIu64 " wrong so far)",
                      hetccl_trial_name(trial->kind), size_bytes,
                      hetccl_reference_type_name(trial->reference.type), printer->totals.n_rows,
                      printer->totals.n_wrong);
}

static void print_measure(const struct hetccl_perf_row *row, const struct hetccl_perf_measure *measure)
{
    if (measure->is_there)
        printf(" %8.2f %7.3f %7.3f %6" PRIu64, measure->time_us, algorithm_bandwidth(row, measure),
               bus_bandwidth(row, measure), measure->n_wrong);
    else
        printf(" %8s %7s %7s %6s", "N/A", "N/A", "N/A", "N/A");
}

/* A small-message plan may send more than the bound: its ratio stands in parentheses. */
static void print_rest(const struct hetccl_perf_printer *printer, const struct hetccl_perf_row *row)
{
    char text[32] = "-";
    double ratio = row->bound_bytes > 0 ? (double)crossed_bytes(row) / (double)row->bound_bytes : 0.0;

    if (row->bound_bytes > 0)
        (void)snprintf(text, sizeof(text), row->is_small ? "(%.2f)" : "%.2f", ratio);
    printf(" %13" PRIu64 " %7s", crossed_bytes(row), text);
    if (printer->is_asynchronous)
        printf(" %8.2f", row->in_place.enqueue_us > row->out_of_place.enqueue_us
                             ? row->in_place.enqueue_us
                             : row->out_of_place.enqueue_us);
    printf("  %s%s\n", row->plan, hetccl_perf_row_is_at_bound(row) ? "" : "  NOT AT THE BOUND");
}

static void json_measure(FILE *json, const char *name, const struct hetccl_perf_row *row,
                         const struct hetccl_perf_measure *measure)
{
    if (!measure->is_there) {
        fprintf(json, ", \"%s\": null", name);
        return;
    }
    fprintf(json,
            ", \"%s\": {\"time_us\": %.3f, \"algbw\": %.6f, \"busbw\": %.6f, \"wrong\": %" PRIu64
            ", \"enqueue_us\": %.3f}",
            name, measure->time_us, algorithm_bandwidth(row, measure), bus_bandwidth(row, measure),
            measure->n_wrong, measure->enqueue_us);
}

/* Every text in it is a word of ours: there is nothing to escape. */
static void json_row(const struct hetccl_perf_printer *printer, const struct hetccl_perf_row *row)
{
    FILE *json = printer->json;

    fprintf(json,
            "%s\n  {\"collective\": \"%s\", \"size\": %zu, \"count\": %zu, \"type\": \"%s\", \"redop\": "
            "\"%s\", \"root\": %d",
            printer->totals.n_rows > 0 ? "," : "", hetccl_trial_name(row->trial.kind), row->size_bytes,
            row->trial.count, hetccl_reference_type_name(row->trial.reference.type),
            hetccl_reference_op_name(row->trial.reference.op), row->has_root ? (int)row->trial.root : -1);
    json_measure(json, "out_of_place", row, &row->out_of_place);
    json_measure(json, "in_place", row, &row->in_place);
    fprintf(json,
            ", \"cross_bytes\": %" PRIu64 ", \"bound_bytes\": %" PRIu64 ", \"plan\": \"%s\", \"small\": %s}",
            crossed_bytes(row), row->bound_bytes, row->plan, row->is_small ? "true" : "false");
}

static void add_to_totals(struct hetccl_perf_totals *totals, const struct hetccl_perf_row *row)
{
    const struct hetccl_perf_measure *measures[2] = {&row->out_of_place, &row->in_place};

    totals->n_rows++;
    totals->n_off_bound += !hetccl_perf_row_is_at_bound(row);
    for (int i = 0; i < 2; i++) {
        totals->n_wrong += measures[i]->n_wrong;
        totals->n_bus += measures[i]->is_there;
        totals->bus_sum += measures[i]->is_there ? bus_bandwidth(row, measures[i]) : 0.0;
    }
}

void hetccl_perf_printer_row(struct hetccl_perf_printer *printer, const struct hetccl_perf_row *row)
{
    clear_progress(printer);
    printf("%12zu %13zu %9s %7s %5d", row->size_bytes, row->trial.count,
           hetccl_reference_type_name(row->trial.reference.type),
           hetccl_reference_op_name(row->trial.reference.op), row->has_root ? (int)row->trial.root : -1);
    print_measure(row, &row->out_of_place);
    print_measure(row, &row->in_place);
    print_rest(printer, row);
    (void)fflush(stdout);
    if (printer->json != NULL)
        json_row(printer, row);
    add_to_totals(&printer->totals, row);
}

bool hetccl_perf_printer_close(struct hetccl_perf_printer *printer)
{
    const struct hetccl_perf_totals *totals = &printer->totals;
    bool is_right = totals->n_wrong == 0 && totals->n_off_bound == 0;

    clear_progress(printer);
    printf("#\n# Out of bounds values : %" PRIu64 " %s\n", totals->n_wrong,
           totals->n_wrong == 0 ? "OK" : "FAILED");
    printf("# Avg bus bandwidth    : %g\n",
           totals->n_bus > 0 ? totals->bus_sum / (double)totals->n_bus : 0.0);
    printf("# Rows off the bound   : %" PRIu64 " %s\n#\n", totals->n_off_bound,
           totals->n_off_bound == 0 ? "OK" : "FAILED");
    (void)fflush(stdout);
    if (printer->json == NULL)
        return is_right;
    fprintf(printer->json, "\n ],\n \"wrong\": %" PRIu64 ", \"rows_off_bound\": %" PRIu64 "}\n",
            totals->n_wrong, totals->n_off_bound);
    if (ferror(printer->json) != 0 || fclose(printer->json) != 0) {
        (void)fprintf(stderr, "hetccl perf: can't write %s\n", printer->json_path);
        is_right = false;
    }
    return is_right;
}
