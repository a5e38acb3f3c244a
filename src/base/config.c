/* SPDX-License-Identifier: Apache-2.0 */
#include "base/config.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

extern char **environ;

enum setting_type { TYPE_TEXT, TYPE_SIZE, TYPE_BOOL, TYPE_CHOICE, TYPE_PORTS };

struct setting {
    const char *name;  /* without HETCCL_ */
    const char *alias; /* the NCCL_* name users already set, or NULL */
    enum setting_type type;
    size_t offset;
    const char *unit;
    const char *fallback; /* as text, read by the same code as a user's value */
    uint64_t min, max;    /* TYPE_SIZE */
    const char *choices;  /* TYPE_CHOICE: space-separated, in the order of the enumerators */
    bool is_wire;         /* must be equal on all ranks */
    const char *help;
};

#define AT(field) offsetof(struct hetccl_config, field)

static const struct setting settings[] = {
    {"DEBUG", "NCCL_DEBUG", TYPE_CHOICE, AT(debug), "", "NONE", 0, 0, "NONE WARN INFO DEBUG TRACE", false,
     "how much is logged"},
    {"DEBUG_FILE", "NCCL_DEBUG_FILE", TYPE_TEXT, AT(debug_file), "path", "", 0, 0, NULL, false,
     "where the log goes instead of stderr; %h is the host, %p the process"},
    {"SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", TYPE_TEXT, AT(socket_ifname), "", "", 0, 0, NULL, false,
     "interfaces to use: a list of name prefixes; a leading = asks for exact names, a leading ^ excludes"},
    {"SOCKET_FAMILY", "NCCL_SOCKET_FAMILY", TYPE_CHOICE, AT(socket_family), "", "ANY", 0, 0,
     "ANY AF_INET AF_INET6", false, "address family of all sockets"},
    {"COMM_ID", "NCCL_COMM_ID", TYPE_TEXT, AT(comm_id), "host:port", "", 0, 0, NULL, false,
     "a fixed root: rank 0 listens there and no id need be passed around"},
    {"PORT_RANGE", NULL, TYPE_PORTS, AT(port_first), "first-last", "", 0, 0, NULL, false,
     "ports that listeners may take, for firewalls"},
    {"DEVICE", NULL, TYPE_CHOICE, AT(device), "", "auto", 0, 0, "auto host cuda hip", false,
     "what ranks compute on; auto is cuda where an NVIDIA GPU is found, else host"},
    {"ENGINE", NULL, TYPE_CHOICE, AT(engine), "", "auto", 0, 0, "auto ccl p2p none", true,
     "what runs collectives among GPUs of one vendor: the vendor's library, GPU memory mapped by IPC, "
     "nothing; "
     "auto takes the first that can"},
    {"VENDOR", NULL, TYPE_TEXT, AT(vendor), "", "", 0, 0, NULL, false,
     "pretend vendor (nvidia, amd, cpu); a comma list gives rank r the entry r mod length"},
    {"HOST_ID", NULL, TYPE_TEXT, AT(host_id), "", "", 0, 0, NULL, false,
     "pretend host; a comma list gives rank r the entry r mod length"},
    {"ISLAND_SPLIT", NULL, TYPE_TEXT, AT(island_split), "ranks", "", 0, 0, NULL, true,
     "cut each island into pretend islands of these sizes, in rank order (\"1,3\")"},
    {"LINK", NULL, TYPE_TEXT, AT(link), "", "shm,tcp", 0, 0, NULL, true, "allowed link kinds, best first"},
    {"ALGO", NULL, TYPE_TEXT, AT(algo), "", "", 0, 0, NULL, true,
     "force a plan by name; empty lets the cost model choose"},
    {"SHM_DISABLE", "NCCL_SHM_DISABLE", TYPE_BOOL, AT(shm_disable), "", "0", 0, 0, NULL, false,
     "1: no shared memory, neither links nor engine"},
    {"CHUNK_BYTES", NULL, TYPE_SIZE, AT(chunk_bytes), "bytes", "1M", 1, 1ull << 32, NULL, true,
     "bytes of a rank's share that flow through the pipeline at a time"},
    {"GPU_CHUNK_BYTES", NULL, TYPE_SIZE, AT(gpu_chunk_bytes), "bytes", "2M", 1, 1ull << 32, NULL, true,
     "the same where ranks compute on GPUs"},
    {"SMALL_BYTES", NULL, TYPE_SIZE, AT(small_bytes), "bytes", "16K", 0, 1ull << 32, NULL, true,
     "messages up to this may take a one-phase plan that sends more than the bound"},
    {"SLOT_BYTES", "NCCL_BUFFSIZE", TYPE_SIZE, AT(slot_bytes), "bytes", "256K", 4096, 1ull << 30, NULL, true,
     "size of one slot of a link or engine"},
    {"RING_SLOT_BYTES", NULL, TYPE_SIZE, AT(ring_slot_bytes), "bytes", "128K", 4096, 1ull << 26, NULL, true,
     "size of one slot of a ring between GPUs, a multiple of 4 KiB; a ring has 64 each way"},
    {"MOVER", NULL, TYPE_CHOICE, AT(mover), "", "auto", 0, 0, "auto kernel copy", false,
     "what moves data between GPUs and rings: a kernel, or copy engines and stream operations; auto takes "
     "these where processes share a GPU without MPS, and from HETCCL_COPY_BYTES on"},
    {"COPY_BYTES", NULL, TYPE_SIZE, AT(copy_bytes), "bytes", "1048576G", 0, 1ull << 60, NULL, false,
     "largest message of a call from which on copy engines move it"},
    {"SOCKETS_PER_LINK", "NCCL_NSOCKS_PERTHREAD", TYPE_SIZE, AT(sockets_per_link), "", "2", 1, 16, NULL, true,
     "sockets that one tcp link stripes over"},
    {"INIT_TIMEOUT_S", NULL, TYPE_SIZE, AT(init_timeout_s), "s", "300", 1, 86400, NULL, false,
     "how long a rank waits for the others when a communicator is created"},
    {"TIMEOUT_S", NULL, TYPE_SIZE, AT(timeout_s), "s", "0", 0, 86400, NULL, false,
     "deadline of one collective; 0: none"},
    {"SPIN_US", NULL, TYPE_SIZE, AT(spin_us), "us", "50", 0, 1000000, NULL, false,
     "how long a waiting thread spins before it sleeps"},
    {"DEATH_S", NULL, TYPE_SIZE, AT(death_s), "s", "8", 2, 3600, NULL, false,
     "a host that answers nothing is held to be dead after this"},
    {"COMM_BLOCKING", "NCCL_COMM_BLOCKING", TYPE_BOOL, AT(blocking), "", "1", 0, 0, NULL, false,
     "default of ncclConfig_t.blocking"},
    {"NCCL_LIB", NULL, TYPE_TEXT, AT(nccl_lib), "path", "", 0, 0, NULL, false,
     "NVIDIA's libnccl.so.2 to open"},
    {"RCCL_LIB", NULL, TYPE_TEXT, AT(rccl_lib), "path", "", 0, 0, NULL, false, "AMD's librccl.so.1 to open"},
    {"CUDA_LIB", NULL, TYPE_TEXT, AT(cuda_lib), "path", "", 0, 0, NULL, false, "libcuda.so.1 to open"},
    {"HIP_LIB", NULL, TYPE_TEXT, AT(hip_lib), "path", "", 0, 0, NULL, false, "libamdhip64.so to open"},
    {"IBVERBS_LIB", NULL, TYPE_TEXT, AT(ibverbs_lib), "path", "", 0, 0, NULL, false,
     "libibverbs.so.1 to open"},
};

enum { N_SETTINGS = sizeof(settings) / sizeof(settings[0]), NAME_BYTES = 64 };

static const char prefix[] = "HETCCL_";

/* Names with the prefix that are not settings of the library: read elsewhere (base/fault.c, tests, tools). */
static const char *const foreign_names[] = {"HETCCL_FAULT"};

static enum hetccl_status refuse(const char *name, const char *value, const char *choices)
{
    return hetccl_fail(HETCCL_ERR_USAGE, "%s=%s is not usable: it takes %s", name, value, choices);
}

/* A number with an optional K, M or G (powers of 1024). */
static bool read_size(const char *text, uint64_t *out)
{
    char *end;
    unsigned long long value;
    int shift = 0;

    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    value = strtoull(text, &end, 0);
    if (errno != 0)
        return false;
    if (*end == 'k' || *end == 'K')
        shift = 10, end++;
    else if (*end == 'm' || *end == 'M')
        shift = 20, end++;
    else if (*end == 'g' || *end == 'G')
        shift = 30, end++;
    if (*end != '\0' || (shift > 0 && value > UINT64_MAX >> shift))
        return false;
    *out = (uint64_t)value << shift;
    return true;
}

static enum hetccl_status set_size(const struct setting *setting, const char *name, const char *value,
                                   void *field)
{
    char range[96];
    uint64_t number;

    if (!read_size(value, &number) || number < setting->min || number > setting->max) {
        (void)snprintf(range, sizeof(range), "a number from %" PRIu64 " to %" PRIu64 " (K, M, G allowed)",
                       setting->min, setting->max);
        return refuse(name, value, range);
    }
    memcpy(field, &number, sizeof(number));
    return HETCCL_OK;
}

static enum hetccl_status set_choice(const struct setting *setting, const char *name, const char *value,
                                     void *field)
{
    size_t length = strlen(value);
    int index = 0;

    for (const char *word = setting->choices; *word != '\0'; index++) {
        size_t word_length = strcspn(word, " ");

        if (word_length == length && strncasecmp(word, value, length) == 0) {
            memcpy(field, &index, sizeof(index));
            return HETCCL_OK;
        }
        word += word_length + (word[word_length] == ' ');
    }
    return refuse(name, value, setting->choices);
}

static enum hetccl_status set_bool(const char *name, const char *value, void *field)
{
    bool flag;

    if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
        return refuse(name, value, "0 or 1");
    flag = value[0] == '1';
    memcpy(field, &flag, sizeof(flag));
    return HETCCL_OK;
}

/* A port at the start of text, which must be followed by `end`; 0 when it is none. */
static uint16_t read_port(const char *text, char end, const char **rest_out)
{
    char *rest;
    unsigned long port;

    if (text[0] < '0' || text[0] > '9')
        return 0;
    port = strtoul(text, &rest, 10);
    if (*rest != end || port > UINT16_MAX)
        return 0;
    *rest_out = rest + 1;
    return (uint16_t)port;
}

static enum hetccl_status set_ports(const char *name, const char *value, void *field)
{
    uint16_t ports[2] = {0, 0};
    const char *rest = value;

    if (value[0] != '\0') {
        ports[0] = read_port(value, '-', &rest);
        ports[1] = ports[0] != 0 ? read_port(rest, '\0', &rest) : 0;
        if (ports[1] == 0 || ports[0] > ports[1])
            return refuse(name, value, "two ports as first-last, 1 to 65535");
    }
    memcpy(field, ports, sizeof(ports));
    return HETCCL_OK;
}

static enum hetccl_status set_text(const char *name, const char *value, void *field)
{
    size_t length = strlen(value);

    if (length >= HETCCL_CONFIG_TEXT_BYTES)
        return refuse(name, value, "at most 255 characters");
    memcpy(field, value, length + 1);
    return HETCCL_OK;
}

static enum hetccl_status set(const struct setting *setting, const char *name, const char *value,
                              struct hetccl_config *config)
{
    void *field = (char *)config + setting->offset;

    switch (setting->type) {
    case TYPE_TEXT:
        return set_text(name, value, field);
    case TYPE_SIZE:
        return set_size(setting, name, value, field);
    case TYPE_BOOL:
        return set_bool(name, value, field);
    case TYPE_CHOICE:
        return set_choice(setting, name, value, field);
    case TYPE_PORTS:
        return set_ports(name, value, field);
    }
    return HETCCL_ERR_INTERNAL;
}

/*
 * NCCL's own words that mean something else to us: NCCL_DEBUG knows VERSION and ABORT too. An unusable NCCL_*
 * value is the vendor library's business and must not stop a program that ran before; an unusable HETCCL_*
 * value is an error.
 */
static enum hetccl_status set_from_environment(const struct setting *setting, struct hetccl_config *config)
{
    char name[NAME_BYTES];
    const char *value;
    enum hetccl_status status;

    (void)snprintf(name, sizeof(name), "%s%s", prefix, setting->name);
    status = set(setting, name, setting->fallback, config);
    if (status != HETCCL_OK)
        return status;
    value = getenv(name);
    if (value != NULL)
        return set(setting, name, value, config);
    value = setting->alias != NULL ? getenv(setting->alias) : NULL;
    if (value == NULL)
        return HETCCL_OK;
    if (strcmp(setting->alias, "NCCL_DEBUG") == 0 && strcasecmp(value, "VERSION") == 0)
        value = "WARN";
    if (strcmp(setting->alias, "NCCL_DEBUG") == 0 && strcasecmp(value, "ABORT") == 0)
        value = "WARN";
    return set(setting, setting->alias, value, config);
}

/* Levenshtein distance; names are short. */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t row[NAME_BYTES];

    for (size_t j = 0; j <= b_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);

            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[b_length];
}

static bool is_known(const char *name, size_t length)
{
    for (size_t i = 0; i < N_SETTINGS; i++) {
        const char *own = settings[i].name;
        size_t own_length = sizeof(prefix) - 1 + strlen(own);
        const char *alias = settings[i].alias;

        if (own_length == length && strncmp(name, prefix, sizeof(prefix) - 1) == 0 &&
            memcmp(name + sizeof(prefix) - 1, own, strlen(own)) == 0)
            return true;
        if (alias != NULL && strlen(alias) == length && memcmp(alias, name, length) == 0)
            return true;
    }
    for (size_t i = 0; i < sizeof(foreign_names) / sizeof(foreign_names[0]); i++)
        if (strlen(foreign_names[i]) == length && memcmp(foreign_names[i], name, length) == 0)
            return true;
    return false;
}

static void warn_unknown(const char *name, size_t length)
{
    size_t best_distance = SIZE_MAX;
    const char *best = "";

    if (length >= NAME_BYTES)
        length = NAME_BYTES - 1;
    for (size_t i = 0; i < N_SETTINGS; i++) {
        size_t d = distance(name + sizeof(prefix) - 1, length - (sizeof(prefix) - 1), settings[i].name,
                            strlen(settings[i].name));

        if (d < best_distance)
            best_distance = d, best = settings[i].name;
    }
    hetccl_log(HETCCL_LOG_WARN, "config", "unknown setting %.*s: did you mean %s%s?", (int)length, name,
               prefix, best);
}

static void look_for_strangers(void)
{
    char unused[1024] = "";
    size_t used = 0;

    for (char **entry = environ; *entry != NULL; entry++) {
        size_t length = strcspn(*entry, "=");

        if (strncmp(*entry, prefix, sizeof(prefix) - 1) == 0 && strncmp(*entry, "HETCCL_TEST_", 12) != 0 &&
            !is_known(*entry, length))
            warn_unknown(*entry, length);
        if (strncmp(*entry, "NCCL_", 5) == 0 && !is_known(*entry, length) &&
            used + length + 2 < sizeof(unused))
            used += (size_t)snprintf(unused + used, sizeof(unused) - used, " %.*s", (int)length, *entry);
    }
    if (used > 0)
        hetccl_log(HETCCL_LOG_INFO, "config", "settings not used by this library, left to the vendor's:%s",
                   unused);
}

enum hetccl_status hetccl_config_parse(struct hetccl_config *out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct hetccl_config config;
    enum hetccl_status status;

    memset(&config, 0, sizeof(config));
    for (size_t i = 0; i < N_SETTINGS; i++) {
        status = set_from_environment(&settings[i], &config);
        if (status != HETCCL_OK)
            return status;
        if (settings[i].offset == AT(debug_file))
            hetccl_log_configure(config.debug, config.debug_file);
    }
    pthread_once(&once, look_for_strangers);
    *out = config;
    return HETCCL_OK;
}

bool hetccl_config_has_vendor_root(void)
{
    return getenv("NCCL_COMM_ID") != NULL;
}

const char *hetccl_config_library_path(void)
{
    const char *path = getenv("LD_LIBRARY_PATH");

    return path != NULL ? path : "";
}

void hetccl_config_list_entry(const char *list, size_t index, char out[HETCCL_CONFIG_TEXT_BYTES])
{
    size_t n_entries = 1;
    size_t length;

    for (const char *c = list; *c != '\0'; c++)
        n_entries += *c == ',';
    for (index %= n_entries; index > 0; index--)
        list = strchr(list, ',') + 1;
    length = strcspn(list, ",");
    if (length >= HETCCL_CONFIG_TEXT_BYTES)
        length = HETCCL_CONFIG_TEXT_BYTES - 1;
    memcpy(out, list, length);
    out[length] = '\0';
}

static void print_value(const struct setting *setting, const struct hetccl_config *config, FILE *stream)
{
    const void *field = (const char *)config + setting->offset;
    const char *word = setting->choices;
    uint64_t number;
    uint16_t ports[2];
    int index;

    switch (setting->type) {
    case TYPE_TEXT:
        fprintf(stream, "%s", (const char *)field);
        break;
    case TYPE_SIZE:
        memcpy(&number, field, sizeof(number));
        fprintf(stream, "%" PRIu64, number);
        break;
    case TYPE_BOOL:
        fprintf(stream, "%d", *(const bool *)field);
        break;
    case TYPE_CHOICE:
        memcpy(&index, field, sizeof(index));
        for (; index > 0; index--)
            word = strchr(word, ' ') + 1;
        fprintf(stream, "%.*s", (int)strcspn(word, " "), word);
        break;
    case TYPE_PORTS:
        memcpy(ports, field, sizeof(ports));
        if (ports[0] != 0)
            fprintf(stream, "%u-%u", ports[0], ports[1]);
        break;
    }
}

void hetccl_config_print(const struct hetccl_config *config, FILE *stream)
{
    for (size_t i = 0; i < N_SETTINGS; i++) {
        const struct setting *setting = &settings[i];

        fprintf(stream, "%s%s=", prefix, setting->name);
        print_value(setting, config, stream);
        fprintf(stream, "\n    %s", setting->help);
        if (setting->unit[0] != '\0')
            fprintf(stream, " [%s]", setting->unit);
        if (setting->type == TYPE_SIZE)
            fprintf(stream, "; %" PRIu64 " to %" PRIu64, setting->min, setting->max);
        if (setting->type == TYPE_CHOICE)
            fprintf(stream, "; one of: %s", setting->choices);
        fprintf(stream, "; default %s", setting->fallback[0] != '\0' ? setting->fallback : "empty");
        if (setting->alias != NULL)
            fprintf(stream, "; also %s", setting->alias);
        if (setting->is_wire)
            fprintf(stream, "; the same on all ranks");
        fprintf(stream, "\n");
    }
}

/* FNV-1a: tells settings apart, keeps nobody out. */
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *byte = data;

    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ byte[i]) * 0x100000001b3ull;
    return hash;
}

uint64_t hetccl_config_wire_hash(const struct hetccl_config *config)
{
    uint64_t hash = 0xcbf29ce484222325ull;

    for (size_t i = 0; i < N_SETTINGS; i++) {
        const void *field = (const char *)config + settings[i].offset;

        if (!settings[i].is_wire)
            continue;
        if (settings[i].type == TYPE_TEXT)
            hash = hash_bytes(hash, field, strlen(field));
        else if (settings[i].type == TYPE_SIZE)
            hash = hash_bytes(hash, field, sizeof(uint64_t));
        else if (settings[i].type == TYPE_CHOICE)
            hash = hash_bytes(hash, field, sizeof(int));
        hash = hash_bytes(hash, settings[i].name, strlen(settings[i].name));
    }
    return hash;
}
