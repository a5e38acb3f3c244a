/* SPDX-License-Identifier: Apache-2.0 */
#include "perf_device.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/config.h"

/* This command has a device layer of its own beside the library's: each keeps its last error. */
const char *hetccl_perf_device_error(void)
{
    return hetccl_last_error_thread();
}

static enum hetccl_status open_gpu(const struct hetccl_config *config, unsigned local_rank,
                                   struct hetccl_perf_device *device)
{
    unsigned n_devices = device->device->n_devices;
    struct hetccl_device *own = NULL;
    enum hetccl_status status = hetccl_device_open(config, (int)(local_rank % n_devices), &own);

    if (status != HETCCL_OK)
        return status;
    device->device->ops->close(device->device);
    device->device = own;
    own->ops->make_current(own);
    return own->ops->stream_create(own, HETCCL_STREAM_NORMAL, &device->stream);
}

bool hetccl_perf_device_open(struct hetccl_perf_device *device, unsigned local_rank)
{
    struct hetccl_config config;
    enum hetccl_status status = hetccl_config_parse(&config);

    *device = (struct hetccl_perf_device){.device = NULL};
    if (status == HETCCL_OK)
        status = hetccl_device_open(&config, HETCCL_DEVICE_OF_THREAD, &device->device);
    if (status != HETCCL_OK)
        return false;
    device->is_asynchronous = !device->device->ops->is_synchronous;
    return !device->is_asynchronous || open_gpu(&config, local_rank, device) == HETCCL_OK;
}

void hetccl_perf_device_close(struct hetccl_perf_device *device)
{
    if (device->device == NULL)
        return;
    if (device->is_asynchronous)
        device->device->ops->stream_destroy(device->device, device->stream);
    device->device->ops->close(device->device);
    device->device = NULL;
}

static bool map_host(size_t bytes, char **out)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) {
        (void)hetccl_fail_quietly(HETCCL_ERR_SYSTEM, "no memory for a buffer of %zu bytes: %s", bytes,
                                  strerror(errno));
        return false;
    }
    *out = memory;
    return true;
}

bool hetccl_perf_buffer_alloc(const struct hetccl_perf_device *device, size_t bytes,
                              struct hetccl_perf_buffer *out)
{
    struct hetccl_perf_buffer buffer = {.bytes = bytes};
    void *memory = NULL;

    if (!map_host(bytes, &buffer.shadow))
        return false;
    buffer.memory = buffer.shadow;
    if (device->is_asynchronous) {
        if (device->device->ops->mem_alloc(device->device, bytes, HETCCL_MEMORY_DEVICE, &memory) !=
            HETCCL_OK) {
            munmap(buffer.shadow, bytes);
            return false;
        }
        buffer.memory = memory;
    }
    *out = buffer;
    return true;
}

void hetccl_perf_buffer_free(const struct hetccl_perf_device *device, struct hetccl_perf_buffer *buffer)
{
    if (buffer->memory != buffer->shadow)
        device->device->ops->mem_free(device->device, buffer->memory, HETCCL_MEMORY_DEVICE);
    if (buffer->shadow != NULL)
        munmap(buffer->shadow, buffer->bytes);
    *buffer = (struct hetccl_perf_buffer){.memory = NULL};
}

static bool copy(const struct hetccl_perf_device *device, void *dst, const void *src, size_t bytes)
{
    return dst == src ||
           device->device->ops->copy(device->device, device->stream, dst, src, bytes) == HETCCL_OK;
}

bool hetccl_perf_upload(const struct hetccl_perf_device *device, const struct hetccl_perf_buffer *buffer,
                        size_t bytes)
{
    return copy(device, buffer->memory, buffer->shadow, bytes);
}

bool hetccl_perf_download(const struct hetccl_perf_device *device, const struct hetccl_perf_buffer *buffer,
                          size_t bytes)
{
    return copy(device, buffer->shadow, buffer->memory, bytes);
}

enum hetccl_status hetccl_perf_device_poll(const struct hetccl_perf_device *device)
{
    if (!device->is_asynchronous)
        return HETCCL_OK;
    return device->device->ops->stream_query(device->device, device->stream);
}
