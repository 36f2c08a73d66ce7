// SPDX-License-Identifier: Apache-2.0
// Meaning of rope: each pair (x1, x2) turns by the angle of its place, to (x1 cos - x2 sin, x2 cos + x1 sin).
#include "ir/eval/eval_ops.h"

#include <math.h>

typedef struct Rope {
    bool is_interleaved;
    int64_t size, pairs, distance;
    double theta, denominator;
    EvalWalk tables, places; // strides of cos and sin of a row's first pair; of the position
} Rope;

static Rope rope_of(const EvalCtx *c)
{
    const Node *n = c->node;
    const int64_t size = c->in[0].dim[c->in[0].rank - 1], dims = node_get_int(n, A_rope_dims);
    const int64_t distance = node_get_int(n, A_rope_distance), over = node_get_int(n, A_rope_denominator);
    const int64_t turned = dims != 0 ? dims : size;
    return (Rope){.is_interleaved = node_get_int(n, A_rope_interleaved) != 0,
                  .size = size,
                  .pairs = turned / 2,
                  .distance = distance != 0 ? distance : turned / 2,
                  .theta = node_get_float(n, A_rope_theta),
                  .denominator = (double)(over != 0 ? over : turned)};
}

// Angles are of f32, but for f64.
static double rounded(const EvalCtx *c, double v)
{
    return c->in[0].dtype == DTYPE_f64 ? v : (double)(float)v;
}

static double angle_of(const EvalCtx *c, const Rope *r, double position, int64_t pair)
{
    const double frequency = rounded(c, pow(r->theta, -2 * (double)pair / r->denominator));
    const double angle = rounded(c, rounded(c, position) * frequency);
    return eval_has(c, 4) ? rounded(c, angle / tensor_get_f64(&c->in[4], pair)) : angle;
}

static int64_t clamped(int64_t v, int64_t end)
{
    return v < 0 ? 0 : v >= end ? end - 1 : v;
}

// cos and sin of a pair of the row that the walks are at.
static void turn_of(const EvalCtx *c, const Rope *r, int64_t pair, double *cosine, double *sine)
{
    if (r->theta > 0) {
        const double angle = angle_of(c, r, tensor_get_f64(&c->in[3], r->places.offset[0]), pair);
        *cosine = cos(angle);
        *sine = sin(angle);
        return;
    }
    int64_t at[2] = {r->tables.offset[0], r->tables.offset[1]};
    for (uint32_t i = 0; i < 2; i++) {
        const Tensor *t = &c->in[1 + i];
        const bool varies = t->rank > 0 && t->dim[t->rank - 1] > 1;
        if (eval_has(c, 3))
            at[i] = clamped(tensor_get_i64(&c->in[3], r->places.offset[0]), t->dim[0]) * r->pairs + pair;
        else
            at[i] += varies ? pair : 0;
    }
    *cosine = tensor_get_f64(&c->in[1], at[0]);
    *sine = tensor_get_f64(&c->in[2], at[1]);
}

static void begin_walks(const EvalCtx *c, Rope *r)
{
    const Tensor *x = &c->in[0];
    r->tables = (EvalWalk){.rank = x->rank - 1, .n = 2, .dim = x->dim};
    r->places = (EvalWalk){.rank = x->rank - 1, .n = 1, .dim = x->dim};
    if (eval_has(c, 3)) {
        eval_broadcast_strides(&c->in[3], x->rank - 1, r->places.stride[0]);
        return;
    }
    for (uint32_t i = 0; i < 2; i++) {
        int64_t stride[SHAPE_MAX_RANK] = {0};
        eval_broadcast_strides(&c->in[1 + i], x->rank, stride);
        for (uint32_t axis = 0; axis + 1 < x->rank; axis++)
            r->tables.stride[i][axis] = stride[axis];
    }
}

bool eval_rope(EvalCtx *c)
{
    const Tensor *x = &c->in[0];
    rlx_assert(x->numel == c->out[0].numel && x->dtype == c->out[0].dtype);
    Rope r = rope_of(c);
    const int64_t rows = r.size > 0 ? x->numel / r.size : 0;
    begin_walks(c, &r);
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t i = 0; i < r.size; i++)
            tensor_set_f64(&c->out[0], row * r.size + i, tensor_get_f64(x, row * r.size + i));
        for (int64_t i = 0; i < r.pairs; i++) {
            const int64_t first = row * r.size + (r.is_interleaved ? 2 * i : i);
            const int64_t second = first + (r.is_interleaved ? 1 : r.distance);
            double cosine = 0, sine = 0;
            turn_of(c, &r, i, &cosine, &sine);
            const double x1 = tensor_get_f64(x, first), x2 = tensor_get_f64(x, second);
            tensor_set_f64(&c->out[0], first, x1 * cosine - x2 * sine);
            tensor_set_f64(&c->out[0], second, x2 * cosine + x1 * sine);
        }
        eval_walk_next(&r.tables);
        eval_walk_next(&r.places);
    }
    return true;
}
