/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/netif.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Order of preference; only addresses of the best class there is are told to peers. */
enum address_class { CLASS_GLOBAL = 0, CLASS_LINK_LOCAL, CLASS_LOOPBACK, CLASS_NEVER };

enum { MAX_CANDIDATES = 64, NAMES_TEXT_BYTES = 512 };

struct candidate {
    struct hetccl_netif netif;
    enum address_class class;
};

/* One entry of the list against the name: a prefix, or all of it. */
static bool entry_matches(const char *entry, size_t length, const char *if_name, bool is_exact)
{
    if (length == 0 || strncmp(entry, if_name, length) != 0)
        return false;
    return !is_exact || if_name[length] == '\0';
}

bool hetccl_netif_matches(const char *spec, const char *if_name)
{
    bool is_exclusion = spec[0] == '^';
    bool is_exact;

    if (spec[0] == '\0')
        return true;
    spec += is_exclusion;
    is_exact = spec[0] == '=';
    spec += is_exact;
    while (*spec != '\0') {
        size_t length = strcspn(spec, ",");
        size_t name_length = strcspn(spec, ",:"); /* NCCL allows "eth0:port" and ignores the port */

        if (entry_matches(spec, name_length, if_name, is_exact))
            return !is_exclusion;
        spec += length + (spec[length] == ',');
    }
    return is_exclusion;
}

bool hetccl_netif_is_container_bridge(const char *if_name)
{
    static const char *const prefixes[] = {"docker", "br-",    "virbr", "vboxnet", "vmnet",   "lxcbr",
                                           "lxdbr",  "podman", "cni",   "flannel", "kube",    "cali",
                                           "cilium", "veth",   "vnet",  "ifb",     "nerdctl", "tunl"};

    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
        if (strncmp(if_name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

static bool is_wanted_family(const struct ifaddrs *entry, enum hetccl_family_choice family)
{
    if (entry->ifa_addr == NULL)
        return false;
    if (entry->ifa_addr->sa_family == AF_INET)
        return family != HETCCL_FAMILY_IPV6;
    return entry->ifa_addr->sa_family == AF_INET6 && family != HETCCL_FAMILY_IPV4;
}

static enum address_class classify(const struct ifaddrs *entry, const struct hetccl_address *address,
                                   bool is_named)
{
    struct hetccl_wire_address wire;

    hetccl_address_to_wire(address, &wire);
    if ((entry->ifa_flags & IFF_UP) == 0)
        return CLASS_NEVER;
    if (!is_named && hetccl_netif_is_container_bridge(entry->ifa_name))
        return CLASS_NEVER;
    if ((entry->ifa_flags & IFF_LOOPBACK) != 0 || hetccl_address_is_loopback(&wire))
        return is_named ? CLASS_GLOBAL : CLASS_LOOPBACK;
    if ((entry->ifa_flags & IFF_RUNNING) == 0 && !is_named)
        return CLASS_NEVER;
    return hetccl_address_is_link_local(&wire) ? CLASS_LINK_LOCAL : CLASS_GLOBAL;
}

static size_t collect(const struct ifaddrs *first, const struct hetccl_config *config,
                      struct candidate out[MAX_CANDIDATES])
{
    const char *spec = config->socket_ifname;
    bool is_named = spec[0] != '\0' && spec[0] != '^';
    size_t n = 0;

    for (const struct ifaddrs *entry = first; entry != NULL && n < MAX_CANDIDATES; entry = entry->ifa_next) {
        struct candidate *candidate = &out[n];
        struct hetccl_address *address = &candidate->netif.address;

        if (!is_wanted_family(entry, config->socket_family) || !hetccl_netif_matches(spec, entry->ifa_name))
            continue;
        memset(candidate, 0, sizeof(*candidate));
        address->socket_bytes =
            entry->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        memcpy(&address->socket, entry->ifa_addr, address->socket_bytes);
        (void)snprintf(candidate->netif.name, sizeof(candidate->netif.name), "%s", entry->ifa_name);
        candidate->class = classify(entry, address, is_named);
        n += candidate->class != CLASS_NEVER;
    }
    return n;
}

static bool same_host_part(const struct hetccl_address *a, const struct hetccl_address *b)
{
    struct hetccl_wire_address wire_a;
    struct hetccl_wire_address wire_b;

    hetccl_address_to_wire(a, &wire_a);
    hetccl_address_to_wire(b, &wire_b);
    return wire_a.family == wire_b.family && memcmp(wire_a.bytes, wire_b.bytes, sizeof(wire_a.bytes)) == 0;
}

/* The source address that the kernel would take towards the peer. Nothing is sent. */
static bool find_route(const struct hetccl_wire_address *peer, struct hetccl_address *out)
{
    struct hetccl_address to;
    bool is_found;
    int fd;

    hetccl_address_from_wire(peer, 0, &to);
    fd = socket(to.socket.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    out->socket_bytes = sizeof(out->socket);
    is_found = connect(fd, (struct sockaddr *)&to.socket, to.socket_bytes) == 0 &&
               getsockname(fd, (struct sockaddr *)&out->socket, &out->socket_bytes) == 0;
    close(fd);
    return is_found;
}

static void put_route_first(const struct hetccl_wire_address *peer, struct candidate *candidates, size_t n)
{
    struct hetccl_address source;

    if (peer == NULL || hetccl_address_is_loopback(peer) || !find_route(peer, &source))
        return;
    for (size_t i = 1; i < n; i++)
        if (same_host_part(&candidates[i].netif.address, &source)) {
            struct candidate best = candidates[i];

            memmove(&candidates[1], &candidates[0], i * sizeof(candidates[0]));
            candidates[0] = best;
            return;
        }
}

static enum hetccl_status refuse(const struct ifaddrs *first, const struct hetccl_config *config)
{
    char names[NAMES_TEXT_BYTES] = "";
    const char *previous = "";
    size_t used = 0;

    for (const struct ifaddrs *entry = first; entry != NULL; entry = entry->ifa_next) {
        if (!is_wanted_family(entry, config->socket_family) || (entry->ifa_flags & IFF_UP) == 0 ||
            strcmp(previous, entry->ifa_name) == 0 || used + IF_NAMESIZE + 2 > sizeof(names))
            continue;
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", used > 0 ? ", " : "",
                                 entry->ifa_name);
        previous = entry->ifa_name;
    }
    return hetccl_fail(
        HETCCL_ERR_USAGE,
        "HETCCL_SOCKET_IFNAME (or NCCL_SOCKET_IFNAME) '%s' with address family %s leaves no network "
        "interface to use; up and with an address are: %s",
        config->socket_ifname,
        config->socket_family == HETCCL_FAMILY_ANY    ? "any"
        : config->socket_family == HETCCL_FAMILY_IPV4 ? "IPv4"
                                                      : "IPv6",
        used > 0 ? names : "none");
}

enum hetccl_status hetccl_netif_choose(const struct hetccl_config *config,
                                       const struct hetccl_wire_address *peer,
                                       struct hetccl_netif out[HETCCL_WIRE_MAX_ADDRESSES], size_t *n_out)
{
    struct candidate candidates[MAX_CANDIDATES];
    enum address_class best = CLASS_NEVER;
    enum hetccl_status status = HETCCL_OK;
    struct ifaddrs *first;
    size_t n_candidates;
    size_t n = 0;

    if (getifaddrs(&first) != 0)
        return hetccl_fail(HETCCL_ERR_SYSTEM, "network interfaces could not be listed: %s", strerror(errno));
    n_candidates = collect(first, config, candidates);
    for (size_t i = 0; i < n_candidates; i++)
        if (candidates[i].class < best)
            best = candidates[i].class;
    put_route_first(peer, candidates, n_candidates);
    for (size_t i = 0; i < n_candidates && n < HETCCL_WIRE_MAX_ADDRESSES; i++)
        if (candidates[i].class == best)
            out[n++] = candidates[i].netif;
    if (n == 0)
        status = refuse(first, config);
    freeifaddrs(first);
    if (status == HETCCL_OK)
        *n_out = n;
    return status;
}

static bool is_usable_scope(const struct ifaddrs *entry, const char *spec)
{
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)entry->ifa_addr;
    bool is_named = spec[0] != '\0' && spec[0] != '^';

    if (!is_named && hetccl_netif_is_container_bridge(entry->ifa_name))
        return false;
    return in6 != NULL && in6->sin6_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) &&
           (entry->ifa_flags & IFF_RUNNING) != 0 && hetccl_netif_matches(spec, entry->ifa_name);
}

unsigned hetccl_netif_scope(const char *spec, unsigned attempt)
{
    unsigned scopes[MAX_CANDIDATES];
    struct ifaddrs *first;
    size_t n = 0;

    if (getifaddrs(&first) != 0)
        return 0;
    for (const struct ifaddrs *entry = first; entry != NULL && n < MAX_CANDIDATES; entry = entry->ifa_next)
        if (is_usable_scope(entry, spec))
            scopes[n++] = ((const struct sockaddr_in6 *)entry->ifa_addr)->sin6_scope_id;
    freeifaddrs(first);
    return n > 0 ? scopes[attempt % n] : 0;
}

uint64_t hetccl_netif_place(void)
{
    char boot_id[64] = "";
    struct stat namespace_stat = {0};
    uint64_t numbers[2] = {0, 0};
    crypto_generichash_state state;
    uint8_t digest[32];
    uint64_t place;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    if (fd < 0 || read(fd, boot_id, sizeof(boot_id)) <= 0)
        (void)gethostname(boot_id, sizeof(boot_id));
    if (fd >= 0)
        close(fd);
    if (stat("/proc/self/ns/net", &namespace_stat) == 0) {
        numbers[0] = namespace_stat.st_dev;
        numbers[1] = namespace_stat.st_ino;
    }
    crypto_generichash_init(&state, NULL, 0, 32);
    crypto_generichash_update(&state, (const uint8_t *)boot_id, sizeof(boot_id));
    crypto_generichash_update(&state, (const uint8_t *)numbers, sizeof(numbers));
    crypto_generichash_final(&state, digest, sizeof(digest));
    memcpy(&place, digest, sizeof(place));
    return place;
}
