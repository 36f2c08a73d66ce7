// SPDX-License-Identifier: Apache-2.0
// Products with matrices: FULLY_CONNECTED, whose weights are [O, I], and BATCH_MATMUL.
#include "compiler/import/tflite/tfl_import.h"

// As a convolution over one pixel: [N, O, 1].
static NodeId convolve_rows(TflNode *n, NodeId rows, NodeId weight, NodeId bias, NodeId a_zero, NodeId b_zero)
{
    const int64_t inner = tfl_size(n, weight, 1), outer = tfl_size(n, weight, 0);
    const NodeId a = tfl_reshape(n, rows, (const Dim[]){-1, inner, 1}, 3);
    const NodeId b = tfl_reshape(n, weight, (const Dim[]){outer, inner, 1}, 3);
    if (n->failed)
        return 0;
    NodeBuild build = tfl_begin(n, OP_int_conv);
    node_src(&build, a);
    node_src(&build, b);
    node_src(&build, bias);
    node_src(&build, a_zero);
    node_src(&build, b_zero);
    return tfl_end(n, &build);
}

static NodeId as_rows(TflNode *n, NodeId sums, NodeId weight)
{
    return tfl_reshape(n, sums, (const Dim[]){-1, tfl_size(n, weight, 0)}, 2);
}

NodeId tfl_byte_rows(TflNode *n, NodeId rows, NodeId weight, NodeId bias, const TflTensor *x,
                     const TflTensor *w)
{
    const NodeId a_zero = tfl_zero_point(n, x), b_zero = tfl_zero_point(n, w);
    return as_rows(n, convolve_rows(n, rows, weight, bias, a_zero, b_zero), weight);
}

NodeId tfl_wide_rows(TflNode *n, NodeId rows, NodeId weight, NodeId bias)
{
    enum { BITS = 8 };
    const NodeId wide = tfl_cast(n, rows, DTYPE_i32); // ONNX Runtime shifts no 16-bit numbers
    const NodeId upper = tfl_cast(n, tfl_op_number(n, OP_shift_right, wide, BITS), DTYPE_i8);
    const NodeId lower = tfl_cast(n, tfl_op_number(n, OP_bit_and, wide, UINT8_MAX), DTYPE_u8);
    const NodeId high = tfl_cast(n, convolve_rows(n, upper, weight, 0, 0, 0), DTYPE_i64);
    const NodeId low = tfl_cast(n, convolve_rows(n, lower, weight, 0, 0, 0), DTYPE_i64);
    const NodeId both = tfl_op2(n, OP_add, tfl_op_number(n, OP_shift_left, high, BITS), low);
    const NodeId sum = as_rows(n, both, weight);
    return bias ? tfl_op2(n, OP_add, sum, tfl_cast(n, bias, DTYPE_i64)) : sum;
}

static NodeId integer_rows(TflNode *n, NodeId rows, NodeId weight, NodeId bias)
{
    const TflTensor *x = tfl_in(n, 0), *w = tfl_in(n, 1);
    if (tfl_is_byte(x->dtype) && tfl_is_byte(w->dtype))
        return tfl_byte_rows(n, rows, weight, bias, x, w);
    if (x->dtype == DTYPE_i16 && w->dtype == DTYPE_i8 && tfl_size(n, weight, 1) <= TFL_WIDE_MOST &&
        tfl_zero_point(n, x) == 0 && tfl_zero_point(n, w) == 0)
        return tfl_wide_rows(n, rows, weight, bias);
    const NodeId sum =
        tfl_matmul(n, tfl_centred(n, rows, x, DTYPE_i64), tfl_centred(n, weight, w, DTYPE_i64), false, true);
    return bias ? tfl_op2(n, OP_add, sum, tfl_cast(n, bias, DTYPE_i64)) : sum;
}

// Rows of reals times quantised weights.
static NodeId hybrid_rows(TflNode *n, NodeId rows, NodeId weight)
{
    static const int64_t last = 1;
    const TflTensor *w = tfl_in(n, 1);
    NodeId step = 0;
    const NodeId x = (w->type == TFL_I4 ? tfl_dynamic_symmetric : tfl_dynamic)(n, rows, &last, 1, &step);
    const NodeId sum =
        tfl_matmul(n, tfl_cast(n, x, DTYPE_i32), tfl_centred(n, weight, w, DTYPE_i32), false, true);
    const NodeId scale = tfl_op2(n, OP_mul, step, tfl_weight_scale(n, w, tfl_size(n, weight, 0), 0));
    return tfl_op2(n, OP_mul, tfl_cast(n, sum, DTYPE_f32), scale);
}

// XNNPACK has no layers of 16 bits, and packs weights of 4 bits by two. The built-in kernel sums in i32 and
// rounds as products of matrices do, or in i64, if the bias or the options have that type, and rounds once.
static TflRounding rounding_of_rows(TflNode *n, int64_t inner, int64_t sums)
{
    enum { TYPE_I64 = 4 };
    if (tfl_in(n, 0)->dtype == DTYPE_i16)
        return (tfl_has(n, 2) ? tfl_in(n, 2)->dtype == DTYPE_i64 : sums == TYPE_I64) ? ROUND_ONCE : ROUND_UP;
    if (tfl_in(n, 1)->type == TFL_I4)
        return inner % 2 != 0 ? ROUND_UP : ROUND_REAL;
    return ROUND_BY_TYPE;
}

void tfl_import_fully_connected(TflNode *n)
{
    const int64_t activation = tfl_option(n, 0, FLAT_I8, 0), format = tfl_option(n, 1, FLAT_I8, 0);
    const bool keeps = tfl_option(n, 2, FLAT_U8, 0) != 0;
    tfl_ignore(n, 3); // how reals are rounded to bytes: as the default path does it
    const int64_t sums = tfl_option(n, 4, FLAT_I8, 0);
    const NodeId x = tfl_src(n, 0), weight = tfl_src(n, 1);
    const int64_t inner = tfl_size(n, weight, 1), outer = tfl_size(n, weight, 0);
    const NodeId bias = tfl_has(n, 2) ? tfl_reshape(n, tfl_src(n, 2), &outer, 1) : 0;
    if (!n->failed && (tfl_rank(n, weight) != 2 || inner < 1 || tfl_rank(n, x) < 1))
        tfl_fail(n, E0204, "expected weights [out, in]");
    if (format != 0)
        tfl_fail(n, E0206, "weights in the order %lld are not supported", (long long)format);
    const NodeId rows = tfl_reshape(n, x, (const Dim[]){-1, inner}, 2);
    NodeId y = 0;
    if (n->failed)
        return;
    if (dtype_info[tfl_type(n, x)].cls != DCLASS_FLOAT) {
        const TflProduct p = {.x = tfl_in(n, 0),
                              .w = tfl_in(n, 1),
                              .channels = outer,
                              .activation = activation,
                              .is_narrow = tfl_is_narrow(n, tfl_in(n, 0), 2, sums),
                              .is_matrix = true,
                              .rounding = rounding_of_rows(n, inner, sums)};
        y = tfl_rescale(n, integer_rows(n, rows, weight, bias), &p);
    } else {
        y = tfl_is_quantised(tfl_in(n, 1))
                ? hybrid_rows(n, rows, weight)
                : tfl_matmul(n, rows, tfl_float_weight(n, weight, tfl_in(n, 1), rows), false, true);
        y = tfl_activate(n, bias ? tfl_op2(n, OP_add, y, tfl_cast(n, bias, tfl_type(n, y))) : y, activation);
    }
    Shape s = *tfl_shape(n, x);
    if (keeps && !n->failed) {
        s.dim[s.rank - 1] = outer;
        y = tfl_reshape_like(n, y, &s);
    }
    tfl_out(n, 0, y);
}

// Integers are multiplied as i32 (bytes) or i64.
void tfl_import_batch_matmul(TflNode *n)
{
    const bool adj_x = tfl_option(n, 0, FLAT_U8, 0) != 0, adj_y = tfl_option(n, 1, FLAT_U8, 0) != 0;
    tfl_ignore(n, 2);
    const NodeId a = tfl_src(n, 0), b = tfl_src(n, 1);
    const TflTensor *x = tfl_in(n, 0), *y = tfl_in(n, 1);
    if (n->failed)
        return;
    if (!tfl_is_quantised(x)) {
        tfl_out(n, 0, tfl_matmul(n, a, tfl_is_quantised(y) ? tfl_dequantise(n, b, y) : b, adj_x, adj_y));
        return;
    }
    const DType sums = tfl_is_byte(x->dtype) ? DTYPE_i32 : DTYPE_i64;
    const bool is_built_in = !tfl_is_byte(x->dtype) || tfl_zero_point(n, y) != 0; // not XNNPACK's
    const TflProduct p = {.x = x,
                          .w = y,
                          .channels = 1,
                          .is_matrix = true,
                          .rounding = tfl_is_byte(x->dtype) && is_built_in ? ROUND_TWICE : ROUND_BY_TYPE};
    const NodeId sum = tfl_matmul(n, tfl_centred(n, a, x, sums), tfl_centred(n, b, y, sums), adj_x, adj_y);
    tfl_out(n, 0, tfl_rescale(n, sum, &p));
}
