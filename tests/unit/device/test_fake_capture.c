/* SPDX-License-Identifier: Apache-2.0 */

/* The fake driver's captures: what the device can't bring about by itself. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "driver.h"

static struct CUstream_st *a, *b;
static struct CUevent_st *event, *back;
static uint32_t *words;

enum { GLOBAL = HETCCL_CU_STREAM_CAPTURE_MODE_GLOBAL, BYTES = 4096 };

static hetccl_cu_address at(const uint32_t *word)
{
    return (hetccl_cu_address)(uintptr_t)word;
}

static int set_up(void **state)
{
    struct CUctx_st *context;
    void *memory = NULL;

    assert_int_equal(cuInit(0), 0);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), 0);
    assert_int_equal(cuCtxPushCurrent_v2(context), 0);
    assert_int_equal(cuStreamCreateWithPriority(&a, HETCCL_CU_STREAM_NON_BLOCKING, 0), 0);
    assert_int_equal(cuStreamCreateWithPriority(&b, HETCCL_CU_STREAM_NON_BLOCKING, 0), 0);
    assert_int_equal(cuEventCreate(&event, HETCCL_CU_EVENT_DISABLE_TIMING), 0);
    assert_int_equal(cuEventCreate(&back, HETCCL_CU_EVENT_DISABLE_TIMING), 0);
    assert_int_equal(cuMemHostAlloc(&memory, BYTES, 0), 0);
    words = memset(memory, 0, BYTES);
    return 0;
}

static int tear_down(void **state)
{
    struct CUctx_st *context;

    assert_int_equal(cuMemFreeHost(words), 0);
    assert_int_equal(cuEventDestroy_v2(event), 0);
    assert_int_equal(cuEventDestroy_v2(back), 0);
    assert_int_equal(cuStreamDestroy_v2(a), 0);
    assert_int_equal(cuStreamDestroy_v2(b), 0);
    assert_int_equal(cuCtxPopCurrent_v2(&context), 0);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), 0);
    assert_int_equal(fake_cuda_live_objects(), 0);
    return 0;
}

static void order(struct CUstream_st *earlier, struct CUstream_st *later)
{
    assert_int_equal(cuEventRecord(event, earlier), 0);
    assert_int_equal(cuStreamWaitEvent(later, event, 0), 0);
}

static unsigned write_word(struct CUstream_st *stream, size_t i, uint32_t value)
{
    return cuStreamWriteValue32_v2(stream, at(&words[i]), value, 0);
}

static void finish(struct CUstream_st *stream)
{
    const struct timespec pause = {.tv_nsec = 100000};
    unsigned code = HETCCL_CUDA_ERROR_NOT_READY;

    for (int i = 0; i < 100000 && code == HETCCL_CUDA_ERROR_NOT_READY; i++) {
        code = cuStreamQuery(stream);
        (void)nanosleep(&pause, NULL);
    }
    assert_int_equal(code, 0);
}

static unsigned status_of(struct CUstream_st *stream)
{
    unsigned status = 99;

    assert_int_equal(cuStreamIsCapturing(stream, &status), 0);
    return status;
}

static unsigned end(struct CUstream_st *stream)
{
    struct CUgraph_st *graph = NULL;
    unsigned code = cuStreamEndCapture(stream, &graph);

    assert_true((code == 0) == (graph != NULL));
    if (graph != NULL)
        assert_int_equal(cuGraphDestroy(graph), 0);
    return code;
}

/* Each branch waits for the other's word: a graph whose branches took turns would hang. */
static void test_branches_run_at_once(void **state)
{
    struct CUgraph_st *graph = NULL;
    struct CUgraphExec_st *exec = NULL;

    memset(words, 0, BYTES);
    assert_int_equal(cuStreamBeginCapture_v2(a, GLOBAL), 0);
    order(a, b);
    assert_int_equal(write_word(a, 0, 1), 0);
    assert_int_equal(cuStreamWaitValue32_v2(a, at(&words[1]), 1, 0), 0);
    assert_int_equal(cuStreamWaitValue32_v2(b, at(&words[0]), 1, 0), 0);
    assert_int_equal(write_word(b, 1, 1), 0);
    order(b, a);
    assert_int_equal(write_word(a, 2, 5), 0);
    assert_int_equal(cuStreamEndCapture(a, &graph), 0);
    assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
    assert_int_equal(cuGraphDestroy(graph), 0);
    for (int launch = 0; launch < 3; launch++) {
        memset(words, 0, BYTES);
        assert_int_equal(cuGraphLaunch(exec, a), 0);
        finish(a);
        assert_int_equal(words[2], 5);
    }
    assert_int_equal(cuGraphLaunch(exec, a), 0);
    assert_int_equal(cuGraphExecDestroy(exec), 0);
    finish(a);
    assert_int_equal(cuGraphLaunch(exec, a), HETCCL_CUDA_ERROR_INVALID_VALUE);
}

/* A stream that joined and did nothing, and one whose work the origin waits for by way of a third. */
static void test_joins(void **state)
{
    assert_int_equal(cuStreamBeginCapture_v2(a, GLOBAL), 0);
    assert_int_equal(write_word(a, 0, 1), 0);
    order(a, b);
    assert_int_equal(status_of(b), HETCCL_CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_int_equal(end(a), 0);
    assert_int_equal(status_of(b), HETCCL_CU_STREAM_CAPTURE_STATUS_NONE);

    assert_int_equal(cuStreamBeginCapture_v2(a, GLOBAL), 0);
    order(a, b);
    assert_int_equal(write_word(b, 0, 1), 0);
    order(b, a);
    assert_int_equal(end(a), 0);

    assert_int_equal(cuStreamBeginCapture_v2(a, GLOBAL), 0);
    order(a, b);
    assert_int_equal(write_word(b, 0, 1), 0);
    order(b, a);
    assert_int_equal(write_word(b, 1, 1), 0); /* after the join */
    assert_int_equal(end(a), HETCCL_CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
}

static void test_two_captures(void **state)
{
    assert_int_equal(cuStreamBeginCapture_v2(a, GLOBAL), 0);
    assert_int_equal(cuStreamBeginCapture_v2(a, GLOBAL), HETCCL_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamBeginCapture_v2(b, GLOBAL), 0);
    assert_int_equal(cuEventRecord(event, a), 0);
    assert_int_equal(cuEventQuery(event), HETCCL_CUDA_ERROR_CAPTURED_EVENT);
    assert_int_equal(cuStreamWaitEvent(b, event, 0), HETCCL_CUDA_ERROR_STREAM_CAPTURE_MERGE);
    assert_int_equal(status_of(a), HETCCL_CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    assert_int_equal(end(a), HETCCL_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_int_equal(end(b), HETCCL_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_int_equal(cuStreamWaitEvent(b, event, 0), HETCCL_CUDA_ERROR_CAPTURED_EVENT);
    assert_int_equal(end(a), HETCCL_CUDA_ERROR_INVALID_VALUE);
}

static void *end_elsewhere(void *context)
{
    struct CUgraph_st *graph = NULL;
    static unsigned code;

    code = cuCtxPushCurrent_v2(context) == 0 ? cuStreamEndCapture(a, &graph) : 0;
    return &code;
}

static void test_wrong_end(void **state)
{
    struct CUctx_st *context = NULL;
    pthread_t thread;
    void *code = NULL;

    assert_int_equal(cuCtxGetCurrent(&context), 0);
    assert_int_equal(cuStreamBeginCapture_v2(a, GLOBAL), 0);
    order(a, b);
    assert_int_equal(end(b), HETCCL_CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    assert_int_equal(pthread_create(&thread, NULL, end_elsewhere, context), 0);
    assert_int_equal(pthread_join(thread, &code), 0);
    assert_int_equal(*(unsigned *)code, HETCCL_CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    assert_int_equal(end(a), 0);
}

/* Of the calling thread's mode and the capture's; memory that the driver doesn't know; the default stream. */
static void test_unsafe_calls(void **state)
{
    unsigned mode = HETCCL_CU_STREAM_CAPTURE_MODE_RELAXED;
    struct CUstream_st *blocking = NULL;
    hetccl_cu_address memory = 0;
    char pageable[16] = "";

    assert_int_equal(cuStreamBeginCapture_v2(a, GLOBAL), 0);
    assert_int_equal(cuMemAlloc_v2(&memory, 64), HETCCL_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(end(a), HETCCL_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    assert_int_equal(cuStreamBeginCapture_v2(a, GLOBAL), 0);
    assert_int_equal(cuThreadExchangeStreamCaptureMode(&mode), 0);
    assert_int_equal(cuMemAlloc_v2(&memory, 64), 0);
    assert_int_equal(cuMemFree_v2(memory), 0);
    assert_int_equal(cuThreadExchangeStreamCaptureMode(&mode), 0);
    assert_int_equal(cuMemcpyAsync(at(words), (hetccl_cu_address)(uintptr_t)pageable, 16, a),
                     HETCCL_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(end(a), HETCCL_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    assert_int_equal(cuStreamCreate(&blocking, 0), 0);
    assert_int_equal(cuStreamBeginCapture_v2(blocking, GLOBAL), 0);
    assert_int_equal(write_word(NULL, 0, 1), HETCCL_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    assert_int_equal(end(blocking), HETCCL_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_int_equal(cuStreamDestroy_v2(blocking), 0);
    assert_int_equal(cuStreamBeginCapture_v2(NULL, GLOBAL), HETCCL_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_branches_run_at_once), cmocka_unit_test(test_joins),
        cmocka_unit_test(test_two_captures),         cmocka_unit_test(test_wrong_end),
        cmocka_unit_test(test_unsafe_calls),
    };

    return cmocka_run_group_tests_name("fake libcuda, captures", tests, set_up, tear_down);
}
