/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs a launch on the stream's thread: every GPU thread is a coroutine, those of a block go round until all
 * have returned, blocks go round as well. A block is set up when its turn comes first, so blocks that never
 * wait for one another need the room of one.
 */

#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#include "fake.h"

#if defined(__SANITIZE_THREAD__)
#define HAS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#ifdef HAS_TSAN
#include <sanitizer/tsan_interface.h>
#endif
#ifdef HAS_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

enum { STACK_BYTES = 64 << 10 };

enum coroutine_state { READY, AT_BARRIER, RETURNED };

struct coroutine {
    struct fake_cuda_thread thread; /* first: barrier and yield get a pointer to it */
    enum coroutine_state state;
    ucontext_t context;
    char *stack;
    struct block *block;
    void *tsan, *asan;
};

struct block {
    const struct fake_launch *launch;
    struct coroutine *coroutines; /* NULL: not begun, or done */
    size_t n_threads, n_returned;
    char *stacks;
    void *shared;
    uint32_t word;
    ucontext_t scheduler;
    void *tsan, *asan;
    const void *asan_stack;
    size_t asan_stack_bytes;
};

/* The sanitizers must be told of every change of stacks. from_fake NULL: the stack left is never used again.
 */
static void before_switch(void **from_fake, const void *stack, size_t bytes, void *tsan)
{
#ifdef HAS_ASAN
    __sanitizer_start_switch_fiber(from_fake, stack, bytes);
#endif
#ifdef HAS_TSAN
    __tsan_switch_to_fiber(tsan, 0);
#endif
}

static void after_switch(void *own_fake, const void **old_stack, size_t *old_bytes)
{
#ifdef HAS_ASAN
    __sanitizer_finish_switch_fiber(own_fake, old_stack, old_bytes);
#endif
}

static void *tsan_create(void)
{
#ifdef HAS_TSAN
    return __tsan_create_fiber(0);
#else
    return NULL;
#endif
}

static void *tsan_current(void)
{
#ifdef HAS_TSAN
    return __tsan_get_current_fiber();
#else
    return NULL;
#endif
}

static void tsan_destroy(void *fiber)
{
#ifdef HAS_TSAN
    __tsan_destroy_fiber(fiber);
#endif
}

static void leave(struct coroutine *coroutine, enum coroutine_state state)
{
    struct block *block = coroutine->block;
    bool is_last = state == RETURNED;

    coroutine->state = state;
    before_switch(is_last ? NULL : &coroutine->asan, block->asan_stack, block->asan_stack_bytes, block->tsan);
    (void)swapcontext(&coroutine->context, &block->scheduler);
    after_switch(coroutine->asan, &block->asan_stack, &block->asan_stack_bytes);
}

static void barrier(const struct fake_cuda_thread *thread)
{
    leave((struct coroutine *)(uintptr_t)thread, AT_BARRIER);
}

static void yield(const struct fake_cuda_thread *thread)
{
    leave((struct coroutine *)(uintptr_t)thread, READY);
}

static _Thread_local struct coroutine *starting;

static void coroutine_main(void)
{
    struct coroutine *coroutine = starting;
    const struct fake_launch *launch = coroutine->block->launch;

    after_switch(NULL, &coroutine->block->asan_stack, &coroutine->block->asan_stack_bytes);
    launch->kernel->function(launch->params, &coroutine->thread);
    leave(coroutine, RETURNED);
}

static void resume(struct block *block, struct coroutine *coroutine)
{
    starting = coroutine;
    block->tsan = tsan_current();
    before_switch(&block->asan, coroutine->stack, STACK_BYTES, coroutine->tsan);
    (void)swapcontext(&block->scheduler, &coroutine->context);
    after_switch(block->asan, NULL, NULL);
    if (coroutine->state == RETURNED)
        block->n_returned++;
}

static void split(size_t index, const unsigned sizes[3], unsigned out[3])
{
    out[0] = (unsigned)(index % sizes[0]);
    out[1] = (unsigned)(index / sizes[0] % sizes[1]);
    out[2] = (unsigned)(index / sizes[0] / sizes[1]);
}

static void fill_thread(const struct fake_launch *launch, size_t block, size_t index,
                        struct fake_cuda_thread *out)
{
    for (int i = 0; i < 3; i++) {
        out->grid[i] = launch->grid[i];
        out->block[i] = launch->block[i];
    }
    split(block, launch->grid, out->block_index);
    split(index, launch->block, out->thread_index);
    out->kernel = launch->kernel;
    out->shared_bytes = launch->shared_bytes;
    out->barrier = barrier;
    out->yield = yield;
}

void *fake_need(void *memory)
{
    if (memory == NULL || memory == MAP_FAILED)
        abort();
    return memory;
}

static void begin_coroutine(struct block *block, size_t block_index, size_t index)
{
    struct coroutine *coroutine = &block->coroutines[index];

    fill_thread(block->launch, block_index, index, &coroutine->thread);
    coroutine->thread.shared = block->shared;
    coroutine->thread.block_word = &block->word;
    coroutine->block = block;
    coroutine->stack = block->stacks + index * STACK_BYTES;
    coroutine->tsan = tsan_create();
    (void)getcontext(&coroutine->context);
    coroutine->context.uc_stack.ss_sp = coroutine->stack;
    coroutine->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&coroutine->context, coroutine_main, 0);
}

static void begin_block(struct block *block, size_t index)
{
    const struct fake_launch *launch = block->launch;

    block->n_returned = 0;
    block->word = 0;
    block->shared = fake_need(calloc(1, launch->shared_bytes + 1));
    block->coroutines = fake_need(calloc(block->n_threads, sizeof(*block->coroutines)));
    block->stacks = fake_need(mmap(NULL, block->n_threads * STACK_BYTES, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    for (size_t i = 0; i < block->n_threads; i++)
        begin_coroutine(block, index, i);
}

static void end_block(struct block *block)
{
    for (size_t i = 0; i < block->n_threads; i++)
        tsan_destroy(block->coroutines[i].tsan);
    (void)munmap(block->stacks, block->n_threads * STACK_BYTES);
    free(block->coroutines);
    free(block->shared);
    block->coroutines = NULL;
}

static bool are_all_at_barrier(const struct block *block)
{
    for (size_t i = 0; i < block->n_threads; i++) {
        if (block->coroutines[i].state == READY)
            return false;
    }
    return true;
}

/* One round over the block's threads; true when it got somewhere: somebody returned or passed a barrier. */
static bool advance(struct block *block)
{
    size_t n_before = block->n_returned;

    for (size_t i = 0; i < block->n_threads; i++) {
        if (block->coroutines[i].state == READY)
            resume(block, &block->coroutines[i]);
    }
    if (block->n_returned < block->n_threads && !are_all_at_barrier(block))
        return block->n_returned > n_before;
    for (size_t i = 0; i < block->n_threads; i++) {
        if (block->coroutines[i].state == AT_BARRIER)
            block->coroutines[i].state = READY;
    }
    return true;
}

/* Goes on with a block until it waits for something from outside; true when it is done. */
static bool run_block(struct block *block, size_t index)
{
    if (block->coroutines == NULL)
        begin_block(block, index);
    while (block->n_returned < block->n_threads) {
        if (!advance(block))
            return false;
    }
    end_block(block);
    return true;
}

static void run_independent(const struct fake_launch *launch, size_t n_blocks, size_t n_threads)
{
    struct fake_cuda_thread thread;

    for (size_t i = 0; i < n_blocks; i++) {
        void *shared = fake_need(calloc(1, launch->shared_bytes + 1));
        uint32_t word = 0;

        for (size_t k = 0; k < n_threads; k++) {
            fill_thread(launch, i, k, &thread);
            thread.shared = shared;
            thread.block_word = &word;
            launch->kernel->function(launch->params, &thread);
        }
        free(shared);
    }
}

void fake_run_launch(const struct fake_launch *launch)
{
    static const struct timespec pause = {.tv_nsec = FAKE_SPIN_NS};
    size_t n_blocks = (size_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    size_t n_threads = (size_t)launch->block[0] * launch->block[1] * launch->block[2];
    size_t n_done = 0;
    struct block *blocks;
    bool *is_done;

    if (launch->kernel->is_independent) {
        run_independent(launch, n_blocks, n_threads);
        return;
    }
    blocks = fake_need(calloc(n_blocks, sizeof(*blocks)));
    is_done = fake_need(calloc(n_blocks, sizeof(*is_done)));
    while (n_done < n_blocks) {
        size_t n_before = n_done;

        for (size_t i = 0; i < n_blocks; i++) {
            blocks[i].launch = launch;
            blocks[i].n_threads = n_threads;
            if (!is_done[i] && run_block(&blocks[i], i)) {
                is_done[i] = true;
                n_done++;
            }
        }
        if (n_done == n_before)
            (void)nanosleep(&pause, NULL);
    }
    free(is_done);
    free(blocks);
}
