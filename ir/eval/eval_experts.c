// SPDX-License-Identifier: Apache-2.0
// The meaning of mixtures of experts: every row by itself, with the matrix that its index says.
#include "ir/eval/eval_ops.h"

#include <math.h>

// A stack of matrices [experts, in, out], or with the last two axes the other way round.
typedef struct Stack {
    const double *data;
    int64_t in, out;
    bool is_transposed;
} Stack;

static double stack_at(const Stack *s, int64_t expert, int64_t i, int64_t o)
{
    return s->data[expert * s->in * s->out + (s->is_transposed ? o * s->in + i : i * s->out + o)];
}

// y[o] = sum(x[i] * w[expert][i][o])
static void multiply_expert(const Stack *s, int64_t expert, const double *x, double *y)
{
    for (int64_t o = 0; o < s->out; o++) {
        y[o] = 0;
        for (int64_t i = 0; i < s->in; i++)
            y[o] += x[i] * stack_at(s, expert, i, o);
    }
}

bool eval_grouped_matmul(EvalCtx *c)
{
    const Tensor *x = &c->in[0], *w = &c->in[1];
    rlx_assert(x->rank >= 1 && w->rank == 3);
    const bool is_transposed = eval_flag(c, A_grouped_matmul_transpose_b);
    const int64_t inner = x->dim[x->rank - 1], rows = c->in[2].numel;
    const int64_t shared = x->rank == c->in[2].rank && rows > 0 ? c->in[2].dim[c->in[2].rank - 1] : 1;
    const Stack s = {eval_doubles(c, 1), inner, w->dim[is_transposed ? 1 : 2], is_transposed};
    const double *a = eval_doubles(c, 0), *bias = eval_doubles(c, 3);
    const int64_t *index = eval_integers(c, 2);
    double *y = eval_scratch(c, c->out[0].numel);
    if (!eval_check_work(c, c->out[0].numel, inner))
        return false;
    for (int64_t r = 0; r < rows; r++) {
        if (index[r] < 0 || index[r] >= w->dim[0])
            continue;
        multiply_expert(&s, index[r], a + r / shared * inner, y + r * s.out);
        for (int64_t o = 0; bias && o < s.out; o++)
            y[r * s.out + o] += bias[index[r] * s.out + o];
    }
    eval_store(c, 0, y);
    return true;
}

// --- moe -----------------------------------------------------------------------------------------

// As top_k: NaN is larger than all numbers, of equal ones the first.
static bool comes_before(const double *p, int64_t i, int64_t j)
{
    const bool i_nan = isnan(p[i]), j_nan = isnan(p[j]);
    if (i_nan != j_nan || (i_nan && j_nan))
        return i_nan && (!j_nan || i < j);
    return p[i] > p[j] || (p[i] == p[j] && i < j);
}

// How many come before expert e.
static int64_t rank_of(const double *p, int64_t n, int64_t e)
{
    int64_t rank = 0;
    for (int64_t i = 0; i < n; i++)
        rank += i != e && comes_before(p, i, e);
    return rank;
}

static void softmax(double *p, int64_t n)
{
    double most = -(double)INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        most = p[i] > most || isnan(p[i]) ? p[i] : most;
    for (int64_t i = 0; i < n; i++)
        sum += p[i] = exp(p[i] - most);
    for (int64_t i = 0; i < n; i++)
        p[i] /= sum;
}

typedef struct Experts {
    Stack router, gate, up, down;
    int64_t n, k;
    bool renormalise;
    double *p, *h, *u, *out; // scratch of a row
} Experts;

static void mix_row(const Experts *m, const double *x, double *y)
{
    double sum = 0;
    multiply_expert(&m->router, 0, x, m->p);
    softmax(m->p, m->n);
    for (int64_t e = 0; e < m->n; e++)
        sum += rank_of(m->p, m->n, e) < m->k ? m->p[e] : 0;
    for (int64_t e = 0; e < m->n; e++) {
        if (rank_of(m->p, m->n, e) >= m->k)
            continue;
        multiply_expert(&m->gate, e, x, m->h);
        multiply_expert(&m->up, e, x, m->u);
        for (int64_t i = 0; i < m->gate.out; i++)
            m->h[i] = m->h[i] / (1 + exp(-m->h[i])) * m->u[i];
        multiply_expert(&m->down, e, m->h, m->out);
        for (int64_t i = 0; i < m->down.out; i++)
            y[i] += m->out[i] * (m->renormalise ? m->p[e] / sum : m->p[e]);
    }
}

bool eval_moe(EvalCtx *c)
{
    const Tensor *x = &c->in[0], *gate = &c->in[2];
    rlx_assert(x->rank >= 1 && gate->rank == 3);
    const bool t = eval_flag(c, A_moe_transpose_b);
    const int64_t inner = x->dim[x->rank - 1], n = gate->dim[0], hidden = gate->dim[t ? 1 : 2];
    Experts m = {.router = {eval_doubles(c, 1), inner, n, t},
                 .gate = {eval_doubles(c, 2), inner, hidden, t},
                 .up = {eval_doubles(c, 3), inner, hidden, t},
                 .down = {eval_doubles(c, 4), hidden, inner, t},
                 .n = n,
                 .k = node_get_int(c->node, A_moe_k),
                 .renormalise = eval_flag(c, A_moe_renormalise)};
    const double *a = eval_doubles(c, 0);
    double *y = eval_scratch(c, c->out[0].numel);
    m.p = eval_scratch(c, n);
    m.h = eval_scratch(c, hidden);
    m.u = eval_scratch(c, hidden);
    m.out = eval_scratch(c, inner);
    if (!eval_check_work(c, c->out[0].numel, 3 * hidden * m.k + n * n + n))
        return false;
    for (int64_t i = 0; inner > 0 && i < x->numel; i += inner)
        mix_row(&m, a + i, y + i);
    eval_store(c, 0, y);
    return true;
}
