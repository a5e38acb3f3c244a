/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDA_MEMORY_H
#define CUDA_MEMORY_H

/*
 * As much of the CUDA driver as a program needs to have memory on a GPU: libcuda.so.1 opened at run time, so
 * that neither CUDA's headers nor its libraries are needed to build. Device addresses are plain pointers that
 * the CPU may not follow.
 *
 * All functions say on stderr what failed and end the program: examples and tests have nothing else to do.
 */

#include <stddef.h>

struct cuda_memory; /* a GPU and a stream on it */

/* GPU number `ordinal` modulo their count, with its primary context current in this thread. Not before a
 * fork. */
struct cuda_memory *cuda_memory_open(int ordinal);

/* For NCCL calls: a cudaStream_t. */
void *cuda_memory_stream(const struct cuda_memory *cuda);

/* From now on the stream is CUDA's default one, which NCCL calls name by NULL. */
void cuda_memory_use_default_stream(struct cuda_memory *cuda);

void *cuda_memory_alloc(struct cuda_memory *cuda, size_t bytes);
void cuda_memory_free(struct cuda_memory *cuda, void *memory);

/* Memory of the CPU that the GPU reads and writes by itself. */
void *cuda_memory_alloc_host(struct cuda_memory *cuda, size_t bytes);

/* Queues a copy between any two places on the stream. */
void cuda_memory_copy(struct cuda_memory *cuda, void *dst, const void *src, size_t bytes);

/* Blocks until all that was queued on the stream is done. */
void cuda_memory_wait(struct cuda_memory *cuda);

#endif
