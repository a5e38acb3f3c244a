/* SPDX-License-Identifier: Apache-2.0 */
#include "speed.h"

#include <stdio.h>
#include <stdlib.h>

enum { LARGE_BYTES = 128 << 20, N_TIMED = 20, N_LAUNCHES = 2000 };

struct timing {
    const struct kernels *kernels;
    void *stream, *start, *end;
    device_pointer dst, srcs[2]; /* LARGE_BYTES each, and a bit */
};

static void timing_init(struct timing *timing, const struct kernels *kernels)
{
    timing->kernels = kernels;
    cuda_check(cuda.stream_create(&timing->stream, 1), "cuStreamCreate");
    cuda_check(cuda.event_create(&timing->start, 0), "cuEventCreate");
    cuda_check(cuda.event_create(&timing->end, 0), "cuEventCreate");
    timing->dst = cuda_device_memory(LARGE_BYTES + 256);
    for (int k = 0; k < 2; k++) {
        timing->srcs[k] = cuda_device_memory(LARGE_BYTES + 256);
        cuda_check(cuda.memset_8(timing->srcs[k], 0x3c, LARGE_BYTES + 256, timing->stream),
                   "cuMemsetD8Async");
    }
}

static void timing_fini(struct timing *timing)
{
    cuda_check(cuda.mem_free(timing->dst), "cuMemFree");
    for (int k = 0; k < 2; k++)
        cuda_check(cuda.mem_free(timing->srcs[k]), "cuMemFree");
}

/* One launch of what is timed. */
struct work {
    void *kernel; /* NULL: the driver's own copy */
    void *args;
    uint32_t n_blocks;
    size_t bytes;
};

static void enqueue(struct timing *timing, const struct work *work)
{
    if (work->kernel != NULL)
        cuda_launch(work->kernel, work->n_blocks, work->args, timing->stream);
    else
        cuda_check(cuda.memcpy_on_device(timing->dst, timing->srcs[0], work->bytes, timing->stream),
                   "cuMemcpyDtoD");
}

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

/* The median, in microseconds, after two that don't count. */
static double median_us(struct timing *timing, const struct work *work)
{
    float times[N_TIMED];

    for (int i = -2; i < N_TIMED; i++) {
        cuda_check(cuda.event_record(timing->start, timing->stream), "cuEventRecord");
        enqueue(timing, work);
        cuda_check(cuda.event_record(timing->end, timing->stream), "cuEventRecord");
        cuda_check(cuda.event_synchronize(timing->end), "cuEventSynchronize");
        if (i >= 0)
            cuda_check(cuda.event_elapsed_time(&times[i], timing->start, timing->end), "cuEventElapsedTime");
    }
    qsort(times, N_TIMED, sizeof(times[0]), compare_floats);
    return 1e3 * (double)times[N_TIMED / 2];
}

static void print_row(const char *what, uint32_t n_blocks, double us, double bytes_moved)
{
    printf("| %-36s | %6u | %8.1f | %6.0f |\n", what, n_blocks, us, bytes_moved / us / 1e3);
}

static struct hetccl_reduce_args two_sources(const struct timing *timing, uint64_t count, size_t shift)
{
    struct hetccl_reduce_args args = {.count = count, .n_srcs = 2, .red = HETCCL_SUM};

    args.dst = (void *)(uintptr_t)(timing->dst + shift);
    args.srcs[0] = (const void *)(uintptr_t)timing->srcs[0];
    args.srcs[1] = (const void *)(uintptr_t)timing->srcs[1];
    return args;
}

static void time_reduce(struct timing *timing, enum hetccl_type type, uint32_t n_blocks, size_t shift)
{
    struct hetccl_reduce_args args = two_sources(timing, LARGE_BYTES / hetccl_type_bytes(type), shift);
    struct work work = {timing->kernels->reduce[type], &args, n_blocks, LARGE_BYTES};
    char what[64];

    args.n_blocks = n_blocks;
    snprintf(what, sizeof(what), "sum of two, %s%s", hetccl_type_name(type),
             shift == 0 ? "" : ", dst unaligned");
    print_row(what, n_blocks, median_us(timing, &work), 3.0 * LARGE_BYTES);
}

static void time_copies(struct timing *timing, uint32_t n_blocks)
{
    struct hetccl_copy_args args = {.bytes = LARGE_BYTES, .n_blocks = n_blocks};
    struct work work = {timing->kernels->copy, &args, n_blocks, LARGE_BYTES};

    args.dst = (void *)(uintptr_t)timing->dst;
    args.src = (const void *)(uintptr_t)timing->srcs[0];
    print_row("copy", n_blocks, median_us(timing, &work), 2.0 * LARGE_BYTES);
    args.dst = (void *)(uintptr_t)(timing->dst + 4);
    print_row("copy, dst 4 bytes off", n_blocks, median_us(timing, &work), 2.0 * LARGE_BYTES);
    work.kernel = NULL;
    print_row("the driver's copy (cuMemcpyDtoDAsync)", 0, median_us(timing, &work), 2.0 * LARGE_BYTES);
}

static void time_small(struct timing *timing)
{
    struct hetccl_reduce_args args = two_sources(timing, 256, 0);
    double before = seconds_now(), after;
    float milliseconds = 0;

    args.n_blocks = 1;
    cuda_check(cuda.event_record(timing->start, timing->stream), "cuEventRecord");
    for (int i = 0; i < N_LAUNCHES; i++)
        cuda_launch(timing->kernels->reduce[HETCCL_FLOAT32], 1, &args, timing->stream);
    after = seconds_now();
    cuda_check(cuda.event_record(timing->end, timing->stream), "cuEventRecord");
    cuda_check(cuda.event_synchronize(timing->end), "cuEventSynchronize");
    cuda_check(cuda.event_elapsed_time(&milliseconds, timing->start, timing->end), "cuEventElapsedTime");
    printf(
        "sum of two, float32, 1 KiB, %d launches in a row: %.2f us each, of the host's time %.2f us each\n",
        N_LAUNCHES, 1e3 * (double)milliseconds / N_LAUNCHES, 1e6 * (after - before) / N_LAUNCHES);
}

/* As many blocks as the GPU holds at once. */
static uint32_t resident_blocks(const struct kernels *kernels, void *kernel)
{
    int per_multiprocessor = 0;

    cuda_check(cuda.max_active_blocks(&per_multiprocessor, kernel, HETCCL_BLOCK_THREADS, 0), "occupancy");
    return (uint32_t)(per_multiprocessor * kernels->n_multiprocessors);
}

void speed_print(const struct kernels *kernels)
{
    static const enum hetccl_type types[] = {HETCCL_FLOAT32, HETCCL_BFLOAT16, HETCCL_FLOAT16,
                                             HETCCL_FLOAT64, HETCCL_INT8,     HETCCL_FLOAT8_E4M3};
    struct timing timing;

    timing_init(&timing, kernels);
    printf("| 128 MiB in each array                | blocks |       us |   GB/s |\n|---|---|---|---|\n");
    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
        uint32_t resident = resident_blocks(kernels, kernels->reduce[types[t]]);

        time_reduce(&timing, types[t], resident, 0);
        if (types[t] != HETCCL_FLOAT32 && types[t] != HETCCL_BFLOAT16)
            continue;
        time_reduce(&timing, types[t], 2 * resident, 0);
        time_reduce(&timing, types[t], 16, 0);
        time_reduce(&timing, types[t], resident, hetccl_type_bytes(types[t]));
    }
    time_copies(&timing, resident_blocks(kernels, kernels->copy));
    time_small(&timing);
    timing_fini(&timing);
}

void speed_print_loading(const char *image)
{
    double times[3];
    void *module = NULL;

    for (int i = 0; i < 2; i++) {
        times[i] = seconds_now();
        cuda_check(cuda.module_load_data(&module, image), "cuModuleLoadData");
        cuda_check(cuda.module_unload(module), "cuModuleUnload");
        times[i + 1] = seconds_now();
    }
    printf("image loaded in %.0f ms, the second time in %.0f ms\n", 1e3 * (times[1] - times[0]),
           1e3 * (times[2] - times[1]));
}
