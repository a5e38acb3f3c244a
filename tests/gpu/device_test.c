/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs the devices' common suite (tests/unit/device/suite.h) without a test framework:
 *
 *   device_test host
 *   device_test cuda [path of libcuda.so.1]      the system's without a path
 *
 * Prints a line a case, last "N checks, N failed"; the exit status is 0 when none failed.
 */

#include <stdio.h>
#include <string.h>

#include "device/cuda/cuda.h"
#include "suite.h"

static enum hetccl_status open_device(struct suite *suite)
{
    static struct hetccl_config config;

    (void)snprintf(config.cuda_lib, sizeof(config.cuda_lib), "%s", suite->library);
    if (suite->is_gpu)
        return hetccl_device_cuda_open(&config, HETCCL_DEVICE_OF_THREAD, &suite->device);
    config.device = HETCCL_DEVICE_HOST;
    return hetccl_device_open(&config, HETCCL_DEVICE_OF_THREAD, &suite->device);
}

static int run_cases(struct suite *suite)
{
    suite_run(suite, suite_memory_cases);
    suite_run(suite, suite_stream_cases);
    suite_run(suite, suite_kernel_cases);
    suite_run(suite, suite_work_cases);
    suite_run(suite, suite_graph_cases);
    suite_run(suite, suite_ipc_cases);
    if (suite->is_gpu) {
        suite_run(suite, suite_cuda_cases);
        suite_run(suite, suite_virtual_cases);
    }
    (void)printf("device %s %d, %s: %u checks, %u failed\n", suite->ops->name, suite->device->ordinal,
                 suite->device->arch, suite->n_checks, suite->n_failed);
    return suite->n_failed == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct suite suite = {.program = argv[0]};
    int exit_status;

    if (argc < 2 || argc > 4 || (strcmp(argv[1], "host") != 0 && strcmp(argv[1], "cuda") != 0)) {
        (void)fprintf(stderr, "usage: %s host|cuda [libcuda.so.1]\n", argv[0]);
        return 2;
    }
    suite.kind = argv[1];
    suite.is_gpu = strcmp(argv[1], "cuda") == 0;
    suite.library = argc > 2 ? argv[2] : "";
    if (suite.is_gpu)
        suite_register_kernels(suite.library);
    if (open_device(&suite) != HETCCL_OK) {
        (void)printf("no device: %s\n", hetccl_last_error_thread());
        return 1;
    }
    suite.ops = suite.device->ops;
    exit_status = argc == 4 ? suite_ipc_child(&suite, argv[3]) : run_cases(&suite);
    suite.ops->close(suite.device);
    return exit_status;
}
