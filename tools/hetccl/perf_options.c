/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "perf.h"
#include "words.h"

enum {
    OPTION_ISLANDS = 256,
    OPTION_ORDER,
    OPTION_HOSTS,
    OPTION_LINK,
    OPTION_DEVICE,
    OPTION_GRAPH,
    OPTION_CHECK,
    OPTION_JSON,
    OPTION_ID_FILE,
    OPTION_TIMEOUT,
    OPTION_SEED,
    OPTION_AS_RANK,
    OPTION_BOARD
};

static const struct option long_options[] = {
    {"ranks", required_argument, NULL, 'n'},
    {"islands", required_argument, NULL, OPTION_ISLANDS},
    {"order", required_argument, NULL, OPTION_ORDER},
    {"hosts", required_argument, NULL, OPTION_HOSTS},
    {"link", required_argument, NULL, OPTION_LINK},
    {"device", required_argument, NULL, OPTION_DEVICE},
    {"graph", required_argument, NULL, OPTION_GRAPH},
    {"minbytes", required_argument, NULL, 'b'},
    {"maxbytes", required_argument, NULL, 'e'},
    {"stepfactor", required_argument, NULL, 'f'},
    {"datatype", required_argument, NULL, 'd'},
    {"op", required_argument, NULL, 'o'},
    {"root", required_argument, NULL, 'r'},
    {"warmup_iters", required_argument, NULL, 'w'},
    {"iters", required_argument, NULL, 'i'},
    {"check", required_argument, NULL, OPTION_CHECK},
    {"json", required_argument, NULL, OPTION_JSON},
    {"id-file", required_argument, NULL, OPTION_ID_FILE},
    {"timeout", required_argument, NULL, OPTION_TIMEOUT},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"help", no_argument, NULL, 'h'},
    {"as-rank", required_argument, NULL, OPTION_AS_RANK}, /* from launch.c */
    {"board", required_argument, NULL, OPTION_BOARD},     /* from launch.c */
    {NULL, 0, NULL, 0},
};

static const char help[] =
    "usage: hetccl perf <collective|all> [options]\n"
    "\n"
    "collective: allreduce allgather reducescatter broadcast reduce alltoall gather scatter sendrecv bcast\n"
    "\n"
    "  -n RANKS               start this many ranks on this machine (4, or as many as the islands have)\n"
    "  --islands V:N,V:N,..   pretend islands: vendor (nvidia, amd, cpu) and number of ranks\n"
    "  --order O              how ranks are numbered: block or interleaved (block)\n"
    "  --hosts K              pretend that the ranks are spread over K hosts\n"
    "  --link KINDS           links between islands: shm, tcp, or both as shm,tcp\n"
    "  --device D             host, cuda, or auto (host)\n"
    "  -b MIN -e MAX -f F     sizes in bytes, from MIN to MAX, each F times the last; K, M, G allowed (8, "
    "8M, 4)\n"
    "  -d TYPE                element type, or all (float)\n"
    "  -o OP                  sum, prod, max, min, avg, premulsum, or all (sum)\n"
    "  -r ROOT                root rank, -1 for all in turn (0)\n"
    "  -w N -i N              calls before the clock starts, calls measured (2, 10)\n"
    "  --graph N              capture N calls in a graph and replay that; for cuda\n"
    "  --check 0|1            compare every element of every result (1)\n"
    "  --json FILE            write the rows to FILE, too\n"
    "  --timeout S            give up after S seconds without progress (120)\n"
    "  --seed N               other data (1)\n"
    "  --id-file FILE         where ranks of mpirun or srun find each other, if NCCL_COMM_ID isn't set\n"
    "\n"
    "Under torchrun, mpirun or srun it is one rank of theirs, and -n may be left out.\n"
    "Exit status: 0 all right; 1 a value is wrong, too much crossed between islands, or a rank failed; 2 "
    "wrong usage.\n";

static int refuse_value(const char *option, const char *value, const char *takes)
{
    return hetccl_words_refuse("perf", "%s %s: takes %s", option, value, takes);
}

static int read_size_option(const char *option, const char *value, size_t *out)
{
    if (!hetccl_words_read_size(value, out))
        return refuse_value(option, value, "a number of bytes; K, M and G are allowed");
    return -1;
}

static int read_count_option(const char *option, const char *value, long min, long max, unsigned *out)
{
    long number;
    char takes[64];

    if (!hetccl_words_read_number(value, min, max, &number)) {
        (void)snprintf(takes, sizeof(takes), "a number from %ld to %ld", min, max);
        return refuse_value(option, value, takes);
    }
    *out = (unsigned)number;
    return -1;
}

static int read_type(struct hetccl_perf_options *options, const char *value)
{
    int type = hetccl_reference_type_find(value);

    if (strcmp(value, "all") == 0)
        options->types = (1u << HETCCL_REFERENCE_TYPES) - 1;
    else if (type >= 0)
        options->types = 1u << type;
    else
        return refuse_value(
            "-d", value,
            "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2 or all");
    return -1;
}

static int read_op(struct hetccl_perf_options *options, const char *value)
{
    int op = hetccl_reference_op_find(value);

    if (strcmp(value, "all") == 0)
        options->ops = ((1u << HETCCL_REFERENCE_OPS) - 1) & ~(1u << HETCCL_REFERENCE_COPY);
    else if (op >= 0)
        options->ops = 1u << op;
    else
        return refuse_value("-o", value, "sum prod max min avg premulsum or all");
    return -1;
}

static int read_link(struct hetccl_perf_options *options, const char *value)
{
    static const char *const known[] = {"shm", "tcp", "shm,tcp", "tcp,shm"};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i], value) == 0)
            options->link = value;
    return options->link != value ? refuse_value("--link", value, "shm, tcp, or shm,tcp") : -1;
}

static int read_device(struct hetccl_perf_options *options, const char *value)
{
    if (strcmp(value, "host") != 0 && strcmp(value, "cuda") != 0 && strcmp(value, "auto") != 0)
        return refuse_value("--device", value, "host, cuda, or auto");
    options->device = value;
    return -1;
}

static int read_root(struct hetccl_perf_options *options, const char *value)
{
    long number;

    if (!hetccl_words_read_number(value, -1, HETCCL_CLUSTER_MAX_RANKS - 1, &number))
        return refuse_value("-r", value, "a rank, or -1 for all");
    options->root = (int)number;
    return -1;
}

/* What describes the cluster and the run. */
static int read_cluster_option(struct hetccl_perf_options *options, int option, const char *value)
{
    char error[160];
    unsigned number = 0;

    switch (option) {
    case 'n':
        return read_count_option("-n", value, 1, HETCCL_CLUSTER_MAX_RANKS, &options->cluster.n_ranks);
    case OPTION_ISLANDS:
        return hetccl_cluster_read_islands(&options->cluster, value, error)
                   ? -1
                   : hetccl_words_refuse("perf", "%s", error);
    case OPTION_ORDER:
        return hetccl_cluster_read_order(&options->cluster, value, error)
                   ? -1
                   : hetccl_words_refuse("perf", "%s", error);
    case OPTION_HOSTS:
        return read_count_option("--hosts", value, 1, HETCCL_CLUSTER_MAX_RANKS, &options->cluster.n_hosts);
    case OPTION_LINK:
        return read_link(options, value);
    case OPTION_DEVICE:
        return read_device(options, value);
    case OPTION_JSON:
        options->json_path = value;
        return -1;
    case OPTION_ID_FILE:
        options->id_path = value;
        return -1;
    case OPTION_TIMEOUT:
        return read_count_option("--timeout", value, 1, 86400, &options->timeout_s);
    case OPTION_AS_RANK:
        (void)read_count_option("--as-rank", value, 0, HETCCL_CLUSTER_MAX_RANKS - 1, &number);
        options->rank = (int)number;
        return -1;
    default: /* OPTION_BOARD */
        (void)read_count_option("--board", value, 0, INT32_MAX, &number);
        options->board_fd = (int)number;
        return -1;
    }
}

/* What describes the calls. */
static int read_call_option(struct hetccl_perf_options *options, int option, const char *value)
{
    unsigned number = 0;
    int status;

    switch (option) {
    case 'b':
        return read_size_option("-b", value, &options->min_bytes);
    case 'e':
        return read_size_option("-e", value, &options->max_bytes);
    case 'f':
        status = read_count_option("-f", value, 2, 1 << 20, &number);
        options->factor = number;
        return status;
    case 'd':
        return read_type(options, value);
    case 'o':
        return read_op(options, value);
    case 'r':
        return read_root(options, value);
    case 'w':
        return read_count_option("-w", value, 0, 1000000, &options->n_warmups);
    case 'i':
        return read_count_option("-i", value, 1, 1000000, &options->n_iterations);
    case 'c':
    case OPTION_CHECK:
        status = read_count_option("--check", value, 0, 1, &number);
        options->is_checked = number == 1;
        return status;
    case OPTION_GRAPH:
        return read_count_option("--graph", value, 1, 10000, &options->n_graph);
    case OPTION_SEED:
        status = read_count_option("--seed", value, 0, INT32_MAX, &number);
        options->seed = number;
        return status;
    default:
        return read_cluster_option(options, option, value);
    }
}

static int read_collective(struct hetccl_perf_options *options, int argc, char **argv)
{
    int kind;

    if (optind >= argc)
        return hetccl_words_refuse("perf",
                                   "no collective given (allreduce, ..., or all); see hetccl perf --help");
    if (optind + 1 < argc)
        return hetccl_words_refuse("perf", "one collective at a time: what is %s?", argv[optind + 1]);
    if (strcmp(argv[optind], "all") == 0) {
        options->kinds = ((1u << HETCCL_TRIAL_KINDS) - 1) & ~(1u << HETCCL_TRIAL_BCAST);
        return -1;
    }
    kind = hetccl_words_find_collective(argv[optind]);
    if (kind < 0)
        return hetccl_words_refuse(
            "perf",
            "unknown collective %s: takes allreduce allgather reducescatter broadcast reduce "
            "alltoall gather scatter sendrecv bcast or all",
            argv[optind]);
    options->kinds = 1u << kind;
    return -1;
}

static int check_options(struct hetccl_perf_options *options)
{
    char error[160];

    if (options->min_bytes > options->max_bytes)
        return hetccl_words_refuse("perf", "-b %zu is more than -e %zu", options->min_bytes,
                                   options->max_bytes);
    if (!hetccl_cluster_place(&options->cluster, HETCCL_PERF_DEFAULT_RANKS, error))
        return hetccl_words_refuse("perf", "%s", error);
    if (options->root >= (int)options->cluster.n_ranks)
        return hetccl_words_refuse("perf", "-r %d: there are only %u ranks", options->root,
                                   options->cluster.n_ranks);
    return -1;
}

/* A launcher's size stands in for -n, and must not contradict it. */
static int adopt_launcher(struct hetccl_perf_options *options)
{
    int rank;
    int n_ranks;

    if (options->rank >= 0 || !hetccl_perf_find_launcher(&rank, &n_ranks))
        return -1;
    if (options->cluster.n_ranks != 0 && options->cluster.n_ranks != (uint32_t)n_ranks)
        return hetccl_words_refuse("perf", "-n %u: but the launcher started %d ranks",
                                   options->cluster.n_ranks, n_ranks);
    options->cluster.n_ranks = (uint32_t)n_ranks;
    options->rank = rank;
    return -1;
}

int hetccl_perf_read_options(struct hetccl_perf_options *options, int argc, char **argv)
{
    int status = -1;
    int option;

    *options = (struct hetccl_perf_options){
        .types = 1u << ncclFloat32,
        .ops = 1u << HETCCL_REFERENCE_SUM,
        .min_bytes = 8,
        .max_bytes = 8u << 20,
        .factor = 4,
        .n_warmups = 2,
        .n_iterations = 10,
        .is_checked = true,
        .timeout_s = 120,
        .seed = 1,
        .rank = -1,
        .board_fd = -1,
    };
    opterr = 0;
    while (status < 0 &&
           (option = getopt_long(argc, argv, ":n:b:e:f:d:o:r:w:i:c:h", long_options, NULL)) != -1) {
        if (option == 'h')
            return fputs(help, stdout) < 0 ? HETCCL_EXIT_FAILED : HETCCL_EXIT_OK;
        if (option == '?' || option == ':')
            status = hetccl_words_refuse("perf", "%s %s; see hetccl perf --help",
                                         option == ':' ? "no value for" : "unknown option", argv[optind - 1]);
        else
            status = read_call_option(options, option, optarg);
    }
    if (status < 0)
        status = read_collective(options, argc, argv);
    if (status < 0)
        status = adopt_launcher(options);
    return status < 0 ? check_options(options) : status;
}
