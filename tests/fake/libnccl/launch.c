/* SPDX-License-Identifier: Apache-2.0 */

/* An operation is a kernel of the fake driver, with the operation's address as its parameter. */

#include <stdlib.h>

#include "../libcuda/driver.h"
#include "internal.h"

static void run_kernel(void *const *params, const struct fake_cuda_thread *thread)
{
    fake_run(*(struct operation *const *)params[0]);
}

static const struct fake_cuda_kernel kernels[] = {{.name = "fake_nccl",
                                                   .function = run_kernel,
                                                   .n_params = 1,
                                                   .param_bytes = {sizeof(struct operation *)},
                                                   .is_independent = true},
                                                  {.name = NULL}};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct CUfunc_st *function;

static void load(void)
{
    static const char image[] = ".version 7.0 .target sm_70 .entry fake_nccl";
    struct CUmod_st *module;

    fake_cuda_register(kernels);
    if (cuModuleLoadDataEx(&module, image, 0, NULL, NULL) != 0 ||
        cuModuleGetFunction(&function, module, "fake_nccl") != 0)
        function = NULL;
}

static bool is_captured(void *stream)
{
    unsigned status = 0;
    uint64_t id;

    return cuStreamGetCaptureInfo_v2(stream, &status, &id, NULL, NULL, NULL) == 0 &&
           status == HETCCL_CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/* With the communicator's device current. */
static unsigned launch(struct operation *operation)
{
    struct ncclComm *comm = operation->comm;
    void *params[1] = {&operation};
    unsigned code;

    (void)pthread_once(&once, load);
    if (function == NULL)
        return fake_fail(CUDA_ERROR, "the fake driver takes no kernel");
    pthread_mutex_lock(&comm->lock);
    operation->ticket = is_captured(operation->stream) ? 0 : ++comm->n_tickets;
    operation->next = comm->operations;
    comm->operations = operation;
    pthread_mutex_unlock(&comm->lock);
    if (operation->ticket != 0)
        atomic_fetch_add(&comm->n_running, 1);
    code = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, operation->stream, params, NULL);
    if (code == 0)
        return OK;
    if (operation->ticket != 0)
        atomic_fetch_sub(&comm->n_running, 1);
    return fake_fail(CUDA_ERROR, "Cuda failure %u", code);
}

/* The caller's device is left as it was, as NVIDIA's library does. */
unsigned fake_launch(struct operation *operation)
{
    struct CUctx_st *popped;
    unsigned code;

    if (cuCtxPushCurrent_v2(operation->comm->context) != 0)
        return fake_fail(CUDA_ERROR, "the communicator's device can't be made current");
    code = launch(operation);
    (void)cuCtxPopCurrent_v2(&popped);
    return code;
}
