/* SPDX-License-Identifier: Apache-2.0 */
#include "link/tcp/lanes.h"

#include "base/memory.h"

#define STRIPE ((size_t)HETCCL_TCP_STRIPE_BYTES)

struct hetccl_tcp_layout hetccl_tcp_layout_of(size_t bytes_total, size_t n_sockets)
{
    struct hetccl_tcp_layout layout = {.bytes_total = bytes_total, .n_lanes = n_sockets};

    if (bytes_total <= n_sockets * STRIPE)
        layout.n_lanes = 1;
    return layout;
}

size_t hetccl_tcp_lane_bytes(const struct hetccl_tcp_layout *layout, size_t lane)
{
    size_t round_bytes = layout->n_lanes * STRIPE;
    size_t rest = layout->bytes_total % round_bytes;
    size_t before = lane * STRIPE;

    if (lane >= layout->n_lanes)
        return 0;
    if (layout->n_lanes == 1)
        return layout->bytes_total;
    return layout->bytes_total / round_bytes * STRIPE +
           (rest > before ? hetccl_min_size(rest - before, STRIPE) : 0);
}

size_t hetccl_tcp_lane_offset(const struct hetccl_tcp_layout *layout, size_t lane, size_t lane_byte)
{
    if (lane_byte >= hetccl_tcp_lane_bytes(layout, lane))
        return layout->bytes_total;
    if (layout->n_lanes == 1)
        return lane_byte;
    return (lane_byte / STRIPE * layout->n_lanes + lane) * STRIPE + lane_byte % STRIPE;
}

size_t hetccl_tcp_lane_pieces(const struct hetccl_tcp_layout *layout, size_t lane, size_t lane_done,
                              const struct hetccl_tcp_span *span, struct iovec *iov, size_t n_iov,
                              size_t *bytes_out)
{
    size_t lane_bytes = hetccl_tcp_lane_bytes(layout, lane);
    size_t n = 0, bytes = 0;

    while (n < n_iov && lane_done < lane_bytes && bytes < HETCCL_TCP_CALL_BYTES) {
        size_t offset = hetccl_tcp_lane_offset(layout, lane, lane_done);
        size_t run = layout->n_lanes == 1 ? lane_bytes - lane_done : STRIPE - lane_done % STRIPE;

        if (offset >= span->limit_bytes)
            break;
        run = hetccl_min_size(run, lane_bytes - lane_done);
        run = hetccl_min_size(run, span->limit_bytes - offset);
        run = hetccl_min_size(run, span->ring_bytes - offset % span->ring_bytes);
        run = hetccl_min_size(run, HETCCL_TCP_CALL_BYTES - bytes);
        iov[n++] = (struct iovec){.iov_base = span->memory + offset % span->ring_bytes, .iov_len = run};
        lane_done += run;
        bytes += run;
    }
    *bytes_out = bytes;
    return n;
}
