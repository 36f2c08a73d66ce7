// SPDX-License-Identifier: Apache-2.0
// Meanings of max_pool, argmax_pool and avg_pool over 1 to 3 spatial axes. Padding never wins a maximum, and
// counts in a mean only with count_include_pad; what hangs over the padded end with ceil_mode never counts. A
// window without any element gives -inf, the lowest integer, or 0.
#include "ir/eval/eval_ops.h"
#include "ir/shape/forms.h"

#include <math.h>

enum { SPATIAL = 3 }; // axes, filled up with size 1 from the front

typedef struct Pool {
    int64_t in[SPATIAL], out[SPATIAL], kernel[SPATIAL], stride[SPATIAL], dilation[SPATIAL], pad[SPATIAL];
    int64_t padded_end[SPATIAL]; // first position behind the padding
    bool counts_pads, is_unsigned;
    const int64_t *integers; // of one plane; NULL: they are floats
} Pool;

static Pool pool_of(const EvalCtx *c)
{
    const WindowForm form = window_form(c->node);
    const int64_t *kernel = node_find_attr(c->node, "kernel")->u.ints;
    rlx_assert(c->in[0].rank >= 3 && c->in[0].rank <= 2 + SPATIAL && c->out[0].rank == c->in[0].rank);
    const uint32_t n = c->in[0].rank - 2;
    Pool p = {.counts_pads = false};
    for (uint32_t i = 0; i < SPATIAL; i++)
        p.in[i] = p.out[i] = p.kernel[i] = p.stride[i] = p.dilation[i] = p.padded_end[i] = 1;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t to = SPATIAL - n + i;
        p.in[to] = c->in[0].dim[2 + i];
        p.out[to] = c->out[0].dim[2 + i];
        p.kernel[to] = kernel[i];
        p.stride[to] = form.stride[i];
        p.dilation[to] = form.dilation[i];
        p.pad[to] = form.pad[i];
        p.padded_end[to] = p.in[to] + form.pad[n + i];
    }
    return p;
}

typedef struct Window {
    double sum, top;
    int64_t count, best; // best: where top was found first; -1: nowhere yet
} Window;

static void take_integer(const Pool *p, int64_t place, Window *w)
{
    const int64_t v = p->integers[place], top = w->best < 0 ? v : p->integers[w->best];
    if (w->best < 0 || (p->is_unsigned ? (uint64_t)v > (uint64_t)top : v > top))
        w->best = place;
}

static void take_float(double v, int64_t place, Window *w)
{
    if (w->best < 0 || (!isnan(w->top) && (isnan(v) || v > w->top)))
        w->best = place;
    w->sum += v;
    w->top = isnan(w->top) || w->top > v ? w->top : v;
}

// Takes in the tap at `at`, one position per axis.
static void visit(const Pool *p, const double *plane, const int64_t *at, Window *w)
{
    bool is_inside = true, is_padded = true;
    for (uint32_t d = 0; d < SPATIAL; d++) {
        is_inside = is_inside && at[d] >= 0 && at[d] < p->in[d];
        is_padded = is_padded && at[d] < p->padded_end[d];
    }
    if (is_inside) {
        const int64_t place = (at[0] * p->in[1] + at[1]) * p->in[2] + at[2];
        if (p->integers != NULL)
            take_integer(p, place, w);
        else
            take_float(plane[place], place, w);
    }
    w->count += p->counts_pads ? is_padded : is_inside;
}

// The window of output position i.
static Window look(const Pool *p, const double *plane, int64_t i)
{
    const int64_t to[SPATIAL] = {i / p->out[2] / p->out[1], i / p->out[2] % p->out[1], i % p->out[2]};
    Window w = {.sum = 0, .top = -HUGE_VAL, .count = 0, .best = -1};
    int64_t tap[SPATIAL], at[SPATIAL];
    for (tap[0] = 0; tap[0] < p->kernel[0]; tap[0]++)
        for (tap[1] = 0; tap[1] < p->kernel[1]; tap[1]++)
            for (tap[2] = 0; tap[2] < p->kernel[2]; tap[2]++) {
                for (uint32_t d = 0; d < SPATIAL; d++)
                    at[d] = to[d] * p->stride[d] + tap[d] * p->dilation[d] - p->pad[d];
                visit(p, plane, at, &w);
            }
    return w;
}

static bool check_pool_work(const EvalCtx *c, const Pool *p)
{
    return eval_check_work(c, p->kernel[0], p->kernel[1]) &&
           eval_check_work(c, p->kernel[0] * p->kernel[1], p->kernel[2]) &&
           eval_check_work(c, c->out[0].numel, p->kernel[0] * p->kernel[1] * p->kernel[2]);
}

static void max_of_integers(EvalCtx *c, Pool *p, int64_t in, int64_t out)
{
    const DType type = c->in[0].dtype;
    const int64_t *x = eval_integers(c, 0);
    p->is_unsigned = dtype_info[type].cls == DCLASS_UINT;
    const int64_t lowest = p->is_unsigned ? 0 : INT64_MIN >> (64 - dtype_info[type].bits);
    for (int64_t i = 0; i < c->out[0].numel; i++) {
        p->integers = x + i / out * in;
        const int64_t best = look(p, NULL, i % out).best;
        tensor_set_i64(&c->out[0], i, best < 0 ? lowest : p->integers[best]);
    }
}

bool eval_max_pool(EvalCtx *c)
{
    Pool p = pool_of(c);
    const int64_t in = p.in[0] * p.in[1] * p.in[2], out = p.out[0] * p.out[1] * p.out[2];
    if (!check_pool_work(c, &p))
        return false;
    if (dtype_info[c->in[0].dtype].cls != DCLASS_FLOAT) {
        max_of_integers(c, &p, in, out);
        return true;
    }
    const double *x = eval_doubles(c, 0);
    for (int64_t i = 0; i < c->out[0].numel; i++)
        tensor_set_f64(&c->out[0], i, look(&p, x + i / out * in, i % out).top);
    return true;
}

bool eval_argmax_pool(EvalCtx *c)
{
    const Pool p = pool_of(c);
    const int64_t in = p.in[0] * p.in[1] * p.in[2], out = p.out[0] * p.out[1] * p.out[2];
    if (!check_pool_work(c, &p))
        return false;
    const double *x = eval_doubles(c, 0);
    for (int64_t i = 0; i < c->out[0].numel; i++) {
        const int64_t best = look(&p, x + i / out * in, i % out).best;
        tensor_set_i64(&c->out[0], i, best < 0 ? 0 : best);
    }
    return true;
}

bool eval_avg_pool(EvalCtx *c)
{
    Pool p = pool_of(c);
    const int64_t in = p.in[0] * p.in[1] * p.in[2], out = p.out[0] * p.out[1] * p.out[2];
    p.counts_pads = eval_flag(c, A_avg_pool_count_include_pad);
    if (!check_pool_work(c, &p))
        return false;
    const double *x = eval_doubles(c, 0);
    for (int64_t i = 0; i < c->out[0].numel; i++) {
        const Window w = look(&p, x + i / out * in, i % out);
        tensor_set_f64(&c->out[0], i, w.count > 0 ? w.sum / (double)w.count : 0);
    }
    return true;
}
