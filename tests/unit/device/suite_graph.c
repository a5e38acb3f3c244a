/* SPDX-License-Identifier: Apache-2.0 */

/* Graph capture: what is captured runs at each launch, in the order that streams and events gave. */

#include <string.h>

#include "base/time.h"
#include "suite.h"

enum { COUNT = 1000 };

/* Two streams and pinned words, by the host's and the device's address. */
struct scene {
    struct hetccl_stream a, b;
    struct hetccl_event fork, join;
    uint32_t *words, *on_device;
};

static struct scene scene_create(struct suite *suite)
{
    struct scene scene = {.a = suite_stream(suite),
                          .b = suite_stream(suite),
                          .words = suite_memory(suite, 3 * COUNT * sizeof(uint32_t), HETCCL_MEMORY_PINNED)};
    void *address = NULL;

    suite_expect_ok(suite, suite->ops->event_create(suite->device, &scene.fork), "event");
    suite_expect_ok(suite, suite->ops->event_create(suite->device, &scene.join), "event");
    suite_expect_ok(suite, suite->ops->device_address(suite->device, scene.words, &address), "address");
    scene.on_device = address;
    memset(scene.words, 0, 3 * COUNT * sizeof(uint32_t));
    return scene;
}

static void scene_destroy(struct suite *suite, struct scene *scene)
{
    suite->ops->event_destroy(suite->device, scene->fork);
    suite->ops->event_destroy(suite->device, scene->join);
    suite->ops->mem_free(suite->device, scene->words, HETCCL_MEMORY_PINNED);
    suite->ops->stream_destroy(suite->device, scene->b);
    suite->ops->stream_destroy(suite->device, scene->a);
}

static void begin(struct suite *suite, struct hetccl_stream stream)
{
    suite_expect_ok(suite, suite->ops->capture_begin(suite->device, stream), "begin");
}

/* A device without graphs refuses all of it. */
static bool has_graphs(struct suite *suite)
{
    static const char *const words[] = {"has no", "graphs", NULL};
    struct hetccl_stream none = {.handle = NULL};
    struct hetccl_graph graph = {.handle = NULL};

    if (suite->device->has_graphs)
        return true;
    suite_expect_error(suite, suite->ops->capture_begin(suite->device, none), HETCCL_ERR_USAGE, words);
    suite_expect_error(suite, suite->ops->capture_end(suite->device, none, &graph), HETCCL_ERR_USAGE, words);
    suite_expect_error(suite, suite->ops->graph_launch(suite->device, none, graph), HETCCL_ERR_USAGE, words);
    suite->ops->graph_destroy(suite->device, graph);
    return false;
}

/* Copy, fill, kernel and value: dst = 2 * dst, so each launch shows. Words: dst, copy, byte pattern. */
static void enqueue_all(struct suite *suite, const struct scene *scene)
{
    const void *srcs[] = {scene->on_device, scene->on_device};
    struct hetccl_reduce reduce = {.dst = scene->on_device,
                                   .srcs = srcs,
                                   .n_srcs = 2,
                                   .count = COUNT - 1,
                                   .type = HETCCL_UINT32,
                                   .red = HETCCL_SUM};

    suite_expect_ok(suite, suite->ops->reduce(suite->device, scene->a, &reduce), "reduce");
    suite_expect_ok(suite,
                    suite->ops->copy(suite->device, scene->a, scene->on_device + COUNT, scene->on_device,
                                     COUNT * sizeof(uint32_t)),
                    "copy");
    suite_expect_ok(suite,
                    suite->ops->fill(suite->device, scene->a, scene->on_device + (size_t)2 * COUNT, 0x33,
                                     COUNT * sizeof(uint32_t)),
                    "fill");
    suite_expect_ok(suite,
                    suite->ops->stream_write_value(suite->device, scene->a, scene->on_device + COUNT - 1, 7),
                    "write");
}

static void check_launch(struct suite *suite, const struct scene *scene, uint32_t factor, uint32_t last)
{
    suite_finish(suite, scene->a);
    for (uint32_t i = 0; i < COUNT - 1; i++) {
        if (!suite_check(suite,
                         scene->words[i] == factor * i && scene->words[COUNT + i] == factor * i &&
                             scene->words[2 * COUNT + i] == 0x33333333u,
                         "word %u: %u, %u, %#x", i, scene->words[i], scene->words[COUNT + i],
                         scene->words[2 * COUNT + i]))
            return;
    }
    suite_check(suite, scene->words[COUNT - 1] == 7 && scene->words[2 * COUNT - 1] == last, "last words");
}

static void case_replay(struct suite *suite)
{
    struct hetccl_graph graph = {.handle = NULL};
    struct hetccl_capture capture = {.id = 0};
    struct scene scene;

    if (!has_graphs(suite))
        return;
    scene = scene_create(suite);
    for (uint32_t i = 0; i < COUNT - 1; i++)
        scene.words[i] = i;
    begin(suite, scene.a);
    enqueue_all(suite, &scene);
    suite_expect_ok(suite, suite->ops->stream_capture(suite->device, scene.a, &capture), "state");
    suite_check(suite, capture.is_capturing && capture.id != 0, "no capture");
    suite_expect_ok(suite, suite->ops->capture_end(suite->device, scene.a, &graph), "end");
    suite_finish(suite, scene.a);
    suite_check(suite, scene.words[1] == 1 && scene.words[COUNT + 1] == 0 && scene.words[COUNT - 1] == 0,
                "captured work has run");
    suite_expect_ok(suite, suite->ops->graph_launch(suite->device, scene.a, graph), "launch");
    check_launch(suite, &scene, 2, 0);
    suite_expect_ok(suite, suite->ops->graph_launch(suite->device, scene.a, graph), "launch");
    suite_expect_ok(suite, suite->ops->graph_launch(suite->device, scene.a, graph), "launch");
    suite->ops->graph_destroy(suite->device, graph);
    check_launch(suite, &scene, 8, 7);
    scene_destroy(suite, &scene);
}

static void order(struct suite *suite, struct hetccl_event event, struct hetccl_stream earlier,
                  struct hetccl_stream later)
{
    suite_expect_ok(suite, suite->ops->event_record(suite->device, event, earlier), "record");
    suite_expect_ok(suite, suite->ops->stream_wait_event(suite->device, later, event), "wait");
}

/* Word 0 is the host's gate, on the branch of b; words 1, 2, 3 are written before the fork, on b, and behind
 * the join. */
static struct hetccl_graph capture_fork(struct suite *suite, const struct scene *scene)
{
    struct hetccl_graph graph = {.handle = NULL};

    begin(suite, scene->a);
    suite_expect_ok(suite, suite->ops->stream_write_value(suite->device, scene->a, scene->on_device + 1, 1),
                    "word");
    order(suite, scene->fork, scene->a, scene->b);
    suite_expect_ok(suite, suite->ops->stream_wait_value(suite->device, scene->b, scene->on_device, 1),
                    "gate");
    suite_expect_ok(suite, suite->ops->stream_write_value(suite->device, scene->b, scene->on_device + 2, 2),
                    "word");
    order(suite, scene->join, scene->b, scene->a);
    suite_expect_ok(suite, suite->ops->stream_write_value(suite->device, scene->a, scene->on_device + 3, 3),
                    "word");
    suite_expect_ok(suite, suite->ops->capture_end(suite->device, scene->a, &graph), "end");
    return graph;
}

static uint32_t word(const struct scene *scene, size_t i)
{
    return __atomic_load_n(&scene->words[i], __ATOMIC_ACQUIRE);
}

static void case_fork(struct suite *suite)
{
    struct hetccl_capture state = {.is_capturing = true};
    struct hetccl_graph graph;
    struct scene scene;

    if (!suite->device->has_graphs || !suite->device->has_stream_values)
        return;
    scene = scene_create(suite);
    graph = capture_fork(suite, &scene);
    suite_expect_ok(suite, suite->ops->stream_capture(suite->device, scene.b, &state), "state");
    suite_check(suite, !state.is_capturing, "b is still captured");
    for (unsigned launch = 0; launch < 2; launch++) {
        memset(scene.words, 0, 16);
        suite_expect_ok(suite, suite->ops->graph_launch(suite->device, scene.a, graph), "launch");
        hetccl_sleep_ns(20 * HETCCL_NS_PER_MS);
        suite_check(suite, word(&scene, 1) == 1 && word(&scene, 2) == 0 && word(&scene, 3) == 0,
                    "the gate didn't hold: %u %u %u", word(&scene, 1), word(&scene, 2), word(&scene, 3));
        __atomic_store_n(&scene.words[0], 1, __ATOMIC_RELEASE);
        suite_finish(suite, scene.a);
        suite_check(suite, word(&scene, 2) == 2 && word(&scene, 3) == 3, "words %u %u", word(&scene, 2),
                    word(&scene, 3));
    }
    suite->ops->graph_destroy(suite->device, graph);
    scene_destroy(suite, &scene);
}

/* The stream can be used again after each of these. */
static void check_ended(struct suite *suite, const struct scene *scene)
{
    struct hetccl_capture state = {.is_capturing = true};

    suite_expect_ok(suite, suite->ops->stream_capture(suite->device, scene->a, &state), "state");
    suite_check(suite, !state.is_capturing && !state.is_invalidated, "the capture goes on");
    suite_expect_ok(suite, suite->ops->fill(suite->device, scene->a, scene->on_device, 0, 4), "fill");
    suite_finish(suite, scene->a);
    suite_expect_ok(suite, suite->ops->fill(suite->device, scene->b, scene->on_device, 0, 4), "fill");
    suite_finish(suite, scene->b);
}

static void case_spoilt(struct suite *suite)
{
    static const char *const unjoined[] = {"UNJOINED", "cuStreamEndCapture", NULL};
    static const char *const isolated[] = {"STREAM_CAPTURE_ISOLATION", NULL};
    static const char *const asked[] = {"STREAM_CAPTURE_UNSUPPORTED", NULL};
    static const char *const ended[] = {"STREAM_CAPTURE_INVALIDATED", NULL};
    struct hetccl_graph graph = {.handle = NULL};
    struct hetccl_capture state = {.is_capturing = true};
    struct scene scene;

    if (!suite->device->has_graphs)
        return;
    scene = scene_create(suite);

    begin(suite, scene.a);
    order(suite, scene.fork, scene.a, scene.b);
    suite_expect_ok(suite, suite->ops->fill(suite->device, scene.b, scene.on_device, 1, 4), "fill");
    suite_expect_error(suite, suite->ops->capture_end(suite->device, scene.a, &graph), HETCCL_ERR_DEVICE,
                       unjoined);
    check_ended(suite, &scene);

    suite_expect_ok(suite, suite->ops->event_record(suite->device, scene.join, scene.b), "record");
    begin(suite, scene.a);
    suite_expect_error(suite, suite->ops->stream_wait_event(suite->device, scene.a, scene.join),
                       HETCCL_ERR_DEVICE, isolated);
    suite_expect_error(suite, suite->ops->capture_end(suite->device, scene.a, &graph), HETCCL_ERR_DEVICE,
                       ended);
    check_ended(suite, &scene);

    begin(suite, scene.a);
    suite_expect_error(suite, suite->ops->stream_query(suite->device, scene.a), HETCCL_ERR_DEVICE, asked);
    suite_expect_ok(suite, suite->ops->stream_capture(suite->device, scene.a, &state), "state");
    suite_check(suite, state.is_invalidated && !state.is_capturing, "the capture isn't spoilt");
    suite_expect_error(suite, suite->ops->fill(suite->device, scene.a, scene.on_device, 1, 4),
                       HETCCL_ERR_DEVICE, ended);
    suite_expect_error(suite, suite->ops->capture_end(suite->device, scene.a, &graph), HETCCL_ERR_DEVICE,
                       ended);
    suite_check(suite, graph.handle == NULL, "an output was written on failure");
    check_ended(suite, &scene);
    scene_destroy(suite, &scene);
}

/* The device's other operations, as a communicator makes them at any time, don't disturb a capture. */
static void case_beside(struct suite *suite)
{
    struct hetccl_kernel kernel = {.handle = NULL};
    struct hetccl_graph graph = {.handle = NULL};
    struct hetccl_stream made = {.handle = NULL};
    struct hetccl_module module = {.handle = NULL};
    struct scene scene;
    void *memory;

    if (!suite->device->has_graphs)
        return;
    scene = scene_create(suite);
    begin(suite, scene.a);
    suite_expect_ok(suite, suite->ops->fill(suite->device, scene.a, scene.on_device, 1, 4), "fill");
    memory = suite_memory(suite, 4096, HETCCL_MEMORY_DEVICE);
    suite_expect_ok(suite, suite->ops->stream_create(suite->device, HETCCL_STREAM_HIGH, &made), "stream");
    suite_expect_ok(suite, suite->ops->fill(suite->device, made, memory, 1, 4096), "fill");
    suite_finish(suite, made);
    suite_expect_ok(suite, suite->ops->module_load(suite->device, suite_kernel_image, &module), "load");
    suite_expect_ok(suite, suite->ops->image_kernel(suite->device, "hetccl_copy", &kernel), "kernel");
    suite->ops->module_unload(suite->device, module);
    suite->ops->stream_destroy(suite->device, made);
    suite->ops->mem_free(suite->device, memory, HETCCL_MEMORY_DEVICE);
    suite_expect_ok(suite, suite->ops->capture_end(suite->device, scene.a, &graph), "end");
    suite_expect_ok(suite, suite->ops->graph_launch(suite->device, scene.a, graph), "launch");
    suite_finish(suite, scene.a);
    suite_check(suite, scene.words[0] == 0x01010101u, "word %#x", scene.words[0]);
    suite->ops->graph_destroy(suite->device, graph);
    scene_destroy(suite, &scene);
}

const struct suite_case suite_graph_cases[] = {
    {"graph replayed", case_replay},
    {"graph of two streams", case_fork},
    {"capture spoilt", case_spoilt},
    {"work beside a capture", case_beside},
    {NULL, NULL},
};
