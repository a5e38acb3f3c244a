/* SPDX-License-Identifier: Apache-2.0 */
#include "text_model.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SYMBOLS = 256 };

uint64_t random_at(uint64_t seed, uint64_t index)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15u + index;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static int read_file(const char *path, uint8_t **bytes_out, size_t *length_out)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = NULL;
    long length = -1;

    if (file != NULL && fseek(file, 0, SEEK_END) == 0)
        length = ftell(file);
    if (length > MODEL_CONTEXT && fseek(file, 0, SEEK_SET) == 0)
        bytes = malloc((size_t)length);
    if (bytes != NULL && fread(bytes, 1, (size_t)length, file) != (size_t)length) {
        free(bytes);
        bytes = NULL;
    }
    if (bytes == NULL)
        fprintf(stderr, "%s: %s\n", path, file == NULL ? strerror(errno) : "too short, or not to be read");
    if (file != NULL)
        fclose(file);
    if (bytes == NULL)
        return -1;
    *bytes_out = bytes;
    *length_out = (size_t)length;
    return 0;
}

int text_load(struct text *text, const char *path)
{
    uint8_t symbol_of[MAX_SYMBOLS] = {0};
    int is_used[MAX_SYMBOLS] = {0};

    *text = (struct text){0};
    if (read_file(path, &text->symbols, &text->length) != 0)
        return -1;
    for (size_t i = 0; i < text->length; i++)
        is_used[text->symbols[i]] = 1;
    for (int byte = 0; byte < MAX_SYMBOLS; byte++) {
        if (!is_used[byte])
            continue;
        symbol_of[byte] = (uint8_t)text->n_symbols;
        text->byte_of[text->n_symbols++] = (uint8_t)byte;
    }
    for (size_t i = 0; i < text->length; i++)
        text->symbols[i] = symbol_of[text->symbols[i]];
    return 0;
}

void text_free(struct text *text)
{
    free(text->symbols);
    *text = (struct text){0};
}

void model_init(struct model *model, size_t n_symbols)
{
    model->n_symbols = n_symbols;
    model->embedding = 0;
    model->weights1 = model->embedding + n_symbols * MODEL_EMBEDDING;
    model->bias1 = model->weights1 + (size_t)MODEL_INPUTS * MODEL_HIDDEN;
    model->weights2 = model->bias1 + MODEL_HIDDEN;
    model->bias2 = model->weights2 + (size_t)MODEL_HIDDEN * n_symbols;
    model->n_params = model->bias2 + n_symbols;
}

/* Uniform in [-limit, limit), by position in the flat array. */
static void fill(float *params, size_t first, size_t end, uint64_t seed, float limit)
{
    for (size_t i = first; i < end; i++)
        params[i] = limit * ((float)(random_at(seed, i) >> 40) / (float)(1 << 23) - 1.0f);
}

void model_init_params(const struct model *model, uint64_t seed, float *params)
{
    fill(params, model->embedding, model->weights1, seed, 1.0f);
    fill(params, model->weights1, model->bias1, seed, sqrtf(3.0f / MODEL_INPUTS));
    fill(params, model->bias1, model->weights2, seed, 0.0f);
    fill(params, model->weights2, model->bias2, seed, sqrtf(0.3f / MODEL_HIDDEN));
    fill(params, model->bias2, model->n_params, seed, 0.0f);
}

/* y += a * x */
static void add_scaled(float *restrict y, float a, const float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

/* Eight partial sums, so that the compiler may use vectors without changing the order of additions. */
static float dot(const float *restrict a, const float *restrict b, size_t n)
{
    float sums[8] = {0};
    size_t n_whole = n - n % 8;

    for (size_t i = 0; i < n_whole; i += 8)
        for (size_t k = 0; k < 8; k++)
            sums[k] += a[i + k] * b[i + k];
    for (size_t i = n_whole; i < n; i++)
        sums[0] += a[i] * b[i];
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/* What the forward pass leaves for the backward pass. */
struct activations {
    float inputs[MODEL_INPUTS];
    float hidden[MODEL_HIDDEN];
    float probabilities[MAX_SYMBOLS];
};

static void softmax(float *values, size_t n)
{
    float highest = values[0], sum = 0.0f;

    for (size_t i = 1; i < n; i++)
        highest = fmaxf(highest, values[i]);
    for (size_t i = 0; i < n; i++) {
        values[i] = expf(values[i] - highest);
        sum += values[i];
    }
    for (size_t i = 0; i < n; i++)
        values[i] /= sum;
}

static void forward(const struct model *model, const float *params, const uint8_t *context,
                    struct activations *act)
{
    for (size_t i = 0; i < MODEL_CONTEXT; i++)
        memcpy(act->inputs + i * MODEL_EMBEDDING,
               params + model->embedding + (size_t)context[i] * MODEL_EMBEDDING,
               MODEL_EMBEDDING * sizeof(float));
    memcpy(act->hidden, params + model->bias1, sizeof(act->hidden));
    for (size_t i = 0; i < MODEL_INPUTS; i++)
        add_scaled(act->hidden, act->inputs[i], params + model->weights1 + i * MODEL_HIDDEN, MODEL_HIDDEN);
    for (size_t i = 0; i < MODEL_HIDDEN; i++)
        act->hidden[i] = tanhf(act->hidden[i]);
    memcpy(act->probabilities, params + model->bias2, model->n_symbols * sizeof(float));
    for (size_t i = 0; i < MODEL_HIDDEN; i++)
        add_scaled(act->probabilities, act->hidden[i], params + model->weights2 + i * model->n_symbols,
                   model->n_symbols);
    softmax(act->probabilities, model->n_symbols);
}

void model_predict(const struct model *model, const float *params, const uint8_t *context,
                   float *probabilities)
{
    struct activations act;

    forward(model, params, context, &act);
    memcpy(probabilities, act.probabilities, model->n_symbols * sizeof(float));
}

/* score_grads: gradient of the scores before softmax. Leaves the gradient of the hidden layer before tanh in
 * hidden_grads. */
static void backward_output(const struct model *model, const float *params, const struct activations *act,
                            const float *score_grads, float *grads, float *hidden_grads)
{
    add_scaled(grads + model->bias2, 1.0f, score_grads, model->n_symbols);
    for (size_t i = 0; i < MODEL_HIDDEN; i++) {
        size_t row = model->weights2 + i * model->n_symbols;

        add_scaled(grads + row, act->hidden[i], score_grads, model->n_symbols);
        hidden_grads[i] =
            dot(params + row, score_grads, model->n_symbols) * (1.0f - act->hidden[i] * act->hidden[i]);
    }
}

static void backward_input(const struct model *model, const float *params, const struct activations *act,
                           const uint8_t *context, const float *hidden_grads, float *grads)
{
    add_scaled(grads + model->bias1, 1.0f, hidden_grads, MODEL_HIDDEN);
    for (size_t i = 0; i < MODEL_INPUTS; i++) {
        size_t row = model->weights1 + i * MODEL_HIDDEN;
        size_t symbol = context[i / MODEL_EMBEDDING];

        add_scaled(grads + row, act->inputs[i], hidden_grads, MODEL_HIDDEN);
        grads[model->embedding + symbol * MODEL_EMBEDDING + i % MODEL_EMBEDDING] +=
            dot(params + row, hidden_grads, MODEL_HIDDEN);
    }
}

double model_learn(const struct model *model, const float *params, const uint8_t *context, float scale,
                   float *grads)
{
    struct activations act;
    float score_grads[MAX_SYMBOLS], hidden_grads[MODEL_HIDDEN];
    size_t target = context[MODEL_CONTEXT];

    forward(model, params, context, &act);
    for (size_t i = 0; i < model->n_symbols; i++)
        score_grads[i] = scale * (act.probabilities[i] - (i == target ? 1.0f : 0.0f));
    backward_output(model, params, &act, score_grads, grads, hidden_grads);
    backward_input(model, params, &act, context, hidden_grads, grads);
    return -log(fmax(act.probabilities[target], 1e-30));
}

void adam_step(struct adam *adam, float learning_rate, float *params, const float *grads, size_t n)
{
    const float mean_keep = 0.9f, variance_keep = 0.99f, epsilon = 1e-6f;
    float mean_scale, variance_scale;

    adam->mean_decay *= mean_keep;
    adam->variance_decay *= variance_keep;
    mean_scale = (float)(1.0 / (1.0 - adam->mean_decay));
    variance_scale = (float)(1.0 / (1.0 - adam->variance_decay));
    for (size_t i = 0; i < n; i++) {
        adam->mean[i] = mean_keep * adam->mean[i] + (1.0f - mean_keep) * grads[i];
        adam->variance[i] = variance_keep * adam->variance[i] + (1.0f - variance_keep) * grads[i] * grads[i];
        params[i] -= learning_rate * (adam->mean[i] * mean_scale) /
                     (sqrtf(adam->variance[i] * variance_scale) + epsilon);
    }
}
