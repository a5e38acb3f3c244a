/* SPDX-License-Identifier: Apache-2.0 */

/* The cuda device's failures, on the fake driver: every function that it calls fails once. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/time.h"
#include "device/cuda/cuda.h"
#include "device/cuda/table.h"
#include "fake_cuda.h"

static const char *fake_path;
static struct hetccl_config config;
static fake_cuda_fail_function *script;
static fake_cuda_live_objects_function *live_objects;
static fake_cuda_calls_function *calls;
static fake_cuda_register_function *enter_kernels;

static void find(void *driver, const char *name, void *out)
{
    void *address = dlsym(driver, name);

    assert_non_null(address);
    memcpy(out, &address, sizeof(address));
}

static struct hetccl_device *open_device(void)
{
    struct hetccl_device *device = NULL;

    assert_int_equal(hetccl_device_cuda_open(&config, HETCCL_DEVICE_OF_THREAD, &device), HETCCL_OK);
    return device;
}

static void assert_text(const char *words)
{
    if (strstr(hetccl_last_error_thread(), words) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", hetccl_last_error_thread(), words);
}

/* Must be first: the child forks before any thread is there. Its driver fails by the environment, too. */
static void test_overrun_is_noticed(void **state)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        int error = setenv("FAKE_CUDA_FAIL", "cuMemFree_v2:9:1,cuMemHostAlloc:1:801", 1);
        struct hetccl_device *device = open_device();
        int null = open("/dev/null", O_WRONLY);
        void *memory = NULL;

        if (error != 0 ||
            device->ops->mem_alloc(device, 100, HETCCL_MEMORY_PINNED, &memory) != HETCCL_ERR_USAGE)
            _exit(5);

        if (null < 0 || dup2(null, STDERR_FILENO) < 0 || signal(SIGABRT, SIG_DFL) == SIG_ERR ||
            device->ops->mem_alloc(device, 100, HETCCL_MEMORY_DEVICE, &memory) != HETCCL_OK)
            _exit(3);
        ((char *)memory)[100] = 1;
        device->ops->mem_free(device, memory, HETCCL_MEMORY_DEVICE);
        _exit(4);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void test_no_library(void **state)
{
    struct hetccl_config other = config;
    struct hetccl_device *device = NULL;

    (void)snprintf(other.cuda_lib, sizeof(other.cuda_lib), "/nowhere/libcuda.so.1");
    assert_int_equal(hetccl_device_cuda_open(&other, HETCCL_DEVICE_OF_THREAD, &device), HETCCL_ERR_USAGE);
    assert_text("/nowhere/libcuda.so.1");
    assert_text("HETCCL_CUDA_LIB");
    (void)snprintf(other.cuda_lib, sizeof(other.cuda_lib), "libcuda.so.1");
    assert_int_equal(hetccl_device_cuda_open(&other, HETCCL_DEVICE_OF_THREAD, &device), HETCCL_ERR_USAGE);
    assert_text("absolute path");
    assert_null(device);
}

/* Some other library. */
static void test_not_a_driver(void **state)
{
    struct hetccl_config other = config;
    struct hetccl_device *device = NULL;
    Dl_info info;
    char path[HETCCL_CONFIG_TEXT_BYTES];

    assert_int_not_equal(dladdr(dlsym(RTLD_DEFAULT, "getenv"), &info), 0);
    assert_non_null(realpath(info.dli_fname, path));
    memcpy(other.cuda_lib, path, sizeof(path));
    assert_int_equal(hetccl_device_cuda_open(&other, HETCCL_DEVICE_OF_THREAD, &device), HETCCL_ERR_USAGE);
    assert_text(path);
    assert_text("has no function cu");
    assert_null(device);
}

static void test_no_gpu(void **state)
{
    struct hetccl_device *device = NULL;

    assert_int_equal(setenv("FAKE_CUDA_DEVICES", "0", 1), 0);
    assert_int_equal(hetccl_device_cuda_open(&config, HETCCL_DEVICE_OF_THREAD, &device), HETCCL_ERR_USAGE);
    assert_text("cuInit gave CUDA_ERROR_NO_DEVICE (100)");
    assert_text("CUDA_VISIBLE_DEVICES");
    assert_int_equal(unsetenv("FAKE_CUDA_DEVICES"), 0);
    assert_null(device);
}

/* Each call of opening fails in turn, and each allocation: nothing is left, and the code is named. That older
 * drivers don't know of MPS is no failure. */
static void test_open_fails(void **state)
{
    unsigned n_before = calls("*"), n_calls, n_tolerated = 0;
    size_t n_live = live_objects();
    struct hetccl_device *device = open_device();
    enum hetccl_status status;

    n_calls = calls("*") - n_before;
    device->ops->close(device);
    device = NULL;
    assert_in_range(n_calls, 10, 40);
    /* The last two put the thread's state back; there is no more to be done when that fails. */
    for (unsigned k = 1; k <= n_calls - 2; k++) {
        script("*", k, HETCCL_CUDA_ERROR_UNKNOWN);
        status = hetccl_device_cuda_open(&config, HETCCL_DEVICE_OF_THREAD, &device);
        if (status == HETCCL_OK) {
            script("*", 0, 0);
            n_tolerated++;
            device->ops->close(device);
            device = NULL;
            continue;
        }
        assert_int_equal(status, HETCCL_ERR_DEVICE);
        assert_text("gave CUDA_ERROR_UNKNOWN (999)");
        assert_text("device cuda 0");
        script("*", 0, 0);
        assert_null(device);
        assert_int_equal(live_objects(), n_live);
    }
    assert_int_equal(n_tolerated, 1);
    hetccl_fault_arm(HETCCL_FAULT_ALLOC, 1);
    assert_int_equal(hetccl_device_cuda_open(&config, HETCCL_DEVICE_OF_THREAD, &device), HETCCL_ERR_SYSTEM);
    hetccl_fault_arm(HETCCL_FAULT_ALLOC, 0);
    assert_null(device);
}

/* Everything that operations need, made beforehand. */
struct scene {
    struct hetccl_device *device;
    struct hetccl_stream stream;
    struct hetccl_event event;
    struct hetccl_module module;
    struct hetccl_kernel kernel;
    uint32_t *pinned, *device_memory;
    char host[8192];
};

static void nothing(void *const *params, const struct fake_cuda_thread *thread)
{
}

static const char image[] = ".version 6.0 .target sm_70 .entry nothing";

static void open_scene(struct scene *scene)
{
    const struct hetccl_device_ops *ops;
    struct hetccl_device *device = open_device();
    void *pinned = NULL, *memory = NULL;

    memset(scene, 0, sizeof(*scene));
    scene->device = device;
    ops = device->ops;
    assert_int_equal(ops->stream_create(device, HETCCL_STREAM_NORMAL, &scene->stream), HETCCL_OK);
    assert_int_equal(ops->event_create(device, &scene->event), HETCCL_OK);
    assert_int_equal(ops->module_load(device, image, &scene->module), HETCCL_OK);
    assert_int_equal(ops->kernel_find(device, scene->module, "nothing", &scene->kernel), HETCCL_OK);
    assert_int_equal(ops->mem_alloc(device, 4096, HETCCL_MEMORY_PINNED, &pinned), HETCCL_OK);
    assert_int_equal(ops->mem_alloc(device, 4096, HETCCL_MEMORY_DEVICE, &memory), HETCCL_OK);
    scene->pinned = memset(pinned, 0, 4096);
    scene->device_memory = memory;
}

static void close_scene(struct scene *scene)
{
    const struct hetccl_device_ops *ops = scene->device->ops;

    ops->mem_free(scene->device, scene->device_memory, HETCCL_MEMORY_DEVICE);
    ops->mem_free(scene->device, scene->pinned, HETCCL_MEMORY_PINNED);
    ops->module_unload(scene->device, scene->module);
    ops->event_destroy(scene->device, scene->event);
    ops->stream_destroy(scene->device, scene->stream);
    ops->close(scene->device);
}

static enum hetccl_status do_alloc(struct scene *scene)
{
    void *memory = NULL;
    enum hetccl_status status =
        scene->device->ops->mem_alloc(scene->device, 64, HETCCL_MEMORY_DEVICE, &memory);

    scene->device->ops->mem_free(scene->device, memory, HETCCL_MEMORY_DEVICE);
    return status;
}

static enum hetccl_status do_alloc_pinned(struct scene *scene)
{
    void *memory = NULL;
    enum hetccl_status status =
        scene->device->ops->mem_alloc(scene->device, 64, HETCCL_MEMORY_PINNED, &memory);

    scene->device->ops->mem_free(scene->device, memory, HETCCL_MEMORY_PINNED);
    return status;
}

static enum hetccl_status do_register(struct scene *scene)
{
    enum hetccl_status status =
        scene->device->ops->host_register(scene->device, scene->host, sizeof(scene->host));

    if (status == HETCCL_OK)
        scene->device->ops->host_unregister(scene->device, scene->host);
    return status;
}

static enum hetccl_status do_address(struct scene *scene)
{
    void *address;

    return scene->device->ops->device_address(scene->device, scene->pinned, &address);
}

static enum hetccl_status do_classify(struct scene *scene)
{
    struct hetccl_pointer pointer;

    return scene->device->ops->classify(scene->device, scene->pinned, &pointer);
}

static enum hetccl_status do_copy(struct scene *scene)
{
    return scene->device->ops->copy(scene->device, scene->stream, scene->device_memory, scene->pinned, 64);
}

static enum hetccl_status do_export(struct scene *scene)
{
    struct hetccl_ipc_handle handle;

    return scene->device->ops->ipc_export(scene->device, scene->device_memory, &handle);
}

/* Of this process's own memory, which the driver refuses in any case. */
static enum hetccl_status do_import(struct scene *scene)
{
    struct hetccl_ipc_handle handle = {.offset_bytes = 0};
    struct hetccl_ipc_mapping mapping = {.base = NULL};
    enum hetccl_status status = scene->device->ops->ipc_export(scene->device, scene->device_memory, &handle);

    assert_int_equal(status, HETCCL_OK);
    status = scene->device->ops->ipc_import(scene->device, &handle, &mapping);
    assert_null(mapping.base);
    return status;
}

static enum hetccl_status do_stream(struct scene *scene)
{
    struct hetccl_stream stream = {.handle = NULL};
    enum hetccl_status status = scene->device->ops->stream_create(scene->device, HETCCL_STREAM_HIGH, &stream);

    scene->device->ops->stream_destroy(scene->device, stream);
    return status;
}

static enum hetccl_status do_query(struct scene *scene)
{
    return scene->device->ops->stream_query(scene->device, scene->stream);
}

static enum hetccl_status do_capture(struct scene *scene)
{
    struct hetccl_capture capture;

    return scene->device->ops->stream_capture(scene->device, scene->stream, &capture);
}

static enum hetccl_status do_wait_event(struct scene *scene)
{
    return scene->device->ops->stream_wait_event(scene->device, scene->stream, scene->event);
}

static enum hetccl_status do_wait_value(struct scene *scene)
{
    return scene->device->ops->stream_wait_value(scene->device, scene->stream, scene->pinned, 0);
}

static enum hetccl_status do_values(struct scene *scene)
{
    struct hetccl_stream_value value = {.kind = HETCCL_VALUE_WAIT_EQUAL, .word = scene->pinned};

    return scene->device->ops->stream_values(scene->device, scene->stream, &value, 1);
}

static enum hetccl_status do_copy_rows(struct scene *scene)
{
    struct hetccl_rows rows = {scene->pinned, scene->pinned, 8, 8, 4, 1};

    return scene->device->ops->copy_rows(scene->device, scene->stream, &rows);
}

static enum hetccl_status do_write_value(struct scene *scene)
{
    return scene->device->ops->stream_write_value(scene->device, scene->stream, scene->pinned, 0);
}

static enum hetccl_status do_event(struct scene *scene)
{
    struct hetccl_event event = {.handle = NULL};
    enum hetccl_status status = scene->device->ops->event_create(scene->device, &event);

    scene->device->ops->event_destroy(scene->device, event);
    return status;
}

static enum hetccl_status do_record(struct scene *scene)
{
    return scene->device->ops->event_record(scene->device, scene->event, scene->stream);
}

static enum hetccl_status do_event_query(struct scene *scene)
{
    return scene->device->ops->event_query(scene->device, scene->event);
}

static enum hetccl_status do_module(struct scene *scene)
{
    struct hetccl_module module = {.handle = NULL};
    enum hetccl_status status = scene->device->ops->module_load(scene->device, image, &module);

    scene->device->ops->module_unload(scene->device, module);
    return status;
}

static enum hetccl_status do_find(struct scene *scene)
{
    struct hetccl_kernel kernel;

    return scene->device->ops->kernel_find(scene->device, scene->module, "nothing", &kernel);
}

static enum hetccl_status do_launch(struct scene *scene)
{
    struct hetccl_launch launch = {.kernel = scene->kernel, .n_blocks = 1, .block_threads = 1};

    return scene->device->ops->kernel_launch(scene->device, scene->stream, &launch);
}

static const struct {
    const char *function;
    enum hetccl_status (*run)(struct scene *scene);
} operations[] = {
    {"cuMemAlloc_v2", do_alloc},
    {"cuMemHostAlloc", do_alloc_pinned},
    {"cuMemHostRegister_v2", do_register},
    {"cuMemHostGetDevicePointer_v2", do_address},
    {"cuPointerGetAttributes", do_classify},
    {"cuMemcpyAsync", do_copy},
    {"cuIpcGetMemHandle", do_export},
    {"cuIpcOpenMemHandle_v2", do_import},
    {"cuStreamCreateWithPriority", do_stream},
    {"cuStreamQuery", do_query},
    {"cuStreamGetCaptureInfo_v2", do_capture},
    {"cuStreamWaitEvent", do_wait_event},
    {"cuStreamWaitValue32_v2", do_wait_value},
    {"cuStreamWriteValue32_v2", do_write_value},
    {"cuStreamBatchMemOp_v2", do_values},
    {"cuMemcpy2DAsync_v2", do_copy_rows},
    {"cuEventCreate", do_event},
    {"cuEventRecord", do_record},
    {"cuEventQuery", do_event_query},
    {"cuModuleLoadDataEx", do_module},
    {"cuModuleGetFunction", do_find},
    {"cuLaunchKernel", do_launch},
    /* what every operation calls */
    {"cuCtxGetCurrent", do_query},
    {"cuCtxPushCurrent_v2", do_query},
    {"cuThreadExchangeStreamCaptureMode", do_query},
};

static void assert_no_context(const struct hetccl_cuda_api *api)
{
    struct CUctx_st *current = (struct CUctx_st *)(uintptr_t)1;
    unsigned mode = HETCCL_CU_STREAM_CAPTURE_MODE_GLOBAL;

    assert_int_equal(api->cuCtxGetCurrent(&current), 0);
    assert_null(current);
    assert_int_equal(api->cuThreadExchangeStreamCaptureMode(&mode), 0);
    assert_int_equal(mode, HETCCL_CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static void test_each_function_fails(void **state)
{
    struct hetccl_cuda_api api;
    struct scene scene;
    size_t n_live = live_objects();

    assert_int_equal(hetccl_cuda_api_load(fake_path, &api), HETCCL_OK);
    open_scene(&scene);
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
        const char *function = operations[i].function;
        char words[128];

        script(function, 1, HETCCL_CUDA_ERROR_UNKNOWN);
        assert_int_equal(operations[i].run(&scene), HETCCL_ERR_DEVICE);
        (void)snprintf(words, sizeof(words), "%s gave CUDA_ERROR_UNKNOWN (999), unknown error: ", function);
        assert_text(words);
        assert_text("device cuda 0: ");
        script(function, 0, 0);
        assert_no_context(&api);
        if (operations[i].run != do_import)
            assert_false(hetccl_is_error(operations[i].run(&scene)));
    }
    close_scene(&scene);
    hetccl_cuda_api_unload(&api);
    assert_int_equal(live_objects(), n_live);
}

static void test_codes_and_hints(void **state)
{
    static const struct {
        unsigned code;
        enum hetccl_status status;
        const char *hint;
    } cases[] = {
        {HETCCL_CUDA_ERROR_OUT_OF_MEMORY, HETCCL_ERR_DEVICE, "nvidia-smi"},
        {HETCCL_CUDA_ERROR_NOT_INITIALIZED, HETCCL_ERR_DEVICE, "spawn"},
        {HETCCL_CUDA_ERROR_ILLEGAL_ADDRESS, HETCCL_ERR_DEVICE, "compute-sanitizer"},
        {HETCCL_CUDA_ERROR_NOT_SUPPORTED, HETCCL_ERR_USAGE, "this GPU or driver can't do it"},
        {HETCCL_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, HETCCL_ERR_DEVICE, "graph capture"},
        {12345, HETCCL_ERR_DEVICE, "unknown code (12345), no description"},
    };
    struct scene scene;

    open_scene(&scene);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        script("cuMemAlloc_v2", 1, cases[i].code);
        assert_int_equal(do_alloc(&scene), cases[i].status);
        assert_text(cases[i].hint);
        script("cuMemAlloc_v2", 0, 0);
    }
    close_scene(&scene);
}

/* Destructors whose driver call fails say nothing and go on. */
static void test_destructors_fail(void **state)
{
    static const char *const functions[] = {"cuMemFree_v2",       "cuMemFreeHost",     "cuMemHostUnregister",
                                            "cuStreamDestroy_v2", "cuEventDestroy_v2", "cuModuleUnload"};
    struct scene scene;

    open_scene(&scene);
    (void)hetccl_fail_quietly(HETCCL_ERR_ARG, "untouched");
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        script(functions[i], 1, HETCCL_CUDA_ERROR_UNKNOWN);
    assert_int_equal(do_alloc(&scene), HETCCL_OK);
    assert_int_equal(do_alloc_pinned(&scene), HETCCL_OK);
    assert_int_equal(do_register(&scene), HETCCL_OK);
    assert_int_equal(do_stream(&scene), HETCCL_OK);
    assert_int_equal(do_event(&scene), HETCCL_OK);
    assert_int_equal(do_module(&scene), HETCCL_OK);
    assert_string_equal(hetccl_last_error_thread(), "untouched");
    script("*", 0, 0);
    scene.device->ops->host_unregister(scene.device, scene.host);
    close_scene(&scene);
}

static void test_wrong_memory(void **state)
{
    struct scene scene;
    const struct hetccl_device_ops *ops;
    char *memory;

    open_scene(&scene);
    ops = scene.device->ops;
    memory = (char *)scene.device_memory;
    assert_int_equal(ops->copy(scene.device, scene.stream, memory + 1, scene.pinned, 4096),
                     HETCCL_ERR_DEVICE);
    assert_text("cuMemcpyAsync gave CUDA_ERROR_INVALID_VALUE (1)");
    assert_text("copying 4096 bytes");
    assert_int_equal(ops->copy(scene.device, scene.stream, scene.pinned, memory + 4096, 1),
                     HETCCL_ERR_DEVICE);
    assert_int_equal(ops->copy(scene.device, scene.stream, scene.pinned, scene.pinned + 1000, 97),
                     HETCCL_ERR_DEVICE);
    assert_int_equal(ops->stream_write_value(scene.device, scene.stream, (uint32_t *)scene.host, 1),
                     HETCCL_ERR_DEVICE);
    assert_int_equal(do_import(&scene), HETCCL_ERR_DEVICE);
    assert_text("CUDA_ERROR_INVALID_CONTEXT");
    close_scene(&scene);
}

static void test_memory_runs_out(void **state)
{
    struct hetccl_device *device = open_device();
    void *first = NULL, *second = NULL;

    assert_int_equal(setenv("FAKE_CUDA_MEMORY_MIB", "3", 1), 0);
    assert_int_equal(device->ops->mem_alloc(device, 2 << 20, HETCCL_MEMORY_DEVICE, &first), HETCCL_OK);
    assert_int_equal(device->ops->mem_alloc(device, 2 << 20, HETCCL_MEMORY_DEVICE, &second),
                     HETCCL_ERR_DEVICE);
    assert_text("allocating 2097152 bytes: cuMemAlloc_v2 gave CUDA_ERROR_OUT_OF_MEMORY (2), out of memory: ");
    device->ops->mem_free(device, first, HETCCL_MEMORY_DEVICE);
    assert_int_equal(device->ops->mem_alloc(device, 2 << 20, HETCCL_MEMORY_DEVICE, &second), HETCCL_OK);
    device->ops->mem_free(device, second, HETCCL_MEMORY_DEVICE);
    assert_int_equal(unsetenv("FAKE_CUDA_MEMORY_MIB"), 0);
    device->ops->close(device);
}

/* Must be last: a kernel's failure stays with the context. */
static void test_kernel_fails(void **state)
{
    struct scene scene;
    uint64_t deadline_ns = hetccl_deadline_ns(20);
    enum hetccl_status status = HETCCL_AGAIN;

    open_scene(&scene);
    script("kernel", 1, HETCCL_CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(do_launch(&scene), HETCCL_OK);
    while (status == HETCCL_AGAIN && hetccl_now_ns() < deadline_ns)
        status = do_query(&scene);
    assert_int_equal(status, HETCCL_ERR_DEVICE);
    assert_text("cuStreamQuery gave CUDA_ERROR_ILLEGAL_ADDRESS (700)");
    assert_text("a kernel that ran before");
    assert_int_equal(do_copy(&scene), HETCCL_ERR_DEVICE);
    assert_int_equal(do_event_query(&scene), HETCCL_ERR_DEVICE);
    assert_int_equal(do_alloc(&scene), HETCCL_ERR_DEVICE);
    close_scene(&scene);
}

int main(int argc, char **argv)
{
    static const struct fake_cuda_kernel kernels[] = {
        {.name = "nothing", .function = nothing, .is_independent = true},
        {.name = NULL},
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overrun_is_noticed), cmocka_unit_test(test_no_library),
        cmocka_unit_test(test_not_a_driver),       cmocka_unit_test(test_no_gpu),
        cmocka_unit_test(test_open_fails),         cmocka_unit_test(test_each_function_fails),
        cmocka_unit_test(test_codes_and_hints),    cmocka_unit_test(test_destructors_fail),
        cmocka_unit_test(test_wrong_memory),       cmocka_unit_test(test_memory_runs_out),
        cmocka_unit_test(test_kernel_fails),
    };
    void *driver = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;

    if (driver == NULL)
        return 2;
    fake_path = argv[1];
    (void)snprintf(config.cuda_lib, sizeof(config.cuda_lib), "%s", fake_path);
    find(driver, "fake_cuda_fail", &script);
    find(driver, "fake_cuda_live_objects", &live_objects);
    find(driver, "fake_cuda_calls", &calls);
    find(driver, "fake_cuda_register", &enter_kernels);
    enter_kernels(kernels);
    return cmocka_run_group_tests_name("device cuda, failures", tests, NULL, NULL);
}
