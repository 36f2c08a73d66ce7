// SPDX-License-Identifier: Apache-2.0
// Meaning of resize: nearest picks elements by a map per axis; linear blends along one axis after the other.
#include "ir/eval_ops.h"
#include "ir/resize.h"

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
            map[d][i] = resize_nearest(c->node, &a, i) * step;
        step *= a.in;
    }
    eval_copy_mapped(&c->out[0], x, (const int64_t *const *)map);
}

// v [outer, a->in, inner] becomes [outer, a->out, inner].
static double *blend_axis(EvalCtx *c, const ResizeAxis *a, const double *v, int64_t outer, int64_t inner)
{
    double *y = eval_scratch(c, outer * a->out * inner);
    for (int64_t i = 0; i < outer * a->out; i++) {
        const ResizeLinear r = resize_linear(a, i % a->out);
        const double *from = v + i / a->out * a->in * inner;
        for (int64_t k = 0; k < inner; k++)
            y[i * inner + k] =
                (1 - r.weight) * from[r.lower * inner + k] + r.weight * from[r.upper * inner + k];
    }
    return y;
}

// Axes that keep every element in its place are left alone: blending would spread their infinities.
static bool is_identity(const ResizeAxis *a)
{
    return a->in == a->out && (a->scale == 0 || a->scale == 1);
}

static void resize_by_blending(EvalCtx *c)
{
    Tensor t = c->in[0];
    const double *v = eval_doubles(c, 0);
    for (uint32_t d = 0; d < t.rank; d++) {
        const ResizeAxis a = axis_of(c, d);
        if (!is_identity(&a))
            v = blend_axis(c, &a, v, eval_count(&t, 0, d), eval_count(&t, d + 1, t.rank));
        t.dim[d] = a.out;
    }
    eval_store(c, 0, v);
}

bool eval_resize(EvalCtx *c)
{
    if (c->out[0].numel > 0 && c->in[0].numel == 0)
        return eval_fail(c, E0204, "an operand without elements cannot be made larger");
    if (c->out[0].numel == 0)
        return true;
    if (str_equal(node_get_str(c->node, A_resize_mode), "linear"))
        resize_by_blending(c);
    else
        resize_by_nearest(c);
    return true;
}
