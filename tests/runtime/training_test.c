// SPDX-License-Identifier: Apache-2.0
// A training step as a compiled graph (training.json): two layers, the mean of squares as the loss, gradients
// written out as nodes, and gradient descent with momentum. Weights are handles fed from the step's results
// (--handle w1=w1_next ...), momenta are states. Every step is compared with the same in plain C.
#include "check.h"
#include "training.h"
#include <math.h>

enum { ROWS = 8, IN = 6, HIDDEN = 20, STEPS = 300 };

typedef struct Net {
    double w1[IN][HIDDEN], b1[HIDDEN], w2[HIDDEN], b2;
} Net;

typedef struct Batch {
    float x[ROWS][IN], target[ROWS];
} Batch;

typedef struct Blocks {
    RLX_ALIGNED unsigned char arena[TRAINING_ARENA_BYTES];
    RLX_ALIGNED unsigned char state[TRAINING_STATE_BYTES];
} Blocks;

static Blocks one, two;
static unsigned seed = 1;

static float number(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) / 8388608.0f - 1.0f;
}

// Something to learn: a product of two of the inputs.
static void next_batch(Batch *b)
{
    int r, i;
    for (r = 0; r < ROWS; r++) {
        for (i = 0; i < IN; i++)
            b->x[r][i] = number();
        b->target[r] = b->x[r][0] * b->x[r][1] + 0.5f * b->x[r][2];
    }
}

// v = 0.9 v + g; w -= rate v
static void descend(double *w, double *v, double g, double rate)
{
    *v = 0.9 * *v + g;
    *w -= rate * *v;
}

// One step; the loss before it.
static double step(Net *n, Net *v, const Batch *b, double rate)
{
    Net g;
    double loss = 0;
    int r, i, j;
    memset(&g, 0, sizeof g);
    for (r = 0; r < ROWS; r++) {
        double h[HIDDEN], y = n->b2, d;
        for (j = 0; j < HIDDEN; j++) {
            h[j] = n->b1[j];
            for (i = 0; i < IN; i++)
                h[j] += (double)b->x[r][i] * n->w1[i][j];
            h[j] = tanh(h[j]);
            y += h[j] * n->w2[j];
        }
        d = y - (double)b->target[r];
        loss += d * d / ROWS;
        d *= 2.0 / ROWS;
        g.b2 += d;
        for (j = 0; j < HIDDEN; j++) {
            const double dz = d * n->w2[j] * (1 - h[j] * h[j]);
            g.w2[j] += d * h[j];
            g.b1[j] += dz;
            for (i = 0; i < IN; i++)
                g.w1[i][j] += (double)b->x[r][i] * dz;
        }
    }
    for (j = 0; j < HIDDEN; j++) {
        for (i = 0; i < IN; i++)
            descend(&n->w1[i][j], &v->w1[i][j], g.w1[i][j], rate);
        descend(&n->b1[j], &v->b1[j], g.b1[j], rate);
        descend(&n->w2[j], &v->w2[j], g.w2[j], rate);
    }
    descend(&n->b2, &v->b2, g.b2, rate);
    return loss;
}

static double train(rlx_ctx *ctx, const Batch *b)
{
    memcpy(rlx_input(ctx, TRAINING_INPUT_x), b->x, sizeof b->x);
    memcpy(rlx_input(ctx, TRAINING_INPUT_target), b->target, sizeof b->target);
    CHECK(rlx_run(ctx) == RLX_OK);
    return (double)*(const float *)rlx_output(ctx, TRAINING_OUTPUT_loss);
}

// Gives both nets the same small weights.
static void begin(rlx_ctx *ctx, Net *n, Net *v)
{
    float w1[IN][HIDDEN], b1[HIDDEN], w2[HIDDEN];
    const float b2 = 0;
    int i, j;
    memset(n, 0, sizeof *n);
    memset(v, 0, sizeof *v);
    for (j = 0; j < HIDDEN; j++) {
        for (i = 0; i < IN; i++)
            n->w1[i][j] = (double)(w1[i][j] = number() * 0.6f);
        n->b1[j] = (double)(b1[j] = number() * 0.1f);
        n->w2[j] = (double)(w2[j] = number() * 0.4f);
    }
    CHECK(rlx_bind_handle(ctx, "w1", w1, sizeof w1) == RLX_OK);
    CHECK(rlx_bind_handle(ctx, "b1", b1, sizeof b1) == RLX_OK);
    CHECK(rlx_bind_handle(ctx, "w2", w2, sizeof w2) == RLX_OK);
    CHECK(rlx_bind_handle(ctx, "b2", &b2, sizeof b2) == RLX_OK);
}

static double distance(const rlx_ctx *ctx, const Net *n)
{
    const float *w1 = (const float *)rlx_handle_data(ctx, "w1"),
                *w2 = (const float *)rlx_handle_data(ctx, "w2");
    double most = 0;
    int i, j;
    for (j = 0; j < HIDDEN; j++) {
        for (i = 0; i < IN; i++)
            most = fmax(most, fabs((double)w1[i * HIDDEN + j] - n->w1[i][j]));
        most = fmax(most, fabs((double)w2[j] - n->w2[j]));
    }
    return most;
}

static void test_steps(rlx_ctx *ctx, Net *n, Net *v)
{
    double first = 0, last = 0;
    Batch b;
    int i;
    begin(ctx, n, v);
    for (i = 0; i < STEPS; i++) {
        double got, want;
        next_batch(&b);
        want = step(n, v, &b, 0.05f);
        got = train(ctx, &b);
        CHECK(fabs(got - want) < 1e-4 * (1 + want));
        first += i < 30 ? want : 0;
        last += i >= STEPS - 30 ? got : 0;
    }
    CHECK(last < 0.2 * first);
    CHECK(distance(ctx, n) < 1e-4);
}

// A clone goes on by itself from where the other was; another rate; back to the start.
static void test_copies(rlx_ctx *ctx, Net *n, Net *v)
{
    rlx_ctx copy;
    Batch b;
    double loss;
    const float rate = 0.01f, *momentum;
    Net other = *n, other_v = *v;
    next_batch(&b);
    CHECK(rlx_clone(&copy, ctx, two.arena, sizeof two.arena, two.state, sizeof two.state) == RLX_OK);
    CHECK(rlx_set_param(&copy, "rate", &rate, 1) == RLX_OK);
    loss = train(&copy, &b);
    CHECK(train(ctx, &b) == loss);
    step(n, v, &b, 0.05f);
    step(&other, &other_v, &b, rate);
    CHECK(distance(ctx, n) < 1e-4 && distance(&copy, &other) < 1e-4);
    CHECK(distance(&copy, n) > 1e-4 || distance(ctx, &other) > 1e-4);
    CHECK(rlx_reset(ctx) == RLX_OK);
    momentum = (const float *)rlx_handle_data(ctx, "v_w2");
    CHECK(momentum != NULL && momentum[0] == 0 && distance(&copy, &other) < 1e-4);
}

int main(void)
{
    rlx_ctx ctx;
    Net n, v;
    memset(&one, 0xFF, sizeof one);
    CHECK(training_init(&ctx, one.arena, sizeof one.arena, one.state, sizeof one.state) == RLX_OK);
    CHECK(training_model.n_inputs == 2 && training_model.n_outputs == 1 && training_model.n_states == 8);
    test_steps(&ctx, &n, &v);
    test_copies(&ctx, &n, &v);
    return failed;
}
