// SPDX-License-Identifier: Apache-2.0
// Meaning of resize: nearest picks elements by a map per axis; linear and cubic blend along one axis after
// the other.
#include "ir/eval/eval_ops.h"
#include "ir/shape/resize.h"

#include <string.h>

static ResizeAxis axis_of(const EvalCtx *c, uint32_t axis)
{
    return resize_axis(c->node, axis, c->in[0].dim[axis], c->out[0].dim[axis]);
}

static void resize_by_nearest(EvalCtx *c)
{
    const Tensor *x = &c->in[0];
    int64_t *map[SHAPE_MAX_RANK];
    int64_t step = 1;
    for (uint32_t d = x->rank; d-- > 0;) {
        const ResizeAxis a = axis_of(c, d);
        map[d] = ARENA_ARRAY(c->scratch, int64_t, a.out);
        for (int64_t i = 0; i < a.out; i++)
            map[d][i] = resize_nearest(&a, i) * step;
        step *= a.in;
    }
    eval_copy_mapped(&c->out[0], x, (const int64_t *const *)map);
}

// v [outer, a->in, inner] becomes [outer, a->out, inner].
static double *blend_axis(EvalCtx *c, const ResizeAxis *a, const double *v, int64_t outer, int64_t inner)
{
    const int64_t n = resize_tap_count(a);
    double *y = eval_scratch(c, outer * a->out * inner), *weight = eval_scratch(c, n);
    int64_t *index = ARENA_ARRAY(c->scratch, int64_t, n);
    for (int64_t i = 0; i < a->out; i++) {
        resize_taps(a, i, index, weight);
        for (int64_t o = 0; o < outer; o++) {
            const double *from = v + o * a->in * inner;
            double *to = y + (o * a->out + i) * inner;
            for (int64_t t = 0; t < n; t++)
                for (int64_t k = 0; k < inner; k++)
                    to[k] += weight[t] * from[index[t] * inner + k];
        }
    }
    return y;
}

// Axes that keep every element in its place are left alone: blending would spread their infinities.
static void resize_by_blending(EvalCtx *c)
{
    Tensor t = c->in[0];
    const double *v = eval_doubles(c, 0);
    for (uint32_t d = 0; d < t.rank; d++) {
        const ResizeAxis a = axis_of(c, d);
        if (!a.is_identity)
            v = blend_axis(c, &a, v, eval_count(&t, 0, d), eval_count(&t, d + 1, t.rank));
        t.dim[d] = a.out;
    }
    eval_store(c, 0, v);
}

// What the roi has outside of the operand.
static void extrapolate(EvalCtx *c)
{
    Tensor *y = &c->out[0];
    const double given = node_get_float(c->node, A_resize_extrapolation);
    const double value = dtype_info[y->dtype].cls == DCLASS_FLOAT ? given : (double)(float)given;
    for (uint32_t d = 0; d < y->rank; d++) {
        const ResizeAxis a = axis_of(c, d);
        const int64_t inner = eval_count(y, d + 1, y->rank);
        for (int64_t i = 0; i < y->numel; i++)
            if (!resize_is_inside(&a, i / inner % a.out))
                tensor_set_f64(y, i, value);
    }
}

bool eval_resize(EvalCtx *c)
{
    rlx_assert(c->in[0].rank == c->out[0].rank);
    if (c->out[0].numel > 0 && c->in[0].numel == 0)
        return eval_fail(c, E0204, "an operand without elements cannot be made larger");
    if (c->out[0].numel == 0)
        return true;
    if (str_equal(node_get_str(c->node, A_resize_mode), "nearest"))
        resize_by_nearest(c);
    else
        resize_by_blending(c);
    extrapolate(c);
    return true;
}
