/* SPDX-License-Identifier: Apache-2.0 */

/* Element-wise work and the library's own kernels: every device gives the bits of the host's kernels. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/device/args.h"
#include "suite.h"

enum { MAX_COUNT = 5000, N_SRCS = 3, ROOM_BYTES = MAX_COUNT * 16 + 64 };

/* Pinned memory, by the device's addresses; the host's results beside it. */
struct room {
    struct hetccl_stream stream;
    unsigned char *host, *device; /* the same memory: N_SRCS sources, then the destination */
    unsigned char *wanted;
};

static struct room room_create(struct suite *suite)
{
    struct room room = {.stream = suite_stream(suite),
                        .host = suite_memory(suite, (N_SRCS + 1) * ROOM_BYTES, HETCCL_MEMORY_PINNED),
                        .wanted = malloc(ROOM_BYTES)};
    void *address = NULL;

    suite_expect_ok(suite, suite->ops->device_address(suite->device, room.host, &address), "address");
    room.device = address;
    if (room.wanted == NULL)
        exit(1);
    return room;
}

static void room_destroy(struct suite *suite, struct room *room)
{
    free(room->wanted);
    suite->ops->mem_free(suite->device, room->host, HETCCL_MEMORY_PINNED);
    suite->ops->stream_destroy(suite->device, room->stream);
}

/* Sources get a pattern, the destination and what is wanted there a byte that nothing writes. */
static void room_reset(struct room *room)
{
    for (unsigned k = 0; k < N_SRCS; k++)
        suite_fill(room->host + (size_t)k * ROOM_BYTES, ROOM_BYTES, 10 + k);
    memset(room->host + (size_t)N_SRCS * ROOM_BYTES, 0xa5, ROOM_BYTES);
    memset(room->wanted, 0xa5, ROOM_BYTES);
}

static void room_compare(struct suite *suite, const struct room *room, const char *what,
                         enum hetccl_type type, size_t count)
{
    const unsigned char *got = room->host + (size_t)N_SRCS * ROOM_BYTES;
    size_t i = 0;

    suite_finish(suite, room->stream);
    while (i < ROOM_BYTES && got[i] == room->wanted[i])
        i++;
    suite_check(suite, i == ROOM_BYTES, "%s of %zu %s: byte %zu", what, count, hetccl_type_name(type), i);
}

static void check_reduce(struct suite *suite, struct room *room, struct hetccl_reduce reduce, size_t shift)
{
    const void *on_host[N_SRCS], *on_device[N_SRCS];

    room_reset(room);
    for (size_t k = 0; k < reduce.n_srcs; k++) {
        on_host[k] = room->host + k * ROOM_BYTES + shift * (k + 1);
        on_device[k] = room->device + k * ROOM_BYTES + shift * (k + 1);
    }
    hetccl_kernel_reduce(room->wanted + shift, on_host, reduce.scales, reduce.n_srcs, reduce.count,
                         reduce.type, reduce.red);
    reduce.dst = room->device + (size_t)N_SRCS * ROOM_BYTES + shift;
    reduce.srcs = on_device;
    suite_expect_ok(suite, suite->ops->reduce(suite->device, room->stream, &reduce), "reduce");
    room_compare(suite, room, hetccl_red_name(reduce.red), reduce.type, reduce.count);
}

static void case_reduce(struct suite *suite)
{
    static const size_t counts[] = {0, 1, 257, MAX_COUNT};
    struct room room = room_create(suite);

    for (int type = 0; type < HETCCL_TYPES; type++) {
        struct hetccl_scale scales[N_SRCS];

        for (size_t k = 0; k < N_SRCS; k++)
            scales[k] = hetccl_scale_of_average((enum hetccl_type)type, k + 2);
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
            struct hetccl_reduce reduce = {
                .n_srcs = 2, .count = counts[i], .type = (enum hetccl_type)type, .red = HETCCL_SUM};

            check_reduce(suite, &room, reduce, 0);
            reduce.red = HETCCL_MAX;
            check_reduce(suite, &room, reduce, 1);
            reduce.n_srcs = 1; /* a copy */
            check_reduce(suite, &room, reduce, 0);
            reduce = (struct hetccl_reduce){.n_srcs = 1 + i % N_SRCS,
                                            .count = counts[i],
                                            .type = (enum hetccl_type)type,
                                            .scales = scales};
            check_reduce(suite, &room, reduce, 0);
        }
    }
    room_destroy(suite, &room);
}

/* The first source into itself, and a single source that is the destination already. */
static void case_reduce_in_place(struct suite *suite)
{
    struct room room = room_create(suite);
    const void *srcs[] = {room.device, room.device + ROOM_BYTES};
    const void *host_srcs[] = {room.host, room.host + ROOM_BYTES};
    struct hetccl_reduce reduce = {.dst = room.device,
                                   .srcs = srcs,
                                   .n_srcs = 2,
                                   .count = MAX_COUNT,
                                   .type = HETCCL_INT32,
                                   .red = HETCCL_SUM};

    room_reset(&room);
    hetccl_kernel_reduce(room.wanted, host_srcs, NULL, 2, MAX_COUNT, HETCCL_INT32, HETCCL_SUM);
    suite_expect_ok(suite, suite->ops->reduce(suite->device, room.stream, &reduce), "in place");
    suite_finish(suite, room.stream);
    reduce.n_srcs = 1;
    suite_expect_ok(suite, suite->ops->reduce(suite->device, room.stream, &reduce), "onto itself");
    suite_finish(suite, room.stream);
    suite_check(suite, memcmp(room.host, room.wanted, MAX_COUNT * sizeof(int32_t)) == 0, "the sum");
    room_destroy(suite, &room);
}

static void check_average(struct suite *suite, struct room *room, enum hetccl_type type, size_t n_ranks)
{
    void *dst = room->device + (size_t)N_SRCS * ROOM_BYTES;

    room_reset(room);
    hetccl_kernel_average_widen(room->wanted, room->host, 1000, type, n_ranks);
    suite_expect_ok(
        suite, suite->ops->average_widen(suite->device, room->stream, dst, room->device, 1000, type, n_ranks),
        "widen");
    room_compare(suite, room, "widening", type, 1000);
    /* Sums of so many as there are ranks can be narrowed: here that many times the first. */
    memcpy(room->host, room->wanted, ROOM_BYTES);
    memset(room->wanted, 0xa5, ROOM_BYTES);
    memset(room->host + (size_t)N_SRCS * ROOM_BYTES, 0xa5, ROOM_BYTES);
    hetccl_kernel_average_narrow(room->wanted, room->host, 1000, type, n_ranks);
    suite_expect_ok(
        suite,
        suite->ops->average_narrow(suite->device, room->stream, dst, room->device, 1000, type, n_ranks),
        "narrow");
    room_compare(suite, room, "narrowing", type, 1000);
}

static void case_averages(struct suite *suite)
{
    struct room room = room_create(suite);

    for (int type = HETCCL_INT8; type <= HETCCL_UINT64; type++) {
        check_average(suite, &room, (enum hetccl_type)type, 1);
        check_average(suite, &room, (enum hetccl_type)type, 7);
    }
    suite_expect_ok(suite,
                    suite->ops->average_widen(suite->device, room.stream, NULL, NULL, 0, HETCCL_INT8, 2),
                    "no elements");
    room_destroy(suite, &room);
}

static void case_refused_work(struct suite *suite)
{
    static const char *const input_words[] = {"inputs", NULL}, *const type_words[] = {"no such", NULL},
                             *const scale_words[] = {"scaled", NULL},
                             *const average_words[] = {"average", NULL};
    struct hetccl_scale scale = hetccl_scale_one(HETCCL_FLOAT32);
    struct hetccl_stream none = {.handle = NULL};
    struct hetccl_reduce reduce = {.count = 1, .type = HETCCL_FLOAT32, .red = HETCCL_MAX};

    suite_expect_error(suite, suite->ops->reduce(suite->device, none, &reduce), HETCCL_ERR_ARG, input_words);
    reduce.n_srcs = HETCCL_REDUCE_MAX_INPUTS + 1;
    suite_expect_error(suite, suite->ops->reduce(suite->device, none, &reduce), HETCCL_ERR_ARG, input_words);
    reduce.n_srcs = 1;
    reduce.scales = &scale;
    suite_expect_error(suite, suite->ops->reduce(suite->device, none, &reduce), HETCCL_ERR_ARG, scale_words);
    reduce.type = HETCCL_TYPES;
    suite_expect_error(suite, suite->ops->reduce(suite->device, none, &reduce), HETCCL_ERR_ARG, type_words);
    suite_expect_error(suite,
                       suite->ops->average_widen(suite->device, none, NULL, NULL, 1, HETCCL_FLOAT32, 2),
                       HETCCL_ERR_ARG, average_words);
    suite_expect_error(suite, suite->ops->average_narrow(suite->device, none, NULL, NULL, 1, HETCCL_INT8, 0),
                       HETCCL_ERR_ARG, average_words);
}

static void case_fill(struct suite *suite)
{
    struct room room = room_create(suite);
    unsigned char *memory = suite_memory(suite, 4096, HETCCL_MEMORY_DEVICE);

    room_reset(&room);
    suite_expect_ok(suite, suite->ops->fill(suite->device, room.stream, memory, 0, 4096), "fill");
    suite_expect_ok(suite, suite->ops->fill(suite->device, room.stream, memory + 5, 0x7e, 1001), "fill");
    suite_expect_ok(suite, suite->ops->fill(suite->device, room.stream, NULL, 1, 0), "no bytes");
    suite_expect_ok(suite, suite->ops->copy(suite->device, room.stream, room.device, memory, 4096), "copy");
    suite_finish(suite, room.stream);
    for (size_t i = 0; i < 4096; i++) {
        if (!suite_check(suite, room.host[i] == (i >= 5 && i < 1006 ? 0x7e : 0), "byte %zu is %#x", i,
                         room.host[i]))
            break;
    }
    suite->ops->mem_free(suite->device, memory, HETCCL_MEMORY_DEVICE);
    room_destroy(suite, &room);
}

/* A kernel of the library's image does what its description says; others than those there are not found. */
static void case_image_kernel(struct suite *suite)
{
    static const char *const refused_words[] = {"has no", NULL}, *const absent_words[] = {"hetccl_absent",
                                                                                          "image", NULL};
    struct hetccl_kernel kernel = {.handle = NULL}, again = {.handle = NULL};
    struct room room = room_create(suite);
    struct hetccl_copy_args args = {
        .dst = room.device + (size_t)N_SRCS * ROOM_BYTES, .src = room.device, .bytes = 70001, .n_blocks = 3};
    void *params[] = {&args};
    struct hetccl_launch launch = {.n_blocks = 3, .block_threads = HETCCL_BLOCK_THREADS, .params = params};

    room_reset(&room);
    if (!suite->is_gpu) {
        suite_expect_error(suite, suite->ops->image_kernel(suite->device, "hetccl_copy", &kernel),
                           HETCCL_ERR_USAGE, refused_words);
    } else {
        suite_expect_ok(suite, suite->ops->image_kernel(suite->device, "hetccl_copy", &kernel), "find");
        suite_expect_ok(suite, suite->ops->image_kernel(suite->device, "hetccl_copy", &again), "find again");
        suite_check(suite, kernel.handle != NULL && kernel.handle == again.handle, "another handle");
        suite_expect_error(suite, suite->ops->image_kernel(suite->device, "hetccl_absent", &again),
                           HETCCL_ERR_INTERNAL, absent_words);
        launch.kernel = kernel;
        memcpy(room.wanted, room.host, args.bytes);
        suite_expect_ok(suite, suite->ops->kernel_launch(suite->device, room.stream, &launch), "launch");
        room_compare(suite, &room, "copy", HETCCL_UINT8, args.bytes);
    }
    room_destroy(suite, &room);
}

const struct suite_case suite_work_cases[] = {
    {"reduce", case_reduce},
    {"reduce in place", case_reduce_in_place},
    {"averages", case_averages},
    {"work refused", case_refused_work},
    {"fill", case_fill},
    {"kernels of the image", case_image_kernel},
    {NULL, NULL},
};
