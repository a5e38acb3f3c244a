/* SPDX-License-Identifier: Apache-2.0 */
#include "link/tcp/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fault.h"

static bool is_inet(int fd)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof(address);

    return getsockname(fd, (struct sockaddr *)&address, &bytes) == 0 &&
           (address.ss_family == AF_INET || address.ss_family == AF_INET6);
}

static bool set_option(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof(value)) == 0;
}

/*
 * Probes after half of death_s without traffic, then every eighth. No TCP_USER_TIMEOUT here, though it would
 * notice a silent host while data is under way: it also ends a connection whose living peer doesn't read for
 * that long (stopped, or busy with something else while this side has filled its window), and that isn't
 * death. A host that falls silent under way is noticed on the control connection, which never has a full
 * window.
 */
static bool set_keep_alive(int fd, uint64_t death_s)
{
    int death = death_s < 32767 ? (int)death_s : 32767;
    int idle = death / 2 > 1 ? death / 2 : 1;
    int interval = death / 8 > 1 ? death / 8 : 1;
    int n_probes = (death - idle) / interval > 1 ? (death - idle) / interval : 1;

    return set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1) && set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle) &&
           set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval) &&
           set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, n_probes < 127 ? n_probes : 127);
}

static bool prepare(int fd, uint64_t death_s)
{
    int flags = fcntl(fd, F_GETFL);

    if (hetccl_fault_hit(HETCCL_FAULT_SOCKET)) {
        errno = ENOBUFS;
        return false;
    }
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return false;
    if (!is_inet(fd))
        return true;
    return set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1) && (death_s == 0 || set_keep_alive(fd, death_s));
}

enum hetccl_status hetccl_tcp_socket_prepare(int fd, uint64_t death_s, uint32_t peer_rank)
{
    if (prepare(fd, death_s))
        return HETCCL_OK;
    return hetccl_fail(HETCCL_ERR_SYSTEM, "tcp link to rank %" PRIu32 ": socket %d can't be set up: %s",
                       peer_rank, fd, strerror(errno));
}

void hetccl_tcp_address_print(int fd, char out[HETCCL_TCP_ADDRESS_BYTES])
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof(address);
    char text[INET6_ADDRSTRLEN];

    memset(&address, 0, sizeof(address));
    if (getpeername(fd, (struct sockaddr *)&address, &bytes) != 0)
        address.ss_family = AF_UNSPEC;
    if (address.ss_family == AF_INET) {
        const struct sockaddr_in *inet = (const struct sockaddr_in *)&address;

        (void)snprintf(out, HETCCL_TCP_ADDRESS_BYTES, "%s:%u",
                       inet_ntop(AF_INET, &inet->sin_addr, text, sizeof(text)) != NULL ? text : "?",
                       ntohs(inet->sin_port));
    } else if (address.ss_family == AF_INET6) {
        const struct sockaddr_in6 *inet = (const struct sockaddr_in6 *)&address;

        (void)snprintf(out, HETCCL_TCP_ADDRESS_BYTES, "[%s]:%u",
                       inet_ntop(AF_INET6, &inet->sin6_addr, text, sizeof(text)) != NULL ? text : "?",
                       ntohs(inet->sin6_port));
    } else {
        (void)snprintf(out, HETCCL_TCP_ADDRESS_BYTES, "of a local socket");
    }
}

static bool is_peers_fault(int error)
{
    static const int errors[] = {ECONNRESET, EPIPE,        ETIMEDOUT, EHOSTUNREACH, ENETUNREACH,
                                 ENETDOWN,   ECONNABORTED, ENOTCONN,  EHOSTDOWN};

    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (errors[i] == error)
            return true;
    }
    return false;
}

enum hetccl_status hetccl_tcp_fail(struct hetccl_tcp_link *tcp, const char *what, int error)
{
    const struct hetccl_link *link = &tcp->core.link;

    if (error == 0)
        return hetccl_link_fail(&tcp->core, HETCCL_ERR_REMOTE,
                                "rank %" PRIu32
                                " on host %s closed the link (address %s) while this rank waited to "
                                "receive; look for the first error on that rank",
                                link->peer_rank, link->peer_name, tcp->address);
    if (is_peers_fault(error))
        return hetccl_link_fail(&tcp->core, HETCCL_ERR_REMOTE,
                                "rank %" PRIu32
                                " on host %s is gone (%s, address %s): %s; look for the first error on "
                                "that rank, then at the network between the hosts",
                                link->peer_rank, link->peer_name, what, tcp->address, strerror(error));
    return hetccl_link_fail(&tcp->core, HETCCL_ERR_SYSTEM, "%s, address %s: %s", what, tcp->address,
                            strerror(error));
}
