/* SPDX-License-Identifier: Apache-2.0 */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"

/* Long: on a busy machine a thread may not run for a while. */
enum { WAIT_S = 5 };

const struct pair_kind pair_kinds[N_PAIR_KINDS] = {
    {"shm, 2 slots of 4 KiB", 0, 4096, 2},
    {"shm, 16 slots of 4 KiB", 0, 4096, 16},
    {"shm, 8 slots of 64 KiB", 0, 65536, 8},
    {"shm, 2 slots of 1 MiB", 0, 1048576, 2},
    {"tcp, 1 socket", 1, 0, 0},
    {"tcp, 3 sockets", 3, 0, 0},
    {"tcp, 16 sockets", 16, 0, 0},
};

static void connect_sockets(struct pair *pair)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t address_bytes = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener, HETCCL_LINK_TCP_MAX_SOCKETS), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &address_bytes), 0);
    for (size_t i = 0; i < pair->kind->n_sockets; i++) {
        pair->sockets[0][i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(pair->sockets[0][i], (struct sockaddr *)&address, sizeof(address)), 0);
        pair->sockets[1][i] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        assert_true(pair->sockets[1][i] >= 0);
    }
    close(listener);
}

void pair_init(struct pair *pair, const struct pair_kind *kind)
{
    size_t bytes = 2 * sizeof(struct hetccl_doorbell);

    memset(pair, 0, sizeof(*pair));
    pair->kind = kind;
    pair->death_s = 30;
    if (kind->n_sockets > 0) {
        connect_sockets(pair);
        return;
    }
    bytes += hetccl_link_shm_bytes(kind->slot_bytes, kind->n_slots);
    assert_int_equal(hetccl_segment_create(bytes, bytes, &pair->segment), HETCCL_OK);
    hetccl_segment_unlink(&pair->segment);
}

void pair_fini(struct pair *pair)
{
    hetccl_segment_fini(&pair->segment);
}

bool side_open(struct side *side, struct pair *pair, unsigned index)
{
    struct hetccl_doorbell *doorbells = pair->segment.memory;
    const char *peer_name = index == 0 ? "host-4" : "host-3";
    struct hetccl_link_tcp_args tcp = {
        .n_sockets = pair->kind->n_sockets,
        .death_s = pair->death_s,
        .own_rank = 3 + index,
        .peer_rank = 4 - index,
        .peer_name = peer_name,
    };

    *side = (struct side){.pair = pair, .index = index};
    if (pair->kind->n_sockets > 0) {
        memcpy(tcp.sockets, pair->sockets[index], sizeof(tcp.sockets));
        return hetccl_link_tcp_create(&tcp, &side->link) == HETCCL_OK;
    }
    side->own_doorbell = &doorbells[index];
    const struct hetccl_link_shm_args shm = {
        .segment = doorbells + 2,
        .segment_bytes = pair->segment.bytes - 2 * sizeof(*doorbells),
        .slot_bytes = pair->kind->slot_bytes,
        .is_first = index == 0,
        .own_rank = tcp.own_rank,
        .peer_rank = tcp.peer_rank,
        .peer_name = peer_name,
        .own_doorbell = &doorbells[index],
        .peer_doorbell = &doorbells[1 - index],
    };
    return hetccl_link_shm_create(&shm, &side->link) == HETCCL_OK;
}

void side_close(struct side *side)
{
    side->link->ops->close(side->link);
    side->link = NULL;
}

void side_drop_other(struct pair *pair, unsigned index)
{
    for (size_t i = 0; i < pair->kind->n_sockets; i++)
        close(pair->sockets[1 - index][i]);
}

static void wait_on_doorbell(struct side *side, bool (*look)(void *), void *arg)
{
    unsigned prepared = hetccl_doorbell_prepare(side->own_doorbell);
    uint64_t start_ns = hetccl_now_ns();

    if (look(arg)) {
        hetccl_doorbell_wait(side->own_doorbell, prepared, 0);
        return;
    }
    hetccl_doorbell_wait(side->own_doorbell, prepared, (uint64_t)WAIT_S * HETCCL_NS_PER_S);
    side->n_timeouts += hetccl_now_ns() - start_ns >= (uint64_t)WAIT_S * HETCCL_NS_PER_S;
}

void side_wait(struct side *side, bool (*look)(void *), void *arg)
{
    struct pollfd polled;
    short events = 0;
    int n_ready;

    side->n_waits++;
    polled.fd = side->link->ops->wait_fd(side->link, &events);
    if (polled.fd < 0 && side->own_doorbell != NULL) {
        wait_on_doorbell(side, look, arg);
        return;
    }
    polled.events = events;
    n_ready = poll(&polled, polled.fd >= 0 ? 1 : 0, WAIT_S * 1000);
    side->n_timeouts += n_ready == 0;
}

struct job {
    struct side side;
    bool (*body)(struct side *side, void *arg);
    void *arg;
    bool ok;
};

static void run_job(struct job *job, struct pair *pair, unsigned index)
{
    job->ok = side_open(&job->side, pair, index) && job->body(&job->side, job->arg);
    if (job->side.link != NULL)
        side_close(&job->side);
}

static void *run_thread(void *arg)
{
    struct job *job = arg;

    run_job(job, job->side.pair, 1);
    return NULL;
}

static bool run_with_thread(struct pair *pair, struct job jobs[2])
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, run_thread, &jobs[1]) != 0)
        return false;
    run_job(&jobs[0], pair, 0);
    return pthread_join(thread, NULL) == 0 && jobs[0].ok && jobs[1].ok;
}

static bool run_with_child(struct pair *pair, struct job jobs[2])
{
    pid_t child = fork();
    int status = 0;

    if (child < 0)
        return false;
    if (child == 0) {
        side_drop_other(pair, 1);
        run_job(&jobs[1], pair, 1);
        _exit(jobs[1].ok ? 0 : 1);
    }
    side_drop_other(pair, 0);
    run_job(&jobs[0], pair, 0);
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0 && jobs[0].ok;
}

bool pair_run(struct pair *pair, bool has_processes, bool (*body)(struct side *side, void *arg), void *arg)
{
    struct job jobs[2] = {{.side.pair = pair, .body = body, .arg = arg},
                          {.side.pair = pair, .body = body, .arg = arg}};

    return has_processes ? run_with_child(pair, jobs) : run_with_thread(pair, jobs);
}

bool expect_at(bool ok, const struct side *side, const char *what, const char *file, int line)
{
    if (!ok)
        fprintf(stderr, "%s:%d: %s, side %u: not so: %s (%s)\n", file, line, side->pair->kind->name,
                side->index, what, hetccl_last_error_thread());
    return ok;
}

/* Random bytes; message m has those from a place of its own on. Copied and compared in one go: that is fast
 * under sanitizers. */
enum { PATTERN_BYTES = 4 << 20, PATTERN_STARTS = 65536 };
static unsigned char pattern[PATTERN_STARTS + PATTERN_BYTES];

void pattern_init(void)
{
    uint64_t random = 4711;

    for (size_t i = 0; i < sizeof(pattern); i += 4) {
        uint32_t word = random_next(&random) ^ random_next(&random) << 16;

        memcpy(pattern + i, &word, 4);
    }
}

static const unsigned char *pattern_of(size_t bytes, size_t offset, unsigned message)
{
    return offset + bytes <= PATTERN_BYTES ? pattern + message * 4099u % PATTERN_STARTS + offset : NULL;
}

void pattern_fill(unsigned char *memory, size_t bytes, size_t offset, unsigned message)
{
    memcpy(memory, pattern_of(bytes, offset, message), bytes);
}

bool pattern_holds(const unsigned char *memory, size_t bytes, size_t offset, unsigned message)
{
    return memcmp(memory, pattern_of(bytes, offset, message), bytes) == 0;
}

uint32_t random_next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}
