/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_TOOLS_PERF_DEVICE_H
#define HETCCL_TOOLS_PERF_DEVICE_H

/*
 * What the measured calls work on: host memory, or a GPU's with a stream. Failures: false, and
 * hetccl_perf_device_error() says why.
 */

#include <stdbool.h>
#include <stddef.h>

#include "device/device.h"

struct hetccl_perf_device {
    struct hetccl_device *device; /* NULL: not open */
    struct hetccl_stream stream;
    bool is_asynchronous;
};

/* The calls' memory, and the host's copy of it, which is the same on the host. */
struct hetccl_perf_buffer {
    char *memory, *shadow;
    size_t bytes;
};

const char *hetccl_perf_device_error(void);

/* The configuration's device; the GPU with number `local_rank` modulo their number becomes the thread's own.
 */
bool hetccl_perf_device_open(struct hetccl_perf_device *device, unsigned local_rank);
void hetccl_perf_device_close(struct hetccl_perf_device *device);

bool hetccl_perf_buffer_alloc(const struct hetccl_perf_device *device, size_t bytes,
                              struct hetccl_perf_buffer *out);
void hetccl_perf_buffer_free(const struct hetccl_perf_device *device,
                             struct hetccl_perf_buffer *buffer); /* takes a zeroed one */

/* The first bytes of the shadow to the memory, and back; enqueued, so finish behind it. Nothing on the host.
 */
bool hetccl_perf_upload(const struct hetccl_perf_device *device, const struct hetccl_perf_buffer *buffer,
                        size_t bytes);
bool hetccl_perf_download(const struct hetccl_perf_device *device, const struct hetccl_perf_buffer *buffer,
                          size_t bytes);

/* HETCCL_OK: the stream's work is done; HETCCL_AGAIN: it isn't. */
enum hetccl_status hetccl_perf_device_poll(const struct hetccl_perf_device *device);

#endif
