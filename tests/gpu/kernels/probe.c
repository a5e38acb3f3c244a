/* SPDX-License-Identifier: Apache-2.0 */
/* The host's half of the flag test: data and flags to and fro between a running kernel and this thread, in
 * pinned host memory. */
#include "probe.h"

#include <stdio.h>
#include <string.h>

#include "kernels/device/sync.h"
#include "speed.h"

enum { N_ROUNDS = 2000, DEADLINE_S = 10 };

/* False when the kernel doesn't answer in time. */
static bool wait_for(const struct probe *probe, uint32_t round)
{
    double deadline = seconds_now() + DEADLINE_S;

    while (flag_load_acquire(&probe->to_host) != round) {
        if (seconds_now() > deadline)
            return false;
    }
    return true;
}

static bool play_round(struct probe *probe, uint32_t round)
{
    for (uint32_t i = 0; i < PROBE_WORDS; i++)
        probe->words[i] = round * 3 + i;
    flag_store_release(&probe->to_kernel, round);
    if (!wait_for(probe, round)) {
        printf("FAIL: flags: no answer in round %u\n", round);
        return false;
    }
    for (uint32_t i = 0; i < PROBE_WORDS; i++) {
        if (probe->words[i] != round * 3 + i + 1) {
            printf("FAIL: flags: round %u, word %u is %u, not %u\n", round, i, probe->words[i],
                   round * 3 + i + 1);
            return false;
        }
    }
    return true;
}

/* Ends a running kernel in the middle of its wait. */
static bool check_abort(struct probe *probe, void *kernel, struct probe_args *args, void *stream)
{
    double start = seconds_now();

    memset(probe, 0, sizeof(*probe));
    args->n_rounds = 1;
    cuda_launch(kernel, 1, args, stream);
    while (seconds_now() < start + 0.01) {
        if (cuda.stream_query(stream) == 0) {
            printf("FAIL: flags: the kernel didn't wait\n");
            return false;
        }
    }
    flag_store_release(&probe->is_aborted, 1);
    cuda_check(cuda.stream_synchronize(stream), "cuStreamSynchronize");
    return true;
}

bool probe_run(const char *image)
{
    struct probe *probe = cuda_pinned_memory(sizeof(*probe));
    struct probe_args args = {.n_rounds = N_ROUNDS};
    void *module = NULL, *stream = NULL, *kernel;
    device_pointer address = 0;
    double start;
    bool is_good = true;

    memset(probe, 0, sizeof(*probe));
    cuda_check(cuda.mem_host_get_device_pointer(&address, probe, 0), "cuMemHostGetDevicePointer");
    cuda_check(cuda.module_load_data(&module, image), "cuModuleLoadData");
    cuda_check(cuda.stream_create(&stream, 1), "cuStreamCreate");
    kernel = cuda_kernel(module, "hetccl_test_probe");
    args.probe = (struct probe *)(uintptr_t)address;
    cuda_launch(kernel, 1, &args, stream);
    start = seconds_now();
    for (uint32_t round = 1; round <= N_ROUNDS && is_good; round++)
        is_good = play_round(probe, round);
    if (!is_good)
        flag_store_release(&probe->is_aborted, 1);
    cuda_check(cuda.stream_synchronize(stream), "cuStreamSynchronize");
    if (is_good)
        printf("flags: %d rounds with 16 KiB of data in host memory, %.1f us each\n", N_ROUNDS,
               1e6 * (seconds_now() - start) / N_ROUNDS);
    return is_good && check_abort(probe, kernel, &args, stream);
}
