/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_GPU_KERNELS_SPEED_H
#define TESTS_GPU_KERNELS_SPEED_H

#include <stdbool.h>

#include "bench.h"

/* Prints the table of bandwidths and times. */
void speed_print(const struct kernels *kernels);

/* Loads the image twice and prints how long each took. */
void speed_print_loading(const char *image);

/* The flag test: false if the kernel and the host don't see each other's data. image: probe_kernel.c's. */
bool probe_run(const char *image);

#endif
