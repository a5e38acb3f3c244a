/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "fake.h"

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t fake_changed = PTHREAD_COND_INITIALIZER;

enum { MAX_DEPTH = 16 };

static bool is_started;
static struct CUctx_st primaries[FAKE_MAX_DEVICES];
static _Thread_local struct CUctx_st *stack[MAX_DEPTH];
static _Thread_local size_t depth;
static _Thread_local unsigned capture_mode;

static int count_devices(void)
{
    const char *text = getenv("FAKE_CUDA_DEVICES");
    long n = text != NULL ? strtol(text, NULL, 10) : 1;

    return n < 0 || n > FAKE_MAX_DEVICES ? 1 : (int)n;
}

struct CUctx_st *fake_current(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

static unsigned check_state(enum fake_need need)
{
    struct CUctx_st *context = fake_current();
    bool is_spoilt;

    if (need == FAKE_NEEDS_NOTHING)
        return 0;
    if (!is_started)
        return HETCCL_CUDA_ERROR_NOT_INITIALIZED;
    if (need == FAKE_NEEDS_DRIVER)
        return 0;
    if (context == NULL)
        return HETCCL_CUDA_ERROR_INVALID_CONTEXT;
    if (context->sticky != 0)
        return context->sticky;
    is_spoilt = need == FAKE_NEEDS_NO_CAPTURE && capture_mode != HETCCL_CU_STREAM_CAPTURE_MODE_RELAXED &&
                fake_capture_spoil(capture_mode);
    return is_spoilt ? HETCCL_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : 0;
}

unsigned fake_enter(const char *function, enum fake_need need)
{
    unsigned code = fake_script_call(function);

    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    code = check_state(need);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

unsigned cuInit(unsigned flags)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_NOTHING);

    if (code != 0)
        return code;
    if (flags != 0)
        return HETCCL_CUDA_ERROR_INVALID_VALUE;
    if (count_devices() == 0)
        return HETCCL_CUDA_ERROR_NO_DEVICE;
    pthread_mutex_lock(&fake_lock);
    is_started = true;
    pthread_mutex_unlock(&fake_lock);
    fake_load_kernels();
    return 0;
}

unsigned cuDriverGetVersion(int *version)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_NOTHING);

    if (code == 0)
        *version = 13000;
    return code;
}

unsigned cuDeviceGetCount(int *count)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_DRIVER);

    if (code == 0)
        *count = count_devices();
    return code;
}

static bool has_device(int device)
{
    return device >= 0 && device < count_devices();
}

unsigned cuDeviceGet(int *device, int ordinal)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_DRIVER);

    if (code == 0 && !has_device(ordinal))
        code = HETCCL_CUDA_ERROR_INVALID_DEVICE;
    if (code == 0)
        *device = ordinal;
    return code;
}

unsigned cuDeviceGetAttribute(int *value, unsigned attribute, int device)
{
    static const struct {
        unsigned attribute;
        int value;
    } values[] = {
        {HETCCL_CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
        {HETCCL_CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
        {HETCCL_CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 4},
        {HETCCL_CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0},
        {HETCCL_CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
        {HETCCL_CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0},
        {HETCCL_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
        {HETCCL_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
        {HETCCL_CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
    };
    unsigned code = fake_enter(__func__, FAKE_NEEDS_DRIVER);

    if (code == 0 && !has_device(device))
        code = HETCCL_CUDA_ERROR_INVALID_DEVICE;
    if (code != 0)
        return code;
    if (attribute == HETCCL_CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) {
        *value = 0x40 + device;
        return 0;
    }
    if (attribute == HETCCL_CU_DEVICE_ATTRIBUTE_MPS_ENABLED) {
        *value = getenv("FAKE_CUDA_MPS") != NULL;
        return 0;
    }
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        if (values[i].attribute == attribute) {
            *value = values[i].value;
            return 0;
        }
    }
    return HETCCL_CUDA_ERROR_INVALID_VALUE;
}

unsigned cuDevicePrimaryCtxRetain(struct CUctx_st **context, int device)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_DRIVER);
    struct CUctx_st *primary;

    if (code == 0 && !has_device(device))
        code = HETCCL_CUDA_ERROR_INVALID_DEVICE;
    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    primary = &primaries[device];
    primary->device = device;
    if (primary->default_stream == NULL)
        primary->default_stream = fake_stream_new(primary, false);
    if (primary->default_stream == NULL)
        code = HETCCL_CUDA_ERROR_OUT_OF_MEMORY;
    else
        primary->n_retained++;
    pthread_mutex_unlock(&fake_lock);
    if (code == 0)
        *context = primary;
    return code;
}

unsigned cuDevicePrimaryCtxRelease_v2(int device)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_DRIVER);

    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    if (!has_device(device) || primaries[device].n_retained == 0)
        code = HETCCL_CUDA_ERROR_INVALID_CONTEXT;
    else
        primaries[device].n_retained--;
    pthread_mutex_unlock(&fake_lock);
    return code;
}

unsigned cuCtxGetCurrent(struct CUctx_st **context)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_DRIVER);

    if (code == 0)
        *context = fake_current();
    return code;
}

unsigned cuCtxSetCurrent(struct CUctx_st *context)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_DRIVER);

    if (code != 0)
        return code;
    if (context == NULL)
        depth = depth > 0 ? depth - 1 : 0;
    else
        stack[depth > 0 ? depth - 1 : depth++] = context;
    return 0;
}

unsigned cuCtxPushCurrent_v2(struct CUctx_st *context)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_DRIVER);

    if (code == 0 && (context == NULL || depth == MAX_DEPTH))
        code = HETCCL_CUDA_ERROR_INVALID_CONTEXT;
    if (code == 0)
        stack[depth++] = context;
    return code;
}

unsigned cuCtxPopCurrent_v2(struct CUctx_st **context)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_DRIVER);

    if (code == 0 && depth == 0)
        code = HETCCL_CUDA_ERROR_INVALID_CONTEXT;
    if (code == 0)
        *context = stack[--depth];
    return code;
}

unsigned cuCtxGetDevice(int *device)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);

    if (code == 0)
        *device = fake_current()->device;
    return code;
}

unsigned cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);

    if (code == 0) {
        *least = 0;
        *greatest = -5;
    }
    return code;
}

unsigned cuThreadExchangeStreamCaptureMode(unsigned *mode)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_DRIVER);
    unsigned before = capture_mode;

    if (code == 0 && *mode > HETCCL_CU_STREAM_CAPTURE_MODE_RELAXED)
        code = HETCCL_CUDA_ERROR_INVALID_VALUE;
    if (code != 0)
        return code;
    capture_mode = *mode;
    *mode = before;
    return 0;
}

size_t fake_cuda_live_objects(void)
{
    size_t n = fake_memory_count() + fake_stream_count() + fake_event_count() + fake_module_count() +
               fake_graph_count();

    pthread_mutex_lock(&fake_lock);
    for (int i = 0; i < FAKE_MAX_DEVICES; i++)
        n += primaries[i].n_retained;
    pthread_mutex_unlock(&fake_lock);
    return n;
}
