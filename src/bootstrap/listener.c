/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/listener.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/fault.h"
#include "bootstrap/conn.h"

enum { BACKLOG = 4096, ACCEPTS_AT_A_TIME = 32 };

/*
 * Bind and listen in one go. With SO_REUSEADDR, which a small port range needs because of connections in
 * TIME_WAIT, two sockets can be bound to one port and only listen() tells who has it; so both must succeed,
 * on a fresh socket each time.
 */
static int try_port(struct hetccl_address address, uint16_t port, int *error_out)
{
    int fd = hetccl_fault_hit(HETCCL_FAULT_SOCKET)
                 ? (errno = EMFILE, -1)
                 : socket(address.socket.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1;

    if (fd < 0) {
        *error_out = errno;
        return -1;
    }
    hetccl_address_set_port(&address, port);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (address.socket.ss_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&address.socket, address.socket_bytes) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    *error_out = errno;
    close(fd);
    return -1;
}

static enum hetccl_status fail(const struct hetccl_address *address, int error)
{
    struct hetccl_wire_address wire;
    char text[HETCCL_ADDRESS_TEXT_BYTES];

    hetccl_address_to_wire(address, &wire);
    hetccl_address_print(&wire, text);
    if (error == EADDRINUSE && wire.port != 0)
        return HETCCL_AGAIN;
    return hetccl_fail(error == EADDRNOTAVAIL ? HETCCL_ERR_USAGE : HETCCL_ERR_SYSTEM,
                       "no listening socket at %s: %s; is it an address of this host?", text,
                       strerror(error));
}

/* Every port of the range once, lowest first, so that a narrow range and who has which of it stay
 * predictable. */
static enum hetccl_status try_range(const struct hetccl_address *address, const char *name, uint16_t first,
                                    uint16_t last, int *fd_out)
{
    uint32_t count = (uint32_t)last - first + 1;
    int error = 0;

    for (uint32_t i = 0; i < count; i++) {
        int fd = try_port(*address, (uint16_t)(first + i), &error);

        if (fd >= 0) {
            *fd_out = fd;
            return HETCCL_OK;
        }
        if (error != EADDRINUSE && error != EACCES)
            return fail(address, error);
    }
    return hetccl_fail(HETCCL_ERR_USAGE,
                       "%s %u-%u is full: all %u ports are taken (%s); each process needs one port an "
                       "address, so give at least as many as there are processes on a host",
                       name, first, last, count, strerror(error));
}

/*
 * The kernel's own choice leaves out ports whose last connection closed within the minute; asked for by
 * number it gives them. So where many short jobs have used all of the local range, it is gone through by
 * hand.
 */
static enum hetccl_status try_local_range(const struct hetccl_address *address, int *fd_out)
{
    FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    unsigned first = 32768;
    unsigned last = 60999;

    if (file != NULL) {
        if (fscanf(file, "%u %u", &first, &last) != 2 || first < 1 || last > UINT16_MAX || first > last)
            first = 32768, last = 60999;
        (void)fclose(file);
    }
    return try_range(address, "net.ipv4.ip_local_port_range", (uint16_t)first, (uint16_t)last, fd_out);
}

enum hetccl_status hetccl_listener_open(const struct hetccl_address *address, uint16_t first_port,
                                        uint16_t last_port, int *fd_out)
{
    uint16_t port = hetccl_address_port(address);
    int error = 0;
    int fd;

    if (port == 0 && first_port != 0)
        return try_range(address, "HETCCL_PORT_RANGE", first_port, last_port, fd_out);
    fd = try_port(*address, port, &error);
    if (fd < 0 && port == 0 && error == EADDRINUSE)
        return try_local_range(address, fd_out);
    if (fd < 0)
        return fail(address, error);
    *fd_out = fd;
    return HETCCL_OK;
}

enum hetccl_status hetccl_listener_init(struct hetccl_endpoint *endpoint, int fd, const char *if_name,
                                        struct hetccl_listener *out)
{
    struct hetccl_address address = {.socket_bytes = sizeof(address.socket)};

    if (getsockname(fd, (struct sockaddr *)&address.socket, &address.socket_bytes) != 0)
        return hetccl_fail(HETCCL_ERR_SYSTEM, "own address of a listening socket: %s", strerror(errno));
    hetccl_address_to_wire(&address, &out->address);
    memset(out->if_name, 0, sizeof(out->if_name));
    memcpy(out->if_name, if_name, strnlen(if_name, sizeof(out->if_name) - 1));
    out->source.fd = fd;
    out->source.ready = hetccl_listener_ready;
    return hetccl_endpoint_watch(endpoint, &out->source, EPOLLIN);
}

void hetccl_listener_fini(struct hetccl_endpoint *endpoint, struct hetccl_listener *listener)
{
    if (listener->source.fd < 0)
        return;
    hetccl_endpoint_unwatch(endpoint, &listener->source);
    close(listener->source.fd);
    listener->source.fd = -1;
}

void hetccl_listener_ready(struct hetccl_source *source, uint32_t events)
{
    struct hetccl_endpoint *endpoint = hetccl_endpoint_find();

    (void)events;
    for (int i = 0; i < ACCEPTS_AT_A_TIME; i++) {
        struct hetccl_address address = {.socket_bytes = sizeof(address.socket)};
        int fd;

        if (!hetccl_conn_has_room(endpoint)) {
            hetccl_endpoint_pause(endpoint);
            return;
        }
        fd = accept4(source->fd, (struct sockaddr *)&address.socket, &address.socket_bytes,
                     SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
            hetccl_endpoint_pause(endpoint); /* else the level-triggered set would spin */
        if (fd < 0 && errno != ECONNABORTED && errno != EINTR)
            return;
        if (fd >= 0)
            hetccl_conn_accept(endpoint, fd, &address);
    }
}
