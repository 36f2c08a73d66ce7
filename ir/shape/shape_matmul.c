// SPDX-License-Identifier: Apache-2.0
// Shape rules of products of matrices and of what is built on them: matmul, linear, attention, rope, lstm,
// gru.
#include "ir/shape/forms.h"
#include "ir/shape/shape_rules.h"

#include <string.h>

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

MatmulForm matmul_form(const Node *n)
{
    if (n->op != OP_matmul)
        return (MatmulForm){0};
    return (MatmulForm){true, node_get_int(n, A_matmul_transpose_a) != 0,
                        node_get_int(n, A_matmul_transpose_b) != 0};
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

// Keys and values have the type of the query, or 16 bits beside a query of f32.
static bool check_cache_types(ShapeCtx *c)
{
    const DType q = c->in[0].dtype;
    for (uint32_t i = 1; i < 3; i++) {
        const DType t = c->in[i].dtype;
        if (t != q && (q != DTYPE_f32 || (t != DTYPE_f16 && t != DTYPE_bf16)))
            return shape_fail(c, E0205,
                              "operands 0 and %u have different element types: keys and values are of the "
                              "type of the query, or of f16 or bf16 beside a query of f32",
                              i);
    }
    return true;
}

// Leading axes of q, k and v are equal; their last three are [heads, sequence, size].
static bool check_qkv(ShapeCtx *c)
{
    const Shape *q = &c->in[0].shape, *k = &c->in[1].shape, *v = &c->in[2].shape;
    const uint32_t n = q->rank;
    if (!rule_dtypes(c, CLS_FLOAT, 1) || !check_cache_types(c) || !rule_rank(c, 0, 3, SHAPE_MAX_RANK) ||
        !rule_rank(c, 1, n, n) || !rule_rank(c, 2, n, n))
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

// The blocks of keys that a mask of bools for all heads leaves, where nothing else hides keys.
static bool check_blocks(ShapeCtx *c)
{
    if (!rule_has(c, 6))
        return true;
    const bool is_part = c->op == OP_attention_part;
    const AttrId causal = is_part ? A_attention_part_causal : A_attention_causal;
    const AttrId left = is_part ? A_attention_part_left : A_attention_left;
    const AttrId right = is_part ? A_attention_part_right : A_attention_right;
    const TensorType *blocks = &c->in[6], *mask = &c->in[3];
    const uint32_t rank = blocks->shape.rank;
    bool ok = blocks->dtype == DTYPE_i32 && rule_has(c, 3) && mask->dtype == DTYPE_bool && rank >= 1 &&
              mask->shape.rank == rank && !rule_has(c, 4) && shape_attr(c, causal)->u.i == 0 &&
              shape_attr(c, left)->u.i < 0 && shape_attr(c, right)->u.i < 0;
    for (uint32_t i = 0; ok && i + 1 < rank; i++)
        ok = blocks->shape.dim[i] == mask->shape.dim[i] && (i + 2 == rank || mask->shape.dim[i] == 1);
    const Dim n = ok ? blocks->shape.dim[rank - 1] : 0, keys = ok ? mask->shape.dim[rank - 1] : 0;
    return (ok && dim_is_const(n) && dim_is_const(keys) && n > 1 && keys % (n - 1) == 0) ||
           shape_fail(c, E0205, "these are no blocks of a mask of bools, which alone decides");
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
    return check_blocks(c) && check_count(c, 4, "keys") && check_count(c, 5, "keys before the first query");
}

static int64_t int_of(const Node *n, const char *name)
{
    return node_find_attr(n, name)->u.i;
}

AttentionForm attention_form(const Node *n)
{
    const bool is_part = n->op == OP_attention_part;
    if (n->op != OP_attention && !is_part)
        return (AttentionForm){0};
    return (AttentionForm){.is_there = true,
                           .is_causal = int_of(n, "causal") != 0,
                           .is_guarded = int_of(n, "guard") != 0,
                           .is_sparse = int_of(n, "sparse") != 0,
                           .left = int_of(n, "left"),
                           .right = int_of(n, "right"),
                           .splits = is_part ? node_get_int(n, A_attention_part_splits) : 0,
                           .scale = node_get_float(n, node_find_attr(n, "scale")->id),
                           .softcap = node_get_float(n, node_find_attr(n, "softcap")->id)};
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

bool shape_seen_blocks(ShapeCtx *c)
{
    const int64_t block = shape_attr(c, A_seen_blocks_block)->u.i;
    if (!rule_dtypes(c, CLS_BOOL, 1) || !rule_rank(c, 0, 1, SHAPE_MAX_RANK))
        return false;
    if (block < 1)
        return shape_fail(c, E0203, "blocks have one element at least");
    Shape out = c->in[0].shape;
    Dim *last = &out.dim[out.rank - 1];
    *last = dim_add(c->g->dims, dim_ceil_div(c->g->dims, *last, block), 1);
    rule_out(c, 0, DTYPE_i32, &out);
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

// --- rope ---

// Operands behind x.
enum { ROPE_COSINE = 1, ROPE_SINE, ROPE_POSITIONS, ROPE_FACTORS };

// The pairs of an axis of `last` elements. False: reported.
static bool rope_pairs(ShapeCtx *c, Dim last, Dim *pairs)
{
    const int64_t dims = shape_attr(c, A_rope_dims)->u.i, distance = shape_attr(c, A_rope_distance)->u.i;
    const bool has_both = dims != 0 || distance != 0;
    if (dims < 0 || dims % 2 != 0 || dims > SHAPE_MAX_STEP)
        return shape_fail(c, E0203, "`dims` is %lld, expected an even number of elements", (long long)dims);
    if (has_both && (!dim_is_const(last) || dims > last))
        return shape_fail(c, E0204, "the last axis must have a constant size of %lld at least, not %s",
                          (long long)dims, rule_dim_text(c, last));
    if (dims == 0 && dim_mod(c->g->dims, last, 2) != 0)
        return shape_fail(c, E0204, "the last axis must have an even size, not %s", rule_dim_text(c, last));
    *pairs = dims != 0 ? dims / 2 : dim_floor_div(c->g->dims, last, 2);
    if (distance == 0)
        return true;
    if (shape_attr(c, A_rope_interleaved)->u.i != 0)
        return shape_fail(c, E0203, "interleaved pairs have no `distance`");
    return (distance >= *pairs && distance <= last - *pairs) ||
           shape_fail(c, E0203, "`distance` is %lld, expected %lld to %lld: pairs lie in the last axis",
                      (long long)distance, (long long)*pairs, (long long)(last - *pairs));
}

static bool rope_positions(ShapeCtx *c)
{
    Shape places = c->in[0].shape;
    const DTypeClass cls = dtype_info[c->in[ROPE_POSITIONS].dtype].cls;
    places.rank--;
    if (cls != DCLASS_INT && cls != DCLASS_UINT)
        return shape_fail(c, E0205, "the positions must be integers");
    return rule_broadcasts_to(c, ROPE_POSITIONS, &places);
}

// A table of one row at least, with a column for each pair.
static bool rope_table(ShapeCtx *c, uint32_t operand, Dim pairs)
{
    const Shape *s = &c->in[operand].shape;
    if (!rule_rank(c, operand, 2, 2) ||
        !rule_dims_equal(c, s->dim[1], pairs, "columns of a table and pairs:"))
        return false;
    return s->dim[0] != 0 || shape_fail(c, E0204, "operand %u, a table of positions, has no row", operand);
}

static bool rope_tables(ShapeCtx *c, Dim pairs)
{
    const DType x = c->in[0].dtype;
    Shape half = c->in[0].shape;
    half.dim[half.rank - 1] = pairs;
    if (rule_has(c, ROPE_FACTORS))
        return shape_fail(c, E0202, "frequency factors need `theta`");
    for (uint32_t i = ROPE_COSINE; i <= ROPE_SINE; i++) {
        if (!rule_has(c, i))
            return shape_fail(c, E0202, "operand %u is missing: without `theta` rope needs cos and sin", i);
        const DType t = c->in[i].dtype;
        if (t != x && (t != DTYPE_f32 || (x != DTYPE_f16 && x != DTYPE_bf16)))
            return shape_fail(c, E0205, "operands 0 and %u have different element types", i);
        if (!(rule_has(c, ROPE_POSITIONS) ? rope_table(c, i, pairs) : rule_broadcasts_to(c, i, &half)))
            return false;
    }
    return true;
}

static double rope_theta(ShapeCtx *c)
{
    double theta;
    memcpy(&theta, &shape_attr(c, A_rope_theta)->u.f64_bits, sizeof theta);
    return theta;
}

static bool rope_angles(ShapeCtx *c, Dim pairs)
{
    const double theta = rope_theta(c);
    const int64_t denominator = shape_attr(c, A_rope_denominator)->u.i;
    if (!(theta > 0) || theta > 1e30 || denominator < 0)
        return shape_fail(c, E0203, "`theta` is to be above 0, and `denominator` not negative");
    if (!dim_is_const(pairs) || pairs == 0)
        return shape_fail(c, E0207, "the last axis needs a constant size of 2 at least");
    if (rule_has(c, ROPE_COSINE) || rule_has(c, ROPE_SINE) || !rule_has(c, ROPE_POSITIONS))
        return shape_fail(c, E0202, "with `theta` rope needs positions (operand 3), and neither cos nor sin");
    if (!rule_has(c, ROPE_FACTORS))
        return true;
    const Shape want = shape_of(1, &pairs);
    if (c->in[ROPE_FACTORS].dtype != DTYPE_f32)
        return shape_fail(c, E0205, "the frequency factors must be of f32");
    return shape_equal(&c->in[ROPE_FACTORS].shape, &want) ||
           shape_fail(c, E0204, "the frequency factors must have the shape %s", rule_shape_text(c, &want));
}

bool shape_rope(ShapeCtx *c)
{
    Dim pairs = 0;
    if (!rule_dtypes(c, CLS_FLOAT, 1) || !rule_rank(c, 0, 1, SHAPE_MAX_RANK) ||
        !rope_pairs(c, c->in[0].shape.dim[c->in[0].shape.rank - 1], &pairs) ||
        (rule_has(c, ROPE_POSITIONS) && !rope_positions(c)))
        return false;
    const double theta = rope_theta(c);
    if (!(theta < 0 || theta > 0 ? rope_angles(c, pairs) : rope_tables(c, pairs)))
        return false;
    c->out[0] = c->in[0];
    return true;
}

// --- lstm, gru, rnn ---

// Operand i, where present, has the shape of n dims.
static bool check_shape(ShapeCtx *c, uint32_t i, uint32_t n, const Dim *dim)
{
    const Shape want = shape_of(n, dim);
    if (!rule_has(c, i) || shape_equal(&c->in[i].shape, &want))
        return true;
    return shape_fail(c, E0204, "operand %u must have the shape %s", i, rule_shape_text(c, &want));
}

// By op: the form, and which attributes say the rest; -1: none.
typedef struct RecurrentKind {
    OpId op;
    RecurrentForm form;
    int batch_major, direction, clip, resets_after, activation;
} RecurrentKind;

static const RecurrentKind recurrent_kinds[] = {
    {OP_lstm,
     {.gates = 4, .n_states = 2, .peephole = 6, .steps = 7, .sums = 8},
     A_lstm_batch_major,
     A_lstm_direction,
     A_lstm_clip,
     -1,
     -1},
    {OP_gru,
     {.gates = 3, .n_states = 1, .steps = 5, .sums = 6},
     A_gru_batch_major,
     A_gru_direction,
     A_gru_clip,
     A_gru_reset_after,
     -1},
    {OP_rnn,
     {.gates = 1, .n_states = 1, .steps = 5, .sums = 6},
     A_rnn_batch_major,
     A_rnn_direction,
     A_rnn_clip,
     -1,
     A_rnn_activation},
};

static const RecurrentKind *recurrent_kind(uint16_t op)
{
    for (size_t i = 0; i < sizeof recurrent_kinds / sizeof *recurrent_kinds; i++)
        if (recurrent_kinds[i].op == op)
            return &recurrent_kinds[i];
    return NULL;
}

RecurrentForm recurrent_form(const Node *n)
{
    const RecurrentKind *kind = recurrent_kind(n->op);
    if (kind == NULL)
        return (RecurrentForm){0};
    RecurrentForm f = kind->form;
    f.is_batch_major = node_get_int(n, kind->batch_major);
    f.direction = node_get_str(n, kind->direction);
    f.clip = node_get_float(n, kind->clip);
    f.resets_after = kind->resets_after >= 0 && node_get_int(n, kind->resets_after);
    f.is_relu = kind->activation >= 0 && str_equal(node_get_str(n, kind->activation), "relu");
    return f;
}

static bool check_direction(ShapeCtx *c, const char *direction)
{
    if (str_equal(direction, "bidirectional") || str_equal(direction, "forward") ||
        str_equal(direction, "reverse"))
        return true;
    return shape_fail(c, E0203, "`direction` is \"%s\", expected forward, reverse or bidirectional",
                      direction);
}

static bool recurrent(ShapeCtx *c, const RecurrentForm *f)
{
    DimTable *t = c->g->dims;
    const uint32_t steps = f->steps;
    const Shape one = {0};
    if (!rule_dtypes(c, CLS_FLOAT, c->n_src < steps ? c->n_src : steps) || !rule_rank(c, 0, 3, 3) ||
        !rule_rank(c, 1, 3, 3) || !rule_rank(c, 2, 3, 3))
        return false;
    if (rule_has(c, steps) && (c->in[steps].dtype != DTYPE_i64 || !shape_equal(&c->in[steps].shape, &one)))
        return shape_fail(c, E0204, "operand %u must be i64[]", steps);
    if (!check_direction(c, f->direction))
        return false;
    if (rule_has(c, f->sums) && c->in[f->sums].dtype != DTYPE_f32)
        return shape_fail(c, E0205, "operand %u must be f32", f->sums);
    const bool batch_major = f->is_batch_major;
    const Shape *x = &c->in[0].shape;
    const Dim dirs = str_equal(f->direction, "bidirectional") ? 2 : 1;
    const Dim seq = x->dim[batch_major ? 1 : 0], batch = x->dim[batch_major ? 0 : 1];
    const Dim hidden = c->in[2].shape.dim[2], gates = dim_mul(t, hidden, f->gates);
    const Dim state[3] = {batch_major ? batch : dirs, batch_major ? dirs : batch, hidden};
    if (!check_shape(c, 1, 3, (const Dim[]){dirs, gates, x->dim[2]}) ||
        !check_shape(c, 2, 3, (const Dim[]){dirs, gates, hidden}) ||
        !check_shape(c, 3, 2, (const Dim[]){dirs, dim_mul(t, gates, 2)}))
        return false;
    if (!check_shape(c, f->sums, 3, (const Dim[]){x->dim[0], x->dim[1], dim_mul(t, gates, dirs)}))
        return false;
    for (uint32_t i = 0; i < f->n_states; i++)
        if (!check_shape(c, RECURRENT_H0 + i, 3, state))
            return false;
    if (f->peephole != 0 && !check_shape(c, f->peephole, 2, (const Dim[]){dirs, dim_mul(t, hidden, 3)}))
        return false;
    const Shape y = batch_major ? shape_of(4, (const Dim[]){batch, seq, dirs, hidden})
                                : shape_of(4, (const Dim[]){seq, dirs, batch, hidden});
    const Shape last = shape_of(3, state);
    rule_out(c, 0, c->in[0].dtype, &y);
    for (uint32_t i = 0; i < f->n_states; i++)
        rule_out(c, 1 + i, c->in[0].dtype, &last);
    return true;
}

static bool recurrent_of(ShapeCtx *c, OpId op)
{
    const RecurrentKind *kind = recurrent_kind(op);
    RecurrentForm f = kind->form;
    f.is_batch_major = shape_attr(c, kind->batch_major)->u.i != 0;
    f.direction = shape_attr(c, kind->direction)->u.str;
    const char *activation = kind->activation < 0 ? "tanh" : shape_attr(c, kind->activation)->u.str;
    if (!str_equal(activation, "tanh") && !str_equal(activation, "relu"))
        return shape_fail(c, E0203, "`activation` is \"%s\", expected tanh or relu", activation);
    memcpy(&f.clip, &shape_attr(c, kind->clip)->u.f64_bits, sizeof f.clip);
    if (!(f.clip >= 0))
        return shape_fail(c, E0203, "`clip` must not be negative");
    return recurrent(c, &f);
}

bool shape_lstm(ShapeCtx *c)
{
    return recurrent_of(c, OP_lstm);
}

bool shape_gru(ShapeCtx *c)
{
    return recurrent_of(c, OP_gru);
}

bool shape_rnn(ShapeCtx *c)
{
    return recurrent_of(c, OP_rnn);
}
