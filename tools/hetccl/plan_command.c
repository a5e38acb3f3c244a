/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "commands.h"
#include "perf.h"
#include "plan/plan.h"
#include "plan/print.h"
#include "topo/topo.h"
#include "words.h"

/* `hetccl plan`: builds the plans of all ranks of a described cluster, as the library would, and prints them.
 */

enum {
    OPTION_ISLANDS = 256,
    OPTION_ORDER,
    OPTION_HOSTS,
    OPTION_LINK,
    OPTION_SIZE,
    OPTION_RANK,
    OPTION_ALGO,
    OPTION_ROOT,
    OPTION_IN_PLACE,
    OPTION_ALGOS
};

static const struct option long_options[] = {
    {"ranks", required_argument, NULL, 'n'},
    {"islands", required_argument, NULL, OPTION_ISLANDS},
    {"order", required_argument, NULL, OPTION_ORDER},
    {"hosts", required_argument, NULL, OPTION_HOSTS},
    {"link", required_argument, NULL, OPTION_LINK},
    {"size", required_argument, NULL, OPTION_SIZE},
    {"datatype", required_argument, NULL, 'd'},
    {"op", required_argument, NULL, 'o'},
    {"rank", required_argument, NULL, OPTION_RANK},
    {"algo", required_argument, NULL, OPTION_ALGO},
    {"root", required_argument, NULL, OPTION_ROOT},
    {"in-place", no_argument, NULL, OPTION_IN_PLACE},
    {"algos", no_argument, NULL, OPTION_ALGOS},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static const char help[] =
    "usage: hetccl plan <collective> [options]\n"
    "\n"
    "collective: allreduce allgather reducescatter broadcast reduce alltoall gather scatter\n"
    "\n"
    "  -n RANKS               ranks (4, or as many as the islands have)\n"
    "  --islands V:N,V:N,..   islands: vendor (nvidia, amd, cpu) and number of ranks\n"
    "  --order O              how ranks are numbered: block or interleaved (block)\n"
    "  --hosts K              the ranks are spread over K hosts (1)\n"
    "  --link KINDS           links between islands: shm, tcp, or shm,tcp (shm,tcp)\n"
    "  --size BYTES           size as hetccl perf has it; K, M, G allowed (1M)\n"
    "  -d TYPE                element type (float)\n"
    "  -o OP                  operator (sum)\n"
    "  --root R               root rank (0)\n"
    "  --rank R               print this rank's steps, all for every rank's (0)\n"
    "  --algo NAME            this algorithm instead of the cheapest\n"
    "  --algos                only list the algorithms that fit the collective\n"
    "  --in-place             the call is in place\n"
    "\n"
    "HETCCL_CHUNK_BYTES, _SMALL_BYTES and _ALGO count as they do for the library.\n";

struct plan_options {
    struct hetccl_cluster cluster;
    enum hetccl_coll coll;
    enum hetccl_trial_kind kind;
    size_t size_bytes;
    int type, op;
    long rank; /* -1: all */
    long root;
    const char *algo; /* NULL: as configured */
    uint32_t link_kinds;
    bool is_in_place, only_algorithms;
};

static int refuse_value(const char *option, const char *value, const char *takes)
{
    return hetccl_words_refuse("plan", "%s %s: takes %s", option, value, takes);
}

static int read_link(struct plan_options *options, const char *value)
{
    uint32_t shm = 1u << HETCCL_LINK_SHM;
    uint32_t tcp = 1u << HETCCL_LINK_TCP;

    if (strcmp(value, "shm") == 0)
        options->link_kinds = shm;
    else if (strcmp(value, "tcp") == 0)
        options->link_kinds = tcp;
    else if (strcmp(value, "shm,tcp") == 0)
        options->link_kinds = shm | tcp;
    else
        return refuse_value("--link", value, "shm, tcp, or shm,tcp");
    return -1;
}

static int read_ranks(const char *option, const char *value, uint32_t *out)
{
    long number;

    if (!hetccl_words_read_number(value, 1, HETCCL_CLUSTER_MAX_RANKS, &number))
        return refuse_value(option, value, "a number from 1 to 4096");
    *out = (uint32_t)number;
    return -1;
}

static int read_cluster_option(struct plan_options *options, int option, const char *value)
{
    char error[160];

    switch (option) {
    case 'n':
        return read_ranks("-n", value, &options->cluster.n_ranks);
    case OPTION_HOSTS:
        return read_ranks("--hosts", value, &options->cluster.n_hosts);
    case OPTION_ISLANDS:
        return hetccl_cluster_read_islands(&options->cluster, value, error)
                   ? -1
                   : hetccl_words_refuse("plan", "%s", error);
    case OPTION_ORDER:
        return hetccl_cluster_read_order(&options->cluster, value, error)
                   ? -1
                   : hetccl_words_refuse("plan", "%s", error);
    default:
        return read_link(options, value);
    }
}

static int read_rank(struct plan_options *options, int option, const char *value)
{
    long *target = option == OPTION_RANK ? &options->rank : &options->root;

    if (option == OPTION_RANK && strcmp(value, "all") == 0)
        *target = -1;
    else if (!hetccl_words_read_number(value, 0, HETCCL_CLUSTER_MAX_RANKS - 1, target))
        return refuse_value(option == OPTION_RANK ? "--rank" : "--root", value, "a rank");
    return -1;
}

static int read_option(struct plan_options *options, int option, const char *value)
{
    switch (option) {
    case OPTION_SIZE:
        if (!hetccl_words_read_size(value, &options->size_bytes))
            return refuse_value("--size", value, "a number of bytes; K, M and G are allowed");
        return -1;
    case 'd':
        options->type = hetccl_reference_type_find(value);
        return options->type < 0 ? refuse_value("-d", value, "a type such as float, half, bfloat16, int32")
                                 : -1;
    case 'o':
        options->op = hetccl_reference_op_find(value);
        return options->op < 0 ? refuse_value("-o", value, "sum prod max min avg premulsum") : -1;
    case OPTION_RANK:
    case OPTION_ROOT:
        return read_rank(options, option, value);
    case OPTION_ALGO:
        options->algo = value;
        return -1;
    case OPTION_IN_PLACE:
        options->is_in_place = true;
        return -1;
    case OPTION_ALGOS:
        options->only_algorithms = true;
        return -1;
    default:
        return read_cluster_option(options, option, value);
    }
}

/* -1: not a collective that is planned as one. */
static const int coll_of_kind[HETCCL_TRIAL_KINDS] = {
    [HETCCL_TRIAL_ALLREDUCE] = HETCCL_ALLREDUCE,
    [HETCCL_TRIAL_ALLGATHER] = HETCCL_ALLGATHER,
    [HETCCL_TRIAL_REDUCE_SCATTER] = HETCCL_REDUCE_SCATTER,
    [HETCCL_TRIAL_BROADCAST] = HETCCL_BROADCAST,
    [HETCCL_TRIAL_REDUCE] = HETCCL_REDUCE,
    [HETCCL_TRIAL_ALLTOALL] = HETCCL_ALLTOALL,
    [HETCCL_TRIAL_GATHER] = HETCCL_GATHER,
    [HETCCL_TRIAL_SCATTER] = HETCCL_SCATTER,
    [HETCCL_TRIAL_SENDRECV] = -1,
    [HETCCL_TRIAL_BCAST] = HETCCL_BROADCAST,
};

static int read_collective(struct plan_options *options, int argc, char **argv)
{
    int kind;
    int coll;

    if (optind + 1 != argc)
        return hetccl_words_refuse("plan", optind >= argc
                                               ? "no collective given; see hetccl plan --help"
                                               : "one collective at a time; see hetccl plan --help");
    kind = hetccl_words_find_collective(argv[optind]);
    coll = kind >= 0 ? coll_of_kind[kind] : -1;
    if (coll < 0)
        return hetccl_words_refuse(
            "plan",
            "unknown collective %s: takes allreduce allgather reducescatter broadcast reduce "
            "alltoall gather scatter",
            argv[optind]);
    options->kind = (enum hetccl_trial_kind)kind;
    options->coll = (enum hetccl_coll)coll;
    return -1;
}

static int read_options(struct plan_options *options, int argc, char **argv)
{
    char error[160];
    int status = -1;
    int option;

    *options = (struct plan_options){
        .size_bytes = 1u << 20,
        .type = ncclFloat32,
        .op = HETCCL_REFERENCE_SUM,
        .link_kinds = 1u << HETCCL_LINK_SHM | 1u << HETCCL_LINK_TCP,
    };
    opterr = 0;
    while (status < 0 && (option = getopt_long(argc, argv, ":n:d:o:h", long_options, NULL)) != -1) {
        if (option == 'h')
            return fputs(help, stdout) < 0 ? HETCCL_EXIT_FAILED : HETCCL_EXIT_OK;
        if (option == '?' || option == ':')
            status = hetccl_words_refuse("plan", "%s %s; see hetccl plan --help",
                                         option == ':' ? "no value for" : "unknown option", argv[optind - 1]);
        else
            status = read_option(options, option, optarg);
    }
    if (status < 0)
        status = read_collective(options, argc, argv);
    if (status >= 0)
        return status;
    if (!hetccl_cluster_place(&options->cluster, HETCCL_PERF_DEFAULT_RANKS, error))
        return hetccl_words_refuse("plan", "%s", error);
    if (options->rank >= (long)options->cluster.n_ranks || options->root >= (long)options->cluster.n_ranks)
        return hetccl_words_refuse("plan", "there are only %u ranks", options->cluster.n_ranks);
    return -1;
}

static bool build_topo(const struct plan_options *options, struct hetccl_topo *out)
{
    uint32_t n_ranks = options->cluster.n_ranks;
    struct hetccl_rank_facts *facts = calloc(n_ranks, sizeof(*facts));
    struct hetccl_topo_args args = {.n_ranks = n_ranks, .facts = facts};
    bool is_built;

    if (facts == NULL)
        return false;
    for (uint32_t rank = 0; rank < n_ranks; rank++) {
        const char *vendor = hetccl_cluster_vendor(&options->cluster, rank);

        facts[rank].host_key = options->cluster.host_of[rank] + 1u;
        facts[rank].vendor = (enum hetccl_vendor)hetccl_vendor_find(vendor != NULL ? vendor : "cpu");
        facts[rank].engine = HETCCL_ENGINE_SHM;
        facts[rank].link_kinds = options->link_kinds;
    }
    for (int kind = 0; kind < HETCCL_LINK_KINDS; kind++)
        args.link_cost[kind] = hetccl_topo_default_link_cost((enum hetccl_link_kind)kind);
    for (int kind = 0; kind < HETCCL_ENGINE_KINDS; kind++)
        args.engine_cost[kind] = hetccl_topo_default_engine_cost((enum hetccl_engine_kind)kind);
    is_built = hetccl_topo_build(&args, out) == HETCCL_OK;
    free(facts);
    return is_built;
}

static struct hetccl_plan_request make_request(const struct plan_options *options,
                                               const struct hetccl_config *config)
{
    size_t elem_bytes = hetccl_reference_type_bytes((ncclDataType_t)options->type);
    size_t n_shares = hetccl_trial_is_shared(options->kind) ? options->cluster.n_ranks : 1;
    bool is_float = hetccl_reference_type_is_float((ncclDataType_t)options->type);

    return (struct hetccl_plan_request){
        .coll = options->coll,
        .root = (uint32_t)options->root,
        .count = options->size_bytes / elem_bytes / n_shares,
        .elem_bytes = elem_bytes,
        .is_in_place = options->is_in_place,
        .has_scale =
            options->op == HETCCL_REFERENCE_PREMULSUM || (options->op == HETCCL_REFERENCE_AVG && is_float),
        .chunk_bytes = (size_t)config->chunk_bytes,
        .small_bytes = (size_t)config->small_bytes,
        .algo = options->algo != NULL ? options->algo : config->algo,
    };
}

static bool build_plans(const struct hetccl_topo *topo, struct hetccl_plan_request request,
                        struct hetccl_plan **plans)
{
    for (uint32_t rank = 0; rank < topo->n_ranks; rank++) {
        request.rank = rank;
        if (hetccl_plan_build(topo, &request, &plans[rank]) != HETCCL_OK)
            return false;
    }
    return true;
}

/* What each pair of ranks of different islands sends, straight from the plans. */
static void print_links(const struct hetccl_topo *topo, struct hetccl_plan *const *plans, size_t elem_bytes,
                        FILE *stream)
{
    uint64_t *counts = calloc(topo->n_ranks, sizeof(*counts));

    if (counts == NULL)
        return;
    fprintf(stream, "bytes per link\n");
    for (uint32_t rank = 0; rank < topo->n_ranks; rank++) {
        memset(counts, 0, topo->n_ranks * sizeof(*counts));
        for (uint32_t i = 0; i < plans[rank]->n_steps; i++)
            if (plans[rank]->steps[i].kind == HETCCL_STEP_SEND)
                counts[plans[rank]->steps[i].peer] += plans[rank]->steps[i].src.count;
        for (uint32_t peer = 0; peer < topo->n_ranks; peer++) {
            enum hetccl_link_kind kind;
            bool has_link = hetccl_topo_link_kind(topo, rank, peer, &kind) == HETCCL_OK;

            if (counts[peer] > 0)
                fprintf(stream, "  %4u -> %-4u %-6s %14" PRIu64 "\n", rank, peer,
                        has_link ? hetccl_link_name(kind) : "?", counts[peer] * elem_bytes);
        }
    }
    free(counts);
}

static void print_islands(const struct hetccl_topo *topo, FILE *stream)
{
    for (uint32_t i = 0; i < topo->n_islands; i++) {
        const struct hetccl_island *island = &topo->islands[i];

        fprintf(stream, "island %u: %s, engine %s, ranks", i, hetccl_vendor_name(island->vendor),
                hetccl_engine_name(island->engine));
        for (uint32_t k = 0; k < island->n_ranks; k++)
            fprintf(stream, " %u", island->ranks[k]);
        fprintf(stream, "\n");
    }
}

static void print_sums(const struct hetccl_topo *topo, const struct hetccl_plan_request *request,
                       struct hetccl_plan *const *plans, FILE *stream)
{
    uint64_t bound =
        hetccl_plan_bound_bytes(topo, request->coll, request->count, request->elem_bytes, request->root);
    uint64_t crossed = 0;

    for (uint32_t rank = 0; rank < topo->n_ranks; rank++)
        crossed += plans[rank]->cross_count * request->elem_bytes;
    fprintf(stream, "cross bytes %" PRIu64 ", bound %" PRIu64, crossed, bound);
    if (bound > 0)
        fprintf(stream, ", cross/bound %.2f", (double)crossed / (double)bound);
    fprintf(stream, "%s\npredicted %.1f us\n", plans[0]->is_small ? " (small-message plan)" : "",
            plans[0]->predicted_us);
}

static int print_plans(const struct plan_options *options, const struct hetccl_topo *topo,
                       const struct hetccl_plan_request *request, struct hetccl_plan *const *plans)
{
    printf("%s of %zu elements of %zu bytes, %u ranks, %u islands, %u hosts, plan %s\n",
           hetccl_coll_name(request->coll), request->count, request->elem_bytes, topo->n_ranks,
           topo->n_islands, topo->n_hosts, plans[0]->name);
    print_islands(topo, stdout);
    for (uint32_t rank = 0; rank < topo->n_ranks; rank++)
        if ((options->rank < 0 || options->rank == (long)rank) &&
            hetccl_plan_print(topo, plans[rank], request->elem_bytes, stdout) != HETCCL_OK)
            return hetccl_words_refuse("plan", "%s", hetccl_last_error_thread());
    print_links(topo, plans, request->elem_bytes, stdout);
    print_sums(topo, request, plans, stdout);
    return fflush(stdout) == 0 ? HETCCL_EXIT_OK : HETCCL_EXIT_FAILED;
}

static int plan_all(const struct plan_options *options)
{
    struct hetccl_plan_request request;
    struct hetccl_config config;
    struct hetccl_plan **plans;
    struct hetccl_topo topo;
    int status;

    if (hetccl_config_parse(&config) != HETCCL_OK || !build_topo(options, &topo))
        return hetccl_words_refuse("plan", "%s", hetccl_last_error_thread());
    request = make_request(options, &config);
    plans = calloc(topo.n_ranks, sizeof(struct hetccl_plan *));
    if (plans != NULL && build_plans(&topo, request, plans))
        status = print_plans(options, &topo, &request, plans);
    else
        status = hetccl_words_refuse("plan", "%s", plans != NULL ? hetccl_last_error_thread() : "no memory");
    for (uint32_t rank = 0; plans != NULL && rank < topo.n_ranks; rank++)
        hetccl_plan_destroy(plans[rank]);
    free(plans);
    hetccl_topo_fini(&topo);
    return status;
}

static int list_algorithms(enum hetccl_coll coll)
{
    for (const char *const *name = hetccl_plan_algorithms(coll); *name != NULL; name++)
        printf("%s\n", *name);
    return fflush(stdout) == 0 ? HETCCL_EXIT_OK : HETCCL_EXIT_FAILED;
}

int hetccl_command_plan(int argc, char **argv)
{
    struct plan_options options;
    int status = read_options(&options, argc, argv);

    if (status < 0)
        status = options.only_algorithms ? list_algorithms(options.coll) : plan_all(&options);
    hetccl_cluster_fini(&options.cluster);
    return status;
}
