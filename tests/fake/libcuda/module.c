/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

enum { MAX_LISTS = 32 };

struct CUfunc_st {
    struct CUfunc_st *next;
    const struct fake_cuda_kernel *kernel;
};

struct CUmod_st {
    struct CUmod_st *next;
    struct CUfunc_st *functions;
};

static struct CUmod_st *modules;
static const struct fake_cuda_kernel *lists[MAX_LISTS];
static size_t n_lists;

void fake_cuda_register(const struct fake_cuda_kernel *kernels)
{
    pthread_mutex_lock(&fake_lock);
    if (n_lists == MAX_LISTS)
        abort();
    lists[n_lists++] = kernels;
    pthread_mutex_unlock(&fake_lock);
}

static void load_library(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct fake_cuda_kernel *kernels = library != NULL ? dlsym(library, "fake_cuda_kernels") : NULL;

    if (kernels == NULL) {
        (void)fprintf(stderr, "fake libcuda: FAKE_CUDA_KERNELS: %s\n", dlerror());
        abort();
    }
    fake_cuda_register(kernels);
}

static void load_kernels(void)
{
    const char *text = getenv("FAKE_CUDA_KERNELS");
    char *paths = text != NULL ? strdup(text) : NULL, *rest = NULL;

    for (char *path = paths != NULL ? strtok_r(paths, ":", &rest) : NULL; path != NULL;
         path = strtok_r(NULL, ":", &rest))
        load_library(path);
    free(paths);
}

void fake_load_kernels(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, load_kernels);
}

/* The latest registration wins, so that a test can replace a kernel. */
static const struct fake_cuda_kernel *find_kernel(const char *name)
{
    for (size_t i = n_lists; i-- > 0;) {
        for (const struct fake_cuda_kernel *kernel = lists[i]; kernel->name != NULL; kernel++) {
            if (strcmp(kernel->name, name) == 0)
                return kernel;
        }
    }
    return NULL;
}

/* Binary images are known by their magic number (ELF, fat binary); PTX is text that says so and has a kernel.
 */
static unsigned check_image(const char *image)
{
    static const char elf[] = {0x7f, 'E', 'L', 'F'}, fat[] = {0x50, '\xed', 0x55, '\xba'};

    if (strncmp(image, elf, sizeof(elf)) == 0 || strncmp(image, fat, sizeof(fat)) == 0)
        return 0;
    if (strstr(image, ".version") == NULL || strstr(image, ".target") == NULL)
        return HETCCL_CUDA_ERROR_INVALID_IMAGE;
    return strstr(image, ".entry") != NULL ? 0 : HETCCL_CUDA_ERROR_INVALID_PTX;
}

static struct CUmod_st **find_link(const struct CUmod_st *module)
{
    struct CUmod_st **link = &modules;

    while (*link != NULL && *link != module)
        link = &(*link)->next;
    return link;
}

size_t fake_module_count(void)
{
    size_t n = 0;

    pthread_mutex_lock(&fake_lock);
    for (const struct CUmod_st *module = modules; module != NULL; module = module->next)
        n++;
    pthread_mutex_unlock(&fake_lock);
    return n;
}

static void tell_compiler_words(unsigned n_options, const unsigned *options, void **values)
{
    char *log = NULL;
    size_t bytes = 0;

    for (unsigned i = 0; i < n_options; i++) {
        if (options[i] == HETCCL_CU_JIT_ERROR_LOG_BUFFER)
            log = values[i];
        if (options[i] == HETCCL_CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            bytes = (uintptr_t)values[i];
    }
    if (log != NULL && bytes > 0)
        (void)snprintf(log, bytes, "fake ptxas: no .entry in the text\nsecond line");
}

unsigned cuModuleLoadDataEx(struct CUmod_st **module, const void *image, unsigned n_options,
                            unsigned *options, void **values)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_NO_CAPTURE);
    struct CUmod_st *created;

    if (code == 0)
        code = check_image(image);
    if (code == HETCCL_CUDA_ERROR_INVALID_PTX)
        tell_compiler_words(n_options, options, values);
    if (code != 0)
        return code;
    created = calloc(1, sizeof(*created));
    if (created == NULL)
        return HETCCL_CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&fake_lock);
    created->next = modules;
    modules = created;
    pthread_mutex_unlock(&fake_lock);
    *module = created;
    return 0;
}

unsigned cuModuleUnload(struct CUmod_st *module)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_NO_CAPTURE);
    struct CUmod_st **link;
    struct CUfunc_st *function;

    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    fake_wait_idle(fake_current());
    link = find_link(module);
    if (*link == NULL) {
        code = HETCCL_CUDA_ERROR_INVALID_HANDLE;
    } else {
        *link = module->next;
        while ((function = module->functions) != NULL) {
            module->functions = function->next;
            free(function);
        }
        free(module);
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

unsigned cuModuleGetFunction(struct CUfunc_st **function, struct CUmod_st *module, const char *name)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);
    const struct fake_cuda_kernel *kernel;
    struct CUfunc_st *created;

    if (code != 0)
        return code;
    created = calloc(1, sizeof(*created));
    if (created == NULL)
        return HETCCL_CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&fake_lock);
    kernel = find_kernel(name);
    if (*find_link(module) == NULL) {
        code = HETCCL_CUDA_ERROR_INVALID_HANDLE;
    } else if (kernel == NULL) {
        code = HETCCL_CUDA_ERROR_NOT_FOUND;
    } else {
        *created = (struct CUfunc_st){.next = module->functions, .kernel = kernel};
        module->functions = created;
        *function = created;
    }
    pthread_mutex_unlock(&fake_lock);
    if (code != 0)
        free(created);
    return code;
}

unsigned cuFuncLoad(struct CUfunc_st *function)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_NO_CAPTURE);

    return code == 0 && function == NULL ? HETCCL_CUDA_ERROR_INVALID_HANDLE : code;
}

/* Parameters are taken at the launch, as the driver does. */
static struct fake_launch *copy_launch(const struct fake_cuda_kernel *kernel, void **params)
{
    struct fake_launch *launch = calloc(1, sizeof(*launch));
    size_t bytes = 16;

    if (launch == NULL)
        return NULL;
    for (size_t i = 0; i < kernel->n_params; i++)
        bytes += (kernel->param_bytes[i] + 15) / 16 * 16;
    launch->kernel = kernel;
    launch->values = aligned_alloc(16, bytes);
    if (launch->values == NULL) {
        free(launch);
        return NULL;
    }
    bytes = 0;
    for (size_t i = 0; i < kernel->n_params; i++) {
        launch->params[i] = launch->values + bytes;
        memcpy(launch->params[i], params[i], kernel->param_bytes[i]);
        bytes += (kernel->param_bytes[i] + 15) / 16 * 16;
    }
    return launch;
}

void fake_launch_free(struct fake_launch *launch)
{
    if (launch == NULL)
        return;
    free(launch->values);
    free(launch);
}

unsigned cuLaunchKernel(struct CUfunc_st *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        struct CUstream_st *stream, void **params, void **extra)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);
    size_t threads = (size_t)block_x * block_y * block_z;
    struct fake_op op = {.kind = FAKE_KERNEL};

    if (code == 0 && (function == NULL || extra != NULL || grid_x == 0 || grid_y == 0 || grid_z == 0 ||
                      threads == 0 || threads > 1024))
        code = HETCCL_CUDA_ERROR_INVALID_VALUE;
    if (code != 0)
        return code;
    op.launch = copy_launch(function->kernel, params);
    if (op.launch == NULL)
        return HETCCL_CUDA_ERROR_OUT_OF_MEMORY;
    op.launch->grid[0] = grid_x, op.launch->grid[1] = grid_y, op.launch->grid[2] = grid_z;
    op.launch->block[0] = block_x, op.launch->block[1] = block_y, op.launch->block[2] = block_z;
    op.launch->shared_bytes = shared_bytes;
    code = fake_enqueue(stream, &op);
    if (code != 0)
        fake_launch_free(op.launch);
    return code;
}
