/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_GPU_KERNELS_BENCH_H
#define TESTS_GPU_KERNELS_BENCH_H

/* The kernels of the image under test, and a bench that runs them beside the host's on the same data. */

#include <stdatomic.h>
#include <stdbool.h>

#include "driver.h"
#include "kernels/device/args.h"

struct kernels {
    void *module, *reduce[HETCCL_TYPES], *widen, *narrow, *copy;
    int n_multiprocessors;
};

void kernels_load(struct kernels *kernels, const char *image, int n_multiprocessors);

enum { BENCH_SRCS = 8, BENCH_BYTES = 8 << 20, BENCH_EDGE = 64, BENCH_ROOM = BENCH_BYTES + 2 * BENCH_EDGE };

/* One thread's memory: host and device side by side. */
struct bench {
    const struct kernels *kernels;
    void *stream;
    unsigned char *srcs[BENCH_SRCS], *got, *wanted; /* BENCH_ROOM bytes each */
    device_pointer device_srcs[BENCH_SRCS], device_dst;
};

void bench_init(struct bench *bench, const struct kernels *kernels);

/* Copies the first bytes of source k to the device. */
void bench_upload(struct bench *bench, size_t k, size_t bytes);

/* Random elements for source k, uploaded; several specials among them, and every other element of source 1
 * near source 0's. */
void bench_fill(struct bench *bench, size_t k, size_t count, enum hetccl_type type, uint64_t seed);

/* Where in their rooms the arrays start, in bytes: source k at src_shift + k * src_step. In place: dst is the
 * last source.
 */
struct layout {
    size_t dst_shift, src_shift, src_step;
    bool is_in_place;
};

/* Each runs on both sides with what was uploaded, and compares every byte from BENCH_EDGE before dst to
 * BENCH_EDGE behind. args: pointers are filled in. Mismatches are printed and counted. */
void bench_check_reduce(struct bench *bench, struct hetccl_reduce_args *args, enum hetccl_type type,
                        const struct layout *layout);
void bench_check_average(struct bench *bench, enum hetccl_type type, size_t count, size_t n_ranks,
                         size_t shift);
void bench_check_copy(struct bench *bench, size_t bytes, size_t dst_shift, size_t src_shift,
                      uint32_t n_blocks);

extern atomic_ullong bench_n_checked;  /* elements compared; bytes for copies */
extern atomic_ullong bench_n_failures; /* calls with a wrong result */

#endif
