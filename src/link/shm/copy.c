/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "link/shm/internal.h"

#if defined(__SSE2__)
#include <emmintrin.h>

/*
 * Stores past the caches. A line that one core has written and another reads costs a transfer between their
 * caches, one line after the other; from memory the reader's prefetcher brings them in a stream. Two
 * processes, slots of 64 KiB, on an AMD EPYC: 5.2 GB/s with plain stores, 10.8 with these (messages of 1
 * MiB), 4.0 and 5.3 (of 64 MiB).
 *
 * Such stores aren't ordered by the release store that publishes the slot, hence the fence.
 */
static void copy_past_caches(unsigned char *slot, const unsigned char *memory, size_t bytes)
{
    size_t whole_bytes = bytes - bytes % HETCCL_CACHE_LINE;

    for (size_t i = 0; i < whole_bytes; i += HETCCL_CACHE_LINE) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)(memory + i));
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(memory + i + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(memory + i + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(memory + i + 48));

        _mm_stream_si128((__m128i *)(void *)(slot + i), a);
        _mm_stream_si128((__m128i *)(void *)(slot + i + 16), b);
        _mm_stream_si128((__m128i *)(void *)(slot + i + 32), c);
        _mm_stream_si128((__m128i *)(void *)(slot + i + 48), d);
    }
    memcpy(slot + whole_bytes, memory + whole_bytes, bytes - whole_bytes);
    _mm_sfence();
}
#else
static void copy_past_caches(unsigned char *slot, const unsigned char *memory, size_t bytes)
{
    memcpy(slot, memory, bytes);
}
#endif

void hetccl_shm_copy_to_slot(unsigned char *slot, const unsigned char *memory, size_t bytes)
{
    if (bytes >= HETCCL_SHM_STREAMED_BYTES)
        copy_past_caches(slot, memory, bytes);
    else if (bytes > 0)
        memcpy(slot, memory, bytes);
}
