// SPDX-License-Identifier: Apache-2.0
// Shape rules of products of matrices and of what is built on them: matmul, linear, attention, rope, lstm.
#include "ir/shape_rules.h"

// The two matrices of a product as [batch ..., rows, inner] and [batch ..., inner, cols]; vectors got an axis
// of size 1.
typedef struct MatrixPair {
    Shape batch_a, batch_b;
    Dim rows, inner_a, inner_b, cols;
} MatrixPair;

static MatrixPair split_matrices(const Shape *a, const Shape *b, bool transpose_a, bool transpose_b)
{
    MatrixPair m = {.rows = 1, .cols = 1};
    m.batch_a = shape_of(a->rank < 2 ? 0 : a->rank - 2, a->dim);
    m.batch_b = shape_of(b->rank < 2 ? 0 : b->rank - 2, b->dim);
    m.inner_a = a->dim[a->rank - 1 - (transpose_a ? 1u : 0u)];
    if (a->rank >= 2)
        m.rows = a->dim[a->rank - 2 + (transpose_a ? 1u : 0u)];
    if (b->rank == 1) {
        m.inner_b = b->dim[0];
    } else {
        m.inner_b = b->dim[b->rank - 2 + (transpose_b ? 1u : 0u)];
        m.cols = b->dim[b->rank - 1 - (transpose_b ? 1u : 0u)];
    }
    return m;
}

static bool product(ShapeCtx *c, bool transpose_a, bool transpose_b, Shape *out)
{
    const Shape *a = &c->in[0].shape, *b = &c->in[1].shape;
    if (!rule_rank(c, 0, transpose_a ? 2 : 1, SHAPE_MAX_RANK) ||
        !rule_rank(c, 1, transpose_b ? 2 : 1, SHAPE_MAX_RANK))
        return false;
    const MatrixPair m = split_matrices(a, b, transpose_a, transpose_b);
    if (!rule_dims_equal(c, m.inner_a, m.inner_b, "inner dims"))
        return false;
    if (!shape_broadcast(c->g->dims, &m.batch_a, &m.batch_b, out))
        return shape_fail(c, E0204, "the axes before the last two do not broadcast");
    if (a->rank >= 2)
        out->dim[out->rank++] = m.rows;
    if (b->rank >= 2)
        out->dim[out->rank++] = m.cols;
    return true;
}

// An operand that says how many elements of an axis count.
static bool check_count(ShapeCtx *c, uint32_t operand, const char *what)
{
    if (!rule_has(c, operand))
        return true;
    const TensorType *t = &c->in[operand];
    if (t->dtype == DTYPE_i64 && shape_is_const(&t->shape) && shape_numel(&t->shape) == 1)
        return true;
    return shape_fail(c, E0205, "the number of %s must be an i64 with one element", what);
}

bool shape_matmul(ShapeCtx *c)
{
    Shape out;
    if (!rule_dtypes(c, CLS_FLOAT | CLS_INT, 2) ||
        !product(c, shape_attr(c, A_matmul_transpose_a)->u.i != 0,
                 shape_attr(c, A_matmul_transpose_b)->u.i != 0, &out) ||
        !check_count(c, 2, "inner elements"))
        return false;
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}

bool shape_linear(ShapeCtx *c)
{
    Shape out;
    if (!rule_dtypes(c, CLS_FLOAT | CLS_INT, 3) || !rule_rank(c, 1, 2, 2) ||
        !product(c, false, shape_attr(c, A_linear_transpose_b)->u.i != 0, &out) ||
        (rule_has(c, 2) && !rule_broadcasts_to(c, 2, &out)))
        return false;
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}

// --- attention ---

static bool check_heads(ShapeCtx *c, Dim q, Dim kv)
{
    if (q == kv || (dim_is_const(q) && dim_is_const(kv) && kv > 0 && q % kv == 0))
        return true;
    return shape_fail(c, E0204, "%s query heads are not a multiple of %s key heads", rule_dim_text(c, q),
                      rule_dim_text(c, kv));
}

// Leading axes of q, k and v are equal; their last three are [heads, sequence, size].
static bool check_qkv(ShapeCtx *c)
{
    const Shape *q = &c->in[0].shape, *k = &c->in[1].shape, *v = &c->in[2].shape;
    const uint32_t n = q->rank;
    if (!rule_dtypes(c, CLS_FLOAT, 3) || !rule_rank(c, 0, 3, SHAPE_MAX_RANK) || !rule_rank(c, 1, n, n) ||
        !rule_rank(c, 2, n, n))
        return false;
    for (uint32_t i = 0; i + 3 < n; i++)
        if (!rule_dims_equal(c, q->dim[i], k->dim[i], "batch sizes of query and key") ||
            !rule_dims_equal(c, q->dim[i], v->dim[i], "batch sizes of query and value"))
            return false;
    if (q->dim[n - 1] == 0)
        return shape_fail(c, E0204, "the head size must not be 0");
    return check_heads(c, q->dim[n - 3], k->dim[n - 3]) &&
           rule_dims_equal(c, k->dim[n - 3], v->dim[n - 3], "heads of key and value") &&
           rule_dims_equal(c, q->dim[n - 1], k->dim[n - 1], "head sizes of query and key") &&
           rule_dims_equal(c, k->dim[n - 2], v->dim[n - 2], "sequence lengths of key and value");
}

// Far less than what indices hold, and further than memory for keys reaches.
static bool check_window(ShapeCtx *c, AttrId id)
{
    const int64_t n = shape_attr(c, id)->u.i;
    return (n >= -1 && n <= 1 << 28) ||
           shape_fail(c, E0203, "a window of %lld keys is not from -1 to 2^28", (long long)n);
}

// The operands but for the places that `left` and `right` count from; out: shape of the result.
static bool check_attention(ShapeCtx *c, Shape *out)
{
    if (!check_qkv(c))
        return false;
    const Shape *q = &c->in[0].shape;
    const uint32_t n = q->rank;
    if (rule_has(c, 3)) {
        Shape scores = *q;
        scores.dim[n - 1] = c->in[1].shape.dim[n - 2];
        if (c->in[3].dtype != DTYPE_bool && c->in[3].dtype != c->in[0].dtype)
            return shape_fail(c, E0205, "the mask must be bool or of the type of the query");
        if (!rule_broadcasts_to(c, 3, &scores))
            return false;
    }
    *out = *q;
    out->dim[n - 1] = c->in[2].shape.dim[n - 1];
    return check_count(c, 4, "keys") && check_count(c, 5, "keys before the first query");
}

bool shape_attention(ShapeCtx *c)
{
    Shape out;
    if (!check_attention(c, &out) || !check_window(c, A_attention_left) ||
        !check_window(c, A_attention_right))
        return false;
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}

bool shape_attention_part(ShapeCtx *c)
{
    const int64_t splits = shape_attr(c, A_attention_part_splits)->u.i;
    Shape out;
    if (!check_attention(c, &out) || !check_window(c, A_attention_part_left) ||
        !check_window(c, A_attention_part_right))
        return false;
    if (splits < 1 || splits > ATTENTION_MAX_PARTS || out.rank == SHAPE_MAX_RANK)
        return shape_fail(c, E0203, "the parts are not 1 to %d, or there are %d axes", ATTENTION_MAX_PARTS,
                          SHAPE_MAX_RANK);
    out.dim[out.rank] = dim_add(c->g->dims, out.dim[out.rank - 1], ATTENTION_PART_EXTRA);
    out.dim[out.rank - 1] = splits;
    out.rank++;
    rule_out(c, 0, c->in[0].dtype == DTYPE_f64 ? DTYPE_f64 : DTYPE_f32, &out);
    return true;
}

bool shape_attention_merge(ShapeCtx *c)
{
    if (!rule_dtypes(c, CLS_FLOAT, 1) || !rule_rank(c, 0, 4, SHAPE_MAX_RANK))
        return false;
    const DType to = (DType)shape_attr(c, A_attention_merge_to)->u.i;
    Shape out = c->in[0].shape;
    const Dim last = out.dim[out.rank - 1];
    if (dtype_info[to].cls != DCLASS_FLOAT)
        return shape_fail(c, E0205, "the result must be of floats");
    if (!dim_is_const(last) || last < ATTENTION_PART_EXTRA || out.dim[out.rank - 2] == 0)
        return shape_fail(c, E0204, "these are no parts of attention");
    out.rank--;
    out.dim[out.rank - 1] = last - ATTENTION_PART_EXTRA;
    rule_out(c, 0, to, &out);
    return true;
}

bool shape_rope(ShapeCtx *c)
{
    if (!rule_dtypes(c, CLS_FLOAT, 3) || !rule_rank(c, 0, 1, SHAPE_MAX_RANK))
        return false;
    Shape half = c->in[0].shape;
    Dim *last = &half.dim[half.rank - 1];
    if (dim_mod(c->g->dims, *last, 2) != 0)
        return shape_fail(c, E0204, "the last axis must have an even size, not %s", rule_dim_text(c, *last));
    *last = dim_floor_div(c->g->dims, *last, 2);
    if (!rule_broadcasts_to(c, 1, &half) || !rule_broadcasts_to(c, 2, &half))
        return false;
    c->out[0] = c->in[0];
    return true;
}

// --- lstm ---

// Operand i, where present, has the shape of n dims.
static bool check_shape(ShapeCtx *c, uint32_t i, uint32_t n, const Dim *dim)
{
    const Shape want = shape_of(n, dim);
    if (!rule_has(c, i) || shape_equal(&c->in[i].shape, &want))
        return true;
    return shape_fail(c, E0204, "operand %u must have the shape %s", i, rule_shape_text(c, &want));
}

bool shape_lstm(ShapeCtx *c)
{
    DimTable *t = c->g->dims;
    enum { STEPS = 7 };
    const Shape one = {0};
    if (!rule_dtypes(c, CLS_FLOAT, c->n_src < STEPS ? c->n_src : STEPS) || !rule_rank(c, 0, 3, 3) ||
        !rule_rank(c, 1, 3, 3) || !rule_rank(c, 2, 3, 3))
        return false;
    if (rule_has(c, STEPS) && (c->in[STEPS].dtype != DTYPE_i64 || !shape_equal(&c->in[STEPS].shape, &one)))
        return shape_fail(c, E0204, "operand %d must be i64[]", STEPS);
    const char *direction = shape_attr(c, A_lstm_direction)->u.str;
    const bool is_both = str_equal(direction, "bidirectional");
    if (!is_both && !str_equal(direction, "forward") && !str_equal(direction, "reverse"))
        return shape_fail(c, E0203, "`direction` is \"%s\", expected forward, reverse or bidirectional",
                          direction);
    const bool batch_major = shape_attr(c, A_lstm_batch_major)->u.i != 0;
    const Shape *x = &c->in[0].shape;
    const Dim dirs = is_both ? 2 : 1, seq = x->dim[batch_major ? 1 : 0], batch = x->dim[batch_major ? 0 : 1];
    const Dim hidden = c->in[2].shape.dim[2], gates = dim_mul(t, hidden, 4);
    const Dim state[3] = {batch_major ? batch : dirs, batch_major ? dirs : batch, hidden};
    if (!check_shape(c, 1, 3, (const Dim[]){dirs, gates, x->dim[2]}) ||
        !check_shape(c, 2, 3, (const Dim[]){dirs, gates, hidden}) ||
        !check_shape(c, 3, 2, (const Dim[]){dirs, dim_mul(t, gates, 2)}) || !check_shape(c, 4, 3, state) ||
        !check_shape(c, 5, 3, state) || !check_shape(c, 6, 2, (const Dim[]){dirs, dim_mul(t, hidden, 3)}))
        return false;
    const Shape y = batch_major ? shape_of(4, (const Dim[]){batch, seq, dirs, hidden})
                                : shape_of(4, (const Dim[]){seq, dirs, batch, hidden});
    const Shape last = shape_of(3, state);
    rule_out(c, 0, c->in[0].dtype, &y);
    rule_out(c, 1, c->in[0].dtype, &last);
    rule_out(c, 2, c->in[0].dtype, &last);
    return true;
}
