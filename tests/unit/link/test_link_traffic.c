/* SPDX-License-Identifier: Apache-2.0 */
/* Random traffic in both directions at once over every kind of link: sizes, modes, order, contents. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pair.h"

enum { N_MESSAGES = 60, WINDOW = 4, GUARD_BYTES = 32, GUARD = 0xee };

static const size_t sizes[] = {0,     1,     7,     16,     17,     4095,         4096,       4097,
                               65535, 65536, 65537, 196608, 196609, 1048576 + 13, 3145728 + 5};
enum { N_SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* Both sides draw the same messages of a direction from the same seed. */
struct plan {
    size_t bytes[N_MESSAGES];
    bool is_peeked[N_MESSAGES];
};

struct flight {
    struct hetccl_link_request request;
    unsigned char *memory;
};

struct traffic {
    struct side *side;
    struct plan plans[2]; /* by sending side */
    struct flight sends[WINDOW], recvs[WINDOW];
    unsigned n_sends_posted, n_sends_done, n_recvs_posted, n_recvs_done;
    uint64_t random;
    bool ok;
};

static void draw_plans(struct traffic *traffic, uint64_t seed)
{
    for (unsigned direction = 0; direction < 2; direction++) {
        uint64_t random = seed * 2 + direction;

        for (unsigned i = 0; i < N_MESSAGES; i++) {
            uint32_t choice = random_next(&random);

            traffic->plans[direction].bytes[i] = sizes[choice % N_SIZES];
            traffic->plans[direction].is_peeked[i] = choice / N_SIZES % 2 == 0;
        }
    }
}

static struct hetccl_call_tag tag_of(unsigned direction, unsigned message, size_t bytes)
{
    return (struct hetccl_call_tag){
        .sequence = message + 1, .count = bytes, .coll = (uint8_t)direction, .root = 7};
}

static unsigned pattern_of(unsigned direction, unsigned message)
{
    return direction * 1000 + message;
}

static bool make_memory(struct flight *flight, size_t bytes)
{
    free(flight->memory);
    flight->memory = malloc(bytes + GUARD_BYTES);
    if (flight->memory == NULL)
        return false;
    memset(flight->memory, GUARD, bytes + GUARD_BYTES);
    return true;
}

static void post_one_send(struct traffic *traffic)
{
    unsigned own = traffic->side->index, i = traffic->n_sends_posted;
    struct flight *flight = &traffic->sends[i % WINDOW];
    size_t bytes = traffic->plans[own].bytes[i];

    traffic->ok = traffic->ok && make_memory(flight, bytes);
    pattern_fill(flight->memory, bytes, 0, pattern_of(own, i));
    flight->request = (struct hetccl_link_request){
        .memory = flight->memory, .bytes_total = bytes, .tag = tag_of(own, i, bytes)};
    traffic->ok = traffic->ok &&
                  EXPECT(traffic->side, traffic->side->link->ops->post_send(traffic->side->link,
                                                                            &flight->request) == HETCCL_OK);
    traffic->n_sends_posted++;
}

static void post_one_recv(struct traffic *traffic)
{
    unsigned from = 1 - traffic->side->index, i = traffic->n_recvs_posted;
    struct flight *flight = &traffic->recvs[i % WINDOW];
    size_t bytes = traffic->plans[from].bytes[i];

    traffic->ok = traffic->ok && make_memory(flight, bytes);
    flight->request =
        (struct hetccl_link_request){.memory = traffic->plans[from].is_peeked[i] ? NULL : flight->memory,
                                     .bytes_total = bytes,
                                     .tag = tag_of(from, i, bytes)};
    traffic->ok = traffic->ok &&
                  EXPECT(traffic->side, traffic->side->link->ops->post_recv(traffic->side->link,
                                                                            &flight->request) == HETCCL_OK);
    traffic->n_recvs_posted++;
}

/* Takes a random part of what is shown. True when something was shown. */
static bool peek_some(struct traffic *traffic)
{
    struct side *side = traffic->side;
    struct flight *flight = &traffic->recvs[traffic->n_recvs_done % WINDOW];
    size_t shown_bytes = 0, left_bytes = flight->request.bytes_total - flight->request.bytes_done, bytes;
    const void *shown = NULL;
    enum hetccl_status status;

    if (flight->request.memory != NULL || flight->request.state == HETCCL_REQUEST_DONE)
        return false;
    status = side->link->ops->peek(side->link, &flight->request, &shown, &shown_bytes);
    if (status == HETCCL_AGAIN)
        return false;
    traffic->ok = traffic->ok && EXPECT(side, status == HETCCL_OK) && EXPECT(side, shown_bytes > 0) &&
                  EXPECT(side, shown_bytes <= left_bytes) &&
                  EXPECT(side, shown_bytes % 16 == 0 || shown_bytes == left_bytes);
    if (!traffic->ok)
        return true;
    bytes = shown_bytes;
    if (random_next(&traffic->random) % 2 == 0) {
        bytes = random_next(&traffic->random) % (shown_bytes + 1);
        bytes -= bytes % 16;
    }
    memcpy(flight->memory + flight->request.bytes_done, shown, bytes);
    side->link->ops->consume(side->link, &flight->request, bytes);
    return true;
}

/* True while requests finish. */
static bool reap(struct traffic *traffic)
{
    struct side *side = traffic->side;
    struct flight *send = &traffic->sends[traffic->n_sends_done % WINDOW];
    struct flight *recv = &traffic->recvs[traffic->n_recvs_done % WINDOW];
    unsigned from = 1 - side->index;
    size_t bytes;

    if (traffic->n_sends_done < traffic->n_sends_posted && send->request.state == HETCCL_REQUEST_DONE) {
        traffic->n_sends_done++;
        return true;
    }
    if (traffic->n_recvs_done == traffic->n_recvs_posted || recv->request.state != HETCCL_REQUEST_DONE)
        return false;
    bytes = recv->request.bytes_total;
    traffic->ok =
        traffic->ok && EXPECT(side, recv->request.bytes_done == bytes) &&
        EXPECT(side, pattern_holds(recv->memory, bytes, 0, pattern_of(from, traffic->n_recvs_done)));
    for (size_t i = 0; i < GUARD_BYTES; i++)
        traffic->ok = traffic->ok && EXPECT(side, recv->memory[bytes + i] == GUARD);
    traffic->n_recvs_done++;
    return true;
}

static bool step(void *arg)
{
    struct traffic *traffic = arg;
    enum hetccl_status status = traffic->side->link->ops->progress(traffic->side->link);
    bool has_moved = status == HETCCL_OK;

    traffic->ok = traffic->ok && EXPECT(traffic->side, !hetccl_is_error(status));
    if (traffic->n_recvs_done < traffic->n_recvs_posted)
        has_moved = peek_some(traffic) || has_moved;
    while (reap(traffic))
        has_moved = true;
    return has_moved || !traffic->ok;
}

static bool drive(struct traffic *traffic)
{
    while (traffic->ok && (traffic->n_sends_done < N_MESSAGES || traffic->n_recvs_done < N_MESSAGES)) {
        uint32_t choice = random_next(&traffic->random);

        if (choice % 3 == 0 && traffic->n_sends_posted < N_MESSAGES &&
            traffic->n_sends_posted - traffic->n_sends_done < WINDOW)
            post_one_send(traffic);
        if (choice / 3 % 3 == 0 && traffic->n_recvs_posted < N_MESSAGES &&
            traffic->n_recvs_posted - traffic->n_recvs_done < WINDOW)
            post_one_recv(traffic);
        if (step(traffic) || traffic->n_recvs_posted == traffic->n_recvs_done ||
            (traffic->n_sends_posted < N_MESSAGES && traffic->n_sends_posted == traffic->n_sends_done))
            continue;
        side_wait(traffic->side, step, traffic);
        traffic->ok = traffic->ok && EXPECT(traffic->side, traffic->side->n_timeouts == 0);
    }
    return traffic->ok;
}

static bool has_counted_right(const struct traffic *traffic)
{
    const struct hetccl_link_counters *counters = &traffic->side->link->counters;
    uint64_t sent = 0, received = 0;

    for (unsigned i = 0; i < N_MESSAGES; i++) {
        sent += traffic->plans[traffic->side->index].bytes[i];
        received += traffic->plans[1 - traffic->side->index].bytes[i];
    }
    return EXPECT(traffic->side, counters->sent_bytes == sent) &&
           EXPECT(traffic->side, counters->received_bytes == received) &&
           EXPECT(traffic->side, counters->sent_messages == N_MESSAGES) &&
           EXPECT(traffic->side, counters->received_messages == N_MESSAGES);
}

static bool run_traffic(struct side *side, void *arg)
{
    struct traffic *traffic = calloc(1, sizeof(*traffic));
    uint64_t seed = *(const uint64_t *)arg;
    bool ok;

    if (traffic == NULL)
        return false;
    traffic->side = side;
    traffic->ok = true;
    traffic->random = seed * 77 + side->index;
    draw_plans(traffic, seed);
    ok = drive(traffic) && has_counted_right(traffic);
    for (unsigned i = 0; i < WINDOW; i++) {
        free(traffic->sends[i].memory);
        free(traffic->recvs[i].memory);
    }
    free(traffic);
    return ok;
}

static void run_all_kinds(bool has_processes, uint64_t seed)
{
    for (size_t kind = 0; kind < N_PAIR_KINDS; kind++) {
        struct pair pair;

        pair_init(&pair, &pair_kinds[kind]);
        assert_true(pair_run(&pair, has_processes, run_traffic, &seed));
        pair_fini(&pair);
    }
}

static void test_traffic_between_threads(void **state)
{
    run_all_kinds(false, 1);
}

static void test_traffic_between_processes(void **state)
{
    run_all_kinds(true, 101);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_traffic_between_threads),
        cmocka_unit_test(test_traffic_between_processes),
    };

    pattern_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
