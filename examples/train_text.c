/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data-parallel training of a character model with the NCCL API, in host memory.
 *
 * Every rank has the whole model and learns from its part of each global batch. The gradients are averaged
 * over the ranks by ncclAllReduce in buckets; then all ranks make the same step, so their weights stay equal
 * bit for bit, which is checked at the end. With --zero1 the optimizer is sharded: ncclReduceScatter gives
 * each rank the averaged gradients of its shard, it updates that shard, and ncclAllGather puts the weights
 * together again.
 *
 * Nothing here knows of vendors or islands: this is the program that would run on NCCL.
 *
 *   HETCCL_DEVICE=host train_text examples/data/licences.txt                     one rank
 *   ... train_text TEXT --rank R --size N --idfile FILE                          rank R of N
 *   torchrun, mpirun or srun ... train_text TEXT --idfile FILE
 */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <nccl.h>

#include "launch.h"
#include "text_model.h"

enum { REPORT_STEPS = 50 };

struct options {
    const char *text_path, *csv_path;
    size_t n_steps, global_batch, bucket_bytes, sample_bytes;
    float learning_rate;
    uint64_t seed;
    int is_sharded; /* --zero1 */
};

/* One rank's training. */
struct trainer {
    struct launch launch;
    struct options options;
    ncclComm_t comm;
    struct text text;
    struct model model;
    size_t shard_count;    /* parameters a rank; the arrays below are padded to size times this */
    float *params, *grads; /* shard_count * size */
    float *shard_grads;    /* shard_count */
    struct adam adam;
    double communication_s;
    double recent_loss; /* sum over the n_recent steps since the last report */
    int n_recent;
};

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static float *new_floats(size_t count)
{
    float *floats = calloc(count, sizeof(*floats));

    if (floats == NULL) {
        fprintf(stderr, "no memory for %zu floats\n", count);
        exit(1);
    }
    return floats;
}

static void usage(void)
{
    fprintf(
        stderr,
        "usage: train_text TEXT [--rank R --size N] [--idfile FILE] [--steps N] [--global-batch N] "
        "[--zero1]\n"
        "                  [--bucket-bytes N] [--lr RATE] [--seed N] [--sample BYTES] [--out LOSS.csv]\n");
    exit(2);
}

static size_t read_count(const char *text, size_t lowest)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);

    if (end == text || *end != '\0' || text[0] == '-' || value < lowest)
        usage();
    return (size_t)value;
}

/* One option of getopt_long(); the letter says which. */
static void set_option(struct trainer *trainer, int letter, const char *value)
{
    struct options *options = &trainer->options;

    switch (letter) {
    case 'r':
        trainer->launch.rank = (int)read_count(value, 0);
        break;
    case 'n':
        trainer->launch.size = (int)read_count(value, 1);
        break;
    case 'i':
        trainer->launch.id_file = value;
        break;
    case 's':
        options->n_steps = read_count(value, 1);
        break;
    case 'b':
        options->global_batch = read_count(value, 1);
        break;
    case 'k':
        options->bucket_bytes = read_count(value, sizeof(float));
        break;
    case 'l':
        options->learning_rate = strtof(value, NULL);
        break;
    case 'd':
        options->seed = read_count(value, 0);
        break;
    case 't':
        options->sample_bytes = read_count(value, 0);
        break;
    case 'o':
        options->csv_path = value;
        break;
    case 'z':
        options->is_sharded = 1;
        break;
    default:
        usage();
    }
}

static void read_options(struct trainer *trainer, int argc, char **argv)
{
    static const struct option names[] = {
        {"rank", required_argument, NULL, 'r'},
        {"size", required_argument, NULL, 'n'},
        {"idfile", required_argument, NULL, 'i'},
        {"steps", required_argument, NULL, 's'},
        {"global-batch", required_argument, NULL, 'b'},
        {"bucket-bytes", required_argument, NULL, 'k'},
        {"lr", required_argument, NULL, 'l'},
        {"seed", required_argument, NULL, 'd'},
        {"sample", required_argument, NULL, 't'},
        {"out", required_argument, NULL, 'o'},
        {"zero1", no_argument, NULL, 'z'},
        {0},
    };
    int letter;

    trainer->options = (struct options){
        .n_steps = 500, .global_batch = 192, .bucket_bytes = 65536, .learning_rate = 3e-3f, .seed = 1};
    launch_from_environment(&trainer->launch);
    while ((letter = getopt_long(argc, argv, "", names, NULL)) != -1)
        set_option(trainer, letter, optarg);
    if (optind != argc - 1 || trainer->launch.rank >= trainer->launch.size || trainer->launch.rank < 0)
        usage();
    trainer->options.text_path = argv[optind];
}

static void set_up(struct trainer *trainer)
{
    size_t size = (size_t)trainer->launch.size;
    size_t n_moments;
    ncclUniqueId id;

    if (text_load(&trainer->text, trainer->options.text_path) != 0 ||
        launch_share_id(&trainer->launch, &id) != 0)
        exit(1);
    launch_check(&trainer->launch,
                 ncclCommInitRank(&trainer->comm, trainer->launch.size, id, trainer->launch.rank),
                 "ncclCommInitRank");
    launch_forget_id(&trainer->launch);

    model_init(&trainer->model, trainer->text.n_symbols);
    trainer->shard_count = (trainer->model.n_params + size - 1) / size;
    trainer->params = new_floats(trainer->shard_count * size);
    trainer->grads = new_floats(trainer->shard_count * size);
    trainer->shard_grads = new_floats(trainer->shard_count);
    model_init_params(&trainer->model, trainer->options.seed, trainer->params);
    n_moments = trainer->options.is_sharded ? trainer->shard_count : trainer->shard_count * size;
    trainer->adam = (struct adam){new_floats(n_moments), new_floats(n_moments), 1.0, 1.0};
}

static void tear_down(struct trainer *trainer)
{
    launch_check(&trainer->launch, ncclCommDestroy(trainer->comm), "ncclCommDestroy");
    free(trainer->adam.mean);
    free(trainer->adam.variance);
    free(trainer->shard_grads);
    free(trainer->grads);
    free(trainer->params);
    text_free(&trainer->text);
}

/*
 * This rank's part of a global batch. Sample i of a step is the same for any number of ranks. Gradients and
 * loss are scaled so that their average over the ranks is the mean over the global batch, also when it
 * doesn't divide evenly.
 */
static double learn_batch(struct trainer *trainer, size_t step)
{
    size_t batch = trainer->options.global_batch, size = (size_t)trainer->launch.size,
           rank = (size_t)trainer->launch.rank;
    size_t n_positions = trainer->text.length - MODEL_CONTEXT;
    double scale = (double)size / (double)batch, loss = 0.0;

    memset(trainer->grads, 0, trainer->shard_count * size * sizeof(float));
    for (size_t i = batch * rank / size; i < batch * (rank + 1) / size; i++) {
        size_t position = random_at(trainer->options.seed + 1, step * batch + i) % n_positions;

        loss += model_learn(&trainer->model, trainer->params, trainer->text.symbols + position, (float)scale,
                            trainer->grads);
    }
    return scale * loss;
}

/* Plain data parallelism: average all gradients, in buckets, and the loss with them. */
static void average_gradients(struct trainer *trainer, double *loss)
{
    size_t bucket_count = trainer->options.bucket_bytes / sizeof(float), n_params = trainer->model.n_params;

    launch_check(&trainer->launch, ncclGroupStart(), "ncclGroupStart");
    for (size_t first = 0; first < n_params; first += bucket_count) {
        size_t count = n_params - first < bucket_count ? n_params - first : bucket_count;
        float *bucket = trainer->grads + first;

        launch_check(&trainer->launch,
                     ncclAllReduce(bucket, bucket, count, ncclFloat, ncclAvg, trainer->comm, NULL),
                     "ncclAllReduce");
    }
    launch_check(&trainer->launch, ncclAllReduce(loss, loss, 1, ncclDouble, ncclAvg, trainer->comm, NULL),
                 "ncclAllReduce");
    launch_check(&trainer->launch, ncclGroupEnd(), "ncclGroupEnd");
}

static void step_replicated(struct trainer *trainer, double *loss)
{
    double start_s = now_s();

    average_gradients(trainer, loss);
    trainer->communication_s += now_s() - start_s;
    adam_step(&trainer->adam, trainer->options.learning_rate, trainer->params, trainer->grads,
              trainer->model.n_params);
}

/* ZeRO stage 1: each rank keeps the optimizer's state of its shard only. */
static void step_sharded(struct trainer *trainer, double *loss)
{
    float *shard = trainer->params + (size_t)trainer->launch.rank * trainer->shard_count;
    double start_s = now_s(), middle_s;

    launch_check(&trainer->launch, ncclGroupStart(), "ncclGroupStart");
    launch_check(&trainer->launch,
                 ncclReduceScatter(trainer->grads, trainer->shard_grads, trainer->shard_count, ncclFloat,
                                   ncclAvg, trainer->comm, NULL),
                 "ncclReduceScatter");
    launch_check(&trainer->launch, ncclAllReduce(loss, loss, 1, ncclDouble, ncclAvg, trainer->comm, NULL),
                 "ncclAllReduce");
    launch_check(&trainer->launch, ncclGroupEnd(), "ncclGroupEnd");
    middle_s = now_s();
    adam_step(&trainer->adam, trainer->options.learning_rate, shard, trainer->shard_grads,
              trainer->shard_count);
    trainer->communication_s += middle_s - start_s;

    start_s = now_s();
    launch_check(&trainer->launch,
                 ncclAllGather(shard, trainer->params, trainer->shard_count, ncclFloat, trainer->comm, NULL),
                 "ncclAllGather");
    trainer->communication_s += now_s() - start_s;
}

/* The mean loss of the steps since the last line, now and then, with a bar as long as that. */
static void report(struct trainer *trainer, size_t step, double loss)
{
    static const char bar[] = "########################################";
    size_t n_steps = trainer->options.n_steps;
    double mean;
    int length;

    trainer->recent_loss += loss;
    trainer->n_recent++;
    if (step != 1 && step % REPORT_STEPS != 0 && step != n_steps)
        return;
    mean = trainer->recent_loss / trainer->n_recent;
    trainer->recent_loss = 0.0;
    trainer->n_recent = 0;
    length = (int)fmin(mean * 8.0, sizeof(bar) - 1);
    printf("  step %4zu/%zu  loss %.4f  %.*s\n", step, n_steps, mean, length, bar);
    fflush(stdout);
}

static FILE *open_csv(const struct trainer *trainer)
{
    FILE *csv = NULL;

    if (trainer->launch.rank != 0 || trainer->options.csv_path == NULL)
        return NULL;
    csv = fopen(trainer->options.csv_path, "w");
    if (csv == NULL) {
        perror(trainer->options.csv_path);
        exit(1);
    }
    fprintf(csv, "step,loss\n");
    return csv;
}

static void train(struct trainer *trainer)
{
    FILE *csv = open_csv(trainer);
    double start_s = now_s(), seconds;

    for (size_t step = 1; step <= trainer->options.n_steps; step++) {
        double loss = learn_batch(trainer, step);

        if (trainer->options.is_sharded)
            step_sharded(trainer, &loss);
        else
            step_replicated(trainer, &loss);
        if (csv != NULL)
            fprintf(csv, "%zu,%.9g\n", step, loss);
        if (trainer->launch.rank == 0)
            report(trainer, step, loss);
    }
    if (csv != NULL)
        fclose(csv);
    seconds = now_s() - start_s;
    if (trainer->launch.rank == 0)
        printf("  %.1f s, %.0f samples/s, %.0f %% of the time in collectives\n", seconds,
               (double)(trainer->options.n_steps * trainer->options.global_batch) / seconds,
               100.0 * trainer->communication_s / seconds);
}

/* FNV-1a over the bytes. */
static uint64_t checksum(const void *memory, size_t n_bytes)
{
    const uint8_t *bytes = memory;
    uint64_t hash = 0xcbf29ce484222325u;

    for (size_t i = 0; i < n_bytes; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

/* Returns the number of ranks whose weights differ from rank 0's. */
static int compare_weights(struct trainer *trainer)
{
    uint64_t mine = checksum(trainer->params, trainer->model.n_params * sizeof(float));
    uint64_t *all = calloc((size_t)trainer->launch.size, sizeof(*all));
    int n_different = 0;

    if (all == NULL)
        exit(1);
    launch_check(&trainer->launch, ncclAllGather(&mine, all, 1, ncclUint64, trainer->comm, NULL),
                 "ncclAllGather");
    for (int rank = 0; rank < trainer->launch.size; rank++)
        n_different += all[rank] != all[0];
    if (trainer->launch.rank == 0 && n_different == 0)
        printf("  weights: %zu floats, checksum %016llx, equal on %d of %d ranks\n", trainer->model.n_params,
               (unsigned long long)all[0], trainer->launch.size, trainer->launch.size);
    for (int rank = 0; trainer->launch.rank == 0 && n_different > 0 && rank < trainer->launch.size; rank++)
        printf("  weights of rank %d: checksum %016llx\n", rank, (unsigned long long)all[rank]);
    free(all);
    return n_different;
}

/* Lets the model write, byte by byte, each drawn from its probabilities. */
static void write_sample(const struct trainer *trainer)
{
    uint8_t window[MODEL_CONTEXT];
    float probabilities[256];

    memcpy(window, trainer->text.symbols, MODEL_CONTEXT);
    printf("  what it writes: \"");
    for (size_t i = 0; i < trainer->options.sample_bytes; i++) {
        float draw = (float)(random_at(trainer->options.seed + 2, i) >> 40) / (float)(1 << 24);
        size_t symbol = 0;
        uint8_t byte;

        model_predict(&trainer->model, trainer->params, window, probabilities);
        while (symbol + 1 < trainer->model.n_symbols && draw >= probabilities[symbol])
            draw -= probabilities[symbol++];
        memmove(window, window + 1, MODEL_CONTEXT - 1);
        window[MODEL_CONTEXT - 1] = (uint8_t)symbol;
        byte = trainer->text.byte_of[symbol];
        putchar(byte < ' ' ? ' ' : byte);
    }
    printf("\"\n");
}

int main(int argc, char **argv)
{
    struct trainer trainer = {0};
    int n_different;

    read_options(&trainer, argc, argv);
    set_up(&trainer);
    if (trainer.launch.rank == 0)
        printf("  %d rank%s, %zu parameters, text of %zu bytes, %zu samples a step%s\n", trainer.launch.size,
               trainer.launch.size == 1 ? "" : "s", trainer.model.n_params, trainer.text.length,
               trainer.options.global_batch, trainer.options.is_sharded ? ", optimizer sharded" : "");
    train(&trainer);
    n_different = compare_weights(&trainer);
    if (trainer.launch.rank == 0 && trainer.options.sample_bytes > 0)
        write_sample(&trainer);
    tear_down(&trainer);
    return n_different == 0 ? 0 : 1;
}
