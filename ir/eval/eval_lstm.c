// SPDX-License-Identifier: Apache-2.0
// Meaning of lstm, as ONNX LSTM with the default activations (sigmoid, tanh, tanh) and gates in the order i,
// o, f, c. Hidden and cell state are f32 (f64 for f64) from step to step, so that a run which begins with
// those of the run before continues it exactly; sums within a step are in double.
#include "ir/eval/eval_ops.h"

#include <math.h>

typedef struct Lstm {
    int64_t seq, batch, dirs, input, hidden;
    int64_t steps; // that are made
    bool batch_major, reverse_only, is_f64;
    const double *x, *w, *r, *b, *h0, *c0, *peephole; // the last four may be NULL
    double *y, *y_h, *y_c;
} Lstm;

// Where the hidden or cell state of a batch entry begins in h0, c0, Y_h and Y_c.
static int64_t state_at(const Lstm *l, int64_t dir, int64_t n)
{
    return (l->batch_major ? n * l->dirs + dir : dir * l->batch + n) * l->hidden;
}

static double as_state(const Lstm *l, double v)
{
    return l->is_f64 ? v : (double)(float)v;
}

static double sigmoid(double v)
{
    return 1 / (1 + exp(-v));
}

// Row `row` of the 4 * hidden gate sums of one entry: x W + h R + both biases.
static double gate_sum(const Lstm *l, int64_t dir, int64_t row, const double *x, const double *h)
{
    const int64_t gates = 4 * l->hidden;
    const double *w = l->w + (dir * gates + row) * l->input, *r = l->r + (dir * gates + row) * l->hidden;
    double sum = 0;
    for (int64_t k = 0; k < l->input; k++)
        sum += x[k] * w[k];
    for (int64_t k = 0; k < l->hidden; k++)
        sum += h[k] * r[k];
    if (l->b != NULL)
        sum += l->b[dir * 2 * gates + row] + l->b[dir * 2 * gates + gates + row];
    return sum;
}

// One step of one entry: h and cell are replaced; `next` is room for the new h. Peepholes are in the order i,
// o, f.
static void step(const Lstm *l, int64_t dir, const double *x, double *const state[2], double *next)
{
    const int64_t n = l->hidden;
    double *h = state[0], *cell = state[1];
    const double *p = l->peephole == NULL ? NULL : l->peephole + dir * 3 * n;
    for (int64_t k = 0; k < n; k++) {
        const double i = sigmoid(gate_sum(l, dir, k, x, h) + (p ? p[k] * cell[k] : 0));
        const double f = sigmoid(gate_sum(l, dir, 2 * n + k, x, h) + (p ? p[2 * n + k] * cell[k] : 0));
        const double value = f * cell[k] + i * tanh(gate_sum(l, dir, 3 * n + k, x, h));
        const double o = sigmoid(gate_sum(l, dir, n + k, x, h) + (p ? p[n + k] * value : 0));
        cell[k] = as_state(l, value);
        next[k] = as_state(l, o * tanh(value));
    }
    for (int64_t k = 0; k < n; k++)
        h[k] = next[k];
}

// All steps of one batch entry in one direction.
static void run_entry(const Lstm *l, int64_t dir, int64_t n, double *next)
{
    const bool backwards = l->reverse_only || dir == 1;
    const int64_t at = state_at(l, dir, n);
    double *const state[2] = {l->y_h + at, l->y_c + at};
    for (int64_t k = 0; k < l->hidden; k++) {
        state[0][k] = l->h0 == NULL ? 0 : l->h0[at + k];
        state[1][k] = l->c0 == NULL ? 0 : l->c0[at + k];
    }
    for (int64_t i = 0; i < l->steps; i++) {
        const int64_t t = backwards ? l->steps - 1 - i : i;
        step(l, dir, l->x + (l->batch_major ? n * l->seq + t : t * l->batch + n) * l->input, state, next);
        double *y =
            l->y + (l->batch_major ? (n * l->seq + t) * l->dirs + dir : (t * l->dirs + dir) * l->batch + n) *
                       l->hidden;
        for (int64_t k = 0; k < l->hidden; k++)
            y[k] = state[0][k];
    }
}

bool eval_lstm(EvalCtx *c)
{
    rlx_assert(c->in[0].rank == 3 && c->in[1].rank == 3 && c->in[2].rank == 3);
    const bool batch_major = eval_flag(c, A_lstm_batch_major);
    Lstm l = {
        .seq = c->in[0].dim[batch_major ? 1 : 0],
        .batch = c->in[0].dim[batch_major ? 0 : 1],
        .dirs = c->in[1].dim[0],
        .input = c->in[0].dim[2],
        .hidden = c->in[2].dim[2],
        .batch_major = batch_major,
        .is_f64 = c->out[0].dtype == DTYPE_f64,
        .reverse_only = str_equal(node_get_str(c->node, A_lstm_direction), "reverse"),
    };
    const int64_t given = eval_has(c, 7) ? tensor_get_i64(&c->in[7], 0) : l.seq;
    l.steps = given < 0 ? 0 : given < l.seq ? given : l.seq;
    if (!eval_check_work(c, c->out[0].numel, 4 * (l.input + l.hidden)))
        return false;
    const double **const operands[] = {&l.x, &l.w, &l.r, &l.b, &l.h0, &l.c0, &l.peephole};
    for (uint32_t i = 0; i < sizeof operands / sizeof *operands; i++)
        *operands[i] = eval_doubles(c, i);
    double **const results[] = {&l.y, &l.y_h, &l.y_c};
    for (uint32_t i = 0; i < 3; i++)
        *results[i] = eval_scratch(c, c->out[i].numel);
    double *next = eval_scratch(c, l.hidden);
    for (int64_t dir = 0; dir < l.dirs; dir++)
        for (int64_t n = 0; n < l.batch; n++)
            run_entry(&l, dir, n, next);
    for (uint32_t i = 0; i < 3; i++)
        eval_store(c, i, *results[i]);
    return true;
}
