/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference.h"

atomic_ullong bench_n_checked, bench_n_failures;

enum { MAX_PRINTED = 20, FILLER = 0xa5 };

void kernels_load(struct kernels *kernels, const char *image, int n_multiprocessors)
{
    kernels->n_multiprocessors = n_multiprocessors;
    cuda_check(cuda.module_load_data(&kernels->module, image), "cuModuleLoadData");
    for (int type = 0; type < HETCCL_TYPES; type++) {
        char name[64];

        snprintf(name, sizeof(name), "hetccl_reduce_%s", hetccl_type_name((enum hetccl_type)type));
        kernels->reduce[type] = cuda_kernel(kernels->module, name);
    }
    kernels->widen = cuda_kernel(kernels->module, "hetccl_average_widen");
    kernels->narrow = cuda_kernel(kernels->module, "hetccl_average_narrow");
    kernels->copy = cuda_kernel(kernels->module, "hetccl_copy");
}

void bench_init(struct bench *bench, const struct kernels *kernels)
{
    bench->kernels = kernels;
    cuda_check(cuda.stream_create(&bench->stream, 1), "cuStreamCreate"); /* non-blocking */
    for (size_t k = 0; k < BENCH_SRCS; k++) {
        bench->srcs[k] = cuda_pinned_memory(BENCH_ROOM);
        bench->device_srcs[k] = cuda_device_memory(BENCH_ROOM);
    }
    bench->got = cuda_pinned_memory(BENCH_ROOM);
    bench->wanted = aligned_alloc(64, BENCH_ROOM);
    bench->device_dst = cuda_device_memory(BENCH_ROOM);
    if (bench->wanted == NULL) {
        printf("FAIL: out of memory\n");
        exit(1);
    }
}

static void synchronize(struct bench *bench)
{
    cuda_check(cuda.stream_synchronize(bench->stream), "cuStreamSynchronize");
}

void bench_upload(struct bench *bench, size_t k, size_t bytes)
{
    cuda_check(cuda.memcpy_to_device(bench->device_srcs[k], bench->srcs[k], bytes, bench->stream), "upload");
    synchronize(bench);
}

void bench_fill(struct bench *bench, size_t k, size_t count, enum hetccl_type type, uint64_t seed)
{
    unsigned bits = reference_type_bits(type);
    uint64_t near_mask = (UINT64_C(1) << (bits - 1)) | ((UINT64_C(1) << (bits * 5 / 8)) - 1);

    for (size_t i = 0; i < count; i++) {
        uint64_t element = random_element(type, &seed);

        if (k == 1 && i % 2 == 1)
            element = element_get(bench->srcs[0], i, type) ^ (element & near_mask);
        element_set(bench->srcs[k], i, type, element);
    }
    bench_upload(bench, k, count * bits / 8);
}

/* The device's dst becomes filler, the host's too. */
static void clear_outputs(struct bench *bench, size_t bytes)
{
    cuda_check(cuda.memset_8(bench->device_dst, FILLER, bytes, bench->stream), "cuMemsetD8Async");
    memset(bench->wanted, FILLER, bytes);
}

static void fetch_output(struct bench *bench, size_t bytes)
{
    cuda_check(cuda.memcpy_to_host(bench->got, bench->device_dst, bytes, bench->stream), "download");
}

static size_t first_difference(const struct bench *bench, size_t bytes)
{
    size_t i = 0;

    while (i < bytes && bench->got[i] == bench->wanted[i])
        i++;
    return i;
}

/* Counts the call and what it got wrong; false where that is to be printed: too much of it helps nobody. */
static bool compare(struct bench *bench, size_t bytes, size_t n_elements)
{
    atomic_fetch_add(&bench_n_checked, n_elements);
    if (memcmp(bench->got, bench->wanted, bytes) == 0)
        return true;
    return atomic_fetch_add(&bench_n_failures, 1) >= MAX_PRINTED;
}

static void print_reduce(const struct bench *bench, const struct hetccl_reduce_args *args,
                         enum hetccl_type type, const struct layout *layout, size_t at)
{
    size_t i = (at - BENCH_EDGE - layout->dst_shift) / hetccl_type_bytes(type);
    const unsigned char *got = bench->got + BENCH_EDGE + layout->dst_shift;
    const unsigned char *wanted = bench->wanted + BENCH_EDGE + layout->dst_shift;

    printf("FAIL: %s %s of %u sources, %s, count %llu, %u blocks, shifts %zu %zu %zu%s: byte %zu: ",
           hetccl_type_name(type), hetccl_red_name((enum hetccl_red)args->red), args->n_srcs,
           args->is_scaled ? "scaled" : "not scaled", (unsigned long long)args->count, args->n_blocks,
           layout->dst_shift, layout->src_shift, layout->src_step, layout->is_in_place ? ", in place" : "",
           at);
    if (at < BENCH_EDGE + layout->dst_shift || i >= args->count) {
        printf("outside the array\n");
        return;
    }
    printf("element %zu is 0x%llx, not 0x%llx; inputs", i, (unsigned long long)element_get(got, i, type),
           (unsigned long long)element_get(wanted, i, type));
    for (size_t k = 0; k < args->n_srcs; k++)
        printf(" 0x%llx", (unsigned long long)element_get(
                              bench->srcs[k] + layout->src_shift + k * layout->src_step, i, type));
    for (size_t k = 0; args->is_scaled && k < args->n_srcs; k++)
        printf(" scale 0x%llx", (unsigned long long)args->scales[k].bits);
    printf("\n");
}

void bench_check_reduce(struct bench *bench, struct hetccl_reduce_args *args, enum hetccl_type type,
                        const struct layout *layout)
{
    size_t bytes = args->count * hetccl_type_bytes(type), last = args->n_srcs - 1;
    size_t all_bytes = 2 * BENCH_EDGE + layout->dst_shift + bytes;
    device_pointer dst = bench->device_dst + BENCH_EDGE + layout->dst_shift;
    const void *srcs[BENCH_SRCS];

    clear_outputs(bench, all_bytes);
    for (size_t k = 0; k < args->n_srcs; k++) {
        size_t shift = layout->src_shift + k * layout->src_step;

        srcs[k] = bench->srcs[k] + shift;
        args->srcs[k] = (const void *)(uintptr_t)(bench->device_srcs[k] + shift);
    }
    args->dst = (void *)(uintptr_t)dst;
    if (layout->is_in_place) {
        cuda_check(cuda.memcpy_on_device(dst, (uintptr_t)args->srcs[last], bytes, bench->stream), "in place");
        args->srcs[last] = args->dst;
    }
    cuda_launch(bench->kernels->reduce[type], args->n_blocks, args, bench->stream);
    fetch_output(bench, all_bytes);
    hetccl_kernel_reduce(bench->wanted + BENCH_EDGE + layout->dst_shift, srcs,
                         args->is_scaled ? args->scales : NULL, args->n_srcs, args->count, type,
                         (enum hetccl_red)args->red);
    synchronize(bench);
    if (!compare(bench, all_bytes, args->count))
        print_reduce(bench, args, type, layout, first_difference(bench, all_bytes));
}

/* One half of an average: source k, shifted, to dst. */
static void check_half(struct bench *bench, bool is_widen, struct hetccl_average_args *args, size_t k,
                       size_t shift)
{
    enum hetccl_type type = (enum hetccl_type)args->type;
    size_t wide_bytes = hetccl_type_bytes(hetccl_average_wide_type(type)) * hetccl_average_wide_factor(type);
    size_t all_bytes =
        2 * BENCH_EDGE + shift + args->count * (is_widen ? wide_bytes : hetccl_type_bytes(type));
    unsigned char *wanted = bench->wanted + BENCH_EDGE + shift;

    clear_outputs(bench, all_bytes);
    args->dst = (void *)(uintptr_t)(bench->device_dst + BENCH_EDGE + shift);
    args->src = (const void *)(uintptr_t)(bench->device_srcs[k] + shift);
    cuda_launch(is_widen ? bench->kernels->widen : bench->kernels->narrow, args->n_blocks, args,
                bench->stream);
    fetch_output(bench, all_bytes);
    if (is_widen)
        hetccl_kernel_average_widen(wanted, bench->srcs[k] + shift, args->count, type, args->n_ranks);
    else
        hetccl_kernel_average_narrow(wanted, bench->srcs[k] + shift, args->count, type, args->n_ranks);
    synchronize(bench);
    if (!compare(bench, all_bytes, args->count))
        printf("FAIL: %s %s over %llu ranks, shift %zu: byte %zu\n", is_widen ? "widening" : "narrowing",
               hetccl_type_name(type), (unsigned long long)args->n_ranks, shift,
               first_difference(bench, all_bytes));
}

void bench_check_average(struct bench *bench, enum hetccl_type type, size_t count, size_t n_ranks,
                         size_t shift)
{
    struct hetccl_average_args args = {
        .count = count, .n_ranks = n_ranks, .type = (uint32_t)type, .n_blocks = 7};
    size_t wide_bytes =
        count * hetccl_type_bytes(hetccl_average_wide_type(type)) * hetccl_average_wide_factor(type);

    check_half(bench, true, &args, 0, shift);
    /* Back again, from what a sum over the ranks may be: here the first rank's alone. */
    memcpy(bench->srcs[1] + shift, bench->wanted + BENCH_EDGE + shift, wide_bytes);
    bench_upload(bench, 1, shift + wide_bytes);
    check_half(bench, false, &args, 1, shift);
}

void bench_check_copy(struct bench *bench, size_t bytes, size_t dst_shift, size_t src_shift,
                      uint32_t n_blocks)
{
    size_t all_bytes = 2 * BENCH_EDGE + dst_shift + bytes;
    struct hetccl_copy_args args = {.bytes = bytes, .n_blocks = n_blocks};

    clear_outputs(bench, all_bytes);
    args.dst = (void *)(uintptr_t)(bench->device_dst + BENCH_EDGE + dst_shift);
    args.src = (const void *)(uintptr_t)(bench->device_srcs[0] + src_shift);
    cuda_launch(bench->kernels->copy, n_blocks, &args, bench->stream);
    fetch_output(bench, all_bytes);
    memcpy(bench->wanted + BENCH_EDGE + dst_shift, bench->srcs[0] + src_shift, bytes);
    synchronize(bench);
    if (!compare(bench, all_bytes, bytes))
        printf("FAIL: copy of %zu bytes, shifts %zu %zu: byte %zu\n", bytes, dst_shift, src_shift,
               first_difference(bench, all_bytes));
}
