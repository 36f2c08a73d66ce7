// SPDX-License-Identifier: Apache-2.0
// Quantised operators of com.microsoft: those that compute on floats between dequantisation and quantisation,
// and products of integers with their scales.
#include "compiler/import/onnx/onnx_quant.h"

// Operand i with its scale and zero point behind it, as f32.
static NodeId read_float(OnnxNode *n, uint32_t i)
{
    const NodeId x = onnx_src(n, i), scale = onnx_src(n, i + 1), zero = onnx_opt(n, i + 2);
    const NodeId y = quant_to_f32(n, x, quant_along(n, scale, 1, 0), quant_along(n, zero, 1, 0));
    qdq_remember(n, y, &(OnnxDequantised){x, scale, zero, 0, 0});
    return y;
}

// The result in the scale and with the zero point that operands i and i + 1 are.
static void write_quantised(OnnxNode *n, NodeId y, uint32_t i, DType type)
{
    const NodeId scale = onnx_src(n, i), zero = onnx_opt(n, i + 1);
    onnx_out(n, 0, quant_from_f32(n, y, quant_along(n, scale, 1, 0), quant_along(n, zero, 1, 0), type));
}

// The same of means and softmax, which are integers where the operand is bytes.
static void write_sums(OnnxNode *n, NodeId y, uint32_t i, DType type)
{
    const NodeId scale = onnx_cast(n, quant_along(n, onnx_src(n, i), 1, 0), DTYPE_f32);
    const NodeId zero = quant_along(n, onnx_opt(n, i + 1), 1, 0);
    onnx_out(n, 0, qdq_quantised(n, y, scale, zero, type, true));
}

// What an operator makes of x, with the attributes of this node.
static NodeId through(OnnxNode *n, NodeId x, void (*import)(OnnxNode *n))
{
    if (n->n_out == 0)
        onnx_fail(n, E0202, "has no results");
    if (n->failed)
        return 0;
    n->in[0] = onnx_value(x);
    import(n);
    return n->failed ? 0 : n->out[0].node;
}

void onnx_import_ms_qlinear_binary(OnnxNode *n)
{
    const DType type = onnx_dtype(n, onnx_src(n, 0));
    const NodeId a = read_float(n, 0), b = read_float(n, 3);
    write_quantised(n, onnx_op2(n, n->row_op, a, b), 6, type);
}

void onnx_import_ms_qlinear_sigmoid(OnnxNode *n)
{
    const DType type = onnx_dtype(n, onnx_src(n, 0));
    write_quantised(n, onnx_op1(n, OP_sigmoid, read_float(n, 0)), 3, type);
}

void onnx_import_ms_qlinear_leaky_relu(OnnxNode *n)
{
    const DType type = onnx_dtype(n, onnx_src(n, 0));
    const NodeId slope = onnx_scalar(n, DTYPE_f32, onnx_float(n, "alpha", (double)0.01f));
    write_quantised(n, onnx_op2(n, OP_leaky_relu, read_float(n, 0), slope), 3, type);
}

void onnx_import_ms_qlinear_pool(OnnxNode *n)
{
    const DType type = onnx_dtype(n, onnx_src(n, 0));
    const bool is_last = onnx_flag(n, "channels_last", 0);
    NodeId x = read_float(n, 0);
    if (is_last)
        x = onnx_move_channels(n, x, true);
    const NodeId y =
        through(n, x, n->row_op == OP_avg_pool ? onnx_import_average_pool : onnx_import_elementwise);
    write_sums(n, is_last ? onnx_move_channels(n, y, false) : y, 3, type);
}

// The attribute opset says which Softmax is meant.
void onnx_import_ms_qlinear_softmax(OnnxNode *n)
{
    const DType type = onnx_dtype(n, onnx_src(n, 0));
    const NodeId x = read_float(n, 0);
    n->opset = onnx_int(n, "opset", 13);
    write_sums(n, through(n, x, onnx_import_softmax), 3, type);
}

void onnx_import_ms_qlinear_concat(OnnxNode *n)
{
    const NodeId zero = onnx_src(n, 1);
    const int64_t axis = onnx_int(n, "axis", 0);
    const uint32_t count = n->n_in > 2 ? (n->n_in - 2) / 3 : 0;
    uint32_t at = 0;
    NodeId *part = ARENA_ARRAY(n->model->arena, NodeId, count + 1u);
    if (count == 0 || n->n_in % 3 != 2) {
        onnx_fail(n, E0202, "needs a scale and a zero point, and three inputs for each part");
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        part[i] = read_float(n, 2 + 3 * i);
    if (onnx_axis(n, axis, onnx_shape(n, part[0])->rank, &at))
        write_quantised(n, onnx_concat(n, part, count, at), 0, onnx_dtype(n, zero));
}

void onnx_import_ms_qlinear_where(OnnxNode *n)
{
    const NodeId cond = onnx_src(n, 0);
    const DType type = onnx_dtype(n, onnx_src(n, 1));
    const NodeId x = read_float(n, 1), y = read_float(n, 4);
    write_quantised(n, onnx_op3(n, OP_where, cond, x, y), 7, type);
}

// --- products ---

// sum * scale_a * scale_b, where the scale of a is one number or one a row and that of b one a column.
static NodeId scaled(OnnxNode *n, NodeId sum, NodeId a_scale, NodeId b_scale)
{
    const NodeId factor = onnx_op2(n, OP_mul, quant_along(n, a_scale, 1, 0),
                                   onnx_cast(n, quant_along(n, b_scale, 1, 0), DTYPE_f32));
    return onnx_op2(n, OP_mul, onnx_cast(n, sum, DTYPE_f32), factor);
}

void onnx_import_ms_matmul_integer_to_float(OnnxNode *n)
{
    const NodeId a = onnx_src(n, 0), b = onnx_src(n, 1), a_scale = onnx_src(n, 2), b_scale = onnx_src(n, 3);
    const NodeId sum = quant_matmul(n, a, onnx_opt(n, 4), b, onnx_opt(n, 5));
    onnx_out(n, 0, onnx_join(n, OP_add, scaled(n, sum, a_scale, b_scale), onnx_opt(n, 6)));
}

void onnx_import_ms_dynamic_quantize_matmul(OnnxNode *n)
{
    NodeId scale = 0, zero = 0;
    const NodeId a = quant_dynamic(n, onnx_src(n, 0), &scale, &zero);
    const NodeId b = onnx_src(n, 1), b_scale = onnx_src(n, 2);
    const NodeId sum = quant_matmul(n, a, zero, b, onnx_opt(n, 3));
    onnx_out(n, 0, onnx_join(n, OP_add, scaled(n, sum, scale, b_scale), onnx_opt(n, 4)));
}

// The bias is in steps of the product. Without a scale of the result that stays f32.
void onnx_import_ms_qgemm(OnnxNode *n)
{
    NodeId a = onnx_src(n, 0), b = onnx_src(n, 3);
    const NodeId a_scale = onnx_src(n, 1), a_zero = onnx_opt(n, 2), b_scale = onnx_src(n, 4);
    const NodeId b_zero = onnx_opt(n, 5), bias = onnx_opt(n, 6), y_scale = onnx_opt(n, 7),
                 y_zero = onnx_opt(n, 8);
    const double alpha = onnx_float(n, "alpha", 1);
    const int64_t swap[] = {1, 0};
    if (onnx_int(n, "transA", 0) != 0)
        a = onnx_transpose(n, a, swap);
    if (onnx_int(n, "transB", 0) != 0)
        b = onnx_transpose(n, b, swap);
    const NodeId sum = onnx_join(n, OP_add, quant_matmul(n, a, a_zero, b, b_zero), bias);
    NodeId y = scaled(n, sum, a_scale, b_scale);
    if (alpha < 1 || alpha > 1)
        y = onnx_op2(n, OP_mul, y, onnx_scalar(n, DTYPE_f32, alpha));
    if (!y_scale)
        onnx_out(n, 0, y);
    else
        onnx_out(n, 0,
                 quant_from_f32(n, y, quant_along(n, y_scale, 1, 0), quant_along(n, y_zero, 1, 0),
                                y_zero ? onnx_dtype(n, y_zero) : DTYPE_u8));
}
