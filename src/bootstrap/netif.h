/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_BOOTSTRAP_NETIF_H
#define HETCCL_BOOTSTRAP_NETIF_H

/*
 * Which of this host's addresses peers are told. Taken from the interfaces, never from the host's name.
 *
 * Best first: global addresses of interfaces with carrier; link-local ones only if there are no others;
 * loopback only if there is nothing else. Container and VM bridges (docker0 and the like) and interfaces
 * without carrier carry the same addresses on every machine and are never told, unless HETCCL_SOCKET_IFNAME
 * names them.
 */

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/status.h"
#include "bootstrap/address.h"

struct hetccl_netif {
    struct hetccl_address address; /* port 0; with scope */
    char name[IF_NAMESIZE];
};

/*
 * hetccl_netif_choose -- up to HETCCL_WIRE_MAX_ADDRESSES addresses, best first.
 *
 * peer [in] an address that must be reached, or NULL: the address that routes to it comes first
 * Errors: HETCCL_ERR_USAGE naming the setting, its value and the interfaces there are; HETCCL_ERR_SYSTEM.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_netif_choose(const struct hetccl_config *config,
                                                        const struct hetccl_wire_address *peer,
                                                        struct hetccl_netif out[HETCCL_WIRE_MAX_ADDRESSES],
                                                        size_t *n_out);

/* True when NCCL_SOCKET_IFNAME's syntax (prefixes; = exact names, ^ exclusion) lets the interface through; ""
 * lets all. */
bool hetccl_netif_matches(const char *spec, const char *if_name);

/* True for the usual names of container and VM bridges. */
bool hetccl_netif_is_container_bridge(const char *if_name);

/*
 * Index of an interface through which a peer's link-local address may be tried: the (attempt mod number)-th
 * of those with carrier and a link-local address of their own that match the spec; 0 when there is none.
 */
unsigned hetccl_netif_scope(const char *spec, unsigned attempt);

/* A number that is equal for processes of one host and network namespace, else most likely not. */
uint64_t hetccl_netif_place(void);

#endif
