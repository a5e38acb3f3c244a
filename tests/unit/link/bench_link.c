/* SPDX-License-Identifier: Apache-2.0 */
/* Latency and bandwidth of links between two processes that spin: `meson test --benchmark link`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "pair.h"

enum { N_BATCHES = 15, MAX_BYTES = 64 << 20 };

struct task {
    size_t bytes;
    unsigned n_messages; /* a batch */
    bool is_peeked;      /* and summed, as a reduction reads it */
    double *us_out;      /* shared: of one message, or of one way of a ping-pong */
    bool is_stream;
};

static unsigned char *memory;
static volatile unsigned long sink;

static void take_shown(struct side *side, struct hetccl_link_request *request)
{
    const void *shown;
    size_t bytes;

    while (side->link->ops->peek(side->link, request, &shown, &bytes) == HETCCL_OK) {
        const unsigned long *words = shown;
        unsigned long sum = 0;

        for (size_t i = 0; i < bytes / sizeof(*words); i++)
            sum += words[i];
        sink = sum;
        side->link->ops->consume(side->link, request, bytes);
    }
}

static bool finish(struct side *side, struct hetccl_link_request *request, bool is_peeked)
{
    while (request->state != HETCCL_REQUEST_DONE) {
        if (hetccl_is_error(side->link->ops->progress(side->link)))
            return false;
        if (is_peeked)
            take_shown(side, request);
    }
    return true;
}

static bool move(struct side *side, const struct task *task, bool is_send)
{
    struct hetccl_link_request request = {.memory = task->is_peeked && !is_send ? NULL : memory,
                                          .bytes_total = task->bytes};
    enum hetccl_status status = is_send ? side->link->ops->post_send(side->link, &request)
                                        : side->link->ops->post_recv(side->link, &request);

    return status == HETCCL_OK && finish(side, &request, request.memory == NULL);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Ping-pong, or a stream whose receiver answers each batch with one message. */
static bool run_batch(struct side *side, const struct task *task)
{
    const struct task answer = {.bytes = 8};

    for (unsigned i = 0; i < task->n_messages; i++) {
        if (!move(side, task, side->index == 0) || (!task->is_stream && !move(side, task, side->index == 1)))
            return false;
    }
    return !task->is_stream || move(side, &answer, side->index == 1);
}

static bool run_task(struct side *side, void *arg)
{
    const struct task *task = arg;
    double us[N_BATCHES];

    for (unsigned batch = 0; batch < N_BATCHES; batch++) {
        uint64_t start_ns = hetccl_now_ns();

        if (!run_batch(side, task))
            return false;
        us[batch] = (double)(hetccl_now_ns() - start_ns) / 1e3 / task->n_messages / (task->is_stream ? 1 : 2);
    }
    qsort(us, N_BATCHES, sizeof(us[0]), compare);
    if (side->index == 0) {
        task->us_out[0] = us[0];
        task->us_out[1] = us[N_BATCHES / 2];
    }
    return true;
}

static void measure(const struct pair_kind *kind, struct task task)
{
    struct pair pair;
    double us[2];

    task.us_out = us;
    pair_init(&pair, kind);
    if (!pair_run(&pair, true, run_task, &task)) {
        printf("%s: failed\n", kind->name);
        return;
    }
    pair_fini(&pair);
    printf("%-24s %9zu B %-9s %-6s best %10.2f us, median %10.2f us, best %7.2f GB/s\n", kind->name,
           task.bytes, task.is_stream ? "stream" : "ping-pong", task.is_peeked ? "peek" : "memory", us[0],
           us[1], (double)task.bytes / us[0] / 1e3);
}

int main(void)
{
    static const struct pair_kind kinds[] = {
        {"shm, 16 x 16 KiB", 0, 16384, 16}, {"shm, 16 x 64 KiB", 0, 65536, 16},
        {"shm, 8 x 256 KiB", 0, 262144, 8}, {"tcp, 1 socket", 1, 0, 0},
        {"tcp, 4 sockets", 4, 0, 0},
    };

    setvbuf(stdout, NULL, _IOLBF, 0);
    memory = malloc(MAX_BYTES);
    if (memory == NULL)
        return 1;
    memset(memory, 1, MAX_BYTES);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        measure(&kinds[i], (struct task){.bytes = 8, .n_messages = 200});
        measure(&kinds[i], (struct task){.bytes = 4096, .n_messages = 100});
        measure(&kinds[i], (struct task){.bytes = 1 << 20, .n_messages = 20, .is_stream = true});
        measure(&kinds[i],
                (struct task){.bytes = 1 << 20, .n_messages = 20, .is_stream = true, .is_peeked = true});
        measure(&kinds[i], (struct task){.bytes = MAX_BYTES, .n_messages = 1, .is_stream = true});
        measure(&kinds[i],
                (struct task){.bytes = MAX_BYTES, .n_messages = 1, .is_stream = true, .is_peeked = true});
    }
    free(memory);
    return 0;
}
