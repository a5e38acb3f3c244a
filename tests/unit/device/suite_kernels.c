/* SPDX-License-Identifier: Apache-2.0 */

/* Three kernels as PTX; suite_fake_kernels.c has them as functions for the fake driver. */

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "fake_cuda.h"
#include "suite.h"

const char suite_kernel_image[] =
    ".version 6.0\n.target sm_70\n.address_size 64\n"
    ".extern .shared .align 4 .b8 room[];\n"
    /* dst[i] = value + i */
    ".visible .entry suite_fill(.param .u64 dst, .param .u32 value, .param .u32 count)\n{\n"
    ".reg .pred %p<2>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<4>;\n"
    "ld.param.u64 %rd1, [dst];\nld.param.u32 %r1, [value];\nld.param.u32 %r2, [count];\n"
    "mov.u32 %r3, %ctaid.x;\nmov.u32 %r4, %ntid.x;\nmov.u32 %r5, %tid.x;\n"
    "mad.lo.u32 %r6, %r3, %r4, %r5;\nsetp.ge.u32 %p1, %r6, %r2;\n@%p1 bra done;\n"
    "cvta.to.global.u64 %rd1, %rd1;\nmul.wide.u32 %rd2, %r6, 4;\nadd.u64 %rd1, %rd1, %rd2;\n"
    "add.u32 %r1, %r1, %r6;\nst.global.u32 [%rd1], %r1;\ndone:\nret;\n}\n"
    /* dst[t] = src[(t + 1) % threads], through shared memory and a barrier */
    ".visible .entry suite_rotate(.param .u64 dst, .param .u64 src)\n{\n"
    ".reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n"
    "ld.param.u64 %rd1, [dst];\nld.param.u64 %rd2, [src];\n"
    "cvta.to.global.u64 %rd1, %rd1;\ncvta.to.global.u64 %rd2, %rd2;\n"
    "mov.u32 %r1, %tid.x;\nmov.u32 %r2, %ntid.x;\nmul.wide.u32 %rd3, %r1, 4;\nadd.u64 %rd2, %rd2, %rd3;\n"
    "ld.global.u32 %r3, [%rd2];\nmov.u32 %r4, room;\nmad.lo.u32 %r5, %r1, 4, %r4;\nst.shared.u32 [%r5], "
    "%r3;\n"
    "bar.sync 0;\n"
    "add.u32 %r6, %r1, 1;\nrem.u32 %r6, %r6, %r2;\nmad.lo.u32 %r5, %r6, 4, %r4;\nld.shared.u32 %r3, [%r5];\n"
    "add.u64 %rd1, %rd1, %rd3;\nst.global.u32 [%rd1], %r3;\nret;\n}\n"
    /* waits until *gate isn't 0; then *dst = value */
    ".visible .entry suite_hold(.param .u64 gate, .param .u64 dst, .param .u32 value)\n{\n"
    ".reg .pred %p<2>;\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n"
    "ld.param.u64 %rd1, [gate];\nld.param.u64 %rd2, [dst];\nld.param.u32 %r1, [value];\n"
    "cvta.to.global.u64 %rd1, %rd1;\ncvta.to.global.u64 %rd2, %rd2;\n"
    "again:\nld.acquire.sys.global.u32 %r2, [%rd1];\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra again;\n"
    "st.release.sys.global.u32 [%rd2], %r1;\nret;\n}\n";

void suite_register_kernels(const char *library)
{
    void *driver = dlopen(library[0] != '\0' ? library : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *hook = driver != NULL ? dlsym(driver, "fake_cuda_register") : NULL;
    const char *libraries = getenv("FAKE_CUDA_KERNELS");
    fake_cuda_register_function *enter;

    /* Where a library of them is named the driver loads it by itself. */
    if (hook == NULL || (libraries != NULL && strstr(libraries, "suite_kernels") != NULL))
        return;
    memcpy(&enter, &hook, sizeof(enter));
    enter(fake_cuda_kernels);
}

/* The module and one of its kernels; false when the device has none and has refused properly. */
static bool load(struct suite *suite, const char *name, struct hetccl_module *module,
                 struct hetccl_kernel *kernel)
{
    static const char *const words[] = {"has no", NULL};
    struct hetccl_stream none = {.handle = NULL};
    struct hetccl_launch launch = {.n_blocks = 1, .block_threads = 1};

    if (suite->device->has_modules) {
        suite_expect_ok(suite, suite->ops->module_load(suite->device, suite_kernel_image, module), "load");
        return suite_expect_ok(suite, suite->ops->kernel_find(suite->device, *module, name, kernel), name);
    }
    suite_expect_error(suite, suite->ops->module_load(suite->device, suite_kernel_image, module),
                       HETCCL_ERR_USAGE, words);
    suite_expect_error(suite, suite->ops->kernel_find(suite->device, *module, name, kernel), HETCCL_ERR_USAGE,
                       words);
    suite_expect_error(suite, suite->ops->kernel_launch(suite->device, none, &launch), HETCCL_ERR_USAGE,
                       words);
    suite_check(suite, module->handle == NULL && kernel->handle == NULL, "an output was written");
    suite->ops->module_unload(suite->device, *module);
    return false;
}

static void case_launch(struct suite *suite)
{
    enum { COUNT = 1000, THREADS = 96 };
    struct hetccl_stream stream = suite_stream(suite);
    struct hetccl_module module = {.handle = NULL};
    struct hetccl_kernel kernel = {.handle = NULL};
    uint32_t *device, *back;
    uint32_t value = 5000, count = COUNT;
    void *params[] = {&device, &value, &count};
    struct hetccl_launch launch = {
        .n_blocks = (COUNT + THREADS - 1) / THREADS, .block_threads = THREADS, .params = params};

    if (load(suite, "suite_fill", &module, &kernel)) {
        device = suite_memory(suite, COUNT * 4, HETCCL_MEMORY_DEVICE);
        back = suite_memory(suite, COUNT * 4, HETCCL_MEMORY_PINNED);
        launch.kernel = kernel;
        suite_expect_ok(suite, suite->ops->kernel_launch(suite->device, stream, &launch), "launch");
        value = 1; /* was read by the launch */
        suite_expect_ok(suite, suite->ops->copy(suite->device, stream, back, device, COUNT * 4), "out");
        suite_finish(suite, stream);
        for (uint32_t i = 0; i < COUNT; i++) {
            if (!suite_check(suite, back[i] == 5000 + i, "element %u is %u", i, back[i]))
                break;
        }
        suite->ops->mem_free(suite->device, back, HETCCL_MEMORY_PINNED);
        suite->ops->mem_free(suite->device, device, HETCCL_MEMORY_DEVICE);
        suite->ops->module_unload(suite->device, module);
    }
    suite->ops->stream_destroy(suite->device, stream);
}

static void case_barrier(struct suite *suite)
{
    enum { THREADS = 256 };
    struct hetccl_stream stream = suite_stream(suite);
    struct hetccl_module module = {.handle = NULL};
    struct hetccl_kernel kernel = {.handle = NULL};
    uint32_t *pinned, *src, *dst;
    void *params[] = {&dst, &src};
    struct hetccl_launch launch = {
        .n_blocks = 1, .block_threads = THREADS, .shared_bytes = THREADS * 4, .params = params};

    if (load(suite, "suite_rotate", &module, &kernel)) {
        void *address = NULL;

        pinned = suite_memory(suite, (size_t)THREADS * 8, HETCCL_MEMORY_PINNED);
        suite_expect_ok(suite, suite->ops->device_address(suite->device, pinned, &address), "address");
        src = address;
        dst = src + THREADS;
        for (uint32_t i = 0; i < THREADS; i++)
            pinned[i] = 1000 + i;
        launch.kernel = kernel;
        suite_expect_ok(suite, suite->ops->kernel_launch(suite->device, stream, &launch), "launch");
        suite_finish(suite, stream);
        for (uint32_t i = 0; i < THREADS; i++)
            suite_check(suite, pinned[THREADS + i] == 1000 + (i + 1) % THREADS, "element %u is %u", i,
                        pinned[THREADS + i]);
        suite->ops->mem_free(suite->device, pinned, HETCCL_MEMORY_PINNED);
        suite->ops->module_unload(suite->device, module);
    }
    suite->ops->stream_destroy(suite->device, stream);
}

/* A kernel that spins on a flag of the host's holds its stream, and nothing else. */
static void case_spinning_kernel(struct suite *suite)
{
    struct hetccl_stream stream = suite_stream(suite), other = suite_stream(suite);
    struct hetccl_module module = {.handle = NULL};
    struct hetccl_kernel kernel = {.handle = NULL};
    uint32_t *pinned, *gate, *dst, value = 99;
    void *params[] = {&gate, &dst, &value}, *address = NULL;
    struct hetccl_launch launch = {.n_blocks = 1, .block_threads = 1, .params = params};

    if (load(suite, "suite_hold", &module, &kernel)) {
        pinned = suite_memory(suite, 4096, HETCCL_MEMORY_PINNED);
        memset(pinned, 0, 4096);
        suite_expect_ok(suite, suite->ops->device_address(suite->device, pinned, &address), "address");
        gate = address;
        dst = gate + 1;
        launch.kernel = kernel;
        suite_expect_ok(suite, suite->ops->kernel_launch(suite->device, stream, &launch), "launch");
        hetccl_sleep_ns(20 * HETCCL_NS_PER_MS);
        suite_check(suite, suite->ops->stream_query(suite->device, stream) == HETCCL_AGAIN, "it didn't spin");
        suite_check(suite, __atomic_load_n(&pinned[1], __ATOMIC_ACQUIRE) == 0, "it came early");
        suite_expect_ok(suite, suite->ops->copy(suite->device, other, gate + 3, gate + 2, 4), "copy");
        suite_finish(suite, other);
        __atomic_store_n(&pinned[0], 1, __ATOMIC_RELEASE);
        suite_finish(suite, stream);
        suite_check(suite, pinned[1] == 99, "the kernel wrote %u", pinned[1]);
        suite->ops->mem_free(suite->device, pinned, HETCCL_MEMORY_PINNED);
        suite->ops->module_unload(suite->device, module);
    }
    suite->ops->stream_destroy(suite->device, other);
    suite->ops->stream_destroy(suite->device, stream);
}

static void case_bad_kernels(struct suite *suite)
{
    static const char broken[] = ".version 6.0\n.target sm_70\n.address_size 64\nnonsense;\n";
    static const char *const compiler_words[] = {"cuModuleLoadDataEx", "compiler: ", "INVALID_PTX", NULL};
    static const char *const image_words[] = {"cuModuleLoadDataEx", NULL};
    static const char *const name_words[] = {"suite_absent", "cuModuleGetFunction", "NOT_FOUND", NULL};
    static const char *const launch_words[] = {"blocks", "threads", NULL};
    struct hetccl_stream none = {.handle = NULL};
    struct hetccl_module module = {.handle = NULL}, bad = {.handle = NULL};
    struct hetccl_kernel kernel = {.handle = NULL}, absent = {.handle = NULL};
    struct hetccl_launch launch = {.block_threads = 1};

    if (!load(suite, "suite_fill", &module, &kernel))
        return;
    suite_expect_error(suite, suite->ops->module_load(suite->device, broken, &bad), HETCCL_ERR_DEVICE,
                       compiler_words);
    suite_expect_error(suite, suite->ops->module_load(suite->device, "this is no PTX", &bad),
                       HETCCL_ERR_DEVICE, image_words);
    suite_check(suite, suite->ops->module_load(suite->device, NULL, &bad) == HETCCL_ERR_ARG, "no image");
    suite_expect_error(suite, suite->ops->kernel_find(suite->device, module, "suite_absent", &absent),
                       HETCCL_ERR_DEVICE, name_words);
    suite_check(suite, bad.handle == NULL && absent.handle == NULL, "an output was written on failure");
    launch.kernel = kernel;
    suite_expect_error(suite, suite->ops->kernel_launch(suite->device, none, &launch), HETCCL_ERR_ARG,
                       launch_words);
    launch = (struct hetccl_launch){.kernel = kernel, .n_blocks = 1, .block_threads = 1u << 20};
    suite_expect_error(suite, suite->ops->kernel_launch(suite->device, none, &launch), HETCCL_ERR_ARG,
                       launch_words);
    suite->ops->module_unload(suite->device, module);
}

const struct suite_case suite_kernel_cases[] = {
    {"launch", case_launch},
    {"barrier and shared memory", case_barrier},
    {"spinning kernel", case_spinning_kernel},
    {"bad kernels", case_bad_kernels},
    {NULL, NULL},
};
