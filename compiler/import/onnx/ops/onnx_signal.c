// SPDX-License-Identifier: Apache-2.0
// Windows and the mel filter bank, computed in f64 by nodes, which fold into constants while they are small.
#include "compiler/import/onnx/onnx_import.h"

static NodeId f64(OnnxNode *n, double v)
{
    return onnx_scalar(n, DTYPE_f64, v);
}

static NodeId op_f64(OnnxNode *n, OpId op, NodeId a, double b)
{
    return onnx_op2(n, op, a, f64(n, b));
}

// A scalar operand that is a size: a number or symbolic.
static Dim read_size(OnnxNode *n, uint32_t operand)
{
    OnnxDims dims;
    if (!onnx_src_dims(n, operand, &dims))
        return 0;
    if (dims.n != 1) {
        onnx_fail(n, E0203, "input %u must be one number, found %u", operand, dims.n);
        return 0;
    }
    if (dim_is_const(dims.dim[0]) && (dims.dim[0] < 0 || dims.dim[0] > DIM_MAX_VALUE)) {
        onnx_fail(n, E0203, "input %u cannot be a size: its value is %lld", operand, (long long)dims.dim[0]);
        return 0;
    }
    return dims.dim[0];
}

// 0, 1, ... count - 1 as f64.
static NodeId steps(OnnxNode *n, Dim count)
{
    return onnx_cast(n, onnx_iota(n, count), DTYPE_f64);
}

// --- windows: a sum of cosines ---

typedef struct Cosines {
    double constant, first, second; // factors of 1, cos(2 pi i / n), cos(4 pi i / n)
} Cosines;

static void import_window(OnnxNode *n, Cosines c)
{
    static const double turn = 6.283185307179586;
    const Dim size = read_size(n, 0);
    const bool is_periodic = onnx_flag(n, "periodic", 1);
    const DType type = onnx_type_attr(n, "output_datatype", DTYPE_f32);
    if (n->failed)
        return;
    const OnnxDims period = {
        .dtype = DTYPE_i64, .n = 1, .dim = {is_periodic ? size : dim_sub(n->graph->dims, size, 1)}};
    OnnxValue length = {.kind = ONNX_DIMS, .dims = &period};
    const NodeId whole = onnx_cast(n, onnx_value_node(n->scope, &length, n->span), DTYPE_f64);
    const NodeId angle = onnx_op2(n, OP_div, op_f64(n, OP_mul, steps(n, size), turn), whole);
    NodeId w = op_f64(n, OP_mul, onnx_op1(n, OP_cos, angle), c.first);
    if (c.second > 0)
        w = onnx_op2(n, OP_add, w,
                     op_f64(n, OP_mul, onnx_op1(n, OP_cos, op_f64(n, OP_mul, angle, 2)), c.second));
    onnx_out(n, 0, onnx_cast(n, op_f64(n, OP_add, w, c.constant), type));
}

void onnx_import_hann_window(OnnxNode *n)
{
    import_window(n, (Cosines){0.5, -0.5, 0});
}

void onnx_import_hamming_window(OnnxNode *n)
{
    import_window(n, (Cosines){25.0 / 46, -21.0 / 46, 0});
}

void onnx_import_blackman_window(OnnxNode *n)
{
    import_window(n, (Cosines){0.42, -0.5, 0.08});
}

// --- mel filter bank ---

// 2595 log10(1 + hertz / 700)
static NodeId mel_of(OnnxNode *n, uint32_t operand)
{
    const NodeId hertz = onnx_reshape(n, onnx_cast(n, onnx_src(n, operand), DTYPE_f64), &(Shape){0});
    const NodeId nepers = onnx_op1(n, OP_log, op_f64(n, OP_add, op_f64(n, OP_div, hertz, 700), 1));
    return op_f64(n, OP_mul, nepers, 2595 / 2.302585092994046);
}

// The bins of the spectrum at which the triangles begin, peak and end, [bands + 2].
static NodeId mel_corners(OnnxNode *n, Dim bands, NodeId dft_length, NodeId rate)
{
    const NodeId low = mel_of(n, 3), high = mel_of(n, 4);
    const Dim count = dim_add(n->graph->dims, bands, 2);
    const OnnxDims parts = {.dtype = DTYPE_i64, .n = 1, .dim = {count}};
    OnnxValue number = {.kind = ONNX_DIMS, .dims = &parts};
    const NodeId all = onnx_cast(n, onnx_value_node(n->scope, &number, n->span), DTYPE_f64);
    const NodeId step = onnx_op2(n, OP_div, onnx_op2(n, OP_sub, high, low), all);
    const NodeId mel = onnx_op2(n, OP_add, onnx_op2(n, OP_mul, steps(n, count), step), low);
    const NodeId power = onnx_op2(n, OP_pow, f64(n, 10), op_f64(n, OP_div, mel, 2595));
    const NodeId hertz = op_f64(n, OP_mul, op_f64(n, OP_sub, power, 1), 700);
    const NodeId per_bin = op_f64(n, OP_add, dft_length, 1);
    return onnx_op1(n, OP_floor, onnx_op2(n, OP_div, onnx_op2(n, OP_mul, hertz, per_bin), rate));
}

static NodeId both(OnnxNode *n, NodeId a, NodeId b)
{
    return onnx_op2(n, OP_logical_and, a, b);
}

// Triangle `b` at bin `j`: rises from its left corner to 1 at the peak, then falls to 0 before the right one.
static NodeId mel_triangles(OnnxNode *n, NodeId corners, NodeId bin)
{
    const NodeId left = onnx_slice(n, corners, 0, 0, -2, 1), peak = onnx_slice(n, corners, 0, 1, -1, 1),
                 right = onnx_slice(n, corners, 0, 2, INT64_MAX, 1), zero = f64(n, 0);
    const NodeId width = onnx_op2(n, OP_sub, peak, left), rest = onnx_op2(n, OP_sub, right, peak);
    const NodeId rising = onnx_op2(n, OP_div, onnx_op2(n, OP_sub, bin, left), width),
                 falling = onnx_op2(n, OP_div, onnx_op2(n, OP_sub, right, bin), rest);
    const NodeId is_up = both(n, onnx_op2(n, OP_ge, bin, left), onnx_op2(n, OP_le, bin, peak));
    const NodeId is_down = both(n, onnx_op2(n, OP_ge, bin, peak), onnx_op2(n, OP_lt, bin, right));
    const NodeId is_steep = onnx_op2(n, OP_eq, width, zero);
    const NodeId up = onnx_op3(n, OP_where, is_steep, f64(n, 1), rising);
    return onnx_op3(n, OP_where, is_down, falling, onnx_op3(n, OP_where, is_up, up, zero));
}

// [dft_length / 2 + 1, bands]
void onnx_import_mel_weights(OnnxNode *n)
{
    const Dim bands = read_size(n, 0), dft = read_size(n, 1);
    const NodeId length = onnx_reshape(n, onnx_cast(n, onnx_src(n, 1), DTYPE_f64), &(Shape){0}),
                 rate = onnx_reshape(n, onnx_cast(n, onnx_src(n, 2), DTYPE_f64), &(Shape){0});
    const DType type = onnx_type_attr(n, "output_datatype", DTYPE_f32);
    if (n->failed)
        return;
    const Dim bins = dim_add(n->graph->dims, dim_floor_div(n->graph->dims, dft, 2), 1);
    const NodeId bin = onnx_unsqueeze(n, steps(n, bins), &(const int64_t){1}, 1);
    const NodeId w = mel_triangles(n, mel_corners(n, bands, length, rate), bin);
    onnx_out(n, 0, onnx_cast(n, w, type));
}
