// SPDX-License-Identifier: Apache-2.0
// Meaning of lstm, as ONNX LSTM with the default activations (sigmoid, tanh, tanh) and gates in the order i,
// o, f, c, of gru, as ONNX GRU with gates in the order z, r, h, and of rnn. Hidden and cell state are f32
// (f64 for f64) from step to step, so that a run which begins with those of the run before continues it
// exactly; sums within a step are in double.
#include "ir/eval/eval_ops.h"
#include "ir/shape/forms.h"

#include <math.h>

typedef struct Lstm Lstm;
// What a step has of the inputs of an entry: them, and sums that were made of them, or NULL.
typedef struct Inputs {
    const double *x, *sums;
} Inputs;
typedef void (*StepFn)(const Lstm *l, int64_t dir, const Inputs *x, double *const state[2], double *next);
struct Lstm {
    int64_t seq, batch, dirs, input, hidden, gates;
    int64_t steps; // that are made
    bool batch_major, reverse_only, is_f64, resets_after, is_relu;
    double clip; // of what goes into activations; 0: none
    StepFn step;
    const double *x, *w, *r, *b, *h0, *c0, *peephole, *sums; // the last five may be NULL
    double *y, *y_h, *y_c;                                   // only an lstm has c0, y_c
    double *reset;                                           // gru that resets before the product: r * h
};

// Where the hidden or cell state of a batch entry begins in h0, c0, Y_h and Y_c.
static int64_t state_at(const Lstm *l, int64_t dir, int64_t n)
{
    return (l->batch_major ? n * l->dirs + dir : dir * l->batch + n) * l->hidden;
}

static double as_state(const Lstm *l, double v)
{
    return l->is_f64 ? v : (double)(float)v;
}

static double clipped(const Lstm *l, double v)
{
    return l->clip <= 0 ? v : v > l->clip ? l->clip : v < -l->clip ? -l->clip : v;
}

static double sigmoid(const Lstm *l, double v)
{
    return 1 / (1 + exp(-clipped(l, v)));
}

static double product(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t k = 0; k < n; k++)
        sum += a[k] * b[k];
    return sum;
}

// The bias of row `row` of the gates: 0 of the inputs, 1 of the hidden values.
static double bias_of(const Lstm *l, int64_t dir, int64_t row, int64_t which)
{
    return l->b == NULL ? 0 : l->b[(dir * 2 + which) * l->gates * l->hidden + row];
}

// Row `row` of the gate sums of one entry, as far as inputs go, with the first `biases`: made before, or x W.
static double input_sum(const Lstm *l, int64_t dir, int64_t row, const Inputs *in, int64_t biases)
{
    const int64_t at = dir * l->gates * l->hidden + row;
    if (in->sums != NULL && !isnan(in->sums[at]))
        return in->sums[at];
    double sum = product(in->x, l->w + at * l->input, l->input);
    for (int64_t i = 0; i < biases; i++)
        sum += bias_of(l, dir, row, i);
    return sum;
}

// h R.
static double hidden_sum(const Lstm *l, int64_t dir, int64_t row, const double *h)
{
    return product(h, l->r + (dir * l->gates * l->hidden + row) * l->hidden, l->hidden);
}

static double gate_sum(const Lstm *l, int64_t dir, int64_t row, const Inputs *x, const double *h)
{
    return input_sum(l, dir, row, x, 2) + hidden_sum(l, dir, row, h);
}

// One step of one entry: h and cell are replaced; `next` is room for the new h. Peepholes are in the order i,
// o, f.
static void lstm_step(const Lstm *l, int64_t dir, const Inputs *x, double *const state[2], double *next)
{
    const int64_t n = l->hidden;
    double *h = state[0], *cell = state[1];
    const double *p = l->peephole == NULL ? NULL : l->peephole + dir * 3 * n;
    for (int64_t k = 0; k < n; k++) {
        const double i = sigmoid(l, gate_sum(l, dir, k, x, h) + (p ? p[k] * cell[k] : 0));
        const double f = sigmoid(l, gate_sum(l, dir, 2 * n + k, x, h) + (p ? p[2 * n + k] * cell[k] : 0));
        const double value = f * cell[k] + i * tanh(clipped(l, gate_sum(l, dir, 3 * n + k, x, h)));
        const double o = sigmoid(l, gate_sum(l, dir, n + k, x, h) + (p ? p[n + k] * value : 0));
        cell[k] = as_state(l, value);
        next[k] = as_state(l, o * tanh(value));
    }
    for (int64_t k = 0; k < n; k++)
        h[k] = next[k];
}

static void gru_step(const Lstm *l, int64_t dir, const Inputs *x, double *const state[2], double *next)
{
    const int64_t n = l->hidden;
    double *h = state[0];
    for (int64_t k = 0; k < n && !l->resets_after; k++)
        l->reset[k] = as_state(l, sigmoid(l, gate_sum(l, dir, n + k, x, h)) * h[k]);
    for (int64_t k = 0; k < n; k++) {
        const double z = sigmoid(l, gate_sum(l, dir, k, x, h));
        const int64_t row = 2 * n + k;
        const double all = l->resets_after ? input_sum(l, dir, row, x, 1) +
                                                 sigmoid(l, gate_sum(l, dir, n + k, x, h)) *
                                                     (hidden_sum(l, dir, row, h) + bias_of(l, dir, row, 1))
                                           : gate_sum(l, dir, row, x, l->reset);
        const double fresh = tanh(clipped(l, all));
        next[k] = as_state(l, (1 - z) * fresh + z * h[k]);
    }
    for (int64_t k = 0; k < n; k++)
        h[k] = next[k];
}

static void rnn_step(const Lstm *l, int64_t dir, const Inputs *x, double *const state[2], double *next)
{
    double *h = state[0];
    for (int64_t k = 0; k < l->hidden; k++) {
        const double sum = clipped(l, gate_sum(l, dir, k, x, h));
        next[k] = as_state(l, !l->is_relu ? tanh(sum) : sum < 0 ? 0 : sum);
    }
    for (int64_t k = 0; k < l->hidden; k++)
        h[k] = next[k];
}

// All steps of one batch entry in one direction.
static void run_entry(const Lstm *l, int64_t dir, int64_t n, double *next)
{
    const bool backwards = l->reverse_only || dir == 1;
    const int64_t at = state_at(l, dir, n);
    double *const state[2] = {l->y_h + at, l->y_c == NULL ? NULL : l->y_c + at};
    for (int64_t k = 0; k < l->hidden; k++) {
        state[0][k] = l->h0 == NULL ? 0 : l->h0[at + k];
        if (l->y_c != NULL)
            state[1][k] = l->c0 == NULL ? 0 : l->c0[at + k];
    }
    for (int64_t i = 0; i < l->steps; i++) {
        const int64_t t = backwards ? l->steps - 1 - i : i;
        const int64_t row = l->batch_major ? n * l->seq + t : t * l->batch + n;
        const Inputs in = {l->x + row * l->input,
                           l->sums == NULL ? NULL : l->sums + row * l->dirs * l->gates * l->hidden};
        l->step(l, dir, &in, state, next);
        double *y =
            l->y + (l->batch_major ? (n * l->seq + t) * l->dirs + dir : (t * l->dirs + dir) * l->batch + n) *
                       l->hidden;
        for (int64_t k = 0; k < l->hidden; k++)
            y[k] = state[0][k];
    }
}

static bool eval_recurrent(EvalCtx *c, StepFn step)
{
    rlx_assert(c->in[0].rank == 3 && c->in[1].rank == 3 && c->in[2].rank == 3);
    const RecurrentForm form = recurrent_form(c->node);
    const bool batch_major = form.is_batch_major;
    Lstm l = {
        .seq = c->in[0].dim[batch_major ? 1 : 0],
        .batch = c->in[0].dim[batch_major ? 0 : 1],
        .dirs = c->in[1].dim[0],
        .input = c->in[0].dim[2],
        .hidden = c->in[2].dim[2],
        .gates = form.gates,
        .step = step,
        .resets_after = form.resets_after,
        .is_relu = form.is_relu,
        .clip = form.clip,
        .batch_major = batch_major,
        .is_f64 = c->out[0].dtype == DTYPE_f64,
        .reverse_only = str_equal(form.direction, "reverse"),
    };
    const int64_t given = eval_has(c, form.steps) ? tensor_get_i64(&c->in[form.steps], 0) : l.seq;
    l.steps = given < 0 ? 0 : given < l.seq ? given : l.seq;
    if (!eval_check_work(c, c->out[0].numel, 4 * (l.input + l.hidden)))
        return false;
    const double **const operands[] = {&l.x, &l.w, &l.r, &l.b, &l.h0, &l.c0, &l.peephole};
    for (uint32_t i = 0; i < form.steps; i++)
        *operands[i] = eval_doubles(c, i);
    l.sums = eval_doubles(c, form.sums);
    double **const results[] = {&l.y, &l.y_h, &l.y_c};
    for (uint32_t i = 0; i < 1 + form.n_states; i++)
        *results[i] = eval_scratch(c, c->out[i].numel);
    double *next = eval_scratch(c, l.hidden);
    l.reset = eval_scratch(c, l.hidden);
    for (int64_t dir = 0; dir < l.dirs; dir++)
        for (int64_t n = 0; n < l.batch; n++)
            run_entry(&l, dir, n, next);
    for (uint32_t i = 0; i < 1 + form.n_states; i++)
        eval_store(c, i, *results[i]);
    return true;
}

bool eval_lstm(EvalCtx *c)
{
    return eval_recurrent(c, lstm_step);
}

bool eval_gru(EvalCtx *c)
{
    return eval_recurrent(c, gru_step);
}

bool eval_rnn(EvalCtx *c)
{
    return eval_recurrent(c, rnn_step);
}
