// SPDX-License-Identifier: Apache-2.0
// Meanings of reductions, searches along an axis and running sums. Floats accumulate in double; integers in
// 64 bits that wrap, compared by their own signedness.
#include "ir/eval/eval_ops.h"

#include <math.h>

// One reduction: how an element goes into the accumulator, for floats and for integers (u64 as its bit
// pattern).
typedef struct Reduction {
    double f64_start;
    double (*f64_step)(double acc, double v);
    int64_t (*i64_step)(int64_t acc, int64_t v, bool is_unsigned);
} Reduction;

static double f64_sum(double acc, double v)
{
    return acc + v;
}

static double f64_prod(double acc, double v)
{
    return acc * v;
}

// A NaN stays: once in the accumulator no comparison takes it out.
static double f64_max(double acc, double v)
{
    return isnan(acc) || acc > v ? acc : v;
}

static double f64_min(double acc, double v)
{
    return isnan(acc) || acc < v ? acc : v;
}

static double f64_sum_abs(double acc, double v)
{
    return acc + fabs(v);
}

static double f64_sum_square(double acc, double v)
{
    return acc + v * v;
}

static int64_t i64_sum(int64_t acc, int64_t v, bool is_unsigned)
{
    (void)is_unsigned;
    return (int64_t)((uint64_t)acc + (uint64_t)v);
}

static int64_t i64_prod(int64_t acc, int64_t v, bool is_unsigned)
{
    (void)is_unsigned;
    return (int64_t)((uint64_t)acc * (uint64_t)v);
}

static bool is_less(int64_t a, int64_t b, bool is_unsigned)
{
    return is_unsigned ? (uint64_t)a < (uint64_t)b : a < b;
}

static int64_t i64_max(int64_t acc, int64_t v, bool is_unsigned)
{
    return is_less(acc, v, is_unsigned) ? v : acc;
}

static int64_t i64_min(int64_t acc, int64_t v, bool is_unsigned)
{
    return is_less(v, acc, is_unsigned) ? v : acc;
}

static const Reduction sum = {0, f64_sum, i64_sum};
static const Reduction prod = {1, f64_prod, i64_prod};
static const Reduction max = {-HUGE_VAL, f64_max, i64_max};
static const Reduction min = {HUGE_VAL, f64_min, i64_min};
static const Reduction sum_abs = {0, f64_sum_abs, NULL};
static const Reduction sum_square = {0, f64_sum_square, NULL};

// The walk over operand 0 whose offset 0 is the place in the result: reduced axes do not move it.
static EvalWalk reduction_walk(const EvalCtx *c, AttrId axes)
{
    const Tensor *x = &c->in[0];
    const AttrVal *a = node_attr(c->node, axes);
    EvalWalk w = {.rank = x->rank, .n = 1, .dim = x->dim};
    uint32_t mask = 0;
    int64_t step = 1;
    for (uint32_t i = 0; i < a->len; i++)
        mask |= 1u << a->u.ints[i];
    for (uint32_t i = x->rank; i-- > 0;) {
        w.stride[0][i] = mask >> i & 1 ? 0 : step;
        step *= mask >> i & 1 ? 1 : x->dim[i];
    }
    return w;
}

// The accumulators of all results, in scratch memory.
static double *reduce_floats(EvalCtx *c, AttrId axes, const Reduction *r)
{
    double *acc = eval_scratch(c, c->out[0].numel);
    EvalWalk w = reduction_walk(c, axes);
    for (int64_t i = 0; i < c->out[0].numel; i++)
        acc[i] = r->f64_start;
    for (int64_t i = 0; i < c->in[0].numel; i++, eval_walk_next(&w))
        acc[w.offset[0]] = r->f64_step(acc[w.offset[0]], tensor_get_f64(&c->in[0], i));
    return acc;
}

static int64_t *reduce_integers(EvalCtx *c, AttrId axes, const Reduction *r, int64_t start)
{
    const bool is_unsigned = dtype_info[c->in[0].dtype].cls == DCLASS_UINT;
    int64_t *acc = ARENA_ARRAY(c->scratch, int64_t, c->out[0].numel);
    EvalWalk w = reduction_walk(c, axes);
    for (int64_t i = 0; i < c->out[0].numel; i++)
        acc[i] = start;
    for (int64_t i = 0; i < c->in[0].numel; i++, eval_walk_next(&w))
        acc[w.offset[0]] = r->i64_step(acc[w.offset[0]], tensor_get_i64(&c->in[0], i), is_unsigned);
    return acc;
}

static bool is_float(const EvalCtx *c)
{
    return dtype_info[c->in[0].dtype].cls == DCLASS_FLOAT;
}

static bool reduce(EvalCtx *c, AttrId axes, const Reduction *r, int64_t start)
{
    if (is_float(c)) {
        eval_store(c, 0, reduce_floats(c, axes, r));
        return true;
    }
    const int64_t *acc = reduce_integers(c, axes, r, start);
    for (int64_t i = 0; i < c->out[0].numel; i++)
        tensor_set_i64(&c->out[0], i, acc[i]);
    return true;
}

// The smallest and the largest value of an integer type.
static int64_t lowest_of(DType t)
{
    return dtype_info[t].cls == DCLASS_UINT ? 0 : INT64_MIN >> (64 - dtype_info[t].bits);
}

static int64_t highest_of(DType t)
{
    const uint64_t ones = UINT64_MAX >> (64 - dtype_info[t].bits);
    return (int64_t)(dtype_info[t].cls == DCLASS_UINT ? ones : ones >> 1);
}

bool eval_reduce_sum(EvalCtx *c)
{
    return reduce(c, A_reduce_sum_axes, &sum, 0);
}

bool eval_reduce_prod(EvalCtx *c)
{
    return reduce(c, A_reduce_prod_axes, &prod, 1);
}

bool eval_reduce_max(EvalCtx *c)
{
    return reduce(c, A_reduce_max_axes, &max, is_float(c) ? 0 : lowest_of(c->in[0].dtype));
}

bool eval_reduce_min(EvalCtx *c)
{
    return reduce(c, A_reduce_min_axes, &min, is_float(c) ? 0 : highest_of(c->in[0].dtype));
}

bool eval_reduce_l1(EvalCtx *c)
{
    return reduce(c, A_reduce_l1_axes, &sum_abs, 0);
}

// The mean of no floats is NaN, of no integers 0.
bool eval_reduce_mean(EvalCtx *c)
{
    Tensor *out = &c->out[0];
    const int64_t each = out->numel > 0 ? c->in[0].numel / out->numel : 0;
    if (is_float(c)) {
        double *acc = reduce_floats(c, A_reduce_mean_axes, &sum);
        for (int64_t i = 0; i < out->numel; i++)
            acc[i] /= (double)each;
        eval_store(c, 0, acc);
        return true;
    }
    const bool is_unsigned = dtype_info[out->dtype].cls == DCLASS_UINT;
    const int64_t *acc = reduce_integers(c, A_reduce_mean_axes, &sum, 0);
    for (int64_t i = 0; i < out->numel && each > 0; i++)
        tensor_set_i64(out, i, is_unsigned ? (int64_t)((uint64_t)acc[i] / (uint64_t)each) : acc[i] / each);
    return true;
}

bool eval_reduce_l2(EvalCtx *c)
{
    double *acc = reduce_floats(c, A_reduce_l2_axes, &sum_square);
    for (int64_t i = 0; i < c->out[0].numel; i++)
        acc[i] = sqrt(acc[i]);
    eval_store(c, 0, acc);
    return true;
}

// log(sum(exp(x))), from the largest so that no exp overflows; of nothing or of -inf only it is -inf.
bool eval_reduce_logsumexp(EvalCtx *c)
{
    const double *top = reduce_floats(c, A_reduce_logsumexp_axes, &max);
    double *acc = eval_scratch(c, c->out[0].numel);
    EvalWalk w = reduction_walk(c, A_reduce_logsumexp_axes);
    for (int64_t i = 0; i < c->in[0].numel; i++, eval_walk_next(&w)) {
        const double highest = top[w.offset[0]];
        acc[w.offset[0]] += exp(tensor_get_f64(&c->in[0], i) - (isinf(highest) ? 0 : highest));
    }
    for (int64_t i = 0; i < c->out[0].numel; i++)
        acc[i] = log(acc[i]) + (isinf(top[i]) ? 0 : top[i]);
    eval_store(c, 0, acc);
    return true;
}

// --- along one axis ---

// Element k of line i, where the lines run along an axis of size n: (i / inner) * n * inner + k * inner + i %
// inner.
typedef struct Lines {
    int64_t count, n, inner;
} Lines;

static Lines lines_of(const Tensor *t, uint32_t axis)
{
    return (Lines){.count = eval_count(t, 0, axis) * eval_count(t, axis + 1, t->rank),
                   .n = t->dim[axis],
                   .inner = eval_count(t, axis + 1, t->rank)};
}

static int64_t line_at(const Lines *l, int64_t i, int64_t k)
{
    return (i / l->inner * l->n + k) * l->inner + i % l->inner;
}

// Whether element k is to be preferred to element best: the first of equal values wins, and the first NaN
// over all.
static bool is_better(const Tensor *x, int64_t k, int64_t best, bool largest)
{
    if (dtype_info[x->dtype].cls == DCLASS_FLOAT) {
        const double a = tensor_get_f64(x, k), b = tensor_get_f64(x, best);
        return !isnan(b) && (isnan(a) || (largest ? a > b : a < b));
    }
    const bool is_unsigned = dtype_info[x->dtype].cls == DCLASS_UINT;
    const int64_t a = tensor_get_i64(x, k), b = tensor_get_i64(x, best);
    return largest ? is_less(b, a, is_unsigned) : is_less(a, b, is_unsigned);
}

static bool search(EvalCtx *c, AttrId axis, bool largest)
{
    const Tensor *x = &c->in[0];
    const Lines l = lines_of(x, (uint32_t)node_get_int(c->node, axis));
    if (l.n == 0 && l.count > 0)
        return eval_fail(c, E0204, "the axis has no element to find");
    for (int64_t i = 0; i < l.count; i++) {
        int64_t best = 0;
        for (int64_t k = 1; k < l.n; k++)
            if (is_better(x, line_at(&l, i, k), line_at(&l, i, best), largest))
                best = k;
        tensor_set_i64(&c->out[0], i, best);
    }
    return true;
}

bool eval_argmax(EvalCtx *c)
{
    return search(c, A_argmax_axis, true);
}

bool eval_argmin(EvalCtx *c)
{
    return search(c, A_argmin_axis, false);
}

typedef struct Running {
    AttrId axis, exclusive, reverse;
    const Reduction *step;
    int64_t start;
} Running;

static bool running(EvalCtx *c, const Running *r)
{
    const Tensor *x = &c->in[0];
    const bool is_unsigned = dtype_info[x->dtype].cls == DCLASS_UINT;
    const Lines l = lines_of(x, (uint32_t)node_get_int(c->node, r->axis));
    const bool exclusive = eval_flag(c, r->exclusive), reverse = eval_flag(c, r->reverse);
    for (int64_t i = 0; i < l.count; i++) {
        double f = r->step->f64_start;
        int64_t n = r->start;
        for (int64_t k = 0; k < l.n; k++) {
            const int64_t at = line_at(&l, i, reverse ? l.n - 1 - k : k);
            const double f_next = r->step->f64_step(f, tensor_get_f64(x, at));
            const int64_t n_next = r->step->i64_step(n, tensor_get_i64(x, at), is_unsigned);
            if (is_float(c))
                tensor_set_f64(&c->out[0], at, exclusive ? f : f_next);
            else
                tensor_set_i64(&c->out[0], at, exclusive ? n : n_next);
            f = f_next;
            n = n_next;
        }
    }
    return true;
}

bool eval_cumsum(EvalCtx *c)
{
    return running(c, &(Running){A_cumsum_axis, A_cumsum_exclusive, A_cumsum_reverse, &sum, 0});
}

bool eval_cumprod(EvalCtx *c)
{
    return running(c, &(Running){A_cumprod_axis, A_cumprod_exclusive, A_cumprod_reverse, &prod, 1});
}

bool eval_cummax(EvalCtx *c)
{
    const int64_t start = is_float(c) ? 0 : lowest_of(c->in[0].dtype);
    return running(c, &(Running){A_cummax_axis, A_cummax_exclusive, A_cummax_reverse, &max, start});
}
