/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "ct.h"

/* Memory of calls, on the host or on a GPU, and the end of what was enqueued there. */

int ct_device_open(struct ct *ct)
{
    char why[256];

    if (strcmp(ct->options.device, "cuda") != 0)
        return CT_OK;
    ct->cuda = ct_cuda_open(ct->options.rank, why, sizeof(why));
    if (ct->cuda == NULL)
        return ct_fail(ct, CT_SETUP, "%s", why);
    if (strcmp(ct->options.stream, "default") != 0)
        ct->stream = ct_cuda_new_stream(ct->cuda);
    return CT_OK;
}

int ct_memory_open(struct ct *ct, size_t bytes, struct ct_memory *out)
{
    char *host = calloc(1, bytes + 1);

    *out = (struct ct_memory){.bytes = bytes, .host = host, .device = host};
    if (host == NULL)
        return ct_fail(ct, CT_SETUP, "no memory for %zu bytes", bytes);
    if (ct->cuda != NULL)
        out->device = ct_cuda_alloc(ct->cuda, bytes + 1);
    return CT_OK;
}

void ct_memory_close(struct ct *ct, struct ct_memory *memory)
{
    if (ct->cuda != NULL && memory->host != NULL)
        ct_cuda_free(ct->cuda, memory->device);
    free(memory->host);
    memory->host = memory->device = NULL;
}

void *ct_memory_at(const struct ct_memory *memory, const void *host)
{
    return host == NULL ? NULL : memory->device + ((const char *)host - memory->host);
}

int ct_memory_push(struct ct *ct, const struct ct_memory *memory)
{
    if (ct->cuda == NULL || memory->bytes == 0)
        return CT_OK;
    ct_cuda_copy(ct->cuda, memory->device, memory->host, memory->bytes, ct->stream);
    return ct_settle(ct);
}

int ct_memory_pull(struct ct *ct, const struct ct_memory *memory)
{
    int code = ct_settle(ct);

    if (code != CT_OK || ct->cuda == NULL || memory->bytes == 0)
        return code;
    ct_cuda_copy(ct->cuda, memory->host, memory->device, memory->bytes, ct->stream);
    return ct_settle(ct);
}

/* Once everything is done the communicator may still be looking for the cause of what it saw. */
ncclResult_t ct_settle_on(struct ct *ct, ncclComm_t comm, void *stream)
{
    ncclResult_t state = ncclSuccess;

    while (ct->cuda != NULL) {
        int code = ct->cuda->cuStreamQuery(stream);

        if (comm != NULL && ncclCommGetAsyncError(comm, &state) != ncclSuccess)
            return ncclInternalError;
        if (state != ncclSuccess && state != ncclInProgress)
            return state;
        if (code == 0 && state == ncclSuccess)
            break;
        if (code != CT_CUDA_NOT_READY)
            ct_cuda_check(code, "the work on the stream");
        ct_sleep_us(20);
    }
    return ncclSuccess;
}

int ct_settle(struct ct *ct)
{
    ncclResult_t state = ct_settle_on(ct, ct->comm, ct->stream);

    return state == ncclSuccess ? CT_OK : ct_fail_call(ct, "ncclCommGetAsyncError", state);
}

bool ct_becomes_idle(const struct ct *ct, void *stream, double limit_s)
{
    double start = ct_now_s();

    while (ct->cuda != NULL && ct->cuda->cuStreamQuery(stream) == CT_CUDA_NOT_READY) {
        if (ct_now_s() - start > limit_s)
            return false;
        ct_sleep_us(20);
    }
    return true;
}
