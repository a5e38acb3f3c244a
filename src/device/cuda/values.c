/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "device/cuda/internal.h"
#include "device/unsupported.h"

enum { MAX_BATCH = 128 }; /* the driver takes 255; each takes 48 bytes of stack */

/* A word that the driver can't take is told from a failure of the GPU. */
static enum hetccl_status check_word(const struct hetccl_device *device, const uint32_t *word)
{
    if (!device->has_stream_values)
        return hetccl_device_refuse(device, "waiting for and writing of values in a stream");
    if (word == NULL || (uintptr_t)word % sizeof(*word) != 0)
        return hetccl_fail(HETCCL_ERR_ARG, "device cuda %d: a stream value at %p, which is no word",
                           device->ordinal, (const void *)word);
    return HETCCL_OK;
}

enum hetccl_status hetccl_cuda_stream_wait_value(struct hetccl_device *device, struct hetccl_stream stream,
                                                 const uint32_t *word, uint32_t value)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct hetccl_cuda_scope scope;
    enum hetccl_status status = check_word(device, word);
    unsigned code;

    if (status == HETCCL_OK)
        status = hetccl_cuda_enter(cuda, HETCCL_CUDA_ENQUEUES, &scope);
    if (status != HETCCL_OK)
        return status;
    code = cuda->api.cuStreamWaitValue32_v2(stream.handle, hetccl_cuda_address(word), value,
                                            HETCCL_CU_STREAM_WAIT_VALUE_GEQ);
    return hetccl_cuda_check(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuStreamWaitValue32_v2",
                             "letting a stream wait for a value at %p", (const void *)word);
}

enum hetccl_status hetccl_cuda_stream_write_value(struct hetccl_device *device, struct hetccl_stream stream,
                                                  uint32_t *word, uint32_t value)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct hetccl_cuda_scope scope;
    enum hetccl_status status = check_word(device, word);
    unsigned code;

    if (status == HETCCL_OK)
        status = hetccl_cuda_enter(cuda, HETCCL_CUDA_ENQUEUES, &scope);
    if (status != HETCCL_OK)
        return status;
    code = cuda->api.cuStreamWriteValue32_v2(stream.handle, hetccl_cuda_address(word), value,
                                             HETCCL_CU_STREAM_WRITE_VALUE_DEFAULT);
    return hetccl_cuda_check(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuStreamWriteValue32_v2",
                             "letting a stream write a value to %p", (void *)word);
}

static union hetccl_cu_value driver_value(const struct hetccl_stream_value *value)
{
    union hetccl_cu_value out = {
        .word = {.address = hetccl_cuda_address(value->word), .value = value->value}};

    switch (value->kind) {
    case HETCCL_VALUE_WAIT_EQUAL:
        out.word.operation = HETCCL_CU_STREAM_MEM_OP_WAIT_VALUE_32;
        out.word.flags = HETCCL_CU_STREAM_WAIT_VALUE_EQ;
        break;
    case HETCCL_VALUE_WRITE:
        out.word.operation = HETCCL_CU_STREAM_MEM_OP_WRITE_VALUE_32;
        break;
    case HETCCL_VALUE_WRITE_PAIR:
        out.word.operation = HETCCL_CU_STREAM_MEM_OP_WRITE_VALUE_64;
        out.word.value |= (uint64_t)value->second << 32;
        break;
    }
    return out;
}

static unsigned enqueue_batch(const struct hetccl_cuda_api *api, struct hetccl_stream stream,
                              const struct hetccl_stream_value *values, size_t n)
{
    union hetccl_cu_value batch[MAX_BATCH];

    for (size_t i = 0; i < n; i++)
        batch[i] = driver_value(&values[i]);
    return api->cuStreamBatchMemOp_v2(stream.handle, (unsigned)n, batch, 0);
}

static unsigned enqueue_one(const struct hetccl_cuda_api *api, struct hetccl_stream stream,
                            const struct hetccl_stream_value *value)
{
    hetccl_cu_address address = hetccl_cuda_address(value->word);
    unsigned code = HETCCL_CUDA_SUCCESS;

    if (value->kind == HETCCL_VALUE_WAIT_EQUAL)
        return api->cuStreamWaitValue32_v2(stream.handle, address, value->value,
                                           HETCCL_CU_STREAM_WAIT_VALUE_EQ);
    if (value->kind == HETCCL_VALUE_WRITE_PAIR)
        code = api->cuStreamWriteValue32_v2(stream.handle, address + sizeof(uint32_t), value->second,
                                            HETCCL_CU_STREAM_WRITE_VALUE_DEFAULT);
    if (code != HETCCL_CUDA_SUCCESS)
        return code;
    return api->cuStreamWriteValue32_v2(stream.handle, address, value->value,
                                        HETCCL_CU_STREAM_WRITE_VALUE_DEFAULT);
}

static unsigned enqueue_values(const struct hetccl_cuda_api *api, struct hetccl_stream stream,
                               const struct hetccl_stream_value *values, size_t n)
{
    unsigned code = HETCCL_CUDA_SUCCESS;

    if (api->cuStreamBatchMemOp_v2 == NULL) {
        for (size_t i = 0; i < n && code == HETCCL_CUDA_SUCCESS; i++)
            code = enqueue_one(api, stream, &values[i]);
        return code;
    }
    for (size_t i = 0; i < n && code == HETCCL_CUDA_SUCCESS; i += MAX_BATCH)
        code = enqueue_batch(api, stream, values + i, hetccl_min_size(n - i, MAX_BATCH));
    return code;
}

enum hetccl_status hetccl_cuda_stream_values(struct hetccl_device *device, struct hetccl_stream stream,
                                             const struct hetccl_stream_value *values, size_t n)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct hetccl_cuda_scope scope;
    enum hetccl_status status = HETCCL_OK;
    unsigned code;

    for (size_t i = 0; i < n && status == HETCCL_OK; i++)
        status = check_word(device, values[i].word);
    if (status == HETCCL_OK)
        status = hetccl_cuda_enter(cuda, HETCCL_CUDA_ENQUEUES, &scope);
    if (status != HETCCL_OK)
        return status;
    code = enqueue_values(&cuda->api, stream, values, n);
    return hetccl_cuda_check(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuStreamBatchMemOp_v2",
                             "letting a stream wait for and write %zu values", n);
}
