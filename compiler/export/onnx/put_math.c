// SPDX-License-Identifier: Apache-2.0
// Reductions, searches, norms, products and LSTMs as ONNX.
#include "compiler/export/onnx/put.h"

enum { MOST_ONES = 1 << 16 }; // that are written as they are

// ONNX Runtime has products and sums of few integer types: others are computed in a wider one, cut
// afterwards, which gives the same bits.
static DType computed_in(DType t)
{
    if (t == DTYPE_u32)
        return DTYPE_i64;
    return put_is_float(t) || dtype_info[t].bytes > 2 ? t : DTYPE_i32;
}

// --- reductions ----------------------------------------------------------------------------------

static Value reduce_in(Put *w, const char *type, DType t)
{
    const Value x = put_cast(w, put_src(w, 0), put_type(w, 0), t);
    Onnx__NodeProto *n = put_begin(w, type, (const Value[]){x, put_attr_list(w, "axes")}, 2);
    put_copy_int(w, n, "keepdims", "keepdims");
    return put_result(w, n);
}

// How many elements a mean is of: i64[].
static Value count_reduced(Put *w)
{
    const AttrVal *axes = put_get_list(w, "axes");
    const Shape *s = put_shape(w, 0);
    Value all = put_number(w, DTYPE_i64, 1);
    for (uint32_t i = 0; i < (axes->len != 0 ? axes->len : s->rank); i++) {
        const Dim d = s->dim[axes->len != 0 ? axes->u.ints[i] : i];
        all = put_op2(w, "Mul", all, put_reshape(w, put_dim(w, d), NULL, 0));
    }
    return all;
}

Value put_reduce(Put *w, const char *type)
{
    const DType t = put_type(w, 0);
    if (put_node(w)->op != OP_reduce_mean || put_is_float(t))
        return put_cast(w, reduce_in(w, type, computed_in(t)), computed_in(t), t);
    const Value sum = reduce_in(w, "ReduceSum", DTYPE_i64);
    return put_cast(w, put_op2(w, "Div", sum, count_reduced(w)), DTYPE_i64, t);
}

Value put_search(Put *w, const char *type)
{
    const DType t = put_type(w, 0), wide = computed_in(t);
    const Value x = put_cast(w, put_src(w, 0), t, wide);
    Onnx__NodeProto *n = put_begin(w, type, &x, 1);
    put_copy_int(w, n, "axis", "axis");
    put_copy_int(w, n, "keepdims", "keepdims");
    return put_result(w, n);
}

Value put_running(Put *w, const char *type)
{
    const DType t = put_type(w, 0), wide = computed_in(t);
    const Value axis = put_number(w, DTYPE_i64, (double)put_get(w, "axis"));
    const Value x = put_cast(w, put_src(w, 0), t, wide);
    Onnx__NodeProto *n = put_begin(w, type, (const Value[]){x, axis}, 2);
    put_copy_int(w, n, "exclusive", "exclusive");
    put_copy_int(w, n, "reverse", "reverse");
    if (put_node(w)->op == OP_cumprod)
        put_since(w, 26);
    return put_cast(w, put_result(w, n), wide, t);
}

Value put_top_k(Put *w, const char *type)
{
    const Value k = put_dims(w, put_get_list(w, "k")->u.ints, 1);
    Onnx__NodeProto *n = put_begin(w, type, (const Value[]){put_src(w, 0), k}, 2);
    put_copy_int(w, n, "axis", "axis");
    put_copy_int(w, n, "largest", "largest");
    const Value values = put_result(w, n);
    put_more(w, 1, put_result(w, n));
    return values;
}

// --- norms ---------------------------------------------------------------------------------------

Value put_along(Put *w, const char *type)
{
    const Value x = put_src(w, 0);
    Onnx__NodeProto *n = put_begin(w, type, &x, 1);
    put_copy_int(w, n, "axis", "axis");
    return put_result(w, n);
}

// The axes that are normalised.
static Shape normalised(const Put *w)
{
    const Shape *s = put_shape(w, 0);
    const uint32_t axis = (uint32_t)put_get(w, "axis");
    return shape_of(s->rank - axis, s->dim + axis);
}

static bool is_of_shape(const Put *w, uint32_t i, const Shape *s)
{
    return put_has(w, i) && shape_equal(put_shape(w, i), s);
}

static Value ones(Put *w, const Shape *s)
{
    const DType t = put_type(w, 0);
    if (!shape_is_const(s) || shape_numel(s) > MOST_ONES)
        return put_op2(w, "Expand", put_number(w, t, 1), put_dims(w, s->dim, s->rank));
    Tensor one = tensor_new(&w->file->scratch, t, s->rank, s->dim);
    for (int64_t i = 0; i < one.numel; i++)
        tensor_set_f64(&one, i, 1);
    return put_small(w, &one);
}

// ONNX needs a scale, and wants scale and bias for each element; what broadcasts stands behind the norm.
Value put_norm(Put *w, const char *type)
{
    const Shape s = normalised(w);
    const bool has_scale = is_of_shape(w, 1, &s), has_bias = has_scale && is_of_shape(w, 2, &s);
    const Value in[] = {put_src(w, 0), has_scale ? put_src(w, 1) : ones(w, &s),
                        has_bias ? put_src(w, 2) : ""};
    Onnx__NodeProto *n = put_begin(w, type, in, 3);
    put_copy_int(w, n, "axis", "axis");
    put_float(w, n, "epsilon", put_get_float(w, "epsilon"));
    if (put_node(w)->op == OP_rms_norm)
        put_since(w, 23);
    Value y = put_result(w, n);
    if (put_has(w, 1) && !has_scale)
        y = put_op2(w, "Mul", y, put_src(w, 1));
    return put_has(w, 2) && !has_bias ? put_op2(w, "Add", y, put_src(w, 2)) : y;
}

Value put_batch_norm(Put *w, const char *type)
{
    const Value in[] = {put_src(w, 0), put_src(w, 1), put_src(w, 2), put_src(w, 3), put_src(w, 4)};
    Onnx__NodeProto *n = put_begin(w, type, in, 5);
    put_float(w, n, "epsilon", put_get_float(w, "epsilon"));
    return put_result(w, n);
}

// --- products ------------------------------------------------------------------------------------

// The operand with its last two axes exchanged if it is so.
static Value side(Put *w, uint32_t i, bool is_transposed)
{
    int64_t perm[SHAPE_MAX_RANK];
    const uint32_t rank = put_shape(w, i)->rank;
    const DType t = put_type(w, i);
    const Value x = put_cast(w, put_src(w, i), t, computed_in(t));
    if (!is_transposed || rank < 2)
        return x;
    for (uint32_t k = 0; k < rank; k++)
        perm[k] = k + 2 < rank ? k : k + 2 == rank ? k + 1 : k - 1;
    return put_transpose(w, x, perm, rank);
}

static Value gemm(Put *w, Value bias, bool transpose_a, bool transpose_b)
{
    const Value in[] = {put_src(w, 0), put_src(w, 1), bias};
    Onnx__NodeProto *n = put_begin(w, "Gemm", in, 3);
    if (transpose_a)
        put_int(w, n, "transA", 1);
    if (transpose_b)
        put_int(w, n, "transB", 1);
    return put_result(w, n);
}

// Two matrices of floats.
static bool is_plain(const Put *w)
{
    return put_is_float(put_type(w, 0)) && put_shape(w, 0)->rank == 2 && put_shape(w, 1)->rank == 2;
}

Value put_matmul(Put *w, const char *type)
{
    const bool a = put_get(w, "transpose_a") != 0, b = put_get(w, "transpose_b") != 0;
    const DType t = put_type(w, 0);
    if (put_has(w, 2)) {
        put_fail(w, "a product of which a run decides the inner size has no form in ONNX");
        return "";
    }
    if (is_plain(w) && (a || b))
        return gemm(w, "", a, b);
    return put_cast(w, put_op2(w, type, side(w, 0, a), side(w, 1, b)), computed_in(t), t);
}

Value put_linear(Put *w, const char *type)
{
    (void)type;
    const bool b = put_get(w, "transpose_b") != 0;
    const DType t = put_type(w, 0);
    if (is_plain(w) && (!put_has(w, 2) || put_shape(w, 2)->rank <= 2))
        return gemm(w, put_src(w, 2), false, b);
    const Value y = put_cast(w, put_op2(w, "MatMul", side(w, 0, false), side(w, 1, b)), computed_in(t), t);
    return put_has(w, 2) ? put_op2(w, "Add", y, put_src(w, 2)) : y;
}

// ONNX Runtime's own operator, which many exported language models have.
Value put_qmatmul(Put *w, const char *type)
{
    const Value in[] = {put_src(w, 0), put_src(w, 1), put_src(w, 2), put_src(w, 3)};
    const Shape *x = put_shape(w, 0), *weight = put_shape(w, 1);
    const int64_t bits = put_get(w, "bits"), block = weight->dim[2] * (8 / bits);
    if (block < 16 || (block & (block - 1)) != 0) {
        put_fail(w, "blocks of %lld weights have no form in ONNX", (long long)block);
        return "";
    }
    Onnx__NodeProto *n = put_begin(w, type, in, 4);
    n->domain = arena_strdup(&w->file->scratch, "com.microsoft");
    w->file->has_microsoft = true;
    put_int(w, n, "K", x->dim[x->rank - 1]);
    put_int(w, n, "N", weight->dim[0]);
    put_int(w, n, "bits", bits);
    put_int(w, n, "block_size", block);
    if (put_get(w, "x_bits") != 0)
        put_int(w, n, "accuracy_level", 4);
    return put_result(w, n);
}

// --- LSTM, GRU, RNN -----------------------------------------------------------------------------------

static const int64_t swapped[] = {1, 0, 2};

// ONNX Runtime wants the sequence first, and so does the state its directions.
static Value lstm_operand(Put *w, uint32_t i, bool is_swapped)
{
    return is_swapped && put_has(w, i) ? put_transpose(w, put_src(w, i), swapped, 3) : put_src(w, i);
}

// The number of steps, for each of the batch.
static Value lstm_steps(Put *w, uint32_t operand, bool is_swapped)
{
    const Shape *x = put_shape(w, 0);
    if (!put_has(w, operand))
        return "";
    const Value most = put_dim(w, x->dim[is_swapped ? 1 : 0]), none = put_number(w, DTYPE_i64, 0);
    const Value steps = put_op2(w, "Max", put_op2(w, "Min", put_src(w, operand), most), none);
    return put_op2(w, "Expand", put_cast(w, steps, DTYPE_i64, DTYPE_i32),
                   put_dim(w, x->dim[is_swapped ? 0 : 1]));
}

Value put_recurrent(Put *w, const char *type)
{
    static const int64_t back[] = {2, 0, 1, 3};
    static const char *const relu[] = {"Relu", "Relu"};
    const bool is_swapped = put_get(w, "batch_major") != 0, is_lstm = str_equal(type, "LSTM");
    const Shape *r = put_shape(w, 2);
    const Value in[] = {lstm_operand(w, 0, is_swapped),
                        put_src(w, 1),
                        put_src(w, 2),
                        put_src(w, 3),
                        lstm_steps(w, is_lstm ? 7 : 5, is_swapped),
                        lstm_operand(w, 4, is_swapped),
                        is_lstm ? lstm_operand(w, 5, is_swapped) : "",
                        is_lstm ? put_src(w, 6) : ""};
    if (!dim_is_const(r->dim[2])) {
        put_fail(w, "the size of the state must be a number");
        return "";
    }
    Onnx__NodeProto *n = put_begin(w, type, in, is_lstm ? 8 : 6);
    if (str_equal(type, "GRU"))
        put_int(w, n, "linear_before_reset", put_get(w, "reset_after"));
    else if (!is_lstm && str_equal(put_get_text(w, "activation"), "relu"))
        put_texts(w, n, "activations", relu, (uint64_t)put_shape(w, 1)->dim[0]);
    if (put_get_float(w, "clip") > 0)
        put_float(w, n, "clip", put_get_float(w, "clip"));
    put_int(w, n, "hidden_size", r->dim[2]);
    put_text(w, n, "direction", put_get_text(w, "direction"));
    const Value y = put_result(w, n);
    for (uint32_t i = 1; i < (is_lstm ? 3 : 2); i++) {
        const Value last = put_result(w, n);
        if (put_wants(w, i))
            put_more(w, i, is_swapped ? put_transpose(w, last, swapped, 3) : last);
    }
    return is_swapped ? put_transpose(w, y, back, 4) : y;
}
