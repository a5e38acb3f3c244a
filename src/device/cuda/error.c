/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "device/cuda/internal.h"

static const struct {
    unsigned code;
    const char *hint;
} hints[] = {
    {HETCCL_CUDA_ERROR_INVALID_VALUE, "check that pointers and sizes belong to live memory of this device"},
    {HETCCL_CUDA_ERROR_OUT_OF_MEMORY, "free GPU memory: nvidia-smi shows who holds it"},
    {HETCCL_CUDA_ERROR_NOT_INITIALIZED,
     "was the process forked after CUDA had started? start workers with spawn instead"},
    {HETCCL_CUDA_ERROR_DEINITIALIZED, "the process is exiting: destroy communicators before main returns"},
    {HETCCL_CUDA_ERROR_STUB_LIBRARY,
     "a stub for linking was opened: take the toolkit's stubs folder out of LD_LIBRARY_PATH"},
    {HETCCL_CUDA_ERROR_DEVICE_UNAVAILABLE,
     "another process holds the GPU exclusively: see the compute mode in nvidia-smi -q"},
    {HETCCL_CUDA_ERROR_NO_DEVICE, "no NVIDIA GPU is visible: check nvidia-smi and CUDA_VISIBLE_DEVICES"},
    {HETCCL_CUDA_ERROR_INVALID_IMAGE, "the kernel image is damaged or not for NVIDIA GPUs"},
    {HETCCL_CUDA_ERROR_INVALID_CONTEXT, "was the device reset (cudaDeviceReset) while communicators lived? "
                                        "shared memory can't be opened in the process that exported it"},
    {HETCCL_CUDA_ERROR_MAP_FAILED, "did the process that exported the memory free it or end?"},
    {HETCCL_CUDA_ERROR_NO_BINARY_FOR_GPU, "the kernel image doesn't fit this GPU"},
    {HETCCL_CUDA_ERROR_ECC_UNCORRECTABLE, "the GPU's memory is faulty: see nvidia-smi -q -d ECC"},
    {HETCCL_CUDA_ERROR_INVALID_PTX, "the driver can't compile the kernel image"},
    {HETCCL_CUDA_ERROR_JIT_COMPILER_NOT_FOUND,
     "libnvidia-ptxjitcompiler.so is missing: install the whole driver"},
    {HETCCL_CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "update the NVIDIA driver"},
    {HETCCL_CUDA_ERROR_INVALID_HANDLE, "was the stream destroyed, or made on another device?"},
    {HETCCL_CUDA_ERROR_NOT_FOUND, "the kernel image has no such function"},
    {HETCCL_CUDA_ERROR_ILLEGAL_ADDRESS,
     "a kernel that ran before, of any library, has failed and the GPU's context is lost; find it with "
     "CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer"},
    {HETCCL_CUDA_ERROR_LAUNCH_TIMEOUT, "a kernel ran longer than the display's watchdog allows"},
    {HETCCL_CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "some library has registered part of that range"},
    {HETCCL_CUDA_ERROR_LAUNCH_FAILED,
     "a kernel that ran before, of any library, has failed and the GPU's context is lost; find it with "
     "CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer"},
    {HETCCL_CUDA_ERROR_NOT_PERMITTED, "the system or the container forbids it"},
    {HETCCL_CUDA_ERROR_NOT_SUPPORTED, "this GPU or driver can't do it"},
    {HETCCL_CUDA_ERROR_SYSTEM_NOT_READY, "is nvidia-fabricmanager running?"},
    {HETCCL_CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
     "kernel module and libcuda.so.1 are of different releases: reboot or reload the module"},
    {HETCCL_CUDA_ERROR_MPS_CONNECTION_FAILED, "the MPS daemon can't be reached: see CUDA_MPS_PIPE_DIRECTORY"},
    {HETCCL_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "it isn't possible on a stream under graph capture"},
    {HETCCL_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "an earlier call has spoilt the graph capture: end it"},
    {HETCCL_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
     "the default stream can't be used while another stream is captured"},
};

static const char *find_hint(unsigned code)
{
    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
        if (hints[i].code == code)
            return hints[i].hint;
    }
    return "see the CUDA driver API's description of the code";
}

static const char *name_code(const struct hetccl_cuda_api *api, unsigned code)
{
    const char *name = NULL;

    return api->cuGetErrorName(code, &name) == HETCCL_CUDA_SUCCESS && name != NULL ? name : "unknown code";
}

static const char *describe_code(const struct hetccl_cuda_api *api, unsigned code)
{
    const char *text = NULL;

    return api->cuGetErrorString(code, &text) == HETCCL_CUDA_SUCCESS && text != NULL ? text
                                                                                     : "no description";
}

/* What has to do with the set-up, not with a failure, is wrong use: no GPU, or a GPU that lacks something. */
static enum hetccl_status status_of(unsigned code)
{
    switch (code) {
    case HETCCL_CUDA_SUCCESS:
        return HETCCL_OK;
    case HETCCL_CUDA_ERROR_NOT_READY:
        return HETCCL_AGAIN;
    case HETCCL_CUDA_ERROR_NO_DEVICE:
    case HETCCL_CUDA_ERROR_STUB_LIBRARY:
    case HETCCL_CUDA_ERROR_NOT_SUPPORTED:
        return HETCCL_ERR_USAGE;
    default:
        return HETCCL_ERR_DEVICE;
    }
}

enum hetccl_status hetccl_cuda_check(const struct hetccl_cuda_device *cuda, unsigned code,
                                     const char *function, const char *what_format, ...)
{
    enum hetccl_status status = status_of(code);
    char what[HETCCL_ERROR_TEXT_BYTES / 2];
    va_list args;

    if (!hetccl_is_error(status))
        return status;
    va_start(args, what_format);
    (void)vsnprintf(what, sizeof(what), what_format, args);
    va_end(args);
    return hetccl_fail(status, "device cuda %d: %s: %s gave %s (%u), %s: %s", cuda->base.ordinal, what,
                       function, name_code(&cuda->api, code), code, describe_code(&cuda->api, code),
                       find_hint(code));
}

void hetccl_cuda_note(const struct hetccl_cuda_device *cuda, unsigned code, const char *function)
{
    if (code != HETCCL_CUDA_SUCCESS)
        hetccl_log(HETCCL_LOG_INFO, "device", "device cuda %d, %s gave %s (%u)", cuda->base.ordinal, function,
                   name_code(&cuda->api, code), code);
}

const char *hetccl_cuda_error_name(struct hetccl_device *device, int code)
{
    return name_code(&hetccl_cuda_of(device)->api, (unsigned)code);
}
