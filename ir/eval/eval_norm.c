// SPDX-License-Identifier: Apache-2.0
// Meanings of normalisations: softmax and log_softmax along an axis; layer, rms and batch norm; pools over
// all of space.
#include "ir/eval/eval_ops.h"

#include <math.h>

// A line: n elements at `first`, `step` apart.
typedef struct Line {
    int64_t first, step, n;
} Line;

// A line of only -inf gives NaN, as exp(-inf - -inf) does.
static void softmax_line(const double *x, double *y, const Line *l, bool is_log)
{
    double top = -HUGE_VAL, sum = 0;
    for (int64_t k = 0; k < l->n; k++)
        top = x[l->first + k * l->step] > top ? x[l->first + k * l->step] : top;
    for (int64_t k = 0; k < l->n; k++)
        sum += exp(x[l->first + k * l->step] - top);
    for (int64_t k = 0; k < l->n; k++) {
        const double v = x[l->first + k * l->step] - top;
        y[l->first + k * l->step] = is_log ? v - log(sum) : exp(v) / sum;
    }
}

static bool softmax(EvalCtx *c, AttrId axis_id, bool is_log)
{
    const Tensor *t = &c->in[0];
    const uint32_t axis = (uint32_t)node_get_int(c->node, axis_id);
    rlx_assert(axis < t->rank);
    const int64_t outer = eval_count(t, 0, axis), inner = eval_count(t, axis + 1, t->rank), n = t->dim[axis];
    const double *x = eval_doubles(c, 0);
    double *y = eval_scratch(c, t->numel);
    for (int64_t i = 0; i < outer * inner && n > 0; i++) {
        const Line l = {.first = i / inner * n * inner + i % inner, .step = inner, .n = n};
        softmax_line(x, y, &l, is_log);
    }
    eval_store(c, 0, y);
    return true;
}

bool eval_softmax(EvalCtx *c)
{
    return softmax(c, A_softmax_axis, false);
}

bool eval_log_softmax(EvalCtx *c)
{
    return softmax(c, A_log_softmax_axis, true);
}

// --- layer and rms norm ---

// Operand i broadcast to the axes of operand 0 from `axis` on, as a dense array; NULL when absent.
static const double *spread(EvalCtx *c, uint32_t i, uint32_t axis)
{
    const Tensor *x = &c->in[0];
    if (!eval_has(c, i))
        return NULL;
    const int64_t n = eval_count(x, axis, x->rank);
    double *v = eval_scratch(c, n);
    EvalWalk w = {.rank = x->rank - axis, .n = 1, .dim = x->dim + axis};
    eval_broadcast_strides(&c->in[i], w.rank, w.stride[0]);
    for (int64_t k = 0; k < n; k++, eval_walk_next(&w))
        v[k] = tensor_get_f64(&c->in[i], w.offset[0]);
    return v;
}

static double mean_of(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t k = 0; k < n; k++)
        sum += x[k];
    return sum / (double)n;
}

// (x - centre) / sqrt(mean((x - centre)^2) + epsilon), in place.
static void normalise(double *x, int64_t n, double centre, double epsilon)
{
    double sum = 0;
    for (int64_t k = 0; k < n; k++)
        sum += (x[k] - centre) * (x[k] - centre);
    const double root = sqrt(sum / (double)n + epsilon);
    for (int64_t k = 0; k < n; k++)
        x[k] = (x[k] - centre) / root;
}

typedef enum NormCentre { CENTRE_ZERO, CENTRE_MEAN } NormCentre;

static bool norm(EvalCtx *c, AttrId axis_id, AttrId epsilon, NormCentre centre)
{
    const Tensor *t = &c->in[0];
    const uint32_t axis = (uint32_t)node_get_int(c->node, axis_id);
    rlx_assert(axis <= t->rank);
    const int64_t rows = eval_count(t, 0, axis), n = eval_count(t, axis, t->rank);
    const double *scale = spread(c, 1, axis), *bias = spread(c, 2, axis);
    double *x = eval_doubles(c, 0);
    for (int64_t i = 0; i < rows && n > 0; i++) {
        double *row = x + i * n;
        normalise(row, n, centre == CENTRE_MEAN ? mean_of(row, n) : 0, node_get_float(c->node, epsilon));
        for (int64_t k = 0; scale != NULL && k < n; k++)
            row[k] *= scale[k];
        for (int64_t k = 0; bias != NULL && k < n; k++)
            row[k] += bias[k];
    }
    eval_store(c, 0, x);
    return true;
}

bool eval_layer_norm(EvalCtx *c)
{
    return norm(c, A_layer_norm_axis, A_layer_norm_epsilon, CENTRE_MEAN);
}

bool eval_rms_norm(EvalCtx *c)
{
    return norm(c, A_rms_norm_axis, A_rms_norm_epsilon, CENTRE_ZERO);
}

// (x - mean) / sqrt(variance + epsilon) * scale + bias by channel, which is axis 1.
bool eval_batch_norm(EvalCtx *c)
{
    const Tensor *t = &c->in[0];
    rlx_assert(t->rank >= 2 && c->in[3].numel == t->dim[1] && c->in[4].numel == t->dim[1]);
    const int64_t channels = t->dim[1], inner = eval_count(t, 2, t->rank);
    const double epsilon = node_get_float(c->node, A_batch_norm_epsilon);
    for (int64_t i = 0; i < t->numel; i++) {
        const int64_t k = i / inner % channels;
        const double centred = tensor_get_f64(t, i) - tensor_get_f64(&c->in[3], k);
        const double scaled =
            centred / sqrt(tensor_get_f64(&c->in[4], k) + epsilon) * tensor_get_f64(&c->in[1], k);
        tensor_set_f64(&c->out[0], i, scaled + tensor_get_f64(&c->in[2], k));
    }
    return true;
}

bool eval_global_avg_pool(EvalCtx *c)
{
    rlx_assert(c->in[0].rank >= 2);
    const int64_t inner = eval_count(&c->in[0], 2, c->in[0].rank);
    const double *x = eval_doubles(c, 0);
    for (int64_t i = 0; i < c->out[0].numel; i++)
        tensor_set_f64(&c->out[0], i, mean_of(x + i * inner, inner));
    return true;
}

// NaN wins, as in reduce_max.
bool eval_global_max_pool(EvalCtx *c)
{
    rlx_assert(c->in[0].rank >= 2);
    const int64_t inner = eval_count(&c->in[0], 2, c->in[0].rank);
    const double *x = eval_doubles(c, 0);
    for (int64_t i = 0; i < c->out[0].numel; i++) {
        double top = -HUGE_VAL;
        for (int64_t k = 0; k < inner; k++)
            top = isnan(top) || top > x[i * inner + k] ? top : x[i * inner + k];
        tensor_set_f64(&c->out[0], i, top);
    }
    return true;
}
