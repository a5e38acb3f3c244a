/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/time.h"
#include "suite.h"

/* A word of pinned memory by which the host holds a stream back. */
struct gate {
    uint32_t *word;    /* the host's address */
    uint32_t *address; /* the device's */
};

static struct gate gate_create(struct suite *suite)
{
    struct gate gate = {.word = suite_memory(suite, 4096, HETCCL_MEMORY_PINNED)};
    void *address = NULL;

    memset(gate.word, 0, 4096);
    suite_expect_ok(suite, suite->ops->device_address(suite->device, gate.word, &address), "device address");
    gate.address = address;
    return gate;
}

static void gate_destroy(struct suite *suite, struct gate gate)
{
    suite->ops->mem_free(suite->device, gate.word, HETCCL_MEMORY_PINNED);
}

static void gate_set(struct gate gate, uint32_t value)
{
    __atomic_store_n(gate.word, value, __ATOMIC_RELEASE);
}

static void case_streams(struct suite *suite)
{
    static const enum hetccl_stream_priority priorities[] = {HETCCL_STREAM_NORMAL, HETCCL_STREAM_HIGH};
    struct hetccl_stream none = {.handle = NULL};
    struct hetccl_capture capture = {.is_capturing = true, .is_invalidated = true, .id = 7};

    for (size_t i = 0; i < 2; i++) {
        struct hetccl_stream stream = none;

        suite_expect_ok(suite, suite->ops->stream_create(suite->device, priorities[i], &stream), "create");
        suite_check(suite, stream.handle != NULL, "no handle");
        suite_expect_ok(suite, suite->ops->stream_query(suite->device, stream), "an idle stream");
        suite_expect_ok(suite, suite->ops->stream_capture(suite->device, stream, &capture), "capture");
        suite_check(suite, !capture.is_capturing && !capture.is_invalidated && capture.id == 0,
                    "a stream that isn't captured");
        suite->ops->stream_destroy(suite->device, stream);
    }
    suite_expect_ok(suite, suite->ops->stream_query(suite->device, none), "the default stream");
    suite->ops->stream_destroy(suite->device, none);
}

static void case_events(struct suite *suite)
{
    struct hetccl_stream stream = suite_stream(suite), other = suite_stream(suite);
    struct hetccl_event event = {.handle = NULL};
    uint64_t deadline_ns = hetccl_deadline_ns(20);
    enum hetccl_status status;

    suite->ops->event_destroy(suite->device, event);
    suite_expect_ok(suite, suite->ops->event_create(suite->device, &event), "create");
    suite_check(suite, event.handle != NULL, "no handle");
    suite_expect_ok(suite, suite->ops->event_query(suite->device, event), "an event never recorded");
    suite_expect_ok(suite, suite->ops->stream_wait_event(suite->device, other, event),
                    "waiting for an event never recorded");
    suite_expect_ok(suite, suite->ops->event_record(suite->device, event, stream), "record");
    do {
        status = suite->ops->event_query(suite->device, event);
    } while (status == HETCCL_AGAIN && hetccl_now_ns() < deadline_ns);
    suite_expect_ok(suite, status, "a recorded event");
    suite_expect_ok(suite, suite->ops->stream_wait_event(suite->device, other, event), "wait");
    suite_finish(suite, other);
    suite->ops->event_destroy(suite->device, event);
    suite->ops->stream_destroy(suite->device, other);
    suite->ops->stream_destroy(suite->device, stream);
}

static bool has_values(struct suite *suite)
{
    static const char *const words[] = {"has no", NULL};
    struct hetccl_stream none = {.handle = NULL};
    uint32_t word = 0;

    if (suite->device->has_stream_values)
        return true;
    suite_expect_error(suite, suite->ops->stream_wait_value(suite->device, none, &word, 0), HETCCL_ERR_USAGE,
                       words);
    suite_expect_error(suite, suite->ops->stream_write_value(suite->device, none, &word, 1), HETCCL_ERR_USAGE,
                       words);
    suite_expect_error(
        suite,
        suite->ops->stream_values(suite->device, none,
                                  &(struct hetccl_stream_value){HETCCL_VALUE_WRITE, &word, 1, 0}, 1),
        HETCCL_ERR_USAGE, words);
    suite_check(suite, word == 0, "a word was written");
    return false;
}

/*
 * Work behind a wait is held back, and comes once the host lets it. The bytes go by way of device memory: a
 * copy between host memories may block the caller on a GPU, and would wait for the gate that this thread has
 * to open.
 */
static void case_wait_value(struct suite *suite)
{
    enum { BYTES = 4096 };
    struct hetccl_stream stream;
    struct gate gate;
    unsigned char *pinned;
    unsigned char *between;

    if (!has_values(suite))
        return;
    stream = suite_stream(suite);
    gate = gate_create(suite);
    between = suite_memory(suite, BYTES, HETCCL_MEMORY_DEVICE);
    pinned = suite_memory(suite, (size_t)2 * BYTES, HETCCL_MEMORY_PINNED);
    suite_fill(pinned, BYTES, 5);
    memset(pinned + BYTES, 0, BYTES);
    gate_set(gate, 4);
    suite_expect_ok(suite, suite->ops->stream_wait_value(suite->device, stream, gate.address, 5), "wait");
    suite_expect_ok(suite, suite->ops->copy(suite->device, stream, between, pinned, BYTES), "copy");
    suite_expect_ok(suite, suite->ops->copy(suite->device, stream, pinned + BYTES, between, BYTES),
                    "copy back");
    hetccl_sleep_ns(20 * HETCCL_NS_PER_MS);
    suite_check(suite, suite->ops->stream_query(suite->device, stream) == HETCCL_AGAIN,
                "the stream didn't wait");
    suite_check(suite, pinned[BYTES + 1] == 0, "work overtook the wait");
    gate_set(gate, 5);
    suite_finish(suite, stream);
    suite_check(suite, suite_has_pattern(pinned + BYTES, BYTES, 5), "the bytes");
    /* The comparison goes round: 1 is two behind 0xffffffff. */
    gate_set(gate, 1);
    suite_expect_ok(suite, suite->ops->stream_wait_value(suite->device, stream, gate.address, UINT32_MAX),
                    "wait");
    suite_finish(suite, stream);
    suite->ops->mem_free(suite->device, pinned, HETCCL_MEMORY_PINNED);
    suite->ops->mem_free(suite->device, between, HETCCL_MEMORY_DEVICE);
    gate_destroy(suite, gate);
    suite->ops->stream_destroy(suite->device, stream);
}

static void case_write_value(struct suite *suite)
{
    static const char *const words[] = {"no word", NULL};
    struct hetccl_stream stream;
    struct gate gate;
    uint32_t *odd;

    if (!has_values(suite))
        return;
    stream = suite_stream(suite);
    gate = gate_create(suite);
    suite_expect_ok(
        suite, suite->ops->stream_write_value(suite->device, stream, gate.address + 1, 0xdecafbad), "write");
    suite_finish(suite, stream);
    suite_check(suite, gate.word[0] == 0 && gate.word[1] == 0xdecafbad && gate.word[2] == 0, "words %x %x %x",
                gate.word[0], gate.word[1], gate.word[2]);
    odd = (uint32_t *)((uintptr_t)gate.address + 2);
    suite_expect_error(suite, suite->ops->stream_write_value(suite->device, stream, odd, 1), HETCCL_ERR_ARG,
                       words);
    suite_expect_error(suite, suite->ops->stream_wait_value(suite->device, stream, NULL, 1), HETCCL_ERR_ARG,
                       words);
    gate_destroy(suite, gate);
    suite->ops->stream_destroy(suite->device, stream);
}

/* Equal means equal: neither less nor more lets the stream go on. The last of many writes is the last. */
static void case_values(struct suite *suite)
{
    enum { N_WRITES = 300 };
    struct hetccl_stream_value values[N_WRITES + 2];
    struct hetccl_stream stream;
    struct gate gate;

    if (!has_values(suite))
        return;
    stream = suite_stream(suite);
    gate = gate_create(suite);
    values[0] = (struct hetccl_stream_value){HETCCL_VALUE_WAIT_EQUAL, gate.address, 5, 0};
    for (uint32_t i = 0; i < N_WRITES; i++)
        values[1 + i] = (struct hetccl_stream_value){HETCCL_VALUE_WRITE, gate.address + 4 + i % 3, i, 0};
    values[N_WRITES + 1] =
        (struct hetccl_stream_value){HETCCL_VALUE_WRITE_PAIR, gate.address + 2, 0x40000001, 77};
    suite_expect_ok(suite, suite->ops->stream_values(suite->device, stream, values, N_WRITES + 2), "values");
    for (uint32_t other = 4; other <= 6; other += 2) {
        gate_set(gate, other);
        hetccl_sleep_ns(10 * HETCCL_NS_PER_MS);
        suite_check(suite, suite->ops->stream_query(suite->device, stream) == HETCCL_AGAIN,
                    "the stream didn't wait for 5 but took %u", other);
    }
    suite_check(suite, __atomic_load_n(&gate.word[4], __ATOMIC_ACQUIRE) == 0, "a write overtook the wait");
    gate_set(gate, 5);
    suite_finish(suite, stream);
    suite_check(suite, gate.word[4] == 297 && gate.word[5] == 298 && gate.word[6] == 299, "words %u %u %u",
                gate.word[4], gate.word[5], gate.word[6]);
    suite_check(suite, gate.word[2] == 0x40000001 && gate.word[3] == 77, "the pair %x %u", gate.word[2],
                gate.word[3]);
    gate_destroy(suite, gate);
    suite->ops->stream_destroy(suite->device, stream);
}

/* a is held by the gate; b waits for a's event; the gate of b's word shows the order. */
static void case_event_orders_streams(struct suite *suite)
{
    struct hetccl_stream a, b;
    struct hetccl_event event = {.handle = NULL};
    struct gate gate;

    if (!has_values(suite))
        return;
    a = suite_stream(suite);
    b = suite_stream(suite);
    gate = gate_create(suite);
    suite_expect_ok(suite, suite->ops->event_create(suite->device, &event), "create");
    suite_expect_ok(suite, suite->ops->stream_wait_value(suite->device, a, gate.address, 1), "wait");
    suite_expect_ok(suite, suite->ops->event_record(suite->device, event, a), "record");
    suite_expect_ok(suite, suite->ops->stream_wait_event(suite->device, b, event), "wait for the event");
    suite_expect_ok(suite, suite->ops->stream_write_value(suite->device, b, gate.address + 1, 77), "write");
    hetccl_sleep_ns(20 * HETCCL_NS_PER_MS);
    suite_check(suite, suite->ops->event_query(suite->device, event) == HETCCL_AGAIN, "the event came early");
    suite_check(suite, __atomic_load_n(&gate.word[1], __ATOMIC_ACQUIRE) == 0, "b didn't wait");
    suite->ops->event_destroy(suite->device, event); /* while it is waited for */
    gate_set(gate, 1);
    suite_finish(suite, b);
    suite_check(suite, gate.word[1] == 77, "b's word is %u", gate.word[1]);
    suite_finish(suite, a);
    gate_destroy(suite, gate);
    suite->ops->stream_destroy(suite->device, b);
    suite->ops->stream_destroy(suite->device, a);
}

static void case_destroy_with_work(struct suite *suite)
{
    struct hetccl_stream stream;
    struct gate gate;
    uint64_t deadline_ns = hetccl_deadline_ns(20);

    if (!has_values(suite))
        return;
    stream = suite_stream(suite);
    gate = gate_create(suite);
    suite_expect_ok(suite, suite->ops->stream_wait_value(suite->device, stream, gate.address, 1), "wait");
    suite_expect_ok(suite, suite->ops->stream_write_value(suite->device, stream, gate.address + 1, 5),
                    "write");
    suite->ops->stream_destroy(suite->device, stream);
    gate_set(gate, 1);
    while (__atomic_load_n(&gate.word[1], __ATOMIC_ACQUIRE) != 5 && hetccl_now_ns() < deadline_ns)
        hetccl_sleep_ns(100 * HETCCL_NS_PER_US);
    suite_check(suite, gate.word[1] == 5, "the work of a destroyed stream is lost");
    gate_destroy(suite, gate);
}

const struct suite_case suite_stream_cases[] = {
    {"streams", case_streams},
    {"events", case_events},
    {"wait for a value", case_wait_value},
    {"write a value", case_write_value},
    {"many values", case_values},
    {"event orders streams", case_event_orders_streams},
    {"stream destroyed with work", case_destroy_with_work},
    {NULL, NULL},
};
