// SPDX-License-Identifier: Apache-2.0
// Strings in lower or upper case, for the letters of onnx_case.h.
#include "compiler/import/onnx/text/onnx_case.h"
#include "compiler/import/onnx/onnx_text.h"

static NodeId byte_in(OnnxNode *n, NodeId bytes, double low, double high)
{
    return onnx_op2(n, OP_logical_and, onnx_op2(n, OP_ge, bytes, onnx_scalar(n, DTYPE_i32, low)),
                    onnx_op2(n, OP_le, bytes, onnx_scalar(n, DTYPE_i32, high)));
}

// The code point of two bytes of UTF-8.
static NodeId pair(OnnxNode *n, NodeId lead, NodeId more)
{
    const NodeId high = onnx_op2(n, OP_bit_and, lead, onnx_scalar(n, DTYPE_i32, 0x1f));
    const NodeId low = onnx_op2(n, OP_bit_and, more, onnx_scalar(n, DTYPE_i32, 0x3f));
    return onnx_op2(n, OP_bit_or, onnx_op2(n, OP_mul, high, onnx_scalar(n, DTYPE_i32, 64)), low);
}

static NodeId case_table(OnnxNode *n, bool to_upper)
{
    int32_t *map = ARENA_ARRAY(n->model->arena, int32_t, CASE_POINTS);
    for (uint32_t c = 0; c < CASE_POINTS; c++)
        map[c] = (int32_t)(to_upper ? case_upper(c) : case_lower(c));
    const Shape s = {.rank = 1, .dim = {CASE_POINTS}};
    return onnx_const(n, DTYPE_i32, &s, map, CASE_POINTS * sizeof *map);
}

// A letter of two bytes has as many in the other case, so every byte is found from itself and a neighbour.
NodeId onnx_text_change_case(OnnxNode *n, NodeId text, bool to_upper)
{
    const NodeId byte = onnx_cast(n, text, DTYPE_i32);
    const NodeId before = onnx_cast(n, onnx_text_shift(n, text, 1), DTYPE_i32);
    const NodeId after = onnx_cast(n, onnx_text_shift(n, text, -1), DTYPE_i32);
    const NodeId is_lead = byte_in(n, byte, 0xc2, 0xdf), is_second = byte_in(n, before, 0xc2, 0xdf);
    const NodeId single = onnx_op2(n, OP_bit_and, byte, onnx_scalar(n, DTYPE_i32, 0x7f));
    const NodeId second = onnx_op3(n, OP_where, is_second, pair(n, before, byte), single);
    const NodeId point = onnx_op3(n, OP_where, is_lead, pair(n, byte, after), second);
    const NodeId other = onnx_gather(n, case_table(n, to_upper), point, 0);
    const NodeId high = onnx_op2(n, OP_div, other, onnx_scalar(n, DTYPE_i32, 64));
    const NodeId low = onnx_op2(n, OP_bit_and, other, onnx_scalar(n, DTYPE_i32, 0x3f));
    const NodeId as_lead = onnx_op2(n, OP_bit_or, high, onnx_scalar(n, DTYPE_i32, 0xc0));
    const NodeId as_second = onnx_op2(n, OP_bit_or, low, onnx_scalar(n, DTYPE_i32, 0x80));
    const NodeId is_ascii = onnx_op2(n, OP_lt, byte, onnx_scalar(n, DTYPE_i32, 0x80));
    NodeId out = onnx_op3(n, OP_where, is_ascii, other, byte);
    out = onnx_op3(n, OP_where, is_second, as_second, out);
    out = onnx_op3(n, OP_where, is_lead, as_lead, out);
    return onnx_cast(n, out, DTYPE_u8);
}
