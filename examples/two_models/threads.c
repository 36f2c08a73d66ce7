// SPDX-License-Identifier: Apache-2.0
// Two models in one program, five contexts of each, every context in a thread of its own, all at once.
// The code of a model and its weights are read-only and shared; what a run changes lies in the blocks of
// its context, so that no lock is needed anywhere. First all contexts run alone, one after the other: the
// results must be the same bits.
#include "digits.h"
#include "lstm.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { CONTEXTS = 10, RUNS = 200, IMAGE = 64, CLASSES = 10, FEATURES = 8, HIDDEN = 16 };

// One context of one of the two models, with memory for either.
typedef struct Worker {
    int number;
    int is_digits;
    rlx_status status;
    RLX_ALIGNED unsigned char arena[DIGITS_ARENA_BYTES > LSTM_ARENA_BYTES ? DIGITS_ARENA_BYTES
                                                                           : LSTM_ARENA_BYTES];
    RLX_ALIGNED unsigned char state[LSTM_STATE_BYTES];
    float results[RUNS][HIDDEN]; // digits: ten probabilities
} Worker;

static Worker alone[CONTEXTS], together[CONTEXTS];

// Numbers in 0..1 that differ from context to context and from run to run.
static void make_input(float *values, int n, int context, int run)
{
    unsigned x = 1u + (unsigned)context * 7919u + (unsigned)run * 104729u;
    for (int i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        values[i] = (float)(x >> 8) / 16777216.0f;
    }
}

// digits has no states: every run is on its own.
static void run_digits(Worker *w)
{
    rlx_ctx ctx;
    float image[IMAGE], logits[CLASSES];
    w->status = digits_init(&ctx, w->arena, sizeof w->arena, NULL, 0);
    for (int run = 0; run < RUNS && w->status == RLX_OK; run++) {
        make_input(image, IMAGE, w->number, run);
        w->status = digits(&ctx, image, logits, w->results[run]);
    }
}

// The state of an LSTM goes from one run to the next: had another context got into it, all that follow
// would differ.
static void run_lstm(Worker *w)
{
    rlx_ctx ctx;
    float x[FEATURES];
    w->status = lstm_init(&ctx, w->arena, sizeof w->arena, w->state, sizeof w->state);
    for (int run = 0; run < RUNS && w->status == RLX_OK; run++) {
        make_input(x, FEATURES, w->number, run);
        w->status = lstm(&ctx, x, w->results[run]);
    }
}

static void *work(void *worker)
{
    Worker *w = (Worker *)worker;
    if (w->is_digits)
        run_digits(w);
    else
        run_lstm(w);
    return NULL;
}

static void set_up(Worker *workers)
{
    for (int i = 0; i < CONTEXTS; i++) {
        workers[i].number = i;
        workers[i].is_digits = i % 2 == 0;
    }
}

int main(void)
{
    pthread_t threads[CONTEXTS];
    int same = 0;
    set_up(alone);
    set_up(together);
    for (int i = 0; i < CONTEXTS; i++)
        work(&alone[i]);
    for (int i = 0; i < CONTEXTS; i++) {
        if (pthread_create(&threads[i], NULL, work, &together[i]) != 0) {
            fprintf(stderr, "no thread could be made\n");
            return 1;
        }
    }
    for (int i = 0; i < CONTEXTS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < CONTEXTS; i++) {
        const int is_same = memcmp(alone[i].results, together[i].results, sizeof alone[i].results) == 0;
        if (alone[i].status != RLX_OK || together[i].status != RLX_OK)
            fprintf(stderr, "context %d: %s, %s\n", i, rlx_status_text(alone[i].status),
                    rlx_status_text(together[i].status));
        else
            same += is_same;
    }
    printf("%d of %d contexts of two models, %d runs each, gave in threads the bits that they give alone\n",
           same, CONTEXTS, RUNS);
    return same == CONTEXTS ? 0 : 1;
}
