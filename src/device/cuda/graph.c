/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cuda/internal.h"

enum hetccl_status hetccl_cuda_capture_begin(struct hetccl_device *device, struct hetccl_stream stream)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct hetccl_cuda_scope scope;
    enum hetccl_status status = hetccl_cuda_enter(cuda, HETCCL_CUDA_ENQUEUES, &scope);
    unsigned code;

    if (status != HETCCL_OK)
        return status;
    code = cuda->api.cuStreamBeginCapture_v2(stream.handle, HETCCL_CU_STREAM_CAPTURE_MODE_GLOBAL);
    return hetccl_cuda_check(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuStreamBeginCapture_v2",
                             "beginning to capture a stream");
}

/* What was captured, made executable. *function_out is the driver's function that gave the code. */
static unsigned end_capture(const struct hetccl_cuda_api *api, struct hetccl_stream stream,
                            struct CUgraphExec_st **exec_out, const char **function_out)
{
    struct CUgraph_st *graph = NULL;
    unsigned code = api->cuStreamEndCapture(stream.handle, &graph);

    *function_out = "cuStreamEndCapture";
    if (code != HETCCL_CUDA_SUCCESS)
        return code;
    *function_out = "cuGraphInstantiateWithFlags";
    code = api->cuGraphInstantiateWithFlags(exec_out, graph, 0);
    (void)api->cuGraphDestroy(graph);
    return code;
}

enum hetccl_status hetccl_cuda_capture_end(struct hetccl_device *device, struct hetccl_stream stream,
                                           struct hetccl_graph *out)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct CUgraphExec_st *exec = NULL;
    const char *function = "";
    struct hetccl_cuda_scope scope;
    enum hetccl_status status = hetccl_cuda_enter(cuda, HETCCL_CUDA_ENQUEUES, &scope);
    unsigned code;

    if (status != HETCCL_OK)
        return status;
    code = end_capture(&cuda->api, stream, &exec, &function);
    status = hetccl_cuda_check(cuda, hetccl_cuda_leave(cuda, &scope, code), function,
                               "making a graph of what a stream captured");
    if (status == HETCCL_OK)
        out->handle = exec;
    return status;
}

enum hetccl_status hetccl_cuda_graph_launch(struct hetccl_device *device, struct hetccl_stream stream,
                                            struct hetccl_graph graph)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct hetccl_cuda_scope scope;
    enum hetccl_status status = hetccl_cuda_enter(cuda, HETCCL_CUDA_ENQUEUES, &scope);
    unsigned code;

    if (status != HETCCL_OK)
        return status;
    code = cuda->api.cuGraphLaunch(graph.handle, stream.handle);
    return hetccl_cuda_check(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuGraphLaunch",
                             "launching a graph");
}

void hetccl_cuda_graph_destroy(struct hetccl_device *device, struct hetccl_graph graph)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    struct hetccl_cuda_scope scope;
    unsigned code;

    if (graph.handle == NULL || hetccl_cuda_enter(cuda, HETCCL_CUDA_APART, &scope) != HETCCL_OK)
        return;
    code = cuda->api.cuGraphExecDestroy(graph.handle);
    hetccl_cuda_note(cuda, hetccl_cuda_leave(cuda, &scope, code), "cuGraphExecDestroy");
}
