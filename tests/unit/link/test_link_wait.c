/* SPDX-License-Identifier: Apache-2.0 */
/* Ping-pong with sleeping sides: no wake-up gets lost, small messages are cheap, pauses aren't spun away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <time.h>

#include "base/time.h"
#include "pair.h"

enum { N_ROUNDS = 20000, N_ROUNDS_SANITIZED = 2000 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { ROUNDS = N_ROUNDS_SANITIZED };
#else
enum { ROUNDS = N_ROUNDS };
#endif

struct ball {
    struct side *side;
    struct hetccl_link_request request;
    uint64_t value;
    bool has_failed;
};

static bool look(void *arg)
{
    struct ball *ball = arg;
    enum hetccl_status status = ball->side->link->ops->progress(ball->side->link);

    ball->has_failed = ball->has_failed || hetccl_is_error(status);
    return status != HETCCL_AGAIN || ball->request.state == HETCCL_REQUEST_DONE;
}

static bool wait_done(struct ball *ball)
{
    while (ball->request.state != HETCCL_REQUEST_DONE && !ball->has_failed) {
        if (!look(ball))
            side_wait(ball->side, look, ball);
    }
    return !ball->has_failed && ball->side->n_timeouts == 0;
}

static bool throw_ball(struct ball *ball, uint64_t value)
{
    struct hetccl_link *link = ball->side->link;

    ball->value = value;
    ball->request = (struct hetccl_link_request){.memory = &ball->value, .bytes_total = sizeof(ball->value)};
    ball->request.tag.sequence = value + 1;
    return link->ops->post_send(link, &ball->request) == HETCCL_OK && wait_done(ball);
}

static bool catch_ball(struct ball *ball, uint64_t value)
{
    struct hetccl_link *link = ball->side->link;

    ball->value = ~value;
    ball->request = (struct hetccl_link_request){.memory = &ball->value, .bytes_total = sizeof(ball->value)};
    ball->request.tag.sequence = value + 1;
    return link->ops->post_recv(link, &ball->request) == HETCCL_OK && wait_done(ball) && ball->value == value;
}

static bool play(struct side *side, void *arg)
{
    struct ball ball = {.side = side};

    for (uint64_t i = 0; i < ROUNDS; i++) {
        bool ok = side->index == 0 ? throw_ball(&ball, 2 * i) && catch_ball(&ball, 2 * i + 1)
                                   : catch_ball(&ball, 2 * i) && throw_ball(&ball, 2 * i + 1);

        if (!EXPECT(side, ok))
            return false;
    }
    return EXPECT(side, side->n_timeouts == 0);
}

static void play_on(const struct pair_kind *kind, bool has_processes)
{
    struct pair pair;

    pair_init(&pair, kind);
    assert_true(pair_run(&pair, has_processes, play, NULL));
    pair_fini(&pair);
}

static void test_sleeping_ping_pong_shm(void **state)
{
    play_on(&pair_kinds[0], false);
    play_on(&pair_kinds[1], true);
}

static void test_sleeping_ping_pong_tcp(void **state)
{
    play_on(&pair_kinds[4], false);
    play_on(&pair_kinds[5], true);
}

static uint64_t thread_cpu_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * HETCCL_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Side 1 answers late; side 0 sleeps meanwhile and then wakes at once. */
static bool wait_for_late_answer(struct side *side, void *arg)
{
    struct ball ball = {.side = side};
    uint64_t cpu_ns;

    if (side->index == 1) {
        hetccl_sleep_ns(300 * (uint64_t)HETCCL_NS_PER_MS);
        return EXPECT(side, throw_ball(&ball, 1));
    }
    cpu_ns = thread_cpu_ns();
    return EXPECT(side, catch_ball(&ball, 1)) && EXPECT(side, side->n_waits >= 1) &&
           EXPECT(side, thread_cpu_ns() - cpu_ns < 100 * (uint64_t)HETCCL_NS_PER_MS);
}

static void test_waiting_costs_no_cpu(void **state)
{
    for (size_t kind = 0; kind < N_PAIR_KINDS; kind++) {
        struct pair pair;

        pair_init(&pair, &pair_kinds[kind]);
        assert_true(pair_run(&pair, false, wait_for_late_answer, NULL));
        pair_fini(&pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sleeping_ping_pong_shm),
        cmocka_unit_test(test_sleeping_ping_pong_tcp),
        cmocka_unit_test(test_waiting_costs_no_cpu),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
