// SPDX-License-Identifier: Apache-2.0
// Cast and its relatives. Our cast to a narrow float lets what is too large become infinity or NaN; what
// ONNX's attributes ask for beside that is computed before it.
#include "compiler/import/onnx/onnx_import.h"
#include "ir/graph/small_float.h"

#include <ctype.h>
#include <math.h>

static bool is_float(DType t)
{
    return dtype_info[t].cls == DCLASS_FLOAT;
}

// |x| at most the largest number of the type; NaN stays.
static NodeId clamped(OnnxNode *n, NodeId x, double low, double high)
{
    const DType t = onnx_dtype(n, x);
    return onnx_op3(n, OP_clamp, x, onnx_scalar(n, t, low), onnx_scalar(n, t, high));
}

// A positive f32 to a power of two, on its bits: the fraction goes, or carries into the exponent when it is
// not zero. The least power of f8e8m0 lies below the normal numbers and has no such form.
static NodeId to_power(OnnxNode *n, NodeId x, bool up)
{
    const NodeId least = onnx_scalar(n, DTYPE_f32, 0x1p-127);
    NodeId bits = onnx_bitcast(n, x, DTYPE_i32);
    if (up)
        bits = onnx_op2(n, OP_add, bits, onnx_scalar(n, DTYPE_i32, 0x7fffff));
    bits = onnx_op2(n, OP_bit_and, bits, onnx_scalar(n, DTYPE_i32, -8388608));
    const NodeId power = onnx_bitcast(n, bits, DTYPE_f32);
    return onnx_op3(n, OP_where, onnx_op2(n, OP_gt, x, least), power, x); // NaN is not greater
}

static NodeId cast_to_powers(OnnxNode *n, NodeId x, bool saturate, const char *mode)
{
    x = onnx_cast(n, x, DTYPE_f32);
    if (saturate)
        x = clamped(n, x, 0x1p-127, 0x1p127);
    if (!str_equal(mode, "up") && !str_equal(mode, "down") && !str_equal(mode, "nearest"))
        onnx_fail(n, E0203, "attribute 'round_mode' is '%s', expected up, down or nearest", mode);
    if (!str_equal(mode, "nearest"))
        x = to_power(n, x, str_equal(mode, "up"));
    if (!saturate) {
        const NodeId is_small = onnx_op2(n, OP_lt, x, onnx_scalar(n, DTYPE_f32, 0x1p-127));
        x = onnx_op3(n, OP_where, is_small, onnx_scalar(n, DTYPE_f32, (double)NAN), x);
    }
    return onnx_cast(n, x, DTYPE_f8e8m0);
}

NodeId onnx_cast_mode(OnnxNode *n, NodeId x, DType to, bool saturate, const char *mode)
{
    const DType from = onnx_dtype(n, x);
    if (n->failed || from == to)
        return x;
    if (to == DTYPE_f8e8m0)
        return cast_to_powers(n, x, saturate, mode);
    if (dtype_is_narrow(to) && !is_float(to) && is_float(from)) // wraps, as from other integers
        return onnx_cast(n, onnx_cast(n, x, DTYPE_i32), to);
    if (!dtype_is_narrow(to) || !is_float(to) || !saturate || to == DTYPE_f4e2m1)
        return onnx_cast(n, x, to);
    if (!is_float(from) || dtype_is_narrow(from))
        x = onnx_cast(n, x, DTYPE_f32);
    const double most = small_float_max(to);
    return onnx_cast(n, clamped(n, x, -most, most), to);
}

static void cast_with_attrs(OnnxNode *n, NodeId x, DType to)
{
    const bool saturate = onnx_flag(n, "saturate", 1);
    const char *mode = onnx_str(n, "round_mode", "up");
    onnx_out(n, 0, onnx_cast_mode(n, x, to, saturate, mode));
}

// Before opset 6 the type is the name that its number has now.
static DType named_type(OnnxNode *n)
{
    const char *name = onnx_str(n, "to", "");
    for (int32_t i = 1; i < 32; i++) {
        const char *text = onnx_dtype_text(i);
        size_t k = 0;
        DType t = DTYPE_f32;
        while (text[k] && toupper((unsigned char)text[k]) == name[k])
            k++;
        if (!text[k] && !name[k] && onnx_dtype_of(i, &t))
            return t;
    }
    onnx_fail(n, E0206, "element type '%s' is not supported", name);
    return DTYPE_f32;
}

void onnx_import_cast(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    onnx_need_attr(n, "to");
    cast_with_attrs(n, x, n->opset < 6 ? named_type(n) : onnx_type_attr(n, "to", DTYPE_f32));
}

void onnx_import_cast_like(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), like = onnx_src(n, 1);
    cast_with_attrs(n, x, onnx_dtype(n, like));
}

void onnx_import_bit_cast(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    onnx_need_attr(n, "to");
    onnx_out(n, 0, onnx_bitcast(n, x, onnx_type_attr(n, "to", DTYPE_f32)));
}
