/* SPDX-License-Identifier: Apache-2.0 */
#include "ct.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <hetccl/hetccl.h>

enum option_kind { OPTION_TEXT, OPTION_INT, OPTION_LONG };

struct option_entry {
    const char *name;
    enum option_kind kind;
    size_t offset;
};

static const struct option_entry entries[] = {
    {"--rank", OPTION_INT, offsetof(struct ct_options, rank)},
    {"--size", OPTION_INT, offsetof(struct ct_options, size)},
    {"--idfile", OPTION_TEXT, offsetof(struct ct_options, idfile)},
    {"--op", OPTION_TEXT, offsetof(struct ct_options, op)},
    {"--dtype", OPTION_TEXT, offsetof(struct ct_options, dtype)},
    {"--redop", OPTION_TEXT, offsetof(struct ct_options, redop)},
    {"--count", OPTION_TEXT, offsetof(struct ct_options, counts)},
    {"--variant", OPTION_TEXT, offsetof(struct ct_options, variant)},
    {"--device", OPTION_TEXT, offsetof(struct ct_options, device)},
    {"--stream", OPTION_TEXT, offsetof(struct ct_options, stream)},
    {"--root", OPTION_LONG, offsetof(struct ct_options, root)},
    {"--seed", OPTION_LONG, offsetof(struct ct_options, seed)},
    {"--iters", OPTION_LONG, offsetof(struct ct_options, iters)},
    {"--inplace", OPTION_LONG, offsetof(struct ct_options, inplace)},
    {"--delay-ms", OPTION_LONG, offsetof(struct ct_options, delay_ms)},
    {"--hold-ms", OPTION_LONG, offsetof(struct ct_options, hold_ms)},
    {"--limit", OPTION_LONG, offsetof(struct ct_options, limit)},
};

const struct ct_scenario ct_scenarios[] = {
    {"empty", ct_scenario_empty, false},       {"guards", ct_scenario_guards, false},
    {"exchange", ct_scenario_exchange, false}, {"blocked", ct_scenario_blocked, false},
    {"big", ct_scenario_big, false},           {"average", ct_scenario_average, false},
    {"nan", ct_scenario_nan, false},           {"lowsum", ct_scenario_lowsum, false},
    {"bits", ct_scenario_bits, false},         {"cycle", ct_scenario_cycle, true},
    {"many", ct_scenario_many, false},         {"loop", ct_scenario_loop, true},
    {"latency", ct_scenario_latency, false},   {"fork", ct_scenario_fork, false},
    {"abort", ct_scenario_abort, false},       {"abort-init", ct_scenario_abort_init, true},
    {"leave", ct_scenario_leave, false},       {"mismatch", ct_scenario_mismatch, false},
    {"graph", ct_scenario_graph, false},       {"streams", ct_scenario_streams, false},
    {"quiet", ct_scenario_quiet, false},       {NULL, ct_scenario_collectives, false},
};

int ct_fail(struct ct *ct, int code, const char *format, ...)
{
    va_list args;

    if (ct->error[0] == '\0') {
        va_start(args, format);
        (void)vsnprintf(ct->error, sizeof(ct->error), format, args);
        va_end(args);
    }
    return code;
}

int ct_fail_call(struct ct *ct, const char *call, ncclResult_t result)
{
    return ct_fail(ct, (int)result, "%s gave %d: %s", call, (int)result, ncclGetLastError(ct->comm));
}

void ct_note(struct ct *ct, const char *format, ...)
{
    size_t used = strlen(ct->notes);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(ct->notes + used, sizeof(ct->notes) - used, format, args);
    va_end(args);
}

double ct_now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void ct_sleep_ms(long ms)
{
    struct timespec wait = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    while (nanosleep(&wait, &wait) != 0 && errno == EINTR)
        continue;
}

void ct_sleep_us(long us)
{
    struct timespec wait = {.tv_nsec = us * 1000};

    (void)nanosleep(&wait, NULL);
}

void ct_crc(struct ct *ct, const void *data, size_t bytes)
{
    static uint32_t table[256];
    const unsigned char *byte = data;
    uint32_t crc = ~ct->crc;

    for (uint32_t i = 0; table[255] == 0 && i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = table[i] >> 1 ^ ((table[i] & 1) != 0 ? 0xedb88320u : 0);
    }
    for (size_t i = 0; i < bytes; i++)
        crc = crc >> 8 ^ table[(crc ^ byte[i]) & 255];
    ct->crc = ~crc;
}

static long count_entries(const char *path)
{
    DIR *directory = opendir(path);
    long n = 0;

    if (directory == NULL)
        return -1;
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory))
        n += entry->d_name[0] != '.';
    closedir(directory);
    return n;
}

long ct_count_threads(void)
{
    return count_entries("/proc/self/task");
}

long ct_count_fds(void)
{
    return count_entries("/proc/self/fd") - 1; /* the one that is used for counting */
}

static long status_bytes(const char *name)
{
    char line[256];
    long kib = 0;
    FILE *file = fopen("/proc/self/status", "re");

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            kib = atol(line + strlen(name));
    if (file != NULL)
        (void)fclose(file);
    return kib * 1024;
}

long ct_rss_bytes(void)
{
    return status_bytes("VmRSS:");
}

long ct_peak_rss_bytes(void)
{
    return status_bytes("VmHWM:");
}

bool ct_list_entry(const char *list, int n, size_t *out)
{
    for (; n > 0; n--) {
        list = strchr(list, ',');
        if (list == NULL)
            return false;
        list++;
    }
    *out = strtoull(list, NULL, 10);
    return true;
}

static bool read_options(struct ct_options *options, int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2) {
        const struct option_entry *found = NULL;

        for (size_t k = 0; k < sizeof(entries) / sizeof(entries[0]); k++)
            if (strcmp(entries[k].name, argv[i]) == 0)
                found = &entries[k];
        if (found == NULL || i + 1 == argc) {
            (void)fprintf(stderr, "ct: what is %s?\n", argv[i]);
            return false;
        }
        if (found->kind == OPTION_TEXT)
            *(const char **)((char *)options + found->offset) = argv[i + 1];
        else if (found->kind == OPTION_INT)
            *(int *)((char *)options + found->offset) = atoi(argv[i + 1]);
        else
            *(long *)((char *)options + found->offset) = atol(argv[i + 1]);
    }
    return options->size > 0 && options->rank >= 0 && options->op != NULL;
}

static int publish_id(struct ct *ct)
{
    ncclResult_t result = ncclGetUniqueId(&ct->id);
    size_t n_ids = result == ncclSuccess;
    char aside[512];
    FILE *file;

    /* Without an id the file is empty: the others need not wait. */
    (void)snprintf(aside, sizeof(aside), "%s.new", ct->options.idfile);
    file = fopen(aside, "wbe");
    if (file == NULL || fwrite(&ct->id, sizeof(ct->id), n_ids, file) != n_ids || fclose(file) != 0 ||
        rename(aside, ct->options.idfile) != 0)
        return ct_fail(ct, CT_SETUP, "can't write %s: %s", ct->options.idfile, strerror(errno));
    return result == ncclSuccess ? CT_OK : ct_fail_call(ct, "ncclGetUniqueId", result);
}

int ct_find_id(struct ct *ct)
{
    ncclResult_t result;
    FILE *file = NULL;

    ct_sleep_ms(ct->options.delay_ms);
    if (ct->options.idfile == NULL) { /* NCCL_COMM_ID is set */
        result = ncclGetUniqueId(&ct->id);
        return result == ncclSuccess ? CT_OK : ct_fail_call(ct, "ncclGetUniqueId", result);
    }
    if (ct->options.rank == 0)
        return publish_id(ct);
    for (int tries = 0; tries < 60000 && file == NULL; tries++) {
        file = fopen(ct->options.idfile, "rbe");
        if (file == NULL)
            ct_sleep_ms(2);
    }
    if (file == NULL || fread(&ct->id, sizeof(ct->id), 1, file) != 1)
        return ct_fail(ct, CT_SETUP, "no id in %s", ct->options.idfile);
    (void)fclose(file);
    return CT_OK;
}

int ct_join(struct ct *ct)
{
    hetcclCommInfo_t info = {.size = sizeof(info)};
    hetcclRankInfo_t peer = {.size = sizeof(peer)};
    double start = ct_now_s();
    ncclResult_t result = ncclCommInitRank(&ct->comm, ct->options.size, ct->id, ct->options.rank);

    ct->init_s = ct_now_s() - start;
    if (result != ncclSuccess) {
        ct->comm = NULL;
        return ct_fail_call(ct, "ncclCommInitRank", result);
    }
    if (hetcclCommInfo(ct->comm, &info) != 0 ||
        hetcclRankInfo(ct->comm, (ct->options.rank + 1) % ct->options.size, &peer) != 0)
        return ct_fail(ct, CT_SETUP, "the communicator can't be asked");
    ct_note(ct, " islands=%d hosts=%d engine=%s", info.nIslands, info.nHosts, info.engine);
    return CT_OK;
}

static const char *mark_path(const struct ct *ct, const char *name, int rank, char *out, size_t bytes)
{
    (void)snprintf(out, bytes, "%s.%s.%d", ct->options.idfile, name, rank);
    return out;
}

void ct_mark(const struct ct *ct, const char *name)
{
    char path[512];
    FILE *file = fopen(mark_path(ct, name, ct->options.rank, path, sizeof(path)), "wbe");

    if (file != NULL)
        (void)fclose(file);
}

bool ct_is_marked(const struct ct *ct, const char *name, int rank)
{
    char path[512];

    return access(mark_path(ct, name, rank, path, sizeof(path)), F_OK) == 0;
}

static const struct ct_scenario *find_scenario(const char *name)
{
    const struct ct_scenario *scenario = ct_scenarios;

    while (scenario->name != NULL && strcmp(scenario->name, name) != 0)
        scenario++;
    return scenario;
}

static int run(struct ct *ct)
{
    const struct ct_scenario *scenario = find_scenario(ct->options.op);
    int code = ct_device_open(ct);

    if (code == CT_OK)
        code = ct_find_id(ct);
    if (code == CT_OK && !scenario->makes_comm)
        code = ct_join(ct);
    return code == CT_OK ? scenario->run(ct) : code;
}

static void note_link(struct ct *ct)
{
    hetcclRankInfo_t peer = {.size = sizeof(peer)};
    hetcclCommInfo_t info = {.size = sizeof(info)};

    if (ct->comm == NULL || hetcclRankInfo(ct->comm, (ct->options.rank + 1) % ct->options.size, &peer) != 0)
        return;
    ct_note(ct, " link=%s", peer.link[0] != '\0' ? peer.link : "-");
    if (hetcclCommInfo(ct->comm, &info) == 0)
        ct_note(ct, " plan=%s", info.lastPlan[0] != '\0' ? info.lastPlan : "-");
}

static int leave(struct ct *ct, int code)
{
    ncclResult_t result;

    /* What runs for a failed communicator ends by itself. */
    if (!ct_becomes_idle(ct, ct->stream, 10))
        code = ct_fail(ct, CT_WRONG, "the stream doesn't become idle");
    if (ct->comm == NULL)
        return code;
    if (code != CT_OK && strcmp(ct->options.variant, "destroy") != 0) {
        (void)ncclCommAbort(ct->comm);
        return code;
    }
    result = ncclCommDestroy(ct->comm);
    return result == ncclSuccess ? code : ct_fail(ct, (int)result, "ncclCommDestroy gave %d", (int)result);
}

int main(int argc, char **argv)
{
    struct ct ct = {.options = {.size = 1,
                                .dtype = "float",
                                .redop = "sum",
                                .counts = "1000",
                                .variant = "",
                                .device = "host",
                                .stream = "own",
                                .iters = 1,
                                .seed = 1}};
    double start = ct_now_s();
    int code;

    if (!read_options(&ct.options, argc, argv))
        return 2;
    code = run(&ct);
    ct_sleep_ms(ct.options.hold_ms);
    note_link(&ct);
    code = leave(&ct, code);
    if (code != CT_OK)
        (void)fprintf(stderr, "ct[%d]: %s\n", ct.options.rank, ct.error);
    printf("%d %d %.3f %ld %ld %ld %08x init=%.3f%s\n", ct.options.rank, code, ct_now_s() - start,
           ct_count_fds(), ct_count_threads(), ct_rss_bytes(), ct.crc, ct.init_s, ct.notes);
    (void)fflush(stdout);
    return code == CT_OK ? 0 : 1;
}
