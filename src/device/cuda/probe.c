/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_abi.h"
#include "kernels/images.h"

/*
 * Only what certainly says that there is no GPU counts as none. A driver that is broken in any other way must
 * be told by the open that follows: to compute on the host instead would read GPU memory with the CPU.
 */
static bool has_gpu(void *library, char *why_out, size_t why_bytes)
{
    void *address = dlsym(library, "cuInit");
    unsigned (*init)(unsigned flags);
    unsigned code;

    if (address == NULL)
        return true;
    memcpy(&init, &address, sizeof(init));
    code = init(0);
    if (code != HETCCL_CUDA_ERROR_NO_DEVICE && code != HETCCL_CUDA_ERROR_STUB_LIBRARY)
        return true;
    (void)snprintf(why_out, why_bytes, "%s",
                   code == HETCCL_CUDA_ERROR_NO_DEVICE ? "the CUDA driver sees no GPU"
                                                       : "libcuda.so.1 is a stub for linking");
    return false;
}

bool hetccl_device_cuda_is_there(const struct hetccl_config *config, char *why_out, size_t why_bytes)
{
    size_t image_bytes;
    void *library;
    bool is_there;

    if (hetccl_kernel_image_ptx(&image_bytes) == NULL) {
        (void)snprintf(why_out, why_bytes, "the library was built without clang-19, so without GPU kernels");
        return false;
    }
    library = dlopen(config->cuda_lib[0] != '\0' ? config->cuda_lib : "libcuda.so.1",
                     RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == NULL) {
        (void)snprintf(why_out, why_bytes, "%s", dlerror());
        return false;
    }
    is_there = has_gpu(library, why_out, why_bytes);
    (void)dlclose(library);
    return is_there;
}
