/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU's kernels against the host's, bit for bit, on a real GPU; then their speed.
 *
 * Usage: kernels_test PROBE_PTX        the image under test is linked in; PROBE_PTX is probe_kernel.c's
 *
 * The last line is "N passed, N failed"; the exit status is 1 when anything failed.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kernels/images.h"
#include "phases.h"
#include "speed.h"

enum { MAX_THREADS = 16 };

/* What the threads share: the phase, and the number of the next call of run(). */
struct pool {
    const struct kernels *kernels;
    pthread_t threads[MAX_THREADS];
    struct bench benches[MAX_THREADS];
    size_t n_threads;
    const struct phase *phase;
    enum hetccl_type types[HETCCL_TYPES];
    size_t n_types;
    atomic_ullong next;
};

static struct pool pool;

static void *work(void *argument)
{
    const struct phase *phase = pool.phase;
    uint64_t n_calls = pool.n_types * phase->n_indices, call;

    cuda_driver_attach();
    while ((call = atomic_fetch_add(&pool.next, 1)) < n_calls)
        phase->run(argument, pool.types[call / phase->n_indices], call % phase->n_indices);
    return NULL;
}

/* Whether all was equal. */
static bool run_phase(const struct phase *phase)
{
    unsigned long long failures = atomic_load(&bench_n_failures), checked = atomic_load(&bench_n_checked);
    double start = seconds_now();

    pool.phase = phase;
    pool.n_types = 0;
    atomic_store(&pool.next, 0);
    for (int type = 0; type < HETCCL_TYPES; type++) {
        if (phase->type_mask >> type & 1)
            pool.types[pool.n_types++] = (enum hetccl_type)type;
    }
    for (size_t t = 0; t < pool.n_threads; t++) {
        if (pthread_create(&pool.threads[t], NULL, work, &pool.benches[t]) != 0) {
            printf("FAIL: pthread_create\n");
            exit(1);
        }
    }
    for (size_t t = 0; t < pool.n_threads; t++)
        pthread_join(pool.threads[t], NULL);
    failures = atomic_load(&bench_n_failures) - failures;
    checked = atomic_load(&bench_n_checked) - checked;
    printf("%s %-42s %6.1f s, %llu results, %llu calls wrong\n", failures == 0 ? "ok  " : "FAIL", phase->name,
           seconds_now() - start, checked, failures);
    fflush(stdout);
    return failures == 0 && checked > 0;
}

/* A text file with a NUL behind; never given back. */
static char *read_file(const char *path)
{
    enum { MAX_BYTES = 1 << 20 };
    char *text = calloc(1, MAX_BYTES + 1);
    FILE *file = fopen(path, "r");

    if (text == NULL || file == NULL || fread(text, 1, MAX_BYTES, file) == 0) {
        printf("FAIL: can't read %s\n", path);
        exit(1);
    }
    fclose(file);
    return text;
}

int main(int argc, char **argv)
{
    struct kernels kernels;
    size_t image_bytes;
    const char *image = hetccl_kernel_image_ptx(&image_bytes);
    int n_passed = 0, n_failed = 0, n_multiprocessors;
    long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);

    if (argc != 2 || image == NULL) {
        printf("usage: kernels_test PROBE_PTX, with an image linked in\n");
        return 2;
    }
    n_multiprocessors = cuda_driver_open();
    printf("image of %zu bytes; ", image_bytes);
    speed_print_loading(image);
    kernels_load(&kernels, image, n_multiprocessors);
    pool.n_threads = n_cpus > MAX_THREADS ? MAX_THREADS : n_cpus < 1 ? 1 : (size_t)n_cpus;
    for (size_t t = 0; t < pool.n_threads; t++)
        bench_init(&pool.benches[t], &kernels);
    for (size_t p = 0; p < n_phases; p++)
        *(run_phase(&phases[p]) ? &n_passed : &n_failed) += 1;
    *(probe_run(read_file(argv[1])) ? &n_passed : &n_failed) += 1;
    speed_print(&kernels);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed == 0 ? 0 : 1;
}
