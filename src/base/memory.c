/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"

static enum hetccl_status no_memory(size_t n_items, size_t item_bytes)
{
    return hetccl_fail(HETCCL_ERR_SYSTEM,
                       "no memory for %zu items of %zu bytes: free memory on this host or raise the limit",
                       n_items, item_bytes);
}

/* Outputs are `void *` so that a caller can pass the address of any pointer without a cast; stored by memcpy.
 */
static void store_pointer(void *out, void *pointer)
{
    memcpy(out, &pointer, sizeof(pointer));
}

enum hetccl_status hetccl_alloc(size_t n_items, size_t item_bytes, void *out)
{
    void *memory =
        hetccl_fault_hit(HETCCL_FAULT_ALLOC) ? NULL : calloc(n_items > 0 ? n_items : 1, item_bytes);

    if (memory == NULL)
        return no_memory(n_items, item_bytes);
    store_pointer(out, memory);
    return HETCCL_OK;
}

enum hetccl_status hetccl_alloc_aligned(size_t n_items, size_t item_bytes, void *out)
{
    void *memory = NULL;
    size_t bytes;

    if (!hetccl_mul_size(n_items, item_bytes, &bytes) || bytes > SIZE_MAX - HETCCL_CACHE_LINE)
        return no_memory(n_items, item_bytes);
    bytes = hetccl_round_up(bytes > 0 ? bytes : 1, HETCCL_CACHE_LINE);
    if (!hetccl_fault_hit(HETCCL_FAULT_ALLOC))
        memory = aligned_alloc(HETCCL_CACHE_LINE, bytes);
    if (memory == NULL)
        return no_memory(n_items, item_bytes);
    memset(memory, 0, bytes);
    store_pointer(out, memory);
    return HETCCL_OK;
}

enum hetccl_status hetccl_resize(void *array, size_t n_items, size_t item_bytes)
{
    void *memory;
    size_t bytes;

    memcpy(&memory, array, sizeof(memory));
    if (!hetccl_mul_size(n_items > 0 ? n_items : 1, item_bytes, &bytes))
        return no_memory(n_items, item_bytes);
    memory = hetccl_fault_hit(HETCCL_FAULT_ALLOC) ? NULL : realloc(memory, bytes);
    if (memory == NULL)
        return no_memory(n_items, item_bytes);
    store_pointer(array, memory);
    return HETCCL_OK;
}

void hetccl_free(void *memory)
{
    free(memory);
}

enum hetccl_status hetccl_strdup(const char *text, char **out)
{
    size_t bytes = strlen(text) + 1;
    char *copy = NULL;
    enum hetccl_status status = hetccl_alloc(bytes, 1, &copy);

    if (status != HETCCL_OK)
        return status;
    memcpy(copy, text, bytes);
    *out = copy;
    return HETCCL_OK;
}
