/* SPDX-License-Identifier: Apache-2.0 */
#include <netdb.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "bootstrap/mesh.h"
#include "bootstrap/netif.h"
#include "bootstrap/root.h"

_Static_assert((int)HETCCL_UNIQUE_ID_BYTES == (int)HETCCL_WIRE_UNIQUE_ID_BYTES, "one id");

/* How long a root waits for its first rank at least: programs may make the id long before they use it. */
enum { LEAST_LIFETIME_S = 600 };

static enum hetccl_status refuse(const struct hetccl_config *config, const char *why)
{
    return hetccl_fail(
        HETCCL_ERR_USAGE,
        "NCCL_COMM_ID (or HETCCL_COMM_ID) '%s' is not usable: %s; it takes host:port or [ipv6]:port, an "
        "address of rank 0's host",
        config->comm_id, why);
}

/* "host:port" or "[address]:port" into two texts. */
static bool cut_address(const char *text, char host[HETCCL_CONFIG_TEXT_BYTES], char port[8])
{
    const char *colon = strrchr(text, ':');
    size_t host_length;

    if (colon == NULL || colon == text || strlen(colon + 1) == 0 || strlen(colon + 1) > 5)
        return false;
    host_length = (size_t)(colon - text);
    if (text[0] == '[' && colon[-1] == ']') {
        text++;
        host_length -= 2;
    }
    memcpy(host, text, host_length);
    host[host_length] = '\0';
    (void)snprintf(port, 8, "%s", colon + 1);
    return true;
}

static enum hetccl_status resolve(const struct hetccl_config *config, struct hetccl_wire_address *out)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    struct hetccl_address address;
    char host[HETCCL_CONFIG_TEXT_BYTES];
    char port[8];
    int error;

    if (!cut_address(config->comm_id, host, port))
        return refuse(config, "no port in it");
    hints.ai_family = config->socket_family == HETCCL_FAMILY_IPV4   ? AF_INET
                      : config->socket_family == HETCCL_FAMILY_IPV6 ? AF_INET6
                                                                    : AF_UNSPEC;
    error = getaddrinfo(host, port, &hints, &found);
    if (error != 0)
        return refuse(config, gai_strerror(error));
    memset(&address, 0, sizeof(address));
    memcpy(&address.socket, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    hetccl_address_to_wire(&address, out);
    return out->port != 0 ? HETCCL_OK : refuse(config, "port 0");
}

/*
 * Everybody who knows the address can make this id: that is what NCCL_COMM_ID means, and why it protects
 * against mistakes but not against strangers.
 */
static enum hetccl_status make_fixed(const struct hetccl_config *config, struct hetccl_wire_unique_id *id)
{
    uint8_t digest[HETCCL_WIRE_KEY_BYTES + sizeof(id->job_id)];
    uint8_t address[HETCCL_WIRE_ADDRESS_BYTES];
    struct hetccl_wire_writer writer = hetccl_wire_writer(address, sizeof(address));
    enum hetccl_status status = resolve(config, &id->addresses[0]);

    if (status != HETCCL_OK)
        return status;
    id->n_addresses = 1;
    id->is_fixed_root = true;
    hetccl_wire_put_address(&writer, &id->addresses[0]);
    crypto_generichash(digest, sizeof(digest), address, sizeof(address), NULL, 0);
    memcpy(id->key, digest, sizeof(id->key));
    memcpy(&id->job_id, digest + sizeof(id->key), sizeof(id->job_id));
    return HETCCL_OK;
}

static enum hetccl_status make_random(const struct hetccl_config *config, struct hetccl_wire_unique_id *id)
{
    uint64_t lifetime_s = hetccl_max_size(config->init_timeout_s, LEAST_LIFETIME_S);
    struct hetccl_root_args args = {.lifetime_s = lifetime_s, .listener_fd = -1};
    struct hetccl_endpoint *endpoint = NULL;
    enum hetccl_status status = hetccl_endpoint_get(config, NULL, &endpoint);

    if (status != HETCCL_OK)
        return status;
    randombytes_buf(id->key, sizeof(id->key));
    randombytes_buf(&id->job_id, sizeof(id->job_id));
    args.job_id = id->job_id;
    args.key = id->key;
    hetccl_endpoint_lock(endpoint);
    id->n_addresses = endpoint->self.n_addresses;
    memcpy(id->addresses, endpoint->self.addresses, sizeof(id->addresses));
    status = hetccl_root_create(endpoint, &args);
    hetccl_endpoint_unlock(endpoint);
    if (status != HETCCL_OK)
        hetccl_endpoint_put(endpoint);
    return status;
}

enum hetccl_status hetccl_unique_id_create(const struct hetccl_config *config,
                                           uint8_t out[HETCCL_UNIQUE_ID_BYTES])
{
    struct hetccl_wire_unique_id id;
    enum hetccl_status status;

    memset(&id, 0, sizeof(id));
    if (sodium_init() < 0)
        return hetccl_fail(HETCCL_ERR_SYSTEM, "no source of random numbers (libsodium)");
    id.revision = HETCCL_WIRE_REVISION;
    id.library_version = HETCCL_WIRE_LIBRARY_VERSION;
    id.place = hetccl_netif_place();
    status = config->comm_id[0] != '\0' ? make_fixed(config, &id) : make_random(config, &id);
    if (status == HETCCL_OK)
        hetccl_wire_unique_id_encode(&id, out);
    return status;
}
