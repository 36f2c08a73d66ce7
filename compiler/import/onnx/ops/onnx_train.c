// SPDX-License-Identifier: Apache-2.0
// Steps of optimisers (ai.onnx.preview.training). The operands are the learning rate, the number of steps so
// far, then the tensors, their gradients and their moments, each kind for all tensors in turn; the results
// are the new tensors, then the new moments.
#include "compiler/import/onnx/onnx_import.h"

#include <math.h>

enum { MAX_MOMENTS = 2 };

// What all tensors of a node share.
typedef struct Optimiser {
    NodeId rate, steps;
    double norm, alpha, beta, epsilon, norm_after;
    bool is_nesterov;
} Optimiser;

// One tensor: its value, the gradient with the regularisation term in it, and the moments. A step replaces
// value and moments.
typedef struct Tuned {
    NodeId x, gradient, moment[MAX_MOMENTS];
} Tuned;

typedef void (*StepFn)(OnnxNode *n, const Optimiser *o, Tuned *t);

static NodeId add(OnnxNode *n, NodeId a, NodeId b)
{
    return onnx_op2(n, OP_add, a, b);
}

// Yes where at least one step was made before.
static NodeId when_begun(OnnxNode *n, const Optimiser *o, NodeId yes, NodeId no)
{
    return onnx_op3(n, OP_where, onnx_op2(n, OP_gt, o->steps, onnx_scalar_like(n, o->steps, 0)), yes, no);
}

static void import_optimiser(OnnxNode *n, const Optimiser *o, uint32_t moments, StepFn step)
{
    const uint32_t kinds = 2 + moments, count = (n->n_in - 2) / kinds;
    for (uint32_t i = 0; i < count && !n->failed; i++) {
        Tuned t = {.x = onnx_src(n, 2 + i)};
        const NodeId gradient = onnx_src(n, 2 + count + i);
        for (uint32_t m = 0; m < moments; m++)
            t.moment[m] = onnx_src(n, 2 + (2 + m) * count + i);
        t.gradient = add(n, onnx_op_number(n, OP_mul, t.x, o->norm), gradient);
        step(n, o, &t);
        onnx_out(n, i, t.x);
        for (uint32_t m = 0; m < moments; m++)
            onnx_out(n, (1 + m) * count + i, t.moment[m]);
    }
}

static bool read_optimiser(OnnxNode *n, uint32_t moments, Optimiser *o)
{
    const uint32_t kinds = 2 + moments;
    if (n->n_in < 2 + kinds || (n->n_in - 2) % kinds != 0)
        return onnx_fail(n, E0202, "needs 2 inputs and %u for each tensor, found %u", kinds, n->n_in);
    o->rate = onnx_src(n, 0);
    o->steps = onnx_src(n, 1);
    o->norm = onnx_float(n, "norm_coefficient", 0);
    return !n->failed;
}

static void adagrad_step(OnnxNode *n, const Optimiser *o, Tuned *t)
{
    t->moment[0] = add(n, t->moment[0], onnx_op1(n, OP_square, t->gradient));
    const NodeId size = add(n, onnx_op1(n, OP_sqrt, t->moment[0]), onnx_scalar_like(n, t->x, o->epsilon));
    const NodeId rate = onnx_cast(n, o->rate, onnx_dtype(n, t->x));
    const NodeId change = onnx_op2(n, OP_div, onnx_op2(n, OP_mul, rate, t->gradient), size);
    t->x = onnx_op2(n, OP_sub, t->x, change);
}

void onnx_import_adagrad(OnnxNode *n)
{
    Optimiser o = {.epsilon = onnx_float(n, "epsilon", (double)1e-6f)};
    const double decay = onnx_float(n, "decay_factor", 0);
    if (!read_optimiser(n, 1, &o))
        return;
    const NodeId steps = onnx_cast(n, o.steps, onnx_dtype(n, o.rate));
    o.rate = onnx_op2(n, OP_div, o.rate,
                      add(n, onnx_op_number(n, OP_mul, steps, decay), onnx_scalar_like(n, o.rate, 1)));
    import_optimiser(n, &o, 1, adagrad_step);
}

// 1 - base^steps, exact also where that is small.
static NodeId missing_part(OnnxNode *n, const Optimiser *o, double base)
{
    const NodeId steps = onnx_cast(n, o->steps, onnx_dtype(n, o->rate));
    return onnx_op1(n, OP_neg, onnx_op1(n, OP_expm1, onnx_op_number(n, OP_mul, steps, log(base))));
}

// The rate with the bias of the first steps taken out.
static NodeId adam_rate(OnnxNode *n, const Optimiser *o)
{
    const NodeId up = onnx_op1(n, OP_sqrt, missing_part(n, o, o->beta));
    const NodeId factor = onnx_op2(n, OP_div, up, missing_part(n, o, o->alpha));
    return when_begun(n, o, onnx_op2(n, OP_mul, o->rate, factor), o->rate);
}

static void adam_step(OnnxNode *n, const Optimiser *o, Tuned *t)
{
    const NodeId square = onnx_op1(n, OP_square, t->gradient);
    t->moment[0] = add(n, onnx_op_number(n, OP_mul, t->moment[0], o->alpha),
                       onnx_op_number(n, OP_mul, t->gradient, 1 - o->alpha));
    t->moment[1] = add(n, onnx_op_number(n, OP_mul, t->moment[1], o->beta),
                       onnx_op_number(n, OP_mul, square, 1 - o->beta));
    const NodeId size = add(n, onnx_op1(n, OP_sqrt, t->moment[1]), onnx_scalar_like(n, t->x, o->epsilon));
    const NodeId rate = onnx_cast(n, o->rate, onnx_dtype(n, t->x));
    const NodeId change = onnx_op2(n, OP_div, onnx_op2(n, OP_mul, rate, t->moment[0]), size);
    t->x = onnx_op_number(n, OP_mul, onnx_op2(n, OP_sub, t->x, change), 1 - o->norm_after);
}

void onnx_import_adam(OnnxNode *n)
{
    Optimiser o = {.alpha = onnx_float(n, "alpha", (double)0.9f),
                   .beta = onnx_float(n, "beta", (double)0.999f),
                   .epsilon = onnx_float(n, "epsilon", (double)1e-6f),
                   .norm_after = onnx_float(n, "norm_coefficient_post", 0)};
    if (!read_optimiser(n, 2, &o))
        return;
    o.rate = adam_rate(n, &o);
    import_optimiser(n, &o, 2, adam_step);
}

static void momentum_step(OnnxNode *n, const Optimiser *o, Tuned *t)
{
    const NodeId later = onnx_op_number(n, OP_mul, t->gradient, o->beta);
    t->moment[0] =
        add(n, onnx_op_number(n, OP_mul, t->moment[0], o->alpha), when_begun(n, o, later, t->gradient));
    NodeId change = t->moment[0];
    if (o->is_nesterov)
        change = add(n, t->gradient, onnx_op_number(n, OP_mul, change, o->alpha));
    const NodeId rate = onnx_cast(n, o->rate, onnx_dtype(n, t->x));
    t->x = onnx_op2(n, OP_sub, t->x, onnx_op2(n, OP_mul, rate, change));
}

void onnx_import_momentum(OnnxNode *n)
{
    Optimiser o = {.alpha = onnx_float(n, "alpha", 0),
                   .beta = onnx_float(n, "beta", 0),
                   .is_nesterov = ONNX_WORD(n, "mode", "standard", "nesterov") == 1};
    if (onnx_need_attr(n, "mode") && read_optimiser(n, 1, &o))
        import_optimiser(n, &o, 1, momentum_step);
}
