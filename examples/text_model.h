/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXT_MODEL_H
#define TEXT_MODEL_H

/*
 * A small character-level language model in plain C: the bytes before a position are looked up in an
 * embedding, one dense tanh layer and one linear layer make scores, softmax makes the probability of the next
 * byte.
 *
 * All parameters lie in one flat array of floats, and so do their gradients: that is what gets reduced
 * between ranks. No communication in here.
 */

#include <stddef.h>
#include <stdint.h>

enum {
    MODEL_CONTEXT = 12,
    MODEL_EMBEDDING = 12,
    MODEL_INPUTS = MODEL_CONTEXT * MODEL_EMBEDDING,
    MODEL_HIDDEN = 128
};

/* A text as symbols: every byte that occurs in it has a number from 0 to n_symbols - 1. */
struct text {
    uint8_t *symbols; /* length of them; freed by text_free() */
    size_t length;
    size_t n_symbols;
    uint8_t byte_of[256]; /* symbol -> byte */
};

/* Returns 0, or -1 with the reason on stderr. */
int text_load(struct text *text, const char *path);
void text_free(struct text *text);

struct model {
    size_t n_symbols;
    size_t n_params;
    /* where each part begins in the flat array */
    size_t embedding; /* [n_symbols][MODEL_EMBEDDING] */
    size_t weights1;  /* [MODEL_INPUTS][MODEL_HIDDEN] */
    size_t bias1;     /* [MODEL_HIDDEN] */
    size_t weights2;  /* [MODEL_HIDDEN][n_symbols] */
    size_t bias2;     /* [n_symbols] */
};

void model_init(struct model *model, size_t n_symbols);

/* The same start on every rank: drawn from the seed. */
void model_init_params(const struct model *model, uint64_t seed, float *params);

/* Probabilities of the next symbol after MODEL_CONTEXT symbols; n_symbols of them. */
void model_predict(const struct model *model, const float *params, const uint8_t *context,
                   float *probabilities);

/*
 * Adds scale times the gradient of one sample's loss to grads: context[MODEL_CONTEXT] is the symbol to
 * predict. Returns the loss in nats, unscaled.
 */
double model_learn(const struct model *model, const float *params, const uint8_t *context, float scale,
                   float *grads);

/* Adam. The moments belong to the parameters that are updated: a shard of the parameters needs only a shard
 * of them. */
struct adam {
    float *mean, *variance;            /* zero at the start */
    double mean_decay, variance_decay; /* 1 at the start */
};
void adam_step(struct adam *adam, float learning_rate, float *params, const float *grads, size_t n);

/* A reproducible stream of random numbers: the value of (seed, index), in any order. */
uint64_t random_at(uint64_t seed, uint64_t index);

#endif
